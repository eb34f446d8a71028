//! P5: absence is no evidence: who is out of reach keeps its place in what is decided, unless something else has changed.

use super::{
    commit::Commit,
    evidence::selects,
    model::{BEHIND, CLUSTERS, DECISIONS, Model, Name},
    promise::{Check, Found, Promise},
};
use crate::simulate::HUB;
use roundhouse_api::{
    cluster::{Cluster, JOINED, TAINT_UNREACHABLE},
    condition,
    decision::{Decision, DecisionSpec},
    placement::{PlacementSpec, Taint},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What this judges.
const PLACE: &str = "who is out of reach keeps its place";

#[derive(Debug, Default)]
pub(super) struct Absence {
    /// When each Decision was written last.
    written: BTreeMap<Name, Duration>,
    /// What was changed of clusters since there are applications, but for whether they are heard of.
    changed: Vec<Changed>,
}

#[derive(Debug)]
struct Changed {
    at: Duration,
    name: Arc<str>,
    /// The cluster before and after.
    was: [Option<Cluster>; 2],
}

impl Check for Absence {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        match (&*commit.server, &*commit.key.table) {
            (HUB, CLUSTERS) => self.cluster(commit, model),
            (HUB, DECISIONS) => self.decision(commit, model, found),
            _ => {}
        }
    }
}

impl Absence {
    fn cluster(&mut self, commit: &Commit, model: &Model) {
        let was = [model.clusters.get(&commit.key.name).cloned(), commit.read()];
        let [before, after] = was.each_ref().map(|cluster| cluster.as_ref().map(facts));
        // What was so when the first application came was seen by everybody.
        if before != after && model.has_applications() {
            self.changed.push(Changed {
                at: commit.at,
                name: commit.key.name.clone(),
                was,
            });
        }
    }

    fn decision(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let name = (commit.key.namespace.clone(), commit.key.name.clone());
        let Some(decision) = commit.read::<Decision>().map(|decision| decision.spec) else {
            self.written.remove(&name);
            return;
        };
        let before = model.decisions.get(&name);
        let written = self.written.insert(name, commit.at);
        let (Some(before), Some(written)) = (before, written) else {
            return;
        };
        if before.revision != decision.revision || !commit.by().is_some_and(|who| who.is_hub()) {
            return;
        }
        let Some(placement) = placement(&decision, &commit.key.namespace, model) else {
            return;
        };
        // A hub may not have heard of everything when it wrote last.
        let since = written.saturating_sub(BEHIND);
        let mut lately = self.changed.iter().filter(|changed| changed.at >= since);
        if lately.any(|changed| changed.concerns(placement)) {
            return;
        }
        found.judges_part(Promise::P5, PLACE);
        let stay: BTreeSet<&str> = decision.clusters.iter().map(String::as_str).collect();
        let of = &decision.application_ref;
        let holding: BTreeSet<&str> = model
            .bundles_of((&of.namespace, &of.name))
            .filter(|(_, _, held)| !held.deleting)
            .map(|(cluster, ..)| cluster)
            .collect();
        let gone = before.clusters.iter().map(String::as_str);
        let gone = gone.filter(|cluster| !stay.contains(cluster) && holding.contains(cluster));
        for cluster in gone.filter(|cluster| model.clusters.get(*cluster).is_some_and(is_untainted)) {
            let expected = format!(
                "{cluster} to keep its place in step {} of {}: nothing has changed but who is out of reach",
                decision.step, decision.revision
            );
            found.broke(
                Promise::P5,
                commit.object(),
                expected,
                "it is not placed any more",
            );
        }
    }
}

impl Changed {
    /// Whether a step of this placement has another choice by it.
    fn concerns(&self, placement: &PlacementSpec) -> bool {
        let mut was = self.was.iter().flatten();
        was.any(|cluster| selects(placement, &self.name, cluster))
    }
}

/// The placement of a placing step, where names, labels and taints alone say who is chosen.
fn placement<'m>(
    decision: &DecisionSpec,
    namespace: &Arc<str>,
    model: &'m Model,
) -> Option<&'m PlacementSpec> {
    let revision = (namespace.clone(), decision.revision.as_str().into());
    let mut steps = model.revisions.get(&revision)?.valid.all_steps();
    let deploy = steps.find(|step| step.name == decision.step)?.kind.deploy()?;
    let placement = &deploy.placement;
    let mut selectors = placement
        .placement
        .iter()
        .filter_map(|rule| rule.cluster_selector.as_ref());
    let is_simple = deploy.references().next().is_none()
        && placement.max_clusters.is_none()
        && placement.spread.is_none()
        && selectors.all(|selector| selector.match_expressions.is_empty());
    is_simple.then_some(placement)
}

/// What placement goes by of a cluster, but for whether it is heard of.
fn facts(cluster: &Cluster) -> impl PartialEq + use<> {
    let status = cluster.status.clone().unwrap_or_default();
    let meta = cluster.metadata.clone();
    (
        (meta.uid, meta.labels, meta.deletion_timestamp.is_some()),
        cluster.spec.clone(),
        taints(cluster).cloned().collect::<Vec<Taint>>(),
        condition::is_true(&status.conditions, JOINED),
        (status.capacity, status.allocatable),
    )
}

/// The taints of a cluster, but for that of the hub that it is out of reach.
fn taints(cluster: &Cluster) -> impl Iterator<Item = &Taint> {
    let own = cluster.status.iter().flat_map(|status| &status.taints);
    let all = cluster.spec.taints.iter().chain(own);
    all.filter(|taint| taint.key != TAINT_UNREACHABLE)
}

/// A taint may be tolerated for a time only.
fn is_untainted(cluster: &Cluster) -> bool {
    taints(cluster).next().is_none()
}
