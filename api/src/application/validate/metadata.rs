//! Labels and annotations as users give them.

use super::node::{Node, Object};
use crate::names;
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
    let legal = names::is_qualified(key);
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
    let legal = names::is_label_value(value);
    if !legal {
        node.refuse(format!(
            "{} is no value of a label: use at most 63 letters, digits, '-', '_' and '.', starting and ending with a \
             letter or digit",
            super::node::shown(node.value)
        ));
    }
    legal
}
