//! Between JSON and the values of CEL.

use kube_cel::cel::Value as CelValue;
use kube_cel::cel::objects::{Key, Map};
use serde_json::{Number, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// What a value weighs beside its text, in bytes.
const NODE: u64 = 16;

/// A live object in CEL, without what `hidden` names by kind and path (three steps at most).
pub(super) fn to_cel(live: &Value, hidden: &dyn Fn(Option<&str>, &[&str]) -> bool) -> CelValue {
    let kind = live.get("kind").and_then(Value::as_str);
    convert(live, &mut Vec::new(), &|path| hidden(kind, path))
}

/// A number of JSON in CEL: an integer where it is one.
pub fn number(number: &Number) -> CelValue {
    match (number.as_i64(), number.as_u64()) {
        (Some(number), _) => CelValue::Int(number),
        (None, Some(number)) => CelValue::UInt(number),
        (None, None) => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn convert<'a>(value: &'a Value, path: &mut Vec<&'a str>, hidden: &dyn Fn(&[&str]) -> bool) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(value) => number(value),
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        // Nothing that is hidden stands in a list.
        Value::Array(list) => {
            let items = list.iter().map(|item| convert(item, &mut Vec::new(), &|_| false));
            CelValue::List(Arc::new(items.collect()))
        }
        Value::Object(object) => {
            let mut map = HashMap::with_capacity(object.len());
            for (key, value) in object {
                path.push(key);
                if !hidden(path) {
                    map.insert(Key::String(Arc::new(key.clone())), convert(value, path, hidden));
                }
                path.pop();
            }
            CelValue::Map(Map { map: Arc::new(map) })
        }
    }
}

/// A value as JSON; `None` where JSON has no such thing.
pub(super) fn to_json(value: &CelValue) -> Option<Value> {
    Some(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(value) => Value::Bool(*value),
        CelValue::Int(number) => Value::from(*number),
        CelValue::UInt(number) => Value::from(*number),
        CelValue::Float(number) => Value::Number(serde_json::Number::from_f64(*number)?),
        CelValue::String(text) => Value::String(text.to_string()),
        CelValue::Timestamp(time) => Value::String(time.to_rfc3339()),
        CelValue::List(list) => Value::Array(list.iter().map(to_json).collect::<Option<_>>()?),
        CelValue::Map(map) => {
            let entries = map
                .map
                .iter()
                .map(|(key, value)| Some((key.to_string(), to_json(value)?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// What a value weighs in memory, roughly, in bytes.
pub(super) fn weight(value: &CelValue) -> u64 {
    let length = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let key = |key: &Key| match key {
        Key::String(text) => length(text.len()),
        _ => 0,
    };
    NODE + match value {
        CelValue::String(text) => length(text.len()),
        CelValue::Bytes(bytes) => length(bytes.len()),
        CelValue::List(list) => list.iter().map(weight).sum(),
        CelValue::Map(map) => map.map.iter().map(|(k, v)| key(k) + weight(v)).sum(),
        _ => 0,
    }
}

/// OCM's `hasConditions(object.status)`: whether there is a list of conditions with something in it.
pub(super) fn has_conditions(status: &CelValue) -> bool {
    let CelValue::Map(map) = status else {
        return false;
    };
    let key = Key::String(Arc::new("conditions".to_owned()));
    matches!(map.map.get(&key), Some(CelValue::List(list)) if !list.is_empty())
}
