//! The fields of a placement, in a policy or inline in a step.

use super::{
    container::MAX_REPLICAS,
    node::{Node, Object, Shape},
    overrides,
};
use crate::{
    names::{ClusterName, MAX_APPLICATION_NAME, check_dns_label},
    placement::{
        Bounds, ClusterSelector, PlacementSpec, Rebalance, Remainder, ReplicaShare, Rule, Spread,
        TaintEffect, Toleration, TolerationOperator, WeightBy, WhenUnsatisfiable,
    },
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The fields that make a placement.
pub(super) const FIELDS: [&str; 7] = [
    "placement",
    "remainder",
    "rebalance",
    "tolerations",
    "maxClusters",
    "spread",
    "overrides",
];

const RULE: Shape = Shape {
    known: &[&[
        "name",
        "clusterSelector",
        "clusters",
        "allowEmpty",
        "replicas",
        "weights",
        "weightBy",
        "perCluster",
    ]],
    refused: &[],
};
const WEIGHT_BY: Shape = Shape {
    known: &[&["label", "allocatable"]],
    refused: &[],
};
const SPREAD: Shape = Shape {
    known: &[&["topologyKey", "maxSkew", "whenUnsatisfiable"]],
    refused: &[],
};
const BOUNDS: Shape = Shape {
    known: &[&["min", "max"]],
    refused: &[],
};
const TOLERATION: Shape = Shape {
    known: &[&["key", "operator", "value", "effect", "tolerationSeconds"]],
    refused: &[],
};
const EXPRESSION: Shape = Shape {
    known: &[&["key", "operator", "values"]],
    refused: &[],
};

/// Reads the placement among the fields of `object`.
pub(super) fn read(object: &Object<'_>, what_to_do: &str) -> PlacementSpec {
    let rules = object.required("placement", what_to_do);
    if let Some(rules) = rules
        .as_ref()
        .filter(|r| r.value.as_array().is_some_and(Vec::is_empty))
    {
        rules.refuse(format!("is empty: {what_to_do}"));
    }
    let mut names = BTreeSet::new();
    let placement: Vec<Rule> = rules
        .and_then(|rules| rules.list())
        .unwrap_or_default()
        .iter()
        .enumerate()
        .filter_map(|(index, node)| rule(index, node, &mut names))
        .collect();
    let overrides = object.list("overrides");
    let overrides = overrides
        .iter()
        .filter_map(|node| overrides::read(node, &placement));
    PlacementSpec {
        overrides: overrides.collect(),
        spread: object.optional("spread").and_then(|node| spread(&node, object)),
        placement,
        remainder: object
            .optional("remainder")
            .and_then(|node| node.word(&[("Hold", Remainder::Hold), ("Spread", Remainder::Spread)]))
            .unwrap_or_default(),
        rebalance: object
            .optional("rebalance")
            .and_then(|node| node.word(&[("OnChange", Rebalance::OnChange), ("Never", Rebalance::Never)]))
            .unwrap_or_default(),
        tolerations: tolerations(object),
        max_clusters: object
            .optional("maxClusters")
            .and_then(|node| node.integer(1, MAX_REPLICAS)),
    }
}

fn spread(node: &Node<'_>, placement: &Object<'_>) -> Option<Spread> {
    let object = node.object(&SPREAD)?;
    if !placement.has_any(&["maxClusters"]) {
        node.refuse("needs maxClusters: without it every cluster is chosen and there is nothing to spread");
    }
    let topology_key = object
        .required("topologyKey", "name a cluster label, such as region")
        .and_then(|node| label_key(&node));
    let max_skew = object
        .required(
            "maxSkew",
            "say by how many chosen clusters two values may differ, such as 1",
        )
        .and_then(|node| node.integer(1, MAX_REPLICAS));
    let when_unsatisfiable = object.optional("whenUnsatisfiable").and_then(|node| {
        node.word(&[
            ("DoNotSchedule", WhenUnsatisfiable::DoNotSchedule),
            ("ScheduleAnyway", WhenUnsatisfiable::ScheduleAnyway),
        ])
    });
    Some(Spread {
        topology_key: topology_key?,
        max_skew: max_skew?,
        when_unsatisfiable: when_unsatisfiable.unwrap_or_default(),
    })
}

/// A label key: an optional DNS prefix and `/`, then at most 63 letters, digits, `-`, `_` or `.`.
fn label_key(node: &Node<'_>) -> Option<String> {
    let key = node.text()?;
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let legal = name.len() <= 63
        && name.bytes().all(inner)
        && ends(name.bytes().next())
        && ends(name.bytes().last())
        && key.len() <= 253 + 64;
    if !legal {
        node.refuse(format!(
            "{key:?} is no label key: use an optional DNS name and /, then at most 63 letters, digits, '-', '_' or '.'"
        ));
        return None;
    }
    Some(key.to_owned())
}

fn weight_by(node: &Node<'_>) -> Option<WeightBy> {
    let object = node.object(&WEIGHT_BY)?;
    match (object.optional("label"), object.optional("allocatable")) {
        (Some(label), None) => label_key(&label).map(WeightBy::Label),
        (None, Some(resource)) => label_key(&resource).map(WeightBy::Allocatable),
        _ => {
            node.refuse("needs one of label (a cluster label whose value is the weight) and allocatable (a resource, such as cpu)");
            None
        }
    }
}

fn rule(index: usize, node: &Node<'_>, names: &mut BTreeSet<String>) -> Option<Rule> {
    let object = node.object(&RULE)?;
    let name_node = object.optional("name");
    let name = name_node.as_ref().and_then(|node| {
        let name = node.string()?;
        if let Err(error) = check_dns_label("rule name", name, MAX_APPLICATION_NAME) {
            node.refuse(error.to_string());
        }
        Some(name.to_owned())
    });
    let unique = name.clone().unwrap_or_else(|| format!("rule-{index}"));
    if !names.insert(unique.clone()) {
        let reason =
            format!("rule name {unique:?} is used twice in this placement: give each rule its own name");
        name_node.as_ref().unwrap_or(node).refuse(reason);
    }
    Some(Rule {
        name,
        cluster_selector: object
            .not_null("clusterSelector", "to select every cluster")
            .map(|node| selector(&node)),
        clusters: object
            .not_null("clusters", "to select by label only")
            .map(|node| clusters(&node, "rule")),
        allow_empty: object
            .optional("allowEmpty")
            .and_then(|node| node.boolean())
            .unwrap_or_default(),
        replicas: object
            .not_null("replicas", "to give every selected cluster the full count")
            .and_then(|node| share(&node)),
        weights: object
            .optional("weights")
            .map(|node| weights(&node))
            .unwrap_or_default(),
        weight_by: object.optional("weightBy").and_then(|node| {
            if object.has_any(&["weights"]) {
                node.refuse("cannot be used beside weights: keep one of them");
            }
            weight_by(&node)
        }),
        per_cluster: object.optional("perCluster").and_then(|node| bounds(&node)),
    })
}

fn share(node: &Node<'_>) -> Option<ReplicaShare> {
    let share = serde_json::from_value(node.value.clone());
    share.map_err(|error| node.refuse(error.to_string())).ok()
}

/// Names of clusters that a rule or an override selects.
pub(super) fn clusters(node: &Node<'_>, what: &str) -> Vec<String> {
    let mut names = Vec::new();
    let entries = node.list();
    if entries.as_ref().is_some_and(Vec::is_empty) {
        node.refuse(format!(
            "is empty, so that the {what} selects no cluster: name clusters, or leave it out"
        ));
    }
    for entry in entries.unwrap_or_default() {
        let Some(name) = entry.string() else { continue };
        if let Err(error) = ClusterName::new(name) {
            entry.refuse(error.to_string());
        } else if names.iter().any(|n| n == name) {
            entry.refuse(format!("cluster {name:?} is listed twice"));
        }
        names.push(name.to_owned());
    }
    names
}

fn weights(node: &Node<'_>) -> BTreeMap<String, u32> {
    let mut weights = BTreeMap::new();
    for (cluster, weight) in node.entries().unwrap_or_default() {
        if let Err(error) = ClusterName::new(cluster) {
            weight.refuse(error.to_string());
        }
        if let Some(weight) = weight.integer(0, MAX_REPLICAS) {
            weights.insert(cluster.to_owned(), weight);
        }
    }
    weights
}

fn bounds(node: &Node<'_>) -> Option<Bounds> {
    let object = node.object(&BOUNDS)?;
    let bound = |name: &str| {
        object
            .optional(name)
            .and_then(|node| node.integer(0, MAX_REPLICAS))
    };
    let bounds = Bounds {
        min: bound("min"),
        max: bound("max"),
    };
    if let (Some(min), Some(max)) = (bounds.min, bounds.max)
        && min > max
    {
        node.refuse(format!("min {min} is above max {max}: no count satisfies both"));
    }
    Some(bounds)
}

/// Either form of a selector. Each label and each requirement is looked at by itself, so that all bad ones are named.
pub(super) fn selector(node: &Node<'_>) -> ClusterSelector {
    if let Ok(selector) = ClusterSelector::from_value(node.value) {
        return selector;
    }
    // The same test as the selector's own: a label may be called `matchLabels`.
    let structured = |key: &str| node.value.get(key).is_some_and(|value| !value.is_string());
    let Some(entries) = node.entries() else {
        return ClusterSelector::default();
    };
    if !structured("matchLabels") && !structured("matchExpressions") {
        for (_, value) in entries {
            value.string();
        }
        return ClusterSelector::default();
    }
    for (key, value) in entries {
        match key {
            "matchLabels" if !value.value.is_null() => {
                for (_, label) in value.entries().unwrap_or_default() {
                    label.string();
                }
            }
            "matchExpressions" if !value.value.is_null() => {
                for entry in value.list().unwrap_or_default() {
                    requirement(&entry);
                }
            }
            "matchLabels" | "matchExpressions" => {}
            _ => value.refuse(
                "unknown field beside matchLabels and matchExpressions: put labels under matchLabels",
            ),
        }
    }
    ClusterSelector::default()
}

fn requirement(node: &Node<'_>) {
    let Some(object) = node.object(&EXPRESSION) else {
        return;
    };
    let values = object.optional("values").map(|node| node.strings());
    let key = object
        .required("key", "name a label")
        .and_then(|node| node.text());
    let operator = object.required("operator", "use In, NotIn, Exists or DoesNotExist");
    let known = operator.and_then(|node| {
        let words = ["In", "NotIn", "Exists", "DoesNotExist"].map(|word| (word, ()));
        node.word(&words)
    });
    // What is left is the relation between operator and values.
    if key.is_some() && known.is_some() && values != Some(None) {
        let alone = json!({"matchExpressions": [known_fields(node.value)]});
        if let Err(error) = ClusterSelector::from_value(&alone) {
            let reason = error.to_string();
            node.refuse(reason.strip_prefix("matchExpressions[0]: ").unwrap_or(&reason));
        }
    }
}

/// The requirement without unknown fields, which have been named already.
fn known_fields(requirement: &Value) -> Value {
    let fields = EXPRESSION
        .names()
        .filter_map(|key| Some((key.to_owned(), requirement.get(key)?.clone())));
    Value::Object(fields.collect())
}

/// `tolerations`.
pub(super) fn tolerations(object: &Object<'_>) -> Vec<Toleration> {
    object.list("tolerations").iter().filter_map(toleration).collect()
}

/// The rules of Kubernetes' own tolerations.
fn toleration(node: &Node<'_>) -> Option<Toleration> {
    let object = node.object(&TOLERATION)?;
    let text = |name: &str| {
        object
            .optional(name)
            .and_then(|node| node.string())
            .map(str::to_owned)
    };
    let toleration = Toleration {
        key: text("key"),
        operator: object.optional("operator").and_then(|node| {
            node.word(&[
                ("Exists", TolerationOperator::Exists),
                ("Equal", TolerationOperator::Equal),
            ])
        }),
        value: text("value"),
        effect: object.optional("effect").and_then(|node| {
            node.word(&[
                ("NoSchedule", TaintEffect::NoSchedule),
                ("NoExecute", TaintEffect::NoExecute),
            ])
        }),
        toleration_seconds: object
            .optional("tolerationSeconds")
            .and_then(|node| seconds(&node)),
    };
    let exists = toleration.operator == Some(TolerationOperator::Exists);
    if exists && toleration.value.as_deref().is_some_and(|value| !value.is_empty()) {
        object.refuse("operator Exists takes no value: leave value out, or use Equal");
    }
    if !exists && object.optional("key").is_none_or(|key| key.value == "") {
        object
            .refuse("without a key only operator Exists makes sense (it tolerates every taint): name a key");
    }
    if object.has_any(&["tolerationSeconds"]) && toleration.effect != Some(TaintEffect::NoExecute) {
        object.refuse("tolerationSeconds needs effect: NoExecute");
    }
    Some(toleration)
}

fn seconds(node: &Node<'_>) -> Option<i64> {
    let seconds = node.value.as_i64();
    if seconds.is_none() {
        let found = super::node::shown(node.value);
        node.refuse(format!("expected a number of seconds, found {found}"));
    }
    seconds
}
