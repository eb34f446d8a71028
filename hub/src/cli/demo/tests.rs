//! What a newcomer reads, from the objects of a hub.

use super::{
    outcome, samples, story,
    tree::{Style, draw, line},
    view::{Objects, State, View, view},
};
use roundhouse_api::{application::Application, bundle::Bundle, decision::Decision};
use serde_json::{Value, json};

const PLAIN: Style = Style { color: false };

/// The seed's application on five clusters, `ready` of whose bundles are ready.
struct Scene {
    application: Application,
    decision: Decision,
    bundles: Vec<Bundle>,
}

const PLACED: [(&str, &str, u32); 5] = [
    ("east-1", "rule-0", 2),
    ("east-2", "rule-0", 3),
    ("east-3", "rule-0", 2),
    ("west-1", "rule-1", 1),
    ("west-2", "rule-1", 1),
];

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Scene {
    fn with(ready: &[&str]) -> Scene {
        let mut application = samples::read(samples::SEED).unwrap();
        let delivered = ready.len() == PLACED.len();
        application.metadata.generation = Some(1);
        application.status = parse(json!({
            "observedGeneration": 1,
            "phase": if delivered { "running" } else { "runningWorkflow" },
            "latestRevision": {"name": "web-v1", "revision": 1, "revisionHash": "x"},
            "workflow": {"message": "waiting for clusters"},
            "conditions": [condition("Accepted", true), condition("Delivered", delivered)],
        }));
        let reference = json!({"namespace": "default", "name": "web", "uid": "u"});
        let assignments: Vec<Value> = (PLACED.iter())
            .map(|(name, rule, replicas)| json!({"name": name, "rule": rule, "replicas": replicas}))
            .collect();
        let decision = parse(json!({
            "apiVersion": "roundhouse.dev/v1alpha1", "kind": "Decision", "metadata": {"name": "web-step-0"},
            "spec": {"applicationRef": reference, "step": "step-0", "revision": "web-v1", "epoch": 1, "hash": "h",
                "satisfied": true, "replicas": 10, "placed": 9, "unplaced": 1, "clusterCount": 5,
                "reasons": ["1 of 10 replicas is not placed: no rule claims it (percentages sum to 90%)"],
                "workloads": [{"workload": {"kind": "Deployment", "namespace": "default", "name": "web"},
                    "replicas": 10, "placed": 9, "unplaced": [{"rule": null, "count": 1, "reason": "Unclaimed"}],
                    "rules": [rule("rule-0", "70%", 7), rule("rule-1", "20%", 2), {"rule": null, "seats": 1, "total": 1}],
                    "clusters": assignments}]}}));
        let bundles = PLACED.iter().map(|(name, _, replicas)| {
            let count = if ready.contains(name) { *replicas } else { 0 };
            let phase = if ready.contains(name) {
                "Ready"
            } else {
                "Progressing"
            };
            parse(json!({
                "apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
                "metadata": {"name": "default.web", "namespace": format!("cluster-{name}"), "generation": 1},
                "spec": {"workload": {"manifests": []}, "applicationRef": reference, "hash": "h1"},
                "status": {"hash": "h1", "observedGeneration": 1, "phase": phase, "workloads": [
                    {"kind": "Deployment", "namespace": "default", "name": "web",
                     "desired": replicas, "updated": replicas, "ready": count}]}}))
        });
        Scene {
            application,
            decision,
            bundles: bundles.collect(),
        }
    }

    fn view(&self, unreachable: &[&str]) -> View {
        view(&Objects {
            application: &self.application,
            decisions: vec![&self.decision],
            bundles: self.bundles.iter().collect(),
            unreachable: unreachable.to_vec(),
        })
    }
}

fn condition(type_: &str, holds: bool) -> Value {
    json!({"type": type_, "status": if holds { "True" } else { "False" }, "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn rule(name: &str, share: &str, total: u32) -> Value {
    json!({"rule": name, "share": share, "seats": total, "total": total})
}

const ALL: [&str; 5] = ["east-1", "east-2", "east-3", "west-1", "west-2"];

#[test]
fn the_tree_shows_arithmetic_bars_and_the_rest() {
    let half_way = Scene::with(&["east-2", "west-1"]).view(&["west-2"]);
    insta::assert_snapshot!("half_way", draw(&half_way, PLAIN));
    let done = Scene::with(&ALL).view(&[]);
    insta::assert_snapshot!("delivered", outcome::as_text(&done, 2.06, PLAIN));
    assert_eq!(
        line(&done, PLAIN),
        "default/web  delivered  9/9 ready in 5 clusters, 1 unplaced\n"
    );
    assert!(draw(&done, Style { color: true }).contains("\u{1b}[32m✔"));
}

#[test]
fn the_lines_tell_each_thing_once() {
    let views: Vec<View> = [&[][..], &["east-2"], &["east-2"], &ALL]
        .map(|ready| Scene::with(ready).view(&[]))
        .into();
    let mut told = String::new();
    let mut before = None;
    for view in &views {
        for line in story::news(before, view) {
            told.push_str(&line);
            told.push('\n');
        }
        told.push_str("--\n");
        before = Some(view);
    }
    insta::assert_snapshot!("story", told);
    let lost = Scene::with(&ALL).view(&["east-1"]);
    assert_eq!(
        story::news(views.last(), &lost),
        ["default/web: east-1 2/2 ready unreachable"]
    );
}

#[test]
fn only_reports_on_the_present_content_count() {
    let mut scene = Scene::with(&ALL);
    assert!(scene.view(&[]).is_done());
    scene.bundles[0].spec.hash = Some("h2".into());
    let view = scene.view(&[]);
    assert!(!view.is_done());
    assert_eq!(view.clusters()["east-1"], (2, 0));
    let state = |view: &View, cluster: usize| view.workloads[0].rules[0].clusters[cluster].state;
    assert_eq!(state(&view, 0), State::Sent);
    scene.bundles[1].metadata.generation = Some(2);
    assert_eq!(scene.view(&[]).clusters()["east-2"], (3, 0));
    // A status about another generation of the Application is no delivery.
    let mut scene = Scene::with(&ALL);
    scene.application.metadata.generation = Some(2);
    assert!(!scene.view(&[]).is_done());
}

#[test]
fn the_sums_are_those_of_the_decision() {
    let view = Scene::with(&ALL).view(&[]);
    assert_eq!(view.placed(), (9, 1));
    let clusters: Vec<_> = view.clusters().into_iter().collect();
    assert_eq!(clusters[1], ("east-2", (3, 3)));
    assert_eq!(clusters.iter().map(|(_, (replicas, _))| replicas).sum::<u32>(), 9);
}

#[test]
fn a_large_fleet_is_cut_and_counted() {
    let mut view = Scene::with(&ALL).view(&[]);
    let rule = &mut view.workloads[0].rules[0];
    let model = rule.clusters[0].clone();
    rule.clusters = (0..40)
        .map(|n| super::view::ClusterView {
            name: format!("east-{n:02}"),
            state: if n == 33 { State::Failed } else { State::Ready },
            ..model.clone()
        })
        .collect();
    let tree = draw(&view, PLAIN);
    assert!(
        tree.contains("… and 28 more (39 of 40 with replicas are ready): kubectl get bundles -A"),
        "{tree}"
    );
    assert!(tree.contains("east-33"), "what is not ready is never cut");
}
