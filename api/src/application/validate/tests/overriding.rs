//! KubeVela's `override` policy: what it changes, and every refusal by its text.

mod traits;

use super::refused;
use crate::application::{ComponentKind, StepKind, ValidComponent, WebserviceProperties, validate};
use serde_json::{Value, json};

/// An application with a placement, two webservices, a worker and manifests, and these override policies in one step.
fn overriding(policies: &[Value]) -> Value {
    let mut all = vec![json!({"name": "where", "type": "topology", "properties": {"clusters": ["c1"]}})];
    let mut names = vec!["where".to_owned()];
    for (index, properties) in policies.iter().enumerate() {
        let name = format!("o{index}");
        all.push(json!({"name": name, "type": "override", "properties": properties}));
        names.push(name);
    }
    json!({
        "components": [
            {"name": "web", "type": "webservice", "properties": {"image": "nginx", "labels": {"a": "1", "b": "2"},
                "cmd": ["a", "b"], "cpu": "1", "ports": [{"port": 80, "expose": true}]}},
            {"name": "web-2", "type": "webservice", "properties": {"image": "nginx"}},
            {"name": "job", "type": "worker", "properties": {"image": "busybox"}},
            {"name": "raw", "type": "k8s-objects", "properties": {"objects": [{"kind": "ConfigMap"}]}},
        ],
        "policies": all,
        "workflow": {"steps": [{"name": "s", "type": "deploy", "properties": {"policies": names}}]}
    })
}

fn components(policies: &[Value]) -> Vec<ValidComponent> {
    let read = validate(&overriding(policies)).unwrap();
    match &read.steps[0].kind {
        StepKind::Deploy(deploy) => deploy.components.clone().unwrap_or(read.components),
        _ => panic!("no placing step"),
    }
}

fn web(component: &ValidComponent) -> &WebserviceProperties {
    match &component.kind {
        ComponentKind::Webservice(properties) => properties,
        other => panic!("{other:?}"),
    }
}

/// The images of web, web-2 and job.
fn images(component: &Value) -> [String; 3] {
    let all = components(&[json!({"components": [component]})]);
    let ComponentKind::Worker(job) = &all[2].kind else {
        panic!()
    };
    [
        web(&all[0]).worker.image.clone(),
        web(&all[1]).worker.image.clone(),
        job.image.clone(),
    ]
}

#[test]
fn names_are_anchored_patterns_and_types_select_without_a_name() {
    let image = json!({"image": "x"});
    for (component, expected) in [
        (
            json!({"name": "web", "properties": image}),
            ["x", "nginx", "busybox"],
        ),
        (
            json!({"name": "web*", "properties": image}),
            ["x", "x", "busybox"],
        ),
        (
            json!({"name": "*-2", "properties": image}),
            ["nginx", "x", "busybox"],
        ),
        (
            json!({"type": "worker", "properties": image}),
            ["nginx", "nginx", "x"],
        ),
        (
            json!({"name": "", "type": "worker", "properties": image}),
            ["nginx", "nginx", "x"],
        ),
        (
            json!({"name": "job", "type": "worker", "properties": image}),
            ["nginx", "nginx", "x"],
        ),
    ] {
        assert_eq!(images(&component), expected, "{component}");
    }
}

#[test]
fn maps_merge_lists_are_replaced_null_removes_and_zero_values_count() {
    let change = json!({"labels": {"a": "", "c": "3", "b": null}, "cmd": [], "cpu": null, "image": "nginx:2",
        "ports": [{"port": 80, "expose": false}]});
    let all = components(&[json!({"components": [{"name": "web", "properties": change}]})]);
    let properties = web(&all[0]);
    let labels: Vec<_> = properties
        .worker
        .labels
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(labels, [("a", ""), ("c", "3")]);
    assert_eq!((properties.worker.cmd.len(), &properties.worker.cpu), (0, &None));
    assert!(!properties.ports[0].expose, "an explicit false");
    assert_eq!(web(&all[1]).worker.image, "nginx");
}

#[test]
fn several_policies_apply_in_order() {
    let change = |image: &str| json!({"components": [{"name": "web", "properties": {"image": image}}]});
    let all = components(&[change("first"), change("second")]);
    assert_eq!(web(&all[0]).worker.image, "second");
}

#[test]
fn a_selector_of_every_component_asks_for_nothing() {
    let all = components(&[json!({"selector": ["web*", "job", "raw"]})]);
    assert_eq!(all.len(), 4);
}

#[test]
fn every_refusal() {
    let properties = "spec.policies[1].properties";
    let entry = "spec.policies[1].properties.components[0]";
    for (policy, line) in [
        (
            Value::Null,
            format!(
                "{properties}: is required: list the components and the properties or traits that differ, such as [{{name: web, \
                 properties: {{image: nginx}}}}]"
            ),
        ),
        (
            json!({}),
            format!(
                "{properties}: changes nothing: list the components and the properties or traits that differ, such as [{{name: \
                 web, properties: {{image: nginx}}}}]"
            ),
        ),
        (
            json!({"selector": ["web"]}),
            format!(
                "{properties}.selector: leaves component \"web-2\" out, and every cluster of a placement gets all \
                 components: move it to an application of its own"
            ),
        ),
        (
            json!({"components": [{"name": "web"}]}),
            format!("{entry}: changes nothing: set the properties or the traits that differ"),
        ),
        (
            json!({"components": [{"name": "web", "traits": []}]}),
            format!("{entry}: changes nothing: set the properties or the traits that differ"),
        ),
        (
            json!({"components": [{"name": "web", "properties": {"replicas": 0}}]}),
            format!(
                "{entry}.properties.replicas: replicas cannot be overridden, because the placement divides them: set \
                 replicas of the component, and shares or perCluster bounds in the placement"
            ),
        ),
        (
            json!({"components": [{"name": "web", "properties": {}, "externalRevision": "v1"}]}),
            format!("{entry}.externalRevision: externalRevision is not supported yet"),
        ),
        (
            json!({"components": [{"name": "wbe", "properties": {}}]}),
            format!(
                "{entry}.name: no component is selected, and an override adds none: add it to components: did you mean \
                 \"web\"? known here: web, web-2, job, raw"
            ),
        ),
        (
            json!({"components": [{"type": "task", "properties": {}}]}),
            format!(
                "{entry}.type: no component is selected, and an override adds none: add it to components: known here: \
                 web, web-2, job, raw"
            ),
        ),
        (
            json!({"components": [{"name": "web", "type": "worker", "properties": {}}]}),
            format!(
                "{entry}.type: component \"web\" has the type webservice, and an override cannot replace it by one of \
                 another type: use an application of its own for that"
            ),
        ),
        (
            json!({"components": [{"name": "raw", "properties": {"objects": []}}]}),
            format!(
                "{entry}.properties: component \"raw\" is of type k8s-objects, whose list of manifests would be replaced \
                 whole: use overrides of a placement, whose target names one manifest"
            ),
        ),
        (
            json!({"components": [{"name": "job", "properties": {"imge": "x"}}]}),
            format!(
                "{entry}.properties: with these properties the component is refused: job.properties.imge: unknown field: \
                 did you mean \"image\"? known here: image, cmd, args, env, cpu, memory, replicas, volumes, volumeMounts, \
                 livenessProbe, readinessProbe, labels, annotations, imagePullPolicy, imagePullSecrets, hostAliases"
            ),
        ),
        (
            json!({"components": [{"name": "job", "properties": {"image": null}}]}),
            format!(
                "{entry}.properties: with these properties the component is refused: job.properties.image: is required: \
                 name a container image"
            ),
        ),
        (
            json!({"components": [{"names": "job", "properties": {"cpu": "1"}, "name": "job"}]}),
            format!(
                "{entry}.names: unknown field: did you mean \"name\"? known here: name, type, properties, traits"
            ),
        ),
    ] {
        assert_eq!(refused(&overriding(&[policy])), [line]);
    }
}

#[test]
fn overrides_that_are_wrong_only_together_are_refused_at_the_step() {
    let first = json!({"components": [{"name": "web", "properties": {"volumes": [{"name": "v", "mountPath": "/a", "type": "emptyDir"}]}}]});
    let second = json!({"components": [{"name": "web", "properties": {"volumeMounts": {"emptyDir": [{"name": "v", "mountPath": "/a"}]}}}]});
    for alone in [&first, &second] {
        assert_eq!(refused(&overriding(std::slice::from_ref(alone))), [""; 0]);
    }
    let lines = refused(&overriding(&[first, second]));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with(
            "spec.workflow.steps[0].properties.policies: with these overrides together a component is refused: \
             web.properties."
        ),
        "{lines:?}"
    );
}
