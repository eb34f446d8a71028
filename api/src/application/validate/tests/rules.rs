//! One row per rule on the fields of a placement.

use super::check;
use serde_json::{Value, json};

#[test]
fn rules() {
    for (field, value, start, part) in [
        (
            "replicas",
            json!("70"),
            ".replicas: ",
            "\"70\" is not a percentage",
        ),
        (
            "replicas",
            json!("seventy"),
            ".replicas: ",
            "is not a percentage: write a number of at most three decimals",
        ),
        (
            "replicas",
            json!("70.1234%"),
            ".replicas: ",
            "is not a percentage",
        ),
        (
            "replicas",
            json!("100.5%"),
            ".replicas: ",
            "\"100.5%\" is above 100%",
        ),
        ("replicas", json!(-1), ".replicas: ", "-1 is not a replica count"),
        (
            "replicas",
            json!(0.7),
            ".replicas: ",
            "0.7 is not a replica count",
        ),
        ("replicas", json!(true), ".replicas: ", "expected a percentage"),
        (
            "replicas",
            Value::Null,
            ".replicas: ",
            "is null: leave it out to give every selected cluster the full count",
        ),
        (
            "clusterSelector",
            Value::Null,
            ".clusterSelector: ",
            "is null: leave it out to select every cluster",
        ),
        (
            "clusterSelector",
            json!("east"),
            ".clusterSelector: ",
            "expected a map, found \"east\"",
        ),
        (
            "clusterSelector",
            json!({"region": 1}),
            ".clusterSelector.region: ",
            "expected a string, found 1",
        ),
        (
            "clusterSelector",
            json!({"matchLabels": {"a/b": true}}),
            ".clusterSelector.matchLabels[\"a/b\"]: ",
            "expected a string",
        ),
        (
            "clusterSelector",
            json!({"matchLabels": {}, "region": "east"}),
            ".clusterSelector.region: ",
            "put labels under matchLabels",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}),
            ".clusterSelector.matchExpressions[0].operator: ",
            "did you mean \"In\"?",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            ".clusterSelector.matchExpressions[0]: ",
            "operator In needs values",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            ".clusterSelector.matchExpressions[0]: ",
            "takes no values",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"operator": "Exists"}]}),
            ".clusterSelector.matchExpressions[0].key: ",
            "is required",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}),
            ".clusterSelector.matchExpressions[0].values[0]: ",
            "expected a string",
        ),
        (
            "clusterSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "vals": []}]}),
            ".clusterSelector.matchExpressions[0].vals: ",
            "did you mean \"values\"?",
        ),
        (
            "clusters",
            json!([]),
            ".clusters: ",
            "is empty, so that the rule selects no cluster",
        ),
        ("clusters", Value::Null, ".clusters: ", "is null"),
        (
            "clusters",
            json!(["C1"]),
            ".clusters[0]: ",
            "cluster name \"C1\" is not a DNS label",
        ),
        ("clusters", json!(["c1", "c1"]), ".clusters[1]: ", "listed twice"),
        (
            "weights",
            json!({"C1": 1}),
            ".weights.C1: ",
            "cluster name \"C1\" is not a DNS label",
        ),
        (
            "weights",
            json!({"c1": -1}),
            ".weights.c1: ",
            "expected an integer",
        ),
        (
            "weights",
            json!({"c1": 1.5}),
            ".weights.c1: ",
            "expected an integer",
        ),
        (
            "weightBy",
            json!({"label": "x", "allocatable": "cpu"}),
            ".weightBy: ",
            "needs one of label (a cluster label whose value is the weight) and allocatable (a resource, such as cpu)",
        ),
        (
            "perCluster",
            json!({"min": 3, "max": 2}),
            ".perCluster: ",
            "min 3 is above max 2",
        ),
        (
            "perCluster",
            json!({"minimum": 3}),
            ".perCluster.minimum: ",
            "unknown field",
        ),
        (
            "perCluster",
            json!({"min": "1"}),
            ".perCluster.min: ",
            "expected an integer",
        ),
        (
            "name",
            json!("East"),
            ".name: ",
            "rule name \"East\" is not a DNS label",
        ),
        (
            "clusterSelectors",
            json!({}),
            ".clusterSelectors: ",
            "did you mean \"clusterSelector\"?",
        ),
    ] {
        let at = "spec.workflow.steps[0].properties.placement[0]";
        let pointer = format!("/workflow/steps/0/properties/placement/0/{field}");
        check(&pointer, value, &format!("{at}{start}"), part);
    }
}

#[test]
fn siblings_of_the_rules() {
    for (field, value, start, part) in [
        ("placement", json!({}), ".placement: ", "expected a list"),
        (
            "placement",
            json!([null]),
            ".placement[0]: ",
            "expected a map, found null",
        ),
        (
            "placement",
            json!([{"name": "rule-1"}, {}]),
            ".placement[1]: ",
            "rule name \"rule-1\" is used twice",
        ),
        (
            "placement",
            json!([{"name": "a"}, {"name": "a"}]),
            ".placement[1].name: ",
            "rule name \"a\" is used twice",
        ),
        (
            "remainder",
            json!("spread"),
            ".remainder: ",
            "did you mean \"Spread\"?",
        ),
        (
            "rebalance",
            json!("Always"),
            ".rebalance: ",
            "known here: OnChange, Never",
        ),
        (
            "maxClusters",
            json!(0),
            ".maxClusters: ",
            "expected an integer from 1",
        ),
        (
            "tolerations",
            json!([{"key": "a", "operator": "In"}]),
            ".tolerations[0].operator: ",
            "known here: Exists, Equal",
        ),
        (
            "tolerations",
            json!([{"key": "a", "effect": "PreferNoSchedule"}]),
            ".tolerations[0].effect: ",
            "known here: NoSchedule, NoExecute",
        ),
        (
            "tolerations",
            json!([{"key": "a", "operator": "Exists", "value": "b"}]),
            ".tolerations[0]: ",
            "Exists takes no value",
        ),
        (
            "tolerations",
            json!([{"value": "b"}]),
            ".tolerations[0]: ",
            "name a key",
        ),
        (
            "tolerations",
            json!([{"key": "a", "tolerationSeconds": 3}]),
            ".tolerations[0]: ",
            "needs effect: NoExecute",
        ),
        (
            "tolerations",
            json!([{"key": "a", "effect": "NoExecute", "tolerationSeconds": "3"}]),
            ".tolerations[0].tolerationSeconds: ",
            "expected a number of seconds",
        ),
        (
            "tolerations",
            json!([{"keys": "a", "operator": "Exists"}]),
            ".tolerations[0].keys: ",
            "did you mean \"key\"?",
        ),
    ] {
        let at = "spec.workflow.steps[0].properties";
        let pointer = format!("/workflow/steps/0/properties/{field}");
        check(&pointer, value, &format!("{at}{start}"), part);
    }
}

/// The whole line for one change of the step's properties.
fn exact(properties: Value, line: &str) {
    let mut spec = super::valid();
    let map = properties.as_object().unwrap();
    for (field, value) in map {
        spec["workflow"]["steps"][0]["properties"][field] = value.clone();
    }
    let at = "spec.workflow.steps[0].properties";
    assert_eq!(super::refused(&spec), [format!("{at}{line}")], "{properties}");
}

#[test]
fn weights_from_clusters() {
    let rule = |extra: Value| {
        let mut rule = json!({"replicas": "70%"});
        rule.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        json!({"placement": [rule]})
    };
    exact(
        rule(json!({"weightBy": {"label": "size"}, "weights": {"c1": 1}})),
        ".placement[0].weightBy: cannot be used beside weights: keep one of them",
    );
    exact(
        rule(json!({"weightBy": {}})),
        ".placement[0].weightBy: needs one of label (a cluster label whose value is the weight) and allocatable (a resource, \
         such as cpu)",
    );
    exact(
        rule(json!({"weightBy": {"labels": "size", "label": "size"}})),
        ".placement[0].weightBy.labels: unknown field: did you mean \"label\"? known here: label, allocatable",
    );
    exact(
        rule(json!({"weightBy": {"label": "si ze"}})),
        ".placement[0].weightBy.label: \"si ze\" is no label key: use an optional DNS name and /, then at most 63 letters, \
         digits, '-', '_' or '.'",
    );
    exact(
        rule(json!({"weightBy": "cpu"})),
        ".placement[0].weightBy: expected a map, found \"cpu\"",
    );
}

#[test]
fn spreads() {
    let spread = |spread: Value| json!({"maxClusters": 3, "spread": spread});
    exact(
        json!({"spread": {"topologyKey": "region", "maxSkew": 1}}),
        ".spread: needs maxClusters: without it every cluster is chosen and there is nothing to spread",
    );
    exact(
        spread(json!({"maxSkew": 1})),
        ".spread.topologyKey: is required: name a cluster label, such as region",
    );
    exact(
        spread(json!({"topologyKey": "region"})),
        ".spread.maxSkew: is required: say by how many chosen clusters two values may differ, such as 1",
    );
    exact(
        spread(json!({"topologyKey": "region", "maxSkew": 0})),
        ".spread.maxSkew: expected an integer from 1 to 2147483647, found 0",
    );
    exact(
        spread(json!({"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotschedule"})),
        ".spread.whenUnsatisfiable: \"DoNotschedule\" is not known here: did you mean \"DoNotSchedule\"? known here: \
         DoNotSchedule, ScheduleAnyway",
    );
    exact(
        spread(json!({"topologyKey": "", "maxSkew": 1})),
        ".spread.topologyKey: is empty",
    );
}

/// Every refusal of an override, word for word.
#[test]
fn overrides() {
    let with = |extra: Value| {
        let mut change =
            json!({"target": {"kind": "Deployment", "name": "web"}, "patch": {"spec": {"paused": true}}});
        for (field, value) in extra.as_object().unwrap() {
            change[field] = value.clone();
        }
        if extra.get("jsonPatch").is_some() && extra.get("patch").is_none() {
            change.as_object_mut().unwrap().remove("patch");
        }
        json!({"overrides": [change]})
    };
    let job = |patch: Value| with(json!({"target": {"kind": "Job", "name": "web"}, "patch": patch}));
    let operation = |operation: Value| with(json!({"jsonPatch": [operation]}));
    let whole = "name the fields that change";
    for (properties, line) in [
        (
            with(json!({"rule": "rule-1"})),
            ".rule: there is no rule named \"rule-1\" in this placement: did you mean \"rule-0\"? known here: rule-0",
        ),
        (
            with(json!({"clusters": []})),
            ".clusters: is empty, so that the override selects no cluster: name clusters, or leave it out",
        ),
        (
            with(json!({"clusters": null})),
            ".clusters: is null: leave it out to select by label only, or set it",
        ),
        (
            with(json!({"clusterSelector": null})),
            ".clusterSelector: is null: leave it out to change every cluster, or set it",
        ),
        (
            with(json!({"clusterSelector": {"a": 1}})),
            ".clusterSelector.a: expected a string, found 1: put it in quotes",
        ),
        (
            with(json!({"target": null})),
            ".target: is required: name the object, such as {kind: Deployment, name: web}",
        ),
        (
            with(json!({"target": {"name": "web"}})),
            ".target.kind: is required: name the kind, such as Deployment",
        ),
        (
            with(json!({"target": {"kind": "Deployment"}})),
            ".target.name: is required: name the object as the component does",
        ),
        (
            with(json!({"target": {"kind": "Secret", "name": "web"}})),
            ".target.kind: a Secret cannot be overridden, because Decisions would repeat its values: use one Secret per variant",
        ),
        (
            with(json!({"targets": {}})),
            ".targets: unknown field: did you mean \"target\"? known here: rule, clusterSelector, clusters, target, patch, jsonPatch",
        ),
        (
            with(json!({"patch": null})),
            ": changes nothing: set patch (a JSON merge patch) or jsonPatch (a list of operations)",
        ),
        (
            with(json!({"jsonPatch": [], "patch": {"a": 1}})),
            ": has patch and jsonPatch: use one of them, and a second override for the other",
        ),
        (
            with(json!({"patch": {}})),
            ".patch: is empty, so that it changes nothing: name the fields that change",
        ),
        (
            with(json!({"patch": {"kind": "Job"}})),
            ".patch.kind: an override may not change kind: it would be another object",
        ),
        (
            with(json!({"patch": {"apiVersion": null}})),
            ".patch.apiVersion: an override may not change apiVersion: it would be another object",
        ),
        (
            with(json!({"patch": {"metadata": {"name": "web"}}})),
            ".patch.metadata.name: an override may not change metadata.name: it would be another object",
        ),
        (
            with(json!({"patch": {"metadata": {"namespace": "a"}}})),
            ".patch.metadata.namespace: an override may not change metadata.namespace: it would be another object",
        ),
        (
            with(json!({"patch": {"spec": {"replicas": 0}}})),
            ".patch.spec.replicas: an override may not change spec.replicas, which placement divides: say in a rule how many a cluster gets",
        ),
        (
            with(json!({"patch": {"spec": null}})),
            &format!(
                ".patch.spec: an override may not replace spec, because spec.replicas is in it: {whole}"
            ),
        ),
        (
            job(json!({"spec": {"parallelism": 1}})),
            ".patch.spec.parallelism: an override may not change spec.parallelism, which placement divides: say in a rule how many a cluster gets",
        ),
        (
            job(json!({"spec": {"completions": 1}})),
            ".patch.spec.completions: an override may not change spec.completions, which placement divides: say in a rule how many a cluster gets",
        ),
        (
            with(json!({"patch": {"spec": {"a": ["${cluster.zone}"]}}})),
            ".patch.spec.a[0]: \"${cluster.zone}\" is no variable: known here are ${cluster.name} and ${cluster.labels.<key>}; write \
             $${cluster. for the text itself",
        ),
        (
            with(json!({"patch": {"spec": {"a": "${cluster.name"}}})),
            ".patch.spec.a: \"${cluster.name\" is not closed: end the variable with }, or write $${cluster. for the text itself",
        ),
        (
            with(json!({"jsonPatch": []})),
            ".jsonPatch: is empty, so that it changes nothing: list operations, such as {op: add, path: /data/a, value: b}",
        ),
        (
            operation(json!({"path": "/a"})),
            ".jsonPatch[0].op: is required: use add, remove, replace, move, copy or test",
        ),
        (
            operation(json!({"op": "set", "path": "/a"})),
            ".jsonPatch[0].op: \"set\" is not known here: known here: add, remove, replace, move, copy, test",
        ),
        (
            operation(json!({"op": "remove"})),
            ".jsonPatch[0].path: is required: name the field, such as /spec/template/spec/containers/0/image",
        ),
        (
            operation(json!({"op": "remove", "path": "spec.paused"})),
            ".jsonPatch[0].path: \"spec.paused\" is no JSON pointer: start it with /, as in /spec/template/metadata/labels/a",
        ),
        (
            operation(json!({"op": "add", "path": "/a"})),
            ".jsonPatch[0]: operation add needs a value",
        ),
        (
            operation(json!({"op": "copy", "path": "/a"})),
            ".jsonPatch[0].from: is required: name the field to take",
        ),
        (
            operation(json!({"op": "remove", "path": "/metadata"})),
            &format!(
                ".jsonPatch[0].path: an override may not replace metadata, because metadata.name is in it: {whole}"
            ),
        ),
        (
            operation(json!({"op": "replace", "path": "", "value": {}})),
            &format!(
                ".jsonPatch[0].path: an override may not replace the whole object, because apiVersion is in it: {whole}"
            ),
        ),
        (
            operation(json!({"op": "move", "from": "/spec/replicas", "path": "/spec/a"})),
            ".jsonPatch[0].from: an override may not change spec.replicas, which placement divides: say in a rule how many a cluster gets",
        ),
        (
            operation(json!({"op": "add", "path": "/a", "value": "${cluster.x}"})),
            ".jsonPatch[0].value: \"${cluster.x}\" is no variable: known here are ${cluster.name} and ${cluster.labels.<key>}; write $${cluster. for the text itself",
        ),
    ] {
        exact(properties, &format!(".overrides[0]{line}"));
    }
}

#[test]
fn overrides_that_are_understood() {
    let mut spec = super::valid();
    let overrides = json!([
        {"rule": "rule-0", "target": {"kind": "Deployment", "name": "web"}, "patch": {"spec": {"minReadySeconds": 0}}},
        {"clusterSelector": {"tier": "gold"}, "clusters": ["c1"], "target": {"kind": "ConfigMap", "name": "a"}, "jsonPatch": [
            {"op": "test", "path": "/metadata/name", "value": "a"}, {"op": "copy", "from": "/kind", "path": "/data/kind"}]}]);
    spec["workflow"]["steps"][0]["properties"]["overrides"] = overrides.clone();
    let valid = super::validate(&spec).unwrap();
    let crate::application::StepKind::Deploy(step) = &valid.steps[0].kind else {
        panic!()
    };
    assert_eq!(json!(step.placement.overrides), overrides);
}
