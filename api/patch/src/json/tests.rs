use serde_json::{Value, json};

use super::*;

/// The table of RFC 7386, appendix A.
#[test]
fn rfc_7386() {
    let table = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        ),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (
            json!({}),
            json!({"a": {"bb": {"ccc": null}}}),
            json!({"a": {"bb": {}}}),
        ),
    ];
    for (mut target, patch, want) in table {
        json_merge(&mut target, &patch);
        assert_eq!(target, want, "{patch}");
    }
}

fn patched(target: &Value, patch: &Value) -> Result<Value, String> {
    let mut patched = target.clone();
    let outcome = json_patch(&mut patched, patch).map_err(|error| error.to_string());
    assert!(
        outcome.is_ok() || patched == *target,
        "a refused patch leaves the target alone"
    );
    outcome.map(|()| patched)
}

#[test]
fn json_patch_operations() {
    let target = json!({"data": {"a": "1", "b/c": "2"}, "list": [1, 2]});
    let table = [
        (
            json!([{"op": "replace", "path": "/data/a", "value": "9"}]),
            json!({"data": {"a": "9", "b/c": "2"}, "list": [1, 2]}),
        ),
        (
            json!([{"op": "remove", "path": "/data/b~1c"}]),
            json!({"data": {"a": "1"}, "list": [1, 2]}),
        ),
        (
            json!([{"op": "add", "path": "/list/-", "value": 3}]),
            json!({"data": {"a": "1", "b/c": "2"}, "list": [1, 2, 3]}),
        ),
        (
            json!([{"op": "test", "path": "/data/gone", "value": null}]),
            target.clone(),
        ),
        (
            json!([{"op": "move", "from": "/data/a", "path": "/x"}]),
            json!({"data": {"b/c": "2"}, "list": [1, 2], "x": "1"}),
        ),
        (
            json!([{"op": "replace", "path": "/new", "value": 1}]),
            json!({"data": {"a": "1", "b/c": "2"}, "list": [1, 2], "new": 1}),
        ),
        (json!([]), target.clone()),
    ];
    for (patch, want) in table {
        assert_eq!(patched(&target, &patch), Ok(want), "{patch}");
    }
}

#[test]
fn json_patch_refusals_name_the_operation_and_its_path() {
    let target = json!({"data": {"a": "1"}});
    let table = [
        (
            json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/none"}]),
            "/data/none: operation 1 does not apply",
        ),
        (
            json!([{"op": "test", "path": "/data/a", "value": "2"}]),
            "/data/a: operation 0 does not apply",
        ),
        (
            json!([{"op": "test", "path": "/none/x", "value": null}]),
            "/none/x: operation 0 does not apply",
        ),
        (json!([{"op": "sing", "path": "/data"}]), "$: not a JSON patch"),
        (json!({"op": "remove", "path": "/data"}), "$: not a JSON patch"),
    ];
    for (patch, want) in table {
        let error = patched(&target, &patch).unwrap_err();
        assert!(error.starts_with(want), "{error}");
    }
}

#[test]
fn json_patch_is_bounded() {
    let copies: Vec<Value> = (0..40)
        .map(|at| json!({"op": "copy", "from": "", "path": format!("/{at}")}))
        .collect();
    let error = patched(&json!({"a": "b"}), &Value::from(copies)).unwrap_err();
    assert!(error.contains("copies more than 3145728 bytes"), "{error}");

    let nested: Vec<Value> = (1..200)
        .map(|depth| json!({"op": "add", "path": "/a".repeat(depth), "value": {}}))
        .collect();
    let error = patched(&json!({}), &Value::from(nested)).unwrap_err();
    assert!(error.ends_with("nested deeper than 128 levels"), "{error}");

    let boxes = (0..200).flat_map(|at| {
        let (inner, outer) = (format!("/{at}"), format!("/{}", at + 1));
        [
            json!({"op": "add", "path": outer, "value": []}),
            json!({"op": "move", "from": inner, "path": outer + "/-"}),
        ]
    });
    let error = patched(&json!({"0": []}), &boxes.collect()).unwrap_err();
    assert!(error.ends_with("nested deeper than 128 levels"), "{error}");

    let many = vec![json!({"op": "test", "path": "", "value": {}}); MAX_OPERATIONS + 1];
    let error = patched(&json!({}), &Value::from(many)).unwrap_err();
    assert!(error.contains("more than 10000 operations"), "{error}");
}
