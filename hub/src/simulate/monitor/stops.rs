//! P8: a step that has failed, a run that has ended without success, and one that a person has paused bring nothing to any further
//! cluster; and a step of which too many clusters have failed is one that fails.

use super::{
    commit::Commit,
    evidence::shows,
    model::{BEHIND, BUNDLES, Model, Name},
    promise::{Check, Found, Note, Promise},
};
use crate::simulate::HUB;
use roundhouse_api::{
    application::{DeployStep, StepPhase, WaitFor, WorkflowStatus},
    bundle::{ApplicationRef, Bundle},
    names::{cluster_of_namespace, decision_name, label, step_of_bundle},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

#[derive(Debug, Default)]
pub(super) struct Stops {
    /// By a cluster's namespace, which revisions it was ever given, by namespace and name of their application: whoever has had one
    /// may get it again.
    given: BTreeMap<Arc<str>, BTreeSet<(String, String, String)>>,
    /// Since when agents report that what a Bundle has now has failed, and whether not all of it is applied.
    failed: BTreeMap<Name, (Duration, bool)>,
}

impl Check for Stops {
    fn noted(&mut self, note: &Note, _: &Model, _: &mut Found<'_>) {
        if let Note::Restored(server) = note
            && **server == *HUB
        {
            self.failed.clear();
        }
    }

    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        if (&*commit.server, &*commit.key.table) != (HUB, BUNDLES) {
            return;
        }
        self.reports(commit);
        // Most writes are reports.
        let text = |pointer: &str| commit.after().pointer(pointer).and_then(Value::as_str);
        let (Some(namespace), Some(name), Some(revision)) = (
            text("/spec/applicationRef/namespace"),
            text("/spec/applicationRef/name"),
            text("/spec/revision"),
        ) else {
            return;
        };
        if commit.after().pointer("/spec/deletion").is_some() {
            return;
        }
        let given = self.given.entry(commit.key.namespace.clone()).or_default();
        let new = given.insert((namespace.to_owned(), name.to_owned(), revision.to_owned()));
        // Whether one that is not there was ever there nobody knows who has not been there all the time: a Bundle that vanished is
        // made again, also where nothing goes on.
        if new
            && commit.is_change()
            && commit.by().is_some_and(|who| who.is_hub())
            && let Some(bundle) = commit.read::<Bundle>()
            && let Some(of) = &bundle.spec.application_ref
        {
            self.brings(commit, &bundle, (of, revision), model, found);
        }
    }
}

impl Stops {
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

    /// A cluster is given a revision that it never had.
    fn brings(
        &self,
        commit: &Commit,
        bundle: &Bundle,
        (of, revision): (&ApplicationRef, &str),
        model: &Model,
        found: &mut Found<'_>,
    ) {
        // One that is made by a request that was given up long ago: what has no version yet cannot be fenced.
        if commit.asked.as_ref().is_some_and(|asked| asked.overdue.is_some()) {
            return;
        }
        let labels = bundle.metadata.labels.as_ref();
        let key = (of.namespace.as_str().into(), of.name.as_str().into());
        let (Some(step), Some(application)) = (
            labels.and_then(|all| all.get(label::STEP)),
            model.applications.get(&key),
        ) else {
            return;
        };
        let Some(run) = application.status.workflow.as_ref() else {
            return;
        };
        if run.app_revision.as_deref() != Some(revision) || run.step(step).is_none() {
            return;
        }
        found.judges_part(Promise::P8, "nothing goes on that has stopped");
        let cluster = cluster_of_namespace(&commit.key.namespace).unwrap_or_default();
        // One that goes over from a step to another is under both for a while.
        let brings = |step: &str| {
            let decided = model.decided(&of.namespace, &of.name, step);
            decided.is_some_and(|decision| decision.clusters.iter().any(|of| of == cluster))
        };
        let others = run
            .all_steps()
            .filter(|other| other.name != *step && brings(&other.name));
        let why = has_stopped(run, step);
        if let Some(why) = why.filter(|_| {
            others
                .into_iter()
                .all(|other| has_stopped(run, &other.name).is_some())
        }) {
            let expected = format!("nothing of {revision} to come to further clusters: {why}");
            found.broke(
                Promise::P8,
                commit.object(),
                expected,
                format!("{cluster} gets it"),
            );
        }
        self.bears(commit, (of, revision), step, model, found);
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
        let decision = model
            .decisions
            .get(&(namespace, decision_name(&of.name, step).as_str().into()));
        let Some(decision) = decision.filter(|decision| decision.revision == revision) else {
            return;
        };
        found.judges_part(Promise::P8, "maxFailedClusters");
        let has_failed = |name: &Name| {
            let known = self.failed.get(name);
            known.is_some_and(|(since, lacks)| {
                let counts = *lacks || deploy.wait != WaitFor::Applied;
                counts && commit.at.saturating_sub(*since) >= BEHIND
            })
        };
        let own = model.bundles_of((&of.namespace, &of.name));
        let failed: BTreeSet<&str> = own
            .filter(|(cluster, name, held)| {
                step_of_bundle(&name.1).is_none()
                    && !held.deleting
                    && has_failed(name)
                    && model.is_known(cluster, commit.at)
                    && decision.clusters.iter().any(|of| of == cluster)
            })
            .map(|(cluster, ..)| cluster)
            .collect();
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
