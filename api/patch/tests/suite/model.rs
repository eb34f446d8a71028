//! The rules of a three-way merge, stated a second time and in another way: what the result holds, without computing a
//! patch. For documents without nulls, whose merging lists have unique keys and whose fields keep their types.

use roundhouse_patch::schema::{Field, Node, Strategy};
use serde_json::{Map, Value};

/// What the live value becomes; `node` is `None` where there is no metadata.
pub(crate) fn result(
    last: Option<&Value>,
    desired: &Value,
    live: Option<&Value>,
    node: Option<&'static Node>,
) -> Value {
    let (Value::Object(wanted), Some(Value::Object(present))) = (desired, live) else {
        return desired.clone();
    };
    let last = last.and_then(Value::as_object);
    let mut merged: Map<String, Value> = Map::new();
    for (name, value) in wanted {
        let last = last.and_then(|last| last.get(name));
        merged.insert(
            name.clone(),
            field(
                last,
                value,
                present.get(name),
                node.and_then(|node| node.field(name)),
            ),
        );
    }
    for (name, value) in present {
        let dropped = last.is_some_and(|last| last.contains_key(name));
        if !wanted.contains_key(name) && !dropped {
            merged.insert(name.clone(), value.clone());
        }
    }
    Value::Object(merged)
}

fn field(
    last: Option<&Value>,
    desired: &Value,
    live: Option<&Value>,
    field: Option<&'static Field>,
) -> Value {
    let strategy = field.map(|field| field.strategy).unwrap_or_default();
    let child = field.and_then(|field| field.child);
    match (desired, live, field) {
        (Value::Object(wanted), Some(Value::Object(_)), _) => match strategy {
            Strategy::Replace => desired.clone(),
            strategy => retained(result(last, desired, live, child), wanted, strategy),
        },
        (Value::Array(wanted), Some(Value::Array(present)), Some(field)) if strategy.merges() => {
            let none = Vec::new();
            let last = last.and_then(Value::as_array).unwrap_or(&none);
            Value::Array(list(last, wanted, present, field))
        }
        _ => desired.clone(),
    }
}

/// Our elements first, then those of others; the order is checked on its own.
fn list(last: &[Value], desired: &[Value], live: &[Value], field: &'static Field) -> Vec<Value> {
    let find = |list: &'_ [Value], item: &Value| {
        list.iter()
            .find(|other| key(other, field) == key(item, field))
            .cloned()
    };
    let ours = desired.iter().map(|item| {
        let (last, live) = (find(last, item), find(live, item));
        let merged = result(last.as_ref(), item, live.as_ref(), field.child);
        match item {
            Value::Object(wanted) if live.is_some() => retained(merged, wanted, field.strategy),
            _ => merged,
        }
    });
    let others = live
        .iter()
        .filter(|item| find(desired, item).is_none() && find(last, item).is_none());
    ours.chain(others.cloned()).collect()
}

/// Under `retainKeys` only what we render stays; an empty object retains nothing and so clears nothing.
fn retained(mut merged: Value, wanted: &Map<String, Value>, strategy: Strategy) -> Value {
    if let (true, false, Value::Object(fields)) = (strategy.retains_keys(), wanted.is_empty(), &mut merged) {
        fields.retain(|name, _| wanted.contains_key(name));
    }
    merged
}

fn key<'a>(item: &'a Value, field: &Field) -> &'a Value {
    field.merge_key.map_or(item, |key| &item[key])
}

/// The document with its merging lists sorted.
pub(crate) fn unordered(value: &Value, node: Option<&'static Node>) -> Value {
    let Value::Object(fields) = value else {
        return value.clone();
    };
    let sorted = fields.iter().map(|(name, value)| {
        let field = node.and_then(|node| node.field(name));
        let child = field.and_then(|field| field.child);
        let value = match (value, field) {
            (Value::Array(items), Some(field)) if field.strategy.merges() => {
                let mut items: Vec<Value> = items.iter().map(|item| unordered(item, child)).collect();
                items.sort_by_key(|item| key(item, field).to_string());
                Value::Array(items)
            }
            (value, _) => unordered(value, child),
        };
        (name.clone(), value)
    });
    sorted.collect()
}

/// True when every list of `result` that merges by a key holds the elements of `desired` in the order of `desired`.
/// Of sets Kubernetes promises no order: one whose desired order is the sorted one is left as the server has it.
pub(crate) fn in_our_order(result: &Value, desired: &Value, node: Option<&'static Node>) -> bool {
    let (Value::Object(result), Value::Object(desired)) = (result, desired) else {
        return true;
    };
    desired.iter().all(|(name, wanted)| {
        let Some(got) = result.get(name) else { return false };
        let field = node.and_then(|node| node.field(name));
        match (got, wanted, field) {
            (Value::Array(got), Value::Array(wanted), Some(field)) if field.merge_key.is_some() => {
                let ours = |item: &&Value| wanted.iter().any(|other| key(other, field) == key(item, field));
                let got: Vec<&Value> = got.iter().filter(ours).collect();
                got.len() == wanted.len()
                    && got.iter().zip(wanted).all(|(got, wanted)| {
                        key(got, field) == key(wanted, field) && in_our_order(got, wanted, field.child)
                    })
            }
            (got, wanted, field) => in_our_order(got, wanted, field.and_then(|field| field.child)),
        }
    })
}
