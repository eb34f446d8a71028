//! The shell: watches one member's workloads and writes the statuses that differ.

use super::{Around, Memory, Model, Pods, Workload, pods::Key};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use roundhouse_api::clock::SharedClock;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Field manager of the simulated controllers' writes: kube-controller-manager's, whom they stand for.
const FIELD_MANAGER: &str = "kube-controller-manager";
/// A write that failed for another reason than a conflict is tried again after this long.
const RETRY: Duration = Duration::from_secs(1);
/// How long to sleep when nothing is expected.
const IDLE: Duration = Duration::from_secs(3600);

/// Kinds that have pods, all of which are listed before pods are counted.
const WITH_PODS: usize = 5;

/// Plays the workloads of one cluster until `shutdown`, and what is about them.
pub async fn run(client: Client, model: Model, clock: SharedClock, shutdown: CancellationToken) {
    let play = Play {
        client,
        model: Arc::new(model),
        pods: Arc::new(Pods::default()),
        clock,
        shutdown,
    };
    // A task of its own: in a run without a budget or a load balancer the workloads are polled as if it were not there.
    let about = play.clone();
    let about = AbortOnDropHandle::new(tokio::spawn(async move {
        tokio::join!(
            Box::pin(about.kind::<Service>()),
            Box::pin(about.kind::<PodDisruptionBudget>()),
        );
    }));
    // Boxed: five watches in one future would make it large.
    tokio::join!(
        Box::pin(play.kind::<Deployment>()),
        Box::pin(play.kind::<StatefulSet>()),
        Box::pin(play.kind::<DaemonSet>()),
        Box::pin(play.kind::<Job>()),
        Box::pin(play.kind::<Pod>()),
    );
    if let Err(error) = about.await {
        tracing::error!(%error, "what plays Services and PodDisruptionBudgets ended badly");
    }
}

/// Between two tries of a watch that no run may depend on: the default draws its pauses from dice that others draw from, too.
struct Evenly;

impl Iterator for Evenly {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(RETRY)
    }
}

impl Backoff for Evenly {
    fn reset(&mut self) {}
}

#[derive(Clone)]
struct Play {
    client: Client,
    model: Arc<Model>,
    pods: Arc<Pods>,
    clock: SharedClock,
    shutdown: CancellationToken,
}

/// An object and what is remembered of it.
struct Tracked<K> {
    object: K,
    memory: Option<Memory>,
    wake_at: Option<Timestamp>,
}

impl Play {
    async fn kind<K: Workload>(&self) {
        let events = watcher(Api::<K>::all(self.client.clone()), watcher::Config::default());
        let mut events = match K::HAS_PODS {
            true => events.default_backoff().boxed(),
            false => events.backoff(Evenly).boxed(),
        };
        let kind = K::kind(&());
        let mut changes = self.pods.changes();
        let mut tracked: BTreeMap<Key, Tracked<K>> = BTreeMap::new();
        let mut listed: Vec<Key> = Vec::new();
        loop {
            let next = tracked.values().filter_map(|t| t.wake_at).min();
            let pause = next.map_or(IDLE, |at| {
                Duration::try_from(at.duration_since(self.clock.now())).unwrap_or(Duration::ZERO)
            });
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        let all = matches!(event, Event::InitDone);
                        match take(&mut tracked, &mut listed, event) {
                            Some(key) => self.step(&mut tracked, &key).await,
                            None => self.pods.keep(&kind, |key| tracked.contains_key(key)),
                        }
                        if all && K::HAS_PODS {
                            self.pods.listed(&kind);
                        }
                    }
                    Some(Err(error)) => tracing::debug!(%error, kind = %K::kind(&()), "a watch of the simulator broke off and starts over"),
                    None => return,
                },
                Ok(()) = changes.changed(), if !K::HAS_PODS => {
                    let keys: Vec<Key> = tracked.keys().cloned().collect();
                    for key in keys {
                        self.step(&mut tracked, &key).await;
                    }
                }
                // Where nothing is expected, the time of others is not stopped at.
                () = tokio::time::sleep(pause.min(IDLE)), if K::HAS_PODS || next.is_some() => {
                    let now = self.clock.now();
                    let due = |t: &Tracked<K>| t.wake_at.is_some_and(|at| at <= now);
                    let keys: Vec<Key> = (tracked.iter())
                        .filter(|(_, t)| due(t))
                        .map(|(key, _)| key.clone())
                        .collect();
                    for key in keys {
                        self.step(&mut tracked, &key).await;
                    }
                }
            }
        }
    }

    /// Computes where an object stands and writes its status if it differs.
    async fn step<K: Workload>(&self, tracked: &mut BTreeMap<Key, Tracked<K>>, key: &Key) {
        let Some(entry) = tracked.get_mut(key) else {
            return;
        };
        if !K::HAS_PODS {
            self.pods.count();
            if !self.pods.knows(WITH_PODS) {
                return;
            }
        }
        let now = self.clock.now();
        let around = Around {
            model: &self.model,
            pods: &self.pods,
            now,
        };
        let next = entry.object.next(entry.memory.take(), &around);
        if let Some(group) = entry.object.pods(&next.status) {
            self.pods.put(&K::kind(&()), key, group);
        }
        entry.memory = Some(next.memory);
        entry.wake_at = next.wake_at;
        if entry.object.status() == Some(&next.status) {
            return;
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.0);
        let mut object = entry.object.clone().with_status(next.status);
        object.managed_fields_mut().clear();
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..Default::default()
        };
        match api.replace_status(&key.1, &params, &object).await {
            Ok(written) => entry.object = written,
            // Someone else wrote: the watch brings the newer object, and with it the next step.
            Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_not_found() => {}
            Err(error) => {
                tracing::debug!(%error, kind = %K::kind(&()), namespace = key.0, name = key.1, "writing a simulated status failed");
                let retry = jiff::SignedDuration::try_from(RETRY).unwrap_or(jiff::SignedDuration::MAX);
                entry.wake_at = now.checked_add(retry).ok();
            }
        }
    }
}

/// Takes an event in; returns the object that is to be looked at.
fn take<K: Workload>(
    tracked: &mut BTreeMap<Key, Tracked<K>>,
    listed: &mut Vec<Key>,
    event: Event<K>,
) -> Option<Key> {
    let key_of = |object: &K| (object.namespace().unwrap_or_default(), object.name_any());
    match event {
        Event::Init => listed.clear(),
        Event::InitDone => tracked.retain(|key, _| listed.binary_search(key).is_ok()),
        Event::Delete(object) => {
            tracked.remove(&key_of(&object));
        }
        Event::Apply(object) => {
            let key = key_of(&object);
            // The echo of an older write says nothing new.
            let newest = tracked
                .get(&key)
                .filter(|entry| entry.object.uid() == object.uid());
            if newest.is_some_and(|entry| version(&object) < version(&entry.object)) {
                return None;
            }
            return track(tracked, key, object);
        }
        // A list goes before what is remembered: a server that was restored from a backup has older versions.
        Event::InitApply(object) => {
            let key = key_of(&object);
            if let Err(place) = listed.binary_search(&key) {
                listed.insert(place, key.clone());
            }
            return track(tracked, key, object);
        }
    }
    None
}

fn track<K: Workload>(tracked: &mut BTreeMap<Key, Tracked<K>>, key: Key, object: K) -> Option<Key> {
    if !object.is_played() || object.meta().deletion_timestamp.is_some() {
        tracked.remove(&key);
        return None;
    }
    match tracked.get_mut(&key) {
        // The same name with another uid is another object: nothing is remembered of it.
        Some(entry) if entry.object.uid() == object.uid() => entry.object = object,
        _ => {
            let entry = Tracked {
                object,
                memory: None,
                wake_at: None,
            };
            tracked.insert(key.clone(), entry);
        }
    }
    Some(key)
}

/// Resource versions are decimal numbers that grow (Kubernetes KEP-5504).
fn version<K: Workload>(object: &K) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(version: &str, ready: i32) -> Deployment {
        let object = json!({"metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": version},
            "status": {"readyReplicas": ready}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_older_version_is_the_echo_of_a_write_unless_a_restored_server_lists_it() {
        let mut tracked = BTreeMap::new();
        let mut listed = Vec::new();
        let key = ("default".to_owned(), "web".to_owned());
        let mut takes = |event: Event<Deployment>| {
            let looked_at = take(&mut tracked, &mut listed, event);
            let known = tracked.get(&key).and_then(|entry| entry.object.status().cloned());
            (
                looked_at.is_some(),
                known.and_then(|status| status.ready_replicas),
            )
        };
        assert_eq!(takes(Event::Apply(deployment("9", 3))), (true, Some(3)));
        assert_eq!(takes(Event::Apply(deployment("5", 1))), (false, Some(3)));
        assert_eq!(takes(Event::Init), (false, Some(3)));
        assert_eq!(takes(Event::InitApply(deployment("5", 1))), (true, Some(1)));
        assert_eq!(takes(Event::InitDone), (false, Some(1)));
    }
}
