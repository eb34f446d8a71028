//! CertificateSigningRequests: what may be asked for, who approves it, and what is signed.
//!
//! Two signers are served. `kubernetes.io/kube-apiserver-client` signs certificates of users as in Kubernetes.
//! `roundhouse.dev/agent` signs certificates of agents and nothing else: of exactly `roundhouse:agent:<cluster>` in the group
//! `roundhouse:agents`. An agent may ask for itself only, and gets its renewal at once, as a kubelet does in Kubernetes;
//! whatever else is asked for waits for somebody who may `approve` for that signer. Signing is part of the write that
//! approves: the server has no tasks of its own.

mod admit;
mod check;
mod keys;
mod request;
mod sign;

pub(crate) use admit::{admit, approve_renewal, decide};
pub(crate) use check::{check_conditions_update, check_request};
pub(crate) use keys::forget_key;
pub(crate) use request::Request;
#[cfg(test)]
pub(crate) use request::parse;
pub(crate) use sign::sign_if_approved;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::object::{at, text};

/// Where requests are stored.
pub(crate) const TABLE: &str = "certificatesigningrequests.certificates.k8s.io";
/// The signer of agents.
pub(crate) const AGENT_SIGNER: &str = "roundhouse.dev/agent";
/// The signer of users.
pub(crate) const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn signer(value: &Value) -> &str {
    text(value, &["spec", "signerName"]).unwrap_or_default()
}

/// The request in an object.
fn request_of(value: &Value) -> Result<Request, &'static str> {
    let encoded = text(value, &["spec", "request"]).unwrap_or_default();
    let pem = STANDARD.decode(encoded).map_err(|_| "illegal base64 data")?;
    request::parse(&pem)
}

fn conditions(value: &Value) -> &[Value] {
    let list = at(value, &["status", "conditions"]).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn condition<'a>(value: &'a Value, ty: &str) -> Option<&'a Value> {
    conditions(value).iter().find(|c| text(c, &["type"]) == Some(ty))
}
