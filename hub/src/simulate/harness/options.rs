//! What a fleet is made of.

use super::{Standing, Wires};
use crate::{run::HubOptions, simulate::workloads::Model};
use k8s_openapi::api::core::v1::NodeStatus;
use kube::Client;
use roundhouse_agent::Config;
use roundhouse_api::{bundle::ApplyOnce, clock::SharedClock, names::ClusterName};
use roundhouse_apiserver::{Store, StoreLimits};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The hub's name among API servers: no member can have it.
pub const HUB: &str = "(hub)";

/// The name under which the controllers that play a member's workloads ask its API server: no member can have it.
pub const WORKLOADS: &str = "(workloads)";

/// The name under which anybody else asks an API server, such as a person: no member can have it.
pub const SOMEBODY: &str = "(somebody)";

/// The second hub of a fleet that has two.
pub const OTHER_HUB: &str = "b";

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

/// Opens a store.
type Open = dyn Fn(&str) -> Arc<dyn Store> + Send + Sync;

/// Opens the store of an embedded API server, by the server's name: at its start, and again whenever it is restarted.
#[derive(Clone)]
pub struct Stores(pub Arc<Open>);

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// From a function.
    pub fn new(open: impl Fn(&str) -> Arc<dyn Store> + Send + Sync + 'static) -> Stores {
        Stores(Arc::new(open))
    }

    /// The store of a server.
    pub fn open(&self, server: &str) -> Arc<dyn Store> {
        self.0(server)
    }
}

/// The clock of each party, by its name: [`HUB`] (controllers and API server), another hub, or a member (agent, API server,
/// workloads).
#[derive(Clone)]
pub struct Clocks(pub Arc<dyn Fn(&str) -> SharedClock + Send + Sync>);

impl fmt::Debug for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clocks").finish_non_exhaustive()
    }
}

/// Changes the settings of an agent before it is started.
#[derive(Clone)]
pub struct Configure(pub Arc<dyn Fn(&mut Config) + Send + Sync>);

impl fmt::Debug for Configure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configure").finish_non_exhaustive()
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
    /// What the one node of a member has, by the name of the member; others have none. Its agent reports the capacity and what can
    /// be allocated.
    pub nodes: BTreeMap<String, NodeStatus>,
    /// Whether the servers count the writes of every object, not only their sum.
    pub count_per_object: bool,
    /// Whether the embedded servers refuse mistakes of clients that Kubernetes tolerates.
    pub strict: bool,
    /// What the embedded servers keep of the past.
    pub limits: StoreLimits,
    /// Where the hub's controllers run and its API server works; with everything else by default. In a runtime of its own a hub
    /// does not wait in line behind the tasks of a thousand agents, as it would not if they were other processes.
    pub hub_runtime: Option<tokio::runtime::Handle>,
    /// What the hub's controllers and the agents reach the hub's API server through.
    pub through: Option<Through>,
    /// What lies between everybody of the fleet and every API server, nearer to the server than [`FleetOptions::through`].
    pub wires: Option<Wires>,
    /// What lies between anybody else, such as a person ([`SOMEBODY`]), and every API server.
    pub peoples_wires: Option<Wires>,
    /// Where the embedded servers keep their objects; in memory by default, where a restart finds nothing.
    pub stores: Option<Stores>,
    /// The clocks of the parties; [`FleetOptions::clock`] by default.
    pub clocks: Option<Clocks>,
    /// Settings of the agents beside those that are above.
    pub configure: Option<Configure>,
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
            nodes: BTreeMap::new(),
            count_per_object: false,
            strict: true,
            limits: StoreLimits::default(),
            hub_runtime: None,
            through: None,
            wires: None,
            peoples_wires: None,
            stores: None,
            clocks: None,
            configure: None,
        }
    }

    /// The clock of a party.
    pub fn clock_of(&self, party: &str) -> SharedClock {
        match &self.clocks {
            Some(Clocks(of)) => of(party),
            None => self.clock.clone(),
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
