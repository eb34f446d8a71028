//! Jobs: the selector the server generates, and what of a Job may not change.

use serde_json::{Map, Value, json};

use super::{defaults::default, immutable::unchanged};
use crate::{
    error::Cause,
    object::{at, child, set, text},
};

/// The labels by which a Job knows its pods, and where they come from.
const PREFIXES: [&str; 2] = ["batch.kubernetes.io/", ""];
const CONTROLLER: &str = "batch.kubernetes.io/controller-uid";

/// Gives a new Job its selector and its pods the labels it goes by, from its uid. What is there already stays, for the
/// checks to complain about.
pub(super) fn generate_selector(spec: &mut Map<String, Value>, uid: &str, name: &str) {
    let labels = child(spec, "selector").and_then(|s| child(s, "matchLabels"));
    if let Some(labels) = labels {
        default(labels, CONTROLLER, uid);
    }
    let labels = child(spec, "template")
        .and_then(|t| child(t, "metadata"))
        .and_then(|m| child(m, "labels"));
    if let Some(labels) = labels {
        for prefix in PREFIXES {
            default(labels, &format!("{prefix}controller-uid"), uid);
            default(labels, &format!("{prefix}job-name"), name);
        }
    }
}

/// A selector that was not set by hand is the generated one.
pub(super) fn check_selector(value: &Value, out: &mut Vec<Cause>) {
    if at(value, &["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let Some(selector) = at(value, &["spec", "selector"]) else {
        return;
    };
    let uid = text(value, &["metadata", "uid"]).unwrap_or_default();
    let generated = json!({"matchLabels": {CONTROLLER: uid}});
    // Jobs made before 1.27 go by the label without a prefix.
    let before = json!({"matchLabels": {"controller-uid": uid}});
    if *selector != generated && *selector != before {
        let why = "`selector` not auto-generated";
        out.push(Cause::invalid_value("spec.selector", Some(selector), why));
    }
}

/// What an update of a Job changes although it may not (`ValidateJobSpecUpdate`).
pub(super) fn check_update(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    completions(old, new, out);
    unchanged(old, new, &["spec", "selector"], out);
    template(old, new, out);
    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        unchanged(old, new, &["spec", key], out);
    }
}

/// Completions stay, but those of an indexed Job may change together with its parallelism.
fn completions(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    let indexed = text(new, &["spec", "completionMode"]) == Some("Indexed");
    let path = &["spec", "completions"];
    let (was, is) = (at(old, path), at(new, path));
    if !indexed {
        unchanged(old, new, path, out);
    } else if was != is && is != at(new, &["spec", "parallelism"]) {
        let why = "can only be modified in tandem with spec.parallelism";
        out.push(Cause::invalid_value("spec.completions", is, why));
    }
}

/// The pod template stays. Until a Job that is suspended has first started, where its pods may go can be changed.
fn template(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    const PATH: [&str; 2] = ["spec", "template"];
    let suspended = at(old, &["spec", "suspend"]) == Some(&Value::Bool(true));
    let started = at(old, &["status", "startTime"]).is_some();
    let mut was = old.clone();
    if suspended && !started {
        for path in [
            &["metadata", "labels"][..],
            &["metadata", "annotations"],
            &["spec", "nodeSelector"],
            &["spec", "tolerations"],
            &["spec", "schedulingGates"],
            &["spec", "affinity", "nodeAffinity"],
        ] {
            let [parents @ .., key] = path else { continue };
            let wanted = at(new, &[&PATH[..], path].concat()).cloned();
            let mut place = was.pointer_mut("/spec/template");
            for parent in parents {
                place = place.and_then(|p| p.get_mut(*parent));
            }
            if let Some(place) = place {
                set(place, key, wanted);
            }
        }
    }
    unchanged(&was, new, &PATH, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Value {
        json!({"metadata": {"uid": "u"}, "spec": {"completions": 3, "parallelism": 3,
            "selector": {"matchLabels": {CONTROLLER: "u"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never"}}}})
    }

    fn fields(old: &Value, new: &Value) -> Vec<String> {
        let mut out = vec![];
        check_update(old, new, &mut out);
        out.into_iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn what_may_change() {
        let table = [
            ("/spec/parallelism", json!(1), vec![]),
            ("/spec/suspend", json!(true), vec![]),
            (
                "/spec/completions",
                json!(4),
                vec!["spec.completions: Invalid value: 4: field is immutable"],
            ),
            (
                "/spec/managedBy",
                json!("x/y"),
                vec!["spec.managedBy: Invalid value: \"x/y\": field is immutable"],
            ),
            (
                "/spec/template/spec/nodeSelector",
                json!({"a": "b"}),
                vec![
                    "spec.template: Invalid value: {\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"nodeSelector\":{\"a\":\"b\"},\"restartPolicy\":\"Never\"}}: field is immutable",
                ],
            ),
        ];
        for (path, value, expected) in table {
            let mut new = job();
            let (parent, key) = path.rsplit_once('/').unwrap();
            new.pointer_mut(parent).unwrap()[key] = value;
            assert_eq!(fields(&job(), &new), expected, "{path}");
        }
    }

    #[test]
    fn indexed_jobs_grow_with_their_parallelism() {
        let mut old = job();
        old["spec"]["completionMode"] = json!("Indexed");
        let mut new = old.clone();
        new["spec"]["completions"] = json!(5);
        assert_eq!(
            fields(&old, &new),
            ["spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism"]
        );
        new["spec"]["parallelism"] = json!(5);
        assert_eq!(fields(&old, &new), [] as [String; 0]);
    }

    #[test]
    fn a_suspended_job_may_be_sent_elsewhere_until_it_starts() {
        let mut old = job();
        old["spec"]["suspend"] = json!(true);
        let mut new = old.clone();
        new["spec"]["suspend"] = json!(false);
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
        new["spec"]["template"]["metadata"]["labels"] = json!({"a": "c"});
        assert_eq!(fields(&old, &new), [] as [String; 0]);
        old["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(fields(&old, &new).len(), 1);
        new["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
        old["status"] = json!({});
        assert_eq!(fields(&old, &new).len(), 1);
    }
}
