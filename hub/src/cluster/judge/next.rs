//! What the next agent of a cluster waits for: the one of the present serial, who may come after one that was here before.

use super::{NOT_RENEWED, Observed, Obstacle};
use jiff::Timestamp;
use roundhouse_api::cluster::{AgentIdentity, IdentityMethod};

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waits {
    /// In CamelCase.
    pub(super) reason: &'static str,
    /// For people.
    pub(super) message: String,
}

fn waits_for(reason: &'static str, message: String) -> Waits {
    Waits { reason, message }
}

/// What somebody has to do before the agent that asks gets in, if one asks.
pub(super) fn waits(observed: &Observed<'_>) -> Option<Waits> {
    let name = observed.cluster.metadata.name.as_deref().unwrap_or_default();
    match &observed.obstacle {
        Some(Obstacle::NotProvisioned(why)) => return Some(waits_for("NotProvisioned", why.clone())),
        Some(Obstacle::NotSigned) => {
            return Some(waits_for(
                "NotSigned",
                "the certificate of its agent is approved, and signer kubernetes.io/kube-apiserver-client of this API server does not sign it: start the hub with --agent-identity token".to_owned(),
            ));
        }
        Some(Obstacle::Denied(reason, message)) => {
            return Some(waits_for(
                "RequestDenied",
                format!("the hub denied the certificate that its agent asks for, {reason}: {message}"),
            ));
        }
        None => {}
    }
    let identity = observed.identity.as_ref()?;
    if let Some(key) = &identity.waiting_key {
        return Some(waits_for(
            "KeyWaits",
            format!(
                "an agent asks with key {key}: compare it with the agent's log, then roundhouse accept {name}"
            ),
        ));
    }
    // Of a token nothing is heard before it is given.
    let spec = &observed.cluster.spec;
    let by_token = identity.method == IdentityMethod::Token;
    (by_token && spec.accepted && identity.user.is_none() && spec.join_until.is_some()).then(|| {
        waits_for(
            "InvitationWaits",
            format!("whoever has its invitation waits to be let in: roundhouse accept {name}"),
        )
    })
}

/// What is to be said of a cluster that has joined before, beside how old its Lease is; `identity` is who is in. Nothing where
/// the agent of the present serial is in and can stay.
pub(super) fn beside(
    observed: &Observed<'_>,
    identity: Option<&AgentIdentity>,
    now: Timestamp,
) -> Option<Waits> {
    let (name, spec) = (
        observed.cluster.metadata.name.as_deref().unwrap_or_default(),
        &observed.cluster.spec,
    );
    let is_in = identity.map_or(0, |identity| identity.serial) == spec.serial;
    let waits = waits(observed).filter(|waits| {
        // What fails for a moment says nothing of an agent that has what it needs.
        !is_in || waits.reason != "NotProvisioned"
    });
    if waits.is_some() || is_in {
        return waits;
    }
    let message = match &spec.join_until {
        None => format!("the identity of its agent was ended: roundhouse join {name} invites it anew"),
        Some(until) if now >= until.0 => {
            format!("its invitation is over: roundhouse join {name} makes another one")
        }
        Some(_) => "it was joined again: start its agent with the new invitation".to_owned(),
    };
    Some(waits_for(NOT_RENEWED, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Heartbeat, Home, judge};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use roundhouse_api::{
        cluster::{AVAILABLE, Cluster, ClusterSpec, ClusterStatus, JOINED},
        condition::{self, Status, Verdict},
    };
    use std::time::Duration;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    /// One that has joined with serial 2 and was joined again since: serial 3, invited for an hour or not at all.
    fn again(invited: bool) -> Cluster {
        let mut cluster = Cluster::new(
            "c1",
            ClusterSpec {
                accepted: true,
                serial: 3,
                join_until: invited.then(|| Time(at(3_600))),
                ..ClusterSpec::default()
            },
        );
        let mut status = ClusterStatus::default();
        let joined = Verdict {
            type_: JOINED,
            status: Status::True,
            reason: "AgentReported",
            message: String::new(),
        };
        condition::set(&mut status.conditions, joined, Some(1), at(0));
        cluster.status = Some(status);
        cluster
    }

    fn identity(serial: u32) -> AgentIdentity {
        AgentIdentity {
            observed_serial: 3,
            serial,
            user: Some("roundhouse:agent:c1:3".to_owned()),
            ..AgentIdentity::default()
        }
    }

    /// What Available says at second `now` of a Lease that was renewed at second 100.
    fn says(
        cluster: &Cluster,
        identity: AgentIdentity,
        obstacle: Option<Obstacle>,
        now: i64,
    ) -> (String, String) {
        let observed = Observed {
            cluster,
            home: Home::Ready,
            heartbeat: Some(Heartbeat {
                first_seen: at(0),
                changed: Some(at(100)),
                renewed: true,
                echo: None,
                heard: false,
            }),
            report: None,
            identity: Some(identity),
            obstacle,
        };
        let status = judge(&observed, Duration::from_secs(40), at(now)).status;
        let available = condition::get(&status.conditions, AVAILABLE).unwrap();
        (available.reason.clone(), available.message.clone())
    }

    #[test]
    fn an_agent_that_waits_after_another_one_is_not_taken_for_a_silent_one() {
        let cluster = again(true);
        let key = AgentIdentity {
            waiting_key: Some("sha256:12".to_owned()),
            ..identity(2)
        };
        let (reason, message) = says(&cluster, key.clone(), None, 200);
        assert_eq!(reason, "KeyWaits");
        assert_eq!(
            message,
            "the agent did not renew its Lease for 40 s; an agent asks with key sha256:12: compare it with the agent's log, then roundhouse accept c1"
        );
        // The Lease of the one before is fresh still.
        let (reason, message) = says(&cluster, key, None, 101);
        assert_eq!(reason, "LeaseRenewed");
        assert!(message.contains("key sha256:12"), "{message}");
        let token = AgentIdentity {
            method: IdentityMethod::Token,
            user: None,
            ..identity(2)
        };
        assert_eq!(says(&cluster, token, None, 200).0, "InvitationWaits");
        let denied = Obstacle::Denied("TooLong".to_owned(), "at most 90 days".to_owned());
        let (reason, message) = says(&cluster, identity(2), Some(denied), 200);
        assert_eq!(reason, "RequestDenied");
        assert!(message.ends_with("TooLong: at most 90 days"), "{message}");
        // Its certificate ends when it is not signed.
        assert_eq!(
            says(&cluster, identity(3), Some(Obstacle::NotSigned), 200).0,
            "NotSigned"
        );
    }

    #[test]
    fn an_identity_that_was_ended_is_not_blamed_on_the_lease() {
        for (why, cluster, serial, now, expected) in [
            (
                "in",
                again(true),
                3,
                200,
                ": check that it runs and reaches the hub",
            ),
            (
                "revoked",
                again(false),
                2,
                200,
                "; the identity of its agent was ended: roundhouse join c1 invites it anew",
            ),
            (
                "joined again",
                again(true),
                2,
                200,
                "; it was joined again: start its agent with the new invitation",
            ),
            (
                "too late",
                again(true),
                2,
                3_600,
                "; its invitation is over: roundhouse join c1 makes another one",
            ),
        ] {
            let (reason, message) = says(&cluster, identity(serial), None, now);
            assert_eq!(reason, "LeaseNotRenewed", "{why}");
            assert_eq!(
                message,
                format!("the agent did not renew its Lease for 40 s{expected}"),
                "{why}"
            );
        }
        // What fails for a moment is no reason to write of one that is in.
        let failed = || Some(Obstacle::NotProvisioned("no answer".to_owned()));
        let (_, message) = says(&again(true), identity(3), failed(), 101);
        assert_eq!(message, "the agent renews its Lease");
        let (_, message) = says(&again(true), identity(2), failed(), 101);
        assert_eq!(message, "the agent renews its Lease; no answer");
    }
}
