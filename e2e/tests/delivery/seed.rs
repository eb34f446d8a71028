//! The samples are delivered.

use anyhow::{Context, Result};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use roundhouse_api::{
    application::{Application, ApplicationPhase, PLACED},
    condition,
    decision::Decision,
};
use roundhouse_e2e::world::{APP, REGIONS, SEED, World, eventually, image};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn the_seed_puts_seven_in_the_east_two_in_the_west_and_reports_one() -> Result<()> {
    let world = World::five().await?;
    world.create(SEED).await?;
    let status = world.delivered("web", "web-v1").await?;
    let replicas = world.replicas("web").await?;
    let sum = |region: &str| -> i32 {
        replicas
            .iter()
            .filter(|(c, _)| c.starts_with(region))
            .map(|(_, n)| n)
            .sum()
    };
    assert_eq!(
        (replicas.len(), sum("east"), sum("west")),
        (5, 7, 2),
        "{replicas:?}"
    );
    let placed = condition::get(&status.conditions, PLACED).context("condition Placed")?;
    assert!(
        placed.status == "True" && placed.message.contains("no rule claims it"),
        "{placed:?}"
    );
    let delivery = status.delivery.context("delivery")?;
    assert_eq!((delivery.placed, delivery.unplaced), (9, 1));
    assert_eq!(
        (delivery.clusters_ready.as_str(), delivery.replicas_ready.as_str()),
        ("5/5", "9/9")
    );
    assert!(
        delivery.unplaced_reasons[0].contains("no rule claims"),
        "{:?}",
        delivery.unplaced_reasons
    );
    let decisions: Api<Decision> = Api::namespaced(world.hub.clone(), "default");
    let decision = decisions.get("web-step-0").await?.spec;
    assert_eq!(
        (decision.replicas, decision.placed, decision.unplaced),
        (10, 9, 1)
    );
    assert!(decision.satisfied);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_edited_image_makes_a_new_revision_that_reaches_every_member() -> Result<()> {
    let world = World::five().await?;
    world.create(SEED).await?;
    world.delivered("web", "web-v1").await?;
    world.set_image("nginx:1.29").await?;
    let status = world.delivered("web", "web-v2").await?;
    assert_eq!(status.latest_revision.context("revision")?.name, "web-v2");
    for member in world.fleet.members() {
        let deployment = world.deployment(&member, "web").await?;
        assert_eq!(
            image(&deployment, "web").as_deref(),
            Some("nginx:1.29"),
            "{member}"
        );
        let updated = deployment.status.context("status")?.updated_replicas;
        assert_eq!(
            updated,
            deployment.spec.context("spec")?.replicas,
            "{member} runs the new template"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_config_map_and_a_service_go_wherever_the_deployment_goes() -> Result<()> {
    use k8s_openapi::api::core::v1::{ConfigMap, Service};
    let world = World::five().await?;
    world.create(APP).await?;
    world.delivered("shop", "shop-v1").await?;
    for member in world.fleet.members() {
        let client = world.fleet.member_client(&member)?;
        let map = Api::<ConfigMap>::namespaced(client.clone(), "default")
            .get("shop-settings")
            .await?;
        assert_eq!(map.data.context("data")?["currency"], "EUR");
        let service = Api::<Service>::namespaced(client, "default").get("shop").await?;
        assert_eq!(service.spec.context("spec")?.ports.context("ports")?[0].port, 80);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_west_gets_nothing_until_a_person_has_looked_at_the_east() -> Result<()> {
    let world = World::five().await?;
    world.create(REGIONS).await?;
    eventually("the suspend step", async || {
        let status = world.status("checkout").await?;
        let suspended = status.phase == Some(ApplicationPhase::WorkflowSuspending);
        Ok(if suspended { Ok(()) } else { Err(status) })
    })
    .await?;
    let replicas = world.replicas("checkout").await?;
    assert_eq!(replicas.values().sum::<i32>(), 6);
    assert!(replicas.keys().all(|c| c.starts_with("east")), "{replicas:?}");

    let applications: Api<Application> = Api::namespaced(world.hub.clone(), "default");
    let resume = json!({"status": {"workflow": {"suspend": false}}});
    applications
        .patch_status("checkout", &PatchParams::default(), &Patch::Merge(resume))
        .await?;
    world.delivered("checkout", "checkout-v1").await?;
    let replicas = world.replicas("checkout").await?;
    assert_eq!(
        (replicas.len(), replicas.values().sum::<i32>()),
        (5, 10),
        "{replicas:?}"
    );
    Ok(())
}
