//! What becomes of applications and clusters, in sentences for people.

use super::{
    commit::Commit,
    model::{APPLICATIONS, BUNDLES, CLUSTERS, DECISIONS},
};
use crate::{simulate::HUB, words};
use roundhouse_api::{
    application::{Application, DELETES_HELD, StepPhase, StepStatus, WorkflowStatus},
    bundle::{Bundle, BundlePhase},
    cluster::{AVAILABLE, Cluster},
    condition,
    decision::{Decision, DecisionSpec, WorkloadDecision},
    names::cluster_of_namespace,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Sentences that are kept, with one more that says so where there were more.
const MOST: usize = 20_000;

/// Clusters that a sentence names.
const NAMED: usize = 8;

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// So long after the start of the monitor, in tokio's time.
    pub at: Duration,
    /// Of whom, where it may happen to many.
    pub who: Option<String>,
    /// What.
    pub what: String,
}

/// The sentences so far, and the steps of any application that began.
#[derive(Debug, Default, Clone)]
pub(super) struct Story {
    pub(super) told: Vec<Told>,
    pub(super) begun: BTreeSet<String>,
}

impl Story {
    fn tell(&mut self, at: Duration, who: Option<&str>, what: String) {
        let who = who.map(str::to_owned);
        match self.told.len().cmp(&MOST) {
            Ordering::Less => self.told.push(Told { at, who, what }),
            Ordering::Equal => self.told.push(Told {
                at,
                who: None,
                what: format!(
                    "nothing more is told of applications and clusters: the timeline has {} of them",
                    words::thousands(u64::try_from(MOST).unwrap_or(u64::MAX))
                ),
            }),
            Ordering::Greater => {}
        }
    }

    /// Takes a write in. What is told of an Application or a Decision.
    pub(super) fn take(&mut self, commit: &Commit) -> Vec<String> {
        if &*commit.server != HUB {
            return Vec::new();
        }
        let at = commit.at;
        match &*commit.key.table {
            APPLICATIONS => {
                let (before, after) = (read(commit.before()), read(commit.after()));
                self.begun.extend(begun(after.as_ref()));
                let told = steps(before.as_ref(), after.as_ref());
                for what in &told {
                    self.tell(
                        at,
                        None,
                        format!("{}/{}: {what}", commit.key.namespace, commit.key.name),
                    );
                }
                return told;
            }
            DECISIONS => {
                let spec = |value: &Value| read::<Decision>(value).map(|decision| decision.spec);
                if let Some(after) = spec(commit.after()) {
                    let told = moved(&spec(commit.before()).unwrap_or_default(), &after);
                    let of = &after.application_ref;
                    for what in &told {
                        let step = &after.step;
                        self.tell(
                            at,
                            None,
                            format!("{}/{}: step {step} {what}", of.namespace, of.name),
                        );
                    }
                    return told;
                }
            }
            CLUSTERS => {
                let available = |value: &Value| {
                    let status = read::<Cluster>(value)?.status?;
                    Some(condition::is_true(&status.conditions, AVAILABLE))
                };
                let (before, after) = (available(commit.before()), available(commit.after()));
                if let Some(now) = after
                    && now != before.unwrap_or(false)
                {
                    let what = if now { "available" } else { "not available" };
                    self.tell(at, Some(&*commit.key.name), what.to_owned());
                }
            }
            BUNDLES => {
                let failed = |value: &Value| {
                    let status = read::<Bundle>(value)?.status?;
                    Some(status.phase == Some(BundlePhase::Failed))
                };
                if failed(commit.after()) == Some(true) && failed(commit.before()) != Some(true) {
                    self.tell(
                        at,
                        cluster_of_namespace(&commit.key.namespace),
                        format!("bundle {} failed", commit.key.name),
                    );
                }
            }
            _ => {}
        }
        Vec::new()
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// Where replicas go by a Decision that had another place before: `places web: c1 2→0, c6 1→2`. Clusters that get something without
/// replicas are told where no replicas move.
fn moved(before: &DecisionSpec, after: &DecisionSpec) -> Vec<String> {
    let mut told = Vec::new();
    for workload in &after.workloads {
        let of = &workload.workload;
        let was = before.workloads.iter().find(|was| was.workload == *of);
        let (was, is) = (was.map(replicas).unwrap_or_default(), replicas(workload));
        let mut names: Vec<&str> = was.keys().chain(is.keys()).copied().collect();
        names.sort_unstable();
        names.dedup();
        let count = |of: &BTreeMap<&str, u64>, name: &str| of.get(name).copied().unwrap_or(0);
        let moves = names.into_iter().filter_map(|name| {
            let (was, is) = (count(&was, name), count(&is, name));
            (was != is).then(|| format!("{name} {was}→{is}"))
        });
        let moves: Vec<String> = moves.collect();
        if !moves.is_empty() {
            let unplaced: u64 = workload.unplaced.iter().map(|some| u64::from(some.count)).sum();
            let unplaced = match unplaced {
                0 => String::new(),
                some => format!("; {some} of {} replicas have no place", workload.replicas),
            };
            told.push(format!(
                "places {}: {}{unplaced}",
                of.name,
                words::listed(&moves, NAMED)
            ));
        }
    }
    if told.is_empty() {
        let only = |of: &DecisionSpec, not: &DecisionSpec| -> Vec<String> {
            let own = of.clusters.iter().filter(|name| !not.clusters.contains(name));
            own.cloned().collect()
        };
        for (what, names) in [
            ("is now in", only(after, before)),
            ("is no longer in", only(before, after)),
        ] {
            if !names.is_empty() {
                told.push(format!("{what} {}", words::listed(&names, NAMED)));
            }
        }
    }
    told
}

/// Replicas of a workload by cluster, over all rules.
fn replicas(workload: &WorkloadDecision) -> BTreeMap<&str, u64> {
    let mut all = BTreeMap::new();
    for assigned in &workload.clusters {
        *all.entry(assigned.name.as_str()).or_default() += u64::from(assigned.replicas);
    }
    all
}

/// What has changed of an application: its steps, its phase, and whether deletes are held. Of the steps of one write, what ended
/// comes before what began because of it.
fn steps(before: Option<&Application>, after: Option<&Application>) -> Vec<String> {
    let run = |application: Option<&Application>| application?.status.as_ref()?.workflow.clone();
    let (was, is) = (run(before), run(after).unwrap_or_default());
    let revision = |run: Option<&WorkflowStatus>| run?.app_revision.clone();
    // Of another revision the steps are others, whatever they are called.
    let (old, new) = (revision(was.as_ref()), revision(Some(&is)));
    let was = was.filter(|_| old == new || new.is_none());
    let told = |step: &StepStatus| {
        let before = was.as_ref().and_then(|was| was.step(&step.name));
        let why = match step.message.as_deref() {
            None | Some("") => String::new(),
            Some(message) => format!(": {message}"),
        };
        before
            .is_none_or(|before| before.phase != step.phase)
            .then(|| format!("step {} is {:?}{why}", step.name, step.phase))
    };
    // A group ends when its own steps have, and begins before them.
    let inner_first = is
        .steps
        .iter()
        .flat_map(|step| step.sub_steps.iter().chain(std::iter::once(step)));
    let ended = inner_first.filter(|step| step.is_over());
    let others = is.all_steps().filter(|step| !step.is_over());
    let mut told: Vec<String> = ended.chain(others).filter_map(told).collect();
    if let (Some(old), Some(new)) = (&old, &new)
        && old != new
    {
        told.insert(0, format!("delivers {new}, after {old}"));
    }
    let phase = |application: Option<&Application>| application?.status.as_ref()?.phase;
    if let Some(now) = phase(after)
        && phase(before) != Some(now)
    {
        told.push(format!("{now:?}"));
    }
    let held = |application: Option<&Application>| {
        let conditions = &application?.status.as_ref()?.conditions;
        condition::get(conditions, DELETES_HELD)
            .filter(|held| held.status == "True")
            .map(|held| held.message.clone())
    };
    match (held(before), held(after)) {
        (was, Some(now)) if was.as_ref() != Some(&now) => told.push(format!("deletes are held: {now}")),
        (Some(_), None) => told.push("no deletes are held any more".to_owned()),
        _ => {}
    }
    told
}

/// The steps of an application that have begun, whatever became of them.
fn begun(application: Option<&Application>) -> Vec<String> {
    let run = application.and_then(|application| application.status.as_ref()?.workflow.as_ref());
    let steps = run.into_iter().flat_map(|run| run.all_steps());
    let begun = steps.filter(|step| !matches!(step.phase, StepPhase::Pending | StepPhase::Skipped));
    begun.map(|step| step.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn application(phase: &str, step: &str) -> Option<Application> {
        let object = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": "web"},
            "spec": {"components": []}, "status": {"phase": phase, "workflow": {"steps": [
                {"name": "east", "type": "deploy", "phase": step, "message": "waits"}]}}});
        serde_json::from_value(object).ok()
    }

    #[test]
    fn a_revision_that_follows_another_one_is_told_with_its_steps() {
        let of = |revision: &str, step: &str| {
            let mut of = application("runningWorkflow", step);
            let workflow = of.as_mut().and_then(|of| of.status.as_mut()?.workflow.as_mut());
            workflow.unwrap().app_revision = Some(revision.to_owned());
            of
        };
        let (first, second) = (of("web-v1", "running"), of("web-v2", "running"));
        assert_eq!(
            steps(first.as_ref(), second.as_ref()),
            ["delivers web-v2, after web-v1", "step east is Running: waits"]
        );
        assert_eq!(
            steps(None, first.as_ref()),
            ["step east is Running: waits", "RunningWorkflow"]
        );
        assert_eq!(steps(first.as_ref(), first.as_ref()), [""; 0]);
    }

    #[test]
    fn a_change_of_a_phase_is_told_once() {
        let (first, second) = (
            application("runningWorkflow", "running"),
            application("running", "succeeded"),
        );
        assert!(first.is_some() && second.is_some());
        assert_eq!(
            steps(first.as_ref(), second.as_ref()),
            ["step east is Succeeded: waits", "Running"]
        );
        assert_eq!(steps(second.as_ref(), second.as_ref()), Vec::<String>::new());
    }

    #[test]
    fn what_ended_is_told_before_what_began_because_of_it() {
        let of = |steps: Value| {
            let mut application = application("runningWorkflow", "running").unwrap();
            let workflow = json!({"steps": steps});
            application.status.as_mut().unwrap().workflow = serde_json::from_value(workflow).unwrap();
            application
        };
        let step = |name: &str, phase: &str| json!({"name": name, "type": "deploy", "phase": phase});
        let group = |phase: &str, inner: [Value; 2]| json!({"name": "both", "type": "step-group", "phase": phase, "subSteps": inner});
        let first = of(json!([
            step("request", "running"),
            step("handle-500", "pending"),
            step("handle-200", "pending"),
            group("pending", [step("a", "pending"), step("b", "pending")]),
        ]));
        let second = of(json!([
            step("request", "succeeded"),
            step("handle-500", "running"),
            step("handle-200", "skipped"),
            group("running", [step("a", "running"), step("b", "pending")]),
        ]));
        let third = of(json!([
            step("request", "succeeded"),
            step("handle-500", "running"),
            step("handle-200", "skipped"),
            group("succeeded", [step("a", "succeeded"), step("b", "succeeded")]),
        ]));
        assert_eq!(
            steps(Some(&first), Some(&second)),
            [
                "step request is Succeeded",
                "step handle-200 is Skipped",
                "step handle-500 is Running",
                "step both is Running",
                "step a is Running",
            ]
        );
        assert_eq!(
            steps(Some(&second), Some(&third)),
            [
                "step a is Succeeded",
                "step b is Succeeded",
                "step both is Succeeded"
            ]
        );
    }

    #[test]
    fn deletes_that_are_held_are_told_until_they_are_not() {
        let held = |status: &str| {
            let mut application = application("running", "succeeded").unwrap();
            application.status.as_mut().unwrap().conditions = serde_json::from_value(
                json!([{"type": "DeletesHeld", "status": status, "reason": "Budget",
                "message": "3 clusters would lose it", "lastTransitionTime": "2026-01-01T00:00:00Z"}]),
            )
            .unwrap();
            application
        };
        let (no, yes) = (held("False"), held("True"));
        assert_eq!(
            steps(Some(&no), Some(&yes)),
            ["deletes are held: 3 clusters would lose it"]
        );
        assert_eq!(steps(Some(&yes), Some(&yes)), [""; 0]);
        assert_eq!(steps(Some(&yes), Some(&no)), ["no deletes are held any more"]);
    }

    fn decided(clusters: &[(&str, &str, u32)], unplaced: u32) -> DecisionSpec {
        let rows: Vec<Value> = clusters
            .iter()
            .map(|(name, rule, replicas)| json!({"name": name, "rule": rule, "replicas": replicas, "duplicate": false}))
            .collect();
        let unplaced = json!([{"rule": null, "count": unplaced, "reason": "NoRoom"}]);
        let workload = json!({"workload": {"kind": "Deployment", "namespace": "default", "name": "web"}, "replicas": 9,
            "placed": 9, "unplaced": unplaced, "clusters": rows});
        DecisionSpec {
            workloads: vec![serde_json::from_value(workload).unwrap()],
            clusters: clusters.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            ..DecisionSpec::default()
        }
    }

    #[test]
    fn what_moves_by_a_decision_is_told_by_cluster() {
        let first = decided(
            &[("c1", "a", 1), ("c1", "b", 1), ("c10", "a", 0), ("c2", "a", 1)],
            0,
        );
        assert_eq!(
            moved(&DecisionSpec::default(), &first),
            ["places web: c1 0→2, c2 0→1"]
        );
        assert_eq!(moved(&first, &first), [""; 0]);
        let second = decided(&[("c2", "a", 2), ("c10", "a", 1)], 2);
        assert_eq!(
            moved(&first, &second),
            ["places web: c1 2→0, c10 0→1, c2 1→2; 2 of 9 replicas have no place"]
        );
        let (mut without, mut also) = (decided(&[], 0), decided(&[], 0));
        without.clusters = vec!["c1".to_owned()];
        also.clusters = vec!["c2".to_owned()];
        assert_eq!(moved(&without, &also), ["is now in c2", "is no longer in c1"]);
    }
}
