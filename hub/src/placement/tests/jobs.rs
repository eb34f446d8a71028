//! Jobs are divided once per revision.

use super::fixture::{Case, cluster, numbers, unplaced};
use crate::placement::{Previous, decision_hash};
use roundhouse_api::decision::DecisionSpec;
use serde_json::json;

fn job(replicas: u32, names: &[&str]) -> Case {
    let spec = json!({"placement": [{"name": "r", "replicas": "90%"}]});
    let mut case = Case::new(spec, replicas, names.iter().map(|name| cluster(name, "")));
    case.workloads[0].key.kind = "Job".to_owned();
    case
}

fn stored(case: &Case) -> Vec<DecisionSpec> {
    let specs = case.place().into_iter().map(|decision| DecisionSpec {
        step: decision.step,
        revision: "app-v1".to_owned(),
        workloads: decision.workloads,
        clusters: decision.clusters,
        ..DecisionSpec::default()
    });
    specs.collect()
}

#[test]
fn a_job_is_divided_once_per_revision() {
    let first = job(10, &["a", "b"]);
    let stored = stored(&first);
    let mut grown = job(10, &["a", "b", "c"]);
    grown.previous = Previous::from_decisions_at("app-v1", &stored);
    let again = grown.place();
    let before = numbers(&first.place());
    assert_eq!(numbers(&again), before, "a cluster that joins gets nothing of it");
    assert_eq!(again[0].clusters, ["a", "b"]);
    assert_eq!(unplaced(&again), [(None, 1, "Unclaimed")]);
    assert!(again[0].satisfied);
    // Deciding again writes nothing.
    let mut same = job(10, &["a", "b"]);
    same.previous = Previous::from_decisions_at("app-v1", &stored);
    assert_eq!(decision_hash(&same.place()[0]), decision_hash(&first.place()[0]));
    // The next revision is divided anew.
    grown.previous = Previous::from_decisions_at("app-v2", &stored);
    assert_eq!(numbers(&grown.place()), [3, 3, 3]);
    // So is anything that is no Job.
    let mut deployment = Case::new(
        json!({"placement": [{"name": "r", "replicas": "90%"}]}),
        10,
        grown.clusters,
    );
    deployment.previous = Previous::from_decisions_at("app-v1", &stored);
    assert_eq!(numbers(&deployment.place()), [3, 3, 3]);
}

#[test]
fn what_a_lost_cluster_had_of_a_job_is_unplaced_and_named() {
    let stored = stored(&job(10, &["a", "b", "c"]));
    let mut lost = job(10, &["a", "c"]);
    lost.previous = Previous::from_decisions_at("app-v1", &stored);
    let decisions = lost.place();
    assert_eq!(numbers(&decisions), [3, 3]);
    assert_eq!(
        unplaced(&decisions),
        [(Some("r"), 3, "DividedOnce"), (None, 1, "Unclaimed")]
    );
    assert_eq!(decisions[0].workloads[0].placed, 6);
    assert!(!decisions[0].satisfied);
    assert_eq!(
        decisions[0].reasons,
        [
            "3 replicas of Job default/web lost the clusters that rule r gave them to, and a Job is divided once per revision: \
          change the Job to divide it anew"
        ]
    );
}

#[test]
fn a_job_that_no_cluster_got_is_divided_when_one_comes() {
    let stored = stored(&job(10, &[]));
    assert_eq!(stored[0].workloads.len(), 1);
    let mut joined = job(10, &["a", "b", "c"]);
    joined.previous = Previous::from_decisions_at("app-v1", &stored);
    assert_eq!(numbers(&joined.place()), [3, 3, 3]);
}
