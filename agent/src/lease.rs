//! The agent's Lease: where it learns which hub it serves, and its sign of life.

use crate::config::Config;
use crate::delay::spread;
use crate::error::{AgentError, CallError};
use crate::member::{found, within};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use roundhouse_api::clock::SharedClock;
use roundhouse_api::names::{AGENT_FIELD_MANAGER, AGENT_LEASE, annotation};
use serde_json::{Value, json};

/// The part of the interval by which renewals are jittered.
const JITTER: f64 = 0.1;

/// The Lease of one cluster.
pub(crate) struct Heartbeat<'a> {
    api: Api<Lease>,
    config: &'a Config,
    clock: SharedClock,
}

impl<'a> Heartbeat<'a> {
    pub(crate) fn new(hub: Client, config: &'a Config, clock: SharedClock) -> Self {
        Heartbeat {
            api: Api::namespaced(hub, &config.cluster.namespace()),
            config,
            clock,
        }
    }

    /// The hub id, if the hub has made the Lease and written it there.
    pub(crate) async fn hub_id(&self) -> Result<Option<String>, CallError> {
        let lease = found(within(self.config.call_timeout, self.api.get(AGENT_LEASE)).await)?;
        Ok(lease.as_ref().and_then(hub_id).map(str::to_owned))
    }

    /// Renews for ever: one write per interval. Ends only when the hub has become another one.
    pub(crate) async fn beat(&self, expected: &str) -> AgentError {
        let params = PatchParams {
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        loop {
            let patch = Patch::Merge(renewal(self.config, self.clock.now()));
            match within(
                self.config.call_timeout,
                self.api.patch(AGENT_LEASE, &params, &patch),
            )
            .await
            {
                Ok(lease) => {
                    if let Some(found) = hub_id(&lease).filter(|found| *found != expected) {
                        return AgentError::HubChanged {
                            cluster: self.config.cluster.to_string(),
                            lease: format!("{}/{AGENT_LEASE}", self.config.cluster.namespace()),
                            found: found.to_owned(),
                            expected: expected.to_owned(),
                        };
                    }
                }
                Err(error) => {
                    tracing::warn!(cluster = %self.config.cluster, error = error.message(), "the Lease was not renewed");
                }
            }
            tokio::time::sleep(spread(
                self.config.lease_interval,
                JITTER,
                self.config.jitter.unit(),
            ))
            .await;
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

fn renewal(config: &Config, now: Timestamp) -> Value {
    json!({"spec": {
        "holderIdentity": config.identity,
        "leaseDurationSeconds": config.lease_duration.as_secs(),
        "renewTime": MicroTime(now),
    }})
}
