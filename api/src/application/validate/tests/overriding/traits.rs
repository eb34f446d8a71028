//! Traits in `override` policies: what becomes of the traits of a component, and every refusal by its text.

use super::{super::refused, overriding};
use crate::application::{StepKind, ValidComponent, validate};
use serde_json::{Value, json};

/// [`overriding`] with these traits of the component `web`, and a Deployment as manifests.
fn spec(own: &Value, policies: &[Value]) -> Value {
    let mut spec = overriding(policies);
    spec["components"][0]["traits"] = own.clone();
    let container = json!({"name": "main", "image": "x"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "raw"},
        "spec": {"template": {"spec": {"containers": [container]}}}});
    spec["components"][3]["properties"]["objects"] = json!([deployment]);
    spec
}

/// An override of the component `web`.
fn web(traits: &Value) -> Value {
    json!({"components": [{"name": "web", "traits": traits}]})
}

fn components(own: &Value, policies: &[Value]) -> Vec<ValidComponent> {
    let read = validate(&spec(own, policies)).unwrap_or_else(|violations| panic!("{violations:#?}"));
    match &read.steps[0].kind {
        StepKind::Deploy(deploy) => deploy.components.clone().unwrap(),
        _ => panic!("no placing step"),
    }
}

/// Every trait of a component: its type, the last fields that it sets, its ports.
fn lines(component: &ValidComponent) -> Vec<String> {
    let line = |one: &crate::application::ValidTrait| {
        let settings = one.settings.iter().map(|setting| {
            let path = setting.path.to_string();
            let field = path.rsplit_once('.').map_or(path.as_str(), |(_, field)| field);
            match &setting.value {
                Some(value) => format!("{field}={}", value.get("value").unwrap_or(value)),
                None => format!("-{field}"),
            }
        });
        let ports = one.service.iter().flat_map(|service| &service.ports);
        let ports = ports.map(|port| format!("port {}", port.port));
        let mut said: Vec<String> = settings.chain(ports).collect();
        said.sort();
        said.dedup();
        format!("{}: {}", one.type_, said.join(" "))
    };
    component.traits.iter().map(line).collect()
}

#[test]
fn a_trait_is_merged_into_the_one_of_its_type_added_or_taken_out() {
    let own = json!([
        {"type": "scaler", "properties": {"replicas": 3}},
        {"type": "env", "properties": {"env": {"LEVEL": "info", "OLD": "1", "MODE": "x"}, "unset": ["A"]}},
        {"type": "labels", "properties": {"team": "a", "tier": "1"}},
    ]);
    let scaler = "scaler: replicas=3";
    let env = "env: -env[A] env[LEVEL]=\"info\" env[MODE]=\"x\" env[OLD]=\"1\"";
    let labels = "labels: team=\"a\" tier=\"1\"";
    for (traits, expected) in [
        // Maps merge deeply, lists are replaced, null removes, zero values count; its place stays.
        (
            json!([{"type": "env", "properties": {"env": {"LEVEL": "", "OLD": null, "NEW": "2"}, "unset": ["B"]}}]),
            vec![
                scaler,
                "env: -env[B] env[LEVEL]=\"\" env[MODE]=\"x\" env[NEW]=\"2\"",
                labels,
            ],
        ),
        // In labels and annotations null is a value: it removes the key from the workload.
        (
            json!([{"type": "labels", "properties": {"team": "b", "tier": null, "other": null}}]),
            vec![scaler, env, "labels: -other -tier team=\"b\""],
        ),
        // A new type goes behind the others.
        (
            json!([{"type": "sidecar", "properties": {"name": "log", "image": "l"}}]),
            vec![scaler, env, labels, "sidecar: image=\"l\""],
        ),
        (
            json!([{"type": "node-selector", "properties": {"disk": "ssd"}, "disable": false}]),
            vec![scaler, env, labels, "node-selector: disk=\"ssd\""],
        ),
        // What is taken out is gone, and what is not there asks for nothing.
        (
            json!([{"type": "labels", "disable": true}, {"type": "expose", "disable": true}]),
            vec![scaler, env],
        ),
    ] {
        let all = components(&own, &[web(&traits)]);
        assert_eq!(lines(&all[0]), expected, "{traits}");
        assert!(all[1].traits.is_empty(), "another component is as it was");
    }
}

#[test]
fn names_and_types_select_for_traits_as_for_properties() {
    let note = json!([{"type": "annotations", "properties": {"note": "x"}}]);
    for (selects, expected) in [
        (json!({}), [1, 1, 1, 1]),
        (json!({"name": ""}), [1, 1, 1, 1]),
        (json!({"name": "web*"}), [1, 1, 0, 0]),
        (json!({"type": "worker"}), [0, 0, 1, 0]),
        // Their list of manifests stays what it is.
        (json!({"type": "k8s-objects"}), [0, 0, 0, 1]),
    ] {
        let mut entry = selects.clone();
        entry["traits"] = note.clone();
        let all = components(&json!(null), &[json!({"components": [entry]})]);
        let counts: Vec<usize> = all.iter().map(|component| component.traits.len()).collect();
        assert_eq!(counts, expected, "{selects}");
    }
}

#[test]
fn several_policies_change_one_after_the_other() {
    let env = |name: &str, value: &str| web(&json!([{"type": "env", "properties": {"env": {name: value}}}]));
    let all = components(&json!(null), &[env("X", "1"), env("Y", "1"), env("X", "2")]);
    assert_eq!(lines(&all[0]), ["env: env[X]=\"2\" env[Y]=\"1\""]);
    let without = web(&json!([{"type": "env", "disable": true}]));
    let all = components(&json!(null), &[env("X", "1"), without.clone(), env("Y", "1")]);
    assert_eq!(lines(&all[0]), ["env: env[Y]=\"1\""]);
    let all = components(&json!(null), &[env("X", "1"), without]);
    assert!(all[0].traits.is_empty());
    // Properties and traits of one entry go together.
    let both = json!({"components": [{"name": "web", "properties": {"ports": [{"port": 80, "expose": false}]},
        "traits": [{"type": "expose", "properties": {"port": [81]}}]}]});
    assert_eq!(lines(&components(&json!([]), &[both])[0]), ["expose: port 81"]);
}

#[test]
fn every_trait_of_a_type_is_taken_out() {
    let log = |name: &str| json!({"type": "sidecar", "properties": {"name": name, "image": "l"}});
    let own = json!([log("a"), log("b")]);
    let all = components(&own, &[web(&json!([{"type": "sidecar", "disable": true}]))]);
    assert!(all[0].traits.is_empty());
}

#[test]
fn every_refusal() {
    let entry = "spec.policies[1].properties.components[0]";
    let none = json!([]);
    let of = |type_: &str, properties: Value| json!([{"type": type_, "properties": properties}]);
    let log = |name: &str| json!({"type": "sidecar", "properties": {"name": name, "image": "l"}});
    let two = json!([log("a"), log("b")]);
    let unset = of("env", json!({"unset": ["X"]}));
    let sidecar = of(
        "sidecar",
        json!({"name": "log", "image": "l", "env": [{"name": "X", "value": "1"}]}),
    );
    let env_of_sidecar =
        json!([log("log"), {"type": "env", "properties": {"containerName": "log", "env": {"X": "2"}}}]);
    for (own, traits, line) in [
        (&none, json!({"a": 1}), ".traits: expected a list, found a map"),
        (
            &none,
            json!([{"properties": {}}]),
            ".traits[0].type: is required: use one of scaler, labels, annotations, expose, env, resource, sidecar, \
             node-selector",
        ),
        (
            &none,
            of("sidcar", json!({})),
            ".traits[0].type: unknown trait \"sidcar\": did you mean \"sidecar\"? known here: scaler, labels, annotations, \
             expose, env, resource, sidecar, node-selector",
        ),
        (
            &none,
            json!([{"type": "gateway", "disable": true}]),
            ".traits[0].type: the trait gateway is not built in: use the trait expose, and a component of type k8s-objects \
             with an Ingress or HTTPRoute to its Service",
        ),
        (
            &none,
            json!([{"type": "env", "disabled": true, "properties": {"env": {"X": "1"}}}]),
            ".traits[0].disabled: unknown field: did you mean \"disable\"? known here: type, properties, disable",
        ),
        (
            &none,
            json!([{"type": "env", "disable": "yes"}]),
            ".traits[0].disable: expected true or false, found \"yes\"",
        ),
        (
            &none,
            json!([{"type": "env", "disable": true, "properties": {}}]),
            ".traits[0].properties: cannot be used beside disable: true, which takes the trait out: keep one of them",
        ),
        (
            &none,
            json!([{"type": "env"}]),
            ".traits[0].properties: is required: list the properties that differ, or set disable: true to take the trait \
             out",
        ),
        (
            &none,
            json!([{"type": "env", "properties": []}]),
            ".traits[0].properties: expected a map, found a list",
        ),
        (
            &none,
            json!([log("a"), log("b")]),
            ".traits[1]: a second sidecar trait: an override changes the only one of its type, so put them together",
        ),
        // How many there are is the placement's.
        (
            &none,
            of("scaler", json!({"replicas": 2})),
            ".traits[0].type: scaler cannot be overridden, because the placement divides the replicas: set it on the \
             component, and shares or perCluster bounds in the placement",
        ),
        (
            &none,
            json!([{"type": "scaler", "disable": true}]),
            ".traits[0].type: scaler cannot be overridden, because the placement divides the replicas: set it on the \
             component, and shares or perCluster bounds in the placement",
        ),
        (
            &two,
            json!([log("a")]),
            ".traits[0]: component \"web\" has 2 sidecar traits, so that it is not clear which one this changes: put them \
             together, or use overrides of a placement, whose target names one object",
        ),
        // As for traits of components, at the place in the policy.
        (
            &none,
            of("env", json!({"env": {"X": "1"}, "contanerName": "web"})),
            ".traits[0].properties.contanerName: with these traits the component is refused: \
             web.traits[0].properties.contanerName: unknown field: did you mean \"containerName\"? known here: \
             containerName, replace, env, unset, containers",
        ),
        (
            &two,
            of("env", json!({"env": {"X": 1}})),
            ".traits[0].properties.env.X: with these traits the component is refused: web.traits[2].properties.env.X: \
             expected a string, found 1: put it in quotes",
        ),
        (
            &none,
            of("sidecar", json!({"image": "l"})),
            ".traits[0].properties.name: with these traits the component is refused: web.traits[0].properties.name: is \
             required: name the sidecar",
        ),
        (
            &none,
            of("expose", json!({"port": [81]})),
            ".traits[0]: with these traits the component is refused: web.traits[0]: expose adds Service \"web\", which the \
             component has already: list all ports in one of them",
        ),
        // What only the component says is no place in the policy.
        (
            &unset,
            of("env", json!({"env": {"X": "1"}})),
            ".traits[0].properties: with these traits the component is refused: web.traits[0].properties.unset[0]: \"X\" is \
             set in env and unset here: say it in one of them",
        ),
        // Another trait of the component.
        (
            &sidecar,
            of("env", json!({"containerName": "log", "env": {"X": "2"}})),
            ".traits[0]: with these traits the component is refused: web.traits[1]: env sets \
             spec.template.spec.containers[log].env[X] to \"2\", and sidecar (traits[0]) sets it to \"1\": say it in one of \
             them",
        ),
        (
            &env_of_sidecar,
            json!([{"type": "sidecar", "disable": true}]),
            ".traits: with these traits the component is refused: web.traits[0].properties.containerName: Deployment \"web\" \
             has no container \"log\"; known here: web",
        ),
        (
            &none,
            of("resource", json!({"requests": {"cpu": "2"}})),
            ".traits: with these traits the component is refused: web.traits: with these, container \"web\" of Deployment \
             \"web\" requests cpu 2, more than its limit 1: set both in the trait resource",
        ),
    ] {
        let lines = refused(&spec(own, &[web(&traits)]));
        assert_eq!(lines, [format!("{entry}{line}")], "{own} {traits}");
    }
}

#[test]
fn a_component_without_a_workload_takes_no_trait() {
    let entry = json!({"traits": [{"type": "labels", "properties": {"a": "1"}}]});
    // The manifests of `overriding` are a ConfigMap.
    assert_eq!(
        refused(&overriding(&[json!({"components": [entry]})])),
        [
            "spec.policies[1].properties.components[0].traits: with these traits the component is refused: raw.traits: no \
             object of this component has a pod template (spec.template with containers), which is what traits change: write \
             their effect into the objects"
        ]
    );
}

#[test]
fn several_components_with_the_same_trouble_are_one_line() {
    let entry =
        json!({"name": "web*", "traits": [{"type": "sidecar", "properties": {"name": "log", "imge": "l"}}]});
    let at = "spec.policies[1].properties.components[0].traits[0].properties";
    let root = "with these traits the component is refused: web.traits[0].properties";
    assert_eq!(
        refused(&overriding(&[json!({"components": [entry]})])),
        [
            format!("{at}.image: {root}.image: is required: name a container image"),
            format!(
                "{at}.imge: {root}.imge: unknown field: did you mean \"image\"? known here: name, image, cmd, args, env, \
                 volumes, livenessProbe, readinessProbe"
            ),
        ]
    );
}

#[test]
fn traits_that_are_wrong_only_together_are_refused_at_the_step() {
    let set = web(&json!([{"type": "env", "properties": {"env": {"X": "1"}}}]));
    let unset = web(&json!([{"type": "env", "properties": {"unset": ["X"]}}]));
    for alone in [&set, &unset] {
        assert_eq!(refused(&overriding(std::slice::from_ref(alone))), [""; 0]);
    }
    assert_eq!(
        refused(&overriding(&[set, unset])),
        [
            "spec.workflow.steps[0].properties.policies: with these overrides together a component is refused: \
             web.traits[0].properties.unset[0]: \"X\" is set in env and unset here: say it in one of them"
        ]
    );
}
