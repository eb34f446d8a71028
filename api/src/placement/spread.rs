//! How evenly chosen clusters spread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fields of Kubernetes' topology spread constraint, over the chosen clusters instead of pods: the numbers of chosen
/// clusters of any two values of the label differ by at most `maxSkew`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// Cluster label whose values are the topology, such as `region`.
    pub topology_key: String,
    /// At most this much may the number of chosen clusters of one value exceed that of another; at least 1.
    #[schemars(range(min = 1))]
    pub max_skew: u32,
    /// What to do when `maxClusters` clusters cannot be chosen within the skew.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub when_unsatisfiable: WhenUnsatisfiable,
}

/// What to do when the skew cannot be kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// Choose fewer clusters.
    #[default]
    DoNotSchedule,
    /// Choose as many as `maxClusters` allows, with the least skew.
    ScheduleAnyway,
}
