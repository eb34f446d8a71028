//! Which element of a live list is which of a desired one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::Node;

/// What is known of a place in an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Below a custom kind: nothing is known, names tell elements apart.
    Custom,
    /// Below a built-in kind.
    BuiltIn {
        /// Metadata of the value; of its elements, if it is a list.
        node: Option<&'static Node>,
        /// For a list that merges: by which key.
        key: Option<&'static str>,
        /// For a list that merges without a key: as a set.
        set: bool,
    },
}

impl Shape {
    /// The root of an object of a kind.
    pub(super) fn root(schema: Option<&'static Node>) -> Self {
        schema.map_or(Shape::Custom, |node| Shape::BuiltIn {
            node: Some(node),
            key: None,
            set: false,
        })
    }

    /// Of a field.
    pub(super) fn field(self, name: &str) -> Self {
        let Shape::BuiltIn { node, .. } = self else {
            return Shape::Custom;
        };
        let field = node.and_then(|node| node.field(name));
        let merges = field.is_some_and(|field| field.strategy.merges());
        let key = field.and_then(|field| field.merge_key).filter(|_| merges);
        Shape::BuiltIn {
            node: match field {
                Some(field) => field.child,
                None => node.and_then(|node| node.values),
            },
            key,
            set: merges && key.is_none(),
        }
    }

    /// Of an element of this list.
    pub(super) fn element(self) -> Self {
        match self {
            Shape::Custom => Shape::Custom,
            Shape::BuiltIn { node, .. } => Shape::BuiltIn {
                node,
                key: None,
                set: false,
            },
        }
    }
}

/// For each element of `live` the place of the same element in `desired`. Elements with the same key (two ports of one
/// number) pair in their order.
pub(super) fn partners(desired: &[Value], live: &[Value], shape: Shape) -> Vec<Option<usize>> {
    let key = match shape {
        Shape::Custom if all_named(desired) && all_named(live) => Some("name"),
        Shape::Custom => None,
        Shape::BuiltIn { set: true, .. } => {
            return matched(desired, live, |element| Some(element.to_string()));
        }
        Shape::BuiltIn { key, .. } => key,
    };
    match key {
        Some(key) => matched(desired, live, |element| element.get(key).map(Value::to_string)),
        None => (0..live.len())
            .map(|place| (place < desired.len()).then_some(place))
            .collect(),
    }
}

fn matched(
    desired: &[Value],
    live: &[Value],
    identity: impl Fn(&Value) -> Option<String>,
) -> Vec<Option<usize>> {
    let mut waiting: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    // Backwards, so that the first of equals is taken first.
    for (place, element) in desired.iter().enumerate().rev() {
        if let Some(identity) = identity(element) {
            waiting.entry(identity).or_default().push(place);
        }
    }
    live.iter()
        .map(|element| waiting.get_mut(&identity(element)?)?.pop())
        .collect()
}

/// Whether every element is an object with a name of its own.
fn all_named(items: &[Value]) -> bool {
    let mut names: Vec<&str> = Vec::with_capacity(items.len());
    for item in items {
        match item.get("name").and_then(Value::as_str) {
            Some(name) => names.push(name),
            None => return false,
        }
    }
    names.sort_unstable();
    names.windows(2).all(|pair| pair.first() != pair.last())
}
