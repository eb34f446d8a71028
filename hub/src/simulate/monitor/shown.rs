//! Whether an object of a member is what a manifest asks for, as far as that can be said whatever the kind.

use crate::simulate::raw::name;
use serde_json::Value;

/// Fields whose values servers write in another way than people: quantities; and those that they do not keep.
const REWRITTEN: [&str; 7] = [
    "resources",
    "sizeLimit",
    "limits",
    "requests",
    "capacity",
    "hard",
    "stringData",
];

/// What of an object a manifest asks for, but for its metadata.
const APART: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// How much of a manifest its object has, or had at some moment since it was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// It was as the manifest says.
    pub(super) applied: bool,
    /// It was so, and what runs of it was up to date and available.
    pub(super) ready: bool,
}

impl Shown {
    /// Adds what an object shows now. `scaled`: somebody else says how many replicas there are.
    pub(super) fn add(&mut self, manifest: &Value, live: &Value, scaled: bool) {
        if self.ready || !is_as(manifest, live, scaled) {
            return;
        }
        self.applied = true;
        self.ready = is_ready(manifest, live);
    }
}

/// Whether an object has what a manifest says: of what is there under other names, or would be written in another way, nothing is said.
fn is_as(manifest: &Value, live: &Value, scaled: bool) -> bool {
    let fields = manifest.as_object().into_iter().flatten();
    let mut fields = fields.filter(|(field, _)| !APART.contains(&field.as_str()));
    fields.all(|(field, wanted)| match (field.as_str(), live.get(field)) {
        ("spec", Some(live)) if scaled => {
            let mut wanted = wanted.clone();
            if let Some(spec) = wanted.as_object_mut() {
                spec.remove("replicas");
            }
            has(&wanted, live)
        }
        ("data" | "binaryData", Some(live)) => {
            let keys = wanted.as_object().into_iter().flatten();
            let mut keys = keys.filter(|(_, value)| !value.is_null());
            keys.all(|(key, value)| live.get(key) == Some(value))
        }
        (_, Some(live)) => REWRITTEN.contains(&field.as_str()) || has(wanted, live),
        ("data" | "binaryData", None) => wanted.as_object().is_none_or(serde_json::Map::is_empty),
        (_, None) => true,
    })
}

fn has(wanted: &Value, live: &Value) -> bool {
    match (wanted, live) {
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().all(|(field, value)| {
            let other = live.get(field);
            REWRITTEN.contains(&field.as_str()) || other.is_none_or(|live| has(value, live))
        }),
        (Value::Array(wanted), Value::Array(live)) => wanted.iter().all(|element| match name(element) {
            Some(own) => live
                .iter()
                .any(|live| name(live) == Some(own) && has(element, live)),
            None => element.is_object() || live.contains(element),
        }),
        (Value::Number(wanted), Value::Number(live)) => wanted.as_f64() == live.as_f64(),
        (wanted, live) => wanted == live,
    }
}

/// Whether the controller of a workload has seen it, and runs as much as it asks for, of the newest; of other kinds nothing is said.
fn is_ready(manifest: &Value, live: &Value) -> bool {
    let number = |at: &str| live.pointer(at).and_then(Value::as_i64);
    let status = |field: &str| number(&format!("/status/{field}")).unwrap_or(0);
    let wanted = number("/spec/replicas").unwrap_or(1);
    let is_seen = || status("observedGeneration") >= number("/metadata/generation").unwrap_or(0);
    match manifest.get("kind").and_then(Value::as_str) {
        Some("Deployment") => {
            is_seen() && status("updatedReplicas") >= wanted && status("availableReplicas") >= wanted
        }
        Some("StatefulSet") => is_seen() && status("readyReplicas") >= wanted,
        Some("DaemonSet") => is_seen() && status("numberAvailable") >= status("desiredNumberScheduled"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(manifest: &Value, live: &Value, scaled: bool) -> [bool; 2] {
        let mut shown = Shown::default();
        shown.add(manifest, live, scaled);
        [shown.applied, shown.ready]
    }

    #[test]
    fn what_others_add_or_write_in_another_way_is_no_difference() {
        let containers = |all: Value| json!({"kind": "Pod", "spec": {"containers": all}});
        let web = json!({"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "1000m"}}});
        let live = json!({"name": "web", "image": "web:1", "terminationMessagePath": "/dev/termination-log",
            "resources": {"limits": {"cpu": "1"}}});
        let sidecar = json!({"name": "mesh", "image": "mesh:1"});
        let other = json!({"name": "web", "image": "web:2"});
        for (wanted, live, same) in [
            (containers(json!([web])), containers(json!([sidecar, live])), true),
            (containers(json!([web])), containers(json!([sidecar])), false),
            (containers(json!([web])), containers(json!([other])), false),
            (
                json!({"data": {"a": "1"}}),
                json!({"data": {"a": "1", "b": "2"}}),
                true,
            ),
            (json!({"data": {"a": "1"}}), json!({"data": {"a": "2"}}), false),
            (json!({"data": {"a": "1"}}), json!({"data": {"b": "2"}}), false),
            (json!({"data": {"a": "1"}}), json!({}), false),
            (json!({"data": {"a": null}}), json!({"data": {}}), true),
            (
                json!({"stringData": {"a": "1"}}),
                json!({"data": {"a": "MQ=="}}),
                true,
            ),
            (
                json!({"spec": {"list": ["a"]}}),
                json!({"spec": {"list": ["b", "a"]}}),
                true,
            ),
            (
                json!({"spec": {"list": ["a"]}}),
                json!({"spec": {"list": ["b"]}}),
                false,
            ),
            (
                json!({"spec": {"list": [{"port": 1}]}}),
                json!({"spec": {"list": []}}),
                true,
            ),
            (json!({"spec": {"unknown": 1}}), json!({"spec": {}}), true),
            (
                json!({"spec": {"count": 1}}),
                json!({"spec": {"count": 1.0}}),
                true,
            ),
            (
                json!({"metadata": {"labels": {"a": "b"}}}),
                json!({"metadata": {}}),
                true,
            ),
        ] {
            assert_eq!(shown(&wanted, &live, false)[0], same, "{wanted} {live}");
        }
        let wanted = json!({"kind": "Deployment", "spec": {"replicas": 2}});
        let live = json!({"spec": {"replicas": 5}});
        assert_eq!(shown(&wanted, &live, false), [false, false]);
        assert_eq!(
            shown(&wanted, &live, true),
            [true, false],
            "somebody else scales it"
        );
    }

    #[test]
    fn a_workload_is_ready_when_its_controller_has_seen_it_and_all_of_it_runs() {
        let live =
            |status: Value| json!({"metadata": {"generation": 2}, "spec": {"replicas": 3}, "status": status});
        let all = json!({"observedGeneration": 2, "updatedReplicas": 3, "availableReplicas": 3, "readyReplicas": 3,
            "desiredNumberScheduled": 3, "numberAvailable": 3});
        let less = |field: &str| {
            let mut less = all.clone();
            less[field] = json!(1);
            less
        };
        for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
            let manifest = json!({"kind": kind, "spec": {"replicas": 3}});
            assert_eq!(
                shown(&manifest, &live(all.clone()), false),
                [true, true],
                "{kind}"
            );
            let seen = live(less("observedGeneration"));
            assert_eq!(shown(&manifest, &seen, false), [true, false], "{kind}");
        }
        for (kind, field) in [
            ("Deployment", "updatedReplicas"),
            ("Deployment", "availableReplicas"),
            ("StatefulSet", "readyReplicas"),
            ("DaemonSet", "numberAvailable"),
        ] {
            let manifest = json!({"kind": kind, "spec": {"replicas": 3}});
            let shown = shown(&manifest, &live(less(field)), false);
            assert_eq!(shown, [true, false], "{kind} {field}");
        }
        assert_eq!(
            shown(&json!({"kind": "Service"}), &json!({}), false),
            [true, true]
        );
    }

    #[test]
    fn what_was_so_once_is_kept() {
        let manifest = json!({"kind": "ConfigMap", "data": {"a": "1"}});
        let mut shown = Shown::default();
        shown.add(&manifest, &json!({"data": {"a": "1"}}), false);
        shown.add(&manifest, &json!({"data": {"a": "2"}}), false);
        assert!(shown.applied && shown.ready);
        let web = json!({"kind": "Deployment", "spec": {"replicas": 1}});
        let mut shown = Shown::default();
        shown.add(&web, &json!({"spec": {"replicas": 1}}), false);
        shown.add(&web, &json!({"spec": {"replicas": 2}}), false);
        assert_eq!((shown.applied, shown.ready), (true, false));
    }
}
