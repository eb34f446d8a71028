//! Traits that change containers: `env`, `resource` and `sidecar`.

use super::{
    super::{
        container as properties,
        node::{Node, Object, Shape, shown},
    },
    read::{listed, set, strings},
    target::Target,
};
use crate::application::Setting;
use crate::names::check_dns_label;
use crate::quantity::is_quantity;
use serde_json::{Map, Value, json};

const ENV: Shape = Shape {
    known: &[&["containerName", "replace", "env", "unset", "containers"]],
    refused: &[],
};
const ENV_OF_CONTAINER: Shape = Shape {
    known: &[&["containerName", "replace", "env", "unset"]],
    refused: &[],
};
const RESOURCE: Shape = Shape {
    known: &[&["cpu", "memory", "requests", "limits"]],
    refused: &[],
};
const AMOUNTS: Shape = Shape {
    known: &[&["cpu", "memory"]],
    refused: &[],
};
const SIDECAR: Shape = Shape {
    known: &[&[
        "name",
        "image",
        "cmd",
        "args",
        "env",
        "volumes",
        "livenessProbe",
        "readinessProbe",
    ]],
    refused: &[],
};
const VOLUME: Shape = Shape {
    known: &[&["name", "path"]],
    refused: &[],
};
/// Names of containers are DNS labels.
const MAX_CONTAINER_NAME: usize = 63;

/// `env`: variables of one container, or of several.
pub(super) fn env(node: &Node<'_>, target: &Target) -> Option<Vec<Setting>> {
    let object = node.object(&ENV)?;
    if object.optional("containers").is_none() {
        return env_of_container(&object, target, false);
    }
    if object.has_any(&["containerName", "replace", "env", "unset"]) {
        object.refuse("has containers beside settings of one container: list that one in containers too");
        return None;
    }
    let each: Vec<Option<Vec<Setting>>> = object
        .list("containers")
        .iter()
        .map(|node| env_of_container(&node.object(&ENV_OF_CONTAINER)?, target, true))
        .collect();
    let each = each.into_iter().collect::<Option<Vec<_>>>()?;
    if each.is_empty() {
        object.refuse("changes nothing: list containers, or leave the trait out");
        return None;
    }
    Some(each.into_iter().flatten().collect())
}

fn env_of_container(object: &Object<'_>, target: &Target, by_name: bool) -> Option<Vec<Setting>> {
    let known = || listed(target.containers.iter().map(|(name, _)| name.as_str()));
    let given = object.optional("containerName").map(|node| (node.string(), node));
    let name = match given {
        Some((text, node)) if by_name || text != Some("") => {
            let name = text?;
            if !target.containers.iter().any(|(known, _)| known == name) {
                node.refuse(format!(
                    "{} has no container {name:?}; known here: {}",
                    target.title,
                    known()
                ));
                return None;
            }
            name
        }
        _ if by_name => {
            object.required("containerName", &format!("name one of {}", known()))?;
            return None;
        }
        _ => {
            let own: Vec<&str> = target.own().collect();
            match target.main_container() {
                Some(name) if own.len() == 1 || name == target.component => name,
                _ => {
                    object.refuse(format!(
                        "{} has several containers, and none is named like the component: set containerName to one of {}",
                        target.title,
                        known()
                    ));
                    return None;
                }
            }
        }
    };
    let replace = match object.optional("replace") {
        None => false,
        Some(node) => node.boolean()?,
    };
    let variables = match object.optional("env") {
        None => Default::default(),
        Some(node) => strings(&node)?,
    };
    let mut unset = Vec::new();
    for node in object.list("unset") {
        let variable = node.text()?;
        if variables.contains_key(variable) {
            node.refuse(format!(
                "{variable:?} is set in env and unset here: say it in one of them"
            ));
            return None;
        }
        unset.push(variable.to_owned());
    }
    if let Some(bad) = variables
        .keys()
        .find(|name| name.is_empty() || name.contains('='))
    {
        let node = object.optional("env")?;
        node.child(bad, &Value::Null)
            .refuse("is no name of an environment variable");
        return None;
    }
    if replace {
        let present = target.containers.iter().find(|(of, _)| of == name);
        let present = present.into_iter().flat_map(|(_, variables)| variables);
        unset.extend(
            present
                .filter(|variable| !variables.contains_key(*variable))
                .cloned(),
        );
    } else if variables.is_empty() && unset.is_empty() {
        object.refuse("changes nothing: set env or unset, or leave the trait out");
        return None;
    }
    let path = |variable: &str| target.container(name).fields(&["env"]).element(variable);
    let removed = unset.iter().map(|variable| Setting {
        path: path(variable),
        value: None,
    });
    let changed = variables
        .iter()
        .map(|(variable, value)| set(path(variable), json!({"name": variable, "value": value})));
    Some(changed.chain(removed).collect())
}

/// `resource`: requests and limits of the container with the component's name, otherwise of the first.
pub(super) fn resource(node: &Node<'_>, target: &Target) -> Option<Vec<Setting>> {
    let object = node.object(&RESOURCE)?;
    let name = target.main_container()?;
    let path = |sort: &str, resource: &str| target.container(name).fields(&["resources", sort, resource]);
    let both = object.has_any(&["cpu", "memory"]);
    if both && object.has_any(&["requests", "limits"]) {
        object.refuse("has cpu or memory, which mean requests and limits, beside requests or limits: use one of the forms");
        return None;
    }
    if both {
        let amounts = amounts(&object)?;
        let each = amounts.iter().flat_map(|(resource, amount)| {
            ["requests", "limits"].map(|sort| set(path(sort, resource), json!(amount)))
        });
        return Some(each.collect());
    }
    let mut settings = Vec::new();
    for sort in ["requests", "limits"] {
        if let Some(node) = object.optional(sort) {
            let amounts = amounts(&node.object(&AMOUNTS)?)?;
            settings.extend(
                amounts
                    .iter()
                    .map(|(resource, amount)| set(path(sort, resource), json!(amount))),
            );
        }
    }
    let written = ["requests", "limits"]
        .into_iter()
        .filter_map(|sort| object.optional(sort));
    // What is written and unknown was refused already.
    if settings.is_empty()
        && written
            .into_iter()
            .all(|node| node.value.as_object().is_some_and(Map::is_empty))
    {
        object.refuse("changes nothing: set cpu or memory, or requests and limits");
    }
    (!settings.is_empty()).then_some(settings)
}

/// `cpu` and `memory` of a map, as quantities; a number of CPUs may be written without quotes, as in KubeVela.
fn amounts(object: &Object<'_>) -> Option<Vec<(&'static str, String)>> {
    let mut amounts = Vec::new();
    for resource in ["cpu", "memory"] {
        let Some(node) = object.optional(resource) else {
            continue;
        };
        let text = match node.value {
            Value::Number(number) if resource == "cpu" => number.to_string(),
            _ => node.string()?.to_owned(),
        };
        if text.starts_with('-') || !is_quantity(&text) {
            node.refuse(format!(
                "{} is not a Kubernetes quantity: write a number with an optional suffix, such as \"500m\", \"0.5\" or \
                 \"128Mi\"",
                shown(node.value)
            ));
            return None;
        }
        amounts.push((resource, text));
    }
    Some(amounts)
}

/// `sidecar`: another container.
pub(super) fn sidecar(node: &Node<'_>, target: &Target) -> Option<Vec<Setting>> {
    let object = node.object(&SIDECAR)?;
    let name = object.required("name", "name the sidecar")?;
    let image = object.required("image", "name a container image");
    let (name_node, name) = (&name, name.text()?);
    if let Err(error) = check_dns_label("name of a sidecar", name, MAX_CONTAINER_NAME) {
        name_node.refuse(error.to_string());
        return None;
    }
    if target.own().any(|own| own == name) || target.init_containers.contains(name) {
        name_node.refuse(format!(
            "{} has a container {name:?} already: give the sidecar another name",
            target.title
        ));
        return None;
    }
    let container = target.container(name);
    let mut settings = vec![set(container.clone().fields(&["image"]), json!(image?.text()?))];
    let words = |field: &str| {
        let words = properties::strings(&object, field);
        (!words.is_empty()).then(|| json!(words))
    };
    let mounts = mounts(&object, target)?;
    for (field, value) in [
        ("command", words("cmd")),
        ("args", words("args")),
        ("volumeMounts", (!mounts.is_empty()).then(|| json!(mounts))),
        ("livenessProbe", properties::probe(&object, "livenessProbe")),
        ("readinessProbe", properties::probe(&object, "readinessProbe")),
    ] {
        settings.extend(value.map(|value| set(container.clone().fields(&[field]), value)));
    }
    for variable in properties::env(&object) {
        if let Some(name) = variable.get("name").and_then(Value::as_str) {
            let path = container.clone().fields(&["env"]).element(name);
            settings.push(set(path, variable.clone()));
        }
    }
    Some(settings)
}

fn mounts(object: &Object<'_>, target: &Target) -> Option<Vec<Value>> {
    let each = object.list("volumes").into_iter().map(|node| {
        let volume = node.object(&VOLUME)?;
        let name = volume.required("name", "name a volume of the component");
        let path = volume.required("path", "say where it is mounted");
        let (name, path) = (name?, path?.text()?);
        let volume = name.text()?;
        if !target.volumes.contains(volume) {
            let known = match target.volumes.is_empty() {
                true => "it has none".to_owned(),
                false => format!(
                    "known here: {}",
                    listed(target.volumes.iter().map(String::as_str))
                ),
            };
            name.refuse(format!("{} has no volume {volume:?}: {known}", target.title));
            return None;
        }
        Some(json!({"name": volume, "mountPath": path}))
    });
    let each: Vec<Option<Value>> = each.collect();
    each.into_iter().collect()
}
