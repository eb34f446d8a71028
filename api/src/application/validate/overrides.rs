//! Overrides of a placement.

use super::{
    node::{Node, Shape, choice},
    placement::{clusters, selector},
};
use crate::placement::{Change, Override, OverrideTarget, Rule, pieces};
use serde_json::{Map, Value};

const OVERRIDE: Shape = Shape {
    known: &[&[
        "rule",
        "clusterSelector",
        "clusters",
        "target",
        "patch",
        "jsonPatch",
    ]],
    refused: &[],
};
const TARGET: Shape = Shape {
    known: &[&["kind", "name", "apiVersion", "namespace"]],
    refused: &[],
};
const OPERATION: Shape = Shape {
    known: &[&["op", "path", "value", "from"]],
    refused: &[],
};
const OPERATIONS: [(&str, &str); 6] = [
    ("add", "add"),
    ("remove", "remove"),
    ("replace", "replace"),
    ("move", "move"),
    ("copy", "copy"),
    ("test", "test"),
];

/// Fields that make an object the one that it is.
const IDENTITY: [&[&str]; 4] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
];

/// The fields that placement writes, by kind.
fn counts(kind: &str) -> &'static [&'static [&'static str]] {
    match kind {
        "Deployment" | "StatefulSet" | "ReplicaSet" | "CloneSet" => &[&["spec", "replicas"]],
        "Job" => &[&["spec", "parallelism"], &["spec", "completions"]],
        _ => &[],
    }
}

/// Refuses a change of a component of this kind that makes another object of it, or that placement divides. `field` is a
/// JSON pointer.
pub(super) fn check_change(node: &Node<'_>, field: &str, kind: Option<&str>) {
    for path in IDENTITY.iter().chain(counts(kind.unwrap_or_default())) {
        let pointer = format!("/{}", path.join("/"));
        if pointer != field && !pointer.starts_with(&format!("{field}/")) {
            continue;
        }
        let path_shown = path.join(".");
        return node.refuse(match (pointer == field, IDENTITY.contains(path)) {
            (true, true) => format!("{path_shown} may not be patched: it would be another object"),
            (true, false) => {
                format!("{path_shown} may not be patched: placement divides it; say in a rule how many a cluster gets")
            }
            (false, _) => format!("holds {path_shown}, which may not be patched: name the fields that change"),
        });
    }
}

/// As [`check_change`], of a map that is merged.
pub(super) fn check_merge(node: &Node<'_>, kind: Option<&str>) {
    for path in IDENTITY.iter().chain(counts(kind.unwrap_or_default())) {
        let pointer = format!("/{}", path.join("/"));
        if node.value.pointer(&pointer).is_some() {
            check_change(node, &pointer, kind);
        }
    }
}

/// Reads one override of a placement with these rules.
pub(super) fn read(node: &Node<'_>, rules: &[Rule]) -> Option<Override> {
    let object = node.object(&OVERRIDE)?;
    let rule = object.optional("rule").and_then(|node| {
        let name = node.text()?;
        let names: Vec<String> = rules
            .iter()
            .enumerate()
            .map(|(i, r)| r.name_or_index(i))
            .collect();
        if !names.iter().any(|known| known == name) {
            let known = choice(name, names.iter().map(String::as_str));
            node.refuse(format!(
                "there is no rule named {name:?} in this placement{known}"
            ));
        }
        Some(name.to_owned())
    });
    let cluster_selector = object
        .not_null("clusterSelector", "to change every cluster")
        .map(|node| selector(&node));
    let clusters = object
        .not_null("clusters", "to select by label only")
        .map(|node| clusters(&node, "override"));
    let target = object
        .required("target", "name the object, such as {kind: Deployment, name: web}")
        .and_then(|node| target(&node));
    let kind = target.as_ref().map_or("", |target| target.kind.as_str());
    let change = match (object.optional("patch"), object.optional("jsonPatch")) {
        (Some(patch), None) => merge_patch(&patch, kind).map(Change::Patch),
        (None, Some(operations)) => json_patch(&operations, kind).map(Change::JsonPatch),
        (Some(_), Some(_)) => {
            object.refuse("has patch and jsonPatch: use one of them, and a second override for the other");
            None
        }
        (None, None) => {
            object.refuse(
                "changes nothing: set patch (a JSON merge patch) or jsonPatch (a list of operations)",
            );
            None
        }
    };
    Some(Override {
        rule,
        cluster_selector,
        clusters,
        target: target?,
        change: change?,
    })
}

fn target(node: &Node<'_>) -> Option<OverrideTarget> {
    let object = node.object(&TARGET)?;
    let kind = object.required("kind", "name the kind, such as Deployment").and_then(|node| {
        let kind = node.text()?;
        if kind == "Secret" {
            node.refuse(
                "a Secret cannot be overridden, because Decisions would repeat its values: use one Secret per variant",
            );
        }
        Some(kind.to_owned())
    });
    let name = object
        .required("name", "name the object as the component does")
        .and_then(|node| Some(node.text()?.to_owned()));
    let text = |field: &str| Some(object.optional(field)?.text()?.to_owned());
    Some(OverrideTarget {
        kind: kind?,
        name: name?,
        api_version: text("apiVersion"),
        namespace: text("namespace"),
    })
}

fn merge_patch(node: &Node<'_>, kind: &str) -> Option<Map<String, Value>> {
    let entries = node.entries()?;
    if entries.is_empty() {
        node.refuse("is empty, so that it changes nothing: name the fields that change");
    }
    for path in IDENTITY.iter().chain(counts(kind)) {
        let mut at = node.clone();
        for (depth, key) in path.iter().enumerate() {
            let Some(value) = at.value.get(key) else { break };
            at = at.child(key, value);
            let last = depth + 1 == path.len();
            if last || !value.is_object() {
                at.refuse(protected(path, &path[..=depth], last));
                break;
            }
        }
    }
    for (_, value) in entries {
        variables(&value);
    }
    node.value.as_object().cloned()
}

/// Why a field cannot be changed, or what holds it cannot be replaced as a whole.
fn protected(path: &[&str], at: &[&str], last: bool) -> String {
    let (field, at) = (path.join("."), at.join("."));
    match (last, IDENTITY.contains(&path)) {
        (true, true) => format!("an override may not change {field}: it would be another object"),
        (true, false) => {
            format!(
                "an override may not change {field}, which placement divides: say in a rule how many a cluster gets"
            )
        }
        (false, _) => {
            let whole = if at.is_empty() { "the whole object" } else { &at };
            format!(
                "an override may not replace {whole}, because {field} is in it: name the fields that change"
            )
        }
    }
}

fn json_patch(node: &Node<'_>, kind: &str) -> Option<Vec<Value>> {
    let operations = node.list()?;
    if operations.is_empty() {
        node.refuse("is empty, so that it changes nothing: list operations, such as {op: add, path: /data/a, value: b}");
    }
    for operation in &operations {
        check_operation(operation, kind);
    }
    node.value.as_array().cloned()
}

fn check_operation(node: &Node<'_>, kind: &str) {
    let Some(object) = node.object(&OPERATION) else {
        return;
    };
    let path = object
        .required(
            "path",
            "name the field, such as /spec/template/spec/containers/0/image",
        )
        .and_then(|node| pointer(&node).map(|path| (node, path)));
    let Some(op) = object
        .required("op", "use add, remove, replace, move, copy or test")
        .and_then(|node| node.word(&OPERATIONS))
    else {
        return;
    };
    if let Some((node, path)) = path
        && op != "test"
    {
        check_pointer(&node, &path, kind);
    }
    match op {
        "add" | "replace" | "test" => match object.present("value") {
            Some(value) => variables(&value),
            None => object.refuse(format!("operation {op} needs a value")),
        },
        "move" | "copy" => {
            let from = object.required("from", "name the field to take");
            let from = from.and_then(|node| pointer(&node).map(|path| (node, path)));
            if let Some((node, path)) = from
                && op == "move"
            {
                check_pointer(&node, &path, kind);
            }
        }
        _ => {}
    }
}

/// The unescaped segments of a JSON pointer.
fn pointer(node: &Node<'_>) -> Option<Vec<String>> {
    let text = node.string()?;
    if text.is_empty() {
        return Some(Vec::new());
    }
    let Some(rest) = text.strip_prefix('/') else {
        node.refuse(format!(
            "{text:?} is no JSON pointer: start it with /, as in /spec/template/metadata/labels/a"
        ));
        return None;
    };
    Some(
        rest.split('/')
            .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
            .collect(),
    )
}

fn check_pointer(node: &Node<'_>, segments: &[String], kind: &str) {
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    for path in IDENTITY.iter().chain(counts(kind)) {
        if segments.starts_with(path) {
            return node.refuse(protected(path, path, true));
        }
        if path.starts_with(&segments) {
            return node.refuse(protected(path, &segments, false));
        }
    }
}

/// Refuses strings whose variables are none.
fn variables(node: &Node<'_>) {
    match node.value {
        Value::String(text) => {
            if let Err(error) = pieces(text) {
                node.refuse(error.to_string());
            }
        }
        Value::Array(_) => node.list().unwrap_or_default().iter().for_each(variables),
        Value::Object(_) => {
            let entries = node.entries().unwrap_or_default();
            entries.iter().for_each(|(_, value)| variables(value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
