//! What a case expects, and what came of it, in one form.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is expected. What is absent is not looked at; what is there is complete.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) placements: Option<Vec<Placement>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unplaced: Option<Vec<Unplaced>>,
    /// Cluster → its objects, in the order of the Bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bundles: Option<BTreeMap<String, Vec<String>>>,
    /// Parts of the message with which the plan is refused, or of what is wrong with overrides that stop a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) errors: Option<Vec<String>>,
}

impl Expect {
    /// Whether nothing is looked at: such a case could not fail.
    pub(super) fn is_empty(&self) -> bool {
        *self == Expect::default()
    }
}

/// Replicas of one workload in one step, all rules together.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Placement {
    /// `<namespace>/<name>`; absent where there is one Application only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) application: Option<String>,
    pub(super) step: String,
    /// `Deployment default/web`.
    pub(super) workload: String,
    /// Cluster → replicas; zeros need not be listed.
    pub(super) clusters: BTreeMap<String, u32>,
}

/// Replicas without a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unplaced {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) application: Option<String>,
    pub(super) step: String,
    pub(super) workload: String,
    /// Absent for what no rule claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rule: Option<String>,
    pub(super) count: u32,
    pub(super) reason: String,
}
