//! The generated CRDs satisfy what a Kubernetes API server asks of a CRD.

#![expect(clippy::unwrap_used, reason = "a test")]

mod columns;
mod structural;
mod values;

use roundhouse_api::{crds, hash};
use serde_json::{Value, json};

fn definitions() -> Vec<Value> {
    crds::all()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect()
}

/// Name, version and root schema of every definition.
fn versions() -> Vec<(String, Value, Value)> {
    let mut all = Vec::new();
    for crd in definitions() {
        let name = crd["metadata"]["name"].as_str().unwrap().to_owned();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let schema = version["schema"]["openAPIV3Schema"].clone();
            all.push((name.clone(), version.clone(), schema));
        }
    }
    all
}

#[test]
fn every_schema_is_structural() {
    let violations: Vec<String> = versions()
        .iter()
        .flat_map(|(name, _, schema)| {
            structural::check(schema)
                .into_iter()
                .map(move |v| format!("{name} {v}"))
        })
        .collect();
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn every_definition_is_complete() {
    for crd in definitions() {
        let (name, spec) = (&crd["metadata"]["name"], &crd["spec"]);
        let expected = format!(
            "{}.{}",
            spec["names"]["plural"].as_str().unwrap(),
            spec["group"].as_str().unwrap()
        );
        assert_eq!(name, &json!(expected));
        assert!(
            ["Namespaced", "Cluster"]
                .iter()
                .any(|scope| &spec["scope"] == scope),
            "{name}"
        );
        assert_eq!(
            crd["metadata"]["labels"]["app.kubernetes.io/managed-by"], "roundhouse",
            "{name}"
        );
        let versions = spec["versions"].as_array().unwrap();
        let stored = versions
            .iter()
            .filter(|v| v["storage"] == true && v["served"] == true)
            .count();
        assert_eq!(stored, 1, "{name}");
    }
}

#[test]
fn the_status_is_a_subresource_where_there_is_one() {
    let mut with_status = Vec::new();
    for (name, version, schema) in versions() {
        let has_status = schema["properties"].get("status").is_some();
        assert_eq!(
            version["subresources"].get("status").is_some(),
            has_status,
            "{name}"
        );
        if has_status {
            with_status.push(name);
        }
    }
    assert_eq!(
        with_status,
        [
            "applications.core.oam.dev",
            "clusters.roundhouse.dev",
            "placements.roundhouse.dev",
            "bundles.roundhouse.dev"
        ]
    );
}

#[test]
fn printer_columns_lead_to_fields() {
    let mut violations = Vec::new();
    for (name, version, schema) in versions() {
        let columns = version["additionalPrinterColumns"].as_array().unwrap();
        assert!(
            columns.iter().any(|c| c["name"] == "Age"),
            "{name}: own columns replace the default, Age included"
        );
        let found = columns.iter().flat_map(|column| columns::check(column, &schema));
        violations.extend(found.map(|v| format!("{name} {v}")));
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn epochs_that_fence_never_decrease() {
    let mut fenced = Vec::new();
    for (name, _, schema) in versions() {
        epochs(&schema, &name, &mut fenced);
    }
    fenced.sort();
    assert_eq!(
        fenced,
        [
            "applications.core.oam.dev.status.workflow.epoch",
            "bundles.roundhouse.dev.spec.epoch",
            "decisions.roundhouse.dev.spec.epoch",
        ]
    );
}

/// The paths of the fields named `epoch` that carry the transition rule.
fn epochs(schema: &Value, path: &str, fenced: &mut Vec<String>) {
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let path = format!("{path}.{name}");
        let rules = field.get("x-kubernetes-validations").and_then(Value::as_array);
        if name == "epoch"
            && rules.is_some_and(|rules| rules.iter().any(|rule| rule["rule"] == "self >= oldSelf"))
        {
            fenced.push(path.clone());
        }
        epochs(field, &path, fenced);
    }
}

/// An epoch that may be left out must not be a way around the rule: leaving it out once would unlock any lower one.
#[test]
fn a_bundle_cannot_lose_its_epoch() {
    let (_, _, schema) = versions()
        .into_iter()
        .find(|(name, ..)| name.starts_with("bundles."))
        .unwrap();
    let rules = schema["properties"]["spec"]["x-kubernetes-validations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(
        rules
            .iter()
            .any(|r| r["rule"] == "!has(oldSelf.epoch) || has(self.epoch)"),
        "{rules:?}"
    );
}

#[test]
fn what_the_server_admits_our_types_can_read() {
    let (_, _, decision) = versions()
        .into_iter()
        .find(|(name, ..)| name.starts_with("decisions."))
        .unwrap();
    let spec = &decision["properties"]["spec"]["properties"];
    let bounds = |field: &Value| {
        (
            field["format"].clone(),
            field["minimum"].as_f64(),
            field["maximum"].as_f64(),
        )
    };
    let u32_max = Some(f64::from(u32::MAX));
    assert_eq!(
        bounds(&spec["clusterCount"]),
        (json!("int64"), Some(0.0), u32_max)
    );
    assert_eq!(bounds(&spec["placed"]), (json!("int64"), Some(0.0), None));
}

/// The checker finds what it is there to find.
#[test]
fn bad_schemas_are_found() {
    let root = |fields: Value| json!({"type": "object", "properties": fields});
    let list = |extra: Value| {
        let mut list = json!({"type": "array", "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}});
        list.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"a": list}})
    };
    for (schema, part) in [
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "the root must be an object",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "at the root",
        ),
        (root(json!({"a": {}})), ".a: type is missing"),
        (
            root(json!({"a": {"type": ["string", "null"]}})),
            ".a: type must be one word",
        ),
        (root(json!({"a": {"type": "text"}})), "type text does not exist"),
        (root(json!({"a": {"type": "array"}})), "an array needs items"),
        (
            root(json!({"a": {"type": "array", "items": {}}})),
            ".a[]: type is missing",
        ),
        (
            root(json!({"a": {"$ref": "#/definitions/x"}})),
            "keyword $ref is not allowed",
        ),
        (
            root(
                json!({"a": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}}),
            ),
            "exclude each other",
        ),
        (
            root(json!({"a": {"type": "object", "additionalProperties": false}})),
            "must be a schema",
        ),
        (
            root(json!({"a": {"type": "object", "additionalProperties": {}}})),
            ".a{}: type is missing",
        ),
        (
            root(json!({"a": {"type": "integer", "format": "uint32"}})),
            "format \"uint32\" is ignored",
        ),
        (
            root(json!({"a": {"type": "string", "format": "int32"}})),
            "format \"int32\" is ignored",
        ),
        (
            root(json!({"a": {"type": "string", "x-kubernetes-int-or-string": true}})),
            "neither type nor unknown fields",
        ),
        (
            root(json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true}})),
            "an embedded resource",
        ),
        (
            root(json!({"a": {"type": "string", "default": 1}})),
            "default 1 does not fit",
        ),
        (
            root(json!({"a": {"type": "string", "default": null}})),
            "null, but not nullable",
        ),
        (
            root(
                json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": "x"}}}),
            ),
            "field c would be pruned",
        ),
        (
            root(json!({"a": {"type": "string", "enum": ["x", 1]}})),
            "enum value 1 does not fit",
        ),
        (
            root(json!({"a": {"type": "string", "oneOf": [{"type": "string"}]}})),
            "type is not allowed inside a junctor",
        ),
        (
            root(json!({"a": {"type": "object", "anyOf": [{"properties": {"b": {}}}]}})),
            "not described outside",
        ),
        (
            root(json!({"a": {"type": "object", "properties": {}, "not": {"description": "x"}}})),
            "description is not allowed inside",
        ),
        (
            root(json!({"a": {"type": "object", "properties": {}, "required": ["b"]}})),
            "required field b is not in properties",
        ),
        (
            root(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
            "may only restrict",
        ),
        (root(json!({"kind": {"type": "integer"}})), "must be a string"),
        (
            list(json!({"x-kubernetes-list-type": "bag"})),
            "list-type \"bag\" does not exist",
        ),
        (
            list(json!({"x-kubernetes-list-type": "map"})),
            "list-map-keys belong to list-type map",
        ),
        (
            list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["v"]})),
            "list-map-key v must be",
        ),
        (
            root(json!({"a": {"type": "string", "x-kubernetes-map-type": "atomic"}})),
            "map-type is atomic or granular",
        ),
        (
            root(json!({"a": {"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}})),
            "a rule and a message",
        ),
        (
            root(json!({"a": {"type": "array", "items": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "m"}]}}})),
            "never finds the old value",
        ),
    ] {
        let found = structural::check(&schema);
        assert!(found.iter().any(|v| v.contains(part)), "{schema}: {found:?}");
    }
    let good = list(json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}));
    assert_eq!(structural::check(&good), [""; 0]);
}

#[test]
fn bad_columns_are_found() {
    let schema = json!({"type": "object", "properties": {"status": {"type": "object", "properties": {
        "n": {"type": "integer"},
        "conditions": {"type": "array", "items": {"type": "object", "properties": {
            "type": {"type": "string"}, "status": {"type": "string"}}}}}}}});
    let column = |path: &str, type_: &str| {
        columns::check(&json!({"name": "X", "jsonPath": path, "type": type_}), &schema)
    };
    assert_eq!(column(".status.n", "integer"), [""; 0]);
    assert_eq!(
        column(".status.conditions[?(@.type==\"Ready\")].status", "string"),
        [""; 0]
    );
    for (path, type_, part) in [
        ("status.n", "integer", "start with a dot"),
        (".status.m", "integer", "no field m"),
        (".status.n", "boolean", "is integer, not boolean"),
        (".status.n", "int", "does not exist"),
        (".status.conditions", "string", "is array, not string"),
        (
            ".status.conditions[?(@.kind==\"Ready\")].status",
            "string",
            "finds nothing",
        ),
        (
            ".status.conditions[?(@.type==Ready)].status",
            "string",
            "finds nothing",
        ),
        (".metadata.age", "date", "no such field of metadata"),
    ] {
        let found = column(path, type_);
        assert!(found.iter().any(|v| v.contains(part)), "{path}: {found:?}");
    }
}

/// Takes the texts away, which decide nothing. A property of that name is no text.
fn untold(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| key != "description" || !value.is_string());
            map.values_mut().for_each(untold);
        }
        Value::Array(items) => items.iter_mut().for_each(untold),
        _ => {}
    }
}

/// Two versions whose schemas differ under one number would take turns in dropping each other's fields.
#[test]
fn whoever_changes_a_schema_raises_the_version_of_all() {
    let mut specs: Vec<Value> = definitions().iter().map(|crd| crd["spec"].clone()).collect();
    specs.iter_mut().for_each(untold);
    assert_eq!(
        (crds::SCHEMA_VERSION, hash::of_value(&json!(specs)).as_str()),
        (
            5,
            "dadccb3b11ab20658bdc5695e97df0c19d21503c58cc083319652116489186db"
        ),
        "a schema has changed: raise crds::SCHEMA_VERSION, and write down its hash here"
    );
}
