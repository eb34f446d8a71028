//! Fields whose live value is kept.

use super::*;

fn replicas(live: &Value) -> &Value {
    &live["spec"]["replicas"]
}

#[tokio::test(start_paused = true)]
async fn a16_ignored_on_spoke_change_is_kept_until_the_bundle_changes_the_object() {
    let world = World::new().await;
    let agent = world.agent();
    let ignoring = |web: Value| {
        treated(
            &[web, config_map("beside", "1")],
            json!({"ignoreFields": [{"condition": "OnSpokeChange", "jsonPaths": [".spec.replicas"]}]}),
        )
    };
    let web = deployment("web", "i:1", 2);
    let first = world.bundle("plain", ignoring(web.clone())).await;
    world.reported("plain", first, Progressing).await;
    world
        .merge(
            Side::Member,
            &web,
            json!({"spec": {"replicas": 9, "minReadySeconds": 5}}),
        )
        .await;
    pass_time(1300).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(replicas(&live), 9);
    // Another object of the bundle changes: this one does not.
    let mut other = ignoring(web.clone());
    other["workload"]["manifests"][1]["data"]["key"] = json!("2");
    let second = world.bundle("plain", other).await;
    world.reported("plain", second, Progressing).await;
    assert_eq!(replicas(&world.live(Side::Member, &web).await.unwrap()), 9);
    // What the bundle wants of the object changes.
    let third = world.bundle("plain", ignoring(deployment("web", "i:2", 2))).await;
    world.reported("plain", third, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(
        (replicas(&live), &live["spec"]["minReadySeconds"]),
        (&json!(2), &json!(5))
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a16_ignored_on_spoke_present_is_kept_even_then() {
    let world = World::new().await;
    let agent = world.agent();
    let ignoring = |image: &str, count: u32| {
        treated(
            &[deployment("web", image, count)],
            json!({"ignoreFields": [{"jsonPaths": [".spec.replicas"]}]}),
        )
    };
    let web = deployment("web", "i:1", 2);
    let first = world.bundle("plain", ignoring("i:1", 2)).await;
    world.reported("plain", first, Progressing).await;
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
        .await;
    let second = world.bundle("plain", ignoring("i:2", 3)).await;
    world.reported("plain", second, Progressing).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_eq!(replicas(&live), 9);
    assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], "i:2");
    // No longer ignored, it is ours again.
    let mut third = spec(&[deployment("web", "i:2", 3)]);
    third["manifestConfigs"] = json!([]);
    let third = world.bundle("plain", third).await;
    world.reported("plain", third, Progressing).await;
    assert_eq!(replicas(&world.live(Side::Member, &web).await.unwrap()), 3);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a16_an_autoscaler_at_work_for_an_hour_makes_no_write_of_ours() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let content = treated(&[web.clone()], json!({"ignoreFields": ["spec.replicas"]}));
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Progressing).await;
    pass_time(5).await;
    let before = world.member.write_requests();
    for minute in 0..60_u64 {
        world
            .merge(Side::Member, &web, json!({"spec": {"replicas": 3 + minute % 7}}))
            .await;
        pass_time(60).await;
    }
    assert_eq!(world.member.write_requests() - before, 60, "the autoscaler's own");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a17_ignored_by_json_pointer_and_by_filter() {
    let world = World::new().await;
    let agent = world.agent();
    let web = |image: &str| {
        let mut web = deployment("web", image, 1);
        web["metadata"]["annotations"] = json!({"a.b/c": "ours", "plain": "ours"});
        web["spec"]["template"]["spec"]["containers"] = json!([
            {"name": "main", "image": image, "env": [{"name": "LEVEL", "value": "info"}, {"name": "MODE", "value": "x"}]},
            {"name": "log", "image": "l:1"}]);
        web
    };
    let content = |image: &str| {
        treated(
            &[web(image)],
            json!({"ignoreFields": [
                "/metadata/annotations/a.b~1c",
                {"jsonPaths": [".spec.template.spec.containers[?(@.name==\"main\")].env[?(@.name==\"LEVEL\")].value"]},
            ]}),
        )
    };
    let first = world.bundle("plain", content("i:1")).await;
    world.reported("plain", first, Progressing).await;
    // A sidecar in front shifts every index.
    let by_hand = json!({"metadata": {"annotations": {"a.b/c": "theirs", "plain": "theirs"}},
        "spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "s:1"},
            {"name": "main", "image": "i:1", "env": [{"name": "LEVEL", "value": "debug"}, {"name": "MODE", "value": "y"}]},
            {"name": "log", "image": "l:1"}]}}}});
    world.merge(Side::Member, &web(""), by_hand).await;
    let second = world.bundle("plain", content("i:2")).await;
    world.reported("plain", second, Progressing).await;
    let live = world.live(Side::Member, &web("")).await.unwrap();
    let annotations = &live["metadata"]["annotations"];
    assert_eq!(
        (&annotations["a.b/c"], &annotations["plain"]),
        (&json!("theirs"), &json!("ours"))
    );
    let containers = live["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let named = |name: &str| {
        containers
            .iter()
            .find(|container| container["name"] == name)
            .unwrap()
    };
    assert_eq!(named("main")["image"], "i:2");
    assert_eq!(
        named("main")["env"],
        json!([{"name": "LEVEL", "value": "debug"}, {"name": "MODE", "value": "x"}])
    );
    assert_eq!(named("sidecar")["image"], "s:1");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a17_an_invalid_path_fails_its_manifest_alone() {
    let world = World::new().await;
    let agent = world.agent();
    let mut content = spec(&[deployment("web", "i:1", 1), config_map("beside", "1")]);
    content["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "default", "name": "web"},
        "updateStrategy": {"ignoreFields": [".spec.replicas", {"jsonPaths": [".spec..image"]}]},
    }]);
    let first = world.bundle("plain", content.clone()).await;
    let status = world.reported("plain", first, Failed).await;
    let failed = entry(&status, 0).unwrap();
    assert_eq!(failed.conditions[0].reason, "InvalidIgnoreField");
    let message = &failed.conditions[0].message;
    assert!(message.contains("Deployment.apps default/web"), "{message}");
    assert!(message.contains("ignoreFields[1].jsonPaths[0]"), "{message}");
    assert!(message.contains("\".spec..image\", character 7"), "{message}");
    assert!(
        world
            .live(Side::Member, &config_map("beside", "1"))
            .await
            .is_some()
    );
    let before = world.writes();
    pass_time(1300).await;
    assert_eq!(world.writes(), before);
    content["manifestConfigs"][0]["updateStrategy"]["ignoreFields"] = json!([".spec.replicas"]);
    let second = world.bundle("plain", content).await;
    world.reported("plain", second, Progressing).await;
    assert!(
        world
            .live(Side::Member, &deployment("web", "i:1", 1))
            .await
            .is_some()
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a19_a_missing_object_is_made_with_its_ignored_fields() {
    let world = World::new().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 4);
    let content = treated(&[web.clone()], json!({"ignoreFields": ["spec.replicas"]}));
    let generation = world.bundle("plain", content).await;
    world.reported("plain", generation, Progressing).await;
    assert_eq!(replicas(&world.live(Side::Member, &web).await.unwrap()), 4);
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
        .await;
    world.delete(Side::Member, &web).await;
    let back = eventually_with("it is back", || world.live(Side::Member, &web), Option::is_some).await;
    assert_eq!(replicas(&back.unwrap()), 4);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a20_an_ignored_field_that_nobody_touched_is_not_dropped_by_a_later_change() {
    let world = World::new().await;
    let agent = world.agent();
    let with = |image: &str, count: Option<u32>| {
        let mut web = deployment("web", image, 4);
        match count {
            Some(count) => web["spec"]["replicas"] = json!(count),
            None => drop(web["spec"].as_object_mut().unwrap().remove("replicas")),
        }
        treated(&[web], json!({"ignoreFields": ["spec.replicas"]}))
    };
    let web = deployment("web", "i:1", 4);
    for (image, count) in [
        ("i:1", Some(4)),
        ("i:2", Some(4)),
        ("i:3", Some(6)),
        ("i:4", None),
    ] {
        let generation = world.bundle("plain", with(image, count)).await;
        world.reported("plain", generation, Progressing).await;
        let live = world.live(Side::Member, &web).await.unwrap();
        assert_eq!(replicas(&live), 4, "{image}");
        assert_eq!(live["spec"]["template"]["spec"]["containers"][0]["image"], image);
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_ignored_difference_is_neither_drift_nor_in_the_way_of_adoption() {
    let world = World::new().await;
    let web = deployment("web", "i:1", 2);
    world.create(Side::Member, deployment("web", "i:1", 7)).await;
    let agent = world.agent();
    let mut content = treated(&[web.clone()], json!({"ignoreFields": ["spec.replicas"]}));
    content["drift"] = json!("Report");
    let generation = world.bundle("plain", content).await;
    let status = world.reported("plain", generation, Progressing).await;
    assert_eq!(reason(&status, "Applied"), "Applied");
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 8}}))
        .await;
    pass_time(700).await;
    assert_eq!(reason(&world.status("plain").await, "Applied"), "Applied");
    assert_eq!(replicas(&world.live(Side::Member, &web).await.unwrap()), 8);
    agent.stop().await;
}
