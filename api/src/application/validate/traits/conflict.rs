//! What traits of one component say together.

use super::{
    super::node::{Node, shown},
    target::Target,
};
use crate::application::{FieldPath, Setting, ValidTrait};
use crate::quantity::thousandths;
use serde_json::Value;
use std::collections::BTreeMap;

/// Refuses traits that say different things, each pair once; whether none does.
pub(super) fn check(traits: &[(&Node<'_>, ValidTrait)], target: &Target) -> bool {
    let mut clean = true;
    let mut services: Option<usize> = None;
    let mut fields: BTreeMap<&FieldPath, (usize, &Setting)> = BTreeMap::new();
    for (place, (node, one)) in traits.iter().enumerate() {
        let mut refuse = |reason: String| {
            node.refuse(reason);
            clean = false;
        };
        let other = |place: usize| {
            let type_ = traits.get(place).map_or("", |(_, other)| other.type_);
            format!("{type_} (traits[{place}])")
        };
        if one.service.is_some() {
            if let Some(first) = services {
                refuse(format!(
                    "expose adds Service {:?}, which {} adds as well: list all ports in one of them",
                    target.component,
                    other(first)
                ));
            }
            services.get_or_insert(place);
        }
        if let Some(first) = sidecar_before(traits, place) {
            refuse(format!(
                "sidecar adds the container {}, which {} adds as well: give each its own name",
                container(one),
                other(first)
            ));
            continue;
        }
        let mut named = Vec::new();
        for setting in &one.settings {
            let (first, set) = *fields.entry(&setting.path).or_insert((place, setting));
            if set.value != setting.value && !named.contains(&first) {
                named.push(first);
                let path = setting.path.to_string();
                let (here, there, by) = (said(setting, &path), said(set, "it"), other(first));
                refuse(if first == place {
                    format!("{} {here}, and {there} as well: say it once", one.type_)
                } else {
                    format!("{} {here}, and {by} {there}: say it in one of them", one.type_)
                });
            }
        }
    }
    clean
}

/// An earlier sidecar of the same name.
fn sidecar_before(traits: &[(&Node<'_>, ValidTrait)], place: usize) -> Option<usize> {
    let (_, one) = traits.get(place)?;
    let name = (one.type_ == "sidecar").then(|| container(one))?;
    let before = traits.iter().take(place);
    before
        .enumerate()
        .find(|(_, (_, other))| other.type_ == "sidecar" && container(other) == name)
        .map(|(first, _)| first)
}

/// The container that a sidecar adds: the first field that it sets is in it.
fn container(sidecar: &ValidTrait) -> String {
    let image = sidecar.settings.first().map(|setting| setting.path.to_string());
    let path = image.unwrap_or_default();
    path.strip_suffix(".image").unwrap_or(&path).to_owned()
}

/// What a trait does to a field.
fn said(setting: &Setting, field: &str) -> String {
    let value = match &setting.value {
        None => return format!("removes {field}"),
        // A variable: what it is set to says more than that it is a map.
        Some(Value::Object(map)) if map.len() == 2 => map.get("value").unwrap_or(&Value::Null),
        Some(value) => value,
    };
    format!("sets {field} to {}", shown(value))
}

/// Refuses what the merged workload cannot be: a container that asks for more than its limit.
pub(super) fn check_merged(traits: &Node<'_>, merged: &Value, target: &Target) {
    let template = target.template.iter().try_fold(merged, |at, field| at.get(field));
    let containers = template.and_then(|template| template.get("spec")?.get("containers")?.as_array());
    for container in containers.into_iter().flatten() {
        let before = original(target, container.get("name"));
        if before.and_then(|before| before.get("resources")) == container.get("resources") {
            continue;
        }
        for resource in ["cpu", "memory"] {
            let amount = |sort: &str| container.get("resources")?.get(sort)?.get(resource)?.as_str();
            let (Some(request), Some(limit)) = (amount("requests"), amount("limits")) else {
                continue;
            };
            let above = thousandths(request).zip(thousandths(limit));
            if above.is_some_and(|(request, limit)| request > limit) {
                let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
                traits.refuse(format!(
                    "with these, container {name:?} of {} requests {resource} {request}, more than its limit {limit}: set \
                     both in the trait resource",
                    target.title
                ));
            }
        }
    }
}

fn original<'t>(target: &'t Target, name: Option<&Value>) -> Option<&'t Value> {
    let template = target
        .template
        .iter()
        .try_fold(&target.manifest, |at, field| at.get(field));
    let containers = template?.get("spec")?.get("containers")?.as_array()?;
    containers.iter().find(|container| container.get("name") == name)
}
