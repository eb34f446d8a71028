//! Clusters and rules -> decisions; pure: no clock, no randomness, no I/O.
//!
//! [`place`] is the one function that the controller, `plan`, `explain` and the simulator call; the explanation is a
//! by-product of the computation.
//!
//! | module | what it decides |
//! | --- | --- |
//! | `inventory`, `labels`, `fleet` | the fleet sorted and indexed, change by change |
//! | `eligible`, `tolerance` | which clusters a step may use, until when, and why the others are not chosen |
//! | `groups` | which steps share their replicas |
//! | `room` | what of the clusters' capacity is left to a step |
//! | `weights` | what clusters weigh in a rule, and which weights are frozen |
//! | `spread` | which clusters `maxClusters` and `spread` choose |
//! | `totals` | how many replicas each rule divides |
//! | `rule` | how a rule's clusters share them: weights, bounds, capacity, earlier assignments |
//! | `webster`, `ties`, `cut` | the division itself, the order of equal claims, what it says about itself |
//! | `previous`, `history`, `membership` | what was decided before, which clusters have a bundle, and which get one |
//! | `overrides` | which overrides are for which members |
//! | `decide`, `draft` | the order of all this, and the decision while it is being made |
//! | `reasons` | what people read |
//! | `verdict` | the same of one cluster, for those who ask about it |
//! | `sight` | which changes of a cluster a placement can see at all |
//!
//! Architecture invariant: placed + unplaced is the number of replicas, over all placing steps; the same input gives the
//! same bytes in whatever order it comes; feeding a decision back as [`Previous`] changes nothing.

mod content;
mod cut;
mod decide;
mod draft;
mod eligible;
mod fleet;
mod fraction;
mod groups;
mod history;
mod inventory;
mod labels;
mod membership;
mod overrides;
mod previous;
mod reasons;
mod room;
mod rule;
mod sight;
mod spread;
#[cfg(test)]
pub(crate) mod tests;
mod ties;
mod tolerance;
mod totals;
mod verdict;
mod webster;
mod weights;

pub use content::{decision_hash, hash_of, matched};
pub use decide::place;
pub use eligible::{Eligibility, NotChosen, eligibility};
pub use groups::{place_by_component, standing_by_component};
pub use inventory::Inventory;
pub use overrides::error_line;
pub use previous::Previous;
pub use sight::Sight;
pub use tolerance::next_change;
pub use verdict::{Place, Standing, standing};

use jiff::Timestamp;
use roundhouse_api::{
    decision::{DecidedOverride, Exclusion, FrozenWeights, OverrideError, WorkloadDecision, WorkloadRef},
    placement::{PlacementSpec, Taint},
    shared::SharedStr,
};
use std::collections::BTreeMap;

/// All that a placement depends on.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// `<namespace>/<name>` of the application: seeds the stable hash that settles ties.
    pub application: &'a str,
    /// Every placing step of the workflow, in order: percentages and the remainder are taken over all of them.
    pub steps: &'a [PlacingStep<'a>],
    /// What is placed.
    pub workloads: &'a [Workload],
    /// The fleet.
    pub inventory: &'a Inventory,
    /// What was decided before.
    pub previous: &'a Previous,
    /// The moment of the decision, for `tolerationSeconds`; [`next_change`] tells when it matters next.
    pub now: Timestamp,
}

/// One placing step.
#[derive(Debug, Clone, Copy)]
pub struct PlacingStep<'a> {
    /// Step name.
    pub name: &'a str,
    /// What it says.
    pub spec: &'a PlacementSpec,
}

/// A replicated workload of the application. Objects without a replica count are not listed: they follow membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Which one.
    pub key: WorkloadRef,
    /// Replicas to divide.
    pub replicas: u32,
    /// Whether it is divided once per revision, as a Job is: what runs of it cannot be moved.
    pub once: bool,
}

/// What placement knows of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterFacts {
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Taints of spec and status.
    pub taints: Vec<Taint>,
    /// Its agent has reported.
    pub joined: bool,
    /// An administrator let it in.
    pub accepted: bool,
    /// Its Lease is fresh. A cluster that is not reachable keeps what it has and gets nothing more.
    pub reachable: bool,
    /// Replicas it can hold, where it reports that.
    pub capacity: Option<u32>,
    /// What it reports as allocatable, in Kubernetes quantities.
    pub allocatable: BTreeMap<String, String>,
}

/// What was decided for one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepDecision {
    /// Step name.
    pub step: String,
    /// One entry per workload, in the order of the request.
    pub workloads: Vec<WorkloadDecision>,
    /// Member clusters, sorted.
    pub clusters: Vec<SharedStr>,
    /// Clusters that `maxClusters` chose and that are neither members nor in a row of a workload, sorted.
    pub chosen: Vec<String>,
    /// Clusters not chosen, by reason.
    pub excluded: Vec<Exclusion>,
    /// Whether every rule matched a cluster and nothing is unplaced but what no rule claims.
    pub satisfied: bool,
    /// Why not, and what else is worth knowing.
    pub reasons: Vec<String>,
    /// Weights that rules took from allocatable resources.
    pub frozen_weights: Vec<FrozenWeights>,
    /// The overrides that apply to members.
    pub overrides: Vec<DecidedOverride>,
    /// Cluster -> label -> value, as far as overrides name labels in variables.
    pub cluster_labels: BTreeMap<String, BTreeMap<String, String>>,
    /// What is wrong with overrides, as far as it shows without manifests.
    pub override_errors: Vec<OverrideError>,
}
