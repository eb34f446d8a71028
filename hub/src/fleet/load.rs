//! What each cluster has.

use crate::{application::Snapshot, dispatch};
use roundhouse_api::{
    application::validate,
    decision::{Decision, DecisionSpec},
};
use std::{collections::BTreeMap, sync::Arc};

/// What is placed on one cluster: `<namespace>/<name>` of an application, and its replicas there.
pub type Load = Vec<(String, u64)>;

/// Adds up the stored Decisions of `applications` (namespace and name), by cluster.
pub fn load(snapshot: &Snapshot, applications: &[(String, String)]) -> BTreeMap<String, Load> {
    let mut all: BTreeMap<String, Load> = BTreeMap::new();
    for (namespace, name) in applications {
        let decisions = in_order(snapshot, namespace, name);
        for (cluster, replicas) in replicas(decisions.iter().map(|decision| &decision.spec)) {
            all.entry(cluster)
                .or_default()
                .push((format!("{namespace}/{name}"), replicas));
        }
    }
    all
}

/// The replicas that decisions give, by cluster; a later one replaces.
pub(super) fn replicas<'a>(decisions: impl Iterator<Item = &'a DecisionSpec>) -> BTreeMap<String, u64> {
    let layers: Vec<_> = decisions
        .map(|decision| dispatch::Layer::of(true, decision))
        .collect();
    let shares = dispatch::shares(&layers).into_iter();
    shares.map(|(cluster, share)| (cluster, share.total())).collect()
}

/// The stored Decisions, those of the workflow's steps in its order and last: a later step replaces.
pub(super) fn in_order(snapshot: &Snapshot, namespace: &str, name: &str) -> Vec<Arc<Decision>> {
    let mut stored = snapshot.decisions(namespace, name);
    let spec = snapshot.spec(namespace, name).unwrap_or_default();
    let steps = validate(&spec).map(|valid| valid.steps).unwrap_or_default();
    let of_steps: Vec<_> = steps
        .iter()
        .filter_map(|step| stored.remove(&step.name))
        .collect();
    stored.into_values().chain(of_steps).collect()
}
