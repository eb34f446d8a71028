//! `traits` of a component: what each of them sets, and that no two of them, or one and its component, say different
//! things.
//!
//! | step | module |
//! | --- | --- |
//! | what the component has before its traits | [`target`] |
//! | one trait | [`read`], [`container`] for those that change containers |
//! | all of them together | [`conflict`] |
//! | traits that are not built in | [`elsewhere`] |

mod conflict;
mod container;
mod elsewhere;
mod read;
mod target;

use super::node::{Node, Object, Shape, choice};
use crate::application::{ComponentKind, ValidTrait, merge_traits};
use target::Target;

const TRAIT: Shape = Shape {
    known: &[&["type", "properties"]],
    refused: &[],
};

/// Trait types that are built in.
const TYPES: [&str; 8] = [
    "scaler",
    "labels",
    "annotations",
    "expose",
    "env",
    "resource",
    "sidecar",
    "node-selector",
];

/// Reads the traits of a component whose properties were understood.
pub(super) fn read_all(node: &Node<'_>, component: &str, kind: &ComponentKind) -> Vec<ValidTrait> {
    let list = node.list().unwrap_or_default();
    if list.is_empty() {
        return Vec::new();
    }
    let target = match Target::of(component, kind) {
        Ok(target) => target,
        Err(problem) => {
            node.refuse(problem);
            return Vec::new();
        }
    };
    let target = target.with_sidecars(list.iter().map(|one| one.value));
    let read: Vec<(&Node<'_>, ValidTrait)> = list
        .iter()
        .filter_map(|one| Some((one, read_one(one, &target)?)))
        .collect();
    let clean = read.len() == list.len() && conflict::check(&read, &target);
    let traits: Vec<ValidTrait> = read.into_iter().map(|(_, one)| one).collect();
    if clean {
        let mut merged = target.manifest.clone();
        match merge_traits(&mut merged, &traits) {
            Ok(()) => conflict::check_merged(node, &merged, &target),
            Err(error) => node.refuse(format!("cannot be merged into {}: {error}", target.title)),
        }
    }
    traits
}

fn read_one(node: &Node<'_>, target: &Target) -> Option<ValidTrait> {
    let object = node.object(&TRAIT)?;
    let type_ = known_type(&object)?;
    read::read(type_, &object, target)
}

/// The type of a trait, which has to be a built-in one.
pub(super) fn known_type(object: &Object<'_>) -> Option<&'static str> {
    let type_node = object.required("type", &format!("use one of {}", TYPES.join(", ")))?;
    let given = type_node.string()?;
    let known = TYPES.into_iter().find(|known| *known == given);
    if known.is_none() {
        type_node.refuse(match elsewhere::instead(given) {
            Some(instead) => format!("the trait {given} is not built in: {instead}"),
            None => format!("unknown trait {given:?}{}", choice(given, TYPES.into_iter())),
        });
    }
    known
}
