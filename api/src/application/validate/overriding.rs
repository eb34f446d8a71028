//! KubeVela's `override` policy: properties and traits of components that differ for the clusters of a step.
//!
//! The components are changed before they are rendered: maps merge, lists are replaced, `null` removes, and explicit zero
//! values (0, "", false) do override; how traits are changed is said in [`changed`]. What could not be told apart
//! afterwards from what placement decides is refused.

mod changed;

use super::{
    component,
    node::{Findings, Node, Object, Shape, choice},
    path::Path,
};
use crate::application::ValidComponent;
use changed::TraitChange;
use serde_json::Value;
use std::collections::BTreeSet;

const OVERRIDE: Shape = Shape {
    known: &[&["components", "selector"]],
    refused: &[],
};
const COMPONENT: Shape = Shape {
    known: &[&["name", "type", "properties", "traits"]],
    refused: &[("externalRevision", "externalRevision is not supported yet")],
};

/// What an override policy changes.
#[derive(Debug, Clone)]
pub(super) struct Override<'a> {
    /// Component and what changes in it, in order.
    changes: Vec<(String, Change<'a>)>,
}

/// What one entry changes in a component.
#[derive(Debug, Clone)]
struct Change<'a> {
    /// Merged into its own.
    properties: Option<Node<'a>>,
    /// Each of a type of its own.
    traits: Vec<TraitChange<'a>>,
}

/// Reads the properties of an override policy, and tries it on the components of the application.
pub(super) fn read<'a>(policy: &Object<'a>, spec: &Object<'a>) -> Option<Override<'a>> {
    let what = "list the components and the properties or traits that differ, such as [{name: web, properties: {image: \
                nginx}}]";
    let object = policy.required("properties", what)?.object(&OVERRIDE)?;
    let components = spec.list("components");
    if let Some(selector) = object.optional("selector") {
        check_selector(&selector, &components);
    }
    let mut changes = Vec::new();
    for node in object.list("components") {
        changes.extend(read_component(&node, &components));
    }
    if !object.has_any(&["components", "selector"]) {
        object.refuse(format!("changes nothing: {what}"));
    }
    Some(Override { changes })
}

/// One entry: the components that it selects, each with what changes in it.
fn read_component<'a>(node: &Node<'a>, components: &[Node<'a>]) -> Vec<(String, Change<'a>)> {
    let Some(object) = node.object(&COMPONENT) else {
        return Vec::new();
    };
    let pattern = object.optional("name").and_then(|node| node.string());
    let pattern = pattern.filter(|name| !name.is_empty());
    let type_node = object.optional("type");
    let type_ = type_node.as_ref().and_then(|node| node.string());
    let list = object.optional("traits");
    let traits = list.as_ref().map(changed::read_all);
    let properties = object.optional("properties");
    if properties.is_none() && traits.as_ref().is_none_or(|read| read.nothing) {
        object.refuse("changes nothing: set the properties or the traits that differ");
        return Vec::new();
    }
    let entries = match properties.as_ref().map(Node::entries) {
        Some(None) => return Vec::new(),
        Some(Some(entries)) => entries,
        None => Vec::new(),
    };
    for (key, value) in &entries {
        if *key == "replicas" {
            value.refuse(
                "replicas cannot be overridden, because the placement divides them: set replicas of the component, and shares or perCluster bounds in the placement",
            );
        }
    }
    let mut selected = Vec::new();
    for component in components {
        let of = |key: &str| {
            component
                .value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (name, its_type) = (of("name"), of("type"));
        match pattern {
            Some(pattern) if !matches(pattern, name) => continue,
            // Without a name the type selects, as in KubeVela.
            None if type_.is_some_and(|type_| type_ != its_type) => continue,
            _ => {}
        }
        if let Some(node) = type_node
            .as_ref()
            .filter(|_| type_.is_some_and(|type_| type_ != its_type))
        {
            node.refuse(format!(
                "component {name:?} has the type {its_type}, and an override cannot replace it by one of another type: use an application of its own for that"
            ));
            continue;
        }
        if let Some(properties) = properties.as_ref().filter(|_| its_type == "k8s-objects") {
            properties.refuse(format!(
                "component {name:?} is of type k8s-objects, whose list of manifests would be replaced whole: use overrides of a placement, whose target names one manifest"
            ));
            continue;
        }
        if its_type == "task"
            && let Some((_, count)) = entries.iter().find(|(key, _)| *key == "count")
        {
            count.refuse(
                "count cannot be overridden, because the placement divides it: set count of the component, and shares or perCluster bounds in the placement",
            );
        }
        selected.push((name.to_owned(), component));
    }
    if selected.is_empty() && !components.iter().any(|c| selects(c, pattern, type_)) {
        let names = components.iter().filter_map(|c| c.value.get("name")?.as_str());
        let known = choice(pattern.unwrap_or_default(), names);
        let at = object
            .optional("name")
            .or(type_node)
            .unwrap_or_else(|| node.clone());
        at.refuse(format!(
            "no component is selected, and an override adds none: add it to components{known}"
        ));
    }
    let change = Change {
        properties,
        traits: traits.map(|read| read.changes).unwrap_or_default(),
    };
    let mut changes = Vec::new();
    let mut said = BTreeSet::new();
    for (name, component) in selected {
        let clear = change
            .traits
            .iter()
            .all(|one| one.is_clear(&name, component.value));
        if clear && problems(component.value).is_empty() {
            let merged = merged(component.value, &[&change]);
            for (path, reason) in problems(&merged) {
                let (at, what) = change.place(&path, &merged, list.as_ref().unwrap_or(node));
                // Of several components the first stands for all.
                if said.insert(at.clone()) {
                    node.refuse_at(
                        at,
                        format!("with these {what} the component is refused: {path}: {reason}"),
                    );
                }
            }
        }
        changes.push((name, change.clone()));
    }
    changes
}

impl Change<'_> {
    /// Where in the policy something is that makes a component wrong, and what of the component it changes. `otherwise`:
    /// where the traits are, which may spoil what none of them names.
    fn place(&self, path: &Path, merged: &Value, otherwise: &Node<'_>) -> (Path, &'static str) {
        let of_trait = self.traits.iter().find_map(|one| one.place(path, merged));
        match (of_trait, &self.properties) {
            (Some(at), _) => (at, "traits"),
            (None, Some(properties)) => (properties.path.clone(), "properties"),
            (None, None) => (otherwise.path.clone(), "traits"),
        }
    }
}

fn selects(component: &Node<'_>, pattern: Option<&str>, type_: Option<&str>) -> bool {
    let of = |key: &str| {
        component
            .value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match (pattern, type_) {
        (Some(pattern), _) => matches(pattern, of("name")),
        (None, Some(type_)) => type_ == of("type"),
        (None, None) => true,
    }
}

/// KubeVela's `selector` leaves components out of a step. One that selects all of them asks for nothing.
fn check_selector(node: &Node<'_>, components: &[Node<'_>]) {
    let Some(patterns) = node.strings() else { return };
    let names = components.iter().filter_map(|c| c.value.get("name")?.as_str());
    let left_out: Vec<&str> = names
        .filter(|name| !patterns.is_empty() && !patterns.iter().any(|p| matches(p, name)))
        .collect();
    if let Some(first) = left_out.first() {
        node.refuse(format!(
            "leaves component {first:?} out, and every cluster of a placement gets all components: move it to an application of its own"
        ));
    }
}

/// The components as the clusters of a step get them, under these overrides in order.
pub(super) fn apply(
    node: &Node<'_>,
    spec: &Object<'_>,
    overrides: &[&Override<'_>],
) -> Option<Vec<ValidComponent>> {
    let components: Vec<Value> = spec
        .list("components")
        .iter()
        .map(|component| {
            let name = component.value.get("name").and_then(Value::as_str);
            let changes = overrides.iter().flat_map(|o| &o.changes);
            let own: Vec<&Change<'_>> = changes
                .filter(|(of, _)| Some(of.as_str()) == name)
                .map(|(_, change)| change)
                .collect();
            merged(component.value, &own)
        })
        .collect();
    let findings = Findings::default();
    let mut names = BTreeSet::new();
    let read: Vec<ValidComponent> = components
        .iter()
        .filter_map(|component| {
            component::read(&Node::root(component, &title(component), &findings), &mut names)
        })
        .collect();
    let together = overrides.len() > 1;
    if let Some((path, reason)) = findings.into_sorted().into_iter().next() {
        // Each policy by itself was tried where it stands, and the components as well.
        if together {
            node.refuse(format!(
                "with these overrides together a component is refused: {path}: {reason}"
            ));
        }
        return None;
    }
    Some(read)
}

fn merged(component: &Value, changes: &[&Change<'_>]) -> Value {
    let mut component = component.clone();
    for change in changes {
        let Some(map) = component.as_object_mut() else {
            continue;
        };
        if let Some(change) = &change.properties {
            let properties = map
                .entry("properties")
                .or_insert_with(|| Value::Object(Default::default()));
            roundhouse_patch::json_merge(properties, change.value);
        }
        changed::merge(map, &change.traits);
    }
    component
}

/// What is wrong with a component, with the path from its name on.
fn problems(component: &Value) -> Vec<(Path, String)> {
    let findings = Findings::default();
    component::read(
        &Node::root(component, &title(component), &findings),
        &mut BTreeSet::new(),
    );
    findings.into_sorted()
}

fn title(component: &Value) -> String {
    let name = component.get("name").and_then(Value::as_str);
    name.unwrap_or("component").to_owned()
}

/// Whether a pattern, in which `*` stands for any text, matches the whole name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    let mut rest = rest;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_are_anchored() {
        for (pattern, name, expected) in [
            ("web", "web", true),
            ("web", "web-2", false),
            ("web", "my-web", false),
            ("web*", "web-2", true),
            ("*web", "my-web", true),
            ("*web", "my-web-2", false),
            ("*", "anything", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*a*b", "bab", true),
            ("w.b", "web", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
