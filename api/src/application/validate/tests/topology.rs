//! KubeVela's `topology` policy: what it becomes, and every refusal by its text.

use super::{refused, set, valid};
use crate::{
    application::{StepKind, ValidApplication, validate},
    placement::{ClusterSelector, PlacementSpec},
};
use serde_json::{Value, json};

/// The valid application with these policies, and one step that names them all.
fn naming(policies: &[(&str, &str, Value)]) -> Value {
    let mut spec = valid();
    let names: Vec<&str> = policies.iter().map(|(name, ..)| *name).collect();
    let policies: Vec<Value> = policies
        .iter()
        .map(|(name, type_, properties)| json!({"name": name, "type": type_, "properties": properties}))
        .collect();
    set(&mut spec, "/policies", json!(policies));
    set(
        &mut spec,
        "/workflow/steps/0/properties",
        json!({"policies": names}),
    );
    spec
}

fn placement(valid: &ValidApplication, step: usize) -> &PlacementSpec {
    match &valid.steps[step].kind {
        StepKind::Deploy(deploy) => &deploy.placement,
        _ => panic!("no placing step"),
    }
}

#[test]
fn a_topology_gives_every_cluster_everything() {
    let read = validate(&naming(&[
        ("names", "topology", json!({"clusters": ["c1", "c2"]})),
        (
            "labels",
            "topology",
            json!({"clusterLabelSelector": {"region": "east"}, "allowEmpty": true}),
        ),
        ("old", "topology", json!({"clusterSelector": {}})),
    ]))
    .unwrap();
    let spec = placement(&read, 0);
    let [names, labels, old] = &spec.placement[..] else {
        panic!("{spec:?}")
    };
    assert_eq!(names.name.as_deref(), Some("names"));
    assert_eq!(names.clusters.as_deref().unwrap(), ["c1", "c2"]);
    assert_eq!(
        labels.cluster_selector,
        Some(ClusterSelector::equality([("region", "east")]))
    );
    assert_eq!((names.allow_empty, labels.allow_empty), (false, true));
    assert_eq!(
        old.cluster_selector,
        Some(ClusterSelector::equality([("", ""); 0]))
    );
    assert!(spec.placement.iter().all(|rule| rule.replicas.is_none()));
}

#[test]
fn a_label_may_have_any_name() {
    let read = validate(&naming(&[(
        "t",
        "topology",
        json!({"clusterLabelSelector": {"matchLabels": "x"}}),
    )]));
    let spec = placement(read.as_ref().unwrap(), 0).clone();
    assert_eq!(
        spec.placement[0].cluster_selector,
        Some(ClusterSelector::equality([("matchLabels", "x")]))
    );
}

#[test]
fn beside_a_placement_policy_a_topology_adds_its_rule_only() {
    let read = validate(&naming(&[
        ("t", "topology", json!({"clusters": ["c1"]})),
        (
            "p",
            "placement",
            json!({"placement": [{"replicas": "50%"}], "remainder": "Spread", "maxClusters": 4}),
        ),
    ]))
    .unwrap();
    let spec = placement(&read, 0);
    assert_eq!((spec.placement.len(), spec.max_clusters), (2, Some(4)));
    assert_eq!(format!("{:?}", spec.remainder), "Spread");
}

#[test]
fn without_a_workflow_each_topology_is_a_step() {
    let mut spec = naming(&[
        (
            "east",
            "topology",
            json!({"clusterLabelSelector": {"region": "east"}}),
        ),
        (
            "west",
            "topology",
            json!({"clusterLabelSelector": {"region": "west"}}),
        ),
        (
            "image",
            "override",
            json!({"components": [{"properties": {"image": "nginx:2"}}]}),
        ),
    ]);
    set(&mut spec, "/workflow", Value::Null);
    let read = validate(&spec).unwrap();
    let steps: Vec<_> = read.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(steps, ["east", "west"]);
    for step in &read.steps {
        let StepKind::Deploy(deploy) = &step.kind else {
            panic!()
        };
        assert!(
            deploy.components.is_some(),
            "every override counts for {}",
            step.name
        );
    }
    // Overrides alone say nothing of where to run.
    let only = json!([spec["policies"][2]]);
    set(&mut spec, "/policies", only);
    assert_eq!(refused(&spec).len(), 1);
}

#[test]
fn every_refusal() {
    for (properties, line) in [
        (
            Value::Null,
            "spec.policies[0].properties: is required: list clusters, or set clusterLabelSelector ({} selects every cluster)",
        ),
        (
            json!({}),
            "spec.policies[0].properties: names no clusters, which in KubeVela means the hub itself; nothing is delivered to \
             the hub here: list clusters, or set clusterLabelSelector ({} selects every cluster)",
        ),
        (
            json!({"clusters": ["c1"], "namespace": "prod"}),
            "spec.policies[0].properties.namespace: namespace is not supported: set metadata.namespace in the manifests, or \
             deliver from an Application in that namespace",
        ),
        (
            json!({"clusters": ["c1"], "clusterLabelSelector": {"a": "b"}}),
            "spec.policies[0].properties.clusterLabelSelector: cannot be used beside clusters, which would be taken alone: \
             keep one of them",
        ),
        (
            json!({"clusterSelector": {"a": "b"}, "clusterLabelSelector": {"a": "b"}}),
            "spec.policies[0].properties.clusterSelector: is the old name of clusterLabelSelector, which is set as well: \
             leave this one out",
        ),
        (
            json!({"clusterLabelSelector": {"a": 1}}),
            "spec.policies[0].properties.clusterLabelSelector.a: expected a string, found 1: put it in quotes",
        ),
        (
            json!({"clusters": []}),
            "spec.policies[0].properties.clusters: is empty, so that the topology selects no cluster: name clusters, or leave it \
             out",
        ),
        (
            json!({"clusters": ["c1", "c1"]}),
            "spec.policies[0].properties.clusters[1]: cluster \"c1\" is listed twice",
        ),
        (
            json!({"clusters": ["c1"], "allowEmpty": "yes"}),
            "spec.policies[0].properties.allowEmpty: expected true or false, found \"yes\"",
        ),
        (
            json!({"cluster": ["c1"], "clusters": ["c1"]}),
            "spec.policies[0].properties.cluster: unknown field: did you mean \"clusters\"? known here: clusters, \
             clusterLabelSelector, clusterSelector, allowEmpty",
        ),
    ] {
        assert_eq!(refused(&naming(&[("t", "topology", properties)])), [line]);
    }
}
