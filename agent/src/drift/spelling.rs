//! Spelling: whether a server only wrote our value in its own way. Kubernetes keeps quantities in canonical form, times
//! in UTC, and fills defaults into the elements of lists.

use crate::facts::milli;
use crate::path::FieldPath;
use jiff::Timestamp;
use serde_json::Value;

/// Whether `theirs` says what `ours` says. Below `metadata` and `data` every value is text that no server respells.
pub(crate) fn same_meaning(path: &FieldPath, ours: &Value, theirs: &Value) -> bool {
    let verbatim = ["metadata", "data", "stringData", "binaryData"];
    if verbatim.iter().any(|field| path.is_below(&[field])) {
        return ours == theirs;
    }
    same(ours, theirs)
}

fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours
            .iter()
            .filter(|(name, _)| !name.starts_with('$'))
            .all(|(name, ours)| same(ours, theirs.get(name).unwrap_or(&Value::Null))),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        // An API server leaves out what is empty.
        (Value::Object(ours), Value::Null) => ours.is_empty(),
        (Value::Array(ours), Value::Null) => ours.is_empty(),
        (ours, theirs) => ours == theirs || same_quantity(ours, theirs) || same_time(ours, theirs),
    }
}

fn same_quantity(ours: &Value, theirs: &Value) -> bool {
    let quantity = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => milli(text),
        Value::Number(number) => milli(&number.to_string()),
        _ => None,
    };
    quantity(ours).is_some_and(|ours| quantity(theirs) == Some(ours))
}

fn same_time(ours: &Value, theirs: &Value) -> bool {
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time(ours).is_some_and(|ours| time(theirs) == Some(ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_counts_as_the_same_value() {
        for (ours, theirs, expected) in [
            (json!("1000m"), json!("1"), true),
            (json!(1), json!("1"), true),
            (json!("1024Mi"), json!("1Gi"), true),
            (json!(0.5), json!("500m"), true),
            (json!("1"), json!("2"), false),
            (json!("text"), json!("other"), false),
            (json!(""), json!("0"), false),
            (json!(true), json!("true"), false),
            (
                json!("2026-01-01T01:00:00+01:00"),
                json!("2026-01-01T00:00:00Z"),
                true,
            ),
            (
                json!([{"key": "a"}]),
                json!([{"key": "a", "operator": "Equal"}]),
                true,
            ),
            (json!([{"key": "a"}]), json!([{"key": "a"}, {"key": "b"}]), false),
            (json!([{"key": "a", "x": {}}]), json!([{"key": "a"}]), true),
            (json!([{"key": "a", "x": 1}]), json!([{"key": "a"}]), false),
        ] {
            assert_eq!(same(&ours, &theirs), expected, "{ours} {theirs}");
        }
    }
}
