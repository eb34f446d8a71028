//! A waiting step reacts to reports, and asks nobody in between.

use crate::{
    agents::Script,
    world::{World, web},
};
use roundhouse_api::application::{ApplicationPhase, StepPhase};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The first wait of the back-off: what takes less has not waited for a timer.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// From here on the back-off looks once a minute.
const LONG_AFTER: Duration = Duration::from_secs(300);

#[tokio::test(start_paused = true)]
async fn a_step_is_woken_by_a_report_and_asks_nobody_in_between() {
    let world = World::five().await;
    let clusters = ["c1", "c2", "c3", "c4", "c5"];
    for cluster in clusters {
        world.label_cluster(cluster, json!({"own": cluster})).await;
        world.agents.script(cluster, Script::Applied).await;
    }
    let step = |cluster: &&str| {
        json!({"name": cluster, "type": "deploy", "properties": {"placement": [
            {"clusterSelector": {"own": cluster}, "replicas": 2}]}})
    };
    let steps: Vec<_> = clusters.iter().map(step).collect();
    world
        .apply(
            "app",
            json!({"components": web("nginx:1"), "workflow": {"steps": steps}}),
        )
        .await;
    for (index, cluster) in clusters.into_iter().enumerate() {
        let phase = async |phase: StepPhase| {
            world
                .until("app", cluster, async |world: &World| {
                    let steps = world.status("app").await.workflow?.steps;
                    (steps.get(index)?.phase == phase).then_some(())
                })
                .await;
        };
        phase(StepPhase::Running).await;
        world.rest().await;
        // Another moment of the back-off's minute for each.
        tokio::time::sleep(LONG_AFTER + Duration::from_secs(11) * u32::try_from(index).unwrap()).await;
        world.asked.take();
        tokio::time::sleep(LONG_AFTER).await;
        assert_eq!(world.asked.take(), [""; 0], "nothing has happened");

        let reported = Instant::now();
        world.agents.script(cluster, Script::Ready).await;
        phase(StepPhase::Succeeded).await;
        let took = reported.elapsed();
        assert!(took < FIRST_WAIT, "{cluster}: {took:?} after the report");
        let asked = world.asked.take();
        assert!(
            asked
                .iter()
                .any(|line| line.starts_with("PUT ") && line.ends_with("/applications/app/status")),
            "{asked:?}"
        );
    }
    world.until_phase("app", ApplicationPhase::Running).await;
}
