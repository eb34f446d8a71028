//! A schema compiled for walking.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::{Map, Value};

/// JSON type a schema asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    /// The name JSON schema gives it; empty for any.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How a list is merged, and what must be unique in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// The item of a list that is a map by these keys that was the same one before. Items of other lists, without keys, are nobody's
/// successors, as in Kubernetes.
pub(super) fn same_item<'a>(item: &Value, old: &'a [Value], keys: &[String]) -> Option<&'a Value> {
    let is_same = |old: &&Value| keys.iter().all(|key| old.get(key) == item.get(key));
    old.iter().find(is_same).filter(|_| !keys.is_empty())
}

/// Value constraints, apart from the type; most schemas have none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checks {
    pub(crate) enumeration: Vec<Value>,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) pattern: Option<regex::Regex>,
    pub(crate) format: Option<String>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Schema>,
}

/// A compiled schema node.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) ty: Type,
    /// Name of the definition that says the rest; built-in kinds only.
    pub(crate) reference: Option<Box<str>>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    /// Whether it holds a Kubernetes quantity, which is kept in canonical form; built-in kinds only.
    pub(crate) quantity: bool,
    pub(crate) preserve: bool,
    pub(crate) embedded: bool,
    pub(crate) properties: BTreeMap<Box<str>, Schema>,
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) required: Vec<Box<str>>,
    pub(crate) default: Option<Value>,
    pub(crate) list: ListType,
    /// Whether an object is one thing to server-side apply (`x-kubernetes-map-type: atomic`).
    pub(crate) atomic: bool,
    pub(crate) checks: Option<Box<Checks>>,
}

/// Schemas by name, for references.
pub(crate) type Definitions = HashMap<Box<str>, Arc<Schema>>;

/// Nesting beyond this is cut: no real schema is that deep, and the walkers recurse.
const MAX_SCHEMA_DEPTH: usize = 64;

impl Schema {
    /// The schema that accepts everything.
    pub(crate) fn any() -> Self {
        Self::compile(&Value::Object(Map::new()))
    }

    /// Compiles a JSON schema. Malformed parts are left out; definitions are checked beforehand
    /// ([`super::check_structural`]).
    pub(crate) fn compile(json: &Value) -> Self {
        compile(json, MAX_SCHEMA_DEPTH)
    }

    /// The schema itself, or what its reference names.
    pub(crate) fn resolve<'a>(&'a self, definitions: &'a Definitions) -> &'a Self {
        self.reference
            .as_ref()
            .and_then(|name| definitions.get(name))
            .map_or(self, |schema| schema)
    }

    /// The schema of a property, declared or additional.
    pub(crate) fn property<'a>(&'a self, key: &str) -> Option<&'a Self> {
        self.properties.get(key).or(self.additional.as_deref())
    }
}

fn compile(json: &Value, left: usize) -> Schema {
    let get = |key: &str| json.get(key);
    let flag = |key: &str| get(key).and_then(Value::as_bool).unwrap_or(false);
    let text = |key: &str| get(key).and_then(Value::as_str);
    let texts = |key: &str| -> Vec<String> {
        get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let inner = |value: &Value| (left > 0).then(|| compile(value, left - 1));
    let ty = match text("type") {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    };
    let properties = get("properties").and_then(Value::as_object).into_iter().flatten();
    let additional = match get("additionalProperties") {
        Some(Value::Object(map)) => inner(&Value::Object(map.clone())).map(Box::new),
        Some(Value::Bool(true)) => {
            // Whatever stands there is kept, null too.
            let (preserve, nullable) = (true, true);
            inner(&Value::Object(Map::new())).map(|s| {
                Box::new(Schema {
                    preserve,
                    nullable,
                    ..s
                })
            })
        }
        _ => None,
    };
    Schema {
        ty,
        reference: text("$ref").and_then(|r| r.rsplit('/').next()).map(Into::into),
        nullable: flag("nullable"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        quantity: false,
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        embedded: flag("x-kubernetes-embedded-resource"),
        properties: properties
            .filter_map(|(k, v)| Some((k.as_str().into(), inner(v)?)))
            .collect(),
        additional,
        items: get("items").and_then(inner).map(Box::new),
        required: texts("required").into_iter().map(Into::into).collect(),
        default: get("default").cloned(),
        list: match text("x-kubernetes-list-type") {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(texts("x-kubernetes-list-map-keys")),
            _ => ListType::Atomic,
        },
        atomic: text("x-kubernetes-map-type") == Some("atomic"),
        checks: checks(json, left),
    }
}

/// The constraints of a schema, if it has any.
fn checks(json: &Value, left: usize) -> Option<Box<Checks>> {
    const KEYS: [&str; 19] = [
        "enum",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "uniqueItems",
        "pattern",
        "format",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "exclusiveMinimum",
        "exclusiveMaximum",
    ];
    if KEYS.iter().all(|k| json.get(k).is_none()) {
        return None;
    }
    let number = |key: &str| json.get(key).and_then(Value::as_f64);
    let count = |key: &str| json.get(key).and_then(Value::as_u64);
    let flag = |key: &str| json.get(key).and_then(Value::as_bool).unwrap_or(false);
    let text = |key: &str| json.get(key).and_then(Value::as_str);
    let list = |key: &str| -> Vec<Schema> {
        let all = json.get(key).and_then(Value::as_array).into_iter().flatten();
        all.filter(|_| left > 0).map(|v| compile(v, left - 1)).collect()
    };
    Some(Box::new(Checks {
        enumeration: json
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        minimum: number("minimum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        unique_items: flag("uniqueItems"),
        pattern: text("pattern").and_then(|p| regex::Regex::new(p).ok()),
        format: text("format").map(str::to_owned),
        all_of: list("allOf"),
        any_of: list("anyOf"),
        one_of: list("oneOf"),
        not: json
            .get("not")
            .and_then(|v| (left > 0).then(|| compile(v, left - 1))),
    }))
}
