//! Events, as Kubernetes checks them (`pkg/apis/core/validation/events.go`): differently by the group that they are written
//! through, and by whether they say when they happened.

use serde_json::Value;

use crate::{
    error::Cause,
    kinds::Resource,
    names,
    object::{at, meta, text},
};

/// Longest note, in bytes.
const NOTE: usize = 1_024;
/// Longest reason, action and name of an instance, in bytes.
const WORD: usize = 128;

/// What is wrong with an event; `new` if it is being created.
pub(super) fn check_event(resource: &Resource, value: &Value, new: bool) -> Vec<Cause> {
    let mut out = vec![];
    let own_group = !resource.group.is_empty();
    let (about, note, controller) = if own_group {
        ("regarding", "note", "reportingController")
    } else {
        ("involvedObject", "message", "reportingComponent")
    };
    let word = |field: &str| text(value, &[field]).unwrap_or_default();
    let timed = !word("eventTime").is_empty();
    let (home, place) = (
        meta(value, "namespace"),
        text(value, &[about, "namespace"]).unwrap_or_default(),
    );
    let fits = match place {
        "" => home == "default" || (timed && home == "kube-system"),
        // One that says when it happened may be told elsewhere.
        place => timed || place == home,
    };
    if !fits {
        let why = "does not match event.namespace";
        // In both groups Kubernetes names the field so.
        out.push(Cause::invalid_value(
            "involvedObject.namespace",
            Some(&place.into()),
            why,
        ));
    }
    if timed {
        words(value, controller, &mut out);
        if word(note).len() > NOTE {
            let why = format!("Invalid value: \"\": can have at most {NOTE} characters");
            out.push(Cause::invalid("message", why));
        }
    }
    if own_group {
        series(value, &mut out);
        if new {
            check_new(value, &mut out);
        }
    }
    out
}

fn words(value: &Value, controller: &str, out: &mut Vec<Cause>) {
    let word = |field: &str| text(value, &[field]).unwrap_or_default();
    let reporter = word(controller);
    if reporter.is_empty() {
        out.push(Cause::required(controller, "Required value"));
    }
    for why in names::qualified_name(reporter)
        .into_iter()
        .filter(|_| !reporter.is_empty())
    {
        out.push(Cause::invalid_value(controller, Some(&reporter.into()), &why));
    }
    for field in ["reportingInstance", "action", "reason"] {
        let text = word(field);
        if text.is_empty() {
            out.push(Cause::required(field, "Required value"));
        } else if text.len() > WORD {
            let why = format!("Invalid value: \"\": can have at most {WORD} characters");
            out.push(Cause::invalid(field, why));
        }
    }
}

fn series(value: &Value, out: &mut Vec<Cause>) {
    let Some(series) = value.get("series").filter(|series| !series.is_null()) else {
        return;
    };
    if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        let why = "Invalid value: \"\": should be at least 2";
        out.push(Cause::invalid("series.count", why));
    }
    if text(series, &["lastObservedTime"]).unwrap_or_default().is_empty() {
        out.push(Cause::required("series.lastObservedTime", "Required value"));
    }
}

/// What the newer group asks of a new event beside that.
fn check_new(value: &Value, out: &mut Vec<Cause>) {
    let word = |field: &str| text(value, &[field]).unwrap_or_default();
    if word("eventTime").is_empty() {
        out.push(Cause::required("eventTime", "Required value"));
    }
    if !matches!(word("type"), "Normal" | "Warning") {
        let why = format!("Invalid value: \"\": has invalid value: {}", word("type"));
        out.push(Cause::invalid("type", why));
    }
    for field in [
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "deprecatedCount",
    ] {
        if at(value, &[field]).is_some_and(|v| !v.is_null() && v.as_i64() != Some(0)) {
            out.push(Cause::invalid(field, "Invalid value: \"\": needs to be unset"));
        }
    }
}
