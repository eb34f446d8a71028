use serde_json::{Value, json};

use crate::{schema, strategic_merge};

/// Applies `patch` to `spec.template.spec` of a Deployment.
fn pod(live: &Value, patch: &Value) -> Result<Value, String> {
    let wrap = |spec: &Value| json!({"spec": {"template": {"spec": spec}}});
    merge("apps/v1", "Deployment", &wrap(live), &wrap(patch))
        .map(|mut merged| merged["spec"]["template"]["spec"].take())
}

fn merge(api_version: &str, kind: &str, live: &Value, patch: &Value) -> Result<Value, String> {
    let mut merged = live.clone();
    let outcome = strategic_merge(&mut merged, patch, schema::lookup(api_version, kind).unwrap());
    assert!(
        outcome.is_ok() || merged == *live,
        "a refused patch leaves the target alone"
    );
    outcome.map(|()| merged).map_err(|error| error.to_string())
}

#[test]
fn lists_merge_by_their_key() {
    let live = json!({"containers": [
        {"name": "web", "image": "nginx:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "side", "image": "s:1"},
    ]});
    let patch = json!({"containers": [
        {"name": "web", "image": "nginx:2", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
    ]});
    let want = json!({"containers": [
        {"name": "web", "image": "nginx:2",
         "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
        {"name": "side", "image": "s:1"},
    ]});
    assert_eq!(pod(&live, &patch), Ok(want));
}

#[test]
fn patch_delete_removes_an_element_and_empties_an_object() {
    let live = json!({"containers": [{"name": "web"}, {"name": "side"}], "nodeSelector": {"a": "1"}});
    let patch =
        json!({"containers": [{"name": "side", "$patch": "delete"}], "nodeSelector": {"$patch": "delete"}});
    assert_eq!(
        pod(&live, &patch),
        Ok(json!({"containers": [{"name": "web"}], "nodeSelector": {}}))
    );
}

#[test]
fn patch_replace_replaces_a_list_and_an_object() {
    let live =
        json!({"containers": [{"name": "web", "image": "a"}, {"name": "side"}], "nodeSelector": {"a": "1"}});
    let patch = json!({
        "containers": [{"$patch": "replace"}, {"name": "only", "image": "o:1"}],
        "nodeSelector": {"$patch": "replace", "b": "2"},
    });
    let want = json!({"containers": [{"name": "only", "image": "o:1"}], "nodeSelector": {"b": "2"}});
    assert_eq!(pod(&live, &patch), Ok(want));
}

#[test]
fn patch_merge_and_unknown_words_are_refused() {
    for (word, reason) in [
        ("merge", "merging is the default"),
        ("remove", "must be \"delete\" or \"replace\""),
    ] {
        let error = pod(
            &json!({"nodeSelector": {}}),
            &json!({"nodeSelector": {"$patch": word}}),
        )
        .unwrap_err();
        assert!(
            error.starts_with("spec.template.spec.nodeSelector: ") && error.contains(reason),
            "{error}"
        );
        let live = json!({"containers": [{"name": "web"}]});
        let error = pod(&live, &json!({"containers": [{"name": "web", "$patch": word}]})).unwrap_err();
        assert!(
            error.starts_with("spec.template.spec.containers[0]: ") && error.contains(reason),
            "{error}"
        );
    }
}

#[test]
fn set_element_order_orders_ours_and_keeps_the_servers_between() {
    let table = [
        // live, patch, order, result
        ("web side", "", "side web", "side web"),
        ("web side", "new", "new web", "new web side"),
        ("a b c d", "", "d b", "a c d b"),
        ("a b c", "x", "x c a", "x b c a"),
        ("b", "c a", "a c", ""),
        ("", "a b", "a b", "a b"),
    ];
    let names = |names: &str| {
        names
            .split_whitespace()
            .map(|name| json!({"name": name}))
            .collect::<Value>()
    };
    for (live, patch, order, want) in table {
        let patch = json!({"containers": names(patch), "$setElementOrder/containers": names(order)});
        match pod(&json!({"containers": names(live)}), &patch) {
            Ok(got) => assert_eq!(got, json!({"containers": names(want)}), "{live} + {order}"),
            Err(error) => {
                assert_eq!(want, "", "{error}");
                assert!(
                    error.contains("missing from $setElementOrder, or stands there in another order"),
                    "{error}"
                );
            }
        }
    }
}

/// The places of deleted elements go to those appended, which Kubernetes' in-place deletion brings about.
#[test]
fn an_appended_element_takes_the_place_of_a_deleted_one() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
    let patch = json!({
        "containers": [{"name": "d"}, {"name": "a", "$patch": "delete"}],
        "$setElementOrder/containers": [{"name": "d"}],
    });
    let want = json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "d"}]});
    assert_eq!(pod(&live, &patch), Ok(want));
}

#[test]
fn lists_of_scalars_merge_as_sets() {
    let metadata = |fields: Value| json!({"metadata": fields});
    let live = metadata(json!({"finalizers": ["x.dev/a"]}));
    let table = [
        (
            json!({"finalizers": ["x.dev/b"]}),
            json!({"finalizers": ["x.dev/b", "x.dev/a"]}),
        ),
        (
            json!({"finalizers": ["x.dev/a"]}),
            json!({"finalizers": ["x.dev/a"]}),
        ),
        (
            json!({"$deleteFromPrimitiveList/finalizers": ["x.dev/a", "x.dev/z"]}),
            json!({"finalizers": []}),
        ),
        (
            json!({"$deleteFromPrimitiveList/labels": ["x"]}),
            json!({"finalizers": ["x.dev/a"]}),
        ),
        (
            json!({"finalizers": ["x.dev/b"], "$setElementOrder/finalizers": ["x.dev/a", "x.dev/b"]}),
            json!({"finalizers": ["x.dev/a", "x.dev/b"]}),
        ),
        (json!({"finalizers": null}), json!({})),
    ];
    for (patch, want) in table {
        assert_eq!(
            merge("v1", "ConfigMap", &live, &metadata(patch.clone())),
            Ok(metadata(want)),
            "{patch}"
        );
    }
}

#[test]
fn retain_keys_drops_what_it_does_not_list() {
    let strategy = |fields: Value| json!({"spec": {"strategy": fields}});
    let live = strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}));
    let patch = strategy(json!({"$retainKeys": ["type"], "type": "Recreate"}));
    assert_eq!(
        merge("apps/v1", "Deployment", &live, &patch),
        Ok(strategy(json!({"type": "Recreate"})))
    );

    let unlisted = strategy(json!({"$retainKeys": ["rollingUpdate"], "type": "Recreate"}));
    let error = merge("apps/v1", "Deployment", &live, &unlisted).unwrap_err();
    assert_eq!(
        error,
        "spec.strategy.$retainKeys: type is set by the patch and must be listed too"
    );
}

#[test]
fn a_replaced_object_is_not_merged() {
    let selector = |labels: Value| json!({"spec": {"selector": {"matchLabels": labels}}});
    let merged = merge(
        "policy/v1",
        "PodDisruptionBudget",
        &selector(json!({"a": "1"})),
        &selector(json!({"b": "2"})),
    );
    assert_eq!(merged, Ok(selector(json!({"b": "2"}))));
}

#[test]
fn what_is_added_whole_is_settled() {
    let patch = json!({
        "containers": [{"name": "web", "command": null, "ports": [{"containerPort": 80, "$patch": "delete"}],
                        "$setElementOrder/ports": [{"containerPort": 80}]}],
        "nodeSelector": {"a": "1", "b": null},
        "affinity": {"$patch": "delete"},
    });
    let want = json!({"containers": [{"name": "web", "ports": []}], "nodeSelector": {"a": "1"}});
    assert_eq!(pod(&json!({}), &patch), Ok(want.clone()));
    assert_eq!(pod(&json!({"containers": []}), &patch), Ok(want));
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    let live = json!({"tolerations": [{"key": "a"}, {"key": "b"}]});
    let patch = json!({"tolerations": [{"key": "c", "value": null}]});
    assert_eq!(pod(&live, &patch), Ok(json!({"tolerations": [{"key": "c"}]})));
}

#[test]
fn refusals_name_the_path_and_what_is_wrong() {
    let live = json!({"containers": [{"name": "web", "env": [{"name": "A"}]}], "volumes": "none"});
    let table = [
        (
            json!({"containers": [{"image": "a"}]}),
            "spec.template.spec.containers[0]: element has no merge key \"name\"; every element of this list needs one",
        ),
        (
            json!({"containers": [{"name": "web", "env": [{"name": "B"}, "C"]}]}),
            "spec.template.spec.containers[0].env: expected elements of one type, of which the first is not one like this, found a string",
        ),
        (
            json!({"containers": ["web"]}),
            "spec.template.spec.containers: expected elements of one type",
        ),
        (
            json!({"containers": [[]]}),
            "spec.template.spec.containers: expected a list of objects or of scalars, found a list",
        ),
        (
            json!({"$setElementOrder/volumes": []}),
            "spec.template.spec.volumes: expected a list, found a string",
        ),
        (
            json!({"$setElementOrder/containers": {}}),
            "spec.template.spec[\"$setElementOrder/containers\"]: expected a list, found an object",
        ),
        (
            json!({"$setElementOrder": []}),
            "spec.template.spec.$setElementOrder: $setElementOrder must be written $setElementOrder/<list>",
        ),
        (
            json!({"$deleteFromPrimitiveList/containers": [{"name": "web"}]}),
            "spec.template.spec[\"$deleteFromPrimitiveList/containers\"]: only scalars",
        ),
        (
            json!({"$retainKeys": "a"}),
            "spec.template.spec.$retainKeys: expected a list of field names, found a string",
        ),
    ];
    for (patch, want) in table {
        let error = pod(&live, &patch).unwrap_err();
        assert!(error.starts_with(want), "{error}\n{want}");
    }
}

#[test]
fn deep_documents_are_refused() {
    let mut deep = json!(1);
    for _ in 0..crate::MAX_DEPTH {
        deep = json!({ "a": deep });
    }
    assert!(merge("v1", "ConfigMap", &json!({}), &deep).is_ok());
    let deeper = json!({ "a": deep });
    let error = merge("v1", "ConfigMap", &json!({}), &deeper).unwrap_err();
    assert!(error.ends_with("nested deeper than 128 levels"), "{error}");
    assert_eq!(merge("v1", "ConfigMap", &deeper, &json!({})).unwrap_err(), error);
}
