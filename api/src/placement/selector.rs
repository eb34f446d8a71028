//! Cluster selectors: the seed's equality map, or Kubernetes' label selector.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// Selects clusters by label. All requirements hold; an empty selector matches every cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterSelector {
    /// Labels and the value that each must have.
    pub match_labels: BTreeMap<String, String>,
    /// Requirements with operators.
    pub match_expressions: Vec<Requirement>,
    /// Whether it was written as an equality map (the seed's form), so that it is shown as it was written.
    equality_map: bool,
}

/// One requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// What must hold.
    pub operator: Operator,
}

/// The operators of Kubernetes' label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    /// The label is there and its value is one of these.
    In(Vec<String>),
    /// The label is absent or its value is none of these.
    NotIn(Vec<String>),
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// Why a selector is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The selector is no map.
    #[error("expected a map of label: value, or matchLabels and matchExpressions")]
    NotAMap,
    /// A value is no string.
    #[error("label {0:?} must have a string value: put numbers and booleans in quotes")]
    NotAString(String),
    /// An unknown field beside `matchLabels` or `matchExpressions`.
    #[error("unknown field {0:?} beside matchLabels and matchExpressions: put labels under matchLabels")]
    Mixed(String),
    /// A bad requirement.
    #[error("matchExpressions[{index}]: {reason}")]
    Requirement {
        /// Place in the list.
        index: usize,
        /// What is wrong.
        reason: String,
    },
}

impl ClusterSelector {
    /// The equality map of the seed.
    pub fn equality<K: Into<String>, V: Into<String>>(labels: impl IntoIterator<Item = (K, V)>) -> Self {
        ClusterSelector {
            match_labels: labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
            match_expressions: Vec::new(),
            equality_map: true,
        }
    }

    /// Whether a cluster with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.matches(labels))
    }

    /// Reads a selector in either form.
    ///
    /// # Errors
    /// [`SelectorError`] names the label or requirement.
    pub fn from_value(value: &Value) -> Result<Self, SelectorError> {
        let map = value.as_object().ok_or(SelectorError::NotAMap)?;
        let structured = |key: &str| match map.get(key) {
            Some(Value::String(_)) | None => false,
            Some(_) => true,
        };
        if !structured("matchLabels") && !structured("matchExpressions") {
            return Ok(ClusterSelector {
                match_labels: labels(map)?,
                match_expressions: Vec::new(),
                equality_map: true,
            });
        }
        if let Some(key) = map
            .keys()
            .find(|k| *k != "matchLabels" && *k != "matchExpressions")
        {
            return Err(SelectorError::Mixed(key.clone()));
        }
        let match_labels = match map.get("matchLabels") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(value) => labels(value.as_object().ok_or(SelectorError::NotAMap)?)?,
        };
        let match_expressions = match map.get("matchExpressions") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) => list
                .iter()
                .enumerate()
                .map(|(index, value)| requirement(index, value))
                .collect::<Result<_, _>>()?,
            Some(_) => {
                let reason = "matchExpressions must be a list".to_owned();
                return Err(SelectorError::Requirement { index: 0, reason });
            }
        };
        Ok(ClusterSelector {
            match_labels,
            match_expressions,
            equality_map: false,
        })
    }
}

impl Requirement {
    /// Whether the labels satisfy this requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|v| values.contains(v)),
            Operator::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

fn labels(map: &serde_json::Map<String, Value>) -> Result<BTreeMap<String, String>, SelectorError> {
    map.iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            _ => Err(SelectorError::NotAString(key.clone())),
        })
        .collect()
}

fn requirement(index: usize, value: &Value) -> Result<Requirement, SelectorError> {
    let fail = |reason: String| SelectorError::Requirement { index, reason };
    let map = value
        .as_object()
        .ok_or_else(|| fail("expected {key, operator, values}".to_owned()))?;
    if let Some(key) = map
        .keys()
        .find(|k| !matches!(k.as_str(), "key" | "operator" | "values"))
    {
        return Err(fail(format!("unknown field {key:?}")));
    }
    let parsed: LabelSelectorRequirement =
        serde_json::from_value(value.clone()).map_err(|error| fail(error.to_string()))?;
    if parsed.key.is_empty() {
        return Err(fail("key is empty: name a label".to_owned()));
    }
    let values = parsed.values.unwrap_or_default();
    let operator = match (parsed.operator.as_str(), values.is_empty()) {
        ("In", false) => Operator::In(values),
        ("NotIn", false) => Operator::NotIn(values),
        ("Exists", true) => Operator::Exists,
        ("DoesNotExist", true) => Operator::DoesNotExist,
        (operator @ ("In" | "NotIn"), true) => return Err(fail(format!("operator {operator} needs values"))),
        (operator @ ("Exists" | "DoesNotExist"), false) => {
            return Err(fail(format!("operator {operator} takes no values")));
        }
        (other, _) => {
            return Err(fail(format!(
                "unknown operator {other:?}: use In, NotIn, Exists or DoesNotExist"
            )));
        }
    };
    Ok(Requirement {
        key: parsed.key,
        operator,
    })
}

impl From<&ClusterSelector> for LabelSelector {
    fn from(selector: &ClusterSelector) -> Self {
        let expression = |requirement: &Requirement| {
            let (operator, values) = match &requirement.operator {
                Operator::In(values) => ("In", Some(values.clone())),
                Operator::NotIn(values) => ("NotIn", Some(values.clone())),
                Operator::Exists => ("Exists", None),
                Operator::DoesNotExist => ("DoesNotExist", None),
            };
            LabelSelectorRequirement {
                key: requirement.key.clone(),
                operator: operator.to_owned(),
                values,
            }
        };
        LabelSelector {
            match_labels: (!selector.match_labels.is_empty()).then(|| selector.match_labels.clone()),
            match_expressions: (!selector.match_expressions.is_empty())
                .then(|| selector.match_expressions.iter().map(expression).collect()),
        }
    }
}

impl Serialize for ClusterSelector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.equality_map && self.match_expressions.is_empty() {
            self.match_labels.serialize(serializer)
        } else {
            LabelSelector::from(self).serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for ClusterSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ClusterSelector::from_value(&Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for ClusterSelector {
    fn schema_name() -> Cow<'static, str> {
        "ClusterSelector".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        crate::any_object(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(selector: &Value, labels: &Value) -> bool {
        let labels = serde_json::from_value(labels.clone()).unwrap();
        ClusterSelector::from_value(selector).unwrap().matches(&labels)
    }

    #[test]
    fn both_forms_select() {
        let east = json!({"region": "east", "tier": "gold"});
        assert!(check(&json!({}), &east));
        assert!(check(&json!({"region": "east"}), &east));
        assert!(!check(&json!({"region": "west"}), &east));
        assert!(check(&json!({"matchLabels": {"region": "east"}}), &east));
        // A label that happens to be called matchLabels is a label.
        assert!(check(&json!({"matchLabels": "x"}), &json!({"matchLabels": "x"})));
        for (operator, values, expected) in [
            ("In", json!(["east", "west"]), true),
            ("NotIn", json!(["east"]), false),
            ("NotIn", json!(["west"]), true),
            ("Exists", json!([]), true),
            ("DoesNotExist", json!(null), false),
        ] {
            let selector =
                json!({"matchExpressions": [{"key": "region", "operator": operator, "values": values}]});
            assert_eq!(check(&selector, &east), expected, "{operator}");
        }
        let absent = json!({"matchExpressions": [{"key": "lab", "operator": "NotIn", "values": ["a"]}]});
        assert!(
            check(&absent, &east),
            "NotIn also matches where the label is absent"
        );
    }

    #[test]
    fn bad_selectors_are_named() {
        let of = |list: Value| json!({"matchExpressions": list});
        let one = |requirement: Value| of(json!([{"key": "a", "operator": "Exists"}, requirement]));
        for (selector, message) in [
            (
                json!([]),
                "expected a map of label: value, or matchLabels and matchExpressions",
            ),
            (
                json!({"matchLabels": ["a"]}),
                "expected a map of label: value, or matchLabels and matchExpressions",
            ),
            (
                json!({"a": 1}),
                "label \"a\" must have a string value: put numbers and booleans in quotes",
            ),
            (
                json!({"matchLabels": {"a": true}}),
                "label \"a\" must have a string value: put numbers and booleans in quotes",
            ),
            (
                json!({"matchLabels": {"a": "b"}, "region": "east"}),
                "unknown field \"region\" beside matchLabels and matchExpressions: put labels under matchLabels",
            ),
            (
                of(json!({})),
                "matchExpressions[0]: matchExpressions must be a list",
            ),
            (
                one(json!("a")),
                "matchExpressions[1]: expected {key, operator, values}",
            ),
            (
                one(json!({"key": "a", "operator": "Exists", "vals": []})),
                "matchExpressions[1]: unknown field \"vals\"",
            ),
            (
                one(json!({"key": "", "operator": "Exists"})),
                "matchExpressions[1]: key is empty: name a label",
            ),
            (
                one(json!({"key": "a", "operator": "In"})),
                "matchExpressions[1]: operator In needs values",
            ),
            (
                one(json!({"key": "a", "operator": "NotIn", "values": []})),
                "matchExpressions[1]: operator NotIn needs values",
            ),
            (
                one(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
                "matchExpressions[1]: operator Exists takes no values",
            ),
            (
                one(json!({"key": "a", "operator": "DoesNotExist", "values": ["b"]})),
                "matchExpressions[1]: operator DoesNotExist takes no values",
            ),
            (
                one(json!({"key": "a", "operator": "in", "values": ["b"]})),
                "matchExpressions[1]: unknown operator \"in\": use In, NotIn, Exists or DoesNotExist",
            ),
        ] {
            let error = ClusterSelector::from_value(&selector).unwrap_err().to_string();
            assert_eq!(error, message, "{selector}");
        }
    }

    #[test]
    fn a_selector_is_shown_as_it_was_written() {
        for value in [
            json!({"region": "east"}),
            json!({"matchLabels": {"region": "east"}}),
        ] {
            let selector = ClusterSelector::from_value(&value).unwrap();
            assert_eq!(serde_json::to_value(&selector).unwrap(), value);
        }
    }
}
