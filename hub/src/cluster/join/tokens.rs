//! Where tokens are the identity: each invitation is accepted by itself, and ends when its agent is heard of.

use super::*;
use roundhouse_api::cluster::{ClusterSpec, ClusterStatus};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Cluster c1 with serial 3, invited for an hour; `used` is the serial whose invitation was used, just now.
fn cluster(accepted: bool, auto_accept: bool, used: Option<u32>) -> Cluster {
    let mut cluster = Cluster::new(
        "c1",
        ClusterSpec {
            accepted,
            auto_accept,
            serial: 3,
            join_until: Some(Time(now() + SignedDuration::from_hours(1))),
            ..ClusterSpec::default()
        },
    );
    cluster.status = used.map(|serial| ClusterStatus {
        identity: Some(AgentIdentity {
            method: IdentityMethod::Token,
            serial,
            since: Some(Time(now())),
            ..AgentIdentity::default()
        }),
        ..ClusterStatus::default()
    });
    cluster
}

fn leaving(how: Leave) -> Cluster {
    let mut cluster = cluster(true, true, Some(3));
    cluster.metadata.deletion_timestamp = Some(Time(now()));
    cluster.spec.leave = Some(how);
    cluster
}

#[test]
fn a_token_is_given_when_this_invitation_is_accepted() {
    for (why, cluster, by_token, by_certificate) in [
        ("invited only", cluster(false, false, None), false, false),
        ("at once", cluster(true, true, None), true, true),
        ("accepted, and in", cluster(true, true, Some(3)), true, true),
        ("in since before", cluster(true, false, Some(3)), true, true),
        (
            "joined again, not accepted yet",
            cluster(true, false, Some(2)),
            false,
            true,
        ),
        ("joined again, at once", cluster(true, true, Some(2)), true, true),
        ("shut out", cluster(false, true, Some(3)), false, false),
        ("leaving", leaving(Leave::Orphan), true, true),
        ("being forgotten", leaving(Leave::Forget), false, false),
    ] {
        assert_eq!(lets_in(&cluster, IdentityMethod::Token), by_token, "{why}");
        assert_eq!(
            lets_in(&cluster, IdentityMethod::Certificate),
            by_certificate,
            "{why}"
        );
    }
}

#[test]
fn an_invitation_to_tokens_ends_when_its_agent_is_heard_of() {
    let seconds = |n: i64| now() + SignedDuration::from_secs(n);
    let (fresh, used) = (cluster(false, false, Some(2)), cluster(true, true, Some(3)));
    let until = Some(3_600);
    for (why, cluster, heard, at, open) in [
        ("nobody is in yet", &fresh, None, 1_800, until),
        (
            "the agent of the invitation before it is heard of",
            &fresh,
            Some(1_800),
            1_800,
            until,
        ),
        ("accepted, and nobody has come", &used, None, 1_800, until),
        ("heard of before", &used, Some(-5), 1_800, until),
        (
            "heard of while an old token may still be taken",
            &used,
            Some(15),
            15,
            Some(20),
        ),
        ("heard of as who it is now", &used, Some(16), 16, None),
        ("too late", &fresh, None, 3_600, None),
    ] {
        let judged = invitation(cluster, IdentityMethod::Token, heard.map(seconds), seconds(at));
        let expected = Invitation {
            open: open.is_some(),
            until: open.map(seconds),
        };
        assert_eq!(judged, expected, "{why}");
    }
}
