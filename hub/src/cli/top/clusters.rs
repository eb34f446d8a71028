//! What became of the bundles of each cluster.

use super::cut;
use crate::{
    cli::{columns, format::Format},
    fleet::{ClusterRow, Summary, Tally},
};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Bundles of which no agent says that they are ready, or that they failed.
fn waiting(tally: &Tally) -> u64 {
    tally.bundles.saturating_sub(tally.ready + tally.failed)
}

/// Those with failures first, then those that are waited for, then by name.
pub(super) fn by_trouble(clusters: &mut [ClusterRow]) {
    clusters.sort_by_cached_key(|row| {
        let tally = &row.tally;
        (
            Reverse((tally.failed, waiting(tally), !row.available)),
            row.name.clone(),
        )
    });
}

/// For scripts.
pub(super) fn structured(fleet: &Summary) -> Value {
    let rows = fleet.clusters.iter().map(|row| {
        let mut value = json!(row);
        value["waiting"] = json!(waiting(&row.tally));
        value
    });
    json!({"available": fleet.available, "bundles": fleet.bundles, "clusters": rows.collect::<Vec<_>>()})
}

/// For people.
pub(super) fn draw(fleet: &Summary, format: Format) -> String {
    let (rows, more) = cut(&fleet.clusters, format);
    let row = |row: &ClusterRow| {
        let tally = &row.tally;
        let mut cells = vec![
            row.name.clone(),
            match row.region.as_str() {
                "" => "-".to_owned(),
                region => region.to_owned(),
            },
            row.available.to_string(),
            tally.bundles.to_string(),
            tally.ready.to_string(),
            waiting(tally).to_string(),
            tally.failed.to_string(),
        ];
        if format == Format::Wide {
            cells.extend([tally.objects.to_string(), tally.replicas.to_string()]);
        }
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    let mut header = vec![
        "NAME",
        "REGION",
        "AVAILABLE",
        "BUNDLES",
        "READY",
        "WAITING",
        "FAILED",
    ];
    if format == Format::Wide {
        header.extend(["OBJECTS", "REPLICAS"]);
    }
    let sums = fleet.bundles;
    let all = format!(
        "{} clusters, {} available; {} bundles: {} ready, {} waiting, {} failed\n",
        fleet.clusters.len(),
        fleet.available,
        sums.bundles,
        sums.ready,
        waiting(&sums),
        sums.failed
    );
    all + &columns::draw(&header, &rows, &header[3..]) + &more
}
