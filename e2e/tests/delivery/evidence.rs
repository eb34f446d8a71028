//! A wait is satisfied by the evidence of its own revision and by no other.

use anyhow::{Context, Result};
use roundhouse_api::bundle::ApplyOnce;
use roundhouse_e2e::world::{SEED, World, eventually};

#[tokio::test(start_paused = true)]
async fn an_old_report_never_satisfies_a_new_wait_when_the_content_goes_a_b_a() -> Result<()> {
    let mut world = World::start(&[("east-1", "east"), ("west-1", "west")], ApplyOnce::Never).await?;
    world.create(SEED).await?;
    world.delivered("web", "web-v1").await?;
    let first = world.bundle("east-1", "web").await?;

    world.fleet.stop_agent("east-1").await?;
    world.until_available("east-1", false).await?;
    world.set_image("nginx:1.29").await?;
    eventually("the Bundle of B", async || {
        let bundle = world.bundle("east-1", "web").await?;
        Ok(if bundle.spec.hash == first.spec.hash {
            Err(bundle.spec.hash)
        } else {
            Ok(())
        })
    })
    .await?;
    world.set_image("nginx:1.28").await?;
    let again = eventually("the Bundle of A again", async || {
        let bundle = world.bundle("east-1", "web").await?;
        Ok(if bundle.spec.hash == first.spec.hash {
            Ok(bundle)
        } else {
            Err(bundle.spec.hash)
        })
    })
    .await?;
    // The report in hand has the right hash, and is about another generation.
    let report = again.status.context("status")?;
    assert_eq!(report.hash, again.spec.hash);
    assert_ne!(report.observed_generation, again.metadata.generation);
    world.says("web", "east-1").await?;
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    let run = world.status("web").await?.workflow.context("workflow")?;
    assert!(!run.finished, "{run:?}");

    world.fleet.start_agent("east-1")?;
    eventually("the run to end on its own evidence", async || {
        let status = world.status("web").await?;
        let finished = status.workflow.as_ref().is_some_and(|w| w.finished);
        Ok(if finished { Ok(()) } else { Err(status) })
    })
    .await?;
    let bundle = world.bundle("east-1", "web").await?;
    assert_eq!(
        bundle.status.context("status")?.observed_generation,
        bundle.metadata.generation
    );
    Ok(())
}
