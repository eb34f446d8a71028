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
fn exact(properties: &Value, line: &str) {
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
        &rule(json!({"weightBy": {"label": "size"}, "weights": {"c1": 1}})),
        ".placement[0].weightBy: cannot be used beside weights: keep one of them",
    );
    exact(
        &rule(json!({"weightBy": {}})),
        ".placement[0].weightBy: needs one of label (a cluster label whose value is the weight) and allocatable (a resource, \
         such as cpu)",
    );
    exact(
        &rule(json!({"weightBy": {"labels": "size", "label": "size"}})),
        ".placement[0].weightBy.labels: unknown field: did you mean \"label\"? known here: label, allocatable",
    );
    exact(
        &rule(json!({"weightBy": {"label": "si ze"}})),
        ".placement[0].weightBy.label: \"si ze\" is no label key: use an optional DNS name and /, then at most 63 letters, \
         digits, '-', '_' or '.'",
    );
    exact(
        &rule(json!({"weightBy": "cpu"})),
        ".placement[0].weightBy: expected a map, found \"cpu\"",
    );
}

#[test]
fn spreads() {
    let spread = |spread: Value| json!({"maxClusters": 3, "spread": spread});
    exact(
        &json!({"spread": {"topologyKey": "region", "maxSkew": 1}}),
        ".spread: needs maxClusters: without it every cluster is chosen and there is nothing to spread",
    );
    exact(
        &spread(json!({"maxSkew": 1})),
        ".spread.topologyKey: is required: name a cluster label, such as region",
    );
    exact(
        &spread(json!({"topologyKey": "region"})),
        ".spread.maxSkew: is required: say by how many chosen clusters two values may differ, such as 1",
    );
    exact(
        &spread(json!({"topologyKey": "region", "maxSkew": 0})),
        ".spread.maxSkew: expected an integer from 1 to 2147483647, found 0",
    );
    exact(
        &spread(json!({"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotschedule"})),
        ".spread.whenUnsatisfiable: \"DoNotschedule\" is not known here: did you mean \"DoNotSchedule\"? known here: \
         DoNotSchedule, ScheduleAnyway",
    );
    exact(
        &spread(json!({"topologyKey": "", "maxSkew": 1})),
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
        exact(&properties, &format!(".overrides[0]{line}"));
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

/// Every refusal of a placement and its rules, word for word.
#[test]
fn placements_word_for_word() {
    let dns = "is not a DNS label: use lower-case letters, digits and '-', starting and ending with a letter or digit";
    let percentage = "is not a percentage: write a number of at most three decimals followed by '%', such as \"70%\" or \
                      \"12.5%\", or an integer without quotes for a count";
    let what_to_do = "list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}], name policies under \
                      policies, or a Placement under placementRef";
    let rule = |field: &str, value: Value| json!({"placement": [{field: value}]});
    let expression = |requirement: Value| rule("clusterSelector", json!({"matchExpressions": [requirement]}));
    let toleration = |toleration: Value| json!({"tolerations": [toleration]});
    for (properties, line) in [
        (json!({"placement": null}), format!(".placement: is required: {what_to_do}")),
        (json!({"placement": []}), format!(".placement: is empty: {what_to_do}")),
        (json!({"placement": {}}), ".placement: expected a list, found a map".to_owned()),
        (json!({"placement": [1]}), ".placement[0]: expected a map, found 1".to_owned()),
        (rule("name", json!("East")), format!(".placement[0].name: rule name \"East\" {dns}")),
        (
            rule("name", json!("a".repeat(51))),
            format!(".placement[0].name: rule name \"{}\" has 51 characters: use 1 to 50", "a".repeat(51)),
        ),
        (
            json!({"placement": [{"name": "a"}, {"name": "a"}]}),
            ".placement[1].name: rule name \"a\" is used twice in this placement: give each rule its own name".to_owned(),
        ),
        (
            rule("clusterSelector", Value::Null),
            ".placement[0].clusterSelector: is null: leave it out to select every cluster, or set it".to_owned(),
        ),
        (
            rule("clusterSelector", json!({"matchLabels": {}, "zone": "a"})),
            ".placement[0].clusterSelector.zone: unknown field beside matchLabels and matchExpressions: put labels under \
             matchLabels"
                .to_owned(),
        ),
        (
            expression(json!({"operator": "Exists"})),
            ".placement[0].clusterSelector.matchExpressions[0].key: is required: name a label".to_owned(),
        ),
        (
            expression(json!({"key": "a"})),
            ".placement[0].clusterSelector.matchExpressions[0].operator: is required: use In, NotIn, Exists or DoesNotExist"
                .to_owned(),
        ),
        (
            expression(json!({"key": "a", "operator": "NotIn"})),
            ".placement[0].clusterSelector.matchExpressions[0]: operator NotIn needs values".to_owned(),
        ),
        (
            expression(json!({"key": "a", "operator": "DoesNotExist", "values": ["b"]})),
            ".placement[0].clusterSelector.matchExpressions[0]: operator DoesNotExist takes no values".to_owned(),
        ),
        (
            rule("clusters", Value::Null),
            ".placement[0].clusters: is null: leave it out to select by label only, or set it".to_owned(),
        ),
        (
            rule("clusters", json!([])),
            ".placement[0].clusters: is empty, so that the rule selects no cluster: name clusters, or leave it out".to_owned(),
        ),
        (rule("clusters", json!(["C1"])), format!(".placement[0].clusters[0]: cluster name \"C1\" {dns}")),
        (
            rule("clusters", json!(["c1", "c1"])),
            ".placement[0].clusters[1]: cluster \"c1\" is listed twice".to_owned(),
        ),
        (
            rule("replicas", Value::Null),
            ".placement[0].replicas: is null: leave it out to give every selected cluster the full count, or set it".to_owned(),
        ),
        (rule("replicas", json!("70")), format!(".placement[0].replicas: \"70\" {percentage}")),
        (
            rule("replicas", json!("101%")),
            ".placement[0].replicas: \"101%\" is above 100%: a rule can claim at most all replicas".to_owned(),
        ),
        (
            rule("replicas", json!(-1)),
            ".placement[0].replicas: -1 is not a replica count: use an integer from 0 to 2147483647".to_owned(),
        ),
        (
            rule("replicas", json!(10.0)),
            ".placement[0].replicas: 10.0 is not a replica count: use an integer from 0 to 2147483647".to_owned(),
        ),
        (rule("weights", json!({"C1": 1})), format!(".placement[0].weights.C1: cluster name \"C1\" {dns}")),
        (
            rule("weights", json!({"c1": -1})),
            ".placement[0].weights.c1: expected an integer from 0 to 2147483647, found -1".to_owned(),
        ),
        (
            rule("perCluster", json!({"min": 3, "max": 2})),
            ".placement[0].perCluster: min 3 is above max 2: no count satisfies both".to_owned(),
        ),
        (
            json!({"remainder": "Keep"}),
            ".remainder: \"Keep\" is not known here: known here: Hold, Spread".to_owned(),
        ),
        (
            json!({"rebalance": "Always"}),
            ".rebalance: \"Always\" is not known here: known here: OnChange, Never".to_owned(),
        ),
        (
            json!({"maxClusters": 0}),
            ".maxClusters: expected an integer from 1 to 2147483647, found 0".to_owned(),
        ),
        (
            toleration(json!({"key": "a", "operator": "Exists", "value": "b"})),
            ".tolerations[0]: operator Exists takes no value: leave value out, or use Equal".to_owned(),
        ),
        (
            toleration(json!({"value": "b"})),
            ".tolerations[0]: without a key only operator Exists makes sense (it tolerates every taint): name a key".to_owned(),
        ),
        (
            toleration(json!({"key": "a", "tolerationSeconds": 3})),
            ".tolerations[0]: tolerationSeconds needs effect: NoExecute".to_owned(),
        ),
        (
            toleration(json!({"key": "a", "effect": "NoExecute", "tolerationSeconds": "3"})),
            ".tolerations[0].tolerationSeconds: expected a number of seconds, found \"3\"".to_owned(),
        ),
        (
            toleration(json!({"key": "a", "effect": "PreferNoSchedule"})),
            ".tolerations[0].effect: \"PreferNoSchedule\" is not known here: known here: NoSchedule, NoExecute".to_owned(),
        ),
    ] {
        exact(&properties, &line);
    }
    // Over all placing steps: the sum is named, and where it comes from.
    let mut spec = super::valid();
    let step = json!({"name": "west", "type": "deploy", "properties": {"placement": [{"replicas": "40.5%"}], "remainder": "Spread"}});
    super::set(&mut spec, "/workflow/steps/-", step);
    assert_eq!(
        super::refused(&spec),
        [
            "spec.workflow.steps: the percentages of all placing steps add up to 110.5% (70% in east/rule-0, 40.5% in \
             west/rule-0): at most 100% can be claimed",
            "spec.workflow.steps[1].properties.remainder: Spread here but Hold in \"east\": all placing steps share one \
             remainder, so write the same in each",
        ]
    );
}
