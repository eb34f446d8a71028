//! Three documents, split at bytes 0xFF (which UTF-8 does not have): last applied, desired, live; an empty first one is
//! an object that was never applied.
//!
//! - No input panics, and text and values merge to the same.
//! - The patch is empty exactly when nothing changes, and applying it gives the result.
//! - Where merge keys are unique, applying twice equals applying once.
//! - `merge(x, x, live)` sends nothing where live has everything of x.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roundhouse_patch::{
    PatchType, json_merge,
    schema::{self, Node, PLAIN},
    strategic_merge, three_way_merge, three_way_merge_bytes,
};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |byte| *byte == 0xFF);
    let (Some(last), Some(desired), Some(live)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let last = (!last.is_empty()).then_some(last);
    let by_text = three_way_merge_bytes(last, desired, live);
    let parse = |text: &[u8]| serde_json::from_slice::<Value>(text).ok();
    let (Some(desired), Some(live)) = (parse(desired), parse(live)) else {
        return;
    };
    let last = match last.map(parse) {
        Some(None) => return,
        last => last.flatten(),
    };
    let Ok(merged) = three_way_merge(last.as_ref(), &desired, &live) else {
        assert!(by_text.is_err(), "values are refused, text is not");
        return;
    };
    let by_text = by_text.expect("text merges where values do");
    assert_eq!(parse(&by_text.result).as_ref(), Some(&merged.result));
    assert_eq!(merged.is_empty(), merged.result == live, "{}", merged.patch);

    let text = |field: &str| desired.get(field).and_then(Value::as_str).unwrap_or_default();
    let node = schema::lookup(text("apiVersion"), text("kind"));
    let mut patched = live.clone();
    match (merged.patch_type, node) {
        (PatchType::Strategic, Some(node)) => {
            strategic_merge(&mut patched, &merged.patch, node).expect("a patch of ours applies");
        }
        _ => json_merge(&mut patched, &merged.patch),
    }
    assert_eq!(patched, merged.result, "{}", merged.patch);

    let node = node.unwrap_or(&PLAIN);
    let all = [last.as_ref(), Some(&desired), Some(&live)];
    if !all
        .into_iter()
        .flatten()
        .all(|document| keys_are_unique(document, node) && !has_directives(document))
    {
        return;
    }
    let again = three_way_merge(Some(&desired), &desired, &merged.result).expect("the result merges");
    assert_eq!(again.result, merged.result, "{}", again.patch);
});

/// Directives in a manifest (`$patch` and the like) are orders, not content: obeyed again they may do more.
fn has_directives(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.starts_with('$') || has_directives(value)),
        Value::Array(items) => items.iter().any(has_directives),
        _ => false,
    }
}

/// Whether no list that merges has two elements with one key, or one without.
fn keys_are_unique(value: &Value, node: &'static Node) -> bool {
    let Value::Object(fields) = value else { return true };
    fields.iter().all(|(name, value)| {
        let field = node.field(name);
        let child = field
            .and_then(|field| field.child)
            .or(node.values)
            .unwrap_or(&PLAIN);
        let Value::Array(items) = value else {
            return keys_are_unique(value, child);
        };
        let Some(field) = field.filter(|field| field.strategy.merges()) else {
            return true;
        };
        let keys: Vec<&Value> = match field.merge_key {
            Some(key) => items.iter().filter_map(|item| item.get(key)).collect(),
            None => items.iter().collect(),
        };
        let unique = keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key));
        let complete = keys.len() == items.len()
            && keys
                .iter()
                .all(|key| !key.is_object() && !key.is_array() && !key.is_null());
        unique && complete && items.iter().all(|item| keys_are_unique(item, child))
    })
}
