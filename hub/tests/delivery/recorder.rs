//! Every state that Decisions and Bundles are stored in, in the order in which they were stored.

use crate::world::World;
use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use roundhouse_api::{bundle::Bundle, decision::Decision};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

/// One stored state.
enum State {
    Decision(Box<Decision>),
    /// Replicas, and whether removal was asked for.
    Bundle(u64, bool),
    Gone,
}

type Log = Arc<Mutex<BTreeMap<u64, (String, State)>>>;

/// Watches from its start on.
pub(crate) struct Recorder {
    log: Log,
}

fn follow<K>(api: Api<K>, log: Log, state: fn(&K) -> State)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    tokio::spawn(async move {
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            let (object, state) = match event.unwrap() {
                Event::Apply(object) | Event::InitApply(object) => {
                    let state = state(&object);
                    (object, state)
                }
                Event::Delete(object) => (object, State::Gone),
                Event::Init | Event::InitDone => continue,
            };
            // The embedded API server numbers all writes in one row.
            let version: u64 = object.resource_version().unwrap().parse().unwrap();
            let name = format!("{}/{}", object.namespace().unwrap(), object.name_any());
            log.lock().insert(version, (name, state));
        }
    });
}

impl Recorder {
    pub(crate) fn start(world: &World) -> Recorder {
        let log = Log::default();
        follow(
            Api::<Decision>::all(world.client.clone()),
            log.clone(),
            |decision| State::Decision(Box::new(decision.clone())),
        );
        follow(Api::<Bundle>::all(world.client.clone()), log.clone(), |bundle| {
            let manifests = bundle.spec.workload.manifests.iter();
            let counts = manifests.filter_map(|m| m.pointer("/spec/replicas")?.as_u64());
            State::Bundle(counts.sum(), bundle.spec.deletion.is_some())
        });
        Recorder { log }
    }

    /// At every moment every Decision accounts for `total` replicas, and the Bundles of its members never ask for more
    /// than it places. A cluster that lost its place keeps its Bundle until the others have what it had: removal comes
    /// last. Returns the number of states that were looked at.
    pub(crate) fn check_conserved(&self, total: u64) -> usize {
        let log = self.log.lock();
        let mut decisions: BTreeMap<&str, &Decision> = BTreeMap::new();
        let mut bundles: BTreeMap<&str, u64> = BTreeMap::new();
        for (version, (name, state)) in log.iter() {
            match state {
                State::Decision(decision) => {
                    let spec = &decision.spec;
                    assert_eq!(
                        spec.placed + spec.unplaced,
                        total,
                        "{name} at {version}: {spec:#?}"
                    );
                    decisions.insert(name, decision);
                }
                State::Bundle(replicas, _) => {
                    bundles.insert(name, *replicas);
                }
                State::Gone => {
                    decisions.remove(name.as_str());
                    bundles.remove(name.as_str());
                }
            }
            for decision in decisions.values() {
                let spec = &decision.spec;
                let of = |cluster: &String| bundles.get(format!("cluster-{cluster}/default.app").as_str());
                let sum: u64 = spec.clusters.iter().filter_map(of).sum();
                assert!(
                    sum <= spec.placed,
                    "at {version}: {sum} of {}: {bundles:?}",
                    spec.placed
                );
            }
        }
        log.len()
    }

    /// Whether removal was ever asked for on a cluster, or its Bundle ever went.
    pub(crate) fn ever_removed(&self, cluster: &str) -> bool {
        let name = format!("cluster-{cluster}/default.app");
        let log = self.log.lock();
        log.values()
            .any(|(of, state)| *of == name && matches!(state, State::Gone | State::Bundle(_, true)))
    }
}
