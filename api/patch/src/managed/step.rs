//! One step of a path to a field.

use std::fmt;

use serde_json::{Map, Value};

use super::ManagedError;

/// A step from an object or list to something in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A field of an object.
    Field(Box<str>),
    /// An element of a list, by the values of its key fields: JSON, compact, sorted by name.
    Key(Box<str>),
    /// An element of a list of scalars, by its value: compact JSON.
    Value(Box<str>),
    /// An element of a list, by its place.
    Index(u64),
}

impl Step {
    /// A field of an object.
    #[must_use]
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// An element of a list by the values of its key fields.
    #[must_use]
    pub fn key(fields: Map<String, Value>) -> Self {
        Self::Key(Value::Object(fields).to_string().into())
    }

    /// An element of a list of scalars.
    #[must_use]
    pub fn value(value: &Value) -> Self {
        Self::Value(value.to_string().into())
    }

    /// The form of `fieldsV1`: `f:name`, `k:{"name":"x"}`, `v:"x"`, `i:0`.
    #[must_use]
    pub fn to_wire(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(key) => format!("k:{key}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads the form of `fieldsV1`.
    ///
    /// # Errors
    /// [`ManagedError::BadStep`].
    pub fn from_wire(text: &str) -> Result<Self, ManagedError> {
        let bad = |reason: &str| ManagedError::BadStep {
            key: text.chars().take(80).collect(),
            reason: reason.to_owned(),
        };
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad("it has no colon"))?;
        match kind {
            "f" => Ok(Self::field(rest)),
            "k" => match serde_json::from_str(rest) {
                Ok(Value::Object(fields)) if !fields.is_empty() => Ok(Self::key(fields)),
                _ => Err(bad("after k: stands an object with at least one field")),
            },
            "v" => serde_json::from_str(rest)
                .map(|value: Value| Self::value(&value))
                .map_err(|_| bad("after v: stands a JSON value")),
            "i" => rest
                .parse()
                .map(Self::Index)
                .map_err(|_| bad("after i: stands the index of an element")),
            _ => Err(bad("it starts with none of f:, k:, v:, i:")),
        }
    }

    /// Whether `element`, standing at `index` of a list, is the one this step leads to.
    #[must_use]
    pub fn leads_to(&self, element: &Value, index: usize) -> bool {
        match self {
            Self::Field(_) => false,
            Self::Index(at) => u64::try_from(index) == Ok(*at),
            Self::Value(_) => *self == Self::value(element),
            Self::Key(_) => {
                let keys = self.key_fields();
                // A key that the element leaves out had its default when the set was made.
                let has = |name: &String, value: &Value| element.get(name).is_none_or(|have| have == value);
                let some = keys.keys().any(|name| element.get(name).is_some());
                some && keys.iter().all(|(name, value)| has(name, value))
            }
        }
    }

    /// The fields of a key; empty for any other step.
    pub(super) fn key_fields(&self) -> Map<String, Value> {
        match self {
            Self::Key(text) => serde_json::from_str(text).unwrap_or_default(),
            _ => Map::new(),
        }
    }
}

/// As in conflict messages: `.spec`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(_) => {
                let fields = self.key_fields();
                let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
                write!(out, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(out, "[={value}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// A whole path, such as `.spec.containers[name="app"].image`.
#[must_use]
pub fn print_path(path: &[Step]) -> String {
    path.iter().map(ToString::to_string).collect()
}
