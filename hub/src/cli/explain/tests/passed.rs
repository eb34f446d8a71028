//! While a run is under way, what it has passed stands.

use super::{application, facts, hands::Hub};
use serde_json::{Value, json};

/// East was divided by this run, or an earlier one, when e2 was not there; west is to come.
fn hub(kind: &str, workflow: impl Fn(&str) -> Value) -> Hub {
    let rule = |region: &str, count: u32| json!({"placement": [{"name": region, "replicas": count, "clusterSelector": {"region": region}}]});
    let steps = json!([
        {"name": "east", "type": "deploy", "properties": rule("east", 7)},
        {"name": "west", "type": "deploy", "properties": rule("west", 3)}]);
    let mut spec = application(10, &steps);
    if kind == "Job" {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "checkout", "namespace": "default"}, "spec": {"parallelism": 10}});
        spec["components"] =
            json!([{"name": "checkout", "type": "k8s-objects", "properties": {"objects": [job]}}]);
    }
    let fleet = [
        facts("e1", &[("region", "east")]),
        facts("w1", &[("region", "west")]),
    ];
    let mut hub = Hub::new(spec, fleet).deliver();
    let revision = hub.foreseen().unwrap().revision;
    for decision in &mut hub.decisions {
        decision.spec.revision.clone_from(&revision);
    }
    hub.workflow = Some(workflow(&revision));
    let joined = facts("e2", &[("region", "east")]);
    hub.clusters.insert("e2".to_owned(), joined);
    hub
}

/// The status of a run in which both steps are in these phases.
fn run(revision: &str, status: &str, east: &str, west: &str) -> Value {
    let step = |name: &str, phase: &str| json!({"name": name, "type": "deploy", "phase": phase, "firstExecuteTime": "1970-01-01T00:00:00Z"});
    json!({"appRevision": revision, "generation": 1, "status": status, "finished": status == "succeeded",
        "steps": [step("east", east), step("west", west)]})
}

/// Reason, detail, replicas and what decides of a cluster in the first step.
fn east(hub: &Hub, cluster: &str) -> Value {
    let step = &hub.explained(cluster)[0];
    json!([
        step["reason"],
        step["detail"],
        step["replicas"],
        step["decisive"]["found"]
    ])
}

#[test]
fn a_step_that_the_run_has_passed_is_explained_as_it_stands() {
    let passed = hub("Deployment", |revision| {
        run(revision, "running", "succeeded", "running")
    });
    assert_eq!(
        east(&passed, "e2"),
        json!([
            "ZeroShare",
            "DividedBefore",
            0,
            "what is divided stands, and it came later"
        ])
    );
    assert_eq!(east(&passed, "e1"), json!(["Placed", null, 7, null]));
    // What would have it placed is a run that begins anew.
    let ways = &passed.explained("e2")[0]["flips"]["ways"];
    assert!(ways.as_array().is_some_and(|ways| !ways.is_empty()), "{ways:#}");
    let mut taken = passed.take("e2", &ways[0]);
    taken.workflow = None;
    assert_eq!(east(&taken, "e2")[0], "Placed", "{ways:#}");
    // A step at work follows the fleet, and all do when the run has succeeded.
    let at_work = hub("Deployment", |revision| {
        run(revision, "running", "running", "pending")
    });
    let ended = hub("Deployment", |revision| {
        run(revision, "succeeded", "succeeded", "succeeded")
    });
    let other = hub("Deployment", |_| {
        run("checkout-v0", "running", "succeeded", "running")
    });
    for hub in [at_work, ended, other] {
        assert_eq!(east(&hub, "e2")[0], "Placed");
    }
}

#[test]
fn a_job_is_explained_as_it_was_divided() {
    let ended = hub("Job", |revision| {
        run(revision, "succeeded", "succeeded", "succeeded")
    });
    assert_eq!(
        east(&ended, "e2"),
        json!([
            "ZeroShare",
            "DividedBefore",
            0,
            "what is divided stands, and it came later"
        ])
    );
}
