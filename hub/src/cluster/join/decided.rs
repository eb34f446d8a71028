//! What a request that was decided tells of the agent that made it.

use crate::cluster::Obstacle;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use roundhouse_api::names::AgentName;
use roundhouse_apiserver::CertificateRequest;

/// How long the signer of an approved request may take before that is said.
const SIGNED_WITHIN: SignedDuration = SignedDuration::from_secs(60);
/// The most of a message that is shown, in characters: whoever denies may write what they like.
const SHOWN: usize = 300;

/// What keeps the agent of this serial from joining, by its request: it was denied, or was approved a while ago and nobody has
/// signed it. And when that may change by itself.
pub(in crate::cluster) fn told_by(
    request: &CertificateSigningRequest,
    serial: u32,
    now: Timestamp,
) -> (Option<Obstacle>, Option<Timestamp>) {
    let Some(status) = &request.status else {
        return (None, None);
    };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let of = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    if let Some(denied) = of("Denied") {
        let shown = |text: &Option<String>| text.iter().flat_map(|text| text.chars()).take(SHOWN).collect();
        let obstacle = Obstacle::Denied(shown(&denied.reason), shown(&denied.message));
        return (is_of(request, serial).then_some(obstacle), None);
    }
    let (Some(approved), None, None) = (of("Approved"), of("Failed"), &status.certificate) else {
        return (None, None);
    };
    let Some(since) = &approved.last_update_time else {
        return (None, None);
    };
    let due = since.0.checked_add(SIGNED_WITHIN).unwrap_or(Timestamp::MAX);
    match now >= due {
        true => (Some(Obstacle::NotSigned), None),
        false => (None, Some(due)),
    }
}

/// Whether a request is of this serial, as far as it says: what was denied to an agent of before is nothing to the next one.
fn is_of(request: &CertificateSigningRequest, serial: u32) -> bool {
    let content = CertificateRequest::parse(&request.spec.request.0).ok();
    let agent = content.and_then(|content| AgentName::parse(content.users.first()?));
    agent.is_none_or(|agent| agent.serial == serial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    /// A request of c1 with serial 3, and its conditions as of second 0.
    fn request(conditions: &[(&str, &str)], certificate: Option<&str>) -> CertificateSigningRequest {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "roundhouse:agent:c1:3");
        let pem = params
            .serialize_request(&KeyPair::generate().unwrap())
            .unwrap()
            .pem()
            .unwrap();
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, reason)| {
                json!({"type": type_, "status": "True", "reason": reason, "message": "x".repeat(1_000),
                    "lastUpdateTime": at(0)})
            })
            .collect();
        let mut request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "roundhouse-agent-c1"},
            "spec": {"request": "", "signerName": "kubernetes.io/kube-apiserver-client"},
            "status": {"conditions": conditions, "certificate": certificate}}))
        .unwrap();
        request.spec.request = ByteString(pem.into_bytes());
        request
    }

    #[test]
    fn what_was_denied_or_never_signed_is_told() {
        let denied = Obstacle::Denied("TooLong".to_owned(), "x".repeat(SHOWN));
        for (why, request, serial, now, expected) in [
            ("not decided", request(&[], None), 3, 0, (None, None)),
            (
                "denied",
                request(&[("Denied", "TooLong")], None),
                3,
                0,
                (Some(denied), None),
            ),
            (
                "denied to the one before",
                request(&[("Denied", "TooLong")], None),
                4,
                0,
                (None, None),
            ),
            (
                "approved",
                request(&[("Approved", "Yes")], None),
                3,
                59,
                (None, Some(at(60))),
            ),
            (
                "not signed",
                request(&[("Approved", "Yes")], None),
                3,
                60,
                (Some(Obstacle::NotSigned), None),
            ),
            (
                "signed",
                request(&[("Approved", "Yes")], Some("YQ==")),
                3,
                60,
                (None, None),
            ),
            (
                "failed",
                request(&[("Approved", "Yes"), ("Failed", "No")], None),
                3,
                60,
                (None, None),
            ),
        ] {
            assert_eq!(told_by(&request, serial, at(now)), expected, "{why}");
        }
    }
}
