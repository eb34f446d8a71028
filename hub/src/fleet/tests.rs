//! The blast radius, over what a hub has.

use super::{Moved, impact, load};
use crate::application::{Proposal, Snapshot, foresee};
use jiff::Timestamp;
use kube::{Resource, core::DynamicObject};
use roundhouse_api::{
    bundle::Bundle,
    cluster::Cluster,
    decision::Decision,
    names::{BUNDLE_FINALIZER, bundle_name, decision_name, label},
};
use serde_json::json;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn cluster(name: &str, region: &str) -> Cluster {
    let is = |type_: &str| json!({"type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"});
    serde_json::from_value(json!({
        "apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {"region": region}},
        "spec": {"accepted": true}, "status": {"conditions": [is("Joined"), is("Available")]}}))
    .unwrap()
}

fn application(name: &str, region: &str, replicas: u32) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "generation": 1, "resourceVersion": "1"},
        "spec": {
            "components": [{"name": name, "type": "worker", "properties": {"image": "x", "replicas": replicas}}],
            "workflow": {"steps": [{"name": "deploy", "type": "deploy", "properties": {"placement": [
                {"clusterSelector": {"region": region}, "replicas": "100%"}]}}]}}}))
    .unwrap()
}

/// A hub on which every application was delivered.
fn hub(clusters: &[Cluster], applications: &[DynamicObject]) -> (Snapshot, Vec<(String, String)>) {
    let snapshot = Snapshot::default();
    clusters.iter().for_each(|cluster| snapshot.put_cluster(cluster));
    let mut keys = Vec::new();
    for application in applications {
        let name = application.meta().name.clone().unwrap();
        snapshot.put_application(application.clone());
        let spec = application.data["spec"].clone();
        let proposal = Proposal {
            namespace: "default",
            name: &name,
            spec: &spec,
        };
        let foreseen = foresee(&snapshot, &proposal, NOW).unwrap();
        for decided in &foreseen.decisions {
            let mut decision = Decision::new(&decision_name(&name, &decided.spec.step), decided.spec.clone());
            decision.metadata.namespace = Some("default".to_owned());
            for member in &decided.spec.clusters {
                let bundle: Bundle = serde_json::from_value(json!({
                    "apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
                    "metadata": {"name": bundle_name("default", &name, 1), "namespace": format!("cluster-{member}"),
                        "uid": format!("{name}-{member}"), "finalizers": [BUNDLE_FINALIZER],
                        "labels": {label::APP_NAME: name, label::APP_NAMESPACE: "default"}},
                    "spec": {"workload": {"manifests": []},
                        "applicationRef": {"namespace": "default", "name": name, "uid": format!("uid-{name}")}}}))
                .unwrap();
                snapshot.put_bundle(bundle);
            }
            snapshot.put_decision(decision);
        }
        keys.push(("default".to_owned(), name));
    }
    (snapshot, keys)
}

fn relabelled(cluster: &Cluster, region: &str) -> Cluster {
    let mut changed = cluster.clone();
    changed.metadata.labels = Some([("region".to_owned(), region.to_owned())].into());
    changed
}

fn tainted(cluster: &Cluster, effect: &str) -> Cluster {
    let mut value = serde_json::to_value(cluster).unwrap();
    value["spec"]["taints"] = json!([{"key": "flood", "effect": effect}]);
    serde_json::from_value(value).unwrap()
}

fn fleet() -> Vec<Cluster> {
    let named = |(name, region): (&str, &str)| cluster(name, region);
    [("e1", "east"), ("e2", "east"), ("w1", "west")]
        .map(named)
        .to_vec()
}

#[test]
fn a_label_moves_what_its_region_has() {
    let clusters = fleet();
    let applications = [
        application("shop", "north", 4),
        application("web", "east", 6),
        application("west", "west", 3),
    ];
    let (snapshot, keys) = hub(&clusters, &applications);
    let impact = impact(&snapshot, &keys, &relabelled(&clusters[0], "west"), NOW);
    assert_eq!(impact.asked, 3);
    let names: Vec<&str> = impact
        .applications
        .iter()
        .map(|a| a.application.as_str())
        .collect();
    assert_eq!(
        names,
        ["default/web", "default/west"],
        "shop is nowhere, and stays there"
    );
    let moved = |cluster: &str, before, after| Moved {
        cluster: cluster.to_owned(),
        before,
        otherwise: before,
        after,
    };
    assert_eq!(
        impact.applications[0].moved,
        [moved("e1", 3, 0), moved("e2", 3, 6)]
    );
    assert_eq!(impact.applications[0].leaving, ["e1"]);
    assert_eq!(
        impact.applications[0].held, None,
        "one cluster is within the budget"
    );
    assert_eq!(impact.applications[1].arriving, ["e1"]);
    assert_eq!(
        impact.applications[1].moved.iter().map(Moved::delta).sum::<i64>(),
        0
    );
}

#[test]
fn a_taint_that_evicts_moves_and_one_that_only_keeps_away_does_not() {
    let clusters = fleet();
    let (snapshot, keys) = hub(&clusters, &[application("web", "east", 6)]);
    let keeps = impact(&snapshot, &keys, &tainted(&clusters[0], "NoSchedule"), NOW);
    assert!(keeps.applications.is_empty(), "{keeps:?}");
    let evicts = impact(&snapshot, &keys, &tainted(&clusters[0], "NoExecute"), NOW);
    assert_eq!(evicts.applications[0].taken(), 3);
    assert_eq!(evicts.applications[0].leaving, ["e1"]);
}

#[test]
fn replicas_that_lose_their_place_are_counted() {
    let clusters = fleet();
    let (snapshot, keys) = hub(&clusters, &[application("west", "west", 3)]);
    let impact = impact(&snapshot, &keys, &relabelled(&clusters[2], "south"), NOW);
    assert_eq!(impact.applications[0].unplaced, (0, 3));
}

#[test]
fn an_application_that_is_not_accepted_is_named() {
    let clusters = fleet();
    let (snapshot, mut keys) = hub(&clusters, &[]);
    let mut bad = application("bad", "east", 1);
    bad.data["spec"]["surprise"] = json!(1);
    snapshot.put_application(bad);
    keys.push(("default".to_owned(), "bad".to_owned()));
    let impact = impact(&snapshot, &keys, &tainted(&clusters[0], "NoExecute"), NOW);
    assert!(impact.applications.is_empty());
    let (name, why) = &impact.refused[0];
    assert_eq!(name, "default/bad");
    assert!(why.contains("surprise"), "{why}");
}

#[test]
fn what_each_cluster_has() {
    let (snapshot, keys) = hub(
        &fleet(),
        &[application("shop", "east", 4), application("web", "east", 6)],
    );
    let load = load(&snapshot, &keys);
    let expected = |shop, web| vec![("default/shop".to_owned(), shop), ("default/web".to_owned(), web)];
    assert_eq!(load.get("e1"), Some(&expected(2, 3)));
    assert_eq!(load.get("e2"), Some(&expected(2, 3)));
    assert_eq!(load.get("w1"), None);
}

/// A taint that is tolerated for a time moves nothing at once, and everything when that has passed.
#[test]
fn a_taint_that_is_tolerated_for_a_time_moves_replicas_later() {
    let clusters = fleet();
    let mut patient = application("patient", "east", 6);
    patient.data["spec"]["workflow"]["steps"][0]["properties"]["tolerations"] =
        json!([{"key": "flood", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    let (snapshot, keys) = hub(&clusters, &[patient, application("web", "east", 4)]);
    let mut tainted = tainted(&clusters[0], "NoExecute");
    let at = "1970-01-01T00:00:00Z".parse().unwrap();
    tainted.spec.taints[0].time_added = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at));
    let impact = impact(&snapshot, &keys, &tainted, NOW);
    let names = |applications: &[super::ApplicationImpact]| -> Vec<String> {
        applications.iter().map(|one| one.application.clone()).collect()
    };
    assert_eq!(names(&impact.applications), ["default/web"]);
    let [later] = &impact.later[..] else {
        panic!("one moment: {:?}", impact.later)
    };
    assert_eq!((later.at.as_second(), later.seconds), (300, 300));
    assert_eq!(names(&later.applications), ["default/patient"]);
    let moved = |cluster: &str, before, after| Moved {
        cluster: cluster.to_owned(),
        before,
        otherwise: before,
        after,
    };
    let patient = &later.applications[0];
    assert_eq!(patient.moved, [moved("e1", 3, 0), moved("e2", 3, 6)]);
    assert_eq!(patient.leaving, ["e1"]);
}

/// The run waits at its first step: the other region has nothing yet, and loses nothing.
#[test]
fn what_a_run_has_not_come_to_is_not_there_now() {
    let clusters = fleet();
    let mut waves = application("waves", "east", 6);
    let step = |name: &str, region: &str| {
        json!({"name": name, "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"region": region}, "replicas": "50%"}]}})
    };
    waves.data["spec"]["workflow"]["steps"] = json!([step("one", "east"), step("two", "west")]);
    let (whole, keys) = hub(&clusters, &[waves.clone()]);
    let snapshot = Snapshot::default();
    clusters.iter().for_each(|cluster| snapshot.put_cluster(cluster));
    snapshot.put_application(waves);
    let first = whole.decisions("default", "waves").remove("one").unwrap();
    snapshot.put_decision(Decision::clone(&first));
    let impact = impact(&snapshot, &keys, &tainted(&clusters[2], "NoExecute"), NOW);
    let [waves] = &impact.applications[..] else {
        panic!("one application: {impact:?}")
    };
    let expected = Moved {
        cluster: "w1".to_owned(),
        before: 0,
        otherwise: 3,
        after: 0,
    };
    assert_eq!(waves.moved, [expected]);
    assert_eq!(waves.unplaced, (0, 3));
    assert_eq!(waves.taken(), 0);
}

#[test]
fn nothing_moves_of_a_run_that_was_terminated() {
    let clusters = fleet();
    let mut web = application("web", "east", 6);
    let (snapshot, keys) = hub(&clusters, &[web.clone()]);
    let of = |status: &str| {
        json!({"workflow": {"appRevision": "web-v1", "generation": 1, "status": status, "finished": true,
            "steps": [{"name": "deploy", "type": "deploy", "phase": status, "firstExecuteTime": "1970-01-01T00:00:00Z"}]}})
    };
    for (status, stopped) in [("failed", &["default/web"][..]), ("succeeded", &[])] {
        web.data["status"] = of(status);
        snapshot.put_application(web.clone());
        snapshot.put_cluster(&clusters[0]);
        let impact = impact(&snapshot, &keys, &tainted(&clusters[0], "NoExecute"), NOW);
        assert_eq!(impact.stopped, stopped, "{impact:?}");
        assert_eq!(impact.applications.is_empty(), !stopped.is_empty(), "{impact:?}");
    }
}
