//! CertificateSigningRequests: what may be asked for, who approves it, and what is signed.
//!
//! One signer is served: `kubernetes.io/kube-apiserver-client` signs certificates of users, agents among them, as in
//! Kubernetes. What is asked for waits for somebody who may `approve` for that signer; who may become the agent of a cluster
//! is the hub's to say, here as on any other server. Signing is part of the write that approves: the server has no tasks of its
//! own.

mod admit;
mod check;
mod keys;
mod request;
mod sign;

pub(crate) use admit::{admit, decide};
pub(crate) use check::{check_conditions_update, check_request};
pub use request::CertificateRequest;
#[cfg(test)]
pub(crate) use request::parse;
pub(crate) use sign::sign_if_approved;
#[cfg(feature = "envtest")]
pub(crate) use sign::{conclude, is_to_sign, issue};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::object::{condition, conditions, text};

/// Where requests are stored.
pub(crate) const TABLE: &str = "certificatesigningrequests.certificates.k8s.io";
/// The signer of clients of the API server.
pub(crate) const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn signer(value: &Value) -> &str {
    text(value, &["spec", "signerName"]).unwrap_or_default()
}

/// The request in an object.
fn request_of(value: &Value) -> Result<CertificateRequest, &'static str> {
    let encoded = text(value, &["spec", "request"]).unwrap_or_default();
    let pem = STANDARD.decode(encoded).map_err(|_| "illegal base64 data")?;
    request::parse(&pem)
}
