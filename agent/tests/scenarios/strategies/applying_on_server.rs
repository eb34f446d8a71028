//! Server-side apply.

use super::*;
use crate::world::{Pass, job};
use kube::api::{Patch, PatchParams};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn content(manifests: &[Value], force: bool) -> Value {
    treated(
        manifests,
        json!({"type": "ServerSideApply", "serverSideApply": {"force": force}}),
    )
}

/// Applies as a field manager of its own.
async fn apply_as(world: &World, manager: &str, object: &Value, force: bool) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
    let api = world.api(Side::Member, text("/apiVersion"), text("/kind"), "default");
    let mut params = PatchParams::apply(manager);
    params.force = force;
    api.patch(text("/metadata/name"), &params, &Patch::Apply(object))
        .await
        .unwrap();
}

fn managers(live: &Value) -> Vec<(&str, &str)> {
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    let text = |entry: &'_ Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let mut managers: Vec<(&str, &str)> = entries
        .iter()
        .filter(|entry| entry.get("subresource").is_none() && !text(entry, "manager").is_empty())
        .map(|entry| {
            (
                entry["manager"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
            )
        })
        .collect();
    managers.sort_unstable();
    managers
}

#[tokio::test(start_paused = true)]
async fn a14_server_side_apply_makes_changes_and_removes_by_leaving_out() {
    let world = World::new().await;
    let agent = world.agent();
    let map = |data: Value| {
        let mut map = config_map("a", "1");
        map["data"] = data;
        map
    };
    let first = world
        .bundle("plain", content(&[map(json!({"a": "1", "b": "1"}))], false))
        .await;
    world.reported("plain", first, Ready).await;
    let live = world.live(Side::Member, &map(json!({}))).await.unwrap();
    assert_eq!(managers(&live), [("roundhouse-agent", "Apply")]);
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(annotations["roundhouse.dev/owned-by"], "0123456789/plain");
    assert!(annotations["roundhouse.dev/desired-hash"].is_string());
    assert_eq!(annotations.get("app.oam.dev/last-applied-configuration"), None);
    world
        .merge(Side::Member, &map(json!({})), json!({"data": {"theirs": "1"}}))
        .await;
    let second = world
        .bundle("plain", content(&[map(json!({"a": "2", "c": "1"}))], false))
        .await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &map(json!({}))).await.unwrap();
    assert_eq!(live["data"], json!({"a": "2", "c": "1", "theirs": "1"}));
    // Nothing differs, nothing is sent; not by a new agent either.
    pass_time(5).await;
    let (before, sent) = (world.writes(), world.write_requests());
    pass_time(1300).await;
    assert_eq!((world.writes(), world.write_requests()), (before, sent));
    agent.stop().await;
    let sent = world.member.write_requests();
    let agent = world.agent();
    pass_time(60).await;
    assert_eq!(world.writes(), before);
    assert_eq!(world.member.write_requests(), sent);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a14_a_conflict_names_the_other_manager_and_force_resolves_it() {
    let world = World::new().await;
    let agent = world.agent();
    let first = world
        .bundle("plain", content(&[config_map("a", "1")], false))
        .await;
    world.reported("plain", first, Ready).await;
    // Someone else takes the field.
    apply_as(&world, "their-tool", &config_map("a", "theirs"), true).await;
    let status = eventually_with(
        "it is reported",
        || world.status("plain"),
        |status| entry(status, 0).is_some(),
    )
    .await;
    let conflict = &entry(&status, 0).unwrap().conditions[0];
    assert_eq!(conflict.reason, "ApplyConflict");
    assert!(
        conflict.message.contains(".data.key (of their-tool)"),
        "{}",
        conflict.message
    );
    assert!(
        conflict.message.contains("serverSideApply.force"),
        "{}",
        conflict.message
    );
    let live = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    assert_eq!(live["data"]["key"], "theirs");
    // It waits for a change: no retries but the slow resync's.
    let before = world.member.write_requests();
    pass_time(1200).await;
    let sent = world.member.write_requests() - before;
    assert!((2..=5).contains(&sent), "{sent} in 20 min");
    let second = world
        .bundle("plain", content(&[config_map("a", "1")], true))
        .await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    assert_eq!(live["data"]["key"], "1");
    // Forced, what we own is repaired whoever changes it.
    apply_as(&world, "their-tool", &config_map("a", "theirs"), true).await;
    eventually("it is repaired", || async {
        world.live(Side::Member, &config_map("a", "")).await.unwrap()["data"]["key"] == "1"
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a14_a_conflict_ends_by_itself_when_the_other_lets_go() {
    let world = World::new().await;
    let agent = world.agent();
    let first = world
        .bundle("plain", content(&[config_map("a", "1")], false))
        .await;
    world.reported("plain", first, Ready).await;
    apply_as(&world, "their-tool", &config_map("a", "theirs"), true).await;
    world.reported("plain", first, Failed).await;
    let mut without = config_map("a", "");
    without["data"] = json!({"other": "1"});
    apply_as(&world, "their-tool", &without, false).await;
    world.reported("plain", first, Ready).await;
    let live = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    assert_eq!(live["data"], json!({"key": "1", "other": "1"}));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a15_disjoint_fields_of_two_managers_both_survive() {
    let world = World::new().await;
    let agent = world.agent();
    let first = world
        .bundle("plain", content(&[deployment("web", "i:1", 2)], false))
        .await;
    world.reported("plain", first, Progressing).await;
    let theirs = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"theirs": "1"}},
        "spec": {"minReadySeconds": 7, "template": {"spec": {"containers": [{"name": "sidecar", "image": "s:1"}]}}}});
    apply_as(&world, "their-tool", &theirs, false).await;
    let second = world
        .bundle("plain", content(&[deployment("web", "i:2", 3)], false))
        .await;
    world.reported("plain", second, Progressing).await;
    let live = world.live(Side::Member, &theirs).await.unwrap();
    assert_eq!(live["metadata"]["annotations"]["theirs"], "1");
    assert_eq!(
        (&live["spec"]["minReadySeconds"], &live["spec"]["replicas"]),
        (&json!(7), &json!(3))
    );
    let containers = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let mut images: Vec<&str> = containers.iter().map(|c| c["image"].as_str().unwrap()).collect();
    images.sort_unstable();
    assert_eq!(images, ["i:2", "s:1"]);
    pass_time(5).await;
    let before = (world.writes(), world.write_requests());
    pass_time(1300).await;
    assert_eq!((world.writes(), world.write_requests()), before);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b16_the_first_apply_after_a_three_way_apply_is_not_in_conflict_with_ourselves() {
    let world = World::new().await;
    let agent = world.agent();
    let mut web = deployment("web", "i:1", 2);
    web["spec"]["minReadySeconds"] = json!(5);
    let mut updated = spec(&[web.clone()]);
    updated["manifestConfigs"] = json!([]);
    let first = world.bundle("plain", updated).await;
    world.reported("plain", first, Progressing).await;
    for (manager, image) in [("", "i:2"), ("another", "i:3")] {
        let mut content = content(&[deployment("web", image, 3)], false);
        content["manifestConfigs"][0]["updateStrategy"]["serverSideApply"]["fieldManager"] = json!(manager);
        let next = world.bundle("plain", content).await;
        let status = world.reported("plain", next, Progressing).await;
        assert_eq!(entry(&status, 0), None, "{status:?}");
        let live = world.live(Side::Member, &web).await.unwrap();
        assert_eq!(
            (&live["spec"]["replicas"], image_of(&live)),
            (&json!(3), &json!(image))
        );
        assert_eq!(live["spec"].get("minReadySeconds"), None, "left out, and ours");
        let annotations = &live["metadata"]["annotations"];
        assert_eq!(annotations.get("app.oam.dev/last-applied-configuration"), None);
        if manager.is_empty() {
            assert_eq!(managers(&live), [("roundhouse-agent", "Apply")]);
        }
    }
    // And back.
    let mut back = spec(&[deployment("web", "i:4", 1)]);
    back["manifestConfigs"] = json!([]);
    let back = world.bundle("plain", back).await;
    world.reported("plain", back, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(
        (&live["spec"]["replicas"], image_of(&live)),
        (&json!(1), &json!("i:4"))
    );
    pass_time(5).await;
    let before = (world.writes(), world.write_requests());
    pass_time(1300).await;
    assert_eq!((world.writes(), world.write_requests()), before);
    agent.stop().await;
}

fn image_of(web: &Value) -> &Value {
    &web["spec"]["template"]["spec"]["containers"][0]["image"]
}

#[tokio::test(start_paused = true)]
async fn b16_an_object_without_managed_fields_is_taken_over_from_before_first_apply() {
    let world = World::new().await;
    let agent = world.agent();
    let first = world
        .bundle("plain", content(&[config_map("a", "1")], false))
        .await;
    world.reported("plain", first, Ready).await;
    world
        .merge(
            Side::Member,
            &config_map("a", ""),
            json!({"metadata": {"managedFields": [{}]}}),
        )
        .await;
    let second = world
        .bundle("plain", content(&[config_map("a", "2")], false))
        .await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    assert_eq!(live["data"]["key"], "2");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a20_an_ignored_field_that_only_we_own_is_not_dropped_by_a_later_apply() {
    let world = World::new().await;
    let agent = world.agent();
    let ignoring = |image: &str| {
        let mut content = content(&[deployment("web", image, 4)], false);
        content["manifestConfigs"][0]["updateStrategy"]["serverSideApply"]["ignoreFields"] =
            json!([{"condition": "OnSpokePresent", "jsonPaths": [".spec.replicas"]}]);
        content
    };
    let web = deployment("web", "", 4);
    for image in ["i:1", "i:2"] {
        let generation = world.bundle("plain", ignoring(image)).await;
        world.reported("plain", generation, Progressing).await;
        let live = world.live(Side::Member, &web).await.unwrap();
        assert_eq!(
            (&live["spec"]["replicas"], image_of(&live)),
            (&json!(4), &json!(image))
        );
    }
    // An autoscaler takes it, for an hour; then comes a change.
    pass_time(5).await;
    let before = world.member.write_requests();
    for minute in 0..60_u64 {
        world
            .merge(Side::Member, &web, json!({"spec": {"replicas": 5 + minute % 7}}))
            .await;
        pass_time(60).await;
    }
    assert_eq!(world.member.write_requests() - before, 60, "the autoscaler's own");
    let generation = world.bundle("plain", ignoring("i:3")).await;
    world.reported("plain", generation, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(
        (&live["spec"]["replicas"], image_of(&live)),
        (&json!(8), &json!("i:3"))
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a14_a_custom_resource_is_applied_on_the_server_side_too() {
    let world = World::new().await;
    let agent = world.agent();
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
        "items": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}},
            "x-kubernetes-preserve-unknown-fields": true}});
    let mut definition = crate::applying::widget_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"parts": keyed}}}});
    world.create(Side::Member, definition).await;
    let widget = |size: u32, ids: &[&str]| {
        let parts: Vec<Value> = ids.iter().map(|id| json!({"id": id, "size": size})).collect();
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"},
            "spec": {"size": size, "parts": parts, "free": {"form": [1, 2]}}})
    };
    let first = world
        .bundle("plain", content(&[widget(1, &["a", "b"])], false))
        .await;
    world.reported("plain", first, Ready).await;
    apply_as(
        &world,
        "their-tool",
        &json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"parts": [{"id": "theirs"}]}}),
        false,
    )
    .await;
    let second = world
        .bundle("plain", content(&[widget(2, &["c", "a"])], false))
        .await;
    world.reported("plain", second, Ready).await;
    let live = world.live(Side::Member, &widget(0, &[])).await.unwrap();
    let parts = live["spec"]["parts"].as_array().unwrap();
    let mut ids: Vec<&str> = parts.iter().map(|part| part["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(
        (ids, &live["spec"]["size"]),
        (vec!["a", "c", "theirs"], &json!(2))
    );
    pass_time(5).await;
    let before = (world.writes(), world.write_requests());
    pass_time(1300).await;
    assert_eq!((world.writes(), world.write_requests()), before);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_of_what_we_apply_on_the_server_side_is_reported_where_the_bundle_says_so() {
    let world = World::new().await;
    let agent = world.agent();
    let mut reporting = content(&[config_map("a", "1")], true);
    reporting["drift"] = json!("Report");
    let first = world.bundle("plain", reporting).await;
    world.reported("plain", first, Ready).await;
    let by_hand = json!({"data": {"key": "by hand", "other": "1"}});
    world.merge(Side::Member, &config_map("a", ""), by_hand).await;
    eventually_with(
        "it says so",
        || world.status("plain"),
        |status| reason(status, "Applied") == "Drifted",
    )
    .await;
    pass_time(700).await;
    let live = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    assert_eq!(live["data"]["key"], "by hand");
    let mut correcting = content(&[config_map("a", "1")], true);
    correcting["drift"] = json!("Correct");
    let next = world.bundle("plain", correcting).await;
    world.reported("plain", next, Ready).await;
    let live = world.live(Side::Member, &config_map("a", "")).await.unwrap();
    assert_eq!(live["data"], json!({"key": "1", "other": "1"}));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_existing_object_is_adopted_by_server_side_apply_on_the_same_terms() {
    let world = World::new().await;
    world.create(Side::Member, config_map("equal", "1")).await;
    world
        .create(Side::Member, config_map("different", "theirs"))
        .await;
    let agent = world.agent();
    let manifests = [config_map("equal", "1"), config_map("different", "1")];
    let first = world.bundle("plain", content(&manifests, true)).await;
    let status = world.reported("plain", first, Failed).await;
    assert_eq!(entry(&status, 0), None);
    assert_eq!(entry(&status, 1).unwrap().conditions[0].reason, "AdoptionDiffers");
    let live = world.live(Side::Member, &manifests[1]).await.unwrap();
    assert_eq!(live["data"]["key"], "theirs");
    agent.stop().await;
}

/// Given an object that somebody makes between the look and the write, then it is looked at again and refused as any other
/// that is not ours; nothing is written over it.
#[tokio::test(start_paused = true)]
async fn an_object_made_between_the_look_and_the_write_is_not_taken_over() {
    let world = World::new().await;
    let writes =
        |method: &http::Method, path: &str| method != http::Method::GET && path.contains("/configmaps");
    let (member, cut) = world.wire(Side::Member, writes);
    cut.store(true, Ordering::Release);
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let map = config_map("a", "1");
    let generation = world.bundle("plain", content(&[map.clone()], true)).await;
    pass_time(2).await;
    let made = world.create(Side::Member, config_map("a", "theirs")).await;
    cut.store(false, Ordering::Release);
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(entry(&status, 0).unwrap().conditions[0].reason, "AdoptionDiffers");
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(
        live["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
    agent.stop().await;
}

/// Given a server that does not make objects by an apply that asks for a version, then they are made without.
#[tokio::test(start_paused = true)]
async fn an_object_is_made_on_a_server_that_wants_no_version_of_it() {
    let world = World::new().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let member = world.gated(Side::Member, move |method, path| {
        let applies = *method == http::Method::PATCH && path.ends_with("/configmaps/a");
        match applies.then(|| count.fetch_add(1, Ordering::AcqRel)) {
            Some(0) => Pass::Answered(500, "resourceVersion should not be set on objects to be created"),
            _ => Pass::Through,
        }
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let map = config_map("a", "1");
    let generation = world.bundle("plain", content(&[map.clone()], false)).await;
    world.reported("plain", generation, Ready).await;
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["data"], map["data"]);
    assert_eq!(asked.load(Ordering::Acquire), 2);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_immutable_field_is_recreated_under_server_side_apply_where_it_is_listed() {
    let world = World::new().await;
    let agent = world.agent();
    let listed = |image: &str, fields: Value| {
        let mut content = content(&[job(image)], false);
        content["manifestConfigs"][0]["updateStrategy"]["recreateFields"] = fields;
        content
    };
    let first = world.bundle("plain", listed("i:1", json!([]))).await;
    world.reported("plain", first, Progressing).await;
    let second = world.bundle("plain", listed("i:2", json!([]))).await;
    let status = world.reported("plain", second, Failed).await;
    assert_eq!(entry(&status, 0).unwrap().conditions[0].reason, "Immutable");
    let third = world
        .bundle("plain", listed("i:2", json!(["spec.template"])))
        .await;
    let once = job("");
    eventually_with(
        "it is made again",
        || world.live(Side::Member, &once),
        |live| live.as_ref().is_some_and(|live| image_of(live) == "i:2"),
    )
    .await;
    world.reported("plain", third, Progressing).await;
    agent.stop().await;
}
