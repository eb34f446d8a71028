//! One application over a whole fleet: hub, API server, agents and members in this process.
//!
//! The hub's store is durable, as in `roundhouse serve --embedded`. The hub has threads of its own, as it would have as a
//! process: in one line with the tasks of a thousand agents it would wait for all of them.

use crate::{
    Size, content,
    load::Times,
    machine::Usage,
    world::{CLUSTERS, Seconds, all_available, cluster},
};
use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use http::Request;
use http_body_util::BodyExt;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::Body,
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{Application, ApplicationPhase},
    clock::SystemClock,
    names::ClusterName,
};
use roundhouse_apiserver::{DurableOptions, DurableStore, MemoryStore, Store};
use roundhouse_e2e::{
    figure::Figure,
    patience::{PATIENCE, until},
};
use roundhouse_hub::simulate::{Fleet, FleetOptions, HUB, MemberSpec, Stores, Through};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use tower::service_fn;

const SCENARIO: &str = "delivery";
/// How often it is looked whether the bundle is on every agent; when it was is noted as it arrives.
const LOOK: Duration = Duration::from_millis(5);

/// When each agent was sent the image that is looked for.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<(String, BTreeMap<String, Instant>)>>);

impl Arrivals {
    /// Looks for another image from now on.
    fn expect(&self, image: String) {
        *self.0.lock() = (image, BTreeMap::new());
    }

    fn count(&self) -> usize {
        self.0.lock().1.len()
    }

    /// How long it took from a moment to each agent.
    fn since(&self, from: Instant) -> Times {
        let mut times = Times::new();
        for at in self.0.lock().1.values() {
            times.note(at.saturating_duration_since(from));
        }
        times
    }

    fn through(&self) -> Through {
        let arrivals = self.clone();
        Through(Arc::new(move |who, client| match who {
            HUB => client,
            agent => arrivals.client(agent.to_owned(), client),
        }))
    }

    /// A client that sees what arrives of Bundles before its agent does.
    fn client(&self, who: String, client: Client) -> Client {
        let arrivals = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (client, arrivals, who) = (client.clone(), arrivals.clone(), who.clone());
            async move {
                let watches = request
                    .uri()
                    .query()
                    .is_some_and(|query| query.contains("watch=true"))
                    && request.uri().path().ends_with("/bundles");
                let answer = client.send(request).await?;
                Ok::<_, kube::Error>(answer.map(|body| {
                    body.map_frame(move |frame| {
                        if let Some(bytes) = frame.data_ref().filter(|_| watches) {
                            arrivals.look(&who, bytes);
                        }
                        frame
                    })
                    .boxed_unsync()
                }))
            }
        });
        Client::new(service, namespace)
    }

    fn look(&self, who: &str, bytes: &[u8]) {
        let mut state = self.0.lock();
        let (image, seen) = &mut *state;
        let is_there = !image.is_empty() && content::has(bytes, image.as_bytes());
        if is_there && !seen.contains_key(who) {
            seen.insert(who.to_owned(), Instant::now());
        }
    }
}

/// Waits until the application is delivered and ready with what it says now, and gives the moment when that was seen. If it is
/// not in time, the error has what its status said last.
async fn delivered(client: Client, name: &str, version: usize) -> Result<Instant> {
    let api: Api<Application> = Api::namespaced(client, "default");
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut all = Box::pin(watcher(api, only).default_backoff().applied_objects());
    let wanted = format!("{name}-v{version}");
    let mut seen = "nothing of it".to_owned();
    let watching = async {
        while let Some(application) = all.next().await {
            let Ok(application) = application else { continue };
            let status = application.status.as_ref();
            let phase = status.and_then(|status| status.phase);
            let run = status.and_then(|status| status.workflow.as_ref());
            let revision = run.and_then(|run| run.app_revision.as_deref());
            if phase == Some(ApplicationPhase::Running)
                && run.is_some_and(|run| run.finished)
                && revision == Some(&wanted)
            {
                return Ok(Instant::now());
            }
            let delivery = status.and_then(|status| status.delivery.as_ref());
            let ready = delivery.map_or("none", |delivery| &delivery.replicas_ready);
            seen = format!("{phase:?} with {revision:?}, replicas ready {ready}");
        }
        bail!("the watch of applications ended")
    };
    let ended = timeout(PATIENCE, watching).await;
    ended.unwrap_or_else(|_| bail!("waited {PATIENCE:?} for {wanted} to be delivered; last seen: {seen}"))
}

/// A new image for all clusters.
struct Change {
    /// Seconds until the Bundle with it was on the last agent.
    last: f64,
    told: String,
}

/// Changes the image to that of `version`, and waits until all of it is ready.
async fn change(fleet: &Fleet, arrivals: &Arrivals, version: usize, clusters: usize) -> Result<Change> {
    arrivals.expect(content::image(version));
    let usage = Usage::begin(&[("this process", std::process::id())])?;
    let end = AbortOnDropHandle::new(tokio::spawn(delivered(fleet.hub_client(), "web", version)));
    let begin = Instant::now();
    let operations = json!([{"op": "replace", "path": content::IMAGE, "value": content::image(version)}]);
    let patch: Patch<Application> = Patch::Json(serde_json::from_value(operations)?);
    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    api.patch("web", &PatchParams::default(), &patch).await?;
    until(
        PATIENCE,
        LOOK,
        "the new revision's bundle on every agent",
        async || {
            let count = arrivals.count();
            ensure!(count >= clusters, "it is on {count} of {clusters}");
            Ok(())
        },
    )
    .await?;
    let used = usage.end()?;
    let reached = arrivals.since(begin);
    let ready = end.await??.duration_since(begin);
    Ok(Change {
        last: reached.at(1.0) / 1_000.0,
        told: format!(
            "p50 {:.0} ms, p99 {:.0} ms, the last {:.0} ms; all of it ready after {:.2} s; {used}",
            reached.at(0.5),
            reached.at(0.99),
            reached.at(1.0),
            ready.as_secs_f64()
        ),
    })
}

/// Changes of the image, one after the other: what one takes differs by a half from one time to the next.
const CHANGES: usize = 5;
/// Cores that the targets are for: all of hub and fleet, and who measures, share them.
const CORES: usize = 2;

pub(crate) async fn measure(size: Size) -> Result<Vec<Figure>> {
    let own_hub = tokio::runtime::Builder::new_multi_thread()
        .thread_name("hub")
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = Box::pin(measure_on(own_hub.handle().clone(), size)).await;
    // However it went: a runtime may not be dropped where others run.
    own_hub.shutdown_background();
    figures
}

/// With the hub on a runtime of its own.
async fn measure_on(hub: Handle, size: Size) -> Result<Vec<Figure>> {
    let clusters = size.pick(CLUSTERS, 100, 5);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let full = [(clusters, CLUSTERS, "clusters"), (cores, CORES, "cores")];
    let replicas = clusters * 10;
    let home = tempfile::tempdir()?;
    let store = DurableStore::open(&home.path().join("store"), DurableOptions::default())?;
    let member = |n| -> Result<MemberSpec> {
        let labels = [(content::FLEET.0.to_owned(), content::FLEET.1.to_owned())];
        Ok(MemberSpec {
            name: ClusterName::new(cluster(n))?,
            labels: labels.into(),
        })
    };
    let members = (0..clusters).map(member).collect::<Result<_>>()?;
    let arrivals = Arrivals::default();
    let mut options = FleetOptions::new(members, Arc::new(SystemClock));
    options.model.delay = Duration::ZERO..=Duration::ZERO;
    // As `roundhouse serve` runs; only tests have servers that refuse what Kubernetes tolerates.
    options.strict = false;
    options.through = Some(arrivals.through());
    options.hub_runtime = Some(hub);
    let (store, limits): (Arc<dyn Store>, _) = (Arc::new(store), options.limits);
    options.stores = Some(Stores::new(move |server| match server == HUB {
        true => store.clone(),
        false => Arc::new(MemoryStore::new(limits)),
    }));
    let fleet = Fleet::start(options).await?;
    all_available(&fleet.hub_client(), clusters).await?;

    let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
    let own = [("this process", std::process::id())];
    arrivals.expect(content::image(1));
    let usage = Usage::begin(&own)?;
    let end = AbortOnDropHandle::new(tokio::spawn(delivered(fleet.hub_client(), "web", 1)));
    let begin = Instant::now();
    api.create(
        &PostParams::default(),
        &content::application("web", replicas, content::FLEET),
    )
    .await?;
    let first = end.await??.duration_since(begin);
    let used = usage.end()?;
    let reached = arrivals.since(begin);
    let placed = api.get_status("web").await?.status.unwrap_or_default();
    let delivery = placed
        .delivery
        .context("an application that is delivered says nothing of its replicas")?;
    let (ready, _) = delivery.replicas_ready.split_once('/').context("ready/placed")?;
    let ready: u64 = ready.parse()?;
    let mut figures = vec![
        Figure::new(
            SCENARIO,
            format!("first delivery of {replicas} replicas to {clusters} clusters, all ready"),
            first.as_secs_f64(),
            "s",
        )
        .at_most(5.0, &full)
        .note(format!(
            "bundles on every agent after {:.0} ms; {used}",
            reached.at(1.0)
        )),
        Figure::new(SCENARIO, "replicas that are ready then", ready as f64, "").exactly(replicas as f64),
    ];

    let mut changes = Vec::new();
    for version in 2..2 + size.pick(CHANGES, 3, 2) {
        let change = change(&fleet, &arrivals, version, clusters).await?;
        eprintln!("  change {}: {}", version - 1, change.told);
        changes.push(change);
        // What follows from it, such as the removal of the oldest revision, is none of the next one's.
        sleep(size.pick(5, 2, 0).seconds()).await;
    }
    changes.sort_by(|a, b| a.last.total_cmp(&b.last));
    let all: Vec<String> = changes
        .iter()
        .map(|change| format!("{:.2}", change.last))
        .collect();
    let median = changes.get(changes.len() / 2).context("no change")?;
    figures.push(
        Figure::new(
            SCENARIO,
            format!(
                "from the change to the new revision's bundle on the last agent, median of {}",
                changes.len()
            ),
            median.last,
            "s",
        )
        .at_most(1.0, &full)
        .note(format!("{} s; in the median: {}", all.join(", "), median.told)),
    );
    fleet.stop().await;
    Ok(figures)
}
