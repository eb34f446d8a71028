//! P5: who is out of reach keeps its place.

use super::{super::promise::Promise, world::*};
use crate::simulate::HUB;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::advance;

const CLUSTER: At<'_> = (HUB, "clusters.roundhouse.dev", "", C1);

/// The cluster, heard of or not, with more of this.
fn cluster(available: &str, more: &[(&str, Value)]) -> Value {
    let mut cluster = cluster_available();
    cluster["status"]["conditions"][0]["status"] = json!(available);
    for (field, value) in more {
        let (of, field) = field.split_once('.').unwrap();
        cluster[of][field] = value.clone();
    }
    cluster
}

fn taint(key: &str, effect: &str) -> Value {
    json!([{"key": key, "effect": effect}])
}

#[tokio::test(start_paused = true)]
async fn p5_a_cluster_that_is_not_placed_any_more_for_being_out_of_reach_is_told() {
    let unreachable = ("status.taints", taint("roundhouse.dev/unreachable", "NoSchedule"));
    let long = Duration::from_secs(500);
    for (changed, since, holds) in [
        (cluster("Unknown", &[]), Duration::ZERO, false),
        (cluster("Unknown", &[unreachable]), Duration::ZERO, false),
        (cluster("True", &[]), Duration::ZERO, false),
        (
            cluster("True", &[("metadata.labels", json!({"region": "west"}))]),
            Duration::ZERO,
            true,
        ),
        // It was so when the step was decided last, and the hub had to know that.
        (
            cluster("True", &[("metadata.labels", json!({"region": "west"}))]),
            long,
            false,
        ),
        (
            cluster("Unknown", &[("spec.taints", taint("down", "NoExecute"))]),
            Duration::ZERO,
            true,
        ),
        (
            cluster("Unknown", &[("spec.taints", taint("down", "NoExecute"))]),
            long,
            true,
        ),
        (
            cluster("Unknown", &[("spec.accepted", json!(false))]),
            Duration::ZERO,
            true,
        ),
        (
            cluster("True", &[("status.allocatable", json!({"replicas": "0"}))]),
            Duration::ZERO,
            true,
        ),
    ] {
        let world = World::delivered();
        world.put(None, CLUSTER, &changed);
        advance(since).await;
        world.put(Some(&world.hub), DECISION, &decision(&[C1], 2));
        advance(since).await;
        world.put(Some(&world.hub), DECISION, &decision(&["c2"], 2));
        match holds {
            true => world.holds(),
            false => world.breaks(
                Promise::P5,
                DECISION,
                "c1 to keep its place in step step-0 of web-v1",
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn p5_another_cluster_another_revision_and_a_choice_by_number_move_what_is_placed() {
    // Another one comes.
    let world = World::delivered();
    world.put(None, (HUB, CLUSTER.1, "", "c4"), &cluster_available());
    world.put(Some(&world.hub), DECISION, &decision(&["c2"], 2));
    world.holds();
    // Who has nothing of the application loses nothing.
    let world = World::delivered();
    world.put(Some(&world.hub), DECISION, &decision(&["c2"], 2));
    let broken = world.monitor.broken().len();
    world.put(Some(&world.hub), DECISION, &decision(&["c3"], 2));
    assert_eq!(
        (broken, world.monitor.broken().len()),
        (1, 1),
        "{:?}",
        world.monitor.broken()
    );
    // At most so many clusters: whom it takes goes by who is there.
    let world = World::delivered();
    let mut limited = revision();
    limited["spec"]["application"]["workflow"]["steps"][0]["properties"]["maxClusters"] = json!(1);
    world.put(Some(&world.hub), REVISION, &limited);
    world.put(Some(&world.hub), DECISION, &decision(&["c2"], 2));
    world.holds();
    // What is decided for another revision may be for others.
    let world = World::delivered();
    let mut next = revision();
    next["metadata"]["name"] = json!("web-v2");
    world.put(Some(&world.hub), (HUB, REVISION.1, REVISION.2, "web-v2"), &next);
    let mut decision = decision(&["c2"], 2);
    decision["spec"]["revision"] = json!("web-v2");
    world.put(Some(&world.hub), DECISION, &decision);
    world.holds();
}
