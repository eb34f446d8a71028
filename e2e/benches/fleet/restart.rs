//! `kill -9` of the hub under its agents, and a start on the same directory.

use crate::{
    agents::{Agents, Sent},
    hub::{named, since, written},
    machine::{self, Usage},
    world::{self, APPLICATIONS, CLUSTERS, Seconds, Worlds, until},
};
use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use roundhouse_api::names::AGENT_LEASE;
use roundhouse_e2e::figure::Figure;
use std::collections::BTreeMap;
use tokio::time::sleep;

const SCENARIO: &str = "restart";

/// When every agent renewed its Lease last.
async fn renewals(world: &world::World) -> Result<BTreeMap<String, String>> {
    let leases: Api<Lease> = Api::all(world.client());
    let all = leases
        .list(&ListParams::default().fields(&format!("metadata.name={AGENT_LEASE}")))
        .await?;
    let renewal = |lease: &Lease| {
        let spec = lease.spec.as_ref()?;
        Some((lease.namespace()?, format!("{:?}", spec.renew_time)))
    };
    Ok(all.iter().filter_map(renewal).collect())
}

/// How many agents have another watch of their Bundles than they had then.
async fn back(agents: &mut Agents, clusters: usize, then: &Sent) -> Result<usize> {
    let now = agents.sent().await?;
    let anew = (0..clusters).filter(|n| now.watches_anew(&world::cluster(*n), then));
    Ok(anew.count())
}

pub(crate) async fn measure(worlds: &mut Worlds) -> Result<Vec<Figure>> {
    let size = worlds.size();
    let [_, applications] = worlds.sizes();
    worlds.reach(applications).await?;
    let (mut world, has) = worlds.take()?;
    let clusters = world.clusters();
    let bundles = clusters * applications;
    let before = renewals(&world).await?;
    let sent = world.agents.sent().await?;
    let revision = world.hub.revision().await?;
    let (mut world, started) = world.restart_hub().await?;
    let usage = Usage::begin(&world.processes()?)?;
    let served = started.elapsed();
    // Agents may watch before the hub leads, or after.
    let leading = async {
        world.hub.leads().await?;
        anyhow::Ok(started.elapsed())
    };
    let watching = async {
        until("every agent to watch its Bundles again", async || {
            let back = back(&mut world.agents, clusters, &sent).await?;
            ensure!(back == clusters, "{back} of {clusters} do");
            Ok(())
        })
        .await?;
        anyhow::Ok(started.elapsed() - served)
    };
    let (leads, watched) = tokio::try_join!(leading, watching)?;
    // Everything is seen, everybody would hear of a change, and nobody is taken for lost.
    let client = world.client();
    until("the fleet to be as it was", async || {
        let back = back(&mut world.agents, clusters, &sent).await?;
        let available = world::available(&client).await?;
        ensure!(
            back == clusters && available == clusters,
            "{back} of {clusters} watch, and {available} are available"
        );
        Ok(())
    })
    .await?;
    let steady = started.elapsed();
    let used = usage.end()?;
    until("every agent to renew its Lease", async || {
        let now = renewals(&world).await?;
        let anew = now
            .iter()
            .filter(|(who, at)| before.get(*who).is_some_and(|before| before != *at))
            .count();
        ensure!(anew == clusters, "{anew} of {clusters} have");
        Ok(())
    })
    .await?;
    let renewed = started.elapsed();
    // Agents list what they were told before, to be sure of it, within five minutes.
    sleep(size.pick(330, 30, 3).seconds()).await;
    let requests = since(&BTreeMap::new(), &world.hub.writes().await?);
    let received = world.agents.sent().await?;
    let (memory, _) = machine::memory(world.hub.id()?)?;
    let objects = world.hub.written_after(revision).await?;
    let figures = vec![
        Figure::new(
            SCENARIO,
            format!("restart with {bundles} bundles and {clusters} agents: steady again"),
            steady.as_secs_f64(),
            "s",
        )
        .at_most(
            10.0,
            &[
                (clusters, CLUSTERS, "clusters"),
                (applications, APPLICATIONS[1], "applications"),
            ],
        )
        .note(format!(
            "it serves after {:.1} s, has seen everything and leads after {:.1} s; the last Lease of an agent is renewed after {:.1} s; {memory:.0} MiB at the end; from when it serves {used}",
            served.as_secs_f64(),
            leads.as_secs_f64(),
            renewed.as_secs_f64()
        )),
        Figure::new(
            SCENARIO,
            "from when it serves until every agent watches its Bundles",
            watched.as_secs_f64(),
            "s",
        )
        .at_most(5.0, &[(clusters, CLUSTERS, "clusters")])
        .note("an agent that finds no hub waits for up to 5 s before it tries again, so that a thousand do not come at once"),
        Figure::new(
            SCENARIO,
            "write requests but Leases after it",
            requests.values().sum::<u64>() as f64,
            "",
        )
        .exactly(0.0)
        .note(named(&requests)),
        written(SCENARIO, &objects),
        Figure::new(
            SCENARIO,
            "bytes of bundles sent to agents that have them",
            (received.bundles - sent.bundles) as f64,
            "",
        )
        .exactly(0.0)
        .note(format!(
            "{} lists and watches of Bundles were begun, {} of them answered with an error; {:.1} KiB of bookmarks, metadata and errors",
            received.begun - sent.begun,
            received.errors - sent.errors,
            (received.others - sent.others) as f64 / 1024.0
        )),
    ];
    worlds.put(world, has);
    Ok(figures)
}
