//! OpenAPI v3 documents, built when asked for: what kubectl needs to apply, diff, edit and explain.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    kinds::Resource,
    object,
    schema::{builtin_json, builtin_name},
    server::Core,
};

pub(super) const REF: &str = "#/components/schemas/";

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// `/openapi/v3`: where each group version's document is. The hash in the address changes with what is served.
pub(super) fn index(core: &Core) -> Value {
    let mut paths = Map::new();
    for (group, versions) in super::groups::by_group(core) {
        for (version, resources) in versions {
            let path = path_of(&group, &version);
            let mut hash = Sha256::new();
            for r in &resources {
                hash.update(r.plural.as_bytes());
                if r.custom.is_some()
                    && let Some(schema) = custom_schema(core, r)
                {
                    hash.update(object::encode(&schema));
                }
            }
            let hash: String = hash
                .finalize()
                .iter()
                .take(16)
                .map(|b| format!("{b:02X}"))
                .collect();
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Every schema by its name, those of custom kinds included.
pub(super) fn definitions(core: &Core) -> Map<String, Value> {
    let mut all = builtin_json();
    for resource in core.registry.all() {
        let name = schema_name(&resource);
        if resource.custom.is_some() {
            let mut schema = custom_schema(core, &resource).unwrap_or_else(|| json!({"type": "object"}));
            add_type_fields(&mut schema);
            all.insert(name.clone(), schema);
        }
        if let Some(schema) = all.get_mut(&name) {
            tag(schema, &resource);
        }
    }
    all
}

/// The document of one group version.
pub(super) fn document(core: &Core, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<_> = core
        .registry
        .all()
        .into_iter()
        .filter(|r| r.group == group && r.version == version)
        .collect();
    if resources.is_empty() {
        return None;
    }
    let all = builtin_json();
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in &resources {
        let name = schema_name(resource);
        if resource.custom.is_some() {
            let mut schema = custom_schema(core, resource).unwrap_or_else(|| json!({"type": "object"}));
            add_type_fields(&mut schema);
            tag(&mut schema, resource);
            include(&mut schemas, &all, &schema);
            schemas.insert(name.clone(), schema);
        } else if let Some(schema) = all.get(&name) {
            let mut schema = fix_references(schema.clone());
            include(&mut schemas, &all, &schema);
            tag(&mut schema, resource);
            schemas.insert(name.clone(), schema);
        }
        add_paths(&mut paths, resource, &name);
    }
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": super::VERSION},
        "paths": paths, "components": {"schemas": schemas},
    }))
}

fn schema_name(resource: &Resource) -> String {
    if resource.custom.is_none() {
        return builtin_name(&resource.api_version(), &resource.kind)
            .unwrap_or_default()
            .into_owned();
    }
    let mut group: Vec<&str> = resource.group.split('.').collect();
    group.reverse();
    format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
}

/// The schema as the stored definition has it.
fn custom_schema(core: &Core, resource: &Resource) -> Option<Value> {
    let name = resource.qualified();
    let definition = core.read("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", &name)?;
    let versions = object::at(&definition, &["spec", "versions"])?.as_array()?;
    let version = versions
        .iter()
        .find(|v| v.get("name").and_then(Value::as_str) == Some(&resource.version))?;
    object::at(version, &["schema", "openAPIV3Schema"]).cloned()
}

fn add_type_fields(schema: &mut Value) {
    let Some(properties) = schema
        .as_object_mut()
        .and_then(|m| object::child(m, "properties"))
    else {
        return;
    };
    for (key, what) in [
        (
            "apiVersion",
            "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
        ),
        (
            "kind",
            "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
        ),
    ] {
        properties.insert(key.into(), json!({"type": "string", "description": what}));
    }
    let meta = format!("{REF}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    properties.insert(
        "metadata".into(),
        json!({"allOf": [{"$ref": meta}], "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"}),
    );
}

fn tag(schema: &mut Value, resource: &Resource) {
    let kind = json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    object::set(schema, "x-kubernetes-group-version-kind", Some(kind));
    // Of no kind the metadata is required: the server names what is generated, and says itself what lacks a name.
    let required = schema.get("required").and_then(Value::as_array);
    if let Some(required) = required {
        let rest: Vec<Value> = required
            .iter()
            .filter(|name| *name != "metadata")
            .cloned()
            .collect();
        object::set(schema, "required", (!rest.is_empty()).then(|| rest.into()));
    }
}

/// OpenAPI 3.0 ignores what stands beside a `$ref`, so a described reference becomes an `allOf`.
fn fix_references(schema: Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut map: Map<String, Value> = map.into_iter().map(|(k, v)| (k, fix_references(v))).collect();
            // JSONSchemaProps has a property of that name, which is no reference.
            if map.len() > 1
                && map.get("$ref").is_some_and(Value::is_string)
                && let Some(reference) = map.remove("$ref")
            {
                map.insert("allOf".into(), json!([{"$ref": reference}]));
            }
            Value::Object(map)
        }
        Value::Array(list) => list.into_iter().map(fix_references).collect(),
        other => other,
    }
}

/// Adds every schema `root` refers to, directly or not.
fn include(schemas: &mut Map<String, Value>, all: &Map<String, Value>, root: &Value) {
    let mut wanted = BTreeSet::new();
    references(root, &mut wanted);
    while let Some(name) = wanted.pop_first() {
        if schemas.contains_key(&name) {
            continue;
        }
        if let Some(schema) = all.get(&name) {
            let schema = fix_references(schema.clone());
            references(&schema, &mut wanted);
            schemas.insert(name, schema);
        }
    }
}

fn references(schema: &Value, out: &mut BTreeSet<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(name) = map
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|r| r.strip_prefix(REF))
            {
                out.insert(name.to_owned());
            }
            map.values().for_each(|v| references(v, out));
        }
        Value::Array(list) => list.iter().for_each(|v| references(v, out)),
        _ => {}
    }
}

fn add_paths(paths: &mut Map<String, Value>, r: &Resource, schema: &str) {
    let root = format!("/{}", path_of(&r.group, &r.version));
    let scope = if r.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let kind = json!({"group": r.group, "version": r.version, "kind": r.kind});
    let reply = json!({"200": {"description": "OK", "content": {"application/json": {"schema": {"$ref": format!("{REF}{schema}")}}}}});
    let query =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let write_parameters = [query("dryRun"), query("fieldManager"), query("fieldValidation")];
    let operation = |action: &str, write: bool| {
        let mut op = json!({"responses": reply, "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind});
        if write {
            object::set(&mut op, "parameters", Some(write_parameters.to_vec().into()));
        }
        op
    };
    let mut patch = operation("patch", true);
    let any = json!({"schema": {"type": "object"}});
    // Strategic merge is not listed: kubectl would then want the merge keys here rather than use its own.
    let content = json!({
        "application/json-patch+json": any, "application/merge-patch+json": any, "application/apply-patch+yaml": any,
    });
    object::set(&mut patch, "requestBody", Some(json!({"content": content})));
    let one = json!({
        "get": operation("get", false), "put": operation("put", true), "patch": patch, "delete": operation("delete", true),
    });
    let many = json!({"get": operation("list", false), "post": operation("post", true)});
    paths.insert(format!("{root}{scope}/{}", r.plural), many);
    paths.insert(format!("{root}{scope}/{}/{{name}}", r.plural), one);
}
