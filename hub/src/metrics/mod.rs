//! What the hub counts, for Prometheus.
//!
//! | module | what it does |
//! | --- | --- |
//! | `lag` | the time from dispatch to ready of each Bundle, without a label per cluster |
//! | `memory` | what the process takes |
//! | `requests` | counts what the hub writes |
//! | `serve` | answers `GET /metrics`, and the probes of the hub's health |
//!
//! The number of time series is bounded whatever the fleet and its users do: labels are phases, step types, kinds and verbs
//! that the hub knows, and at most [`MAX_REGIONS`] regions.

mod lag;
mod memory;
mod requests;
mod serve;

pub(crate) use lag::Lag;
pub use serve::serve;

use crate::fleet::{Summary, Tally};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// At most this many regions have time series of their own; the others share the region `other`.
pub const MAX_REGIONS: usize = 64;
/// Region of the clusters beyond [`MAX_REGIONS`].
const OTHER: &str = "other";

/// Seconds: from a report that comes at once to a rollout over a night.
const SECONDS: [f64; 15] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0, 28_800.0,
];
/// Seconds of work: passes.
const WORK: [f64; 11] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0,
];

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// What is counted when somebody looks, not as it happens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    /// Applications that wait for a pass.
    pub(crate) queued: usize,
    /// Applications by phase.
    pub(crate) applications: BTreeMap<String, usize>,
    /// Steps of the present and last runs by phase.
    pub(crate) steps: BTreeMap<String, usize>,
    /// Clusters that are available, and those that are not.
    pub(crate) clusters: (usize, usize),
    /// Sums over all Bundles.
    pub(crate) bundles: Tally,
}

type Source<T> = Mutex<Option<Box<dyn Fn() -> T + Send + Sync>>>;

/// The hub's counters. Cheap to clone; all clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    levels: Source<Levels>,
    summary: Source<Summary>,
    memory: Gauge,
    clusters: Family<Labels, Gauge>,
    bundles: Family<Labels, Gauge>,
    queued: Gauge,
    applications: Family<Labels, Gauge>,
    steps: Family<Labels, Gauge>,
    step_seconds: Histograms,
    runs: Family<Labels, Counter>,
    lag_seconds: Histograms,
    passes: Family<Labels, Counter>,
    pass_seconds: Histogram,
    requests: Family<Labels, Counter>,
    events_dropped: Counter,
    watches_broken: Family<Labels, Counter>,
    regions: Mutex<std::collections::BTreeSet<String>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let mut inner = Inner {
            registry: Registry::with_prefix("roundhouse"),
            levels: Mutex::new(None),
            summary: Mutex::new(None),
            memory: Gauge::default(),
            clusters: Family::default(),
            bundles: Family::default(),
            queued: Gauge::default(),
            applications: Family::default(),
            steps: Family::default(),
            step_seconds: Family::new_with_constructor(seconds),
            runs: Family::default(),
            lag_seconds: Family::new_with_constructor(seconds),
            passes: Family::default(),
            pass_seconds: Histogram::new(WORK),
            requests: Family::default(),
            events_dropped: Counter::default(),
            watches_broken: Family::default(),
            regions: Mutex::default(),
        };
        let registry = &mut inner.registry;
        registry.register(
            "queue_depth",
            "Applications that wait for a pass",
            inner.queued.clone(),
        );
        registry.register(
            "resident_memory_bytes",
            "Memory that the hub's process takes, an embedded API server with its objects included",
            inner.memory.clone(),
        );
        registry.register(
            "clusters",
            "Clusters, by whether their agents are heard",
            inner.clusters.clone(),
        );
        registry.register(
            "bundles",
            "Bundles, by what their agents report of the present content",
            inner.bundles.clone(),
        );
        registry.register(
            "applications",
            "Applications by phase",
            inner.applications.clone(),
        );
        registry.register(
            "workflow_steps",
            "Workflow steps of the present or last run of each application, by phase",
            inner.steps.clone(),
        );
        registry.register(
            "workflow_step_duration_seconds",
            "Time from the start of a workflow step to its end, by its type and the phase it ended in",
            inner.step_seconds.clone(),
        );
        registry.register(
            "workflow_runs",
            "Workflow runs that ended, by how",
            inner.runs.clone(),
        );
        registry.register(
            "dispatch_to_ready_seconds",
            "Time from the write of a Bundle to the report that its content is ready, by region",
            inner.lag_seconds.clone(),
        );
        registry.register(
            "passes",
            "Passes over applications, by outcome",
            inner.passes.clone(),
        );
        registry.register(
            "pass_duration_seconds",
            "Time that a pass over an application took",
            inner.pass_seconds.clone(),
        );
        registry.register(
            "writes",
            "Write requests of the hub to its API server, by resource, verb and outcome",
            inner.requests.clone(),
        );
        registry.register(
            "events_dropped",
            "Events that were not written because too many waited",
            inner.events_dropped.clone(),
        );
        registry.register(
            "watches_broken",
            "Watches of the hub that broke, or were given up because they were silent, and were made again, by kind",
            inner.watches_broken.clone(),
        );
        Metrics(Arc::new(inner))
    }
}

fn label(name: &'static str, value: impl Into<String>) -> (&'static str, String) {
    (name, value.into())
}

impl Metrics {
    /// Where the levels are read when somebody looks.
    pub(crate) fn read_levels(&self, source: impl Fn() -> Levels + Send + Sync + 'static) {
        *self.0.levels.lock() = Some(Box::new(source));
    }

    /// Where the summary of the fleet is read when somebody asks.
    pub(crate) fn read_summary(&self, source: impl Fn() -> Summary + Send + Sync + 'static) {
        *self.0.summary.lock() = Some(Box::new(source));
    }

    /// How the fleet fares; empty before the hub watches it.
    pub fn summary(&self) -> Summary {
        let source = self.0.summary.lock();
        source.as_ref().map(|source| source()).unwrap_or_default()
    }

    /// A pass ended: `done`, `conflict` or `failed`.
    pub(crate) fn pass_ended(&self, outcome: &'static str, took: Duration) {
        self.0
            .passes
            .get_or_create(&vec![label("outcome", outcome)])
            .inc();
        self.0.pass_seconds.observe(took.as_secs_f64());
    }

    /// A step ended.
    pub(crate) fn step_ended(&self, type_: &str, phase: &str, after: Duration) {
        let labels = vec![label("type", type_), label("phase", phase)];
        self.0
            .step_seconds
            .get_or_create(&labels)
            .observe(after.as_secs_f64());
    }

    /// A run ended.
    pub(crate) fn run_ended(&self, outcome: &str) {
        self.0.runs.get_or_create(&vec![label("outcome", outcome)]).inc();
    }

    /// A cluster of a region is ready with what was dispatched to it.
    pub(crate) fn ready(&self, region: &str, after: Duration) {
        let region = self.region(region);
        self.0
            .lag_seconds
            .get_or_create(&vec![label("region", region)])
            .observe(after.as_secs_f64());
    }

    /// An event was not written.
    pub(crate) fn event_dropped(&self) {
        self.0.events_dropped.inc();
    }

    /// A watch broke, or was given up.
    pub(crate) fn watch_broke(&self, kind: &str) {
        let labels = vec![label("kind", kind)];
        self.0.watches_broken.get_or_create(&labels).inc();
    }

    fn requested(&self, resource: &'static str, verb: &'static str, outcome: &'static str) {
        let labels = vec![
            label("resource", resource),
            label("verb", verb),
            label("outcome", outcome),
        ];
        self.0.requests.get_or_create(&labels).inc();
    }

    /// Labels are the users' own: only so many regions are told apart.
    fn region(&self, region: &str) -> String {
        let mut known = self.0.regions.lock();
        if !known.contains(region) {
            if known.len() >= MAX_REGIONS {
                return OTHER.to_owned();
            }
            known.insert(region.to_owned());
        }
        region.to_owned()
    }

    /// Everything in the OpenMetrics text format.
    pub fn render(&self) -> String {
        let levels = self.0.levels.lock().as_ref().map(|source| source());
        let levels = levels.unwrap_or_default();
        let level = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.0.queued.set(level(levels.queued));
        self.0.memory.set(memory::resident().unwrap_or(0));
        let (available, unavailable) = levels.clusters;
        for (state, count) in [("available", available), ("unavailable", unavailable)] {
            let gauge = self.0.clusters.get_or_create(&vec![label("state", state)]);
            gauge.set(level(count));
        }
        let Tally {
            bundles,
            ready,
            failed,
            ..
        } = levels.bundles;
        let waiting = bundles.saturating_sub(ready + failed);
        for (state, count) in [("ready", ready), ("failed", failed), ("waiting", waiting)] {
            let gauge = self.0.bundles.get_or_create(&vec![label("state", state)]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        for (family, counts) in [
            (&self.0.applications, &levels.applications),
            (&self.0.steps, &levels.steps),
        ] {
            family.clear();
            for (phase, count) in counts {
                family
                    .get_or_create(&vec![label("phase", phase)])
                    .set(level(*count));
            }
        }
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = text::encode(&mut text, &self.0.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_bounded() {
        let metrics = Metrics::default();
        for n in 0..MAX_REGIONS + 10 {
            metrics.ready(&format!("region-{n:03}"), Duration::from_secs(1));
        }
        let text = metrics.render();
        let series = text
            .lines()
            .filter(|line| line.starts_with("roundhouse_dispatch_to_ready_seconds_count"));
        assert_eq!(series.count(), MAX_REGIONS + 1);
        assert!(
            text.contains("roundhouse_dispatch_to_ready_seconds_count{region=\"other\"} 10\n"),
            "{text}"
        );
    }

    #[test]
    fn levels_are_those_of_now() {
        let metrics = Metrics::default();
        let counts = Arc::new(Mutex::new(BTreeMap::from([("running".to_owned(), 3)])));
        let source = counts.clone();
        metrics.read_levels(move || Levels {
            queued: 2,
            steps: source.lock().clone(),
            ..Levels::default()
        });
        let text = metrics.render();
        assert!(
            text.contains("roundhouse_workflow_steps{phase=\"running\"} 3\n"),
            "{text}"
        );
        assert!(text.contains("roundhouse_queue_depth 2\n"), "{text}");
        *counts.lock() = BTreeMap::from([("succeeded".to_owned(), 1)]);
        let text = metrics.render();
        assert!(
            !text.contains("phase=\"running\""),
            "a level that is gone is not told: {text}"
        );
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn what_ends_is_counted_and_timed() {
        let metrics = Metrics::default();
        metrics.step_ended("deploy", "succeeded", Duration::from_secs(3));
        metrics.run_ended("succeeded");
        metrics.pass_ended("done", Duration::from_millis(2));
        let text = metrics.render();
        for line in [
            "roundhouse_workflow_step_duration_seconds_bucket{le=\"5.0\",type=\"deploy\",phase=\"succeeded\"} 1\n",
            "roundhouse_workflow_step_duration_seconds_bucket{le=\"2.5\",type=\"deploy\",phase=\"succeeded\"} 0\n",
            "roundhouse_workflow_runs_total{outcome=\"succeeded\"} 1\n",
            "roundhouse_passes_total{outcome=\"done\"} 1\n",
            "roundhouse_pass_duration_seconds_count 1\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
