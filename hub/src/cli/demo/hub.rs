//! What the demo sees of its hub: four watches, and the views made of them.

use super::view::{Objects, View, view};
use crate::{cluster::Mirror, relist::Watchable};
use futures::{Stream, StreamExt, stream::BoxStream};
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use roundhouse_api::{
    application::Application,
    bundle::{ApplicationRef, Bundle},
    cluster::{AVAILABLE, Cluster},
    condition,
    decision::Decision,
};

/// A mirror of the hub's objects.
pub(super) struct Hub {
    applications: Mirror<Application>,
    decisions: Mirror<Decision>,
    bundles: Mirror<Bundle>,
    clusters: Mirror<Cluster>,
    events: BoxStream<'static, watcher::Result<Seen>>,
}

enum Seen {
    Application(Box<Event<Application>>),
    Decision(Event<Decision>),
    Bundle(Event<Bundle>),
    Cluster(Event<Cluster>),
}

impl Hub {
    /// Starts watching.
    pub(super) fn watch(client: &Client) -> Hub {
        fn all<K>(
            client: &Client,
            wrap: fn(Event<K>) -> Seen,
        ) -> impl Stream<Item = watcher::Result<Seen>> + Send + use<K>
        where
            K: Watchable<DynamicType = ()>,
        {
            watcher(Api::<K>::all(client.clone()), watcher::Config::default())
                .default_backoff()
                .map(move |event| event.map(wrap))
        }
        Hub {
            applications: Mirror::default(),
            decisions: Mirror::default(),
            bundles: Mirror::default(),
            clusters: Mirror::default(),
            events: futures::stream::select_all([
                all(client, Seen::Cluster).boxed(),
                all(client, |event| Seen::Application(Box::new(event))).boxed(),
                all(client, Seen::Decision).boxed(),
                all(client, Seen::Bundle).boxed(),
            ])
            .boxed(),
        }
    }

    /// Waits for something to happen and takes it in.
    pub(super) async fn changed(&mut self) {
        match self.events.next().await {
            Some(Ok(Seen::Application(event))) => drop(self.applications.feed(*event)),
            Some(Ok(Seen::Decision(event))) => drop(self.decisions.feed(event)),
            Some(Ok(Seen::Bundle(event))) => drop(self.bundles.feed(event)),
            Some(Ok(Seen::Cluster(event))) => drop(self.clusters.feed(event)),
            Some(Err(error)) => tracing::debug!(%error, "a watch of the demo broke off and starts over"),
            None => std::future::pending().await,
        }
    }

    /// How many clusters are available.
    pub(super) fn available(&self) -> usize {
        self.clusters
            .iter()
            .filter(|cluster| is_available(cluster))
            .count()
    }

    /// The applications, by namespace and name.
    pub(super) fn views(&self) -> Vec<View> {
        let unreachable: Vec<&str> = (self.clusters.iter())
            .filter(|cluster| !is_available(cluster))
            .filter_map(|cluster| cluster.metadata.name.as_deref())
            .collect();
        let views = self.applications.iter().map(|application| {
            let is_its = |reference: &ApplicationRef| {
                Some(&reference.namespace) == application.metadata.namespace.as_ref()
                    && reference.name == application.name_any()
            };
            view(&Objects {
                application,
                decisions: self
                    .decisions
                    .iter()
                    .filter(|d| is_its(&d.spec.application_ref))
                    .collect(),
                bundles: (self.bundles.iter())
                    .filter(|b| b.spec.application_ref.as_ref().is_some_and(is_its))
                    .collect(),
                unreachable: unreachable.clone(),
            })
        });
        views.collect()
    }
}

fn is_available(cluster: &Cluster) -> bool {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    condition::is_true(conditions.unwrap_or_default(), AVAILABLE)
}
