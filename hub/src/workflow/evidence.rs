//! What the fleet shows about the steps of a run.

use crate::action::Outcome;
use jiff::Timestamp;
use roundhouse_api::application::WaitFor;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is known, by step name. A step that is missing was not looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Placing steps.
    pub steps: BTreeMap<String, StepEvidence>,
    /// Steps that have an object in clusters.
    pub objects: BTreeMap<String, StepEvidence>,
    /// Of steps that take an object away: the Bundles that carry it, whatever becomes of them.
    pub held: BTreeMap<String, Vec<HeldObject>>,
    /// What the clusters report for outputs of both, by name of the output.
    pub outputs: BTreeMap<String, OutputEvidence>,
    /// What came of steps that act, by step.
    pub actions: BTreeMap<String, ActionEvidence>,
    /// Steps that wait for an object which may have changed since it was looked at last, or is looked at anew just now.
    pub changed: BTreeSet<String>,
    /// The revision of the last run that succeeded.
    pub delivered: Option<String>,
    /// The revisions whose record is there.
    pub revisions: BTreeSet<String>,
}

/// A Bundle with an object that a step takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldObject {
    /// The step that has applied it.
    pub step: String,
    /// Its cluster.
    pub cluster: String,
    /// Whether the step takes it away from this cluster.
    pub named: bool,
    /// Whether its agent has said already, to another step, that the object is gone.
    pub gone: bool,
}

/// What the clusters report for an output.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputEvidence {
    /// All of them this.
    Agreed(Value),
    /// Some of them nothing.
    Missing {
        /// Which ones, sorted; at least one.
        clusters: Vec<String>,
    },
    /// They do not agree.
    Differs {
        /// One of them.
        one: String,
        /// Another one.
        other: String,
    },
}

/// What came of one execution of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionEvidence {
    /// Its number.
    pub attempt: u32,
    /// When it was over.
    pub at: Timestamp,
    /// Its outcome.
    pub outcome: Outcome,
}

/// What is known of a placing step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepEvidence {
    /// It cannot be carried out as it is; tried again with back-off, then it fails.
    Refused {
        /// What is wrong and what to do.
        message: String,
        /// What its clusters showed, if it is known which these are: some of them get what they are to get.
        clusters: Vec<ClusterEvidence>,
    },
    /// It cannot be placed for now: what is missing may come, and it waits.
    Blocked {
        /// What is missing and what to do.
        message: String,
    },
    /// It places on no cluster, and its placement allows that.
    AllowedEmpty,
    /// Its decision, and what its clusters showed.
    Placed {
        /// Why the decision is not satisfied; empty when it is.
        unsatisfied: Vec<String>,
        /// The clusters that hold or are to hold a bundle by this step, sorted by name.
        clusters: Vec<ClusterEvidence>,
    },
}

/// What one cluster showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEvidence {
    /// Cluster name.
    pub cluster: String,
    /// Where it stands.
    pub state: ClusterState,
    /// For people; empty when ready.
    pub message: String,
}

/// Where a cluster stands with the content that was dispatched to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterState {
    /// The bundle is not written yet.
    Dispatching,
    /// The bundle is written; the agent has not reported on it.
    Waiting,
    /// The agent reported on this content: some of it is not applied.
    Progressing,
    /// The agent reported on this content: all is applied, some is not ready.
    Applied,
    /// The agent reported on this content: all is applied and ready.
    Ready,
    /// The agent reported on this content: all is applied, and some of it has failed since.
    Unhealthy,
    /// The agent reported on this content: some of it cannot be applied.
    Failed,
    /// The cluster's Lease is not renewed: what it runs now is not known.
    Unreachable,
}

impl ClusterState {
    /// The word that a status shows.
    pub fn as_str(self) -> &'static str {
        match self {
            ClusterState::Dispatching => "Dispatching",
            ClusterState::Waiting => "Waiting",
            ClusterState::Progressing => "Progressing",
            ClusterState::Applied => "Applied",
            ClusterState::Ready => "Ready",
            ClusterState::Unhealthy => "Unhealthy",
            ClusterState::Failed => "Failed",
            ClusterState::Unreachable => "Unreachable",
        }
    }

    /// Whether a step that waits for `wait` may pass over a cluster in this state.
    pub fn passes(self, wait: WaitFor) -> bool {
        match wait {
            WaitFor::Ready => self == ClusterState::Ready,
            WaitFor::Applied => {
                matches!(
                    self,
                    ClusterState::Applied | ClusterState::Ready | ClusterState::Unhealthy
                )
            }
            // The bundle of an unreachable cluster is written as well; only an unwritten one holds the step.
            WaitFor::None => self != ClusterState::Dispatching,
        }
    }

    /// Whether it counts as failed for a step that waits for `wait`: who waits until all is applied does not ask how it fares.
    pub fn has_failed(self, wait: WaitFor) -> bool {
        match self {
            ClusterState::Failed => true,
            ClusterState::Unhealthy => wait != WaitFor::Applied,
            _ => false,
        }
    }
}

impl StepEvidence {
    /// Whether a step that waits for `wait` may pass. An unsatisfied decision never passes, and no clusters only where
    /// the placement allows it.
    pub fn passes(&self, wait: WaitFor) -> bool {
        match self {
            StepEvidence::Refused { .. } | StepEvidence::Blocked { .. } => false,
            StepEvidence::AllowedEmpty => true,
            StepEvidence::Placed {
                unsatisfied,
                clusters,
            } => {
                unsatisfied.is_empty()
                    && !clusters.is_empty()
                    && clusters.iter().all(|c| c.state.passes(wait))
            }
        }
    }

    /// The clusters that hold or are to hold a bundle by this step.
    pub fn clusters(&self) -> &[ClusterEvidence] {
        match self {
            StepEvidence::Placed { clusters, .. } | StepEvidence::Refused { clusters, .. } => clusters,
            StepEvidence::Blocked { .. } | StepEvidence::AllowedEmpty => &[],
        }
    }

    /// Whether it is decided, and places on no cluster that is there.
    pub fn has_no_cluster(&self) -> bool {
        match self {
            StepEvidence::AllowedEmpty => true,
            StepEvidence::Placed { clusters, .. } => clusters.is_empty(),
            StepEvidence::Refused { .. } | StepEvidence::Blocked { .. } => false,
        }
    }

    /// Whether all is dispatched, so that it can be asked how many clusters are ready: an unsatisfied decision never
    /// passes, and neither does a bundle that is not written.
    pub fn until(&self) -> bool {
        match self {
            StepEvidence::Placed {
                unsatisfied,
                clusters,
            } => unsatisfied.is_empty() && clusters.iter().all(|c| c.state != ClusterState::Dispatching),
            _ => false,
        }
    }

    /// A digest of the clusters' states: it changes when a cluster changes state, not when a text changes.
    pub fn digest(&self) -> String {
        let text = match self {
            StepEvidence::Refused { .. } => "refused".to_owned(),
            StepEvidence::Blocked { .. } => "blocked".to_owned(),
            StepEvidence::AllowedEmpty => "empty".to_owned(),
            StepEvidence::Placed { clusters, .. } => clusters
                .iter()
                .map(|c| format!("{}={};", c.cluster, c.state.as_str()))
                .collect(),
        };
        let mut digest = roundhouse_api::hash::sha256(text.as_bytes());
        digest.truncate(16);
        digest
    }
}
