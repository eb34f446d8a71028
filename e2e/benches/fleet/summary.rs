//! How a whole fleet fares, out of the hub's counters: the very ones that its cache keeps, with a Bundle for each cluster and
//! each application.

use crate::{Size, load::Times};
use anyhow::Result;
use roundhouse_e2e::figure::Figure;
use roundhouse_hub::fleet::{Counts, Members, Tally, summary};
use tokio::time::Instant;

const SCENARIO: &str = "summary";
/// Clusters of the target, and as many applications.
const EACH: usize = 1_000;
/// How often it is asked.
const TIMES: usize = 100;

pub(crate) fn measure(size: Size) -> Result<Vec<Figure>> {
    let each = size.pick(EACH, EACH, 20);
    let name = |n: usize| crate::world::cluster(n);
    let members: Members = (0..each)
        .map(|n| (name(n), (format!("region-{}", n % 10), true)))
        .collect();
    let clusters: Vec<String> = members.keys().cloned().collect();
    let mut counts = Counts::default();
    let started = Instant::now();
    for application in 0..each {
        let application = ("default".to_owned(), format!("app-{application:04}"));
        for (n, cluster) in clusters.iter().enumerate() {
            let ready = u64::from(n % 100 != 0);
            let tally = Tally {
                bundles: 1,
                ready,
                failed: 1 - ready,
                objects: 5,
                replicas: 10,
            };
            counts.add(cluster, Some(&application), tally);
        }
    }
    let added = started.elapsed();
    let mut times = Times::new();
    let mut bytes = 0;
    for _ in 0..TIMES {
        let begin = Instant::now();
        bytes = serde_json::to_vec(&summary(&counts, &members))?.len();
        times.note(begin.elapsed());
    }
    let bundles = each * each;
    Ok(vec![
        Figure::new(
            SCENARIO,
            format!("summary of {each} clusters × {each} applications from counters, p99"),
            times.at(0.99),
            "ms",
        )
        .at_most(50.0, &[(each, EACH, "clusters"), (each, EACH, "applications")])
        .note(format!(
            "{} KiB of JSON with a row for each cluster and application; p50 {:.1} ms; {:.2} µs to take in a change of a bundle",
            bytes / 1024,
            times.at(0.5),
            added.as_secs_f64() * 1e6 / bundles as f64
        )),
        Figure::new(
            SCENARIO,
            "bundles in its sums",
            counts.all.bundles as f64,
            "",
        )
        .exactly(bundles as f64),
    ])
}
