//! The hub's own process.

use super::scrape::{self, Quantile, by, quantile, samples, since, sum, total};
use crate::cli::{columns, format::Format};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Times of something that happens often, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
struct Times {
    count: f64,
    p50: Option<Quantile>,
    p99: Option<Quantile>,
}

/// What the hub says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HubView {
    standing: String,
    /// Whether its times and passes are those since the last look, and not since it started.
    recent: bool,
    memory: f64,
    queued: f64,
    lag: Times,
    pass: Times,
    passes: BTreeMap<String, f64>,
    clusters: BTreeMap<String, f64>,
    bundles: BTreeMap<String, f64>,
    applications: BTreeMap<String, f64>,
    writes: BTreeMap<String, f64>,
    refused: f64,
}

impl HubView {
    /// What it counts of applications, clusters or bundles: only the hub that leads does.
    fn levels<'a>(&self, counts: &'a BTreeMap<String, f64>) -> Option<&'a BTreeMap<String, f64>> {
        is_leading(&self.standing).then_some(counts)
    }

    /// Reads its metrics; with those of an earlier look its times and passes are those since then.
    pub(super) fn of(text: &str, before: Option<&str>, standing: String) -> HubView {
        let samples = samples(text);
        let later = before.and_then(|before| since(&samples, &scrape::samples(before)));
        let recent = later.is_some();
        let counted = later.unwrap_or_else(|| samples.clone());
        let times = |name: &str| Times {
            count: sum(&counted, &format!("{name}_count")),
            p50: quantile(&counted, name, 0.5),
            p99: quantile(&counted, name, 0.99),
        };
        let of = |name: &str, label: &str| by(&samples, name, label);
        let outcomes = of("roundhouse_writes_total", "outcome");
        let refused = outcomes
            .iter()
            .filter(|(outcome, _)| *outcome != "ok")
            .map(|(_, n)| *n);
        HubView {
            standing,
            recent,
            memory: sum(&samples, "roundhouse_resident_memory_bytes"),
            queued: sum(&samples, "roundhouse_queue_depth"),
            lag: times("roundhouse_dispatch_to_ready_seconds"),
            pass: times("roundhouse_pass_duration_seconds"),
            passes: by(&counted, "roundhouse_passes_total", "outcome"),
            clusters: of("roundhouse_clusters", "state"),
            bundles: of("roundhouse_bundles", "state"),
            applications: of("roundhouse_applications", "phase"),
            writes: of("roundhouse_writes_total", "resource"),
            refused: total(refused),
        }
    }

    /// For scripts.
    pub(super) fn structured(&self) -> Value {
        // Above the last bound it is more than is known, which no number says.
        let number = |quantile| match quantile {
            Some(Quantile::Is(seconds)) => Some(seconds),
            Some(Quantile::Above(_)) | None => None,
        };
        let above = |quantile| match quantile {
            Some(Quantile::Above(bound)) => Some(bound),
            Some(Quantile::Is(_)) | None => None,
        };
        let times = |times: &Times| {
            let mut all = json!({"count": times.count, "p50Seconds": number(times.p50), "p99Seconds": number(times.p99)});
            for (key, quantile) in [("p50AboveSeconds", times.p50), ("p99AboveSeconds", times.p99)] {
                if let Some(bound) = above(quantile) {
                    all[key] = json!(bound);
                }
            }
            all
        };
        json!({
            "standing": self.standing,
            "timesSince": if self.recent { "lastLook" } else { "start" },
            "memoryBytes": self.memory,
            "queueDepth": is_leading(&self.standing).then_some(self.queued),
            "dispatchToReady": times(&self.lag),
            "pass": times(&self.pass),
            "passes": self.passes,
            "clusters": self.levels(&self.clusters),
            "bundles": self.levels(&self.bundles),
            "applications": self.levels(&self.applications),
            "writes": self.writes,
            "writesNotDone": self.refused,
        })
    }
}

/// Seconds as people read them.
fn seconds(time: Option<Quantile>) -> String {
    match time {
        None => "-".to_owned(),
        Some(Quantile::Is(time)) if time < 1.0 => format!("{:.1} ms", time * 1000.0),
        Some(Quantile::Is(time)) => format!("{time:.1} s"),
        Some(Quantile::Above(bound)) => format!("more than {bound:.0} s"),
    }
}

fn counts(counts: &BTreeMap<String, f64>) -> String {
    let counts = counts.iter().filter(|(_, count)| **count > 0.0);
    let counts: Vec<String> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    match counts.is_empty() {
        true => "none".to_owned(),
        false => counts.join(", "),
    }
}

/// Whether a hub that says this of itself (`/readyz`) is the one that leads.
pub(super) fn is_leading(standing: &str) -> bool {
    standing.starts_with("leading")
}

/// For people.
pub(super) fn draw(view: &HubView, format: Format) -> String {
    let levels = |of: &BTreeMap<String, f64>| {
        let nobody = || "only the hub that leads counts them".to_owned();
        view.levels(of).map_or_else(nobody, counts)
    };
    let times = |times: &Times| format!("p50 {}, p99 {}", seconds(times.p50), seconds(times.p99));
    let since = match view.recent {
        true => "since the last look",
        false => "since it started",
    };
    let mut rows = vec![
        ["hub", &view.standing].map(str::to_owned),
        [
            "memory".to_owned(),
            format!("{:.1} MiB", view.memory / 1_048_576.0),
        ],
        [
            "queue".to_owned(),
            match is_leading(&view.standing) {
                true => format!("{} applications wait for a pass", view.queued),
                false => "only the hub that leads has one".to_owned(),
            },
        ],
        [
            "lag".to_owned(),
            format!(
                "{} from dispatch to ready, of {} bundles {since}",
                times(&view.lag),
                view.lag.count
            ),
        ],
        [
            "passes".to_owned(),
            format!("{}; {} {since}", counts(&view.passes), times(&view.pass)),
        ],
        ["clusters".to_owned(), levels(&view.clusters)],
        ["bundles".to_owned(), levels(&view.bundles)],
    ];
    if format == Format::Wide {
        let refused = match view.refused {
            0.0 => String::new(),
            some => format!("; {some} of them were not done"),
        };
        rows.push(["applications".to_owned(), levels(&view.applications)]);
        rows.push(["writes".to_owned(), counts(&view.writes) + &refused]);
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    columns::draw(&["WHAT", "NOW"], &rows, &[])
}
