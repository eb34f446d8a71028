//! Entries of `metadata.managedFields`.

use serde_json::{Map, Value};

use super::{FieldSet, ManagedError};

/// How a manager writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Server-side apply: the manager owns what it last applied.
    Apply,
    /// Anything else: the manager owns what it changed.
    Update,
}

impl Operation {
    /// The name the API gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the field manager.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version of the object its fields are about.
    pub api_version: String,
    /// The subresource it wrote through; empty for the object itself.
    pub subresource: String,
    /// Time of its last write, RFC 3339; empty if not known.
    pub time: String,
    /// Its fields.
    pub fields: FieldSet,
}

impl Entry {
    /// Whether both are the same manager: an applier is the same in every version, an updater is not.
    #[must_use]
    pub fn same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn read(entry: usize, value: &Value) -> Result<Self, ManagedError> {
        let bad = |reason: &str| ManagedError::BadEntry {
            entry,
            reason: reason.to_owned(),
        };
        let text = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(bad("operation must be `Apply` or `Update`")),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(bad("apiVersion must not be empty"));
        }
        if text("fieldsType") != "FieldsV1" {
            return Err(bad("fieldsType must be `FieldsV1`"));
        }
        let fields = match value.get("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::from_fields_v1(fields)?,
        };
        Ok(Self {
            manager: text("manager"),
            operation,
            api_version,
            subresource: text("subresource"),
            time: text("time"),
            fields,
        })
    }

    fn write(&self) -> Value {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| out.insert(key.to_owned(), value);
        if !self.manager.is_empty() {
            put("manager", self.manager.as_str().into());
        }
        put("operation", self.operation.name().into());
        put("apiVersion", self.api_version.as_str().into());
        if !self.time.is_empty() {
            put("time", self.time.as_str().into());
        }
        put("fieldsType", "FieldsV1".into());
        put("fieldsV1", self.fields.to_fields_v1());
        if !self.subresource.is_empty() {
            put("subresource", self.subresource.as_str().into());
        }
        Value::Object(out)
    }
}

/// Reads `metadata.managedFields`; absent is empty.
///
/// # Errors
/// [`ManagedError`] if an entry is malformed.
pub fn read_entries(managed_fields: &Value) -> Result<Vec<Entry>, ManagedError> {
    let list = match managed_fields {
        Value::Null => return Ok(vec![]),
        Value::Array(list) => list,
        _ => {
            return Err(ManagedError::BadEntry {
                entry: 0,
                reason: "managedFields must be a list".to_owned(),
            });
        }
    };
    let mut entries: Vec<Entry> = vec![];
    for (at, value) in list.iter().enumerate() {
        let entry = Entry::read(at, value)?;
        // The last entry of a manager counts.
        entries.retain(|have| !have.same_manager(&entry));
        entries.push(entry);
    }
    Ok(entries)
}

/// Writes `metadata.managedFields` in Kubernetes' order: appliers first, then by time, manager, version and
/// subresource.
#[must_use]
pub fn write_entries(entries: Vec<Entry>) -> Value {
    let mut list: Vec<Value> = entries.into_iter().map(|entry| entry.write()).collect();
    sort_stored(&mut list);
    Value::Array(list)
}

/// Brings stored entries into their order.
pub(super) fn sort_stored(list: &mut [Value]) {
    list.sort_by(|a, b| order(a).cmp(&order(b)));
}

/// What orders a stored entry: operation, time, manager, version and subresource.
pub(super) fn order(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"]
        .map(|key| entry.get(key).and_then(Value::as_str).unwrap_or_default())
}

/// Whether a client that sends these managed fields wants them reset: a list that is empty, or holds one empty entry.
#[must_use]
pub fn is_reset(managed_fields: &Value) -> bool {
    match managed_fields.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([one]) => one
            .as_object()
            .is_some_and(|entry| entry.values().all(|value| value.is_null() || *value == "")),
        _ => false,
    }
}
