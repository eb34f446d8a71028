//! What is asked for, in the words of the tests.

mod decided;
mod hub;
mod kept;
mod lived;

use super::{decide::*, *};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use roundhouse_api::{
    cluster::{Cluster, ClusterSpec},
    names::{AGENTS, CLIENT_SIGNER, JOIN_ACCOUNT},
};
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(90 * 86_400);
/// Of the account that invites.
const UID: &str = "11111111-2222-3333-4444-555555555555";
const INVITED: &str = "system:serviceaccount:cluster-c1:roundhouse-join";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The PEM of a request by `key`.
fn pem(key: &KeyPair, user: &str, groups: &[&str], more: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    more(&mut params);
    params.serialize_request(key).unwrap().pem().unwrap().into_bytes()
}

fn csr(name: &str, requester: &str, request: Vec<u8>) -> CertificateSigningRequest {
    let mut csr = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            expiration_seconds: Some(3_600),
            request: ByteString(request),
            signer_name: CLIENT_SIGNER.to_owned(),
            usages: Some(vec!["client auth".to_owned(), "digital signature".to_owned()]),
            username: Some(requester.to_owned()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    csr.metadata.name = Some(name.to_owned());
    csr.spec.uid = requester.contains(JOIN_ACCOUNT).then(|| UID.to_owned());
    csr
}

fn ask(requester: &str, user: &str) -> CertificateSigningRequest {
    let key = KeyPair::generate().unwrap();
    csr(
        "roundhouse-agent-c1",
        requester,
        pem(&key, user, &[AGENTS], |_| ()),
    )
}

/// Cluster c1 with serial 3, invited for an hour.
fn cluster(accepted: bool) -> Cluster {
    Cluster::new(
        "c1",
        ClusterSpec {
            accepted,
            auto_accept: true,
            serial: 3,
            join_until: Some(Time(now() + SignedDuration::from_hours(1))),
            ..ClusterSpec::default()
        },
    )
}

fn claimed(serial: u32, key: &str) -> Cluster {
    let mut cluster = cluster(true);
    let status = cluster.status.get_or_insert_default();
    status.identity = Some(AgentIdentity {
        serial,
        key: Some(key.to_owned()),
        since: Some(Time(now())),
        ..AgentIdentity::default()
    });
    cluster
}

/// What becomes of a request, in a word: `wait`, `approve`, `approve first`, a reason, or `not ours`.
fn judged(csr: &CertificateSigningRequest, cluster: Option<&Cluster>) -> String {
    let Some(requested) = Requested::of(csr) else {
        return "not ours".to_owned();
    };
    match decide(&requested, cluster, Some(UID), LONGEST, now()) {
        Verdict::Wait(_) => "wait".to_owned(),
        Verdict::Approve(None) => "approve".to_owned(),
        Verdict::Approve(Some(_)) => "approve first".to_owned(),
        Verdict::Deny(reason, _) => reason.to_owned(),
    }
}
