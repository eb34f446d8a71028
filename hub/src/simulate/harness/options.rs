//! What a fleet is made of.

use super::Standing;
use crate::{run::HubOptions, simulate::workloads::Model};
use kube::Client;
use roundhouse_api::{bundle::ApplyOnce, clock::SharedClock, names::ClusterName};
use roundhouse_apiserver::{Store, StoreLimits};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The hub's name among API servers: no member can have it.
pub const HUB: &str = "(hub)";

/// One member to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSpec {
    /// Its name.
    pub name: ClusterName,
    /// Labels of its Cluster object.
    pub labels: BTreeMap<String, String>,
}

/// Makes another client of one, for whom it is (`hub`, or the agent's cluster).
type Layer = dyn Fn(&str, Client) -> Client + Send + Sync;

/// What lies between somebody's client and the hub's API server: counts, delays, faults. It is given the name of who asks,
/// [`HUB`] for the hub's controllers and the member's for an agent.
#[derive(Clone)]
pub struct Through(pub Arc<Layer>);

impl fmt::Debug for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Through").finish_non_exhaustive()
    }
}

/// Where the objects of the hub's embedded API server are.
#[derive(Clone)]
pub struct HubStore(pub Arc<dyn Store>);

impl fmt::Debug for HubStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubStore").finish_non_exhaustive()
    }
}

/// What a fleet is made of.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// The members.
    pub members: Vec<MemberSpec>,
    /// Seed of uids, delays and failures.
    pub seed: u64,
    /// The clock of hub, agents, servers and simulated workloads.
    pub clock: SharedClock,
    /// How the members' workloads behave; every member gets its own seed from [`FleetOptions::seed`].
    pub model: Model,
    /// Settings of the hub's controllers.
    pub hub: HubOptions,
    /// The agents' apply-once mode for bundles that do not say.
    pub apply_once: ApplyOnce,
    /// API servers that stand already and are used in place of embedded ones, by the name of the member, or [`HUB`].
    pub standing: BTreeMap<String, Standing>,
    /// Whether the servers count the writes of every object, not only their sum.
    pub count_per_object: bool,
    /// What the embedded servers keep of the past.
    pub limits: StoreLimits,
    /// Where the hub's controllers run; with everything else by default. In a runtime of its own a hub does not wait in line
    /// behind the tasks of a thousand agents, as it would not if they were other processes.
    pub hub_runtime: Option<tokio::runtime::Handle>,
    /// Where the hub's objects are; in memory by default, as those of the members are.
    pub hub_store: Option<HubStore>,
    /// What the hub's controllers and the agents reach the hub's API server through.
    pub through: Option<Through>,
}

impl FleetOptions {
    /// Members with the usual settings.
    pub fn new(members: Vec<MemberSpec>, clock: SharedClock) -> Self {
        FleetOptions {
            members,
            seed: 0,
            clock,
            model: Model::default(),
            hub: HubOptions::default(),
            apply_once: ApplyOnce::Never,
            standing: BTreeMap::new(),
            count_per_object: false,
            limits: StoreLimits::default(),
            hub_runtime: None,
            hub_store: None,
            through: None,
        }
    }

    /// The client with which `who` reaches the hub's API server.
    pub(super) fn reach(&self, who: &str, client: Client) -> Client {
        match &self.through {
            Some(Through(through)) => through(who, client),
            None => client,
        }
    }
}

/// The seed of one part of a fleet.
pub(super) fn seed_of(seed: u64, part: &str) -> u64 {
    part.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
