//! `fieldsV1`: a set as nested objects, one entry a step, `.` for an inner field that is itself in the set.

use serde_json::{Map, Value};

use super::{FieldSet, ManagedError, Step, set::Node};
use crate::MAX_DEPTH;

const SELF: &str = ".";

impl FieldSet {
    /// Reads `fieldsV1`.
    ///
    /// # Errors
    /// [`ManagedError`] if it is anything else, or nested deeper than [`MAX_DEPTH`].
    pub fn from_fields_v1(fields: &Value) -> Result<Self, ManagedError> {
        let Value::Object(fields) = fields else {
            return Err(ManagedError::NoObject {
                key: "fieldsV1".to_owned(),
            });
        };
        read(fields, MAX_DEPTH)
    }

    /// Writes `fieldsV1`.
    #[must_use]
    pub fn to_fields_v1(&self) -> Value {
        let entry = |(step, node): (&Step, &Node)| {
            let mut below = node.below.to_fields_v1();
            if node.member
                && let Some(map) = below.as_object_mut().filter(|map| !map.is_empty())
            {
                map.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
            (step.to_wire(), below)
        };
        Value::Object(self.entries.iter().map(entry).collect())
    }
}

/// Whether a field is itself in the set, by what is written below it.
pub(super) fn is_member(below: &Map<String, Value>) -> bool {
    below.is_empty() || below.contains_key(SELF)
}

fn read(fields: &Map<String, Value>, left: usize) -> Result<FieldSet, ManagedError> {
    let left = left.checked_sub(1).ok_or(ManagedError::TooDeep)?;
    let mut set = FieldSet::default();
    for (key, value) in fields.iter().filter(|(key, _)| *key != SELF) {
        let Value::Object(below) = value else {
            return Err(ManagedError::NoObject { key: key.clone() });
        };
        let node = Node {
            member: is_member(below),
            below: read(below, left)?,
        };
        set.entries.insert(Step::from_wire(key)?, node);
    }
    Ok(set)
}
