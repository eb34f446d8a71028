//! From a change to the report of it at the hub: a hub process, a process of agents, TLS between them, open-loop load.

use crate::{
    Size, content,
    load::{Times, open_loop},
    machine::{Usage, Used},
    world::World,
};
use anyhow::{Result, ensure};
use futures::StreamExt;
use kube::{
    Api,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use roundhouse_api::{application::Application, bundle::Bundle};
use roundhouse_e2e::{
    figure::{Extent, Figure},
    load::Open,
};
use roundhouse_hub::dispatch::Observed;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::AbortOnDropHandle;

const SCENARIO: &str = "change";
/// Clusters of the targets, of `flood` as well.
const CLUSTERS: usize = 100;
/// Changes that the targets are for, with so many a second.
const CHANGES: usize = 6_000;
const RATE: f64 = 50.0;
/// The version of the first delivery; changes begin behind it.
const FIRST: usize = 1;
/// Changes that are not measured: connections are made, and code is read from the disk.
const WARM: usize = 100;

fn name(cluster: usize) -> String {
    format!("app-{cluster:03}")
}

/// Applications and versions that were refused, and why.
type Refused = Arc<Mutex<BTreeMap<(String, usize), String>>>;

/// What is under way, and how long what is over took.
struct Changes {
    unapplied: Open<Instant>,
    applied: Times,
    unready: Open<Instant>,
    ready: Times,
}

impl Changes {
    fn none() -> Changes {
        Changes {
            unapplied: Open::default(),
            applied: Times::new(),
            unready: Open::default(),
            ready: Times::new(),
        }
    }

    fn add(&mut self, name: &str, version: usize, due: Instant) {
        self.unapplied.add(name, version, due);
        self.unready.add(name, version, due);
    }

    /// Takes a Bundle as a watch of the hub shows it.
    fn see(&mut self, bundle: Bundle, now: Instant) {
        let version = content::version(&bundle);
        let Some((version, observed)) = version.zip(Observed::of(bundle)) else {
            return;
        };
        let counts = observed.own_report().and_then(|report| report.counts);
        let Some((counts, (_, name))) = counts.zip(observed.application()) else {
            return;
        };
        let since = |due| now.saturating_duration_since(due);
        if counts.applied == counts.total {
            let over = self.unapplied.end(name, version).map(since);
            over.for_each(|time| self.applied.note(time));
        }
        if counts.ready == counts.total {
            let over = self.unready.end(name, version).map(since);
            over.for_each(|time| self.ready.note(time));
        }
    }

    fn are_over(&self) -> bool {
        self.unapplied.left().chain(self.unready.left()).next().is_none()
    }

    /// What is not over counts with the time that it has taken so far: left out, the longest would be.
    fn note_open(&mut self, now: Instant) {
        for due in self.unapplied.left() {
            self.applied.note(now.saturating_duration_since(*due));
        }
        for due in self.unready.left() {
            self.ready.note(now.saturating_duration_since(*due));
        }
    }
}

pub(crate) async fn measure(size: Size) -> Result<Vec<Figure>> {
    let world = World::start(clusters(size)).await?;
    let mut changing = Changing::begin(&world, size).await?;
    let figures = changing.round(size.pick(CHANGES, 1_000, 20)).await?.told();
    drop(changing);
    world.end().await?;
    Ok(figures)
}

/// Clusters of the fleet that is changed.
pub(crate) fn clusters(size: Size) -> usize {
    size.pick(CLUSTERS, CLUSTERS, 4)
}

/// A fleet of one application for each cluster, whose images are changed at a steady rate.
pub(crate) struct Changing<'a> {
    world: &'a World,
    /// Changes a second.
    rate: f64,
    /// Bytes of a Bundle.
    weight: usize,
    /// The version that was asked for last.
    version: usize,
    under_way: Arc<Mutex<Changes>>,
    /// What the watch was refused with, since the last round.
    deaf: Arc<Mutex<Vec<String>>>,
    _watching: AbortOnDropHandle<()>,
}

impl<'a> Changing<'a> {
    /// Delivers the applications, and changes each of them once or more.
    pub(crate) async fn begin(world: &'a World, size: Size) -> Result<Changing<'a>> {
        let clusters = world.clusters();
        let one = |n: usize| content::application(&name(n), 1, (content::NUMBER, &n.to_string()));
        world.deliver((0..clusters).map(one).collect()).await?;

        let bundles: Api<Bundle> = Api::all(world.client());
        let some = bundles.list(&Default::default()).await?;
        ensure!(
            some.items.len() == clusters,
            "{} bundles for {clusters} clusters",
            some.items.len()
        );
        let weight = some.items.first().map_or(0, content::weight);
        let off = weight.abs_diff(content::BUNDLE_BYTES);
        ensure!(
            off < 200,
            "bundles of {weight} bytes are not those of the figures, which have {}",
            content::BUNDLE_BYTES
        );

        let under_way = Arc::new(Mutex::new(Changes::none()));
        let deaf = Arc::new(Mutex::new(Vec::new()));
        let (seen, refused) = (under_way.clone(), deaf.clone());
        let mut watch = Box::pin(
            watcher(bundles, watcher::Config::default())
                .default_backoff()
                .applied_objects(),
        );
        let watching = tokio::spawn(async move {
            while let Some(bundle) = watch.next().await {
                match bundle {
                    Ok(bundle) => seen.lock().see(bundle, Instant::now()),
                    Err(error) => refused.lock().push(error.to_string()),
                }
            }
        });
        let mut changing = Changing {
            world,
            rate: size.pick(RATE, RATE, 10.0),
            weight,
            version: FIRST,
            under_way,
            deaf,
            _watching: AbortOnDropHandle::new(watching),
        };
        changing.round(size.pick(WARM, WARM, clusters)).await?;
        Ok(changing)
    }

    /// So many changes, open loop, until each of them is reported and ready or a minute has passed.
    pub(crate) async fn round(&mut self, asked: usize) -> Result<Done> {
        let before = self.world.hub.writes().await?;
        let usage = Usage::begin(&self.world.processes()?)?;
        let refused = Refused::default();
        let (client, clusters) = (self.world.client(), self.world.clusters());
        *self.under_way.lock() = Changes::none();
        let one = |n| {
            let api = Api::namespaced(client.clone(), "default");
            let (version, versions) = mpsc::unbounded_channel();
            tokio::spawn(ask(api, name(n), versions, refused.clone()));
            version
        };
        let versions: Vec<_> = (0..clusters).map(one).collect();
        open_loop(asked, self.rate, |n, due| {
            if n % clusters == 0 {
                self.version += 1;
            }
            self.under_way.lock().add(&name(n % clusters), self.version, due);
            // Whoever takes them is there until this is dropped.
            let _ = versions[n % clusters].send(self.version);
        })
        .await;
        drop(versions);
        let end = Instant::now() + Duration::from_secs(60);
        while !self.under_way.lock().are_over() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let used = usage.end()?;
        let (unapplied, unready) = {
            let mut changes = self.under_way.lock();
            changes.note_open(Instant::now());
            (changes.unapplied.names(), changes.unready.names())
        };
        let refused = std::mem::take(&mut *refused.lock());
        let why = refused.values().next().cloned();
        let refused: BTreeSet<_> = refused.into_keys().collect();
        let mut left = Vec::new();
        for (name, version) in unapplied.union(&unready) {
            let applications = Api::<Application>::namespaced(client.clone(), "default");
            let now = serde_json::to_value(applications.get(name).await?)?;
            let image = now.pointer(content::IMAGE).cloned().unwrap_or_default();
            left.push(format!("v{version} of {name}, which asks for {image} now"));
        }
        let written = crate::hub::since(&before, &self.world.hub.writes().await?)
            .values()
            .sum();
        let changes = std::mem::replace(&mut *self.under_way.lock(), Changes::none());
        Ok(Done {
            asked,
            rate: self.rate,
            clusters,
            weight: self.weight,
            lost: unapplied.union(&refused).count() as u64,
            unready: unready.len(),
            refused: refused.len(),
            why,
            deaf: std::mem::take(&mut *self.deaf.lock()),
            left,
            written,
            used,
            changes,
        })
    }
}

/// Asks for the versions of one application, each when the one before it is answered: sent beside each other, one that is older
/// might come last, and stay.
async fn ask(
    api: Api<Application>,
    name: String,
    mut versions: mpsc::UnboundedReceiver<usize>,
    refused: Refused,
) {
    while let Some(version) = versions.recv().await {
        let operations = json!([{"op": "replace", "path": content::IMAGE, "value": content::image(version)}]);
        let sent = match serde_json::from_value(operations) {
            Ok(operations) => {
                let patch: Patch<Application> = Patch::Json(operations);
                let answer = api.patch(&name, &PatchParams::default(), &patch).await;
                answer.map(drop).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = sent {
            refused.lock().insert((name.clone(), version), why);
        }
    }
}

/// What was asked of the fleet, and how long each change took.
pub(crate) struct Done {
    asked: usize,
    rate: f64,
    clusters: usize,
    weight: usize,
    /// Changes that were refused or not reported, each of them once.
    lost: u64,
    /// Changes that were not ready in time.
    unready: usize,
    refused: usize,
    /// Why the first of them was refused.
    why: Option<String>,
    /// What the watch was refused with by which reports are seen.
    deaf: Vec<String>,
    /// What was not over in time.
    left: Vec<String>,
    written: u64,
    used: Used,
    changes: Changes,
}

impl Done {
    /// From the moment that a change was due until the hub had the report that it is applied.
    pub(crate) fn applied(&self) -> &Times {
        &self.changes.applied
    }

    /// The size that a target of so many changes is for.
    pub(crate) fn size(&self, changes: usize) -> [Extent; 2] {
        [
            (self.clusters, CLUSTERS, "clusters"),
            (self.asked, changes, "changes"),
        ]
    }

    /// Changes that were refused or not reported.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// What was refused or not reported, by name, and whether whoever measures was cut off meanwhile.
    pub(crate) fn lost_note(&self) -> String {
        let mut notes = Vec::new();
        if let Some(why) = &self.why {
            notes.push(format!("{} refused, the first with {why}", self.refused));
        }
        if !self.left.is_empty() {
            notes.push(format!("not over after a minute: {:?}", self.left));
        }
        if let [first, rest @ ..] = &self.deaf[..] {
            notes.push(format!(
                "the watch by which reports are seen was cut off with {first}, and {} times more",
                rest.len()
            ));
        }
        notes.join("; ")
    }

    fn told(&self) -> Vec<Figure> {
        let Done {
            asked,
            rate,
            clusters,
            weight,
            written,
            used,
            ..
        } = self;
        let (applied, ready) = (self.applied(), &self.changes.ready);
        let what = |quantile: &str| format!("change → dispatch → applied → report at the hub, {quantile}");
        let note = format!(
            "{} changes at {rate} a second over {clusters} clusters, bundles of {weight} bytes; p90 {:.0} ms, p99.9 {:.0} ms, \
         max {:.0} ms; ready: p50 {:.0} ms, p99 {:.0} ms; {:.1} write requests a change; {used}",
            applied.count(),
            applied.at(0.9),
            applied.at(0.999),
            applied.at(1.0),
            ready.at(0.5),
            ready.at(0.99),
            *written as f64 / *asked as f64,
        );
        vec![
            Figure::new(SCENARIO, what("p50"), applied.at(0.5), "ms")
                .at_most(50.0, &self.size(CHANGES))
                .note(note),
            Figure::new(SCENARIO, what("p99"), applied.at(0.99), "ms")
                .at_most(250.0, &self.size(CHANGES))
                .note(format!(
                    "{used}; each of its {:.1} write requests that changes something waits for a sync of the disk",
                    *written as f64 / *asked as f64
                )),
            Figure::new(SCENARIO, "changes that were not reported", self.lost() as f64, "")
                .exactly(0.0)
                .note(self.lost_note()),
            Figure::new(SCENARIO, "changes that were not ready", self.unready as f64, "").exactly(0.0),
        ]
    }
}
