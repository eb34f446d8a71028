//! The engine: every (type, phase, event) in [`table`], whole workflows in [`flows`], and properties over random sequences.

use super::*;
use jiff::{SignedDuration, Timestamp};
use roundhouse_api::application::{StepPhase, StepReason, StepStatus, SuspendProperties, WaitFor};
use std::collections::BTreeMap;

mod flows;
mod random;
mod reports;
mod table;

fn t0() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn step(name: &str, type_: &str, action: Action) -> Step {
    Step {
        name: name.to_owned(),
        type_: type_.to_owned(),
        action,
        condition: None,
        timeout: None,
        after: Vec::new(),
        strict: false,
        inputs: Vec::new(),
        outputs: Vec::new(),
        referenced: Vec::new(),
    }
}

fn deploy(name: &str, wait: WaitFor) -> Step {
    let deploy = Deploy {
        wait,
        ..Deploy::default()
    };
    step(name, "deploy", Action::Deploy(Box::new(deploy)))
}

fn suspend(name: &str) -> Step {
    step(name, "suspend", Action::Suspend(SuspendProperties::default()))
}

/// These steps, one after the other.
fn spec(mut steps: Vec<Step>) -> Spec {
    for (index, step) in steps.iter_mut().enumerate() {
        step.after = (0..index).collect();
    }
    Spec {
        revision: "app-v1".to_owned(),
        generation: 1,
        application: ("default".to_owned(), "app".to_owned()),
        steps,
        limits: Limits::default(),
    }
}

fn placed(states: &[ClusterState]) -> StepEvidence {
    let clusters = states.iter().enumerate().map(|(n, state)| ClusterEvidence {
        cluster: format!("c{n}"),
        state: *state,
        message: String::new(),
    });
    StepEvidence::Placed {
        unsatisfied: vec![],
        clusters: clusters.collect(),
    }
}

fn evidence(step: &str, what: StepEvidence) -> Evidence {
    Evidence {
        steps: BTreeMap::from([(step.to_owned(), what)]),
        ..Evidence::default()
    }
}

fn refused() -> StepEvidence {
    StepEvidence::Refused {
        message: "app default/app: manifest ConfigMap/big is above 1 MiB".to_owned(),
        clusters: Vec::new(),
    }
}

/// Advances until nothing changes any more at the same moment.
fn settle(spec: &Spec, mut status: Status, evidence: &Evidence, now: Timestamp) -> Status {
    for _ in 0..20 {
        let (next, _) = advance(spec, &status, evidence, now);
        if next == status {
            return status;
        }
        status = next;
    }
    panic!("does not settle: {status:?}");
}

fn workflow(status: &Status) -> &WorkflowStatus {
    status.workflow.as_ref().unwrap()
}

fn steps(status: &Status) -> &[StepStatus] {
    &workflow(status).steps
}

/// One line per status: phase of the run, phases of the steps.
fn shown(status: &Status) -> String {
    let steps = steps(status).iter().map(|s| match s.reason {
        Some(reason) => format!("{:?}/{reason:?}", s.phase),
        None => format!("{:?}", s.phase),
    });
    format!(
        "{:?} [{}]{}",
        status.phase.unwrap(),
        steps.collect::<Vec<_>>().join(", "),
        if workflow(status).finished {
            " finished"
        } else {
            ""
        }
    )
}

#[test]
fn a_finished_run_rests_until_it_is_asked() {
    let spec = spec(vec![deploy("a", WaitFor::Ready)]);
    let ready = evidence("a", placed(&[ClusterState::Ready]));
    let done = settle(&spec, Status::default(), &ready, t0());
    assert_eq!(shown(&done), "Running [Succeeded] finished");
    assert_eq!(workflow(&done).current.as_deref(), Some("a (1/1)"));
    // Its health shows, nothing else moves.
    let broken = evidence("a", placed(&[ClusterState::Failed]));
    let later = t0() + SignedDuration::from_hours(1);
    let unhealthy = settle(&spec, done.clone(), &broken, later);
    assert_eq!(shown(&unhealthy), "Unhealthy [Succeeded] finished");
    assert_eq!(unhealthy.workflow, done.workflow);
    assert_eq!(settle(&spec, unhealthy, &ready, later), done);
    // The seed's restart.
    for emptied in [None, Some(WorkflowStatus::default())] {
        let status = Status {
            phase: Some(ApplicationPhase::RunningWorkflow),
            workflow: emptied,
        };
        let (again, _) = advance(&spec, &status, &ready, later);
        assert_eq!(shown(&again), "RunningWorkflow [Running/Wait]");
    }
    let status = Status {
        phase: Some(ApplicationPhase::RunningWorkflow),
        ..done.clone()
    };
    assert_eq!(
        shown(&advance(&spec, &status, &ready, later).0),
        "RunningWorkflow [Running/Wait]"
    );
    // Controls of a run that goes on mean nothing to one that ended.
    for change in [
        |w: &mut WorkflowStatus| w.suspend = true,
        |w: &mut WorkflowStatus| w.terminated = true,
    ] {
        let mut status = done.clone();
        change(status.workflow.as_mut().unwrap());
        assert!(workflow(&settle(&spec, status, &ready, later)).finished);
    }
}

#[test]
fn east_approval_west() {
    let spec = spec(vec![
        deploy("east", WaitFor::Ready),
        suspend("approve"),
        deploy("west", WaitFor::Applied),
    ]);
    let ready = |state| Evidence {
        steps: BTreeMap::from([
            ("east".to_owned(), placed(&[ClusterState::Ready])),
            ("west".to_owned(), placed(&[state])),
        ]),
        ..Evidence::default()
    };
    let mut status = settle(&spec, Status::default(), &ready(ClusterState::Ready), t0());
    assert_eq!(
        shown(&status),
        "WorkflowSuspending [Succeeded, Suspending/Suspend, Pending]"
    );
    assert_eq!(workflow(&status).current.as_deref(), Some("approve (1/3)"));
    assert!(workflow(&status).suspend);
    status.workflow.as_mut().unwrap().suspend = false;
    let status = settle(&spec, status, &ready(ClusterState::Progressing), t0());
    assert_eq!(
        shown(&status),
        "RunningWorkflow [Succeeded, Succeeded, Running/Wait]"
    );
    let status = settle(&spec, status, &ready(ClusterState::Applied), t0());
    assert_eq!(
        shown(&status),
        "Unhealthy [Succeeded, Succeeded, Succeeded] finished"
    );
}

#[test]
fn evidence_in_hand_when_a_step_starts_is_not_used() {
    let spec = spec(vec![deploy("a", WaitFor::Ready), deploy("b", WaitFor::Ready)]);
    let ready = Evidence {
        steps: ["a", "b"]
            .map(|s| (s.to_owned(), placed(&[ClusterState::Ready])))
            .into(),
        ..Evidence::default()
    };
    let (one, effects) = advance(&spec, &Status::default(), &ready, t0());
    assert_eq!(shown(&one), "RunningWorkflow [Running/Wait, Pending]");
    assert_eq!(effects, [Effect::Dispatch { step: "a".to_owned() }]);
    let (two, effects) = advance(&spec, &one, &ready, t0());
    assert_eq!(shown(&two), "RunningWorkflow [Succeeded, Running/Wait]");
    assert_eq!(effects.last(), Some(&Effect::Dispatch { step: "b".to_owned() }));
}

#[test]
fn a_refused_step_is_retried_ten_times_with_back_off() {
    let spec = spec(vec![deploy("a", WaitFor::Ready), deploy("b", WaitFor::Ready)]);
    let (mut status, _) = advance(&spec, &Status::default(), &Evidence::default(), t0());
    let refusal = evidence("a", refused());
    let (mut now, mut waits) = (t0(), Vec::new());
    while !workflow(&status).finished {
        let (next, effects) = advance(&spec, &status, &refusal, now);
        // Looking too early changes nothing.
        assert_eq!(advance(&spec, &next, &refusal, now).0, next);
        status = next;
        if let Some(Effect::Wake { after }) = effects.last() {
            waits.push(after.as_secs());
            now += SignedDuration::try_from(*after).unwrap();
        }
    }
    assert_eq!(waits, [1, 1, 1, 1, 1, 1, 3, 6, 12, 25]);
    assert_eq!(
        shown(&status),
        "WorkflowFailed [Failed/FailedAfterRetries, Skipped/Skip] finished"
    );
    assert_eq!(workflow(&status).message.as_deref(), Some(TERMINATED_BY_FAILURE));
    assert!(
        steps(&status)[0]
            .message
            .as_deref()
            .unwrap()
            .contains("above 1 MiB")
    );
}

#[test]
fn waiting_writes_nothing_and_walks_through_the_seeds_sequence() {
    let spec = spec(vec![deploy("a", WaitFor::Ready)]);
    let waiting = evidence("a", placed(&[ClusterState::Applied]));
    let mut status = settle(&spec, Status::default(), &waiting, t0());
    let (mut now, mut waits) = (t0(), Vec::new());
    for _ in 0..13 {
        let (next, effects) = advance(&spec, &status, &waiting, now);
        assert_eq!(next, status, "a look without news changes nothing");
        let Some(Effect::Wake { after }) = effects.last() else {
            panic!("no wake")
        };
        waits.push(after.as_secs());
        now += SignedDuration::try_from(*after).unwrap();
    }
    assert_eq!(waits, [1, 1, 1, 1, 1, 1, 3, 6, 12, 25, 51, 60, 60]);
    // Progress resets it.
    let progress = evidence("a", placed(&[ClusterState::Failed]));
    status = settle(&spec, status, &progress, now);
    let (_, effects) = advance(&spec, &status, &progress, now);
    assert_eq!(
        effects.last(),
        Some(&Effect::Wake {
            after: Duration::from_secs(1)
        })
    );
}

#[test]
fn a_step_whose_placement_is_missing_waits_for_it_however_long() {
    let spec = spec(vec![deploy("a", WaitFor::Ready), deploy("b", WaitFor::Ready)]);
    let message = "there is no Placement \"regions\"";
    let blocked = evidence(
        "a",
        StepEvidence::Blocked {
            message: message.to_owned(),
        },
    );
    let mut status = settle(&spec, Status::default(), &blocked, t0());
    for minute in 0..600 {
        status = settle(&spec, status, &blocked, t0() + SignedDuration::from_mins(minute));
    }
    assert_eq!(shown(&status), "RunningWorkflow [Running/Wait, Pending]");
    assert_eq!(workflow(&status).message.as_deref(), Some(message));
    assert_eq!(steps(&status)[0].retries, None, "waiting is no failure");
    let there = evidence("a", placed(&[ClusterState::Ready]));
    let (next, _) = advance(&spec, &status, &there, t0() + SignedDuration::from_mins(601));
    assert_eq!(shown(&next), "RunningWorkflow [Succeeded, Running/Wait]");
}

#[test]
fn a_step_that_may_place_on_no_cluster_passes_and_is_healthy() {
    let spec = spec(vec![deploy("a", WaitFor::Ready)]);
    let empty = evidence("a", StepEvidence::AllowedEmpty);
    let status = settle(&spec, Status::default(), &empty, t0());
    assert_eq!(shown(&status), "Running [Succeeded] finished");
    for wait in [WaitFor::Ready, WaitFor::Applied, WaitFor::None] {
        assert!(StepEvidence::AllowedEmpty.passes(wait));
        assert!(!placed(&[]).passes(wait), "without leave it waits");
    }
}

#[test]
fn only_the_step_at_work_and_the_steps_of_a_run_that_succeeded_follow_the_fleet() {
    use Reach::{Live, Placed, Unreached};
    let spec = spec(vec![
        deploy("east", WaitFor::Ready),
        suspend("approve"),
        deploy("west", WaitFor::Ready),
    ]);
    let of = |status: &Status| {
        let reach = reach(&spec, status.workflow.as_ref());
        assert_eq!(reach.len(), 2, "a suspension places nothing");
        (reach[0].unwrap(), reach[1].unwrap())
    };
    let ready = Evidence {
        steps: ["east", "west"]
            .map(|s| (s.to_owned(), placed(&[ClusterState::Ready])))
            .into(),
        ..Evidence::default()
    };
    let mut status = Status::default();
    assert_eq!(of(&status), (Unreached, Unreached));
    (status, _) = advance(&spec, &status, &ready, t0());
    assert_eq!(of(&status), (Live, Unreached));
    let mut paused = status.clone();
    paused.workflow.as_mut().unwrap().suspend = true;
    assert_eq!(
        of(&paused),
        (Placed, Unreached),
        "also before the pause was taken in"
    );
    status = settle(&spec, status, &ready, t0());
    assert_eq!(of(&status), (Placed, Unreached));
    let mut ended = status.clone();
    ended.workflow.as_mut().unwrap().terminated = true;
    ended = settle(&spec, ended, &ready, t0());
    assert_eq!(of(&ended), (Placed, Unreached));
    status.workflow.as_mut().unwrap().suspend = false;
    (status, _) = advance(&spec, &status, &ready, t0());
    assert_eq!(of(&status), (Placed, Live));
    status = settle(&spec, status, &ready, t0());
    assert_eq!(of(&status), (Live, Live));
    // Another generation: a run that has not started.
    let newer = Spec {
        generation: 2,
        ..spec.clone()
    };
    assert_eq!(
        reach(&newer, status.workflow.as_ref()),
        [Some(Unreached), Some(Unreached)]
    );
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = ClusterState> {
        prop_oneof![
            Just(ClusterState::Dispatching),
            Just(ClusterState::Waiting),
            Just(ClusterState::Progressing),
            Just(ClusterState::Applied),
            Just(ClusterState::Ready),
            Just(ClusterState::Failed),
            Just(ClusterState::Unreachable),
        ]
    }

    fn random_evidence() -> impl Strategy<Value = Evidence> {
        let one = prop_oneof![
            8 => proptest::collection::vec(prop_oneof![3 => Just(ClusterState::Ready), 1 => state()], 0..3)
                .prop_map(|states| placed(&states)),
            1 => Just(refused()),
        ];
        proptest::collection::btree_map(prop_oneof!["s0", "s1", "s2", "s3"], one, 0..5).prop_map(|steps| {
            Evidence {
                steps,
                ..Evidence::default()
            }
        })
    }

    fn random_spec() -> impl Strategy<Value = Spec> {
        let step = prop_oneof![
            Just(Some(WaitFor::Ready)),
            Just(Some(WaitFor::Applied)),
            Just(Some(WaitFor::None)),
            Just(None)
        ];
        proptest::collection::vec(step, 1..5).prop_map(|kinds| {
            let steps = kinds.into_iter().enumerate().map(|(n, kind)| match kind {
                Some(wait) => deploy(&format!("s{n}"), wait),
                None => suspend(&format!("s{n}")),
            });
            spec(steps.collect())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn no_step_passes_without_its_evidence_and_a_restart_changes_nothing(
            spec in random_spec(),
            moves in proptest::collection::vec((random_evidence(), 0_i64..90, 0_u8..12), 1..40),
        ) {
            let mut status = Status::default();
            let mut now = t0();
            for (evidence, seconds, control) in moves {
                now += SignedDuration::from_secs(seconds);
                let mut resumed = false;
                if let Some(workflow) = &mut status.workflow {
                    match control {
                        0 => workflow.suspend = true,
                        1..=3 => {
                            resumed = workflow.suspend;
                            workflow.suspend = false;
                        }
                        4 => workflow.terminated = true,
                        _ => {}
                    }
                }
                // A restart of the hub reads the status back from its stored form.
                let stored = status.workflow.as_ref().map(|w| serde_json::to_value(w).unwrap());
                let restored = Status {
                    phase: status.phase,
                    workflow: stored.map(|w| serde_json::from_value(w).unwrap()),
                };
                let (next, effects) = advance(&spec, &restored, &evidence, now);
                prop_assert_eq!(&advance(&spec, &status, &evidence, now), &(next.clone(), effects));

                let before = status.workflow.clone().unwrap_or_default();
                let after = workflow(&next);
                if before.finished {
                    prop_assert_eq!(&before.steps, &after.steps, "a finished run does not change");
                } else {
                    for (n, step) in spec.steps.iter().enumerate() {
                        let was = before.steps.get(n).map(|s| s.phase);
                        if after.steps[n].phase != StepPhase::Succeeded || was == Some(StepPhase::Succeeded) {
                            continue;
                        }
                        match &step.action {
                            Action::Suspend { .. } => prop_assert!(resumed, "{step:?} passed by itself"),
                            Action::Deploy(deploy) => {
                                prop_assert!(was == Some(StepPhase::Running) || was == Some(StepPhase::Failed));
                                let own = evidence.steps.get(&step.name);
                                prop_assert!(own.is_some_and(|e| e.passes(deploy.wait)), "{step:?} on {own:?}");
                            }
                            other => prop_assert!(false, "{other:?} is not among them"),
                        }
                    }
                    let started = after.steps.iter().filter(|s| s.first_execute_time.is_some()).count();
                    let were = before.steps.iter().filter(|s| s.first_execute_time.is_some()).count();
                    prop_assert!(started <= were + 1, "one start a call");
                }
                status = next;
            }
        }
    }
}
