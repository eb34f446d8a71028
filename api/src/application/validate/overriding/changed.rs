//! `traits` of an override: what changes in the traits of a component.
//!
//! A trait of the same type is merged into the component's one, as properties are; a new type is added;
//! `disable: true` takes all traits of the type out, and asks for nothing where there is none (KubeVela's rules). KubeVela
//! keeps one trait of a type; here a component may have several, and which of them is meant is then not guessed.

use super::super::{
    node::{Node, Shape},
    path::Path,
    traits,
};
use serde_json::{Map, Value, json};

const TRAIT: Shape = Shape {
    known: &[&["type", "properties", "disable"]],
    refused: &[],
};
/// Types of traits in whose properties `null` is a value: it removes the key from the workload.
const NULL_COUNTS: [&str; 2] = ["labels", "annotations"];

/// The traits of an entry.
pub(super) struct Read<'a> {
    /// Those that were understood, each of a type of its own.
    pub(super) changes: Vec<TraitChange<'a>>,
    /// Whether none is written.
    pub(super) nothing: bool,
}

/// What changes about one type of traits.
#[derive(Debug, Clone)]
pub(super) struct TraitChange<'a> {
    type_: &'static str,
    /// Merged into those that are there; `None` takes the trait out.
    properties: Option<&'a Value>,
    at: Node<'a>,
}

/// Reads the traits of an entry.
pub(super) fn read_all<'a>(list: &Node<'a>) -> Read<'a> {
    let entries = list.list();
    let nothing = entries.as_ref().is_some_and(Vec::is_empty);
    let mut changes: Vec<TraitChange<'a>> = Vec::new();
    for node in entries.into_iter().flatten() {
        let Some(change) = read_one(&node) else { continue };
        if changes.iter().any(|other| other.type_ == change.type_) {
            node.refuse(format!(
                "a second {} trait: an override changes the only one of its type, so put them together",
                change.type_
            ));
            continue;
        }
        changes.push(change);
    }
    Read { changes, nothing }
}

fn read_one<'a>(node: &Node<'a>) -> Option<TraitChange<'a>> {
    let object = node.object(&TRAIT)?;
    let type_ = traits::known_type(&object)?;
    if type_ == "scaler" {
        object.optional("type")?.refuse(
            "scaler cannot be overridden, because the placement divides the replicas: set it on the component, and shares \
             or perCluster bounds in the placement",
        );
        return None;
    }
    let disable = match object.optional("disable") {
        Some(node) => node.boolean()?,
        None => false,
    };
    let properties = match disable {
        false => {
            let what = "list the properties that differ, or set disable: true to take the trait out";
            let properties = object.required("properties", what)?;
            properties.entries()?;
            Some(properties.value)
        }
        true => {
            if let Some(properties) = object.optional("properties") {
                properties.refuse(
                    "cannot be used beside disable: true, which takes the trait out: keep one of them",
                );
                return None;
            }
            None
        }
    };
    Some(TraitChange {
        type_,
        properties,
        at: node.clone(),
    })
}

impl TraitChange<'_> {
    /// Whether it is clear which trait of a component is meant; says so where it is not.
    pub(super) fn is_clear(&self, name: &str, component: &Value) -> bool {
        let traits = component.get("traits").and_then(Value::as_array);
        let own = traits.into_iter().flatten().filter(|one| self.is_of(one));
        let count = own.count();
        if count > 1 && self.properties.is_some() {
            self.at.refuse(format!(
                "component {name:?} has {count} {} traits, so that it is not clear which one this changes: put them together, \
                 or use overrides of a placement, whose target names one object",
                self.type_
            ));
            return false;
        }
        true
    }

    /// Where in the policy it is that something is wrong with the merged component; `None` if that is not in this trait.
    pub(super) fn place(&self, path: &Path, merged: &Value) -> Option<Path> {
        let name = merged.get("name").and_then(Value::as_str)?;
        let traits = merged.get("traits")?.as_array()?;
        let index = traits.iter().position(|one| self.is_of(one))?;
        let root = Path::default().key(name).key("traits").index(index);
        let below = root.below(path)?;
        let (here, _) = below.within(self.at.value);
        // What is nowhere is missing; what only the component says is not in the policy.
        let (_, elsewhere) = below.within(traits.get(index)?);
        Some(self.at.path.join(if elsewhere { &here } else { &below }))
    }

    fn is_of(&self, one: &Value) -> bool {
        one.get("type").and_then(Value::as_str) == Some(self.type_)
    }
}

/// Changes the traits of a component.
pub(super) fn merge(component: &mut Map<String, Value>, changes: &[TraitChange<'_>]) {
    if changes.is_empty() {
        return;
    }
    let traits = component.entry("traits").or_insert(Value::Null);
    if traits.is_null() {
        *traits = json!([]);
    }
    let Some(traits) = traits.as_array_mut() else {
        return;
    };
    for change in changes {
        let Some(new) = change.properties else {
            traits.retain(|one| !change.is_of(one));
            continue;
        };
        let place = traits.iter().position(|one| change.is_of(one));
        let place = place.unwrap_or_else(|| {
            traits.push(json!({"type": change.type_}));
            traits.len() - 1
        });
        let Some(own) = traits.get_mut(place).and_then(Value::as_object_mut) else {
            continue;
        };
        let properties = own.entry("properties").or_insert_with(|| json!({}));
        if properties.is_null() {
            *properties = json!({});
        }
        match (properties.as_object_mut(), new.as_object()) {
            (Some(own), Some(new)) if NULL_COUNTS.contains(&change.type_) => {
                own.extend(new.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            _ => roundhouse_patch::json_merge(properties, new),
        }
    }
}
