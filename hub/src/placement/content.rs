//! The content hash of a decision.

use super::StepDecision;
use roundhouse_api::{decision::DecisionSpec, hash};
use serde_json::{Value, json};

/// Lower-case hex sha256 over the canonical form of what was decided: workloads, members, exclusions, and where there are
/// any, frozen weights, overrides with the labels that they name, and what is wrong with them.
///
/// What depends on history (`previous`, `tie`, `bound`) is left out, so that deciding the same again has the same hash
/// and nothing is written.
pub fn decision_hash(decision: &StepDecision) -> String {
    hash_of(&DecisionSpec {
        workloads: decision.workloads.clone(),
        clusters: decision.clusters.clone(),
        excluded: decision.excluded.clone(),
        frozen_weights: decision.frozen_weights.clone(),
        overrides: decision.overrides.clone(),
        cluster_labels: decision.cluster_labels.clone(),
        override_errors: decision.override_errors.clone(),
        ..DecisionSpec::default()
    })
}

/// The same hash of a decision as it is stored.
pub fn hash_of(decision: &DecisionSpec) -> String {
    let mut workloads = decision.workloads.clone();
    for workload in &mut workloads {
        workload.rules.iter_mut().for_each(|rule| rule.tie = None);
        for row in &mut workload.clusters {
            row.previous = None;
            row.tie = None;
            row.bound = None;
        }
    }
    let mut content = json!({
        "clusters": decision.clusters,
        "excluded": decision.excluded,
        "workloads": workloads,
    });
    let more = [
        ("frozenWeights", json!(decision.frozen_weights)),
        ("overrides", json!(decision.overrides)),
        ("clusterLabels", json!(decision.cluster_labels)),
        ("overrideErrors", json!(decision.override_errors)),
    ];
    let is_empty = |value: &Value| match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if let Some(content) = content.as_object_mut() {
        let more = more.into_iter().filter(|(_, value)| !is_empty(value));
        content.extend(more.map(|(field, value)| (field.to_owned(), value)));
    }
    hash::of_value(&content)
}
