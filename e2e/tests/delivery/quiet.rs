//! In the steady state nothing is written but Leases.

use anyhow::Result;
use roundhouse_api::bundle::ApplyOnce;
use roundhouse_e2e::world::{APP, SEED, World};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_hundred_passes_of_hub_and_agents_write_nothing() -> Result<()> {
    let mut world = World::start(&[("east-1", "east"), ("west-1", "west")], ApplyOnce::Never).await?;
    world.create(SEED).await?;
    world.create(APP).await?;
    world.delivered("web", "web-v1").await?;
    world.delivered("shop", "shop-v1").await?;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = world.writes()?;
    let requests = |world: &World| {
        world
            .fleet
            .hub_server()
            .counter()
            .requests()
            .values()
            .sum::<u64>()
    };
    for _ in 0..100 {
        let asked = requests(&world);
        // A start is a pass over everything, with nothing remembered.
        world.fleet.stop_hub().await;
        world.fleet.start_hub();
        for member in world.fleet.members() {
            world.fleet.stop_agent(&member).await?;
            world.fleet.start_agent(&member)?;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(requests(&world) > asked, "the pass has looked");
    }
    let after = world.writes()?;
    let written: Vec<_> = after
        .iter()
        .filter(|(object, count)| before.get(*object) != Some(*count))
        .collect();
    assert!(written.is_empty(), "{written:?}");
    Ok(())
}
