//! P8: the blast radius is bounded: so many clusters under way at a time, and so many that lose an application without
//! anybody's confirmation. Bounds are of a step (`maxParallel`) and of an application (its delete budget); a region is bounded by the
//! step that names it, and nothing bounds a cluster over several applications.

use super::{
    commit::Commit,
    evidence::shows,
    model::{BUNDLES, Content, Held, Model, Name},
    promise::{Check, Found, Note, Promise},
};
use crate::{application::Said, simulate::HUB};
use jiff::{SignedDuration, Timestamp};
use roundhouse_api::{
    application::{DeployStep, Removed, StepPhase},
    bundle::{ApplicationRef, Bundle, Deletion},
    names::{cluster_of_namespace, decision_name, label, step_of_bundle},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Removals count so long, by the clock of the hub …
const WINDOW: SignedDuration = SignedDuration::from_hours(1);
/// … up to this part of the clusters, in percent …
const MAX_PERCENT: usize = 10;
/// … of which one is always free.
const FREE: usize = 1;

#[derive(Debug, Default)]
pub(super) struct Spread {
    /// What each application lost by garbage collection, in order.
    lost: BTreeMap<Name, Vec<Lost>>,
    /// Whom the hub takes for unreachable, by application: it may not have heard yet that somebody is back.
    away: BTreeMap<Name, BTreeSet<String>>,
}

#[derive(Debug)]
struct Lost {
    /// When, as the hub has stored it before.
    at: Timestamp,
    cluster: String,
    /// How many clusters had the application then.
    of: usize,
}

impl Check for Spread {
    fn said(&mut self, said: &Said, _: &mut Found<'_>) {
        if let Said::Unreachable {
            namespace,
            name,
            clusters,
        } = said
        {
            let of = (namespace.as_str().into(), name.as_str().into());
            self.away.insert(of, clusters.clone());
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, _: &mut Found<'_>) {
        // What was counted since the backup, the hub does not know any more: whoever confirms it takes that for the new base.
        if let Note::Restored(server) = note
            && **server == *HUB
        {
            self.lost.clear();
        }
    }

    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        if (&*commit.server, &*commit.key.table) != (HUB, BUNDLES)
            || !commit.by().is_some_and(|who| who.is_hub())
        {
            return;
        }
        let Some(bundle) = commit.read::<Bundle>() else {
            return;
        };
        let had = commit.before().pointer("/spec/deletion").is_some();
        match bundle.spec.deletion.as_ref().filter(|_| !had) {
            Some(deletion) => self.removes(commit, &bundle, deletion, model, found),
            None => self.dispatches(commit, &bundle, model, found),
        }
    }
}

/// What a Bundle says to its agent, whichever hub says it.
fn says(bundle: &Value) -> Option<Value> {
    let mut spec = bundle.get("spec")?.clone();
    spec.as_object_mut()?.remove("epoch");
    Some(spec)
}

/// Written for this revision, and never yet reported to be what the step waits for.
fn is_unfinished(content: &Content, revision: &str, deploy: &DeployStep) -> bool {
    content.spec.revision.as_deref() == Some(revision)
        && !content.reports.iter().any(|report| shows(report, deploy.wait))
}

/// A placing step that follows the fleet: of the present run, as long as it is not over, and of one that has succeeded.
fn deploy_at_work<'m>(model: &'m Model, namespace: &str, name: &str, step: &str) -> Option<&'m DeployStep> {
    let application = model.applications.get(&(Arc::from(namespace), Arc::from(name)))?;
    let workflow = application.status.workflow.as_ref()?;
    let revision = workflow.app_revision.as_deref()?;
    let revision = model
        .revisions
        .get(&(Arc::from(namespace), Arc::from(revision)))?;
    let follows = match workflow.finished {
        true if workflow.status == Some(StepPhase::Succeeded) => StepPhase::Succeeded,
        true => return None,
        false => StepPhase::Running,
    };
    let at_work = workflow.step(step).is_some_and(|status| status.phase == follows);
    let valid = revision
        .valid
        .all_steps()
        .find(|valid| valid.name == step && at_work)?;
    valid.kind.deploy().filter(|deploy| deploy.max_parallel.is_some())
}

impl Spread {
    /// A Bundle is written: with it no more clusters of its step are under way than `maxParallel` says.
    fn dispatches(&self, commit: &Commit, bundle: &Bundle, model: &Model, found: &mut Found<'_>) {
        let new = !commit.is_change() || says(commit.before()) != says(commit.after());
        let labels = bundle.metadata.labels.as_ref();
        let (Some(of), Some(step)) = (
            &bundle.spec.application_ref,
            labels.and_then(|all| all.get(label::STEP)),
        ) else {
            return;
        };
        let Some(deploy) = deploy_at_work(model, &of.namespace, &of.name, step).filter(|_| new) else {
            return;
        };
        let most = usize::try_from(deploy.max_parallel.unwrap_or(u32::MAX)).unwrap_or(usize::MAX);
        let decision = (
            of.namespace.as_str().into(),
            decision_name(&of.name, step).as_str().into(),
        );
        let Some(decision) = model.decisions.get(&decision) else {
            return;
        };
        let this = cluster_of_namespace(&commit.key.namespace).unwrap_or_default();
        let of_this = (of.namespace.as_str().into(), of.name.as_str().into());
        let said = self.away.get(&of_this).into_iter().flatten();
        let is_heard = |cluster: &str| model.is_known(cluster, commit.at);
        let away: BTreeSet<&str> = said
            .map(String::as_str)
            .filter(|cluster| !is_heard(cluster))
            .collect();
        if !model.is_available(this) || away.contains(this) || !decision.clusters.iter().any(|of| of == this)
        {
            // It takes no place: nobody knows when it comes back; or it was sent before the step gave the cluster up, and goes again.
            return;
        }
        // One that is made by a request that was given up long ago: what has no version yet cannot be fenced.
        if commit.before.is_none() && commit.asked.as_ref().is_some_and(|asked| asked.overdue.is_some()) {
            return;
        }
        found.judges_part(Promise::P8, "maxParallel");
        let unfinished = |held: &Held| {
            // What is to go is no work of the step any more.
            let stays = |content: &&Content| !held.deleting && content.spec.deletion.is_none();
            let present = held.present().filter(stays)?;
            is_unfinished(present, &decision.revision, deploy).then_some(present.unreachable)
        };
        let own = model.bundles_of((&of.namespace, &of.name));
        let all: BTreeMap<&str, bool> = own
            .filter(|(cluster, (_, name), _)| {
                step_of_bundle(name).is_none()
                    && !away.contains(*cluster)
                    && decision.clusters.iter().any(|of| of == cluster)
            })
            .filter_map(|(cluster, _, held)| Some((cluster, unfinished(held)?)))
            .collect();
        // One that is under way keeps its place, also where others that are have come back to the step, and where it was
        // itself away when it was sent.
        let begins = !all.contains_key(this);
        let sent_to_reachable = all
            .iter()
            .filter(|(cluster, unreachable)| **cluster != this && !**unreachable);
        let others: BTreeSet<&str> = sent_to_reachable.map(|(cluster, _)| *cluster).collect();
        if begins && others.len() >= most {
            let expected = format!("at most {most} clusters of step {step} under way");
            let is = format!("{this} beside {others:?}");
            found.broke(Promise::P8, commit.object(), expected, is);
        }
    }

    fn removes(
        &mut self,
        commit: &Commit,
        bundle: &Bundle,
        deletion: &Deletion,
        model: &Model,
        found: &mut Found<'_>,
    ) {
        let Some(of) = &bundle.spec.application_ref else {
            return;
        };
        let lost = self
            .lost
            .entry((of.namespace.as_str().into(), of.name.as_str().into()))
            .or_default();
        match deletion.confirmed_by.as_str() {
            Deletion::GARBAGE_COLLECTION => {}
            Deletion::CLUSTER_LEFT => return,
            _ if deletion.step().is_some() => return,
            // What somebody has confirmed of the application is the new base.
            _ => {
                lost.clear();
                return;
            }
        }
        let this = cluster_of_namespace(&commit.key.namespace).unwrap_or_default();
        let own = model.bundles_of((&of.namespace, &of.name));
        let wanted = own.filter(|(_, name, held)| {
            let stays = held
                .present()
                .is_some_and(|content| content.spec.deletion.is_none());
            stays && (&*name.0, &*name.1) != (&*commit.key.namespace, &*commit.key.name)
        });
        let holding: BTreeSet<&str> = wanted.map(|(cluster, ..)| cluster).collect();
        if holding.contains(this) {
            return;
        }
        found.judges_part(Promise::P8, "the budget of removals");
        let Some((at, newest)) = counted(model, of, this) else {
            let expected = "the removal to be counted in the status of its application before".to_owned();
            found.broke(Promise::P8, commit.object(), expected, "it is not");
            return;
        };
        lost.retain(|lost| newest.duration_since(lost.at) < WINDOW);
        lost.push(Lost {
            at,
            cluster: this.to_owned(),
            of: holding.len() + 1,
        });
        let clusters: BTreeSet<&str> = lost.iter().map(|lost| lost.cluster.as_str()).collect();
        let base = lost.first().map_or(0, |first| first.of);
        if clusters.len() > FREE && clusters.len() * 100 > base * MAX_PERCENT {
            let expected =
                format!("at most {MAX_PERCENT} % of {base} clusters in an hour without confirmation");
            found.broke(Promise::P8, commit.object(), expected, format!("{clusters:?}"));
        }
    }
}

/// When the hub has counted the removal from a cluster, and the last one of all: what an hour is its clock says. Of many
/// clusters not all are named; those count with the last ones.
fn counted(model: &Model, of: &ApplicationRef, cluster: &str) -> Option<(Timestamp, Timestamp)> {
    let key = (Arc::from(of.namespace.as_str()), Arc::from(of.name.as_str()));
    let moments = &model.applications.get(&key)?.status.removals.as_ref()?.moments;
    let at = |moment: &Removed| moment.at.as_ref().map(|at| at.0);
    let newest = moments.iter().filter_map(at).max()?;
    let named = moments
        .iter()
        .rev()
        .find(|moment| moment.clusters.iter().any(|named| named == cluster));
    let unnamed = || moments.iter().rev().find(|m| m.clusters.len() < m.count as usize);
    Some((at(named.or_else(unnamed)?)?, newest))
}
