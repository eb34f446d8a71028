//! The agent's Lease: where it learns which hub it serves, and its sign of life.
//!
//! A second, separate sign is that the agent hears: each renewal says which version of the Lease its watch showed last. An
//! agent whose requests arrive and whose watches are dead renews, and says the same version each time.

use crate::config::Config;
use crate::delay::{HUB_JITTER, HUB_RETRY_MAX, backoff, spread};
use crate::error::{AgentError, CallError, Fault};
use crate::member::{found, within};
use crate::watch::ear::Ear;
use crate::watch::{Steady, steady};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use roundhouse_api::clock::SharedClock;
use roundhouse_api::names::{AGENT_FIELD_MANAGER, AGENT_LEASE, annotation};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The part of the interval by which renewals are jittered.
const JITTER: f64 = 0.1;

/// The Lease of one cluster.
pub(crate) struct Heartbeat<'a> {
    client: Client,
    api: Api<Lease>,
    config: &'a Config,
    clock: SharedClock,
    /// The resourceVersion that the watch showed last.
    seen: Mutex<Option<String>>,
    /// Whether what is renewed comes back there.
    ear: Ear,
    /// Done when the hub has said who it is.
    confirmed: CancellationToken,
    /// Told of every renewal that the hub has taken.
    renewed: watch::Sender<()>,
}

impl<'a> Heartbeat<'a> {
    pub(crate) fn new(hub: Client, config: &'a Config, clock: SharedClock) -> Self {
        Heartbeat {
            api: Api::namespaced(hub.clone(), &config.cluster.namespace()),
            client: hub,
            ear: Ear::new(config.jitter.clone()),
            config,
            clock,
            seen: Mutex::default(),
            confirmed: CancellationToken::new(),
            renewed: watch::Sender::new(()),
        }
    }

    /// The hub id, if the hub has made the Lease and written it there.
    pub(crate) async fn hub_id(&self) -> Result<Option<String>, CallError> {
        let lease = found(within(self.config.call_timeout, self.api.get(AGENT_LEASE)).await)?;
        let hub_id = lease.as_ref().and_then(hub_id);
        if hub_id.is_some() {
            self.confirmed.cancel();
        }
        Ok(hub_id.map(str::to_owned))
    }

    /// Done when the hub has said that it is the one.
    pub(crate) fn confirmed(&self) -> CancellationToken {
        self.confirmed.clone()
    }

    /// Told of every renewal that the hub has taken.
    pub(crate) fn renewed(&self) -> watch::Receiver<()> {
        self.renewed.subscribe()
    }

    /// Told whenever watches of the hub turned out to be dead.
    pub(crate) fn given_up(&self) -> watch::Receiver<u64> {
        self.ear.told()
    }

    /// Watches the Lease for ever, and nothing but it.
    pub(crate) async fn listen(&self) {
        let namespace = self.config.cluster.namespace();
        let api: Api<PartialObjectMeta<Lease>> = Api::namespaced(self.client.clone(), &namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={AGENT_LEASE}"));
        let policy = Steady {
            what: format!("Lease of {}", self.config.cluster),
            resumes: false,
            min: self.config.retry_min,
            max: self.config.retry_max.min(HUB_RETRY_MAX),
            jitter: self.config.jitter.clone(),
        };
        let begin = || watcher(api.clone(), only.clone()).take_until(self.ear.gives_up());
        steady(policy, begin, |event| match event {
            watcher::Event::Apply(lease) => {
                self.config.health.heard();
                self.ear.shown(lease.metadata.resource_version.as_deref());
                *self.seen.lock() = lease.metadata.resource_version;
            }
            // What a list shows proves nothing about watches; what follows it begins after that.
            watcher::Event::InitApply(lease) => self.ear.shown(lease.metadata.resource_version.as_deref()),
            watcher::Event::Delete(_) | watcher::Event::Init | watcher::Event::InitDone => {}
        })
        .await;
    }

    /// Renews for ever: one write per interval, and sooner again while it fails, so that a hub that was away soon knows who is
    /// there. Ends only when the hub has become another one.
    pub(crate) async fn beat(&self, expected: &str) -> AgentError {
        let params = PatchParams {
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let mut failures = 0;
        loop {
            let mut longest = HUB_RETRY_MAX;
            self.config.health.tick();
            let seen = self.seen.lock().clone();
            let patch = Patch::Merge(renewal(self.config, seen.as_deref(), self.clock.now()));
            match within(
                self.config.call_timeout,
                self.api.patch(AGENT_LEASE, &params, &patch),
            )
            .await
            {
                Ok(lease) => {
                    failures = 0;
                    self.config.health.renewed();
                    self.renewed.send_replace(());
                    self.ear.renewed(lease.metadata.resource_version.as_deref());
                    let found = hub_id(&lease);
                    if found == Some(expected) {
                        self.confirmed.cancel();
                    } else if let Some(found) = found {
                        return AgentError::HubChanged {
                            cluster: self.config.cluster.to_string(),
                            lease: format!("{}/{AGENT_LEASE}", self.config.cluster.namespace()),
                            found: found.to_owned(),
                            expected: expected.to_owned(),
                        };
                    }
                }
                Err(error) => {
                    failures += 1;
                    // A hub that is there and refuses it is not told more often than it would be otherwise.
                    if matches!(error.fault(), Fault::Lasting(_)) {
                        longest = self.config.lease_interval;
                    }
                    tracing::warn!(cluster = %self.config.cluster, error = error.message(), "the Lease was not renewed");
                }
            }
            let unit = self.config.jitter.unit();
            tokio::time::sleep(pause(self.config, failures, longest, unit)).await;
        }
    }
}

fn hub_id(lease: &Lease) -> Option<&str> {
    let annotations = lease.metadata.annotations.as_ref()?;
    annotations
        .get(annotation::HUB_ID)
        .map(String::as_str)
        .filter(|id| !id.is_empty())
}

/// No version is this one: what is said while no watch has shown any. To say nothing would be what agents do that know no
/// echo, and an agent whose first watch is dead would never be taken for deaf.
const NOTHING_SEEN: &str = "0";

fn renewal(config: &Config, seen: Option<&str>, now: Timestamp) -> Value {
    json!({
        "metadata": {"annotations": {annotation::SEEN: seen.unwrap_or(NOTHING_SEEN)}},
        "spec": {
            "holderIdentity": config.identity,
            "leaseDurationSeconds": config.lease_duration.as_secs(),
            "renewTime": MicroTime(now),
        }
    })
}

/// How long until the next renewal, after so many in a row that failed, and at `longest` then, but for the jitter; `unit` is
/// from 0 to 1.
fn pause(config: &Config, failures: u32, longest: Duration, unit: f64) -> Duration {
    match failures {
        0 => spread(config.lease_interval, JITTER, unit),
        failures => {
            let longest = longest.min(config.lease_interval);
            let delay = backoff(failures - 1, config.retry_min.min(longest), longest);
            spread(delay, HUB_JITTER, unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::names::ClusterName;

    #[test]
    fn a_renewal_that_failed_is_tried_again_sooner_and_ever_later_until_a_limit() {
        let config = Config::new(ClusterName::new("c1").unwrap());
        let seconds = |failures, longest, unit| pause(&config, failures, longest, unit).as_secs_f64();
        let middle = |longest| {
            (0..7)
                .map(|failures| seconds(failures, longest, 0.5))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            middle(HUB_RETRY_MAX),
            [10.0, 1.0, 2.0, 3.333, 3.333, 3.333, 3.333]
        );
        assert_eq!(
            middle(config.lease_interval),
            [10.0, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
        );
        assert!((seconds(0, HUB_RETRY_MAX, 0.0) - 9.0).abs() < 1e-9);
        assert!((seconds(1, HUB_RETRY_MAX, 0.0) - 0.5).abs() < 1e-9);
        assert!(
            (4.9..5.0).contains(&seconds(99, HUB_RETRY_MAX, 1.0)),
            "back within 5 s"
        );
    }
}
