//! What the cluster controller sees: its watches, and what they have shown.

use super::Mirror;
use crate::{
    metrics::Metrics,
    relist::{Watchable, remembering},
    silence::{LASTS, Watched},
};
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::{
    api::{certificates::v1::CertificateSigningRequest, coordination::v1::Lease, core::v1::Namespace},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    core::{DeserializeGuard, error_boundary::InvalidObject},
    runtime::watcher::{self, Event, watcher},
};
use roundhouse_api::{
    cluster::{Cluster, ClusterReport, ClusterReportSpec},
    names::{AGENT_LEASE, CLIENT_SIGNER, cluster_of_namespace, label},
};
use std::{future::ready, time::Duration};

/// Renewals of Leases are taken in so often: a fleet has hundreds of them each second, and to wake up for each takes longer than
/// to take it in.
const RENEWALS_EVERY: Duration = Duration::from_millis(250);
/// So many at once.
const BATCH: usize = 1_000;

/// Something a watch showed.
pub(super) enum Sighting {
    Cluster(Event<Cluster>),
    Lease(Event<Lease>),
    Report(Event<ClusterReport>),
    Namespace(Event<Namespace>),
    Request(Event<CertificateSigningRequest>),
}

/// What all watches show. One that breaks, or is given up as nothing comes, is counted.
pub(super) fn sightings(client: &Client, metrics: &Metrics) -> BoxStream<'static, watcher::Result<Sighting>> {
    /// `remembers`: what does not go out of what is selected before it is gone; its lists do not go back.
    fn watch<K, T>(
        (client, metrics): (&Client, &Metrics),
        config: watcher::Config,
        remembers: bool,
        wrap: fn(Event<K>) -> T,
    ) -> BoxStream<'static, watcher::Result<T>>
    where
        T: 'static,
        K: Watchable<DynamicType = ()>,
    {
        use kube::runtime::WatchStreamExt;
        let watched = Watched::new(K::kind(&()), metrics);
        let api: Api<K> = Api::all(watched.client(client));
        let events = watcher(api.clone(), config.timeout(LASTS))
            .default_backoff()
            .inspect(watched.inspects())
            // Nobody here asks who wrote what, and a fleet has five of these for each cluster.
            .modify(|object| object.meta_mut().managed_fields = None);
        match remembers {
            true => remembering(api, events).map_ok(wrap).boxed(),
            false => events.map_ok(wrap).boxed(),
        }
    }
    /// The same of what agents write: one object that cannot be read is its cluster's trouble.
    fn watch_guarded<K>(
        by: (&Client, &Metrics),
        config: watcher::Config,
        blank: fn(ObjectMeta) -> K,
        wrap: fn(Event<K>) -> Sighting,
    ) -> BoxStream<'static, watcher::Result<Sighting>>
    where
        K: Watchable<DynamicType = ()>,
    {
        let events = watch::<DeserializeGuard<K>, _>(by, config, true, |event| event);
        let events = events.try_filter_map(move |event| ready(Ok(readable(event, blank))));
        events.map_ok(wrap).boxed()
    }
    let all = watcher::Config::default;
    let leases = all().fields(&format!("metadata.name={AGENT_LEASE}"));
    let requests = all().fields(&format!("spec.signerName={CLIENT_SIGNER}"));
    let namespaces = all().labels(label::CLUSTER);
    let by = (client, metrics);
    stream::select_all([
        watch(by, namespaces, false, Sighting::Namespace),
        in_batches(watch_guarded(by, leases, no_lease, Sighting::Lease)),
        watch_guarded(by, all(), no_report, Sighting::Report),
        watch(by, requests, false, Sighting::Request),
        watch(by, all(), true, Sighting::Cluster),
    ])
    .boxed()
}

fn no_lease(metadata: ObjectMeta) -> Lease {
    Lease {
        metadata,
        ..Lease::default()
    }
}

fn no_report(metadata: ObjectMeta) -> ClusterReport {
    let mut report = ClusterReport::new("", ClusterReportSpec::default());
    report.metadata = metadata;
    report
}

/// An event of what can be read: of what cannot be, nothing is new until it is gone.
fn readable<K: kube::Resource>(
    event: Event<DeserializeGuard<K>>,
    blank: fn(ObjectMeta) -> K,
) -> Option<Event<K>> {
    let read = |guarded: DeserializeGuard<K>| {
        let unread = |invalid: InvalidObject| {
            let (namespace, name) = (&invalid.metadata.namespace, &invalid.metadata.name);
            tracing::warn!(
                ?namespace,
                ?name,
                error = invalid.error,
                "what an agent has written is not understood"
            );
        };
        guarded.0.map_err(unread).ok()
    };
    match event {
        Event::Apply(object) => read(object).map(Event::Apply),
        Event::InitApply(object) => read(object).map(Event::InitApply),
        Event::Delete(object) => Some(Event::Delete(
            object.0.unwrap_or_else(|invalid| blank(invalid.metadata)),
        )),
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
    }
}

/// Changes as they have come in [`RENEWALS_EVERY`]; lists at once.
fn in_batches(
    sightings: BoxStream<'static, watcher::Result<Sighting>>,
) -> BoxStream<'static, watcher::Result<Sighting>> {
    let batches = stream::unfold(
        (sightings.ready_chunks(BATCH), false),
        |(mut batches, rests)| async move {
            if rests {
                tokio::time::sleep(RENEWALS_EVERY).await;
            }
            let batch = batches.next().await?;
            let rests = matches!(batch.last(), Some(Ok(Sighting::Lease(Event::Apply(_)))));
            Some((stream::iter(batch), (batches, rests)))
        },
    );
    batches.flatten().boxed()
}

/// What the watches have shown, as it is now.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) clusters: Mirror<Cluster>,
    pub(super) leases: Mirror<Lease>,
    pub(super) reports: Mirror<ClusterReport>,
    pub(super) namespaces: Mirror<Namespace>,
    pub(super) requests: Mirror<CertificateSigningRequest>,
}

impl Seen {
    /// Whether every list was seen whole.
    pub(super) fn listed(&self) -> bool {
        self.clusters.listed()
            && self.leases.listed()
            && self.reports.listed()
            && self.namespaces.listed()
            && self.requests.listed()
    }
}

/// The clusters that these objects are of.
pub(super) fn names(
    keys: Vec<super::mirror::Key>,
    cluster: fn(super::mirror::Key) -> Option<String>,
) -> Vec<String> {
    keys.into_iter().filter_map(cluster).collect()
}

/// Whether a report is the one of its cluster: an agent may make more where nothing else forbids it, and none of them counts.
pub(super) fn is_own(report: &ClusterReport) -> bool {
    let cluster = report.namespace().as_deref().and_then(cluster_of);
    cluster.is_some_and(|cluster| cluster == report.name_any())
}

/// The cluster whose namespace this is.
pub(super) fn cluster_of(namespace: &str) -> Option<String> {
    cluster_of_namespace(namespace).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::{sync::mpsc, time::Instant};

    #[test]
    fn what_cannot_be_read_is_no_news_until_it_is_gone() {
        let guarded = |renewed: &str| {
            let lease = json!({"metadata": {"name": "agent", "namespace": "cluster-c1"}, "spec": {"renewTime": renewed}});
            serde_json::from_value::<DeserializeGuard<Lease>>(lease).unwrap()
        };
        let (good, bad) = ("2026-01-01T00:00:00.000000Z", "yesterday");
        assert!(readable(Event::Apply(guarded(good)), no_lease).is_some());
        assert!(readable(Event::Apply(guarded(bad)), no_lease).is_none());
        assert!(readable(Event::InitApply(guarded(bad)), no_lease).is_none());
        let Some(Event::Delete(gone)) = readable(Event::Delete(guarded(bad)), no_lease) else {
            panic!("that it is gone is not told");
        };
        assert_eq!(
            (gone.namespace().as_deref(), gone.name_any().as_str()),
            (Some("cluster-c1"), "agent")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn renewals_are_taken_in_by_the_batch_and_lists_as_they_come() {
        let (sends, mut takes) = mpsc::unbounded_channel();
        let events = stream::poll_fn(move |cx| takes.poll_recv(cx)).boxed();
        let mut taken = in_batches(events);
        let send = |event| sends.send(Ok(Sighting::Lease(event))).unwrap();
        let began = Instant::now();
        for event in [Event::Init, Event::InitApply(Lease::default()), Event::InitDone] {
            send(event);
            taken.next().await.unwrap().unwrap();
        }
        send(Event::Apply(Lease::default()));
        taken.next().await.unwrap().unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..100 {
            send(Event::Apply(Lease::default()));
        }
        for _ in 0..100 {
            taken.next().await.unwrap().unwrap();
        }
        assert_eq!(began.elapsed(), RENEWALS_EVERY, "all of them after one rest");
        drop(sends);
        assert!(taken.next().await.is_none());
    }
}
