//! The policy `apply-once`.

use super::{
    component,
    node::{self, Node, Object, Shape},
};
use crate::bundle::{Affect, ApplyOnce, ApplyOnceRule, ApplyOnceSelector, ApplyOnceStrategy};
use roundhouse_patch::field::FieldPath;
use serde_json::Value;

const APPLY_ONCE: Shape = Shape {
    known: &[&["enable", "mode", "rules"]],
    refused: &[],
};
const RULE: Shape = Shape {
    known: &[&["selector", "strategy"]],
    refused: &[],
};
const SELECTOR: Shape = Shape {
    known: &[&[
        "componentNames",
        "componentTypes",
        "traitTypes",
        "resourceTypes",
        "resourceNames",
    ]],
    refused: &[(
        "oamTypes",
        "oamTypes is not supported: select by componentTypes, traitTypes or resourceTypes",
    )],
};
const STRATEGY: Shape = Shape {
    known: &[&["path", "affect"]],
    refused: &[],
};
const AFFECT: [(&str, Affect); 3] = [
    ("always", Affect::Always),
    ("onUpdate", Affect::OnUpdate),
    ("onStateKeep", Affect::OnStateKeep),
];
/// The path that stands for the whole object.
const WHOLE: &str = "*";
/// What a rule without paths is told.
const PATHS: &str = "list field paths, such as [spec.replicas], or [\"*\"] for the whole object";

/// What the policy says.
#[derive(Debug, Default)]
pub(super) struct ApplyOncePolicy {
    /// The mode of the whole application; `None` leaves it to the agents' flag.
    pub(super) mode: Option<ApplyOnce>,
    /// The rules, in order.
    pub(super) rules: Vec<ApplyOnceRule>,
}

/// Reads the policy. `enable: false` is `Never`, whatever rules there are; with rules only the rules count; without
/// them `enable: true` is the mode for the whole application, `Once` where none is given.
///
/// KubeVela takes an absent `enable` for `false`; here it has to be written, because a policy with rules that is
/// silently off is hardly ever meant.
pub(super) fn read(policy: &Object<'_>, spec: &Object<'_>) -> ApplyOncePolicy {
    let what = "write enable: true or enable: false";
    let properties = policy.required("properties", what);
    let Some(properties) = properties.and_then(|node| node.object(&APPLY_ONCE)) else {
        return ApplyOncePolicy::default();
    };
    let enable = properties
        .required("enable", what)
        .and_then(|node| node.boolean())
        .unwrap_or_default();
    let mode = properties.optional("mode");
    let rules: Vec<ApplyOnceRule> = properties
        .list("rules")
        .iter()
        .filter_map(|node| rule(node, spec))
        .collect();
    if let Some(mode) = mode.as_ref().filter(|_| !rules.is_empty()) {
        mode.refuse("mode is for the whole application and rules are for some of it: leave one of them out");
    }
    let mode = mode
        .and_then(|node| node.word(&[("Once", ApplyOnce::Once), ("Force", ApplyOnce::Force)]))
        .unwrap_or(ApplyOnce::Once);
    match (enable, rules.is_empty()) {
        (false, _) => ApplyOncePolicy {
            mode: Some(ApplyOnce::Never),
            rules: Vec::new(),
        },
        (true, true) => ApplyOncePolicy {
            mode: Some(mode),
            rules,
        },
        (true, false) => ApplyOncePolicy { mode: None, rules },
    }
}

fn rule(node: &Node<'_>, spec: &Object<'_>) -> Option<ApplyOnceRule> {
    let object = node.object(&RULE)?;
    let selector = object
        .not_null("selector", "to select every object")
        .and_then(|node| selector(&node, spec));
    let strategy = object.required(
        "strategy",
        "write which fields are kept, such as {path: [spec.replicas]}",
    )?;
    Some(ApplyOnceRule {
        selector,
        strategy: strategy_of(&strategy.object(&STRATEGY)?)?,
    })
}

/// The lists are ANDed. A name that nothing in the application has is refused, as everywhere; kinds and names of
/// objects are free, because `k8s-objects` may have any.
fn selector(node: &Node<'_>, spec: &Object<'_>) -> Option<ApplyOnceSelector> {
    let object = node.object(&SELECTOR)?;
    let strings = |name: &str| -> Vec<String> {
        let list = object.list(name);
        list.iter().filter_map(Node::text).map(str::to_owned).collect()
    };
    let known = component_names(spec);
    for entry in object.list("componentNames") {
        if let Some(name) = entry.value.as_str().filter(|name| !known.contains(name)) {
            let choice = node::choice(name, known.iter().copied());
            entry.refuse(format!("the application has no component {name:?}{choice}"));
        }
    }
    for entry in object.list("componentTypes") {
        if let Some(type_) = entry
            .value
            .as_str()
            .filter(|type_| !component::TYPES.contains(type_))
        {
            let choice = node::choice(type_, component::TYPES.iter().copied());
            entry.refuse(format!("unknown component type {type_:?}{choice}"));
        }
    }
    Some(ApplyOnceSelector {
        component_names: strings("componentNames"),
        component_types: strings("componentTypes"),
        trait_types: strings("traitTypes"),
        resource_types: strings("resourceTypes"),
        resource_names: strings("resourceNames"),
    })
}

/// The names as written: what else is wrong with a component is said elsewhere.
fn component_names<'a>(spec: &Object<'a>) -> Vec<&'a str> {
    let components = spec.present("components").map(|node| node.value);
    let components = components.and_then(Value::as_array).into_iter().flatten();
    components
        .filter_map(|component| component.get("name")?.as_str())
        .collect()
}

fn strategy_of(object: &Object<'_>) -> Option<ApplyOnceStrategy> {
    let paths = object.required("path", PATHS)?;
    let entries = paths.list()?;
    if entries.is_empty() {
        paths.refuse(format!("is empty: {PATHS}"));
    }
    // KubeVela's users may write the default as an empty word.
    let affect = object.optional("affect").filter(|node| node.value != "");
    let affect = affect.and_then(|node| node.word(&AFFECT)).unwrap_or_default();
    let mut path = Vec::new();
    for entry in entries {
        let Some(text) = entry.text() else { continue };
        if text == WHOLE {
            if affect == Affect::OnUpdate {
                entry.refuse(
                    "\"*\" keeps an object as it is until its content changes, which is not onUpdate: leave affect out, \
                     or list field paths",
                );
            }
        } else if let Err(error) = FieldPath::parse(text) {
            entry.refuse(error.to_string());
        }
        path.push(text.to_owned());
    }
    Some(ApplyOnceStrategy { path, affect })
}
