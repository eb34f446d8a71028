//! Changes of the fleet under an application that is delivered, with every stored state looked at.

use crate::{
    agents::Script,
    objects,
    recorder::{Recorder, Seen},
    world::{World, seed, web},
};
use kube::{Api, api::DeleteParams};
use roundhouse_api::{
    application::{ApplicationPhase, OVERCOMMITTED},
    cluster::Cluster,
    condition,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

const EAST: [&str; 3] = ["c1", "c2", "c3"];
const WEST: [&str; 2] = ["c4", "c5"];

/// Five clusters with the seed's application delivered, recorded from the beginning.
async fn delivered(spec: Value) -> (World, Recorder) {
    let world = World::five().await;
    let recorder = Recorder::start(&world);
    world.apply("app", spec).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    world.rest().await;
    (world, recorder)
}

/// States that a test saw at least: the five first Bundles with a report of each are ten.
fn seen(decisions: usize, bundles: usize) -> Seen {
    Seen { decisions, bundles }
}

fn sum(replicas: &BTreeMap<String, u64>, clusters: &[&str]) -> u64 {
    clusters.iter().filter_map(|c| replicas.get(*c)).sum()
}

/// Waits until these clusters have so many replicas in all.
async fn until_sum(world: &World, clusters: &[&str], expected: u64) {
    let what = format!("{clusters:?} have {expected}");
    world
        .until("app", &what, async |world: &World| {
            (sum(&world.replicas("app").await, clusters) == expected).then_some(())
        })
        .await;
    world.rest().await;
}

fn taint(effect: &str, more: &Value) -> Value {
    let mut taint = json!({"key": "maintenance", "effect": effect});
    taint
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!([taint])
}

#[tokio::test(start_paused = true)]
async fn a_cluster_joins() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    world.join("c6", &[("region", "east")]).await;
    until_sum(&world, &["c1", "c2", "c3", "c6"], 7).await;
    let replicas = world.replicas("app").await;
    assert!(replicas["c6"] > 0, "{replicas:?}");
    assert_eq!(sum(&replicas, &WEST), 2);
    recorder.check_conserved(10, seen(2, 12));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_leaves() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    let clusters: Api<Cluster> = Api::all(world.client.clone());
    clusters.delete("c1", &DeleteParams::default()).await.unwrap();
    until_sum(&world, &["c2", "c3"], 7).await;
    assert_eq!(sum(&world.replicas("app").await, &WEST), 2);
    // One of five may go without a question.
    world.until_removed("app", "c1").await;
    recorder.check_conserved(10, seen(2, 12));
    for kept in ["c2", "c3", "c4", "c5"] {
        assert!(!recorder.ever_removed(kept), "{kept}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_relabelled() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    world.label_cluster("c3", json!({"region": "west"})).await;
    until_sum(&world, &["c1", "c2"], 7).await;
    assert_eq!(sum(&world.replicas("app").await, &["c3", "c4", "c5"]), 2);
    recorder.check_conserved(10, seen(2, 12));
    assert!(!recorder.ever_removed("c3"), "it is of the west now");
}

#[tokio::test(start_paused = true)]
async fn a_label_that_no_rule_reads_moves_nothing() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    let before = world.server().counter().total_stored();
    world.label_cluster("c3", json!({"rack": "12"})).await;
    assert_eq!(world.rest().await - before, 1, "the label and nothing else");
    recorder.check_conserved(10, seen(1, 10));
}

/// The condition comes with the rules that claim too much, and is taken back when they do not any more.
#[tokio::test(start_paused = true)]
async fn rules_that_claim_too_much_are_a_condition() {
    let world = World::five().await;
    let spec = |count: u32| {
        let placement = json!([
            {"name": "east", "clusterSelector": {"region": "east"}, "replicas": count},
            {"name": "west", "clusterSelector": {"region": "west"}, "replicas": "20%"}]);
        let step = json!({"name": "all", "type": "deploy", "properties": {"placement": placement}});
        json!({"components": web("nginx:1"), "workflow": {"steps": [step]}})
    };
    let said = async |world: &World| {
        let status = world.status("app").await;
        let said = condition::get(&status.conditions, OVERCOMMITTED)?;
        Some((said.status.clone(), said.reason.clone(), said.message.clone()))
    };
    world.apply("app", spec(8)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(said(&world).await, None, "not before there is reason to");
    world.apply("app", spec(9)).await;
    let told = world
        .until("app", "the condition to be said", async |world: &World| {
            said(world).await
        })
        .await;
    let message = "lower counts or percentages: rule all/west gets 1 of 2 replicas of Deployment default/web";
    assert_eq!(
        told,
        ("True".to_owned(), "RulesClaimMore".to_owned(), message.to_owned())
    );
    world.apply("app", spec(8)).await;
    let within = ("False".to_owned(), "WithinReplicas".to_owned(), String::new());
    world
        .until("app", "it to be taken back", async |world: &World| {
            (said(world).await? == within).then_some(())
        })
        .await;
}

/// The division is what it was, and its explanation is not: the stored Decision tells the new one, once.
#[tokio::test(start_paused = true)]
async fn a_decision_says_what_is_so_now() {
    let world = World::five().await;
    let south = json!([{"name": "south", "clusterSelector": {"region": "south"}, "replicas": "100%"}]);
    let step = json!({"name": "all", "type": "deploy", "properties": {"placement": south}});
    let spec = json!({"components": web("nginx:1"), "workflow": {"steps": [step]}});
    world.apply("app", spec).await;
    world.rest().await;
    let first = async |world: &World| {
        let decision = world.decision("app-all").await.unwrap();
        (decision.spec.hash.clone(), decision.spec.reasons[0].clone())
    };
    let told = |east: &str| {
        format!(
            "rule south matches no cluster (selector region=south; {east} clusters have region=east, 2 clusters have region=west); label a cluster or change the rule"
        )
    };
    let before = first(&world).await;
    assert_eq!(before.1, told("3"));
    world.join("c6", &[("region", "east")]).await;
    world.rest().await;
    assert_eq!(first(&world).await, (before.0, told("4")));
    let stored = world.server().counter().total_stored();
    world.label_cluster("c6", json!({"rack": "12"})).await;
    assert_eq!(world.rest().await - stored, 1, "the label and nothing else");
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_cluster_keeps_what_it_has_and_gets_nothing_more() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    let before = world.replicas("app").await;
    world.taint_cluster("c1", taint("NoSchedule", &json!({}))).await;
    world.rest().await;
    assert_eq!(world.replicas("app").await, before);
    // Twice the replicas: the others take them all.
    let mut spec = seed("nginx:1");
    spec["components"][0]["properties"]["replicas"] = json!(20);
    recorder.check_conserved(10, seen(1, 10));
    world.apply("app", spec).await;
    until_sum(&world, &EAST, 14).await;
    assert_eq!(world.replicas("app").await["c1"], before["c1"]);
    assert!(!recorder.ever_removed("c1"));
    // And without the taint it takes its share again.
    world.taint_cluster("c1", json!([])).await;
    world
        .until("app", "c1 grows", async |world: &World| {
            (world.replicas("app").await["c1"] > before["c1"]).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_tainted_cluster_that_holds_nothing_gets_nothing_until_the_taint_goes() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    let before = world.replicas("app").await;
    world.join("c6", &[("region", "north")]).await;
    world.taint_cluster("c6", taint("NoSchedule", &json!({}))).await;
    world.label_cluster("c6", json!({"region": "east"})).await;
    world.rest().await;
    assert_eq!(world.replicas("app").await, before);
    let decision = world.decision("app-step-0").await.unwrap();
    let tainted = decision.spec.excluded.iter().find(|e| e.reason == "Tainted");
    assert_eq!(tainted.map(|e| e.count), Some(1));
    world.taint_cluster("c6", json!([])).await;
    until_sum(&world, &["c1", "c2", "c3", "c6"], 7).await;
    assert!(world.replicas("app").await["c6"] > 0);
    recorder.check_conserved(10, seen(2, 12));
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_evicts_moves_everything_away() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    world.taint_cluster("c1", taint("NoExecute", &json!({}))).await;
    until_sum(&world, &["c2", "c3"], 7).await;
    world.until_removed("app", "c1").await;
    recorder.check_conserved(10, seen(2, 12));
}

#[tokio::test(start_paused = true)]
async fn a_taint_is_tolerated_for_its_time() {
    let mut spec = seed("nginx:1");
    spec["workflow"]["steps"][0]["properties"]["tolerations"] = json!([{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]);
    let (world, recorder) = delivered(spec).await;
    let before = world.replicas("app").await;
    // The spec does not say since when; the hub has noted it, as its cluster controller does.
    let added = world.clock.now();
    world.taint_cluster("c1", taint("NoExecute", &json!({}))).await;
    world.rest().await;
    assert_eq!(world.replicas("app").await, before, "nobody knows since when");
    world
        .patch_cluster_status(
            "c1",
            json!({"taintsSeen": taint("NoExecute", &json!({"timeAdded": added.to_string()}))}),
        )
        .await;
    let writes = world.rest().await;
    let left =
        Duration::from_secs(300) - Duration::try_from(world.clock.now().duration_since(added)).unwrap();
    tokio::time::sleep(left - Duration::from_secs(1)).await;
    assert_eq!(world.replicas("app").await, before, "its time is not over");
    assert_eq!(
        world.server().counter().total_stored(),
        writes,
        "waiting writes nothing"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    until_sum(&world, &["c2", "c3"], 7).await;
    recorder.check_conserved(10, seen(2, 12));
}

/// The same of the object of a step, which is somewhere also where nothing is placed.
#[tokio::test(start_paused = true)]
async fn a_taint_is_tolerated_for_its_time_by_an_object_of_a_step_too() {
    let tolerated = |seconds: Option<u64>| {
        let mut toleration = json!({"key": "maintenance", "operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = seconds {
            toleration["tolerationSeconds"] = seconds.into();
        }
        json!([toleration])
    };
    let mut flags = objects::flags(&json!({"region": "east"}), "1");
    flags["properties"]["tolerations"] = tolerated(Some(300));
    let mut east = objects::east();
    east["properties"]["tolerations"] = tolerated(None);
    let world = World::five().await;
    world.apply("app", objects::app(&[flags, east])).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    let added = world.clock.now();
    let taints = taint("NoExecute", &json!({"timeAdded": added.to_string()}));
    world.taint_cluster("c1", taints).await;
    world.rest().await;
    let all = ["c1", "c2", "c3"];
    assert_eq!(objects::clusters_of(&world, objects::FLAGS).await, all);
    let passed = Duration::try_from(world.clock.now().duration_since(added)).unwrap();
    tokio::time::sleep(Duration::from_secs(299) - passed).await;
    assert_eq!(
        objects::clusters_of(&world, objects::FLAGS).await,
        all,
        "its time is not over"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    objects::until_on(&world, objects::FLAGS, &["c2", "c3"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_keeps_what_it_has_however_long_it_is_away() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    let before = world.replicas("app").await;
    world.agents.script("c1", Script::Silent).await;
    world.available("c1", false).await;
    world.until_phase("app", ApplicationPhase::Unhealthy).await;
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(world.replicas("app").await, before);
    // Others come and go meanwhile.
    world.join("c6", &[("region", "east")]).await;
    world.until_placed_on("app", "c6").await;
    world.rest().await;
    let meanwhile = world.replicas("app").await;
    assert!(meanwhile["c1"] <= before["c1"], "it gets nothing more");
    assert_eq!(sum(&meanwhile, &["c1", "c2", "c3", "c6"]), 7);
    recorder.check_conserved(10, seen(2, 12));
    assert!(!recorder.ever_removed("c1"));
    world.agents.script("c1", Script::Ready).await;
    world.available("c1", true).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    recorder.check_conserved(10, seen(2, 12));
    assert!(!recorder.ever_removed("c1"));
}

#[tokio::test(start_paused = true)]
async fn capacity_is_followed() {
    let (world, recorder) = delivered(seed("nginx:1")).await;
    world
        .patch_cluster_status("c1", json!({"capacity": {"replicas": "1"}}))
        .await;
    world
        .until("app", "c1 has what it can hold", async |world: &World| {
            (world.replicas("app").await["c1"] == 1).then_some(())
        })
        .await;
    until_sum(&world, &EAST, 7).await;
    recorder.check_conserved(10, seen(2, 12));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_may_match_nothing_holds_up_nothing() {
    let world = World::five().await;
    let spec = |allow: bool| {
        json!({"components": web("nginx:1"), "policies": [
            {"name": "mars", "type": "topology", "properties": {"clusterLabelSelector": {"region": "mars"}, "allowEmpty": allow}},
            {"name": "west", "type": "topology", "properties": {"clusterLabelSelector": {"region": "west"}}}]})
    };
    world.apply("app", spec(true)).await;
    world.until_phase("app", ApplicationPhase::Running).await;
    assert_eq!(
        world.replicas("app").await,
        [("c4".to_owned(), 10), ("c5".to_owned(), 10)].into()
    );
    world.apply("strict", spec(false)).await;
    world.rest().await;
    let status = world.status("strict").await;
    let message = status.workflow.unwrap().message.unwrap();
    assert_eq!(
        message,
        "waiting: no cluster is chosen; placement is not satisfied: rule mars matches no cluster (selector region=mars; 3 \
         clusters have region=east, 2 clusters have region=west); label a cluster or change the rule",
        "the first step waits"
    );
}
