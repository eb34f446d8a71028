//! P8: a step that has failed, a run that has ended without success, and one that a person has paused bring nothing to any further
//! cluster; and a step of which too many clusters have failed is one that fails.

use super::{
    commit::Commit,
    evidence::shows,
    model::{APPLICATIONS, BEHIND, BUNDLES, DECISIONS, Model, Name},
    promise::{Check, Found, Note, Promise},
};
use crate::simulate::HUB;
use roundhouse_api::{
    application::{Application, DeployStep, StepPhase, WaitFor, WorkflowStatus},
    bundle::{ApplicationRef, Bundle},
    decision::DecisionSpec,
    names::{annotation, cluster_of_namespace, decision_name, label, step_of_bundle},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What is judged where something has stopped with clusters that it has not come to.
const GOES_ON: &str = "nothing goes on that has stopped";

#[derive(Debug, Default)]
pub(super) struct Stops {
    /// Since when steps of applications have stopped.
    stopped: BTreeMap<(Name, String), Duration>,
    /// When Decisions came to divide as they do, by name.
    decided: BTreeMap<Name, Duration>,
    /// Since when agents report that what a Bundle has now has failed, and whether not all of it is applied.
    failed: BTreeMap<Name, (Duration, bool)>,
}

impl Check for Stops {
    fn noted(&mut self, note: &Note, _: &Model, _: &mut Found<'_>) {
        if let Note::Restored(server) = note
            && **server == *HUB
        {
            self.failed.clear();
            self.stopped.clear();
        }
    }

    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        match (&*commit.server, &*commit.key.table) {
            (HUB, APPLICATIONS) => return self.stands(commit, model, found),
            (HUB, BUNDLES) => self.reports(commit),
            (HUB, DECISIONS) => {
                let of = |decision: &Value| {
                    ["/spec/hash", "/spec/revision"].map(|of| decision.pointer(of).cloned())
                };
                if of(commit.before()) != of(commit.after()) {
                    let name = (commit.key.namespace.clone(), commit.key.name.clone());
                    self.decided.insert(name, commit.at);
                }
                return;
            }
            _ => return,
        }
        // Most writes are reports.
        let text = |pointer: &str| commit.after().pointer(pointer).and_then(Value::as_str);
        let was = commit.before().pointer("/spec/revision").and_then(Value::as_str);
        let is = text("/spec/revision");
        let steps = |of: &Value| of.pointer("/metadata/annotations").cloned();
        let same = was == is && steps(commit.before()) == steps(commit.after());
        if same || commit.after().pointer("/spec/deletion").is_some() {
            return;
        }
        if let Some(revision) = is
            && commit.by().is_some_and(|who| who.is_hub())
            && let Some(bundle) = commit.read::<Bundle>()
            && let Some(of) = &bundle.spec.application_ref
        {
            self.brings(commit, &bundle, (of, revision), model, found);
        }
    }
}

/// The steps that a Bundle names as those that have brought it, each with its revision: those that bring components, where they are
/// several, or the last one that places there.
fn brought(bundle: &Value) -> BTreeMap<String, String> {
    let text = |of: &str, key: &str| Some(bundle.pointer(of)?.get(key)?.as_str()?.to_owned());
    let steps = text("/metadata/annotations", annotation::STEPS);
    let steps: Option<BTreeMap<_, _>> = steps.and_then(|steps| serde_json::from_str(&steps).ok());
    let last = || {
        let revision = bundle.pointer("/spec/revision")?.as_str()?.to_owned();
        Some(BTreeMap::from([(
            text("/metadata/labels", label::STEP)?,
            revision,
        )]))
    };
    steps.or_else(last).unwrap_or_default()
}

impl Stops {
    /// How the run of an application stands: since when its steps have stopped, and whether they have left something.
    fn stands(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let name: Name = (commit.key.namespace.clone(), commit.key.name.clone());
        let status = commit.read::<Application>().and_then(|found| found.status);
        let run = status.and_then(|status| status.workflow).unwrap_or_default();
        let (mut stopped, mut left) = (BTreeSet::new(), false);
        for step in run
            .all_steps()
            .filter(|step| has_stopped(&run, &step.name).is_some())
        {
            stopped.insert(step.name.clone());
            let decided = model.decided(&name.0, &name.1, &step.name);
            let decided = decided.filter(|of| Some(&of.revision) == run.app_revision.as_ref());
            left |= decided.is_some_and(|decision| {
                model
                    .bundles_of((&name.0, &name.1))
                    .any(|(cluster, (_, bundle), held)| {
                        let of = held.present().and_then(|content| content.spec.revision.as_ref());
                        step_of_bundle(bundle).is_none()
                            && !held.deleting
                            && of != Some(&decision.revision)
                            && decision.clusters.iter().any(|of| of == cluster)
                    })
            });
        }
        if left {
            found.judges_part(Promise::P8, GOES_ON);
        }
        self.stopped
            .retain(|(of, step), _| *of != name || stopped.contains(step));
        for step in stopped {
            self.stopped.entry((name.clone(), step)).or_insert(commit.at);
        }
    }

    /// What its agent says of a Bundle.
    fn reports(&mut self, commit: &Commit) {
        let name = (commit.key.namespace.clone(), commit.key.name.clone());
        let fails = commit
            .after()
            .pointer("/status/phase")
            .is_some_and(|phase| phase == "Failed");
        let bundle = fails.then(|| commit.read::<Bundle>()).flatten();
        let status = bundle.as_ref().and_then(|bundle| {
            let generation = bundle.metadata.generation.unwrap_or_default();
            let status = bundle.status.as_ref()?;
            (status.is_about(generation) && status.hash == bundle.spec.hash).then_some(status)
        });
        let Some(status) = status else {
            self.failed.remove(&name);
            return;
        };
        let applied = shows(status, WaitFor::Applied);
        let since = self.failed.get(&name).filter(|(_, lacks)| *lacks != applied);
        let since = since.map_or(commit.at, |(since, _)| *since);
        self.failed.insert(name, (since, !applied));
    }

    /// A cluster is given a revision that it has not had before, of a step or at all.
    fn brings(
        &self,
        commit: &Commit,
        bundle: &Bundle,
        (of, revision): (&ApplicationRef, &str),
        model: &Model,
        found: &mut Found<'_>,
    ) {
        let key: Name = (of.namespace.as_str().into(), of.name.as_str().into());
        let Some(application) = model.applications.get(&key) else {
            return;
        };
        let Some(run) = application.status.workflow.as_ref() else {
            return;
        };
        if run.app_revision.as_deref() != Some(revision) {
            return;
        }
        let cluster = cluster_of_namespace(&commit.key.namespace).unwrap_or_default();
        let (had, has) = (brought(commit.before()), brought(commit.after()));
        let of_run = |has: &&String| **has == revision;
        let new: Vec<&String> = has
            .iter()
            .filter(|(step, has)| of_run(has) && had.get(*step) != Some(has))
            .map(|(step, _)| step)
            .collect();
        // Where a Bundle names one step it is the last one that places there, whichever of them has brought it; one that goes over
        // from a step to another is under both for a while.
        let decided = |step: &&str| {
            let decided = model.decided(&of.namespace, &of.name, step);
            decided.filter(|d| d.revision == revision && d.clusters.iter().any(|of| of == cluster))
        };
        let is_parted = commit
            .after()
            .pointer("/metadata/annotations")
            .is_some_and(|a| a.get(annotation::STEPS).is_some());
        let mut brings: Vec<(&str, Option<&DecisionSpec>)> = run
            .all_steps()
            .map(|step| step.name.as_str())
            .filter(|step| !is_parted || new.iter().any(|new| new == step))
            .filter_map(|step| Some((step, Some(decided(&step)?))))
            .collect();
        let same = |of: &str| commit.before().pointer(of) == commit.after().pointer(of);
        if new.is_empty() || (commit.is_change() && same("/spec/hash") && same("/spec/partsHash")) {
            return;
        }
        if brings.is_empty() {
            let known = new.iter().filter(|step| run.step(step).is_some());
            brings.extend(known.map(|step| (step.as_str(), None)));
        }
        // What was on its way when the step stopped may still come.
        let overdue = commit.asked.as_ref().and_then(|asked| asked.overdue);
        let sent = commit.at.saturating_sub(overdue.unwrap_or_default());
        let may = |(step, decision): &(&str, Option<&DecisionSpec>)| {
            let was_sent = || {
                let since = self.stopped.get(&(key.clone(), (*step).to_owned()));
                overdue.is_some() && since.is_none_or(|since| sent <= *since)
            };
            // Of a Bundle that is not there nobody knows whether it ever was: one that vanished is made again, where it is not
            // noted that the step has not come to it.
            let waits = decision.and_then(|decision| decision.waits(cluster));
            let waits = waits.is_some_and(|waits| waits.revision.as_deref() != Some(revision));
            let is_made_again = || !commit.is_change() && !waits;
            has_stopped(run, step).is_none() || was_sent() || is_made_again()
        };
        // The rest of what a step has written in part follows.
        let is_half = || {
            let mut others = model.stored.iter().filter(|((server, key), _)| {
                &**server == HUB
                    && (&key.table, &key.namespace) == (&commit.key.table, &commit.key.namespace)
                    && key.name != commit.key.name
            });
            others.any(|(_, record)| {
                let other: Value = serde_json::from_slice(&record.bytes).unwrap_or_default();
                let own = other.pointer("/spec/applicationRef/uid")
                    == commit.after().pointer("/spec/applicationRef/uid");
                let has = brought(&other);
                own && new
                    .iter()
                    .all(|step| has.get(*step).is_some_and(|has| has == revision))
            })
        };
        let mut stopped = brings.iter().filter(|brings| !may(brings)).peekable();
        let may_come = match is_parted {
            true => stopped.peek().is_none(),
            false => brings.iter().any(may),
        };
        let why = stopped.find_map(|(step, _)| has_stopped(run, step));
        if let Some(why) = why.filter(|_| !may_come && !is_half()) {
            let expected = format!("nothing of {revision} to come to further clusters: {why}");
            found.broke(
                Promise::P8,
                commit.object(),
                expected,
                format!("{cluster} gets it"),
            );
        }
        let labels = bundle.metadata.labels.as_ref();
        if let Some(step) = labels.and_then(|all| all.get(label::STEP))
            && run.step(step).is_some()
            && has_stopped(run, step).is_none()
            && overdue.is_none()
            && commit.is_change()
        {
            self.bears(commit, (of, revision), step, model, found);
        }
    }

    /// No more clusters of its step have failed than may, as far as the hub has to have heard of it.
    fn bears(
        &self,
        commit: &Commit,
        (of, revision): (&ApplicationRef, &str),
        step: &str,
        model: &Model,
        found: &mut Found<'_>,
    ) {
        let namespace: Arc<str> = of.namespace.as_str().into();
        let Some(deploy) = deploy_of(model, &namespace, revision, step) else {
            return;
        };
        let Some(most) = deploy.max_failed_clusters else {
            return;
        };
        let name: Name = (namespace, decision_name(&of.name, step).as_str().into());
        let decision = model.decisions.get(&name);
        let Some(decision) = decision.filter(|decision| decision.revision == revision) else {
            return;
        };
        // Where shares have changed since, who has failed may get something else, too.
        let decided = self.decided.get(&name).copied().unwrap_or_default();
        let has_failed = |name: &Name| {
            let known = self.failed.get(name);
            known.is_some_and(|(since, lacks)| {
                let counts = *lacks || deploy.wait != WaitFor::Applied;
                counts && *since >= decided && commit.at.saturating_sub(*since) >= BEHIND
            })
        };
        let own = model.bundles_of((&of.namespace, &of.name));
        let failed: BTreeSet<&str> = own
            .filter(|(cluster, name, held)| {
                let of = held
                    .present()
                    .and_then(|content| content.spec.revision.as_deref());
                step_of_bundle(&name.1).is_none()
                    && !held.deleting
                    && of == Some(revision)
                    && has_failed(name)
                    && model.is_known(cluster, commit.at)
                    && decision.clusters.iter().any(|of| of == cluster)
            })
            .map(|(cluster, ..)| cluster)
            .collect();
        if !failed.is_empty() {
            found.judges_part(Promise::P8, "maxFailedClusters");
        }
        if failed.len() > usize::try_from(most).unwrap_or(usize::MAX) {
            let expected = format!("step {step} to go on with at most {most} failed clusters");
            found.broke(Promise::P8, commit.object(), expected, format!("{failed:?}"));
        }
    }
}

fn deploy_of<'m>(
    model: &'m Model,
    namespace: &Arc<str>,
    revision: &str,
    step: &str,
) -> Option<&'m DeployStep> {
    let revision = model.revisions.get(&(namespace.clone(), revision.into()))?;
    let valid = revision.valid.all_steps().find(|valid| valid.name == step)?;
    valid.kind.deploy()
}

/// Why a step of a run dispatches nothing more.
fn has_stopped(run: &WorkflowStatus, step: &str) -> Option<&'static str> {
    let has_failed = |phase: Option<StepPhase>| phase == Some(StepPhase::Failed);
    if run.finished && has_failed(run.status) {
        return Some("the run has ended");
    }
    if run.paused && run.suspend && run.status == Some(StepPhase::Suspending) {
        return Some("the run is paused");
    }
    let is_over = run
        .step(step)
        .is_some_and(|step| has_failed(Some(step.phase)) && step.is_over());
    is_over.then_some("the step has failed")
}
