//! Steps that take away what earlier steps have applied in clusters.

use super::*;
use crate::workflow::HeldObject;

fn applies() -> Value {
    in_clusters("flags", "apply-object", &json!([]))
}

fn takes() -> Value {
    json!({"name": "away", "type": "delete-object",
        "properties": {"clusters": ["c1"], "apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}})
}

fn asks() -> Value {
    json!({"name": "ask", "type": "suspend"})
}

/// A Bundle of the step on a cluster that is named.
fn held(step: &str, cluster: &str) -> HeldObject {
    HeldObject {
        step: step.to_owned(),
        cluster: cluster.to_owned(),
        named: true,
        gone: false,
    }
}

impl Flow {
    /// These clusters have what the step takes away, or say that they had it.
    fn there(&mut self, step: &str, clusters: &[&str]) -> String {
        let held = clusters.iter().map(|cluster| held("flags", cluster));
        self.evidence.held.insert(step.to_owned(), held.collect());
        self.settle()
    }

    fn held(&mut self, clusters: &[&str]) -> String {
        self.there("away", clusters)
    }

    fn noted(&self, step: &str) -> Vec<String> {
        let workflow = self.status.workflow.as_ref().unwrap();
        workflow.step(step).unwrap().clusters.clone()
    }

    /// The reach of the steps that have objects, and from how many steps each is kept away.
    fn kept_away(&self) -> Vec<(String, Option<Reach>, usize)> {
        let all = objects(&self.spec, self.status.workflow.as_ref());
        all.into_iter()
            .map(|object| (object.step.name.clone(), object.reach, object.taken_by.len()))
            .collect()
    }
}

fn of(flags: Option<Reach>, kept: usize, away: Option<Reach>) -> Vec<(String, Option<Reach>, usize)> {
    vec![("flags".to_owned(), flags, kept), ("away".to_owned(), away, 0)]
}

use Reach::{Live, Placed, Unreached};

#[test]
fn what_is_taken_away_stays_away_until_a_run_begins_anew() {
    let mut flow = Flow::new(&json!([applies(), takes(), asks()]));
    flow.settle();
    assert_eq!(flow.kept_away(), of(Some(Live), 0, Some(Unreached)));
    flow.held(&["c1", "c2"]);
    assert_eq!(
        flow.objects("flags", &[Ready, Ready]),
        "RunningWorkflow flags:succeeded away:running ask:pending"
    );
    assert!(flow.effects.contains(&Effect::Dispatch {
        step: "away".to_owned()
    }));
    assert_eq!(flow.noted("away"), ["c1", "c2"]);
    assert_eq!(flow.kept_away(), of(Some(Placed), 1, Some(Live)));
    assert_eq!(
        flow.objects("away", &[Unreachable]),
        "RunningWorkflow flags:succeeded away:running ask:pending"
    );
    assert_eq!(
        flow.objects("away", &[]),
        "RunningWorkflow flags:succeeded away:running ask:pending",
        "nobody has said anything"
    );
    assert_eq!(
        flow.objects("away", &[Ready]),
        "WorkflowSuspending flags:succeeded away:succeeded ask:suspending"
    );
    // Its Bundles may go now.
    assert!(flow.noted("away").is_empty());
    flow.held(&[]);
    assert_eq!(flow.kept_away(), of(Some(Placed), 1, Some(Placed)));
    flow.workflow().suspend = false;
    assert_eq!(
        flow.settle(),
        "Running flags:succeeded away:succeeded ask:succeeded"
    );
    assert_eq!(flow.kept_away(), of(Some(Live), 1, None));
    // The step that took away says nothing of the application's health; the one that applied does.
    flow.evidence.objects.remove("away");
    assert_eq!(
        flow.settle(),
        "Running flags:succeeded away:succeeded ask:succeeded"
    );
    assert_eq!(
        flow.objects("flags", &[Failed]),
        "Unhealthy flags:succeeded away:succeeded ask:succeeded"
    );
    // From the step that applies on: it is applied, and taken away again.
    flow.objects("flags", &[Ready]);
    flow.workflow().restart_from = Some("flags".to_owned());
    flow.evidence.objects.clear();
    assert_eq!(
        flow.settle(),
        "RunningWorkflow flags:running away:pending ask:pending"
    );
    assert_eq!(flow.kept_away(), of(Some(Live), 0, Some(Unreached)));
    // So does the next revision.
    flow.objects("flags", &[Ready]);
    flow.objects("away", &[Ready]);
    flow.spec.generation = 3;
    flow.evidence.objects.clear();
    assert_eq!(
        flow.settle(),
        "RunningWorkflow flags:running away:pending ask:pending"
    );
    assert_eq!(flow.kept_away(), of(Some(Live), 0, Some(Unreached)));
}

#[test]
fn a_restart_from_the_step_asks_again_and_keeps_the_object_away_meanwhile() {
    let mut flow = Flow::new(&json!([applies(), takes()]));
    flow.settle();
    flow.held(&["c1"]);
    flow.objects("flags", &[Ready]);
    assert_eq!(
        flow.objects("away", &[Ready]),
        "Running flags:succeeded away:succeeded"
    );
    flow.held(&[]);
    flow.evidence.objects.remove("away");
    flow.workflow().restart_from = Some("away".to_owned());
    assert_eq!(flow.settle(), "RunningWorkflow flags:succeeded away:running");
    assert_eq!(flow.kept_away(), of(Some(Placed), 1, Some(Live)));
    assert!(flow.noted("away").is_empty());
    assert_eq!(
        flow.objects("away", &[Ready]),
        "Running flags:succeeded away:succeeded"
    );
}

#[test]
fn bundles_that_vanish_without_a_report_hold_the_step_until_they_are_back() {
    let mut flow = Flow::new(&json!([applies(), takes()]));
    flow.settle();
    flow.held(&["c1", "c2", "c3"]);
    flow.objects("flags", &[Ready, Ready]);
    // As many as before, and not the same ones: another cluster has joined.
    flow.held(&["c1", "c3", "c9"]);
    for shown in [placed(&[Ready]), StepEvidence::AllowedEmpty] {
        flow.evidence.objects.insert("away".to_owned(), shown);
        assert_eq!(flow.settle(), "RunningWorkflow flags:succeeded away:running");
        assert_eq!(
            flow.message("away"),
            "the bundles of step flags vanished from c2 before their agents reported that the object is gone: waiting until \
             these are back and report it; a restart from this step no longer waits for clusters that have left"
        );
    }
    assert_eq!(
        flow.held(&["c1", "c2", "c3"]),
        "Running flags:succeeded away:succeeded"
    );
}

#[test]
fn a_step_notes_the_clusters_that_it_names_where_a_step_of_this_run_has_left_something_to_take() {
    let mut flow = Flow::new(&json!([
        applies(),
        with(
            with(applies(), "name", json!("west")),
            "if",
            json!("context.status == \"never\"")
        ),
        takes()
    ]));
    flow.settle();
    let not_named = HeldObject {
        named: false,
        ..held("flags", "c2")
    };
    let reported = HeldObject {
        gone: true,
        ..held("flags", "c3")
    };
    let of_earlier = held("west", "c4");
    let all = vec![held("flags", "c1"), not_named, reported, of_earlier];
    flow.evidence.held.insert("away".to_owned(), all);
    flow.objects("flags", &[Ready]);
    assert_eq!(flow.noted("away"), ["c1"]);
    // Who is not named goes as it likes.
    flow.held(&["c1"]);
    assert_eq!(
        flow.objects("away", &[Ready]),
        "Running flags:succeeded west:skipped away:succeeded"
    );
}

#[test]
fn two_steps_take_from_different_clusters_one_after_the_other() {
    let second = with(
        with(takes(), "name", json!("away2")),
        "properties",
        json!({"clusters": ["c2"], "apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}),
    );
    let mut flow = Flow::new(&json!([applies(), takes(), second]));
    flow.settle();
    let elsewhere = |cluster| HeldObject {
        named: false,
        ..held("flags", cluster)
    };
    let there = [
        ("away", vec![held("flags", "c1"), elsewhere("c2")]),
        ("away2", vec![elsewhere("c1"), held("flags", "c2")]),
    ];
    flow.evidence.held = there.map(|(step, held)| (step.to_owned(), held)).into();
    flow.objects("flags", &[Ready, Ready]);
    assert_eq!(
        flow.objects("away", &[Ready]),
        "RunningWorkflow flags:succeeded away:succeeded away2:running"
    );
    assert_eq!(flow.noted("away2"), ["c2"]);
    // What the first has taken away is released.
    flow.held(&[]);
    flow.there("away2", &["c2"]);
    assert_eq!(
        flow.objects("away2", &[Ready]),
        "Running flags:succeeded away:succeeded away2:succeeded"
    );
}

#[test]
fn where_nothing_was_applied_nothing_is_taken_away() {
    for (applies, expected, message) in [
        (
            with(applies(), "if", json!("false")),
            "Running flags:skipped away:skipped",
            "step flags was skipped",
        ),
        (
            with(
                applies(),
                "inputs",
                json!([{"from": "context.nothing", "parameterKey": "value.data.a"}]),
            ),
            "WorkflowFailed flags:failed/Input away:skipped",
            "step flags has applied nothing",
        ),
    ] {
        let mut flow = Flow::new(&json!([applies, with(takes(), "if", json!("always"))]));
        // What an earlier run has applied goes when this one has succeeded, if at all.
        flow.evidence
            .held
            .insert("away".to_owned(), vec![held("flags", "c1")]);
        assert_eq!(flow.settle(), expected);
        assert_eq!(flow.message("away"), message);
        assert!(flow.kept_away().iter().all(|(.., kept)| *kept == 0));
    }
}

#[test]
fn what_an_apply_that_failed_has_left_behind_is_taken_away_where_that_is_asked_for() {
    let mut flow = Flow::new(&json!([
        with(applies(), "timeout", json!("1m")),
        with(takes(), "if", json!("always")),
    ]));
    flow.settle();
    flow.held(&["c1", "c2"]);
    assert_eq!(
        flow.after(60),
        "RunningWorkflow flags:failed/Timeout away:running"
    );
    assert_eq!(flow.kept_away(), of(Some(Placed), 1, Some(Live)));
    assert_eq!(
        flow.objects("away", &[Ready]),
        "WorkflowFailed flags:failed/Timeout away:succeeded"
    );
    assert_eq!(flow.kept_away(), of(Some(Placed), 1, Some(Placed)));
}

#[test]
fn more_failed_clusters_than_allowed_fail_the_step() {
    let mut step = takes();
    step["properties"]["clusters"] = json!({});
    step["properties"]["maxFailedClusters"] = json!(1);
    let mut flow = Flow::new(&json!([applies(), step]));
    flow.settle();
    flow.objects("flags", &[Ready, Ready, Ready]);
    assert_eq!(
        flow.objects("away", &[Failed, Ready, Ready]),
        "RunningWorkflow flags:succeeded away:running"
    );
    assert_eq!(
        flow.objects("away", &[Failed, Failed, Ready]),
        "WorkflowFailed flags:succeeded away:failed/Action"
    );
    assert_eq!(
        flow.message("away"),
        "2 clusters failed, more than maxFailedClusters 1: c0 (Failed), c1 (Failed)"
    );
}
