//! A list of 6,000 Bundles as JSON, over TLS.

use crate::{load::Times, machine::Usage, world::Worlds};
use anyhow::{Result, ensure};
use futures::TryStreamExt;
use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use roundhouse_e2e::figure::Figure;
use tokio::time::Instant;

const SCENARIO: &str = "list";
/// Bundles of the list that the target is for.
const BUNDLES: usize = 6_000;

pub(crate) async fn measure(worlds: &mut Worlds) -> Result<Vec<Figure>> {
    let size = worlds.size();
    let [applications, _] = worlds.sizes();
    // A fleet that was asked to be smaller has fewer.
    let count = size.pick(BUNDLES, 600, 8).min(worlds.clusters() * applications);
    // Another scenario may have made the fleet larger.
    let all = worlds.clusters() * applications.max(worlds.applications());
    let world = worlds.reach(applications).await?;
    let client = world.client();
    let mut times = Times::new();
    let mut answers = Vec::new();
    let usage = Usage::begin(&world.processes()?)?;
    for n in 0..size.pick(12, 12, 3) {
        let path = format!("/apis/roundhouse.dev/v1alpha1/bundles?limit={count}");
        let request = Request::get(path)
            .header("accept", "application/json")
            .body(Body::empty())?;
        let begin = Instant::now();
        let answer = client.send(request).await?;
        ensure!(
            answer.status().is_success(),
            "the list was answered with {}",
            answer.status()
        );
        let frames: Vec<_> = answer.into_body().into_data_stream().try_collect().await?;
        // The first ones make connections and warm caches.
        if n >= 2 {
            times.note(begin.elapsed());
        }
        answers = frames;
    }
    let used = usage.end()?;
    let answer = answers.concat();
    let bytes = answer.len();
    // Every Bundle of this fleet has one reference to its application.
    let found = answer.windows(WORD.len()).filter(|part| *part == WORD).count();
    Ok(vec![
        Figure::new(
            SCENARIO,
            format!("list of {count} bundles of {all}, p50"),
            times.at(0.5),
            "ms",
        )
        .at_most(100.0, &[(count, BUNDLES, "bundles")])
        .note(format!(
            "{:.1} MiB of JSON in one answer over TLS, read and not parsed; max {:.0} ms; {used}",
            bytes as f64 / 1_048_576.0,
            times.at(1.0)
        )),
        Figure::new(SCENARIO, "bundles in it", found as f64, "").exactly(count as f64),
    ])
}

const WORD: &[u8] = b"\"applicationRef\":{";
