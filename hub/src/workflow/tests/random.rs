//! Random workflows with random evidence, commands and restarts of the hub.

use super::*;
use crate::action::Outcome;
use proptest::prelude::*;
use roundhouse_api::application::{WaitStep, validate};
use serde_json::{Value, json};

/// What a step is made of: its type, its condition, its time, what it depends on.
type Draft = (u8, u8, u8, Option<prop::sample::Index>);

fn draft() -> impl Strategy<Value = Draft> {
    (
        0..11_u8,
        0..6_u8,
        0..5_u8,
        prop::option::weighted(0.3, any::<prop::sample::Index>()),
    )
}

/// A step of that name, behind steps of these names in its list; `all` are the names of all steps so far.
fn step(name: &str, draft: &Draft, before: &[String], all: &[String]) -> Value {
    let (type_, condition, time, after) = draft;
    let deploy = |wait: &str| json!({"type": "deploy", "properties": {"placement": [{}], "wait": wait}});
    let mut step = match type_ {
        0 | 1 => deploy("ready"),
        2 => {
            json!({"type": "deploy", "properties": {"placement": [{}], "wait": {"until": {"ready": "50%"}}, "maxFailedClusters": 1}})
        }
        3 => {
            let mut step = deploy("none");
            step["properties"]["auto"] = json!(*time != 1);
            step
        }
        4 => json!({"type": "suspend", "properties": {"duration": "5m"}}),
        5 => json!({"type": "request", "properties": {"url": "https://x"}}),
        6 => json!({"type": "export", "properties": {"value": 1}}),
        7 => json!({"type": "wait", "properties": {"until": {"ready": 1}}}),
        8 => json!({"type": "wait", "properties": {"until": "object.code == 1",
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}}}),
        9 => json!({"type": "apply-object", "properties": {"clusters": ["c1"],
            "value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}}}),
        _ => json!({"type": if *time > 2 { "break" } else { "fail" }}),
    };
    step["name"] = json!(name);
    match (condition, all.last()) {
        (0, _) => step["if"] = json!("always"),
        (1, Some(other)) => step["if"] = json!(format!("status.{other}.failed")),
        (2, Some(other)) => step["if"] = json!(format!("status.{other}.succeeded || status.{other}.skipped")),
        _ => {}
    }
    if *time == 0 {
        step["timeout"] = json!("90s");
    }
    if let (Some(after), false) = (after, before.is_empty()) {
        step["dependsOn"] = json!([after.get(before)]);
    }
    step
}

/// A workflow of a few steps, some of them groups.
fn workflow_of(modes: (bool, bool), drafts: &[(Draft, Vec<Draft>)]) -> Spec {
    let mut steps = Vec::new();
    let (mut names, mut all): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (n, (draft, inner)) in drafts.iter().enumerate() {
        let name = format!("s{n}");
        let mut made = step(&name, draft, &names, &all);
        if !inner.is_empty() {
            let mut own = Vec::new();
            let mut sub_steps = Vec::new();
            for (m, draft) in inner.iter().enumerate() {
                let name = format!("s{n}-{m}");
                sub_steps.push(step(&name, draft, &own, &all));
                own.push(name.clone());
                all.push(name);
            }
            made["type"] = json!("step-group");
            made["subSteps"] = json!(sub_steps);
            made.as_object_mut().unwrap().remove("properties");
        }
        steps.push(made);
        names.push(name.clone());
        all.push(name);
    }
    // Something has to be placed.
    steps.push(json!({"name": "last", "type": "deploy", "properties": {"placement": [{}]}}));
    let mode = |dag: bool| if dag { "DAG" } else { "StepByStep" };
    let valid = validate(&json!({
        "components": [{"name": "web", "type": "worker", "properties": {"image": "x"}}],
        "workflow": {"mode": {"steps": mode(modes.0), "subSteps": mode(modes.1)}, "steps": steps},
    }));
    let valid = valid.unwrap_or_else(|violations| panic!("{violations:#?}\n{steps:#?}"));
    Spec::new("app-v1", 1, ("default", "app"), &valid, Limits::default())
}

fn specs() -> impl Strategy<Value = Spec> {
    let drafts = prop::collection::vec(
        (
            draft(),
            prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(draft(), 1..4)],
        ),
        1..5,
    );
    ((any::<bool>(), any::<bool>()), drafts).prop_map(|(modes, drafts)| workflow_of(modes, &drafts))
}

fn state() -> impl Strategy<Value = ClusterState> {
    use ClusterState::{Applied, Dispatching, Failed, Progressing, Ready, Unhealthy, Unreachable, Waiting};
    prop_oneof![
        4 => Just(Ready),
        2 => prop::sample::select(vec![Dispatching, Waiting, Progressing, Applied, Unhealthy, Failed, Unreachable]),
    ]
}

/// What happens at one moment: what each placing step and each step that acts shows, how many milliseconds
/// later it is, a command.
type Moment = (Vec<Vec<ClusterState>>, Vec<u8>, i64, u8);

fn moments() -> impl Strategy<Value = Vec<Moment>> {
    let shown = prop::collection::vec(prop::collection::vec(state(), 0..3), 12);
    let came = prop::collection::vec(0..6_u8, 12);
    prop::collection::vec((shown, came, 0..120_000_i64, 0..24_u8), 1..30)
}

fn evidence_of(spec: &Spec, status: &Status, moment: &Moment, now: Timestamp) -> Evidence {
    let (shown, came, ..) = moment;
    let mut evidence = Evidence::default();
    for (n, at) in spec.places().into_iter().enumerate() {
        let step = spec.at(at).unwrap();
        let states = &shown[n % shown.len()];
        match &step.action {
            Action::Deploy(_) => {
                let what = match states.first() {
                    Some(ClusterState::Dispatching) if states.len() == 2 => refused(),
                    _ => placed(states),
                };
                evidence.steps.insert(step.name.clone(), what);
            }
            Action::ClusterObject { .. } => {
                evidence.objects.insert(step.name.clone(), placed(states));
            }
            Action::Act { .. } | Action::Wait(WaitStep::Object { .. }) => {
                let state = status.workflow.as_ref().and_then(|w| w.step(&step.name));
                let attempt = state.and_then(|s| s.attempt).unwrap_or(1);
                let message = "m".to_owned();
                let outcome = match came[n % came.len()] {
                    0 => Outcome::Done {
                        output: json!({"code": 1}),
                    },
                    1 => Outcome::Done {
                        output: match &step.action {
                            Action::Wait(_) => Value::Null,
                            _ => json!({"code": 1}),
                        },
                    },
                    2 => Outcome::Waiting { message },
                    3 => Outcome::Failed {
                        message,
                        output: None,
                    },
                    _ => continue,
                };
                let came = ActionEvidence {
                    attempt,
                    at: now,
                    outcome,
                };
                evidence.actions.insert(step.name.clone(), came);
            }
            _ => {}
        }
    }
    evidence
}

fn command(spec: &Spec, status: &mut Status, (command, which): (u8, i64)) {
    let Some(workflow) = &mut status.workflow else {
        return;
    };
    match command {
        0 => workflow.suspend = true,
        8 => workflow.paused = true,
        1..=5 => workflow.suspend = false,
        6 => workflow.terminated = true,
        7 => {
            let all = spec.places();
            let at = all[usize::try_from(which).unwrap() % all.len()];
            workflow.restart_from = Some(spec.at(at).unwrap().name.clone());
        }
        _ => {}
    }
}

/// A status as the next hub reads it.
fn stored(status: &Status) -> Status {
    let workflow = status.workflow.as_ref().map(|w| serde_json::to_value(w).unwrap());
    Status {
        phase: status.phase,
        workflow: workflow.map(|w| serde_json::from_value(w).unwrap()),
    }
}

/// Whether a step that has become done had what it takes.
fn may_succeed(step: &Step, was: Option<&StepStatus>, evidence: &Evidence, resumed: bool) -> bool {
    let started = was.is_some_and(|was| was.first_execute_time.is_some());
    match &step.action {
        Action::Deploy(deploy) => {
            let own = evidence.steps.get(&step.name);
            let enough = own.is_some_and(|own| match &deploy.until {
                None => own.passes(deploy.wait),
                Some(_) => {
                    let ready = own
                        .clusters()
                        .iter()
                        .filter(|c| c.state == ClusterState::Ready)
                        .count();
                    own.until() && ready > 0 && ready * 2 >= own.clusters().len()
                }
            });
            started && enough
        }
        Action::Act { .. } => {
            let came = evidence.actions.get(&step.name).map(|came| &came.outcome);
            started && matches!(came, Some(Outcome::Done { .. }))
        }
        Action::Suspend(_) => started || resumed,
        Action::Wait(WaitStep::Object { .. }) => {
            let came = evidence.actions.get(&step.name).map(|came| &came.outcome);
            started && matches!(came, Some(Outcome::Done { output }) if !output.is_null())
        }
        Action::ClusterObject { deploy, .. } => {
            started
                && evidence
                    .objects
                    .get(&step.name)
                    .is_some_and(|own| own.passes(deploy.wait))
        }
        Action::Wait(WaitStep::Fleet { .. }) => evidence
            .steps
            .values()
            .any(|own| own.clusters().iter().any(|c| c.state == ClusterState::Ready)),
        Action::Fail { .. } => false,
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_step_passes_without_its_own_evidence_no_ended_run_changes_and_a_restart_is_not_noticed(
        spec in specs(),
        moments in moments(),
    ) {
        let (mut status, mut now) = (Status::default(), t0());
        for moment in &moments {
            now += SignedDuration::from_millis(moment.2);
            command(&spec, &mut status, (moment.3, moment.2));
            let evidence = evidence_of(&spec, &status, moment, now);
            let restarts = status.workflow.as_ref().is_some_and(|w| w.restart_from.is_some());
            let before = status.workflow.clone().unwrap_or_default();
            let resumed = before.status == Some(StepPhase::Suspending) && !before.suspend;
            let answer = advance(&spec, &status, &evidence, now);
            prop_assert_eq!(&advance(&spec, &stored(&status), &evidence, now), &answer, "a restart is noticed");
            let (next, effects) = answer;
            let after = workflow(&next);
            if before.finished && !restarts {
                prop_assert_eq!(&before.steps, &after.steps, "an ended run changes");
                let starts = |e: &Effect| matches!(e, Effect::Act { .. } | Effect::Dispatch { .. });
                prop_assert!(!effects.iter().any(starts));
            }
            if !restarts {
                for at in spec.places() {
                    let step = spec.at(at).unwrap();
                    let (was, is) = (before.step(&step.name), after.step(&step.name).unwrap());
                    let was_over = was.is_some_and(StepStatus::is_over) && spec.is_of(&before);
                    if was_over {
                        prop_assert_eq!(was.unwrap().phase, is.phase, "{} was over", step.name);
                    } else if is.phase == StepPhase::Succeeded {
                        prop_assert!(may_succeed(step, was, &evidence, resumed), "{} on {:?}", step.name, evidence);
                    }
                }
            }
            // What a step waits for is over before it starts.
            for (list, states) in std::iter::once((&spec.steps[..], &after.steps[..]))
                .chain(spec.steps.iter().zip(&after.steps).map(|(step, state)| (step.inner(), &state.sub_steps[..])))
            {
                for (step, state) in list.iter().zip(states).filter(|(_, s)| s.first_execute_time.is_some()) {
                    let open = step.after.iter().find(|index| !states[**index].is_over());
                    prop_assert!(open.is_none() || before.terminated, "{} has started too early", state.name);
                }
            }
            prop_assert_eq!(after.finished, after.steps.iter().all(StepStatus::is_over));
            // What moves is looked at again at once.
            let looked_at = after.finished || !effects.is_empty() || *after != before;
            prop_assert!(looked_at, "nobody would look again: {:?}", after);
            status = next;
        }
    }

    #[test]
    fn every_run_comes_to_its_end(spec in specs(), moments in moments()) {
        let (mut status, mut now) = (Status::default(), t0());
        for moment in &moments {
            now += SignedDuration::from_millis(moment.2);
            command(&spec, &mut status, (moment.3, moment.2));
            let evidence = evidence_of(&spec, &status, moment, now);
            status = advance(&spec, &status, &evidence, now).0;
        }
        // From now on all goes well.
        for round in 0..200 {
            if workflow(&status).finished {
                break;
            }
            prop_assert!(round < 199, "{:#?}", workflow(&status));
            now += SignedDuration::from_secs(61);
            command(&spec, &mut status, (1, 0));
            let well = (vec![vec![ClusterState::Ready]; 12], vec![0; 12], 0, 23);
            let evidence = evidence_of(&spec, &status, &well, now);
            status = advance(&spec, &status, &evidence, now).0;
        }
    }
}
