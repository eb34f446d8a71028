//! Where the last applied manifest is kept, and what it is for: removing what is left out.

use crate::world::{Side, World, config_map, deployment, eventually_with, pass_time, spec};
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use serde_json::{Value, json};

const LAST_APPLIED: &str = "app.oam.dev/last-applied-configuration";

fn copy(live: &Value) -> Option<&str> {
    live.pointer("/metadata/annotations")?.get(LAST_APPLIED)?.as_str()
}

/// The copy that the ledger keeps of its only object.
async fn in_ledger(world: &World) -> Option<Value> {
    let ledger = world.ledger("plain").await.unwrap();
    ledger.pointer("/spec/objects/0/lastApplied").cloned()
}

fn keys(map: &Value) -> Vec<&str> {
    map["data"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Given a ConfigMap with keys of ours and one of somebody else, when one of ours is left out, then that one is removed
/// and the others stay.
#[tokio::test(start_paused = true)]
async fn a_key_left_out_of_a_config_map_is_removed_and_a_foreign_one_stays() {
    let world = World::new().await;
    let agent = world.agent();
    let map = |data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "labels": {"tier": "x", "team": "y"}}, "data": data})
    };
    let first = world
        .bundle("plain", spec(&[map(json!({"stays": "1", "goes": "1"}))]))
        .await;
    world.reported("plain", first, Ready).await;
    let mut content = spec(&[map(json!({"stays": "2"}))]);
    content["workload"]["manifests"][0]["metadata"]["labels"] = json!({"tier": "x"});
    world
        .merge(Side::Member, &map(json!({})), json!({"data": {"foreign": "1"}}))
        .await;
    let second = world.bundle("plain", content).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &map(json!({}))).await.unwrap();
    assert_eq!(live["data"], json!({"foreign": "1", "stays": "2"}));
    assert_eq!(live["metadata"]["labels"], json!({"tier": "x"}));
    agent.stop().await;
}

/// A26: given an object whose copy does not fit into its annotations, when it is applied, then the copy is in the ledger,
/// what is left out later is removed by it all the same, and once the object is small again the copy moves back.
#[tokio::test(start_paused = true)]
async fn a_copy_that_does_not_fit_into_the_annotations_is_in_the_ledger() {
    let world = World::new().await;
    let agent = world.agent();
    let map = |data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"}, "data": data})
    };
    let large = "x".repeat(300 * 1024);
    for (data, fits) in [
        (json!({"stays": "1", "goes": "1"}), true),
        (json!({"stays": "1", "large": large, "first": "1"}), false),
        (json!({"stays": "1", "large": large}), false),
        (json!({"stays": "1"}), true),
        (json!({"stays": "2"}), true),
    ] {
        let generation = world.bundle("plain", spec(&[map(data.clone())])).await;
        world.reported("plain", generation, Ready).await;
        let live = world.live(Side::Member, &map(json!({}))).await.unwrap();
        assert_eq!(keys(&live), keys(&json!({"data": data})));
        assert_eq!(
            (copy(&live).is_some(), in_ledger(&world).await.is_none()),
            (fits, fits)
        );
        pass_time(5).await;
        let writes = world.writes();
        pass_time(700).await;
        assert_eq!(world.writes(), writes);
    }
    agent.stop().await;
}

/// Given a manifest that opts out of the copy with `-` or `skip`, when a field is left out, then it stays, since nothing
/// says that it was ours; what is rendered is still applied, and no copy is kept anywhere.
#[tokio::test(start_paused = true)]
async fn a_manifest_that_opts_out_of_the_copy_loses_no_field() {
    let world = World::new().await;
    let agent = world.agent();
    let map = |word: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "a", "namespace": "default", "annotations": {LAST_APPLIED: word}}})
    };
    // The first one keeps a copy as any other.
    let mut kept = map("", json!({"a": "1", "b": "1"}));
    kept["metadata"].as_object_mut().unwrap().remove("annotations");
    let generation = world.bundle("plain", spec(&[kept.clone()])).await;
    world.reported("plain", generation, Ready).await;
    assert!(copy(&world.live(Side::Member, &kept).await.unwrap()).is_some());
    for (word, data, expected) in [
        ("-", json!({"a": "2"}), json!({"a": "2", "b": "1"})),
        (
            "skip",
            json!({"a": "2", "c": "1"}),
            json!({"a": "2", "b": "1", "c": "1"}),
        ),
        ("skip", json!({"a": "3"}), json!({"a": "3", "b": "1", "c": "1"})),
    ] {
        let generation = world.bundle("plain", spec(&[map(word, data)])).await;
        world.reported("plain", generation, Ready).await;
        let live = world.live(Side::Member, &map(word, json!({}))).await.unwrap();
        assert_eq!(live["data"], expected, "{word}");
        assert_eq!(copy(&live), Some(word));
        assert_eq!(in_ledger(&world).await, None);
    }
    agent.stop().await;
}

/// Given an object that kubectl applied, when it is adopted with a field left out, then kubectl's copy tells that the
/// field goes.
#[tokio::test(start_paused = true)]
async fn what_kubectl_applied_before_is_removed_on_adoption() {
    let world = World::new().await;
    let mut theirs = config_map("a", "1");
    theirs["data"]["goes"] = json!("1");
    let rendered = serde_json::to_string(&theirs).unwrap();
    theirs["data"]["foreign"] = json!("1");
    theirs["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": rendered});
    world.create(Side::Member, theirs.clone()).await;
    let agent = world.agent();
    let mut content = spec(&[config_map("a", "1")]);
    content["adopt"] = json!("Always");
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Ready).await;
    let live = world.live(Side::Member, &theirs).await.unwrap();
    assert_eq!(live["data"], json!({"foreign": "1", "key": "1"}));
    agent.stop().await;
}

/// Given an object that kubectl applied with a field that the bundle does not have, when it is to be adopted only without
/// a difference, then it is refused and the field that would go is named; without that field it is adopted.
#[tokio::test(start_paused = true)]
async fn what_adoption_would_remove_is_a_difference() {
    let world = World::new().await;
    for (name, goes) in [("more", true), ("same", false)] {
        let mut theirs = config_map(name, "1");
        if goes {
            theirs["data"]["goes"] = json!("1");
        }
        let rendered = serde_json::to_string(&theirs).unwrap();
        theirs["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": rendered});
        theirs["data"]["foreign"] = json!("1");
        world.create(Side::Member, theirs).await;
    }
    let agent = world.agent();
    let manifests = [config_map("more", "1"), config_map("same", "1")];
    let generation = world.bundle("plain", spec(&manifests)).await;
    let status = world.reported("plain", generation, Failed).await;
    let refused = &status.resource_status.unwrap().manifests;
    assert_eq!(refused.len(), 1, "{refused:?}");
    let condition = &refused[0].conditions[0];
    assert_eq!(condition.reason, "AdoptionDiffers");
    assert!(condition.message.contains("data.goes"), "{}", condition.message);
    let live = world.live(Side::Member, &manifests[0]).await.unwrap();
    assert_eq!(live["data"], json!({"foreign": "1", "goes": "1", "key": "1"}));
    let live = world.live(Side::Member, &manifests[1]).await.unwrap();
    assert_eq!(live["data"], json!({"foreign": "1", "key": "1"}));
    assert!(copy(&live).is_some(), "adopted");
    agent.stop().await;
}

/// Given an object that a bundle let go of, when another one adopts it with a field less, then that field stays: what the
/// first one applied is not what the second one left out.
#[tokio::test(start_paused = true)]
async fn what_was_let_go_of_carries_no_copy_of_ours() {
    let world = World::new().await;
    let agent = world.agent();
    let mut map = config_map("a", "1");
    map["data"]["goes"] = json!("1");
    map["metadata"]["annotations"] = json!({"app.oam.dev/generation": "7"});
    let mut content = spec(&[map.clone(), config_map("b", "1")]);
    content["deleteOption"] = json!({"propagationPolicy": "Orphan"});
    let generation = world.bundle("first", content.clone()).await;
    world.reported("first", generation, Ready).await;
    content["workload"]["manifests"] = json!([config_map("b", "1")]);
    let generation = world.bundle("first", content).await;
    world.reported("first", generation, Ready).await;
    let let_go = |live: &Option<Value>| {
        live.as_ref().unwrap()["metadata"]["annotations"]["roundhouse.dev/owned-by"].is_null()
    };
    let live = eventually_with("it is nobody's", || world.live(Side::Member, &map), let_go).await;
    let annotations = &live.as_ref().unwrap()["metadata"]["annotations"];
    for stamp in [
        LAST_APPLIED,
        "roundhouse.dev/desired-hash",
        "app.oam.dev/generation",
    ] {
        assert!(annotations[stamp].is_null(), "{stamp}: {annotations}");
    }
    let generation = world.bundle("second", spec(&[config_map("a", "1")])).await;
    world.reported("second", generation, Ready).await;
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["data"], json!({"goes": "1", "key": "1"}));
    assert!(copy(&live).is_some(), "adopted");
    agent.stop().await;
}

/// Given a Deployment with `minReadySeconds`, when the field is left out, then it is back at its default; this is the
/// seed's example of a workload.
#[tokio::test(start_paused = true)]
async fn min_ready_seconds_is_removed_by_leaving_it_out() {
    let world = World::new().await;
    let agent = world.agent();
    let mut web = deployment("nginx-deployment", "nginx:1.14.2", 3);
    web["spec"]["minReadySeconds"] = json!(60);
    let first = world.bundle("plain", spec(&[web.clone()])).await;
    world.reported("plain", first, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(live["spec"]["minReadySeconds"], 60);
    web["spec"].as_object_mut().unwrap().remove("minReadySeconds");
    let second = world.bundle("plain", spec(&[web.clone()])).await;
    world.reported("plain", second, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(live["spec"].get("minReadySeconds"), None);
    assert_eq!(live["spec"]["replicas"], 3);
    assert!(!copy(&live).unwrap().contains("minReadySeconds"));
    agent.stop().await;
}

/// Given a Service, applied as a trait, that the server gave an address, when it is applied again with another port, then
/// the address stays and nothing is refused; this is the seed's example of a trait.
#[tokio::test(start_paused = true)]
async fn a_service_keeps_the_address_that_the_server_gave_it() {
    let world = World::new().await;
    let agent = world.agent();
    let service = |port: u32| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "my-service", "namespace": "default", "labels": {"app.oam.dev/name": "app",
                "app.oam.dev/component": "web", "app.oam.dev/resourceType": "TRAIT"}},
            "spec": {"selector": {"app": "myweb"}, "ports": [{"protocol": "TCP", "port": port}]}})
    };
    let mut address = Value::Null;
    for port in [80, 81] {
        let generation = world.bundle("plain", spec(&[service(port)])).await;
        world.reported("plain", generation, Ready).await;
        let live = world.live(Side::Member, &service(port)).await.unwrap();
        let given = live["spec"]["clusterIP"].clone();
        assert!(given.as_str().is_some_and(|given| given.contains('.')), "{live}");
        assert!(address.is_null() || address == given, "{address} became {given}");
        address = given;
        let ports = live["spec"]["ports"].as_array().unwrap();
        assert_eq!((ports.len(), &ports[0]["port"]), (1, &json!(port)));
        assert_eq!(
            live["spec"]["sessionAffinity"], "None",
            "defaults of the server stay"
        );
        assert_eq!(live["metadata"]["labels"]["app.oam.dev/resourceType"], "TRAIT");
        assert!(!copy(&live).unwrap().contains("clusterIP"));
        pass_time(5).await;
        let writes = world.writes();
        pass_time(700).await;
        assert_eq!(
            world.writes(),
            writes,
            "what the server defaults is no difference"
        );
    }
    agent.stop().await;
}

/// Given `Bar`, a custom trait with `f1`, when somebody adds `f2`, then `f2` stays over resyncs and over a change of `f1`,
/// and an `f1` that somebody changed is put back: ours are the fields that we render; this is the seed's second example.
#[tokio::test(start_paused = true)]
async fn f2_added_by_someone_else_stays() {
    let world = World::new().await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bars.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Bar", "plural": "bars", "singular": "bar", "listKind": "BarList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object",
                    "properties": {"f1": {"type": "string"}, "f2": {"type": "string"}}}}}}}]}});
    world.create(Side::Member, definition).await;
    let agent = world.agent();
    let bar = |f1: &str| {
        json!({"apiVersion": "example.com/v1", "kind": "Bar", "metadata": {"name": "bar", "namespace": "default",
            "labels": {"app.oam.dev/name": "app", "app.oam.dev/resourceType": "TRAIT"}}, "spec": {"f1": f1}})
    };
    let first = world.bundle("plain", spec(&[bar("v1")])).await;
    world.reported("plain", first, Ready).await;
    world
        .merge(
            Side::Member,
            &bar(""),
            json!({"spec": {"f1": "theirs", "f2": "v2"}}),
        )
        .await;
    pass_time(700).await;
    let live = world.live(Side::Member, &bar("")).await.unwrap();
    assert_eq!(live["spec"], json!({"f1": "v1", "f2": "v2"}));
    let second = world.bundle("plain", spec(&[bar("v1.1")])).await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &bar("")).await.unwrap();
    assert_eq!(live["spec"], json!({"f1": "v1.1", "f2": "v2"}));
    assert!(copy(&live).unwrap().contains("v1.1") && !copy(&live).unwrap().contains("f2"));
    agent.stop().await;
}
