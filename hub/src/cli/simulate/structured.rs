//! A run as a value.

use super::script::Made;
use crate::simulate::run::Outcome;
use serde_json::{Value, json};
use std::time::Duration;

/// Everything that is known of a run.
pub(super) fn of(made: &Made, outcome: &Outcome) -> Value {
    let seconds = |time: Duration| time.as_secs_f64();
    let timeline: Vec<Value> = outcome
        .timeline
        .iter()
        .map(|event| json!({"at": seconds(event.at), "cluster": event.who, "what": event.what}))
        .collect();
    let broken: Vec<Value> = outcome
        .broken
        .iter()
        .map(|broken| {
            json!({"promise": format!("{:?}", broken.promise), "says": broken.promise.says(), "at": seconds(broken.at),
                "object": broken.object.to_string(), "expected": broken.expected, "found": broken.found})
        })
        .collect();
    let failures: Vec<Value> = outcome
        .failures
        .iter()
        .map(|failure| json!({"at": seconds(failure.at), "what": failure.what}))
        .collect();
    let faults: serde_json::Map<String, Value> = outcome
        .seen
        .iter()
        .map(|(kind, count)| (kind.to_string(), (*count).into()))
        .collect();
    json!({
        "seed": outcome.seed,
        "clusters": made.script.members.len(),
        "applications": made.applications,
        "delivered": outcome.converged_after.is_some(),
        "seconds": seconds(outcome.took),
        "writes": outcome.writes,
        "waits": outcome.waits,
        "faults": faults,
        "broken": broken,
        "failures": failures,
        "timeline": timeline,
        "trace": outcome.trace.digest(),
    })
}
