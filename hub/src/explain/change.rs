//! What can be changed about a cluster or an application.

use super::{Form, Setting};
use crate::placement::ClusterFacts;
use roundhouse_api::{
    cluster::{TAINT_CORDONED, TAINT_UNAVAILABLE, TAINT_UNREACHABLE},
    decision::WorkloadRef,
    placement::{
        Bounds, ClusterSelector, Rebalance, ReplicaShare, Rule, Taint, TaintEffect, Toleration,
        TolerationOperator,
    },
};

/// One change. Rules and steps go by their place: names may be missing.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The cluster's label gets this value.
    SetLabel {
        /// Label key.
        key: String,
        /// Its value to be.
        value: String,
    },
    /// The cluster's label goes.
    RemoveLabel {
        /// Label key.
        key: String,
    },
    /// The cluster's taint goes.
    RemoveTaint(Taint),
    /// The cluster gets a taint.
    AddTaint(Taint),
    /// An administrator lets the cluster in.
    Accept,
    /// The cluster's agent reports for the first time.
    Join,
    /// The cluster's agent reaches the hub again.
    Reconnect,
    /// The cluster can hold this many replicas.
    Capacity(u32),
    /// The cluster's nodes have this much of a resource.
    Allocatable {
        /// The resource.
        resource: String,
        /// How much, as a Kubernetes quantity.
        quantity: String,
    },
    /// A step tolerates a taint.
    Tolerate {
        /// Place of the step.
        step: usize,
        /// The taint.
        taint: Taint,
    },
    /// A rule lists the cluster by name.
    AddName {
        /// Place of the step and of the rule in it.
        rule: (usize, usize),
    },
    /// A rule does not list the cluster by name any more.
    RemoveName {
        /// Place of the step and of the rule in it.
        rule: (usize, usize),
    },
    /// A rule asks for a label no more.
    Unrequire {
        /// Place of the step and of the rule in it.
        rule: (usize, usize),
        /// Key of the label.
        key: String,
    },
    /// The cluster has this weight in a rule.
    Weight {
        /// Place of the step and of the rule in it.
        rule: (usize, usize),
        /// The weight to be.
        weight: u32,
    },
    /// A step takes this many clusters.
    MaxClusters {
        /// Place of the step.
        step: usize,
        /// How many.
        clusters: u32,
    },
    /// A step chooses clusters with this skew.
    MaxSkew {
        /// Place of the step.
        step: usize,
        /// The skew.
        skew: u32,
    },
    /// A rule claims this share.
    Share {
        /// Place of the step and of the rule in it.
        rule: (usize, usize),
        /// The share to be.
        share: ReplicaShare,
    },
    /// Each cluster of a rule gets at least this many.
    Min {
        /// Place of the step and of the rule in it.
        rule: (usize, usize),
        /// How many.
        min: u32,
    },
    /// Each cluster of a rule gets at most this many.
    Max {
        /// Place of the step and of the rule in it.
        rule: (usize, usize),
        /// How many.
        max: u32,
    },
    /// A step may move what it placed.
    RebalanceOnChange {
        /// Place of the step.
        step: usize,
    },
    /// A workload asks for this many replicas.
    Replicas {
        /// Which one.
        workload: WorkloadRef,
        /// How many.
        replicas: u32,
    },
}

impl Change {
    /// A word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Change::SetLabel { .. } => "setLabel",
            Change::RemoveLabel { .. } => "removeLabel",
            Change::RemoveTaint(taint) if taint.key == TAINT_CORDONED => "uncordon",
            Change::RemoveTaint(_) => "removeTaint",
            Change::AddTaint(_) => "addTaint",
            Change::Accept => "accept",
            Change::Join => "join",
            Change::Reconnect => "reconnect",
            Change::Capacity(_) => "capacity",
            Change::Allocatable { .. } => "allocatable",
            Change::Tolerate { .. } => "tolerate",
            Change::AddName { .. } => "addName",
            Change::RemoveName { .. } => "removeName",
            Change::Unrequire { .. } => "unrequire",
            Change::Weight { .. } => "weight",
            Change::MaxClusters { .. } => "maxClusters",
            Change::MaxSkew { .. } => "maxSkew",
            Change::Share { .. } => "share",
            Change::Min { .. } => "min",
            Change::Max { .. } => "max",
            Change::RebalanceOnChange { .. } => "rebalance",
            Change::Replicas { .. } => "replicas",
        }
    }

    /// How far it reaches: the cluster alone, one rule, or a whole step or workload.
    pub(super) fn reach(&self) -> u8 {
        match self {
            Change::SetLabel { .. }
            | Change::RemoveLabel { .. }
            | Change::RemoveTaint(_)
            | Change::AddTaint(_)
            | Change::Accept
            | Change::Join
            | Change::Reconnect => 0,
            Change::AddName { .. } | Change::RemoveName { .. } | Change::Weight { .. } => 1,
            Change::Capacity(_)
            | Change::Allocatable { .. }
            | Change::Tolerate { .. }
            | Change::RebalanceOnChange { .. } => 2,
            Change::Unrequire { .. }
            | Change::Min { .. }
            | Change::Max { .. }
            | Change::MaxClusters { .. }
            | Change::MaxSkew { .. } => 3,
            Change::Share { .. } => 4,
            Change::Replicas { .. } => 5,
        }
    }

    /// Whether it changes the Application itself, which makes a new revision of it.
    fn revises(&self, setting: &Setting) -> bool {
        match self {
            Change::Tolerate { step, .. }
            | Change::MaxClusters { step, .. }
            | Change::MaxSkew { step, .. }
            | Change::RebalanceOnChange { step } => setting.form_of(*step) != Form::Placement,
            Change::AddName { rule }
            | Change::RemoveName { rule }
            | Change::Unrequire { rule, .. }
            | Change::Weight { rule, .. }
            | Change::Share { rule, .. }
            | Change::Min { rule, .. }
            | Change::Max { rule, .. } => setting.form(*rule) != Form::Placement,
            Change::Replicas { .. } => true,
            _ => false,
        }
    }

    /// Applies it to a setting. What it names and is not there stays as it is.
    pub fn apply(&self, setting: &mut Setting, cluster: &str) {
        if self.revises(setting) {
            // Jobs are divided once per revision.
            setting.previous.fixed.clear();
        }
        if self.apply_to_step(setting, cluster).is_some() {
            return;
        }
        if let Change::Replicas { workload, replicas } = self {
            let found = setting.workloads.iter_mut().find(|w| w.key == *workload);
            if let Some(found) = found {
                found.replicas = *replicas;
            }
        } else if let Some(facts) = setting.cluster(cluster) {
            let mut facts = facts.clone();
            self.apply_to_cluster(&mut facts);
            setting.inventory.put(facts);
        }
    }

    fn apply_to_cluster(&self, facts: &mut ClusterFacts) {
        match self {
            Change::SetLabel { key, value } => {
                facts.labels.insert(key.clone(), value.clone());
            }
            Change::RemoveLabel { key } => {
                facts.labels.remove(key);
            }
            Change::RemoveTaint(taint) => facts.taints.retain(|t| !is_same(t, taint)),
            Change::AddTaint(taint) => {
                facts.taints.retain(|t| !is_same(t, taint));
                facts.taints.push(taint.clone());
            }
            Change::Accept => facts.accepted = true,
            // The hub taints what has not joined or is out of reach, and takes its taint away again.
            Change::Join => {
                facts.joined = true;
                facts.reachable = true;
                facts.taints.retain(|t| !is_the_hubs(t));
            }
            Change::Reconnect => {
                facts.reachable = true;
                facts.taints.retain(|t| !is_the_hubs(t));
            }
            Change::Capacity(capacity) => facts.capacity = Some(*capacity),
            Change::Allocatable { resource, quantity } => {
                facts.allocatable.insert(resource.clone(), quantity.clone());
            }
            _ => {}
        }
    }

    /// `None` if it is not about a step.
    fn apply_to_step(&self, setting: &mut Setting, cluster: &str) -> Option<()> {
        let (step, rule) = match self {
            Change::Tolerate { step, .. }
            | Change::MaxClusters { step, .. }
            | Change::MaxSkew { step, .. }
            | Change::RebalanceOnChange { step } => (*step, None),
            Change::AddName { rule }
            | Change::RemoveName { rule }
            | Change::Unrequire { rule, .. }
            | Change::Weight { rule, .. }
            | Change::Share { rule, .. }
            | Change::Min { rule, .. }
            | Change::Max { rule, .. } => (rule.0, Some(rule.1)),
            _ => return None,
        };
        let spec = &mut setting.steps.get_mut(step)?.spec;
        match self {
            Change::Tolerate { taint, .. } => spec.tolerations.push(toleration(taint)),
            Change::MaxClusters { clusters, .. } => spec.max_clusters = Some(*clusters),
            Change::MaxSkew { skew, .. } => {
                if let Some(spread) = &mut spec.spread {
                    spread.max_skew = *skew;
                }
            }
            Change::RebalanceOnChange { .. } => spec.rebalance = Rebalance::OnChange,
            _ => self.apply_to_rule(spec.placement.get_mut(rule?)?, cluster),
        }
        Some(())
    }

    fn apply_to_rule(&self, rule: &mut Rule, cluster: &str) {
        let bounds = rule.per_cluster.unwrap_or_default();
        match self {
            Change::AddName { .. } => rule.clusters.get_or_insert_default().push(cluster.to_owned()),
            Change::RemoveName { .. } => {
                if let Some(names) = &mut rule.clusters {
                    names.retain(|name| name != cluster);
                }
            }
            Change::Unrequire { key, .. } => {
                if let Some(selector) = &mut rule.cluster_selector {
                    selector.match_labels.remove(key);
                }
            }
            Change::Weight { weight, .. } => {
                rule.weights.insert(cluster.to_owned(), *weight);
            }
            Change::Share { share, .. } => rule.replicas = Some(*share),
            Change::Min { min, .. } => {
                rule.per_cluster = Some(Bounds {
                    min: Some(*min),
                    ..bounds
                })
            }
            Change::Max { max, .. } => {
                rule.per_cluster = Some(Bounds {
                    max: Some(*max),
                    ..bounds
                })
            }
            _ => {}
        }
    }
}

/// The toleration that lets exactly one taint be.
pub(super) fn toleration(taint: &Taint) -> Toleration {
    Toleration {
        key: Some(taint.key.clone()),
        operator: Some(TolerationOperator::Equal),
        value: taint.value.clone(),
        effect: Some(taint.effect),
        toleration_seconds: None,
    }
}

/// Taints are told apart by key and effect, as Kubernetes does.
fn is_same(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}

/// Whether the hub itself put it there, and takes it away.
pub(super) fn is_the_hubs(taint: &Taint) -> bool {
    [TAINT_UNAVAILABLE, TAINT_UNREACHABLE].contains(&taint.key.as_str())
        && taint.effect == TaintEffect::NoSchedule
}

/// Whether a rule's selector asks for a label at all.
pub(super) fn keys(selector: &ClusterSelector) -> Vec<&str> {
    let labels = selector.match_labels.keys().map(String::as_str);
    let expressions = selector.match_expressions.iter().map(|e| e.key.as_str());
    let mut keys: Vec<&str> = labels.chain(expressions).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
