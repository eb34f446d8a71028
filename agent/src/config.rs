//! What an agent is started with.

use crate::delay::{SeededJitter, SharedJitter};
use crate::facts::Labels;
use crate::health::Health;
use roundhouse_api::bundle::ApplyOnce;
use roundhouse_api::names::ClusterName;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How an agent works. [`Config::new`] has the defaults that production uses.
#[derive(Debug, Clone)]
pub struct Config {
    /// The cluster: the agent serves the hub's namespace `cluster-<name>` and nothing else.
    pub cluster: ClusterName,
    /// Who renews the Lease; by default `roundhouse-agent`. Harnesses and pods put their own name here.
    pub identity: String,
    /// Apply-once mode of bundles that do not say.
    pub apply_once: ApplyOnce,
    /// The slow, level-triggered pass behind the watches; each one is jittered by a tenth. Default 5 min.
    pub resync: Duration,
    /// How often the Lease is renewed. Default 10 s.
    pub lease_interval: Duration,
    /// `leaseDurationSeconds`: how long the hub takes a renewal for a sign of life. Default 40 s.
    pub lease_duration: Duration,
    /// How long events about objects are collected before a bundle is looked at again; a new state of the bundle itself ends
    /// it. Default 50 ms.
    pub settle: Duration,
    /// How often at most a report is sent of which only texts and feedback values changed. Default 10 s.
    pub report_interval: Duration,
    /// First delay after a failure; it doubles up to [`Config::retry_max`]. Default 1 s.
    pub retry_min: Duration,
    /// Longest delay after failures. Default 2 min.
    pub retry_max: Duration,
    /// Bundles that are worked on at a time. Default 4.
    pub concurrent_bundles: usize,
    /// Objects of one wave that are worked on at a time. Default 8.
    pub concurrent_objects: usize,
    /// A call to an API server that takes longer has failed. Default 30 s.
    pub call_timeout: Duration,
    /// How long a stopping agent lets bundles finish. Default 10 s.
    pub drain: Duration,
    /// Where the Bundles are kept as the hub last sent them, so that an agent which starts while its hub is away heals what
    /// they say. Default nowhere.
    pub bundles_dir: Option<PathBuf>,
    /// How long a starting agent waits for its hub before it works by what it kept. Default 10 s.
    pub hub_patience: Duration,
    /// Labels that the agent proposes for its Cluster, with their prefix. Default none.
    pub labels: Labels,
    /// Namespace and name of the Secret of the member that keeps the agent's identity, if one does: the agent says whether
    /// it may write there.
    pub identity_secret: Option<(String, String)>,
    /// What [`health::serve`](crate::health::serve) tells; clones are the same.
    pub health: Health,
    /// Where jitter comes from; by default a sequence seeded by the name of the cluster, so that agents differ and a
    /// run can be replayed.
    pub jitter: SharedJitter,
}

impl Config {
    /// The defaults for a cluster.
    pub fn new(cluster: ClusterName) -> Self {
        let jitter = Arc::new(SeededJitter::from_text(cluster.as_str()));
        Config {
            cluster,
            identity: "roundhouse-agent".to_owned(),
            apply_once: ApplyOnce::Never,
            resync: Duration::from_secs(300),
            lease_interval: Duration::from_secs(10),
            lease_duration: Duration::from_secs(40),
            settle: Duration::from_millis(50),
            report_interval: Duration::from_secs(10),
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(120),
            concurrent_bundles: 4,
            concurrent_objects: 8,
            call_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            bundles_dir: None,
            hub_patience: Duration::from_secs(10),
            labels: Labels::default(),
            identity_secret: None,
            health: Health::default(),
            jitter,
        }
    }
}
