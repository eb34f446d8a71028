//! Labels and annotations as users give them.

use super::node::{Node, Object};
use std::collections::BTreeMap;

/// Keys under this prefix are ours.
const OUR_PREFIX: &str = "app.oam.dev/";

/// The labels in this field.
pub(super) fn labels(object: &Object<'_>, name: &str) -> BTreeMap<String, String> {
    strings(object, name, label_value)
}

/// The annotations in this field.
pub(super) fn annotations(object: &Object<'_>, name: &str) -> BTreeMap<String, String> {
    strings(object, name, |_, _| true)
}

fn strings(
    object: &Object<'_>,
    name: &str,
    value_is_legal: fn(&Node<'_>, &str) -> bool,
) -> BTreeMap<String, String> {
    let entries = object.optional(name).and_then(|node| node.entries());
    let mut map = BTreeMap::new();
    for (key, node) in entries.unwrap_or_default() {
        if let Some(value) = key_is_legal(&node, key).then(|| node.string()).flatten()
            && value_is_legal(&node, value)
        {
            map.insert(key.to_owned(), value.to_owned());
        }
    }
    map
}

/// Refuses a key that Kubernetes would refuse, or that the hub writes itself.
pub(super) fn key_is_legal(node: &Node<'_>, key: &str) -> bool {
    if key.starts_with(OUR_PREFIX) {
        node.refuse(format!(
            "keys under {OUR_PREFIX:?} are written by the hub: choose another"
        ));
        return false;
    }
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let domain = |prefix: &str| {
        let part = |part: &str| {
            bounded(
                part,
                |b| b.is_ascii_lowercase() || b.is_ascii_digit(),
                |b| b == b'-',
            )
        };
        prefix.len() <= 253 && prefix.split('.').all(part)
    };
    let legal = prefix.is_none_or(domain) && name.len() <= 63 && is_word(name);
    if !legal {
        node.refuse(format!(
            "{key:?} is no key of labels or annotations: use at most 63 letters, digits, '-', '_' and '.', starting and \
             ending with a letter or digit, after an optional prefix such as example.com/"
        ));
    }
    legal
}

/// Refuses a value of a label that Kubernetes would refuse.
pub(super) fn label_value(node: &Node<'_>, value: &str) -> bool {
    let legal = value.is_empty() || (value.len() <= 63 && is_word(value));
    if !legal {
        node.refuse(format!(
            "{} is no value of a label: use at most 63 letters, digits, '-', '_' and '.', starting and ending with a \
             letter or digit",
            super::node::shown(node.value)
        ));
    }
    legal
}

fn is_word(text: &str) -> bool {
    bounded(
        text,
        |b| b.is_ascii_alphanumeric(),
        |b| matches!(b, b'-' | b'_' | b'.'),
    )
}

/// Whether a text is made of these bytes, and its first and last are of the first sort.
fn bounded(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(first, last)| edge(*first) && edge(*last))
        && bytes.iter().all(|b| edge(*b) || inner(*b))
}
