//! Capacity over several steps: of a workload a later step replaces an earlier one, different workloads add up.

use super::fixture::{Case, cluster, workload};
use crate::placement::{PlacingStep, Request, StepDecision, place_by_component};
use roundhouse_api::decision::WorkloadRef;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// These steps for a cluster `a` with room for ten, and a `b` that says nothing of its own; `web` and `api` of so many.
fn case(steps: [Value; 2], web: u32, api: Option<u32>) -> Case {
    let mut a = cluster("a", "");
    a.capacity = Some(10);
    let [first, second] = steps;
    let mut case = Case::default()
        .step("first", first)
        .step("second", second)
        .clusters([a, cluster("b", "")])
        .web(web);
    case.workloads
        .extend(api.map(|replicas| workload("api", replicas)));
    case
}

fn rules(rules: &Value) -> Value {
    json!({ "placement": rules })
}

/// Everything in full on these clusters.
fn full(clusters: &[&str]) -> Value {
    rules(&json!([{ "clusters": clusters }]))
}

/// So many on `a`.
fn on_a(replicas: u32) -> Value {
    rules(&json!([{"clusters": ["a"], "replicas": replicas}]))
}

/// What each step gives `a`, workload by workload.
fn given(decisions: &[StepDecision]) -> Vec<Vec<u32>> {
    let of_step = |decision: &StepDecision| {
        let workloads = decision.workloads.iter();
        workloads
            .map(|workload| {
                let rows = workload.clusters.iter().filter(|row| row.name == "a");
                rows.map(|row| row.replicas).sum()
            })
            .collect()
    };
    decisions.iter().map(of_step).collect()
}

#[test]
fn a_later_step_takes_the_room_of_the_one_that_it_replaces() {
    // A canary, then everywhere: on the canary it is the same ten.
    let canary = case([full(&["a"]), full(&["a", "b"])], 10, None);
    let decisions = canary.place();
    assert_eq!(given(&decisions), [[10], [10]]);
    assert!(decisions.iter().all(|decision| decision.satisfied));
    // What is divided is replaced as well.
    let divided = case([on_a(6), on_a(9)], 15, None);
    assert_eq!(given(&divided.place()), [[6], [9]]);
    let mixed = case([on_a(6), full(&["a"])], 9, None);
    assert_eq!(given(&mixed.place()), [[6], [9]]);
    // Each of them is bounded for itself.
    let bounded = case([full(&["a"]), full(&["a"])], 12, None);
    assert_eq!(given(&bounded.place()), [[10], [10]]);
    // It is decided again in the same way, and when a run has passed the first step.
    let again = canary.clone().following(&decisions);
    assert_eq!(given(&again.place()), [[10], [10]]);
    let mut passed = canary;
    let specs: Vec<_> = decisions.iter().map(StepDecision::to_spec).collect();
    passed.previous = crate::placement::Previous::from_decisions(&specs).passing(&specs[..1]);
    assert_eq!(given(&passed.place()), [[10], [10]]);
}

#[test]
fn different_workloads_add_up_at_every_step_of_a_run() {
    // As much of the second as is there while the first is replaced.
    let same = case([full(&["a"]), full(&["a", "b"])], 6, Some(6));
    assert_eq!(given(&same.place()), [[6, 4], [6, 4]]);
    // What grows later is kept free from the beginning; what shrinks gives room when it has shrunk.
    let grows = case([on_a(2), on_a(6)], 8, Some(8));
    assert_eq!(given(&grows.place()), [[2, 2], [6, 4]]);
    let shrinks = case([on_a(6), on_a(2)], 8, Some(8));
    assert_eq!(given(&shrinks.place()), [[6, 4], [2, 2]]);
    // A step that gives nothing replaces nothing.
    let keeps = case([full(&["a"]), full(&["b"])], 6, Some(6));
    assert_eq!(given(&keeps.place()), [[6, 4], [0, 0]]);
    let later = case([full(&["b"]), full(&["a"])], 6, Some(6));
    assert_eq!(given(&later.place()), [[0, 0], [6, 4]]);
}

/// The same, each step dispatching one component; `None` for all of them.
fn by_component(case: &Case, only: [Option<&str>; 2]) -> Vec<Vec<u32>> {
    let steps: Vec<PlacingStep<'_>> = case
        .steps
        .iter()
        .map(|(name, spec)| PlacingStep { name, spec })
        .collect();
    let request = Request {
        application: "default/shop",
        steps: &steps,
        workloads: &case.workloads,
        inventory: &case.clusters.iter().cloned().collect(),
        previous: &case.previous,
        now: case.now,
    };
    let workloads_of = |component: &str| {
        let workloads = case.workloads.iter().map(|workload| workload.key.clone());
        workloads
            .filter(|key: &WorkloadRef| key.name == component)
            .collect::<BTreeSet<_>>()
    };
    given(&place_by_component(&request, &only, workloads_of))
}

#[test]
fn steps_of_single_components_share_the_room() {
    let on = |first: &[&str], second: &[&str]| case([full(first), full(second)], 6, Some(6));
    let (a, both) = (&["a"][..], &["a", "b"][..]);
    // Whichever comes first has the room.
    assert_eq!(by_component(&on(a, both), [Some("web"), Some("api")]), [[6], [4]]);
    assert_eq!(by_component(&on(a, both), [Some("api"), Some("web")]), [[6], [4]]);
    // One that a step of everything gave before is replaced.
    assert_eq!(
        by_component(&on(a, a), [None, Some("web")]),
        [vec![6, 4], vec![6]]
    );
    assert_eq!(
        by_component(&on(a, a), [Some("api"), None]),
        [vec![6], vec![4, 6]]
    );
    // What stands has its room, whoever comes first.
    let mut passed = on(a, a);
    let mut specs = Vec::new();
    let only = [Some("web"), Some("api")];
    let alone = Case {
        workloads: vec![workload("api", 6)],
        ..passed.clone()
    };
    for mut decision in alone.place() {
        decision.workloads.iter_mut().for_each(|w| w.clusters.truncate(1));
        specs.push(decision.to_spec());
    }
    passed.previous = crate::placement::Previous::from_decisions(&specs).passing(&specs[1..]);
    assert_eq!(by_component(&passed, only), [[4], [6]]);
}
