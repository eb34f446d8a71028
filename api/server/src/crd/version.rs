//! One served version of a definition.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Weak},
};

use parking_lot::Mutex;
use roundhouse_patch::JsonPath;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    kinds::{GenerationRule, Quirks, Resource, ScalePaths, Text},
    object,
    schema::{Rules, Schema},
};

/// A printer column of a definition.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: JsonPath,
}

/// What a definition says about one version of its kind.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub(crate) schema: Schema,
    pub(crate) rules: Option<Rules>,
    pub(crate) columns: Vec<Column>,
    pub(crate) selectable: Vec<String>,
    /// What users of the version are warned with, if it is deprecated; empty where the definition leaves the words to the
    /// server.
    pub(crate) deprecated: Option<String>,
}

/// Compiled versions by the hash of what they were compiled from, so that a thousand servers with the same
/// definitions share one.
static SHARED: LazyLock<Mutex<HashMap<[u8; 32], Weak<CustomVersion>>>> = LazyLock::new(Mutex::default);

fn compile(version: &Value) -> Arc<CustomVersion> {
    let hash: [u8; 32] = Sha256::digest(object::encode(version)).into();
    if let Some(known) = SHARED.lock().get(&hash).and_then(Weak::upgrade) {
        return known;
    }
    let schema = object::at(version, &["schema", "openAPIV3Schema"]);
    let preserve = Schema {
        preserve: true,
        ..Schema::any()
    };
    let list = |key: &str| version.get(key).and_then(Value::as_array).into_iter().flatten();
    let field = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let column = |c: &Value| {
        Some(Column {
            name: field(c, "name"),
            ty: field(c, "type"),
            format: field(c, "format"),
            description: field(c, "description"),
            priority: c.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::parse(&field(c, "jsonPath")).ok()?,
        })
    };
    let compiled = schema.map_or(preserve, Schema::compile);
    let made = Arc::new(CustomVersion {
        schema: compiled,
        rules: schema.and_then(Rules::of),
        columns: list("additionalPrinterColumns").filter_map(column).collect(),
        selectable: list("selectableFields")
            .map(|f| field(f, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
        deprecated: (version.get("deprecated") == Some(&Value::Bool(true)))
            .then(|| field(version, "deprecationWarning")),
    });
    let mut shared = SHARED.lock();
    shared.retain(|_, v| v.strong_count() > 0);
    shared.insert(hash, Arc::downgrade(&made));
    made
}

/// The kinds a (checked) definition serves, one per served version.
pub(crate) fn resources(definition: &Value) -> Vec<Arc<Resource>> {
    versions_that_are("served", definition)
}

/// The kind a (checked) definition stores its objects as, whether it serves that or not.
pub(crate) fn stored_as(definition: &Value) -> Option<Arc<Resource>> {
    versions_that_are("storage", definition).pop()
}

fn versions_that_are(what: &str, definition: &Value) -> Vec<Arc<Resource>> {
    let text = |path: &[&str]| object::text(definition, path).unwrap_or_default().to_owned();
    let words = |path: &[&str]| -> Vec<Text> {
        let list = object::at(definition, path).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(|s| s.to_owned().into())
            .collect()
    };
    let group = text(&["spec", "group"]);
    let plural = text(&["spec", "names", "plural"]);
    let kind = text(&["spec", "names", "kind"]);
    let or = |given: String, otherwise: String| if given.is_empty() { otherwise } else { given };
    let versions: Vec<&Value> = object::at(definition, &["spec", "versions"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let flag = |v: &Value, key: &str| v.get(key).and_then(Value::as_bool).unwrap_or(false);
    let name = |v: &Value| {
        v.get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut schemas = versions.iter().map(|version| version.get("schema"));
    let first = schemas.next();
    let shaped_since = match schemas.all(|schema| Some(schema) == first) {
        true => object::meta(definition, "resourceVersion").parse().unwrap_or(0),
        false => u64::MAX,
    };
    let table: Arc<str> = format!("{plural}.{group}").into();
    let resource = |version: &&Value| {
        let sub = |key: &str| object::at(version, &["subresources", key]);
        Arc::new(Resource {
            group: group.clone().into(),
            version: name(version).into(),
            kind: kind.clone().into(),
            list_kind: or(text(&["spec", "names", "listKind"]), format!("{kind}List")).into(),
            plural: plural.clone().into(),
            singular: or(text(&["spec", "names", "singular"]), kind.to_lowercase()).into(),
            namespaced: text(&["spec", "scope"]) == "Namespaced",
            short_names: words(&["spec", "names", "shortNames"]),
            categories: words(&["spec", "names", "categories"]),
            status: sub("status").is_some(),
            scale: sub("scale").map(scale_paths),
            generation: GenerationRule::AllButMeta,
            quirks: Quirks {
                version_required: true,
                ..Quirks::default()
            },
            table: table.clone(),
            conversion: None,
            shaped_since,
            terminating: object::is_deleting(definition),
            custom: Some(compile(version)),
        })
    };
    versions.iter().filter(|v| flag(v, what)).map(resource).collect()
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let path = |key: &str| -> Option<Vec<String>> {
        let text = scale.get(key).and_then(Value::as_str)?;
        Some(
            text.trim_start_matches('.')
                .split('.')
                .map(str::to_owned)
                .collect(),
        )
    };
    ScalePaths {
        spec: path("specReplicasPath").unwrap_or_default(),
        status: path("statusReplicasPath").unwrap_or_default(),
        selector: Some(path("labelSelectorPath").unwrap_or_default()),
    }
}
