//! Drift and apply-once.

use crate::world::{
    Side, World, config_map, deployment, dispatched, eventually, eventually_with, hastened, pass_time, spec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use roundhouse_api::bundle::BundlePhase::{Failed, Progressing, Ready};
use roundhouse_api::bundle::{BundleStatus, DRIFTED};
use roundhouse_api::condition;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn scaled_by_hand_is_undone_at_once_in_mode_never() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
        .await;
    eventually("replicas are 2 again", || async {
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"] == 2
    })
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn scaled_by_hand_is_kept_in_mode_once_until_the_content_changes() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let once = |content: &serde_json::Value| {
        let mut spec = dispatched(&[content.clone()], "app-v1", 1);
        spec["applyOnce"] = json!("Once");
        spec
    };
    let generation = world.bundle("default.app", once(&web)).await;
    world.reported("default.app", generation, Progressing).await;
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
        .await;
    pass_time(700).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"],
        9
    );
    // Divided anew: the same revision with another number is a change.
    let divided = deployment("web", "i:1", 3);
    let generation = world.bundle("default.app", once(&divided)).await;
    world.reported("default.app", generation, Progressing).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"],
        3
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_made_again() {
    let world = World::new().await;
    let agent = world.agent();
    let (map, web) = (config_map("unlabelled", "1"), deployment("web", "i:1", 1));
    let generation = world.bundle("plain", spec(&[map.clone(), web.clone()])).await;
    world.reported("plain", generation, Progressing).await;
    for object in [&map, &web] {
        let before = world.live(Side::Member, object).await.unwrap();
        world.delete(Side::Member, object).await;
        eventually_with(
            "it is back",
            || world.live(Side::Member, object),
            |live| {
                live.as_ref()
                    .is_some_and(|live| live["metadata"]["uid"] != before["metadata"]["uid"])
            },
        )
        .await;
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stripped_label_is_drift() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 1);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    let uid = world.live(Side::Member, &web).await.unwrap()["metadata"]["uid"].clone();
    world
        .merge(
            Side::Member,
            &web,
            json!({"metadata": {"labels": {"app.oam.dev/name": null}}}),
        )
        .await;
    let live = eventually_with(
        "it is back",
        || world.live(Side::Member, &web),
        |live| live.as_ref().unwrap()["metadata"]["labels"]["app.oam.dev/name"] == "app",
    )
    .await;
    assert_eq!(live.unwrap()["metadata"]["uid"], uid);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_healed_while_the_hub_is_away() {
    let world = World::new().await;
    let (hub, cut) = world.wire(Side::Hub, |_, _| true);
    let agent = world.agent_between(World::config(), hub, world.member_client.clone());
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    cut.store(true, std::sync::atomic::Ordering::Release);
    pass_time(3600).await;
    assert!(
        world.live(Side::Member, &map).await.is_some(),
        "nothing is deleted"
    );
    world
        .merge(Side::Member, &map, json!({"data": {"key": "by hand"}}))
        .await;
    eventually("it is healed", || async {
        world.live(Side::Member, &map).await.unwrap()["data"]["key"] == "1"
    })
    .await;
    // Back again: only the difference is applied.
    let next = world.bundle("plain", spec(&[config_map("a", "2")])).await;
    cut.store(false, std::sync::atomic::Ordering::Release);
    pass_time(60).await;
    world.reported("plain", next, Ready).await;
    agent.stop().await;
}

/// A Deployment under `drift: <mode>`, applied.
async fn under(world: &World, mode: &str) -> (i64, serde_json::Value) {
    let web = deployment("web", "i:1", 2);
    let generation = world.bundle("default.app", in_mode(mode, &web)).await;
    world.reported("default.app", generation, Progressing).await;
    (generation, web)
}

fn in_mode(mode: &str, web: &serde_json::Value) -> serde_json::Value {
    let mut content = dispatched(&[web.clone()], "app-v1", 1);
    content["drift"] = json!(mode);
    content
}

/// The condition `Drifted` of the only manifest, once it is reported.
async fn drifted(world: &World) -> Condition {
    let find = |status: &BundleStatus| {
        let entry = status.resource_status.as_ref()?.manifests.first()?.clone();
        condition::get(&entry.conditions, DRIFTED).cloned()
    };
    let status = eventually_with(
        "drift is reported",
        || world.status("default.app"),
        |status| find(status).is_some(),
    )
    .await;
    assert_eq!(crate::world::reason(&status, "Applied"), "Drifted");
    assert_eq!(crate::world::reason(&status, "Degraded"), "NoFailure");
    find(&status).unwrap()
}

async fn replicas(world: &World, web: &serde_json::Value) -> serde_json::Value {
    world.live(Side::Member, web).await.unwrap()["spec"]["replicas"].clone()
}

async fn scale(world: &World, web: &serde_json::Value, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    world.merge(Side::Member, web, patch).await;
}

#[tokio::test(start_paused = true)]
async fn b07_drift_is_reported_since_when_it_stands_and_reverting_it_clears_the_report() {
    let world = World::new().await;
    let agent = world.agent();
    let (_, web) = under(&world, "Report").await;
    scale(&world, &web, 9).await;
    let first = drifted(&world).await;
    assert_eq!((first.status.as_str(), first.reason.as_str()), ("True", DRIFTED));
    assert!(
        first.message.contains("spec.replicas") && !first.message.contains('9'),
        "{}",
        first.message
    );
    // It stands for a while, changes its value, and the agent is started anew: the time of the first sight stays.
    pass_time(700).await;
    scale(&world, &web, 11).await;
    agent.stop().await;
    let agent = world.agent();
    pass_time(700).await;
    assert_eq!(drifted(&world).await, first);
    assert_eq!(replicas(&world, &web).await, 11, "nothing is overwritten");
    scale(&world, &web, 2).await;
    eventually_with(
        "it is cleared",
        || world.status("default.app"),
        |status| status.resource_status.is_none() && crate::world::reason(status, "Applied") == "Applied",
    )
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b07_drift_is_reported_also_where_our_stamps_were_taken_off() {
    let world = World::new().await;
    let agent = world.agent();
    let (_, web) = under(&world, "Report").await;
    let patch = json!({"spec": {"replicas": 9}, "metadata": {"annotations": null}});
    world.merge(Side::Member, &web, patch).await;
    assert!(drifted(&world).await.message.contains("spec.replicas"));
    assert_eq!(replicas(&world, &web).await, 9);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b08_drift_of_fields_that_are_not_ours_is_invisible() {
    let world = World::new().await;
    let agent = world.agent();
    let (_, web) = under(&world, "Report").await;
    pass_time(5).await;
    let before = world.status("default.app").await;
    let patch = json!({"spec": {"minReadySeconds": 7}, "metadata": {"annotations": {"by": "hand"}}});
    world.merge(Side::Member, &web, patch).await;
    pass_time(700).await;
    assert_eq!(
        world.status("default.app").await.resource_status,
        before.resource_status
    );
    assert_eq!(before.resource_status, None);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b09_correct_overwrites_drift_of_ours_and_keeps_that_of_others() {
    let world = World::new().await;
    let agent = world.agent();
    let (_, web) = under(&world, "Correct").await;
    let patch =
        json!({"spec": {"replicas": 9, "minReadySeconds": 7}, "metadata": {"annotations": {"by": "hand"}}});
    world.merge(Side::Member, &web, patch).await;
    let live = eventually_with(
        "replicas are ours again",
        || world.live(Side::Member, &web),
        |live| live.as_ref().unwrap()["spec"]["replicas"] == 2,
    )
    .await
    .unwrap();
    assert_eq!(live["spec"]["minReadySeconds"], 7);
    assert_eq!(live["metadata"]["annotations"]["by"], "hand");
    assert_eq!(
        world.status("default.app").await.resource_status,
        None,
        "one repair is no fight"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b10_new_content_wins_over_drift_in_every_mode() {
    for mode in ["Report", "Ignore"] {
        let world = World::new().await;
        let agent = world.agent();
        let (_, web) = under(&world, mode).await;
        scale(&world, &web, 9).await;
        pass_time(30).await;
        assert_eq!(replicas(&world, &web).await, 9, "{mode}");
        let next = deployment("web", "i:2", 2);
        let generation = world.bundle("default.app", in_mode(mode, &next)).await;
        let status = world.reported("default.app", generation, Progressing).await;
        assert_eq!(status.resource_status, None, "{mode}");
        assert_eq!(replicas(&world, &web).await, 2, "{mode}");
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn b11_a_repair_that_the_member_refuses_fails_alone_and_in_no_hot_loop() {
    let world = World::embedded().await;
    let mut definition = crate::applying::widget_definition();
    // A size that only ever grows.
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "it never shrinks"}]}}}}});
    world.create(Side::Member, definition).await;
    let agent = world.agent();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 1}});
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[widget.clone(), map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    world
        .merge(Side::Member, &widget, json!({"spec": {"size": 5}}))
        .await;
    world
        .merge(Side::Member, &map, json!({"data": {"key": "by hand"}}))
        .await;
    let status = world.reported("plain", generation, Failed).await;
    let entry = &status.resource_status.unwrap().manifests[0];
    assert_eq!(
        (
            entry.resource_meta.name.as_str(),
            entry.conditions[0].reason.as_str()
        ),
        ("w", "Invalid")
    );
    assert!(entry.conditions[0].message.contains("it never shrinks"));
    eventually("the sibling is repaired", || async {
        world.live(Side::Member, &map).await.unwrap()["data"]["key"] == "1"
    })
    .await;
    let requests = world.write_requests();
    pass_time(3600).await;
    let tries = world.write_requests() - requests;
    assert!(tries <= 60, "{tries} tries in an hour");
    world
        .merge(
            Side::Member,
            &widget,
            json!({"metadata": {"annotations": {"x": "y"}}}),
        )
        .await;
    assert_eq!(world.status("plain").await.phase, Some(Failed));
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b13_ignore_touches_nothing_and_says_nothing() {
    let world = World::new().await;
    let agent = world.agent();
    let (_, web) = under(&world, "Ignore").await;
    pass_time(5).await;
    scale(&world, &web, 9).await;
    pass_time(5).await;
    let writes = world.writes();
    pass_time(700).await;
    assert_eq!(replicas(&world, &web).await, 9);
    assert_eq!(world.writes(), writes);
    assert_eq!(world.status("default.app").await.resource_status, None);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b14_from_report_to_correct_repairs_and_back_stops_repairing() {
    let world = World::new().await;
    let agent = world.agent();
    let (_, web) = under(&world, "Report").await;
    scale(&world, &web, 9).await;
    drifted(&world).await;
    let generation = world.bundle("default.app", in_mode("Correct", &web)).await;
    let status = world.reported("default.app", generation, Progressing).await;
    assert_eq!(replicas(&world, &web).await, 2);
    assert_eq!(status.resource_status, None);
    let generation = world.bundle("default.app", in_mode("Report", &web)).await;
    world.reported("default.app", generation, Progressing).await;
    scale(&world, &web, 9).await;
    drifted(&world).await;
    pass_time(700).await;
    assert_eq!(replicas(&world, &web).await, 9);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn b14_from_never_to_if_no_diff_adopts_what_is_equal() {
    let world = World::new().await;
    let agent = world.agent();
    let (equal, other) = (config_map("equal", "1"), config_map("other", "theirs"));
    for object in [&equal, &other] {
        world.create(Side::Member, object.clone()).await;
    }
    let ours = [equal.clone(), config_map("other", "ours")];
    let mut content = spec(&ours);
    content["adopt"] = json!("Never");
    let generation = world.bundle("plain", content.clone()).await;
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(status.counts.unwrap().failed, 2);
    content["adopt"] = json!("IfNoDiff");
    let generation = world.bundle("plain", content).await;
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(
        (status.counts.unwrap().applied, status.counts.unwrap().failed),
        (1, 1)
    );
    let marker = |live: Option<serde_json::Value>| {
        live.unwrap()["metadata"]["annotations"]["roundhouse.dev/owned-by"].clone()
    };
    assert!(marker(world.live(Side::Member, &equal).await).is_string());
    assert!(marker(world.live(Side::Member, &other).await).is_null());
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a08_times_of_conditions_move_only_with_their_status() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let first = world.bundle("plain", spec(&[map.clone()])).await;
    let before = world.reported("plain", first, Ready).await;
    pass_time(60).await;
    assert_eq!(world.status("plain").await, before);
    let second = world.bundle("plain", spec(&[config_map("a", "2")])).await;
    let after = world.reported("plain", second, Ready).await;
    for (before, after) in before.conditions.iter().zip(&after.conditions) {
        assert_eq!(
            before.last_transition_time, after.last_transition_time,
            "{}",
            after.type_
        );
        assert_eq!(after.observed_generation, Some(second), "{}", after.type_);
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a09_a_direct_edit_does_not_flap_conditions() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    pass_time(5).await;
    let before = world
        .live(Side::Hub, &crate::world::bundle("plain"))
        .await
        .unwrap();
    world
        .merge(Side::Member, &map, json!({"data": {"key": "by hand"}}))
        .await;
    eventually("it is repaired", || async {
        world.live(Side::Member, &map).await.unwrap()["data"]["key"] == "1"
    })
    .await;
    pass_time(700).await;
    let after = world
        .live(Side::Hub, &crate::world::bundle("plain"))
        .await
        .unwrap();
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a18_nothing_changes_and_the_live_generation_stays_over_many_resyncs() {
    let world = World::new().await;
    let mut config = World::config();
    config.resync = hastened(std::time::Duration::from_secs(30));
    let agent = world.agent_with(config);
    // Values that a server spells in its own way, and one that it fills in.
    let mut web = deployment("web", "i:1", 2);
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1000m"}});
    web["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "a"}]);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    world.roll_out(&web).await;
    world.reported("default.app", generation, Ready).await;
    let before = world.live(Side::Member, &web).await.unwrap();
    pass_time(1000).await;
    let after = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(after["metadata"]["generation"], before["metadata"]["generation"]);
    assert_eq!(
        after["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    agent.stop().await;
}

/// A text that reads like a quantity is a text: under `Report` an edit of it is drift, while the server's own spelling of a
/// quantity is none.
#[tokio::test(start_paused = true)]
async fn an_edit_that_would_be_the_same_quantity_is_drift() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = |version: &str, cpu: &str| {
        let mut web = deployment("web", "i:1", 2);
        let main = &mut web["spec"]["template"]["spec"]["containers"][0];
        main["env"] = json!([{"name": "VERSION", "value": version}]);
        main["resources"] = json!({"limits": {"cpu": cpu}});
        web
    };
    let edit = async |object: serde_json::Value| {
        world
            .merge(Side::Member, &object, json!({"spec": object["spec"]}))
            .await;
        pass_time(5).await;
    };
    let ours = web("1.10", "1000m");
    let generation = world.bundle("default.app", in_mode("Report", &ours)).await;
    world.reported("default.app", generation, Progressing).await;
    edit(web("1.10", "1")).await;
    let status = world.status("default.app").await;
    assert_eq!(crate::world::reason(&status, "Applied"), "Applied");
    edit(web("1.1", "1")).await;
    let said = drifted(&world).await.message;
    assert!(said.contains("env[name=VERSION].value"), "{said}");
    assert!(!said.contains("cpu"), "{said}");
    agent.stop().await;
}

/// The namespace of an object whose kind has none is nothing, as for the API server.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_a_kind_does_not_have_is_no_drift() {
    let world = World::new().await;
    let agent = world.agent();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader", "namespace": "default", "labels": {"l": "ours"}}, "rules": []});
    let generation = world.bundle("default.app", in_mode("Report", &role)).await;
    world.reported("default.app", generation, Ready).await;
    pass_time(1500).await;
    let status = world.status("default.app").await;
    assert_eq!(status.resource_status, None);
    let mut live = role.clone();
    live["metadata"].as_object_mut().unwrap().remove("namespace");
    let theirs = json!({"metadata": {"labels": {"l": "theirs"}}});
    world.merge(Side::Member, &live, theirs).await;
    let said = drifted(&world).await.message;
    assert!(
        said.contains("metadata.labels.l") && !said.contains("namespace"),
        "{said}"
    );
    agent.stop().await;
}
