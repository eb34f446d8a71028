//! What people read, and what programs read.

mod flips;
mod hands;
mod holds;
mod passed;
mod random;
mod tenancy;

use super::{Args, Subject, arithmetic, cluster, read, structured, verdicts};
use crate::{
    application::Snapshot,
    cli::{
        documents::{Document, Place},
        format::Format,
        proposals,
    },
};
use jiff::Timestamp;
use roundhouse_api::cluster::Cluster;
use roundhouse_api::placement::{Taint, TaintEffect};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn args(output: Format) -> Args {
    Args {
        application: "checkout".to_owned(),
        cluster: None,
        namespace: "default".to_owned(),
        step: None,
        files: Vec::new(),
        inventory: None,
        kubeconfig: None,
        tenancy: None,
        output,
    }
}

fn facts(name: &str, labels: &[(&str, &str)]) -> Cluster {
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    serde_json::from_value(json!({
        "apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"accepted": true}, "status": {"conditions": [is("Joined"), is("Available")]}}))
    .unwrap()
}

/// `replicas` of one Deployment, by these steps.
fn application(replicas: u32, steps: &Value) -> Value {
    json!({
        "components": [{"name": "checkout", "type": "worker", "properties": {"image": "x", "replicas": replicas}}],
        "workflow": {"steps": steps}})
}

fn subject(spec: &Value, fleet: &[Cluster]) -> Subject {
    read::of(&args(Format::Table), spec, &hub(fleet), Timestamp::UNIX_EPOCH).unwrap()
}

fn hub(fleet: &[Cluster]) -> Snapshot {
    let snapshot = Snapshot::default();
    fleet.iter().for_each(|cluster| snapshot.put_cluster(cluster));
    snapshot
}

/// East and west by percentage, a rule for every gold cluster, and clusters with every kind of trouble.
fn regions() -> Subject {
    let spec = application(
        10,
        &json!([
            {"name": "east", "type": "deploy", "properties": {"placement": [
                {"name": "east", "clusterSelector": {"region": "east"}, "replicas": "70%", "weights": {"e1": 3, "e2": 2},
                    "perCluster": {"max": 3}}]}},
            {"name": "west", "type": "deploy", "properties": {"placement": [
                {"name": "west", "clusterSelector": {"matchExpressions": [
                    {"key": "region", "operator": "In", "values": ["west"]},
                    {"key": "tier", "operator": "NotIn", "values": ["lab"]}]}, "replicas": "20%"}]}}]),
    );
    let mut fleet = vec![
        facts("e1", &[("region", "east")]),
        facts("e2", &[("region", "east")]),
        facts("e3", &[("region", "east")]),
        facts("w1", &[("region", "west")]),
        facts("w2", &[("region", "west")]),
        facts("w3", &[("region", "west"), ("tier", "lab")]),
        facts("w4", &[("region", "west")]),
    ];
    fleet[6].spec.taints = vec![Taint {
        key: "gpu".to_owned(),
        value: Some("a100".to_owned()),
        effect: TaintEffect::NoSchedule,
        time_added: None,
    }];
    subject(&spec, &fleet)
}

fn shown(subject: &Subject, name: &str, format: Format) -> String {
    let verdicts = verdicts(subject, name).unwrap();
    cluster::draw(subject, name, &verdicts, format, false)
}

#[test]
fn the_arithmetic() {
    let subject = regions();
    insta::assert_snapshot!("arithmetic", arithmetic::draw(&subject, Format::Table));
    insta::assert_snapshot!("arithmetic-tree", arithmetic::draw(&subject, Format::Tree));
    let value = structured::arithmetic(&subject);
    insta::assert_snapshot!("arithmetic-json", serde_json::to_string_pretty(&value).unwrap());
}

#[test]
fn what_is_not_divided_is_not_said_to_have_no_place() {
    let steps =
        json!([{"name": "all", "type": "deploy", "properties": {"placement": [{"clusterSelector": {}}]}}]);
    let subject = subject(&application(5, &steps), &["a", "b"].map(|name| facts(name, &[])));
    let text = arithmetic::draw(&subject, Format::Table);
    assert!(
        text.contains(
            "Deployment default/checkout: 5 replicas, not divided: every cluster runs all of them\n"
        ),
        "{text}"
    );
}

#[test]
fn rules_that_claim_too_much_are_marked() {
    let marked = |count: u32| {
        let steps = json!([{"type": "deploy", "properties": {"placement": [{"replicas": count}]}}]);
        let subject = subject(&application(4, &steps), &[facts("a", &[])]);
        structured::arithmetic(&subject)["steps"][0]["workloads"][0]["overcommitted"].clone()
    };
    assert_eq!((marked(5), marked(4)), (json!(true), json!(false)));
}

#[test]
fn one_cluster() {
    let subject = regions();
    insta::assert_snapshot!("not-matched", shown(&subject, "w3", Format::Table));
    insta::assert_snapshot!("tainted", shown(&subject, "w4", Format::Table));
    insta::assert_snapshot!("placed", shown(&subject, "e1", Format::Wide));
    let json = structured::cluster(&subject, "w3", &verdicts(&subject, "w3").unwrap());
    insta::assert_snapshot!("not-matched-json", serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn no_replica_by_arithmetic() {
    let placement = json!([{"name": "all", "replicas": "100%", "weights": {"a": 10, "b": 10}}]);
    let spec = application(
        5,
        &json!([{"name": "deploy", "type": "deploy", "properties": {"placement": placement}}]),
    );
    let subject = subject(&spec, &[facts("a", &[]), facts("b", &[]), facts("c", &[])]);
    insta::assert_snapshot!("zero-share", shown(&subject, "c", Format::Table));
}

#[test]
fn what_cannot_be_flipped_is_said_honestly() {
    let selector = json!({"matchExpressions": [
        {"key": "a", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "NotIn", "values": ["x"]}]});
    let placement = json!([{"replicas": "100%", "clusterSelector": selector}]);
    let spec = application(
        5,
        &json!([{"type": "deploy", "properties": {"placement": placement}}]),
    );
    let subject = subject(&spec, &[facts("c", &[])]);
    let text = shown(&subject, "c", Format::Table);
    assert!(text.ends_with("To include it: no single label, taint, weight, share, bound or count does it, nor what was tried of them together\n"), "{text}");
}

#[test]
fn a_long_list_says_how_many_more_there_are() {
    let placement = json!([{"name": "all", "replicas": "100%"}]);
    let spec = application(
        2_000,
        &json!([{"type": "deploy", "properties": {"placement": placement}}]),
    );
    let fleet: Vec<Cluster> = (0..1_000).map(|n| facts(&format!("c{n:03}"), &[])).collect();
    let subject = subject(&spec, &fleet);
    let table = arithmetic::draw(&subject, Format::Table);
    assert!(table.contains("… and 980 more"), "{table}");
    assert!(table.lines().count() < 30, "{table}");
    assert!(table.contains("c019") && !table.contains("c020"), "{table}");
    let wide = arithmetic::draw(&subject, Format::Wide);
    assert!(!wide.contains("more") && (0..1_000).all(|n| wide.contains(&format!("c{n:03}"))));
}

#[test]
fn what_is_not_there_is_named() {
    let subject = regions();
    let failure = verdicts(&subject, "x1").err().unwrap();
    assert_eq!(
        failure.to_string(),
        "error: there is no cluster x1 [E-CLUSTER]\ncause: the clusters are e1, e2, e3, w1, w2, w3, w4\ntry:   --cluster with one of them"
    );
    let spec = application(
        1,
        &json!([{"name": "a", "type": "deploy", "properties": {"placement": [{"replicas": "x"}]}}]),
    );
    let failure = read::of(&args(Format::Table), &spec, &hub(&[]), Timestamp::UNIX_EPOCH)
        .err()
        .unwrap();
    let text = failure.to_string();
    assert!(text.starts_with("error: application default/checkout is not accepted [E-INVALID]\ncause: spec.workflow.steps[0].properties.placement[0].replicas: "), "{text}");
    let spec = application(
        1,
        &json!([{"name": "a", "type": "deploy", "properties": {"placement": [{"replicas": "10%"}]}}]),
    );
    let mut asked = args(Format::Table);
    asked.step = Some("b".to_owned());
    let failure = read::of(&asked, &spec, &hub(&[]), Timestamp::UNIX_EPOCH)
        .err()
        .unwrap();
    assert_eq!(
        failure.to_string(),
        "error: application default/checkout has no placing step b [E-STEP]\ncause: its placing steps are a\ntry:   --step with one of them"
    );
}

/// Clusters `a` and `b`, and an override of the step that cannot be applied.
fn held(overrides: &Value) -> Subject {
    let properties = json!({"placement": [{"name": "all", "replicas": "100%"}], "overrides": overrides});
    let spec = application(
        8,
        &json!([{"name": "deploy", "type": "deploy", "properties": properties}]),
    );
    subject(&spec, &[facts("a", &[]), facts("b", &[])])
}

#[test]
fn a_step_that_overrides_stop_is_held() {
    for (overrides, error) in [
        // No such object, no such label, no such field.
        (
            json!([{"target": {"kind": "Deployment", "name": "api"}, "patch": {"spec": {"paused": true}}}]),
            "overrides[0] of Deployment api: the application has no such object",
        ),
        (
            json!([{"target": {"kind": "Deployment", "name": "checkout"},
                "patch": {"metadata": {"annotations": {"a": "${cluster.labels.tier}"}}}}]),
            "on cluster a and 1 more: the cluster has no label tier",
        ),
        (
            json!([{"target": {"kind": "Deployment", "name": "checkout"},
                "jsonPatch": [{"op": "replace", "path": "/spec/absent/field", "value": 1}]}]),
            "overrides[0] of Deployment default/checkout at /spec/absent/field on cluster a",
        ),
    ] {
        let subject = held(&overrides);
        let text = shown(&subject, "a", Format::Table);
        let headline = "default/checkout → a, step deploy: HELD: it has nothing of the step and gets nothing until this is mended: overrides[0]";
        assert!(text.starts_with(headline), "{text}");
        assert!(
            text.contains(error) && !text.contains("PLACED") && !text.contains("To "),
            "{text}"
        );
        let decisive: Vec<&str> = text.lines().filter(|line| line.contains("← decisive")).collect();
        assert!(
            matches!(decisive[..], [line] if line.contains("✗ overrides")),
            "{text}"
        );
        let json = structured::cluster(&subject, "a", &verdicts(&subject, "a").unwrap());
        let step = &json["steps"][0];
        assert_eq!(
            (
                &step["reason"],
                &step["placed"],
                &step["replicas"],
                &step["flips"]
            ),
            (&json!("Held"), &json!(false), &json!(0), &Value::Null)
        );
        assert_eq!(step["decisive"]["about"], "overrides");
        let table = arithmetic::draw(&subject, Format::Table);
        assert!(
            table.contains("\n  HELD: overrides[0]") && table.contains(error),
            "{table}"
        );
        let json = structured::arithmetic(&subject);
        assert_eq!(json["steps"][0]["satisfied"], json!(false));
        assert!(
            json["steps"][0]["held"][0].as_str().unwrap().contains(error),
            "{json}"
        );
    }
}

#[test]
fn how_many_come_first_is_said_in_numbers() {
    let properties =
        json!({"maxClusters": 1, "placement": [{"replicas": "100%", "weights": {"a": 3, "b": 2}}]});
    let spec = application(
        6,
        &json!([{"name": "deploy", "type": "deploy", "properties": properties}]),
    );
    let subject = subject(&spec, &[facts("a", &[]), facts("b", &[]), facts("c", &[])]);
    for (name, words) in [
        (
            "b",
            "NOT PLACED: 1 other comes first (maxClusters 1) (MaxClusters)\n",
        ),
        (
            "c",
            "NOT PLACED: 2 others come first (maxClusters 1) (MaxClusters)\n",
        ),
    ] {
        let text = shown(&subject, name, Format::Table);
        assert!(text.contains(words), "{text}");
    }
    let table = arithmetic::draw(&subject, Format::Table);
    assert!(
        table.contains("2 MaxClusters: others come first (maxClusters)"),
        "{table}"
    );
}

#[test]
fn definitions_among_the_files_divide_their_kinds() {
    let objects = json!([{"apiVersion": "games.io/v1", "kind": "Server", "metadata": {"name": "pool", "namespace": "default"},
        "spec": {"pool": {"size": 7}}}]);
    let spec = json!({
        "components": [{"name": "pool", "type": "k8s-objects", "properties": {"objects": objects}}],
        "workflow": {"steps": [{"name": "deploy", "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}});
    let definition = json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition", "metadata": {"name": "server", "namespace": "default"},
        "spec": {"workload": {"definition": {"apiVersion": "games.io/v1", "kind": "Server"}}, "replicasPath": "spec.pool.size"}});
    let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "checkout", "namespace": "default"}, "spec": spec});
    for (documents, replicas) in [
        (vec![application.clone()], None),
        (vec![definition, application], Some(7)),
    ] {
        let documents = documents.into_iter().map(|value| Document {
            value,
            place: Place {
                file: "pool.yaml".to_owned(),
                number: 1,
                line: 1,
                item: None,
            },
        });
        let proposed = proposals::of_documents(documents.collect(), None).unwrap();
        let (args, hub) = (args(Format::Table), hub(&[facts("a", &[])]));
        let spec = read::propose(&hub, &proposed, &args).unwrap().unwrap();
        let subject = read::of(&args, &spec, &hub, Timestamp::UNIX_EPOCH).unwrap();
        let asked: Vec<u32> = subject.setting.workloads.iter().map(|w| w.replicas).collect();
        assert_eq!(asked, Vec::from_iter(replicas));
    }
}

/// Steps that dispatch single components share nothing: each places all replicas of its own.
#[test]
fn a_step_of_one_component_is_explained_with_its_workloads_alone() {
    let component = |name: &str, replicas: u32| json!({"name": name, "type": "worker", "properties": {"image": "x", "replicas": replicas}});
    let step = |name: &str, component: &str, cluster: &str| {
        json!({"name": name, "type": "apply-component",
            "properties": {"component": component, "placement": [{"clusters": [cluster], "replicas": "100%"}]}})
    };
    let spec = json!({
        "components": [component("db", 4), component("web", 6)],
        "workflow": {"steps": [step("a", "db", "c1"), step("b", "web", "c2")]}});
    let subject = subject(&spec, &[facts("c1", &[]), facts("c2", &[])]);
    let rows = |decided: &crate::explain::InForce| {
        let workloads = decided.decision.workloads.iter();
        let rows = workloads.flat_map(|workload| workload.clusters.iter().map(move |row| (workload, row)));
        rows.map(|(workload, row)| format!("{} on {}: {}", workload.workload.name, row.name, row.replicas))
            .collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = subject.decisions.iter().map(rows).collect();
    assert_eq!(rows, [["db on c1: 4"], ["web on c2: 6"]]);
    let of = |cluster: &str| {
        let verdicts = verdicts(&subject, cluster).unwrap();
        let all = verdicts
            .iter()
            .map(|verdict| (verdict.answer.reason.code(), verdict.answer.replicas()));
        all.collect::<Vec<_>>()
    };
    assert_eq!(of("c1"), [("Placed", 4), ("NotMatched", 0)]);
    assert_eq!(of("c2"), [("NotMatched", 0), ("Placed", 6)]);
}
