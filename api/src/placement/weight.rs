//! Weights that are read from the clusters instead of being listed.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};

/// Where a rule takes the weights of its clusters from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WeightBy {
    /// The value of this label, an integer from 0 to 2147483647. A cluster without the label, or with another value, has
    /// weight 0: it gets its minimum only, and the decision names it.
    Label(String),
    /// What the cluster reports under this resource in `status.allocatable`: `cpu` in thousandths of a core, everything
    /// else in units of the resource (bytes of `memory`), rounded up. Frozen in the Decision until the placement changes
    /// or one of the rule's clusters moves by more than 20 %. A cluster that reports nothing keeps its frozen weight, and
    /// has weight 0 without one.
    Allocatable(String),
}

impl fmt::Display for WeightBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WeightBy::Label(key) => write!(f, "label {key}"),
            WeightBy::Allocatable(resource) => write!(f, "allocatable {resource}"),
        }
    }
}

impl JsonSchema for WeightBy {
    fn schema_name() -> Cow<'static, str> {
        "WeightBy".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                "label": {"type": "string", "minLength": 1, "description": "Label whose value is the weight."},
                "allocatable": {"type": "string", "minLength": 1, "description": "Allocatable resource that is the weight."}
            }
        })
    }
}
