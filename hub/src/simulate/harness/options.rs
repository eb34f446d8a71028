//! What a fleet is made of.

use crate::{run::HubOptions, simulate::workloads::Model};
use roundhouse_api::{bundle::ApplyOnce, clock::SharedClock, names::ClusterName};
use std::collections::BTreeMap;

/// One member to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSpec {
    /// Its name.
    pub name: ClusterName,
    /// Labels of its Cluster object.
    pub labels: BTreeMap<String, String>,
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
    /// Whether the servers count the writes of every object, not only their sum.
    pub count_per_object: bool,
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
            count_per_object: false,
        }
    }
}

/// The seed of one part of a fleet.
pub(super) fn seed_of(seed: u64, part: &str) -> u64 {
    part.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
