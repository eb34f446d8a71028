//! What each cluster has.

use crate::{application::Snapshot, dispatch};
use roundhouse_api::{application::validate, decision::Decision};
use std::{collections::BTreeMap, sync::Arc};

/// What is placed on one cluster: `<namespace>/<name>` of an application, and its replicas there.
pub type Load = Vec<(String, u64)>;

/// Adds up the stored Decisions of `applications` (namespace and name), by cluster.
pub fn load(snapshot: &Snapshot, applications: &[(String, String)]) -> BTreeMap<String, Load> {
    let mut all: BTreeMap<String, Load> = BTreeMap::new();
    for (namespace, name) in applications {
        let decisions = in_order(snapshot, namespace, name);
        let layers: Vec<_> = decisions
            .iter()
            .map(|decision| dispatch::Layer::of(true, &decision.spec))
            .collect();
        for (cluster, share) in dispatch::shares(&layers) {
            let replicas = share.replicas.values().map(|part| u64::from(part.replicas)).sum();
            all.entry(cluster)
                .or_default()
                .push((format!("{namespace}/{name}"), replicas));
        }
    }
    all
}

/// The stored Decisions, those of the workflow's steps in its order and last: a later step replaces.
fn in_order(snapshot: &Snapshot, namespace: &str, name: &str) -> Vec<Arc<Decision>> {
    let mut stored = snapshot.decisions(namespace, name);
    let spec = snapshot.spec(namespace, name).unwrap_or_default();
    let steps = validate(&spec).map(|valid| valid.steps).unwrap_or_default();
    let of_steps: Vec<_> = steps
        .iter()
        .filter_map(|step| stored.remove(&step.name))
        .collect();
    stored.into_values().chain(of_steps).collect()
}
