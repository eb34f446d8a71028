//! Managed fields as they are written, and questions about them.

use serde_json::{Value, json};

use super::*;

#[test]
fn what_resets() {
    for yes in [json!([]), json!([{}]), json!([{"manager": ""}])] {
        assert!(is_reset(&yes), "{yes}");
    }
    for no in [Value::Null, json!([{}, {}]), json!([{"manager": "x"}])] {
        assert!(!is_reset(&no), "{no}");
    }
}

#[test]
fn entries_are_read_and_written() {
    let entries = json!([
        {"manager": "b", "operation": "Apply", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {"f:a": {}}}},
        {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {".": {}, "f:b": {}}}, "subresource": "status"},
    ]);
    assert_eq!(write_entries(read_entries(&entries).unwrap()), entries);
    assert_eq!(read_entries(&Value::Null).unwrap(), vec![]);
}

#[test]
fn garbage_is_refused() {
    let entry = |fields: Value| json!([{"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"f:a": deep});
    }
    let table = [
        (json!({}), "managedFields[0]: managedFields must be a list"),
        (
            json!([{}]),
            "managedFields[0]: operation must be `Apply` or `Update`",
        ),
        (
            json!([{"operation": "Apply"}]),
            "managedFields[0]: apiVersion must not be empty",
        ),
        (
            json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
            "managedFields[0]: fieldsType must be `FieldsV1`",
        ),
        (entry(json!([])), "fieldsV1: \"fieldsV1\" must hold an object"),
        (entry(json!({"f:a": 1})), "fieldsV1: \"f:a\" must hold an object"),
        (
            entry(json!({"a": {}})),
            "fieldsV1: \"a\" names no field: it has no colon",
        ),
        (
            entry(json!({"x:a": {}})),
            "fieldsV1: \"x:a\" names no field: it starts with none of f:, k:, v:, i:",
        ),
        (
            entry(json!({"k:{}": {}})),
            "fieldsV1: \"k:{}\" names no field: after k: stands an object with at least one field",
        ),
        (
            entry(json!({"v:{": {}})),
            "fieldsV1: \"v:{\" names no field: after v: stands a JSON value",
        ),
        (
            entry(json!({"i:-1": {}})),
            "fieldsV1: \"i:-1\" names no field: after i: stands the index of an element",
        ),
        (entry(deep), "fieldsV1: nested deeper than 128 levels"),
    ];
    for (garbage, message) in table {
        assert_eq!(
            read_entries(&garbage).unwrap_err().to_string(),
            message,
            "{garbage}"
        );
    }
}

#[test]
fn who_owns_what() {
    let mut object = Object::new("v1", "Pod");
    let mut live =
        pod(json!([{"name": "a", "image": "a:1", "args": ["x"], "ports": [{"containerPort": 80}]}]));
    live["metadata"]["finalizers"] = json!(["x/a"]);
    object.apply("one", live.clone());
    live["spec"]["containers"][0]["image"] = json!("a:2");
    live["metadata"]["labels"] = json!({"l": "1"});
    object.update("two", live);
    let mut live = object.live.clone().unwrap();
    live["metadata"]["managedFields"] = write_entries(object.entries.clone());
    let names = |pointer: &str| {
        let owners = owners_at(&live, pointer);
        owners
            .iter()
            .map(|o| o.manager.clone())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let table = [
        ("/spec/containers/0/image", "two"),
        ("/spec/containers/0/args", "one"),
        ("/spec/containers/0/args/0", "one"),
        ("/spec/containers/0/ports/0/containerPort", "one"),
        ("/spec/containers/0", "one two"),
        ("/spec", "one two"),
        ("/metadata/finalizers/0", "one"),
        ("/metadata/labels/l", "two"),
        ("/metadata/name", ""),
        ("/spec/containers/1", ""),
        ("/nowhere", ""),
        // The object itself.
        ("", "one two"),
    ];
    for (pointer, want) in table {
        assert_eq!(names(pointer), want, "{pointer}");
    }
    let container = Step::key(json!({"name": "a"}).as_object().unwrap().clone());
    let path = [
        Step::field("spec"),
        Step::field("containers"),
        container,
        Step::field("image"),
    ];
    let found = owners(&live["metadata"]["managedFields"], &path);
    assert_eq!(found[0].manager, "two");
    assert_eq!(
        (found[0].operation, found[0].time.as_str()),
        (Operation::Update, NOW)
    );
}
