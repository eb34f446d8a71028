//! A delivered fleet at rest: nothing is written but Leases, and what the hub costs meanwhile.

use crate::{
    hub::{since, written},
    machine::{self, Usage},
    world::{APPLICATIONS, CLUSTERS, Seconds, Worlds},
};
use anyhow::Result;
use roundhouse_e2e::figure::Figure;

const SCENARIO: &str = "idle";
/// Seconds between two renewals of an agent's Lease, on average.
const RENEWAL: f64 = 10.0;

pub(crate) async fn measure(worlds: &mut Worlds) -> Result<Vec<Figure>> {
    let size = worlds.size();
    let [applications, _] = worlds.sizes();
    // Another scenario may have made the fleet larger.
    let applications = applications.max(worlds.applications());
    // Longer than between two looks at anything: watches are begun anew after five minutes, rights are looked at every ten.
    let time = size.pick(660, 30, 3).seconds();
    let world = worlds.reach(applications).await?;
    let clusters = world.clusters();
    let (before, sent) = (world.hub.writes().await?, world.agents.sent().await?);
    let revision = world.hub.revision().await?;
    let usage = Usage::begin(&world.processes()?)?;
    tokio::time::sleep(time).await;
    let used = usage.end()?;
    let requests = since(&before, &world.hub.writes().await?);
    let received = world.agents.sent().await?;
    let (memory, _) = machine::memory(world.hub.id()?)?;
    let objects = world.hub.written_after(revision).await?;
    let minutes = time.as_secs_f64() / 60.0;
    let count = requests.values().sum::<u64>() as f64 / minutes;
    let hub = used.of("hub");
    Ok(vec![
        Figure::new(
            SCENARIO,
            "write requests a minute but Leases, in steady state",
            count,
            "",
        )
        .exactly(0.0)
        .note(match requests.is_empty() {
            true => format!("in {} s", time.as_secs()),
            false => format!("in {} s: {requests:?}", time.as_secs()),
        }),
        written(SCENARIO, &objects),
        Figure::new(
            SCENARIO,
            "bytes of bundles that agents are sent meanwhile",
            (received.bundles - sent.bundles) as f64,
            "",
        )
        .exactly(0.0),
        Figure::new(
            SCENARIO,
            format!("idle hub with {clusters} agents"),
            hub.all(),
            "cores",
        )
        .at_most(
            0.05,
            &[
                (clusters, CLUSTERS, "clusters"),
                (applications, APPLICATIONS[0], "applications"),
            ],
        )
        .note(format!(
            "each agent renews its Lease every {RENEWAL} s, durably: {:.2} ms of a core for each renewal; {used}; \
             {memory:.0} MiB with {applications} applications",
            hub.all() * 1_000.0 * RENEWAL / clusters as f64
        )),
        Figure::new(SCENARIO, "of it in the kernel", hub.kernel, "cores"),
    ])
}
