//! Apply-once: the policy on its way to the agents, and removals that they refuse.

use crate::{
    agents::Script,
    world::{World, seed},
};
use kube::ResourceExt;
use roundhouse_api::{
    application::{ACCEPTED, ApplicationPhase},
    bundle::{Affect, ApplyOnce},
    condition,
};
use serde_json::{Value, json};

fn with_policy(properties: &Value) -> Value {
    let mut spec = seed("nginx:1");
    spec["policies"] = json!([{"name": "once", "type": "apply-once", "properties": properties}]);
    spec
}

fn kept(affect: &str) -> Value {
    json!({"enable": true, "rules": [
        {"selector": {"resourceTypes": ["Deployment"]}, "strategy": {"path": ["spec.replicas"], "affect": affect}}]})
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_policy_alone_reaches_every_bundle_and_then_nothing_is_written() {
    let world = World::five_on_any_server().await;
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let before = world.bundle("c1", "app").await.unwrap();
    assert_eq!(before.spec.apply_once, None);
    for (properties, mode, affect) in [
        (kept("onUpdate"), None, Some(Affect::OnUpdate)),
        (kept("always"), None, Some(Affect::Always)),
        (
            json!({"enable": true, "mode": "Force"}),
            Some(ApplyOnce::Force),
            None,
        ),
        (json!({"enable": true}), Some(ApplyOnce::Once), None),
        (json!({"enable": false}), Some(ApplyOnce::Never), None),
    ] {
        world.apply("app", with_policy(&properties)).await;
        world.until_phase("app", ApplicationPhase::Running).await;
        for cluster in ["c1", "c2", "c3", "c4", "c5"] {
            let spec = world.bundle(cluster, "app").await.unwrap().spec;
            assert_eq!(spec.apply_once, mode, "{cluster} {properties}");
            let affects: Vec<Affect> = spec.apply_once_rules.iter().map(|r| r.strategy.affect).collect();
            assert_eq!(affects, Vec::from_iter(affect), "{cluster} {properties}");
            assert_eq!(
                spec.hash,
                world_hash(&world, cluster).await,
                "{cluster} {properties}"
            );
        }
        let settled = world.rest().await;
        world.long_while(std::time::Duration::from_secs(3600)).await;
        assert_eq!(world.mark().await, settled, "{properties}");
    }
    // The content is the same all along.
    assert_eq!(
        world.bundle("c1", "app").await.unwrap().spec.hash,
        before.spec.hash
    );
}

async fn world_hash(world: &World, cluster: &str) -> Option<String> {
    let bundle = world.bundle(cluster, "app").await.unwrap();
    Some(roundhouse_api::hash::of_manifests(
        &bundle.spec.workload.manifests,
    ))
}

#[tokio::test(start_paused = true)]
async fn a_rule_about_a_component_that_is_not_there_is_refused_by_name() {
    let world = World::five_on_any_server().await;
    let mut properties = kept("always");
    properties["rules"][0]["selector"] = json!({"componentNames": ["wbe"]});
    world.apply("app", with_policy(&properties)).await;
    world.until_phase("app", ApplicationPhase::Rendering).await;
    let status = world.status("app").await;
    let message = &condition::get(&status.conditions, ACCEPTED).unwrap().message;
    assert!(
        message.contains("spec.policies[0].properties.rules[0].selector.componentNames[0]")
            && message.contains("did you mean \"web\"?"),
        "{message}"
    );
    assert!(world.dispatched("app").await.is_empty());
}

/// Takes c1 away from an application whose agents keep workloads, up to the report that the removal is refused.
async fn refused() -> (World, String) {
    let mut clusters = vec![("c1".to_owned(), "east")];
    clusters.extend((2..=12).map(|n| (format!("c{n}"), "west")));
    let named: Vec<(&str, &str)> = clusters
        .iter()
        .map(|(name, region)| (name.as_str(), *region))
        .collect();
    let world = World::on_any_server(&named).await;
    for (name, _) in &named {
        world.agents.script(name, Script::Keeps).await;
    }
    world.apply("app", seed("nginx:1")).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.label_cluster("c1", json!({"region": "north"})).await;
    let message = world
        .until("app", "the refusal shows", async |world: &World| {
            let status = world.status("app").await;
            let held = condition::get(&status.conditions, "DeletesHeld")?;
            (held.status == "True").then(|| held.message.clone())
        })
        .await;
    world.rest().await;
    let bundle = world.bundle("c1", "app").await.unwrap();
    assert!(bundle.metadata.deletion_timestamp.is_some());
    assert_eq!(bundle.spec.deletion.unwrap().confirmed_by, "garbage-collection");
    (world, message)
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_moves_away_waits_until_its_refused_removal_is_confirmed() {
    let (world, message) = refused().await;
    assert!(
        message.contains("1 cluster should lose default/app") && message.contains(": c1;"),
        "{message}"
    );
    let hash = message
        .split("confirm-deletes=")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let confirm = |hash: &str| json!({"metadata": {"annotations": {"roundhouse.dev/confirm-deletes": hash}}});
    world.patch("app", confirm("0123")).await;
    world.rest().await;
    assert!(
        world.bundle("c1", "app").await.is_some(),
        "a hash of something else confirms nothing"
    );
    world.patch("app", confirm(hash)).await;
    world
        .until("app", "it is removed", async |world: &World| {
            world.bundle("c1", "app").await.is_none().then_some(())
        })
        .await;
    world.rest().await;
    let status = world.status("app").await;
    assert!(!condition::is_true(&status.conditions, "DeletesHeld"));
}

/// Given a Bundle that somebody deleted and that is not wanted again, when its cluster is told to remove the objects, then on the terms of
/// the application: nobody has confirmed that workloads go, and where they still run the agent asks.
#[tokio::test(start_paused = true)]
async fn what_was_let_go_is_kept_by_apply_once_as_everything_else() {
    const ALL: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];
    let world = World::five_on_any_server().await;
    let on = |clusters: &[&str]| {
        let mut spec = with_policy(&json!({"enable": true}));
        spec["workflow"] = json!({"steps": [{"name": "all", "type": "deploy", "properties": {
            "placement": [{"clusters": clusters, "replicas": "100%"}]}}]});
        spec
    };
    for cluster in ALL {
        world.agents.script(cluster, Script::Keeps).await;
    }
    world.apply("app", on(&ALL)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let terms = world.bundle("c1", "app").await.unwrap().spec;
    assert_eq!(terms.apply_once, Some(ApplyOnce::Once));
    world.apply("app", on(&ALL[..1])).await;
    let held = async |world: &World| {
        let status = world.status("app").await;
        condition::is_true(&status.conditions, "DeletesHeld").then_some(())
    };
    world.until("app", "the removals are held", held).await;
    world.delete_bundle("c2", "app").await;
    world
        .until("app", "it is let go", async |world: &World| {
            let is_noted = !world.status("app").await.let_go.is_empty();
            (is_noted && world.bundle("c2", "app").await.is_none()).then_some(())
        })
        .await;
    world.apply("app", on(&["c1", "c3", "c4", "c5"])).await;
    let refused = async |world: &World| {
        let bundle = world.bundle("c2", "app").await?;
        let status = world.status("app").await;
        let asked = condition::is_true(&status.conditions, "DeletesHeld");
        (asked && bundle.metadata.deletion_timestamp.is_some()).then_some(bundle.spec)
    };
    let told = world.until("app", "its agent refuses", refused).await;
    assert_eq!(told.deletion.unwrap().confirmed_by, "garbage-collection");
    assert_eq!(told.apply_once, terms.apply_once);
}

#[tokio::test(start_paused = true)]
async fn deleting_the_application_confirms_what_was_refused() {
    let (world, _) = refused().await;
    world.agents.script("c2", Script::Silent).await;
    world.delete("app").await;
    let deleting = world
        .until("app", "it is being deleted", async |world: &World| {
            let status = world.status("app").await;
            (status.phase == Some(ApplicationPhase::Deleting)).then_some(status)
        })
        .await;
    assert!(!condition::is_true(&deleting.conditions, "DeletesHeld"));
    assert_eq!(deleting.held_deletes, None, "nobody is asked any more");
    world.agents.script("c2", Script::Ready).await;
    world.until_gone("app").await;
    assert!(world.dispatched("app").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_wanted_again_while_its_removal_is_refused_gets_a_new_bundle() {
    let (world, _) = refused().await;
    let uid = world.bundle("c1", "app").await.unwrap().uid();
    world.label_cluster("c1", json!({"region": "east"})).await;
    world
        .until("app", "c1 has it again", async |world: &World| {
            let bundle = world.bundle("c1", "app").await?;
            (bundle.uid() != uid && bundle.metadata.deletion_timestamp.is_none()).then_some(())
        })
        .await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    let status = world.status("app").await;
    assert!(!condition::is_true(&status.conditions, "DeletesHeld"));
    assert_eq!(world.replicas("app").await["c1"], 7);
}
