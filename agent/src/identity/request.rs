//! The request for a certificate on the hub: what the agent sees there, and what it does about it.

use super::certificate::validity;
use super::error::IdentityError;
use super::stored::Pending;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::core::ObjectMeta;
use roundhouse_api::names::CLIENT_SIGNER;
use std::time::Duration;

/// A certificate that ends within this time is of no use: it is asked for anew.
const USEFUL: SignedDuration = SignedDuration::from_secs(60);

/// What a look at the request tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// There is none.
    Missing,
    /// It is not decided yet.
    Waiting,
    /// It is approved, and there is no certificate. With its uid.
    Unsigned(String),
    /// There will be no certificate that is of use.
    Refused(Refusal),
    /// It is of another key, or its certificate is of no use: it has to go before another can be made. With its uid, and why.
    InTheWay(String, &'static str),
    /// The certificate, PEM, and from when to when it is good.
    Issued {
        certificate: String,
        from: Timestamp,
        until: Timestamp,
    },
}

/// Why a request came to nothing: somebody decided against it, or the signer could not do it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) uid: String,
    /// In one word of the hub's; empty if it has none.
    reason: String,
    /// In words.
    pub(crate) why: String,
}

impl Refusal {
    /// Whether the hub says that the invitation lets nobody in any more, or not this agent: it would say so again.
    pub(crate) fn ends_invitation(&self) -> bool {
        ["InvitationUsed", "InvitationExpired", "OldSerial", "OtherKey"].contains(&self.reason.as_str())
    }
}

/// Reads what the hub has under the name of the agent's request.
pub(crate) fn seen(live: Option<&CertificateSigningRequest>, pending: &Pending, now: Timestamp) -> Seen {
    let Some(live) = live else { return Seen::Missing };
    let uid = live.metadata.uid.clone().unwrap_or_default();
    if live.spec.request.0 != pending.request.as_bytes() {
        return Seen::InTheWay(uid, "it is of another key");
    }
    let status = live.status.as_ref();
    if let Some(certificate) = status.and_then(|status| status.certificate.as_ref()) {
        return issued(&certificate.0, uid, pending, now);
    }
    let conditions = status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let of = |types: &[&str]| {
        let mut found = conditions.iter();
        found.find(|condition| types.contains(&condition.type_.as_str()))
    };
    match of(&["Denied", "Failed"]) {
        Some(condition) => {
            let said = |text: &Option<String>| text.clone().unwrap_or_default();
            let (reason, message) = (said(&condition.reason), said(&condition.message));
            let why = format!("{}: {reason}: {message}", condition.type_);
            Seen::Refused(Refusal { uid, reason, why })
        }
        None if of(&["Approved"]).is_some() => Seen::Unsigned(uid),
        None => Seen::Waiting,
    }
}

fn issued(certificate: &[u8], uid: String, pending: &Pending, now: Timestamp) -> Seen {
    let why = match (
        validity(certificate, &pending.key),
        std::str::from_utf8(certificate),
    ) {
        (Ok((_, until)), _) if until.duration_since(now) < USEFUL => {
            return Seen::InTheWay(uid, "its certificate expired before it was fetched");
        }
        (Ok((from, until)), Ok(text)) => {
            return Seen::Issued {
                certificate: text.to_owned(),
                from,
                until,
            };
        }
        (Err(IdentityError::Certificate(why)), _) => format!("the certificate that was issued {why}"),
        (Err(error), _) => error.to_string(),
        (_, Err(_)) => "the certificate that was issued is no PEM".to_owned(),
    };
    let reason = String::new();
    Seen::Refused(Refusal { uid, reason, why })
}

/// The request that is made.
pub(crate) fn request(name: &str, pending: &Pending, lifetime: Duration) -> CertificateSigningRequest {
    CertificateSigningRequest {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pending.request.clone().into_bytes()),
            signer_name: CLIENT_SIGNER.to_owned(),
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            expiration_seconds: Some(i32::try_from(lifetime.as_secs()).unwrap_or(i32::MAX)),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::certificate::{new_request, tests as certificates};
    use serde_json::{Value, json};

    #[test]
    fn what_the_hub_has_is_read_in_one_way_only() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let pending = || {
            let (key, request) = new_request(&certificates::name(1)).unwrap();
            Pending {
                serial: 1,
                key,
                request,
            }
        };
        let (ours, other) = (pending(), pending());
        let live = |of: &Pending, status: Value| {
            let mut live = serde_json::to_value(request("r", of, Duration::from_secs(600))).unwrap();
            live["metadata"]["uid"] = json!("u");
            live["status"] = status;
            serde_json::from_value::<CertificateSigningRequest>(live).unwrap()
        };
        let condition = |type_: &str| {
            json!({"conditions": [{"type": type_, "status": "True", "reason": "Why",
            "message": "for a reason"}]})
        };
        let signed = |of: &Pending, until: i64| {
            let certificate = certificates::sign(&of.request, at(0), at(until));
            let status = json!({"certificate": ByteString(certificate.clone().into_bytes())});
            (certificate, status)
        };
        let (certificate, good) = signed(&ours, 5000);
        let issued = Seen::Issued {
            certificate,
            from: at(0),
            until: at(5000),
        };
        let refused = |reason: &str, why: &str| {
            Seen::Refused(Refusal {
                uid: "u".to_owned(),
                reason: reason.to_owned(),
                why: why.to_owned(),
            })
        };
        let foreign = "the certificate that was issued is of another key";
        let way = |why| Seen::InTheWay("u".to_owned(), why);
        for (status, of, expected) in [
            (json!({}), &ours, Seen::Waiting),
            (condition("Approved"), &ours, Seen::Unsigned("u".to_owned())),
            (
                condition("Denied"),
                &ours,
                refused("Why", "Denied: Why: for a reason"),
            ),
            (
                condition("Failed"),
                &ours,
                refused("Why", "Failed: Why: for a reason"),
            ),
            (
                json!({"conditions": [{"type": "Approved"}, {"type": "Failed", "message": "m"}]}),
                &ours,
                refused("", "Failed: : m"),
            ),
            (good.clone(), &ours, issued),
            (
                signed(&ours, 1030).1,
                &ours,
                way("its certificate expired before it was fetched"),
            ),
            (signed(&other, 5000).1, &ours, refused("", foreign)),
            (json!({}), &other, way("it is of another key")),
            (condition("Denied"), &other, way("it is of another key")),
            (good, &other, way("it is of another key")),
        ] {
            assert_eq!(
                seen(Some(&live(of, status.clone())), &ours, at(1000)),
                expected,
                "{status}"
            );
        }
        assert_eq!(seen(None, &ours, at(1000)), Seen::Missing);
    }
}
