//! Resident memory of the hub's process: hub, API server, store, and the history that watches resume from.

use crate::{
    content::BUNDLE_BYTES,
    world::{APPLICATIONS, CLUSTERS, Worlds},
};
use anyhow::{Context, Result};
use roundhouse_e2e::figure::Figure;

const SCENARIO: &str = "memory";

pub(crate) async fn measure(worlds: &mut Worlds) -> Result<Vec<Figure>> {
    let (clusters, [small, large]) = (worlds.clusters(), worlds.sizes());
    let joined = worlds.reach(0).await?.joined();
    let mut figures = vec![
        Figure::new(
            SCENARIO,
            format!("hub with {clusters} clusters and no bundle"),
            joined.after,
            "MiB",
        )
        .note(format!(
            "{:.0} MiB before the agents came: {:.0} KiB for each of them, with its connection, its watches and what it has \
             told of its cluster",
            joined.before,
            (joined.after - joined.before) * 1024.0 / clusters as f64
        )),
    ];
    let [fewer, more] = APPLICATIONS;
    for (applications, full, target) in [(small, fewer, 300.0), (large, more, 1_024.0)] {
        worlds.reach(applications).await?;
        let taken = worlds.taken(applications);
        let taken =
            taken.context("another scenario has made the fleet larger before: run memory before it")?;
        let bundles = clusters * applications;
        let figure = Figure::new(
            SCENARIO,
            format!("hub with {clusters} clusters × {applications} applications, {bundles} bundles"),
            taken.memory,
            "MiB",
        )
        .at_most(
            target,
            &[
                (clusters, CLUSTERS, "clusters"),
                (applications, full, "applications"),
            ],
        );
        let each = taken.memory * 1024.0 / bundles as f64;
        let (highest, disk) = (taken.highest, taken.disk as f64 / 1024.0 / bundles as f64);
        let json = bundles as f64 * BUNDLE_BYTES as f64 / 1_048_576.0;
        figures.push(figure.note(format!(
            "at its highest {highest:.0} MiB; {each:.1} KiB a bundle, and {disk:.1} KiB of files; the bundles' own JSON would be {json:.0} MiB, and is packed \
             once 10,000 changes or 32 MiB of them have followed it"
        )));
    }
    Ok(figures)
}
