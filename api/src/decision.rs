//! `Decision`: what placement answered for one step of one application, written atomically as one object.

use crate::{
    placement::{Change, OverrideTarget},
    shared::{self, SharedStr},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap};

/// What a placing step decided: for each workload, how many replicas each cluster gets and why.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "roundhouse.dev",
    version = "v1alpha1",
    kind = "Decision",
    namespaced,
    derive = "PartialEq",
    category = "roundhouse",
    printcolumn = r#"{"name":"Application","type":"string","jsonPath":".spec.applicationRef.name"}"#,
    printcolumn = r#"{"name":"Step","type":"string","jsonPath":".spec.step"}"#,
    printcolumn = r#"{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"}"#,
    printcolumn = r#"{"name":"Placed","type":"integer","jsonPath":".spec.placed"}"#,
    printcolumn = r#"{"name":"Unplaced","type":"integer","jsonPath":".spec.unplaced"}"#,
    printcolumn = r#"{"name":"Clusters","type":"integer","jsonPath":".spec.clusterCount"}"#,
    printcolumn = r#"{"name":"Satisfied","type":"boolean","jsonPath":".spec.satisfied"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSpec {
    /// The application.
    pub application_ref: crate::bundle::ApplicationRef,
    /// The workflow step.
    pub step: String,
    /// The application revision that was placed.
    pub revision: String,
    /// Fencing epoch of the hub that wrote it.
    #[schemars(schema_with = "crate::epoch")]
    pub epoch: i64,
    /// The components that it dispatches; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<String>,
    /// Content hash over the canonical form of `workloads`, `clusters` and `excluded`, without the fields `previous`,
    /// `tie` and `bound` and the count `NotMatched`: a decision that repeats an earlier one has its hash.
    pub hash: String,
    /// Whether every rule matched a cluster and nothing is unplaced but what no rule claims.
    pub satisfied: bool,
    /// Why it is not satisfied, and what else is worth knowing: one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Divided replicas asked for, over all workloads.
    pub replicas: u64,
    /// Divided replicas placed, over all workloads.
    pub placed: u64,
    /// Divided replicas not placed, over all workloads.
    pub unplaced: u64,
    /// How many clusters are members.
    pub cluster_count: u32,
    /// One entry per workload, in the order of the revision.
    #[serde(default)]
    pub workloads: Vec<WorkloadDecision>,
    /// The clusters that get a bundle (or keep theirs), sorted.
    #[serde(default)]
    pub clusters: Vec<String>,
    /// Of a step with `maxClusters`: the clusters that it chose and that get nothing, because everything was divided before
    /// they came, sorted. They keep their place among the chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<String>,
    /// Clusters that a rule matches and that are not chosen, counted by reason, sorted by reason. Clusters that no rule
    /// matches are counted by `plan` and `explain` only: in what is stored, every cluster that joins somewhere else
    /// would change it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<Exclusion>,
    /// Weights that rules took from allocatable resources, as they were frozen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frozen_weights: Vec<FrozenWeights>,
    /// The overrides that apply to members of this step, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<DecidedOverride>,
    /// Cluster -> label -> value, as far as `overrides` name labels in variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_labels: BTreeMap<String, BTreeMap<String, String>>,
    /// What is wrong with the overrides of the placement. While there is anything, what was decided before stays in
    /// force: the other fields are those of the last decision without an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub override_errors: Vec<OverrideError>,
    /// The clusters to which the step has not come with this decision: of one that dispatches to few clusters at a time
    /// (`maxParallel`) those that have not had their turn; of any that has stopped those whose Bundle was not written before.
    /// They keep what they have until the step comes to them. Not part of the hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
}

/// Clusters that wait for their turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The revision that the step gave them last; absent: it has given them nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Which ones, sorted.
    pub clusters: Vec<String>,
}

impl Waiting {
    /// Whether this cluster is among them.
    pub fn has(&self, cluster: &str) -> bool {
        self.clusters
            .binary_search_by(|name| name.as_str().cmp(cluster))
            .is_ok()
    }
}

impl DecisionSpec {
    /// How a cluster waits for its turn, if it does.
    pub fn waits(&self, cluster: &str) -> Option<&Waiting> {
        self.waiting.iter().find(|waiting| waiting.has(cluster))
    }

    /// The revision that the step gave a cluster last, if any.
    pub fn given(&self, cluster: &str) -> Option<&str> {
        match self.waits(cluster) {
            Some(waiting) => waiting.revision.as_deref(),
            None => {
                let own = self.clusters.iter().any(|name| name == cluster);
                own.then_some(self.revision.as_str())
            }
        }
    }
}

/// The weights of one rule's clusters as they were read once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrozenWeights {
    /// The rule.
    pub rule: String,
    /// The allocatable resource.
    pub allocatable: String,
    /// Hash of the placement that they were frozen for.
    pub placement: String,
    /// Cluster -> weight: thousandths of a core for `cpu`, units of the resource for everything else.
    #[schemars(with = "BTreeMap<String, i64>")]
    pub weights: BTreeMap<String, u64>,
}

/// An override with the clusters that it applies to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [{"required": ["patch"]}, {"required": ["jsonPatch"]}]))]
pub struct DecidedOverride {
    /// Its place in the placement's list, from 0.
    pub index: u32,
    /// Members that it applies to, sorted.
    pub clusters: Vec<String>,
    /// The object.
    pub target: OverrideTarget,
    /// What changes in it, variables not yet filled in.
    #[serde(flatten)]
    pub change: Change,
}

/// Something wrong with an override.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideError {
    /// Place of the override in the placement's list, from 0.
    pub index: u32,
    /// The first cluster for which it is wrong; absent if it is wrong whatever the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// For how many further clusters it is wrong in the same way.
    #[serde(default, skip_serializing_if = "shared::is_zero")]
    pub more_clusters: u32,
    /// The object, `<kind> <namespace>/<name>` or as the override names it.
    pub object: String,
    /// The path in the object, as the override writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is wrong and what to do.
    pub message: String,
}

/// The division of one workload.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadDecision {
    /// The workload.
    pub workload: WorkloadRef,
    /// Replicas that the workload asks for.
    pub replicas: u32,
    /// Divided replicas placed (duplicates are not counted).
    pub placed: u32,
    /// Divided replicas that found no place, by rule and reason.
    #[serde(default)]
    pub unplaced: Vec<Unplaced>,
    /// What each rule of this step gets of `replicas`, in the order of the rules; the remainder, with the last placing
    /// step, comes last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleTotal>,
    /// One entry per (cluster, rule), zeros included, sorted by cluster, then rule.
    #[serde(default)]
    pub clusters: Vec<Assignment>,
    /// Whether the rules of all steps claim more than `replicas`, so that rules of this step get less than their seats.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overcommitted: bool,
}

impl WorkloadDecision {
    /// The rules that get less than their seats because all of them claim too much together.
    pub fn shrunk(&self) -> impl Iterator<Item = &RuleTotal> {
        let rules = self.rules.iter().filter(|_| self.overcommitted);
        rules.filter(|total| total.rule.is_some() && total.total < total.seats)
    }
}

/// Names a workload of the revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Replicas without a place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unplaced {
    /// The rule; absent for the remainder that no rule claims.
    pub rule: Option<String>,
    /// How many replicas.
    pub count: u32,
    /// `Unclaimed`, `NoClusterMatches`, `NoClusterEligible`, `AtCapacity`, `AtMaximum`, `NoAdditional`, `ZeroWeight`,
    /// `DividedOnce`.
    pub reason: String,
}

/// What one rule gets of a workload's replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleTotal {
    /// The rule; absent for the remainder that no rule claims.
    pub rule: Option<String>,
    /// What the rule says: `70%`, `3`; absent for duplicates and the remainder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// Its exact share as a reduced fraction such as `7/3`; absent for duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
    /// Replicas before rules were shrunk because they claim too much together.
    pub seats: u32,
    /// Replicas that the rule divides among its clusters (a duplicate rule: gives to each).
    pub total: u32,
    /// What settled a tie: `AlreadyHeld`, `LargerPrevious`, `FewerSeats`, `Hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<String>,
}

/// What one rule gives one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Cluster name.
    pub name: SharedStr,
    /// Rule name.
    pub rule: SharedStr,
    /// Replicas.
    pub replicas: u32,
    /// The cluster's exact share of the rule's total, as a reduced fraction such as `7/3`; absent for duplicates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<SharedStr>,
    /// The bound that held: `Min`, `Max`, `Capacity`, `ZeroWeight`, `NoAdditional`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<Cow<'static, str>>,
    /// Replicas before this decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u32>,
    /// What settled a tie: `AlreadyHeld`, `LargerPrevious`, `FewerSeats`, `Hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie: Option<Cow<'static, str>>,
    /// Whether the rule gives every cluster the full count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// Of a Job, which is divided once: replicas that had been given of it when these were. Its completions are divided in
    /// that order, so a cluster's part stays the same when another one goes. Absent: those of the rows before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u32>,
}

impl Assignment {
    /// Change against the previous decision.
    pub fn delta(&self) -> i64 {
        i64::from(self.replicas) - i64::from(self.previous.unwrap_or(0))
    }
}

/// Clusters not chosen for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Exclusion {
    /// `NotMatched`, `NotAccepted`, `NotJoined`, `Tainted`, `Unreachable`, `MaxClusters`, `Skewed`,
    /// `NoTopologyLabel`.
    pub reason: String,
    /// How many clusters.
    pub count: u32,
}
