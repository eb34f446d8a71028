//! Reading what cells show.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use crate::object::{at, text};
pub(super) use crate::object::{condition, holds};

/// Text at a path; empty if absent.
pub(super) fn get<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    text(value, path).unwrap_or_default()
}

/// Text at a path as a cell.
pub(super) fn string(value: &Value, path: &[&str]) -> Value {
    get(value, path).into()
}

/// Text at a path, or what stands for its absence.
pub(super) fn or(value: &Value, path: &[&str], otherwise: &str) -> Value {
    let found = text(value, path).filter(|t| !t.is_empty());
    found.unwrap_or(otherwise).into()
}

/// Text at a path, or `<none>`.
pub(super) fn or_none(value: &Value, path: &[&str]) -> Value {
    or(value, path, "<none>")
}

/// A number or text, or what stands for its absence.
pub(super) fn plain(value: &Value, path: &[&str], otherwise: &str) -> Value {
    match at(value, path) {
        None | Some(Value::Null) => otherwise.into(),
        Some(Value::String(s)) => s.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

/// A whole number; 0 if absent.
pub(super) fn integer(value: &Value, path: &[&str]) -> i64 {
    at(value, path).and_then(Value::as_i64).unwrap_or(0)
}

/// A whole number as a cell.
pub(super) fn int(value: &Value, path: &[&str]) -> Value {
    integer(value, path).into()
}

/// Whether something is true.
pub(super) fn is(value: &Value, path: &[&str]) -> bool {
    at(value, path) == Some(&Value::Bool(true))
}

/// A boolean as Kubernetes prints it.
pub(super) fn flag(value: &Value, path: &[&str]) -> Value {
    if is(value, path) { "True" } else { "False" }.into()
}

/// A list; empty if absent.
pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    let found = at(value, path).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

/// The length of a list as a cell.
pub(super) fn count(value: &Value, path: &[&str]) -> Value {
    list(value, path).len().into()
}

/// Text put together with commas.
pub(super) fn joined<'a>(texts: impl IntoIterator<Item = &'a str>, otherwise: &str) -> Value {
    let all: Vec<&str> = texts.into_iter().collect();
    if all.is_empty() {
        otherwise.into()
    } else {
        all.join(",").into()
    }
}

/// `part/whole`.
pub(super) fn ratio(value: &Value, part: &[&str], whole: &[&str]) -> Value {
    format!("{}/{}", integer(value, part), integer(value, whole)).into()
}

/// A map of labels as a selector.
pub(super) fn labels(value: &Value, path: &[&str]) -> Value {
    let pairs = at(value, path).and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<String> = pairs
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    joined(texts.iter().map(String::as_str), "<none>")
}

/// A label selector object as text.
pub(super) fn selector(value: &Value, path: &[&str]) -> Value {
    match crate::verbs::selector_text(at(value, path)) {
        text if text.is_empty() => "<none>".into(),
        text => text.into(),
    }
}

/// How long ago a time was; `<unknown>` if there is none.
pub(super) fn ago(value: &Value, path: &[&str], now: Timestamp) -> Value {
    age::age(get(value, path), now).into()
}

/// A time at a path.
pub(super) fn time(value: &Value, path: &[&str]) -> Option<Timestamp> {
    text(value, path)?.parse().ok()
}

/// Names or images of the containers of a pod template.
pub(super) fn containers(value: &Value, spec: &[&str], key: &str) -> Value {
    let path: Vec<&str> = spec.iter().copied().chain(["containers"]).collect();
    joined(list(value, &path).iter().map(|c| get(c, &[key])), "")
}
