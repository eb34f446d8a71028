//! Weights that are read from the clusters.

use super::fixture::{Case, cluster, numbers};
use crate::placement::{ClusterFacts, decision_hash};
use serde_json::{Value, json};

fn labelled(values: &[Option<&str>]) -> Vec<ClusterFacts> {
    let clusters = values.iter().zip(["a", "b", "c", "d", "e"]);
    clusters
        .map(|(value, name)| match value {
            Some(value) => cluster(name, &format!("size={value}")),
            None => cluster(name, ""),
        })
        .collect()
}

fn by(weight_by: &Value) -> Value {
    json!({"placement": [{"name": "r", "replicas": "100%", "weightBy": weight_by}]})
}

#[test]
fn a_labels_value_is_the_weight() {
    let place = |values: &[Option<&str>], replicas| {
        Case::new(by(&json!({"label": "size"})), replicas, labelled(values)).place()
    };
    assert_eq!(numbers(&place(&[Some("3"), Some("2"), Some("1")], 12)), [6, 4, 2]);
    assert_eq!(
        numbers(&place(&[Some("03"), Some("0"), Some("2147483647")], 9)),
        [0, 0, 9]
    );
    let decisions = place(
        &[Some("3"), None, Some("many"), Some("-1"), Some("2147483648")],
        6,
    );
    assert_eq!(numbers(&decisions), [6, 0, 0, 0, 0]);
    assert!(decisions[0].satisfied);
    assert_eq!(
        decisions[0].reasons,
        [
            "rule r weighs by label size, which cannot be read of b (absent), c (\"many\"), d (\"-1\") and 1 more: their weight \
          is 0; label them with an integer from 0 to 2147483647"
        ]
    );
    let decisions = place(&[None, None], 2);
    assert_eq!(decisions[0].workloads[0].unplaced[0].reason, "ZeroWeight");
    assert!(!decisions[0].satisfied);
}

fn with_cpu(values: &[&str]) -> Vec<ClusterFacts> {
    let mut clusters = labelled(&vec![None; values.len()]);
    for (facts, value) in clusters.iter_mut().zip(values) {
        if !value.is_empty() {
            facts.allocatable.insert("cpu".to_owned(), (*value).to_owned());
        }
    }
    clusters
}

#[test]
fn allocatable_weights_are_frozen_until_one_moves_by_more_than_a_fifth() {
    let spec = by(&json!({"allocatable": "cpu"}));
    let first = Case::new(spec, 12, with_cpu(&["6", "4000m", "2"]));
    let decisions = first.place();
    assert_eq!(numbers(&decisions), [6, 4, 2]);
    let weights = |decisions: &[crate::placement::StepDecision]| -> Vec<u64> {
        decisions[0].frozen_weights[0].weights.values().copied().collect()
    };
    assert_eq!(weights(&decisions), [6000, 4000, 2000]);
    let after = |values: &[&str]| {
        let mut case = first.clone().following(&decisions);
        case.clusters = with_cpu(values);
        case.place()
    };
    // Up to 20 % moves nothing, and writes nothing.
    let near = after(&["7.2", "3200m", "2.4"]);
    assert_eq!(
        (numbers(&near), weights(&near)),
        (vec![6, 4, 2], vec![6000, 4000, 2000])
    );
    assert_eq!(decision_hash(&near[0]), decision_hash(&decisions[0]));
    // One that moves by more has all of the rule read anew.
    let far = after(&["7.201", "3200m", "2.4"]);
    assert_eq!(weights(&far), [7201, 3200, 2400]);
    assert_eq!(weights(&after(&["6", "3199m", "2"])), [6000, 3199, 2000]);
    // Nothing reported is no evidence; a new cluster is read, an unknown one weighs nothing and is named.
    assert_eq!(weights(&after(&["6", "", "2"])), [6000, 4000, 2000]);
    assert_eq!(weights(&after(&["6.5", "4", "x"])), [6000, 4000, 2000]);
    let grown = after(&["6.5", "4", "2", "3", ""]);
    assert_eq!(weights(&grown), [6000, 4000, 2000, 3000]);
    assert_eq!(
        grown[0].reasons,
        [
            "rule r weighs by allocatable cpu, which cannot be read of e (not reported): their weight is 0; wait for their \
          agents, or use weights"
        ]
    );
    // Another placement is another freeze.
    let mut changed = first.clone().following(&decisions);
    changed.clusters = with_cpu(&["6.5", "4", "2"]);
    changed.steps[0].1.tolerations = serde_json::from_value(json!([{"operator": "Exists"}])).unwrap();
    assert_eq!(weights(&changed.place()), [6500, 4000, 2000]);
}

#[test]
fn memory_weighs_in_bytes() {
    let mut clusters = labelled(&[None, None]);
    for (facts, memory) in clusters.iter_mut().zip(["3Gi", "9007199254740993"]) {
        facts.allocatable.insert("memory".to_owned(), memory.to_owned());
    }
    let decisions = Case::new(by(&json!({"allocatable": "memory"})), 10, clusters).place();
    let weights: Vec<_> = decisions[0].frozen_weights[0].weights.values().copied().collect();
    assert_eq!(weights, [3 << 30, 9_007_199_254_740_993]);
    assert_eq!(numbers(&decisions), [0, 10]);
}
