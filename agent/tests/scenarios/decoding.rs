//! Manifests that are no objects: each fails alone, by its ordinal.

use crate::world::{Pass, Side, World, config_map, eventually, pass_time, spec};
use roundhouse_api::bundle::BundlePhase::{Failed, Ready};
use roundhouse_api::bundle::{BundleStatus, MAX_MANIFEST_BYTES};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

/// Ordinal, reason and message of every failure of a report.
fn failures(status: &BundleStatus) -> Vec<(u32, String, String)> {
    let manifests = status.resource_status.iter().flat_map(|status| &status.manifests);
    manifests
        .map(|failed| {
            let condition = &failed.conditions[0];
            let ordinal = failed.resource_meta.ordinal;
            (ordinal, condition.reason.clone(), condition.message.clone())
        })
        .collect()
}

/// A21, A25: given every sort of broken manifest among good ones, when the bundle is applied, then each broken one is
/// flagged by its ordinal with its own reason, and the good ones are there.
#[tokio::test(start_paused = true)]
async fn every_sort_of_broken_manifest_fails_by_ordinal_and_the_good_ones_are_applied() {
    let world = World::new().await;
    let agent = world.agent();
    let (first, last) = (config_map("first", "1"), config_map("last", "1"));
    let object = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let named = |name: &str| json!({"name": name, "namespace": "default"});
    let broken = [
        (json!("text"), "DecodingFailed", "a text"),
        (json!(7), "DecodingFailed", "a number"),
        (json!([{"kind": "ConfigMap"}]), "DecodingFailed", "list"),
        (json!({}), "DecodingFailed", "apiVersion"),
        (
            json!({"apiVersion": 1, "kind": "ConfigMap", "metadata": named("a")}),
            "DecodingFailed",
            "apiVersion",
        ),
        (
            json!({"apiVersion": "v1", "metadata": named("a")}),
            "DecodingFailed",
            "kind",
        ),
        (
            json!({"apiVersion": "a/b/c", "kind": "ConfigMap", "metadata": named("a")}),
            "DecodingFailed",
            "a/b/c",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            "DecodingFailed",
            "metadata",
        ),
        (
            object(json!({"namespace": "default"})),
            "DecodingFailed",
            "metadata.name",
        ),
        (
            object(json!({"name": 3, "namespace": "default"})),
            "DecodingFailed",
            "metadata.name",
        ),
        (
            object(json!({"name": "a", "namespace": 3})),
            "DecodingFailed",
            "metadata.namespace",
        ),
        (
            object(json!({"generateName": "a-"})),
            "FoundGenerateName",
            "fixed name",
        ),
        (config_map("first", "2"), "Duplicated", "manifest 0"),
    ];
    let mut manifests = vec![first.clone()];
    manifests.extend(broken.iter().map(|(manifest, ..)| manifest.clone()));
    manifests.push(last.clone());
    let generation = world.bundle("plain", spec(&manifests)).await;
    let status = world.reported("plain", generation, Failed).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.total, counts.applied, counts.failed), (15, 2, 13));
    let failures = failures(&status);
    assert_eq!(failures.len(), broken.len(), "{failures:#?}");
    for ((ordinal, reason, message), (at, (manifest, expected, says))) in
        failures.iter().zip((1_u32..).zip(&broken))
    {
        assert_eq!((*ordinal, reason.as_str()), (at, *expected), "{manifest}");
        assert!(message.contains(says), "{manifest}: {message}");
    }
    for object in [&first, &last] {
        assert_eq!(
            world.live(Side::Member, object).await.unwrap()["data"]["key"],
            "1"
        );
    }
    agent.stop().await;
}

/// A22: given applied objects, when the manifest of one no longer decodes, then that object stays, every other one that
/// is left out goes, and once the broken manifest is left out too its object goes.
#[tokio::test(start_paused = true)]
async fn an_object_whose_new_manifest_does_not_decode_stays_until_it_is_left_out() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world.bundle("plain", spec(&[a.clone(), b.clone()])).await;
    world.reported("plain", first, Ready).await;
    // Its kind got lost.
    let broken = json!({"apiVersion": "v1", "metadata": {"name": "a", "namespace": "default"}});
    let second = world.bundle("plain", spec(&[broken])).await;
    world.reported("plain", second, Failed).await;
    eventually("what is surely left out goes", || async {
        world.live(Side::Member, &b).await.is_none()
    })
    .await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    let third = world.bundle("plain", spec(&[])).await;
    world.reported("plain", third, Ready).await;
    eventually("then it goes too", || async {
        world.live(Side::Member, &a).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// A23: given a manifest with `generateName` alone, when it is applied, passes and all, then nothing is ever made of it.
#[tokio::test(start_paused = true)]
async fn an_object_without_a_fixed_name_is_refused_and_never_made() {
    let world = World::new().await;
    let agent = world.agent();
    let unnamed = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"generateName": "a-", "namespace": "default"}});
    let generation = world.bundle("plain", spec(&[unnamed.clone()])).await;
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(failures(&status)[0].1, "FoundGenerateName");
    pass_time(700).await;
    let maps = world.api(Side::Member, "v1", "ConfigMap", "default");
    let made = maps.list(&kube::api::ListParams::default()).await.unwrap();
    assert!(
        made.items
            .iter()
            .all(|map| !map.metadata.name.as_ref().unwrap().starts_with("a-")),
        "{made:?}"
    );
    let mut named = unnamed;
    named["metadata"]["name"] = json!("a-1");
    let generation = world.bundle("plain", spec(&[named])).await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
}

/// A24: given two manifests for one object, also at two API versions, when they are applied, then the first is what
/// counts and the later one is flagged, pass after pass.
#[tokio::test(start_paused = true)]
async fn of_two_manifests_for_one_object_the_first_counts() {
    let world = World::new().await;
    let agent = world.agent();
    let scaler = |version: &str, most: u32| {
        json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"maxReplicas": most,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}})
    };
    let manifests = [
        config_map("a", "first"),
        config_map("a", "later"),
        scaler("v2", 5),
        scaler("v1", 9),
    ];
    let generation = world.bundle("plain", spec(&manifests)).await;
    let status = world.reported("plain", generation, Failed).await;
    let flagged: Vec<(u32, String)> = failures(&status)
        .into_iter()
        .map(|(n, reason, _)| (n, reason))
        .collect();
    assert_eq!(
        flagged,
        [(1, "Duplicated".to_owned()), (3, "Duplicated".to_owned())]
    );
    pass_time(5).await;
    let writes = world.writes();
    pass_time(700).await;
    assert_eq!(world.writes(), writes, "two manifests do not take turns");
    assert_eq!(
        world.live(Side::Member, &manifests[0]).await.unwrap()["data"]["key"],
        "first"
    );
    assert_eq!(
        world.live(Side::Member, &manifests[2]).await.unwrap()["spec"]["maxReplicas"],
        5
    );
    agent.stop().await;
}

/// Given manifests of one object without a namespace that give it different ones, or none, when they are applied, then the
/// first is what counts and the others are flagged, pass after pass, and taking them away takes nothing away.
#[tokio::test(start_paused = true)]
async fn of_manifests_that_only_give_a_cluster_scoped_object_other_namespaces_the_first_counts() {
    let world = World::new().await;
    let agent = world.agent();
    let role = |namespace: &str, wanted: &str| {
        let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "reader", "labels": {"wanted": wanted}}, "rules": []});
        if !namespace.is_empty() {
            role["metadata"]["namespace"] = json!(namespace);
        }
        role
    };
    let mut elsewhere = config_map("reader", "1");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    let manifests = [
        config_map("reader", "1"),
        role("default", "first"),
        role("", "second"),
        role("other", "third"),
        elsewhere,
    ];
    let generation = world.bundle("plain", spec(&manifests)).await;
    let status = world.reported("plain", generation, Failed).await;
    let flagged: Vec<(u32, String)> = failures(&status)
        .into_iter()
        .map(|(n, reason, _)| (n, reason))
        .collect();
    assert_eq!(
        flagged,
        [(2, "Duplicated".to_owned()), (3, "Duplicated".to_owned())]
    );
    pass_time(5).await;
    let writes = world.writes();
    pass_time(700).await;
    assert_eq!(world.writes(), writes, "they do not take turns");
    let label = async || {
        let live = world.live(Side::Member, &role("", "")).await.unwrap();
        live["metadata"]["labels"]["wanted"].clone()
    };
    assert_eq!(label().await, "first");
    let generation = world.bundle("plain", spec(&manifests[..2])).await;
    world.reported("plain", generation, Ready).await;
    pass_time(60).await;
    assert_eq!(label().await, "first");
    agent.stop().await;
}

/// Given a list of Bundles of which one has a manifest that is nested too deep, when an agent starts, then that manifest
/// fails by its ordinal, and its bundle and all the others are read and applied.
#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_nested_too_deep_stops_no_bundle() {
    let world = World::embedded().await;
    let (beside, other) = (config_map("beside", "1"), config_map("other", "1"));
    world
        .bundle("deep", spec(&[beside.clone(), config_map("deep", "1")]))
        .await;
    world.bundle("other", spec(&[other.clone()])).await;
    // The embedded hub refuses such a body; others do not. The watch, which would show what is really there, is held.
    let is_listed = AtomicBool::new(false);
    let hub = world.gated(Side::Hub, move |method, path| {
        match *method == http::Method::GET && path.ends_with("/bundles") {
            true if is_listed.swap(true, Ordering::AcqRel) => Pass::Held,
            true => Pass::Reworked(deepen),
            false => Pass::Through,
        }
    });
    let agent = world.agent_between(World::config(), hub, world.member_client.clone());
    world.reported("other", 1, Ready).await;
    let status = world.reported("deep", 1, Failed).await;
    let failures = failures(&status);
    assert_eq!(failures.len(), 1, "{failures:#?}");
    assert_eq!((failures[0].0, failures[0].1.as_str()), (1, "DecodingFailed"));
    assert!(failures[0].2.contains("nested deeper than"), "{failures:#?}");
    for object in [&beside, &other] {
        assert!(world.live(Side::Member, object).await.is_some());
    }
    agent.stop().await;
}

fn deepen(list: &mut Value) {
    let of_bundles = list["items"].as_array_mut().unwrap().iter_mut();
    for bundle in of_bundles.filter(|bundle| bundle["metadata"]["name"] == "deep") {
        let nested = (0..125).fold(json!(1), |inner, _| json!([inner]));
        bundle["spec"]["workload"]["manifests"][1]["data"] = nested;
    }
}

/// Given a manifest copied from a live object, when it is applied here, then what only a server may write is left out.
#[tokio::test(start_paused = true)]
async fn a_manifest_copied_from_another_cluster_is_applied_without_what_its_server_wrote() {
    let world = World::new().await;
    let agent = world.agent();
    let mut copied = config_map("a", "1");
    let metadata = json!({"uid": "11111111-2222-3333-4444-555555555555", "resourceVersion": "42", "generation": 3,
        "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x",
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}],
        "annotations": {"roundhouse.dev/owned-by": "ffffffffff/other", "roundhouse.dev/fenced": "41",
            "app.oam.dev/last-applied-configuration": "{\"copy\": \"of another cluster\"}",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}});
    copied["metadata"]
        .as_object_mut()
        .unwrap()
        .extend(metadata.as_object().unwrap().clone());
    for value in ["1", "2"] {
        copied["data"]["key"] = json!(value);
        let generation = world.bundle("plain", spec(&[copied.clone()])).await;
        world.reported("plain", generation, Ready).await;
        let live = world.live(Side::Member, &copied).await.unwrap();
        assert_eq!(live["data"]["key"], value);
        assert_ne!(live["metadata"]["uid"], copied["metadata"]["uid"]);
        assert_eq!(live["metadata"].get("ownerReferences"), None);
        let annotations = &live["metadata"]["annotations"];
        for left_out in [
            "kubectl.kubernetes.io/last-applied-configuration",
            "roundhouse.dev/fenced",
        ] {
            assert_eq!(annotations.get(left_out), None);
        }
        let copy = annotations["app.oam.dev/last-applied-configuration"]
            .as_str()
            .unwrap();
        assert!(
            !copy.contains("of another cluster") && !copy.contains("last-applied"),
            "{copy}"
        );
        assert_eq!(
            live["metadata"]["annotations"]["roundhouse.dev/owned-by"],
            "0123456789/plain"
        );
    }
    agent.stop().await;
}

/// Given one manifest above the limit, when the bundle is applied, then that one is refused by name and the others go on.
#[tokio::test(start_paused = true)]
async fn a_manifest_above_the_limit_is_refused_by_name() {
    let world = World::new().await;
    let agent = world.agent();
    let large = config_map("large", &"x".repeat(MAX_MANIFEST_BYTES));
    let small = config_map("small", "1");
    let generation = world.bundle("plain", spec(&[large.clone(), small.clone()])).await;
    let status = world.reported("plain", generation, Failed).await;
    let refused = &status.resource_status.as_ref().unwrap().manifests[0].resource_meta;
    assert_eq!(
        (refused.kind.as_str(), refused.name.as_str()),
        ("ConfigMap", "large")
    );
    assert_eq!(failures(&status)[0].1, "TooLarge");
    assert!(world.live(Side::Member, &large).await.is_none());
    assert!(world.live(Side::Member, &small).await.is_some());
    agent.stop().await;
}
