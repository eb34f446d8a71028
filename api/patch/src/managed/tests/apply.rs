//! Server-side apply.

use serde_json::{Value, json};

use super::*;

#[test]
fn what_a_manager_leaves_out_goes() {
    of_config_map()
        .apply("one", config_map(json!({"a": "1", "b": "2"})))
        .owned(json!({"one": {"f:data": {"f:a": {}, "f:b": {}}}}))
        .apply("one", config_map(json!({"a": "1"})))
        .is(config_map(json!({"a": "1"})))
        .owned(json!({"one": {"f:data": {"f:a": {}}}}));
}

#[test]
fn what_another_owns_stays() {
    of_config_map()
        .apply("one", config_map(json!({"a": "1", "b": "2"})))
        .apply("two", config_map(json!({"b": "2", "c": "3"})))
        .apply("one", config_map(json!({"a": "1"})))
        .is(config_map(json!({"a": "1", "b": "2", "c": "3"})))
        .owned(json!({"one": {"f:data": {"f:a": {}}}, "two": {"f:data": {"f:b": {}, "f:c": {}}}}));
}

#[test]
fn another_value_is_a_conflict_unless_forced() {
    of_config_map()
        .apply("one", config_map(json!({"a": "1", "b": "1"})))
        .refused(
            "two",
            config_map(json!({"a": "2"})),
            "Apply failed with 1 conflict: conflict with \"one\": .data.a",
        )
        .refused(
            "two",
            config_map(json!({"a": "2", "b": "2"})),
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b",
        )
        .force("two", config_map(json!({"a": "2"})))
        .is(config_map(json!({"a": "2", "b": "1"})))
        .owned(json!({"one": {"f:data": {"f:b": {}}}, "two": {"f:data": {"f:a": {}}}}));
}

#[test]
fn a_conflict_names_updaters_with_their_version() {
    let mut object = Object::new("apps/v1", "Deployment");
    object
        .update("kubectl-client-side-apply", deployment(json!({"replicas": 1})))
        .refused(
            "x",
            deployment(json!({"replicas": 2})),
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas",
        );
}

#[test]
fn what_was_there_before_the_first_apply_is_owned() {
    let mut object = of_config_map();
    object.live = Some(config_map(json!({"a": "1"})));
    object
        .apply("one", config_map(json!({"b": "2"})))
        .owned(json!({
            "before-first-apply/Update": {"f:data": {".": {}, "f:a": {}}},
            "one": {"f:data": {"f:b": {}}},
        }))
        .refused(
            "one",
            config_map(json!({"a": "3"})),
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a",
        );
}

#[test]
fn elements_of_lists_have_owners() {
    let mut object = Object::new("v1", "Pod");
    object
        .apply(
            "app",
            pod(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])),
        )
        .owned(json!({"app": {"f:spec": {"f:containers": {
            r#"k:{"name":"a"}"#: {".": {}, "f:image": {}, "f:name": {}},
            r#"k:{"name":"b"}"#: {".": {}, "f:image": {}, "f:name": {}},
        }}}}))
        .apply("mesh", pod(json!([{"name": "proxy", "image": "p:1"}])))
        .is(pod(json!([
            {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}, {"name": "proxy", "image": "p:1"},
        ])))
        .apply("app", pod(json!([{"name": "b", "image": "b:2"}])))
        .is(pod(
            json!([{"name": "b", "image": "b:2"}, {"name": "proxy", "image": "p:1"}]),
        ));
}

#[test]
fn order_is_the_applied_one_around_what_others_added() {
    let mut object = Object::new("v1", "Pod");
    object
        .update(
            "u",
            pod(json!([{"name": "x"}, {"name": "a"}, {"name": "y"}, {"name": "b"}, {"name": "z"}])),
        )
        .apply("app", pod(json!([{"name": "b"}, {"name": "a"}, {"name": "new"}])))
        .is(pod(json!([
            {"name": "x"}, {"name": "y"}, {"name": "b"}, {"name": "z"}, {"name": "a"}, {"name": "new"},
        ])));
}

#[test]
fn a_key_left_out_is_its_default() {
    let port = |extra: Value| {
        let mut port = json!({"containerPort": 80});
        port.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        pod(json!([{"name": "a", "ports": [port]}]))
    };
    Object::new("v1", "Pod")
        .update("u", port(json!({"protocol": "TCP"})))
        .apply("app", port(json!({"name": "http"})))
        .is(port(json!({"protocol": "TCP", "name": "http"})))
        .apply("app", pod(json!([{"name": "a"}])))
        .is(port(json!({"protocol": "TCP"})));
}

#[test]
fn ports_differ_by_protocol() {
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    Object::new("v1", "Service")
        .apply(
            "a",
            service(json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}])),
        )
        .apply("a", service(json!([{"port": 53, "protocol": "UDP"}])))
        .is(service(json!([{"port": 53, "protocol": "UDP"}])));
}

#[test]
fn sets_merge_by_value() {
    let with = |list: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": list}});
    of_config_map()
        .apply("one", with(json!(["x/a", "x/b"])))
        .apply("two", with(json!(["x/b", "x/c"])))
        .owned(json!({
            "one": {"f:metadata": {"f:finalizers": {"v:\"x/a\"": {}, "v:\"x/b\"": {}}}},
            "two": {"f:metadata": {"f:finalizers": {"v:\"x/b\"": {}, "v:\"x/c\"": {}}}},
        }))
        .apply("one", with(json!(["x/a"])))
        .is(with(json!(["x/a", "x/b", "x/c"])))
        .apply("two", with(json!([])))
        .is(with(json!(["x/a"])));
}

#[test]
fn atomic_lists_and_objects_are_replaced_whole() {
    let job = |args: Value, selector: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
               "spec": {"containers": [{"name": "a", "args": args}], "nodeSelector": selector}})
    };
    Object::new("v1", "Pod")
        .apply("one", job(json!(["x", "y"]), json!({"a": "1"})))
        .owned(json!({"one": {"f:spec": {
            "f:containers": {r#"k:{"name":"a"}"#: {".": {}, "f:args": {}, "f:name": {}}},
            "f:nodeSelector": {},
        }}}))
        .refused(
            "two",
            job(json!(["z"]), json!({"b": "2"})),
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.nodeSelector\n- .spec.containers[name=\"a\"].args",
        )
        .apply("one", job(json!(["z"]), json!({"b": "2"})))
        .is(job(json!(["z"]), json!({"b": "2"})));
}

#[test]
fn elements_twice_or_without_key_are_refused() {
    Object::new("v1", "Pod")
        .refused(
            "one",
            pod(json!([{"name": "a"}, {"name": "a"}])),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        )
        .refused(
            "one",
            pod(json!([{"image": "a"}])),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        );
}

#[test]
fn an_element_there_twice_is_replaced() {
    Object::new("v1", "Pod")
        .update(
            "u",
            pod(json!([{"name": "a", "env": [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}]}])),
        )
        .force(
            "one",
            pod(json!([{"name": "a", "env": [{"name": "E", "value": "3"}]}])),
        )
        .is(pod(json!([{"name": "a", "env": [{"name": "E", "value": "3"}]}])));
}

#[test]
fn a_struct_goes_with_the_last_of_its_fields() {
    let strategy = json!({"type": "Recreate"});
    Object::new("apps/v1", "Deployment")
        .apply("one", deployment(json!({"replicas": 1, "strategy": strategy})))
        .apply("one", deployment(json!({"replicas": 1})))
        .is(deployment(json!({"replicas": 1})));
}

#[test]
fn a_null_is_set_and_owned() {
    Object::new("apps/v1", "Deployment")
        .apply("one", deployment(json!({"replicas": 1, "paused": null})))
        .owned(json!({"one": {"f:spec": {"f:paused": {}, "f:replicas": {}}}}))
        .apply("one", deployment(json!({"replicas": 1, "template": null})))
        .owned(json!({"one": {"f:spec": {"f:replicas": {}, "f:template": {}}}}));
}

#[test]
fn kubectl_takes_over_from_its_client_side() {
    let annotated = |replicas: i64, last: i64| {
        let last = deployment(json!({"replicas": last})).to_string();
        let mut object = deployment(json!({"replicas": replicas}));
        object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
        object
    };
    let mut object = Object::new("apps/v1", "Deployment");
    object.update("kubectl-client-side-apply", annotated(1, 1));
    let mut other = object.clone();
    other.refused(
        "argo",
        deployment(json!({"replicas": 2})),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas",
    );
    object.apply("kubectl", deployment(json!({"replicas": 2})));
    let last = object.live.as_ref().unwrap()["metadata"]["annotations"]
        ["kubectl.kubernetes.io/last-applied-configuration"]
        .as_str()
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(last).unwrap(),
        deployment(json!({"replicas": 2}))
    );
}
