//! A decision as it is stored, and its content hash.

use super::{NotChosen, StepDecision};
use roundhouse_api::{
    decision::{DecisionSpec, Exclusion, WorkloadDecision},
    hash,
};
use serde_json::{Value, json};

impl StepDecision {
    /// The decision as it is stored, with its hash; who decided, for what and when is the caller's to say.
    pub fn to_spec(&self) -> DecisionSpec {
        let sum = |of: fn(&WorkloadDecision) -> u32| self.workloads.iter().map(|w| u64::from(of(w))).sum();
        let mut spec = DecisionSpec {
            step: self.step.clone(),
            satisfied: self.satisfied,
            reasons: self.reasons.clone(),
            replicas: sum(|w| w.replicas),
            placed: sum(|w| w.placed),
            unplaced: sum(|w| w.unplaced.iter().map(|u| u.count).sum()),
            cluster_count: u32::try_from(self.clusters.len()).unwrap_or(u32::MAX),
            workloads: self.workloads.clone(),
            clusters: self.clusters.iter().map(ToString::to_string).collect(),
            chosen: self.chosen.clone(),
            excluded: self.excluded.clone(),
            frozen_weights: self.frozen_weights.clone(),
            overrides: self.overrides.clone(),
            cluster_labels: self.cluster_labels.clone(),
            override_errors: self.override_errors.clone(),
            ..DecisionSpec::default()
        };
        spec.hash = hash_of(&spec);
        spec
    }
}

/// The hash of a decision, as [`hash_of`] that is stored.
pub fn decision_hash(decision: &StepDecision) -> String {
    decision.to_spec().hash
}

/// The exclusions that matter to a decision: not how many clusters no rule matches, which changes with every cluster that
/// joins or leaves somewhere else.
pub fn matched(excluded: &[Exclusion]) -> impl Iterator<Item = &Exclusion> {
    let other = NotChosen::NotMatched.as_str();
    excluded.iter().filter(move |exclusion| exclusion.reason != other)
}

/// Lower-case hex sha256 over the canonical form of what was decided: workloads, members, exclusions of clusters that a
/// rule matches, and where there are any, clusters that are chosen and get nothing, frozen weights, overrides with the labels that they name, and what is wrong
/// with them.
///
/// What depends on history (`previous`, `tie`, `bound`) is left out, so that deciding the same again has the same hash
/// and nothing is written.
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
    let excluded = matched(&decision.excluded);
    let mut content = json!({
        "clusters": decision.clusters,
        "excluded": excluded.collect::<Vec<_>>(),
        "workloads": workloads,
    });
    let more = [
        ("chosen", json!(decision.chosen)),
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
