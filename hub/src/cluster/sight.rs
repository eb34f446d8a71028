//! What the cluster controller sees: its watches, and what they have shown.

use super::Mirror;
use crate::{
    metrics::Metrics,
    relist::remembering,
    silence::{LASTS, Watched},
};
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest, coordination::v1::Lease, core::v1::Namespace,
};
use kube::{
    Api, Client, ResourceExt,
    runtime::watcher::{self, Event, watcher},
};
use roundhouse_api::{
    cluster::{Cluster, ClusterReport},
    names::{AGENT_LEASE, CLIENT_SIGNER, cluster_of_namespace, label},
};
use std::time::Duration;

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
    fn watch<K>(
        (client, metrics): (&Client, &Metrics),
        config: watcher::Config,
        remembers: bool,
        wrap: fn(Event<K>) -> Sighting,
    ) -> BoxStream<'static, watcher::Result<Sighting>>
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + Send
            + 'static,
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
    let all = watcher::Config::default;
    let leases = all().fields(&format!("metadata.name={AGENT_LEASE}"));
    let requests = all().fields(&format!("spec.signerName={CLIENT_SIGNER}"));
    let namespaces = all().labels(label::CLUSTER);
    let by = (client, metrics);
    stream::select_all([
        watch(by, namespaces, false, Sighting::Namespace),
        in_batches(watch(by, leases, true, Sighting::Lease)),
        watch(by, all(), true, Sighting::Report),
        watch(by, requests, false, Sighting::Request),
        watch(by, all(), true, Sighting::Cluster),
    ])
    .boxed()
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
    use tokio::{sync::mpsc, time::Instant};

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
