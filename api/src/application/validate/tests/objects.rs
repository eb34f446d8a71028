//! Steps with objects in clusters: how they go about them, and what one step may take away of another.

use super::*;
use crate::{
    application::{ClusterObjectStep, ClusterVerb, StepKind, order},
    placement::TaintEffect,
};

/// A ConfigMap `flags` on c1 and c2.
fn applies(name: &str) -> Value {
    json!({"name": name, "type": "apply-object", "properties": {"clusters": ["c1", "c2"],
        "value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}}}})
}

/// Takes it away from c1.
fn deletes(name: &str) -> Value {
    json!({"name": name, "type": "delete-object",
        "properties": {"clusters": ["c1"], "apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}})
}

fn with(mut step: Value, pointer: &str, value: Value) -> Value {
    set(&mut step, pointer, value);
    step
}

/// The valid application with these steps behind its own.
fn spec(steps: &[Value]) -> Value {
    let mut spec = valid();
    for step in steps {
        set(&mut spec, "/workflow/steps/-", step.clone());
    }
    spec
}

fn object(spec: &Value, name: &str) -> ClusterObjectStep {
    let valid = validate(spec).unwrap_or_else(|violations| panic!("{violations:#?}"));
    let step = valid.all_steps().find(|step| step.name == name).unwrap();
    match &step.kind {
        StepKind::ClusterObject(object) => object.as_ref().clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_step_takes_away_what_those_before_it_apply() {
    let other = with(applies("other"), "/properties/value/metadata/name", json!("else"));
    let labelled = with(
        applies("labelled"),
        "/properties/clusters",
        json!({"region": "east"}),
    );
    let away = object(
        &spec(&[
            applies("flags"),
            other,
            labelled,
            deletes("away"),
            applies("again"),
        ]),
        "away",
    );
    assert_eq!(away.verb, ClusterVerb::Delete);
    assert_eq!(away.takes_of, ["flags", "labelled"]);
    assert_eq!(
        away.identity(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}})
    );
    // Another version of the kind is the same object.
    let deployment = |step: Value, at: &str, version: &str| {
        let step = with(step, &format!("/properties{at}/apiVersion"), json!(version));
        with(step, &format!("/properties{at}/kind"), json!("Deployment"))
    };
    let steps = [
        deployment(applies("flags"), "/value", "apps/v1"),
        deployment(deletes("away"), "", "apps/v1beta1"),
    ];
    assert_eq!(object(&spec(&steps), "away").takes_of, ["flags"]);
    // In groups, and where one input names both.
    let gives = json!({"name": "gives", "type": "export", "properties": {"value": "flags"},
        "outputs": [{"name": "called", "valueFrom": "output"}]});
    let input = |key: &str| json!([{"from": "called", "parameterKey": key}]);
    let group = |name: &str, step: Value| json!({"name": name, "type": "step-group", "subSteps": [step]});
    let steps = [
        gives,
        group(
            "one",
            with(applies("flags"), "/inputs", input("value.metadata.name")),
        ),
        group("two", with(deletes("away"), "/inputs", input("name"))),
    ];
    assert_eq!(object(&spec(&steps), "away").takes_of, ["flags"]);
}

#[test]
fn a_step_that_takes_away_starts_after_those_that_apply() {
    let mut spec = spec(&[applies("flags"), applies("other"), deletes("away")]);
    set(&mut spec, "/workflow/mode", json!({"steps": "DAG"}));
    set(
        &mut spec,
        "/workflow/steps/2/properties/value/metadata/name",
        json!("other"),
    );
    let valid = validate(&spec).unwrap();
    assert_eq!(order(&valid.steps, valid.mode)[3], [1]);
    // Also round about.
    set(&mut spec, "/workflow/steps/1/dependsOn", json!(["away"]));
    let lines = refused(&spec);
    assert!(
        lines.len() == 1
            && lines[0].contains("steps wait for one another: flags waits for away, which waits for flags;")
            && lines[0].contains("a delete-object step for those whose object it takes away"),
        "{lines:?}"
    );
}

#[test]
fn what_no_step_before_applies_is_not_taken_away() {
    let flags = || applies("flags");
    for (before, step, expected) in [
        (
            vec![],
            deletes("away"),
            ".properties.name: no step before this one applies ConfigMap flags in clusters, and nothing else can be taken \
             away there: write the apply-object step that applies it before this one",
        ),
        (
            vec![flags()],
            with(deletes("away"), "/properties/name", json!("flag")),
            ".properties.name: no step before this one applies ConfigMap flag in clusters, and nothing else can be taken \
             away there: those before it apply ConfigMap flags (step flags)",
        ),
        (
            vec![flags()],
            with(deletes("away"), "/properties/kind", json!("Service")),
            ".properties.name: no step before this one applies Service flags in clusters, and nothing else can be taken \
             away there: those before it apply ConfigMap flags (step flags)",
        ),
        // Which namespace the application is in is not known here.
        (
            vec![flags()],
            with(deletes("away"), "/properties/namespace", json!("default")),
            ".properties.name: no step before this one applies ConfigMap default/flags in clusters, and nothing else can \
             be taken away there: those before it apply ConfigMap flags (step flags)",
        ),
        // On the hub is elsewhere.
        (
            vec![with(
                flags(),
                "/properties",
                json!({"value": flags()["properties"]["value"]}),
            )],
            deletes("away"),
            ".properties.name: no step before this one applies ConfigMap flags in clusters, and nothing else can be taken \
             away there: write the apply-object step that applies it before this one",
        ),
        (
            vec![flags()],
            with(deletes("away"), "/properties/clusters", json!(["c1", "c9"])),
            ".properties.clusters[1]: nothing is applied on c9 that could be taken away: step flags applies the object on c1, \
             c2",
        ),
        (
            vec![flags()],
            with(
                deletes("away"),
                "/properties/tolerations",
                json!([{"operator": "Exists"}]),
            ),
            ".properties.tolerations: tolerations are not needed here: a taint keeps nothing from being taken away",
        ),
        (
            vec![flags()],
            with(
                deletes("away"),
                "/outputs",
                json!([{"name": "o", "valueFrom": "output.data.a"}]),
            ),
            ".outputs[0].valueFrom: line 1, column 1: there is no \"output\" here, but status, inputs, context",
        ),
    ] {
        let at = before.len() + 1;
        let lines = refused(&spec(&[before, vec![step]].concat()));
        assert_eq!(lines, [format!("spec.workflow.steps[{at}]{expected}")]);
    }
    // One that comes later is no step before.
    let lines = refused(&spec(&[deletes("away"), applies("flags")]));
    assert!(
        lines.len() == 1 && lines[0].contains("no step before this one applies"),
        "{lines:?}"
    );
    // Where it is not known what a step applies, only that is said.
    let unread = with(applies("flags"), "/properties/value/kind", json!(""));
    let lines = refused(&spec(&[unread, deletes("away")]));
    assert_eq!(lines, ["spec.workflow.steps[1].properties.value.kind: is empty"]);
}

#[test]
fn how_steps_go_about_objects_in_clusters() {
    let toleration = json!({"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"});
    let mut step = with(applies("flags"), "/properties/tolerations", json!([toleration]));
    step["properties"]["maxParallel"] = json!(2);
    step["properties"]["maxFailedClusters"] = json!(1);
    let flags = object(&spec(&[step]), "flags");
    assert_eq!(
        (flags.max_parallel, flags.max_failed_clusters),
        (Some(2), Some(1))
    );
    assert_eq!(
        flags.placement.tolerations[0].effect,
        Some(TaintEffect::NoSchedule)
    );
    let step = with(applies("flags"), "/properties/parallelism", json!(3));
    assert_eq!(object(&spec(&[step]), "flags").max_parallel, Some(3));
    let away = with(deletes("away"), "/properties/maxParallel", json!(1));
    assert_eq!(
        object(&spec(&[applies("flags"), away]), "away").max_parallel,
        Some(1)
    );
}

#[test]
fn how_steps_go_about_objects_is_refused_as_in_placing_steps() {
    let rows = [
        ("maxParallel", json!(0), ".maxParallel: "),
        ("maxParallel", json!("2"), ".maxParallel: "),
        ("maxFailedClusters", json!("1"), ".maxFailedClusters: "),
        ("tolerations", json!({}), ".tolerations: "),
        ("tolerations", json!([{"operator": "Equal"}]), ".tolerations[0]: "),
        (
            "tolerations",
            json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]),
            ".tolerations[0]: ",
        ),
        ("tolerations", json!([{"keys": "a"}]), ".tolerations[0].keys: "),
    ];
    for (field, value, start) in rows {
        let pointer = format!("/properties/{field}");
        let lines = refused(&spec(&[with(applies("flags"), &pointer, value.clone())]));
        let placing =
            json!({"name": "w", "type": "deploy", "properties": {"placement": [{"replicas": "1%"}]}});
        let expected = refused(&spec(&[with(placing, &pointer, value.clone())]));
        assert!(!lines.is_empty(), "{field} {value}");
        assert_eq!(lines, expected, "{field} {value}");
        let start = format!("spec.workflow.steps[1].properties{start}");
        assert!(lines.iter().any(|line| line.starts_with(&start)), "{lines:?}");
    }
    let both = with(applies("flags"), "/properties/maxParallel", json!(1));
    assert_eq!(
        refused(&spec(&[with(both, "/properties/parallelism", json!(1))])),
        [
            "spec.workflow.steps[1].properties.parallelism: cannot be used beside maxParallel, which says the same: keep one of \
          them"
        ]
    );
    // On the hub there is nothing of the kind.
    for field in ["maxParallel", "tolerations", "maxFailedClusters"] {
        let mut step = with(applies("flags"), &format!("/properties/{field}"), json!([1]));
        step["properties"].as_object_mut().unwrap().remove("clusters");
        assert_eq!(
            refused(&spec(&[step])),
            [format!(
                "spec.workflow.steps[1].properties.{field}: is for objects in clusters: write clusters beside it, or leave it \
                 out"
            )]
        );
    }
}
