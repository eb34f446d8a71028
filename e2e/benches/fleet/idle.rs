//! A delivered fleet at rest: nothing is written but Leases, and what the hub costs meanwhile.

use crate::{
    figure::{Figure, Target},
    hub::since,
    machine::{self, Usage},
    world::{Seconds, Worlds},
};
use anyhow::Result;

const SCENARIO: &str = "idle";

pub(crate) async fn measure(worlds: &mut Worlds) -> Result<Vec<Figure>> {
    let size = worlds.size();
    let [applications, _] = worlds.sizes();
    let time = size.pick(120, 30, 3).seconds();
    let world = worlds.reach(applications).await?;
    let clusters = world.clusters();
    let (before, sent) = (world.hub.writes().await?, world.agents.sent().await?);
    let usage = Usage::begin(&world.processes()?)?;
    tokio::time::sleep(time).await;
    let used = usage.end()?;
    let written = since(&before, &world.hub.writes().await?);
    let received = world.agents.sent().await?;
    let (memory, _) = machine::memory(world.hub.id()?)?;
    let minutes = time.as_secs_f64() / 60.0;
    let count = written.values().sum::<u64>() as f64 / minutes;
    Ok(vec![
        Figure::new(
            SCENARIO,
            "writes a minute but Leases, in steady state",
            Target::Exactly(0.0),
            count,
            "",
        )
        .note(match written.is_empty() {
            true => format!("in {} s", time.as_secs()),
            false => format!("in {} s: {written:?}", time.as_secs()),
        }),
        Figure::new(
            SCENARIO,
            "bytes of bundles that agents are sent meanwhile",
            Target::Exactly(0.0),
            (received.bundles - sent.bundles) as f64,
            "",
        ),
        Figure::new(
            SCENARIO,
            format!("idle hub with {clusters} agents"),
            Target::AtMost(0.05),
            used.of("hub"),
            "cores",
        )
        .note(format!(
            "each agent renews its Lease every 10 s, durably; {used}; {memory:.0} MiB with {applications} applications"
        )),
    ])
}
