//! Paths: which fields of a live object a patch of ours would change. Names only, never a value: they may be secret.

use crate::drift::spelling::{is_left_out, may_be_respelled, same_meaning};
use crate::path::{FieldPath, Step};
use roundhouse_patch::schema::{Node, lookup};
use serde_json::{Map, Value};

/// One field that a patch would change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference<'a> {
    pub(crate) path: FieldPath,
    /// The kind of the object, if it is a built-in one.
    pub(crate) kind: Option<&'a str>,
    /// What the patch says; null removes the field.
    pub(crate) ours: &'a Value,
    /// What the live object has; `None` if it lacks the field.
    pub(crate) theirs: Option<&'a Value>,
}

impl Difference<'_> {
    /// Whether it is more than another spelling of the same value, or a default that the server filled in.
    pub(crate) fn is_real(&self) -> bool {
        match self.theirs {
            Some(theirs) => !same_meaning(self.kind, &self.path, self.ours, theirs),
            None => !self.ours.is_null() && !is_left_out(self.kind, &self.path, self.ours),
        }
    }

    /// In the server's answer to the very write that set the field: whether the server decided otherwise. A field that is
    /// missing from the answer may be one that the cluster's schema does not know; only where every name is allowed was
    /// it taken out. A field that was to go and is there again has its default.
    pub(crate) fn is_overruled(&self) -> bool {
        match self.theirs {
            Some(theirs) => !self.ours.is_null() && !may_be_respelled(&self.path, self.ours, theirs),
            None => {
                let free = [
                    &["metadata", "labels"][..],
                    &["metadata", "annotations"],
                    &["data"],
                ];
                self.is_real() && free.iter().any(|fields| self.path.is_below(fields))
            }
        }
    }
}

/// The fields of `live` that `patch` would change, in the order of the patch. A patch that changes something which has
/// no path of its own (the order of a list) is a difference of the whole object.
pub(crate) fn differences<'a>(patch: &'a Value, live: &'a Value) -> Vec<Difference<'a>> {
    let text = |field: &str| live.get(field).and_then(Value::as_str).unwrap_or_default();
    let schema = lookup(text("apiVersion"), text("kind"));
    let mut walk = Walk {
        kind: schema.map(|_| text("kind")),
        found: Vec::new(),
    };
    if let (Some(patch), Some(live)) = (patch.as_object(), live.as_object()) {
        walk.object(patch, live, schema, &FieldPath::default());
    }
    walk.found
}

struct Walk<'a> {
    /// The kind of the object, if it is a built-in one: then the patch is a strategic one.
    kind: Option<&'a str>,
    found: Vec<Difference<'a>>,
}

impl<'a> Walk<'a> {
    fn push(&mut self, path: FieldPath, ours: &'a Value, theirs: Option<&'a Value>) {
        let kind = self.kind;
        self.found.push(Difference {
            path,
            kind,
            ours,
            theirs,
        });
    }

    fn object(
        &mut self,
        patch: &'a Map<String, Value>,
        live: &'a Map<String, Value>,
        node: Option<&'static Node>,
        path: &FieldPath,
    ) {
        for (name, ours) in patch {
            if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
                self.push(path.field(list), ours, live.get(list));
                continue;
            }
            if self.kind.is_some() && name.starts_with('$') {
                continue;
            }
            let field = node.and_then(|node| node.field(name));
            let child = field
                .and_then(|field| field.child)
                .or_else(|| node.and_then(|node| node.values));
            let path = path.field(name);
            match (ours, live.get(name)) {
                (Value::Null, None) => {}
                (Value::Object(patch), Some(Value::Object(live))) if !patch.is_empty() => {
                    self.object(patch, live, child, &path);
                }
                (Value::Object(patch), None) if !patch.is_empty() => {
                    // Each field of it on its own, so that the paths of an object do not depend on what else is there.
                    static NOTHING: std::sync::LazyLock<Map<String, Value>> =
                        std::sync::LazyLock::new(Map::new);
                    self.object(patch, &NOTHING, child, &path);
                }
                (Value::Array(patch), Some(Value::Array(live)))
                    if field.is_some_and(|field| field.strategy.merges()) =>
                {
                    match field.and_then(|field| field.merge_key) {
                        Some(key) => self.elements(patch, live, key, child, &path),
                        None => {
                            if let Some(item) = patch.iter().find(|item| !live.contains(item)) {
                                self.push(path, item, None);
                            }
                        }
                    }
                }
                (ours, theirs) if theirs == Some(ours) => {}
                (ours, theirs) => self.push(path, ours, theirs),
            }
        }
    }

    fn elements(
        &mut self,
        patch: &'a [Value],
        live: &'a [Value],
        key: &str,
        node: Option<&'static Node>,
        path: &FieldPath,
    ) {
        for element in patch {
            let Some(id) = element.get(key) else { continue };
            let theirs = live.iter().find(|live| live.get(key) == Some(id));
            let path = path.then(Step::element(key, id));
            match (element.as_object(), theirs) {
                (Some(patch), theirs) if patch.get("$patch").is_some_and(|what| what == "delete") => {
                    if theirs.is_some() {
                        self.push(path, &Value::Null, theirs);
                    }
                }
                (Some(patch), Some(Value::Object(live))) => self.object(patch, live, node, &path),
                (_, theirs) => self.push(path, element, theirs),
            }
        }
    }
}

/// Paths as a person reads them, at most `max` of them.
pub(crate) fn list<'a>(paths: impl Iterator<Item = &'a str>, max: usize) -> String {
    let all: Vec<&str> = paths.collect();
    let more = all.len().saturating_sub(max);
    let shown: Vec<&str> = all.into_iter().take(max).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths(patch: &Value, live: &Value) -> Vec<String> {
        let found = differences(patch, live);
        found.iter().map(|found| found.path.to_string()).collect()
    }

    #[test]
    fn a_patch_names_the_fields_that_it_would_change() {
        let live = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"labels": {"app.oam.dev/name": "x", "a": "b"}, "finalizers": ["x/y"]},
            "spec": {"replicas": 5, "paused": true, "template": {"spec": {"containers": [
                {"name": "main", "image": "i:2", "env": [{"name": "A", "value": "1"}]}, {"name": "side", "image": "s"}],
                "tolerations": [{"key": "a"}]}}}});
        for (patch, expected) in [
            (json!({"spec": {"replicas": 3}}), vec!["spec.replicas"]),
            (json!({"spec": {"replicas": 5}}), vec![]),
            (
                json!({"spec": {"paused": null, "minReadySeconds": null}}),
                vec!["spec.paused"],
            ),
            (
                json!({"metadata": {"labels": {"app.oam.dev/name": "y", "new": "z"}}}),
                vec![r#"metadata.labels["app.oam.dev/name"]"#, "metadata.labels.new"],
            ),
            (
                json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "main"}], "containers": [
                    {"name": "main", "image": "i:1", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
                    {"name": "side", "$patch": "delete"}]}}}}),
                vec![
                    "spec.template.spec.containers[name=main].env[name=A].value",
                    "spec.template.spec.containers[name=main].env[name=B]",
                    "spec.template.spec.containers[name=main].image",
                    "spec.template.spec.containers[name=side]",
                ],
            ),
            (
                json!({"spec": {"template": {"spec": {"tolerations": [{"key": "b"}]}}}}),
                vec!["spec.template.spec.tolerations"],
            ),
            (
                json!({"metadata": {"finalizers": ["x/y", "z/z"]}}),
                vec!["metadata.finalizers"],
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/y"]}}),
                vec!["metadata.finalizers"],
            ),
            (
                json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1}}}}),
                vec!["spec.strategy.rollingUpdate.maxSurge"],
            ),
        ] {
            assert_eq!(paths(&patch, &live), expected, "{patch}");
        }
        // A custom kind may have fields that look like directives.
        let custom = json!({"apiVersion": "x.io/v1", "kind": "Widget", "spec": {"$a": 1, "list": [1]}});
        assert_eq!(
            paths(&json!({"spec": {"$a": 2, "list": [2]}}), &custom),
            ["spec.$a", "spec.list"]
        );
    }

    #[test]
    fn a_spelling_or_a_default_is_no_real_difference() {
        let difference = |path: &[&str], ours: &Value, theirs: Option<&Value>| {
            let path = FieldPath(path.iter().map(|name| Step::Field((*name).into())).collect());
            let difference = Difference {
                path,
                kind: Some("Deployment"),
                ours,
                theirs,
            };
            (difference.is_real(), difference.is_overruled())
        };
        let (cpu, size, network, token, label, data) = (
            &["spec", "limits", "cpu"][..],
            &["spec", "size"][..],
            &["spec", "template", "spec", "hostNetwork"][..],
            &["spec", "template", "spec", "automountServiceAccountToken"][..],
            &["metadata", "labels", "a"][..],
            &["data", "k"][..],
        );
        for (path, ours, theirs, expected) in [
            (cpu, json!("1000m"), Some(json!("1")), (false, false)),
            (cpu, json!("1000m"), Some(json!("2")), (true, true)),
            // The server's own answer is a proof; later it may be an edit.
            (size, json!("1000m"), Some(json!("1")), (true, false)),
            (cpu, json!({}), None, (false, false)),
            // The cluster's schema may not know it.
            (cpu, json!(1), None, (true, false)),
            // A server stores no field that is nothing anyway; it does where without it something else holds.
            (network, json!(false), None, (false, false)),
            (network, json!(true), None, (true, false)),
            (network, json!(false), Some(json!(true)), (true, true)),
            (token, json!(false), None, (true, false)),
            (label, json!(""), None, (true, true)),
            (label, json!("x"), None, (true, true)),
            (data, json!("1000m"), Some(json!("1")), (true, true)),
        ] {
            assert_eq!(
                difference(path, &ours, theirs.as_ref()),
                expected,
                "{path:?} {ours} {theirs:?}"
            );
        }
    }

    #[test]
    fn lists_of_paths_are_bounded() {
        assert_eq!(list(["a", "b"].into_iter(), 2), "a, b");
        assert_eq!(list(["a", "b", "c"].into_iter(), 1), "a and 2 more");
    }
}
