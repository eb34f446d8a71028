//! Custom resources, as their definitions have them read and checked.

use crate::raw::Raw;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = "/apis/x.dev/v1/namespaces/default/gadgets";

/// A version of Gadgets with such a spec.
fn version(name: &str, spec: &Value) -> Value {
    json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}}})
}

fn definition(versions: &[Value]) -> Value {
    json!({"metadata": {"name": "gadgets.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
        "names": {"kind": "Gadget", "plural": "gadgets"}, "versions": versions}})
}

/// A server with Gadgets of such a spec.
async fn with_gadgets(spec: Value) -> Raw {
    let raw = Raw::new(&Server::builder().seed(1).build());
    let (code, answer) = raw.post(DEFINITIONS, definition(&[version("v1", &spec)])).await;
    assert_eq!(code, 201, "{answer}");
    raw
}

fn gadget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

/// Code and causes of an answer.
fn verdict((code, status): &(u16, Value)) -> String {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let causes = causes.map(|cause| {
        let text = |key: &str| cause[key].as_str().unwrap().to_owned();
        format!(" {} {}", text("reason"), text("field"))
    });
    format!("{code}{}", causes.collect::<String>())
}

#[tokio::test]
async fn a_wrong_type_hides_no_other_fault() {
    let raw = with_gadgets(json!({
        "size": {"type": "integer", "minimum": 1}, "mode": {"type": "string", "enum": ["a", "b"]},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }))
    .await;
    for (spec, want) in [
        (json!({"size": "big"}), "422 FieldValueTypeInvalid spec.size"),
        (json!({"tags": "no"}), "422 FieldValueTypeInvalid spec.tags"),
        (
            json!({"mode": 5}),
            "422 FieldValueTypeInvalid spec.mode FieldValueNotSupported spec.mode",
        ),
        (
            json!({"size": 0.5}),
            "422 FieldValueTypeInvalid spec.size FieldValueInvalid spec.size",
        ),
        (json!({"size": 1}), "201"),
    ] {
        let answer = raw.post(GADGETS, gadget("one", &spec)).await;
        // Where a type is wrong, Kubernetes also says that rules were not checked: there are none here.
        assert_eq!(verdict(&answer), want, "{spec}");
    }
}

#[tokio::test]
async fn null_is_kept_where_it_is_allowed() {
    let raw = with_gadgets(json!({
        "port": {"x-kubernetes-int-or-string": true},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "maybe": {"x-kubernetes-int-or-string": true, "nullable": true},
        "map": {"type": "object", "additionalProperties": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }))
    .await;
    let nothing = json!({"port": null, "any": null, "maybe": null, "map": {"a": null}, "open": {"a": null}});
    let (code, made) = raw.post(GADGETS, gadget("one", &nothing)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"],
        json!({"maybe": null, "map": {"a": null}, "open": {"a": null}})
    );
}

#[tokio::test]
async fn whole_numbers_are_stored_as_such() {
    let raw = with_gadgets(json!({
        "size": {"type": "integer"}, "ratio": {"type": "number"},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }))
    .await;
    let body = r#"{"apiVersion": "x.dev/v1", "kind": "Gadget", "metadata": {"name": "one"},
        "spec": {"size": 2.0, "ratio": 1e3, "open": {"a": [1.0, -0.0, 1.5, 1e30, 18446744073709549568.0]}}}"#;
    let (code, made) = raw
        .ask(http::Method::POST, GADGETS, "application/json", body)
        .await;
    assert_eq!(code, 201, "{made}");
    let want = r#"{"open":{"a":[1,0,1.5,1e+30,18446744073709549568]},"ratio":1000,"size":2}"#;
    assert_eq!(made["spec"].to_string(), want);
    let (_, patched) = raw
        .merge(&format!("{GADGETS}/one"), json!({"spec": {"ratio": 4.0}}))
        .await;
    assert_eq!(patched["spec"]["ratio"].to_string(), "4");
}

#[tokio::test]
async fn what_a_definition_has_no_longer_is_not_read() {
    let raw = with_gadgets(json!({"a": {"type": "integer"}, "b": {"type": "integer"}})).await;
    let (code, _) = raw.post(GADGETS, gadget("one", &json!({"a": 1, "b": 2}))).await;
    assert_eq!(code, 201);
    let b = json!({"b": {"type": "integer"}});
    let c = json!({"b": {"type": "integer"}, "c": {"type": "integer"}});
    let less = definition(&[version("v1", &c), version("v2", &b)]);
    let (code, answer) = raw.merge(&format!("{DEFINITIONS}/gadgets.x.dev"), less).await;
    assert_eq!(code, 200, "{answer}");
    let one = format!("{GADGETS}/one");
    let (_, read) = raw.get(&one).await;
    assert_eq!(read["spec"], json!({"b": 2}));
    let (_, list) = raw.get(GADGETS).await;
    assert_eq!(list["items"][0]["spec"], json!({"b": 2}));
    let strict = format!("{one}?fieldValidation=Strict");
    let (code, answer) = raw.merge(&strict, json!({"spec": {"c": 3}})).await;
    assert_eq!(code, 200, "{answer}");
    let (_, read) = raw.get(&one.replace("/v1/", "/v2/")).await;
    assert_eq!(
        (&read["apiVersion"], &read["spec"]),
        (&json!("x.dev/v2"), &json!({"b": 2}))
    );
    let (_, read) = raw.get(&one).await;
    assert_eq!(read["spec"], json!({"b": 2, "c": 3}));
}

#[tokio::test]
async fn an_embedded_resource_has_a_type() {
    let raw = with_gadgets(
        json!({"object": {"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true}}),
    )
    .await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}});
    for (object, want) in [
        (
            json!({}),
            "422 FieldValueRequired spec.object.apiVersion FieldValueRequired spec.object.kind",
        ),
        (
            json!({"apiVersion": "", "kind": "a_b"}),
            "422 FieldValueInvalid spec.object.apiVersion FieldValueInvalid spec.object.kind",
        ),
        (
            json!({"apiVersion": "a/b/c", "kind": 1}),
            "422 FieldValueInvalid spec.object.apiVersion FieldValueInvalid spec.object.kind",
        ),
        (config, "201"),
    ] {
        let answer = raw.post(GADGETS, gadget("one", &json!({"object": object}))).await;
        assert_eq!(verdict(&answer), want, "{object}");
    }
}

#[tokio::test]
async fn no_rule_breaks_the_server() {
    let raw = Raw::new(&Server::builder().seed(1).build());
    for rule in [
        format!("self{}", ".a".repeat(100_000)),
        format!("1{} > 0", "+1".repeat(100_000)),
        "Foo{a: 1} == self".to_owned(),
    ] {
        let mut version = version("v1", &json!({"a": {"type": "integer"}}));
        version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = json!([{"rule": rule}]);
        let (code, answer) = raw.post(DEFINITIONS, definition(&[version])).await;
        assert_eq!(code, 422, "{answer}");
    }
}
