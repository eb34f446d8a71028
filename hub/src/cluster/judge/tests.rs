use super::*;
use roundhouse_api::cluster::ClusterSpec;

const LEASE: Duration = Duration::from_secs(40);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn cluster(status: Option<ClusterStatus>) -> Cluster {
    let mut cluster = Cluster::new(
        "c1",
        ClusterSpec {
            accepted: true,
            taints: Vec::new(),
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.generation = Some(1);
    cluster.status = status;
    cluster
}

fn beat(first_seen: i64, changed: Option<i64>, renewed: bool) -> Option<Heartbeat> {
    Some(Heartbeat {
        first_seen: at(first_seen),
        changed: changed.map(at),
        renewed,
        echo: None,
        heard: false,
    })
}

/// Joined and Available as `status/reason`, taint keys, and the second of the next look.
fn outcome(judgement: &Judgement) -> (String, String, Vec<&str>, Option<i64>) {
    let word = |type_| {
        let condition = condition::get(&judgement.status.conditions, type_).unwrap();
        format!("{}/{}", condition.status, condition.reason)
    };
    let taints = judgement.status.taints.iter().map(|t| t.key.as_str()).collect();
    let recheck = judgement.recheck_at.map(|t| t.as_second() - at(0).as_second());
    (word(JOINED), word(AVAILABLE), taints, recheck)
}

fn was(available: Status) -> ClusterStatus {
    let mut status = ClusterStatus::default();
    for (type_, value) in [(JOINED, Status::True), (AVAILABLE, available)] {
        let verdict = verdict(type_, value, "Before", String::new());
        condition::set(&mut status.conditions, verdict, Some(1), at(-500));
    }
    status
}

#[test]
fn what_is_seen_decides() {
    let ready = Home::Ready;
    let (up, down) = (was(Status::True), was(Status::Unknown));
    // (why, home, heartbeat, status before, now) -> (Joined, Available, taint, next look)
    let table = [
        (
            "nothing yet",
            Home::NotAccepted,
            None,
            None,
            0,
            "False/NotAccepted",
            "False/NotJoined",
            TAINT_UNAVAILABLE,
            None,
        ),
        (
            "agent not there",
            ready.clone(),
            beat(0, None, false),
            None,
            0,
            "False/WaitingForAgent",
            "False/NotJoined",
            TAINT_UNAVAILABLE,
            None,
        ),
        (
            "foreign namespace",
            Home::Foreign,
            beat(0, Some(1), true),
            Some(&up),
            2,
            "False/NamespaceConflict",
            "False/NotJoined",
            TAINT_UNAVAILABLE,
            None,
        ),
        (
            "name too long",
            Home::InvalidName("x".into()),
            None,
            None,
            0,
            "False/InvalidName",
            "False/NotJoined",
            TAINT_UNAVAILABLE,
            None,
        ),
        (
            "first renewal",
            ready.clone(),
            beat(0, Some(5), true),
            None,
            6,
            "True/AgentReported",
            "True/LeaseRenewed",
            "",
            Some(45),
        ),
        (
            "just in time",
            ready.clone(),
            beat(0, Some(5), true),
            Some(&up),
            44,
            "True/AgentReported",
            "True/LeaseRenewed",
            "",
            Some(45),
        ),
        (
            "too late",
            ready.clone(),
            beat(0, Some(5), true),
            Some(&up),
            45,
            "True/AgentReported",
            "Unknown/LeaseNotRenewed",
            TAINT_UNREACHABLE,
            None,
        ),
        (
            "came back",
            ready.clone(),
            beat(0, Some(100), true),
            Some(&down),
            101,
            "True/AgentReported",
            "True/LeaseRenewed",
            "",
            Some(140),
        ),
        (
            "hub restarted, was up",
            ready.clone(),
            beat(0, None, true),
            Some(&up),
            39,
            "True/AgentReported",
            "True/LeaseRenewed",
            "",
            Some(40),
        ),
        (
            "hub restarted, stays silent",
            ready.clone(),
            beat(0, None, true),
            Some(&up),
            40,
            "True/AgentReported",
            "Unknown/LeaseNotRenewed",
            TAINT_UNREACHABLE,
            None,
        ),
        (
            "hub restarted, was down",
            ready.clone(),
            beat(0, None, true),
            Some(&down),
            1,
            "True/AgentReported",
            "Unknown/LeaseNotRenewed",
            TAINT_UNREACHABLE,
            None,
        ),
        (
            "hub restarted, no lease",
            ready,
            None,
            Some(&up),
            1,
            "True/AgentReported",
            "Unknown/LeaseNotRenewed",
            TAINT_UNREACHABLE,
            None,
        ),
        (
            "namespace goes, lease with it",
            Home::Terminating,
            beat(0, Some(5), true),
            Some(&up),
            6,
            "True/AgentReported",
            "True/LeaseRenewed",
            "",
            Some(45),
        ),
        (
            "no longer accepted",
            Home::NotAccepted,
            beat(0, Some(5), true),
            Some(&up),
            6,
            "True/AgentReported",
            "True/LeaseRenewed",
            "",
            Some(45),
        ),
    ];
    for (why, home, heartbeat, before, now, joined, available, taint, recheck) in table {
        let cluster = cluster(before.cloned());
        let observed = Observed {
            cluster: &cluster,
            home,
            heartbeat,
            report: None,
            identity: None,
            obstacle: None,
        };
        let judgement = judge(&observed, LEASE, at(now));
        let taints: Vec<&str> = Some(taint).filter(|t| !t.is_empty()).into_iter().collect();
        assert_eq!(
            outcome(&judgement),
            (joined.to_owned(), available.to_owned(), taints, recheck),
            "{why}"
        );
        // The same look again, a second later, changes nothing unless the Lease ran out in between.
        if recheck.is_none_or(|recheck| recheck > now + 1) {
            let cluster = self::cluster(Some(judgement.status.clone()));
            let again = judge(
                &Observed {
                    cluster: &cluster,
                    ..observed
                },
                LEASE,
                at(now + 1),
            );
            assert_eq!(again.status, judgement.status, "{why}");
        }
    }
}

#[test]
fn a_report_joins_and_its_facts_are_copied() {
    let cluster = cluster(None);
    let report = ClusterReportSpec {
        kubernetes_version: Some("v1.36.0".into()),
        agent_version: "0.1.0".into(),
        nodes: Some(3),
        capacity: [("cpu".to_owned(), "many".to_owned())].into(),
        allocatable: [("cpu".to_owned(), "8".to_owned())].into(),
        apply_once: None,
        ..ClusterReportSpec::default()
    };
    let observed = Observed {
        cluster: &cluster,
        home: Home::Ready,
        heartbeat: beat(0, None, false),
        report: Some(&report),
        identity: None,
        obstacle: None,
    };
    let status = judge(&observed, LEASE, at(1)).status;
    assert_eq!(status.kubernetes_version.as_deref(), Some("v1.36.0"));
    assert_eq!(status.allocatable["cpu"], "8");
    assert!(status.capacity.is_empty());
    let joined = condition::get(&status.conditions, JOINED).unwrap();
    assert_eq!(
        joined.message,
        "the agent has reported; facts not understood: capacity[cpu]"
    );
    // Reported, but no Lease was renewed yet: nothing is sent there.
    assert_eq!(status.taints[0].key, TAINT_UNREACHABLE);
}

#[test]
fn heartbeats_alone_are_no_reason_to_write() {
    let before = {
        let cluster = cluster(None);
        let observed = Observed {
            cluster: &cluster,
            home: Home::Ready,
            heartbeat: beat(0, Some(1), true),
            report: None,
            identity: None,
            obstacle: None,
        };
        judge(&observed, LEASE, at(2)).status
    };
    let cluster = cluster(Some(before.clone()));
    let mut observed = Observed {
        cluster: &cluster,
        home: Home::Ready,
        heartbeat: beat(0, Some(11), true),
        report: None,
        identity: None,
        obstacle: None,
    };
    let next = judge(&observed, LEASE, at(12)).status;
    assert_ne!(next.last_seen, before.last_seen);
    assert!(same_but_last_seen(&next, &before));
    observed.heartbeat = beat(0, Some(11), true);
    let silent = judge(&observed, LEASE, at(60)).status;
    assert!(!same_but_last_seen(&silent, &before));
    assert_eq!(silent.taints[0].time_added, Some(Time(at(60))));
}

#[test]
fn taints_that_evict_are_noted_when_they_are_first_seen() {
    let taint = |key: &str, effect: TaintEffect, added: Option<i64>| Taint {
        key: key.to_owned(),
        value: None,
        effect,
        time_added: added.map(|second| Time(at(second))),
    };
    let look = |taints: &[Taint], before: &ClusterStatus, now: i64| {
        let mut cluster = cluster(Some(before.clone()));
        cluster.spec.taints = taints.to_vec();
        let observed = Observed {
            cluster: &cluster,
            home: Home::Ready,
            heartbeat: beat(0, Some(1), true),
            report: None,
            identity: None,
            obstacle: None,
        };
        judge(&observed, LEASE, at(now)).status
    };
    let (evicts, says) = (
        taint("a", TaintEffect::NoExecute, None),
        taint("b", TaintEffect::NoExecute, Some(3)),
    );
    let all = [
        evicts.clone(),
        says,
        taint("c", TaintEffect::NoSchedule, None),
        evicts.clone(),
    ];
    let first = look(&all, &was(Status::True), 10);
    assert_eq!(first.taints_seen, [taint("a", TaintEffect::NoExecute, Some(10))]);
    // Later looks keep the moment, and write nothing.
    assert_eq!(look(&all, &first, 20), first);
    // Taken away and put on again it counts anew; another value is another taint.
    let without = look(&[], &first, 25);
    assert!(without.taints_seen.is_empty());
    assert_eq!(
        look(&all, &without, 30).taints_seen,
        [taint("a", TaintEffect::NoExecute, Some(30))]
    );
    let other = Taint {
        value: Some("x".to_owned()),
        ..evicts
    };
    assert_eq!(
        look(&[other], &first, 40).taints_seen[0].time_added,
        Some(Time(at(40)))
    );
}

#[test]
fn what_keeps_an_agent_out_is_said() {
    let cluster = cluster(None);
    let joined = |identity: Option<AgentIdentity>, obstacle: Option<Obstacle>| {
        let observed = Observed {
            cluster: &cluster,
            home: Home::Ready,
            heartbeat: None,
            report: None,
            identity,
            obstacle,
        };
        let status = judge(&observed, LEASE, at(0)).status;
        let joined = condition::get(&status.conditions, JOINED).unwrap().clone();
        (joined.reason, joined.message)
    };
    assert_eq!(joined(None, None).0, "WaitingForAgent");
    let waits = AgentIdentity {
        waiting_key: Some("sha256:12".to_owned()),
        ..AgentIdentity::default()
    };
    let (reason, message) = joined(Some(waits.clone()), None);
    assert_eq!(reason, "KeyWaits");
    assert!(
        message.contains("sha256:12") && message.ends_with("roundhouse accept c1"),
        "{message}"
    );
    let (reason, message) = joined(Some(waits), Some(Obstacle::NotProvisioned("no right".to_owned())));
    assert_eq!(
        (reason.as_str(), message.as_str()),
        ("NotProvisioned", "no right")
    );
    let (reason, message) = joined(None, Some(Obstacle::NotSigned));
    assert!(
        reason == "NotSigned" && message.ends_with("--agent-identity token"),
        "{message}"
    );
}

#[test]
fn missing_rights_and_what_is_held_are_named_in_the_condition() {
    let cluster = cluster(None);
    let said = |report: &ClusterReportSpec| {
        let observed = Observed {
            cluster: &cluster,
            home: Home::Ready,
            heartbeat: beat(0, Some(0), true),
            report: Some(report),
            identity: None,
            obstacle: None,
        };
        let status = judge(&observed, LEASE, at(0)).status;
        condition::get(&status.conditions, JOINED)
            .unwrap()
            .message
            .clone()
    };
    let message = |missing: usize, unknown: Option<&str>| {
        said(&ClusterReportSpec {
            missing_rights: (0..missing).map(|n| format!("create r{n}")).collect(),
            rights_unknown: unknown.map(str::to_owned),
            ..ClusterReportSpec::default()
        })
    };
    let held = |many: u32| {
        said(&ClusterReportSpec {
            held: (0..many).map(|n| format!("default.app{n}")).take(50).collect(),
            held_count: many,
            ..ClusterReportSpec::default()
        })
    };
    assert!(!message(0, None).contains("lacks"));
    assert!(!held(0).contains("holds"));
    assert!(held(2).ends_with(
        "; it holds the objects of bundles that vanished without spec.deletion: default.app0, default.app1: \
         its AppliedBundles list them"
    ));
    assert!(held(7).contains("default.app4 and 2 more: its"));
    assert!(held(200).contains("default.app4 and 195 more: its"));
    assert!(message(2, None).ends_with("it lacks rights there: create r0, create r1"));
    assert!(message(7, None).ends_with("create r4 and 2 more"));
    assert!(message(0, Some("webhook")).ends_with("could not be told: webhook"));
}

/// A hub that has just been started gives nobody its ear back: it has not seen yet that anything arrives.
#[test]
fn who_was_deaf_is_so_until_this_hub_has_seen_it_hear() {
    let mut status = was(Status::False);
    let verdict = verdict(DEAF, Status::True, "NothingArrives", String::new());
    condition::set(&mut status.conditions, verdict, Some(1), at(-500));
    let cluster = cluster(Some(status));
    let deaf = |changed: Option<i64>, echo: i64, heard: bool, now: i64| {
        let observed = Observed {
            cluster: &cluster,
            home: Home::Ready,
            heartbeat: Some(Heartbeat {
                first_seen: at(0),
                changed: changed.map(at),
                renewed: true,
                echo: Some(at(echo)),
                heard,
            }),
            report: None,
            identity: None,
            obstacle: None,
        };
        let status = judge(&observed, LEASE, at(now)).status;
        let word = |type_| {
            let condition = condition::get(&status.conditions, type_).unwrap();
            format!("{}/{}", condition.status, condition.reason)
        };
        (word(AVAILABLE), word(DEAF))
    };
    let is = |available: &str, deaf: &str| (available.to_owned(), deaf.to_owned());
    // The hub has just begun; the agent renews; for longer than its Lease.
    for (changed, now) in [(None, 1), (Some(5), 6), (Some(55), 56)] {
        let found = deaf(changed, 0, false, now);
        assert_eq!(found.1, "True/NothingArrives", "at {now}");
        assert!(!found.0.starts_with("True"), "at {now}: {}", found.0);
    }
    assert_eq!(
        deaf(Some(15), 15, true, 16),
        is("True/LeaseRenewed", "False/Hears")
    );
}
