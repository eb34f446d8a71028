//! Deliveries across processes, and an agent that is killed in the middle of one.

use crate::yard::{MEMBERS, Yard};
use anyhow::Result;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use roundhouse_api::bundle::Bundle;
use roundhouse_e2e::{
    process::{Signal, soon},
    world::annotation,
};
use serde_json::json;

fn is(asked: i32, ready: i32, image: &str) -> (i32, i32, String) {
    (asked, ready, image.to_owned())
}

#[tokio::test]
async fn the_seed_and_an_edited_image_reach_both_members() -> Result<()> {
    let yard = Yard::start().await?;
    yard.deliver_seed().await?;
    assert_eq!(yard.web("east-1").await?, is(7, 7, "nginx:1.28"));
    assert_eq!(yard.web("west-1").await?, is(2, 2, "nginx:1.28"));
    yard.set_image("nginx:1.29").await?;
    let status = yard.delivered("web-v2").await?;
    assert_eq!(
        status
            .delivery
            .map(|delivery| (delivery.placed, delivery.unplaced)),
        Some((9, 1))
    );
    assert_eq!(yard.web("east-1").await?, is(7, 7, "nginx:1.29"));
    assert_eq!(yard.web("west-1").await?, is(2, 2, "nginx:1.29"));
    Ok(())
}

#[tokio::test]
async fn an_agent_killed_while_it_applies_is_waited_for_and_goes_on() -> Result<()> {
    let mut yard = Yard::start().await?;
    yard.deliver_seed().await?;
    // The member holds still, so that whatever the agent does of the new revision stays unanswered.
    yard.members[0].signal(Signal::Stop).await?;
    yard.set_image("nginx:1.29").await?;
    let bundles: Api<Bundle> = Api::namespaced(yard.client.clone(), "cluster-east-1");
    soon("the new bundle of east-1", async || {
        let bundle = bundles.get("default.web").await?;
        let text = serde_json::to_string(&bundle.spec)?;
        Ok(if text.contains("nginx:1.29") {
            Ok(())
        } else {
            Err(text)
        })
    })
    .await?;
    let agent = yard.agents.remove(0);
    let killed = agent.end(Signal::Kill).await?;
    assert_eq!(killed.status.code(), None, "it was killed: {}", killed.stderr);
    yard.members[0].signal(Signal::Continue).await?;
    // West is there; east has no agent, so the step waits and says for whom.
    soon("the wait for east-1", async || {
        let status = yard.status().await?;
        assert!(
            !Yard::is_delivered(&status, "web-v2"),
            "nobody delivered to east-1"
        );
        let run = status.workflow.unwrap_or_default();
        let message = run.message.unwrap_or_default();
        let waits = message.contains("waiting for 1 of 2 clusters: east-1");
        Ok(if waits { Ok(()) } else { Err(message) })
    })
    .await?;
    assert_eq!(yard.web("west-1").await?, is(2, 2, "nginx:1.29"));
    let agent = yard.start_agent("east-1")?;
    yard.agents.insert(0, agent);
    yard.delivered("web-v2").await?;
    assert_eq!(yard.web("east-1").await?, is(7, 7, "nginx:1.29"));
    Ok(())
}

#[tokio::test]
async fn an_agent_killed_before_it_reports_writes_nothing_twice() -> Result<()> {
    let mut yard = Yard::start().await?;
    yard.deliver_seed().await?;
    let deployments = yard.deployments("east-1").await?;
    let by_hand = json!({"metadata": {"annotations": {"team": "payments"}}});
    deployments
        .patch("web", &PatchParams::default(), &Patch::Merge(by_hand))
        .await?;
    yard.set_image("nginx:1.29").await?;
    // Applied, and not ready yet: simulated replicas take a while.
    soon("the new image in east-1", async || {
        let (_, _, image) = yard.web("east-1").await?;
        Ok(if image == "nginx:1.29" { Ok(()) } else { Err(image) })
    })
    .await?;
    let agent = yard.agents.remove(0);
    agent.end(Signal::Kill).await?;
    let generation = deployments.get("web").await?.metadata.generation;
    let agent = yard.start_agent("east-1")?;
    yard.agents.insert(0, agent);
    yard.delivered("web-v2").await?;
    let web = deployments.get("web").await?;
    assert_eq!(
        web.metadata.generation, generation,
        "what was applied is not applied again"
    );
    assert_eq!(annotation(&web, "team").as_deref(), Some("payments"));
    for ((name, _), replicas) in MEMBERS.iter().zip([7, 2]) {
        assert_eq!(
            yard.web(name).await?,
            is(replicas, replicas, "nginx:1.29"),
            "{name}"
        );
    }
    Ok(())
}
