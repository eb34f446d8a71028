//! A run as a value.

use super::{never, script::Made, timeline};
use crate::{
    cli::plan,
    simulate::{monitor::Promise, run::Outcome},
};
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
    let says: serde_json::Map<String, Value> = Promise::ALL
        .iter()
        .map(|promise| (format!("{promise:?}"), promise.says().into()))
        .collect();
    let decisions: Vec<Value> = outcome
        .decisions
        .iter()
        .flat_map(|decision| {
            let of = &decision.application_ref;
            let application = format!("{}/{}", of.namespace, of.name);
            let workloads = decision.workloads.iter();
            workloads.map(move |workload| plan::of_workload(&application, &decision.step, workload))
        })
        .collect();
    // What has no replicas to divide is placed, too.
    let placed: Vec<Value> = outcome
        .decisions
        .iter()
        .map(|decision| {
            let of = &decision.application_ref;
            json!({"application": format!("{}/{}", of.namespace, of.name), "step": decision.step,
                "clusters": decision.clusters, "satisfied": decision.satisfied, "reasons": decision.reasons})
        })
        .collect();
    json!({
        "seed": outcome.seed,
        "clusters": made.script.members.len(),
        "applications": made.applications,
        "delivered": outcome.delivered_at.is_some(),
        "deliveredAt": outcome.delivered_at.map(seconds),
        "seconds": seconds(timeline::known_at(outcome)),
        "writes": outcome.writes,
        "waits": outcome.waits,
        "faults": faults,
        "never": never::of(made, outcome),
        "decisions": decisions,
        "placed": placed,
        "judged": outcome.judged.iter().map(|promise| format!("{promise:?}")).collect::<Vec<_>>(),
        "says": says,
        "broken": broken,
        "failures": failures,
        "timeline": timeline,
        "trace": outcome.trace.digest(),
    })
}
