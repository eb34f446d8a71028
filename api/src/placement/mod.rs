//! What a placing step says: which clusters, and how many replicas each rule gets.
//!
//! The seed's form is a bare list under `properties.placement`; the other fields are its siblings (see the design of
//! placement: a rule is `clusterSelector` plus `replicas`).

mod overrides;
mod resource;
mod selector;
mod share;
mod spread;
mod variables;
mod weight;

pub use overrides::{Change, Override, OverrideTarget};
pub use resource::{MAX_REASONS, Placement, PlacementCounts, PlacementObject, PlacementStatus};
pub use selector::{ClusterSelector, Operator, Requirement, SelectorError};
pub use share::{Percent, ReplicaShare, ShareError};
pub use spread::{Spread, WhenUnsatisfiable};
pub use variables::{Piece, VariableError, pieces};
pub use weight::WeightBy;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One placement: rules and how they are divided.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The rules, in order.
    #[serde(default)]
    pub placement: Vec<Rule>,
    /// What becomes of replicas that no rule claims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub remainder: Remainder,
    /// Whether existing assignments may move.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rebalance: Rebalance,
    /// Cluster taints that this placement tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// At most this many clusters, chosen by weight, then previous assignment, then hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_clusters: Option<u32>,
    /// How evenly the chosen clusters spread over the values of a label; needs `maxClusters`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Changes to the manifests of some clusters, applied after division, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
}

/// One rule: clusters and their share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Name of the rule; `rule-<index>` from 0 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Clusters by label; absent selects every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<ClusterSelector>,
    /// Clusters by name; intersects the selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<Vec<String>>,
    /// Whether the rule may match no cluster (KubeVela's `topology`); otherwise the placement is not satisfied then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_empty: bool,
    /// Percentage, count, or absent: every matched cluster gets the full count (duplicate).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicaShare>,
    /// Static weights by cluster name; an absent one is 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// Weights read from the clusters themselves; excludes `weights`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_by: Option<WeightBy>,
    /// Bounds of each cluster of this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_cluster: Option<Bounds>,
}

impl Rule {
    /// The rule's name, `rule-<index>` where it has none.
    pub fn name_or_index(&self, index: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("rule-{index}"))
    }
}

/// Replicas per cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// At least this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// At most this many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

/// What becomes of replicas that no rule claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Remainder {
    /// They stay unplaced and are reported.
    #[default]
    Hold,
    /// Percentages act as ratios and everything is placed.
    Spread,
}

/// Whether existing assignments may move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Rebalance {
    /// A change of the inputs divides anew, moving as little as possible.
    #[default]
    OnChange,
    /// Existing assignments only grow or shrink with the number of replicas.
    Never,
}

/// A toleration with the fields and meaning of Kubernetes' own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Taint key; empty with `Exists` tolerates everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Exists` or `Equal` (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Taint value, with `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Taint effect; absent tolerates every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// How long a `NoExecute` taint is tolerated, in seconds; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Whether this toleration matches the taint (Kubernetes' `ToleratesTaint`); `tolerationSeconds` is for the caller.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        let key = self.key.as_deref().unwrap_or_default();
        match self.operator.unwrap_or_default() {
            TolerationOperator::Exists => key.is_empty() || key == taint.key,
            TolerationOperator::Equal => {
                key == taint.key
                    && self.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
            }
        }
    }
}

/// Operator of a toleration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// Key and value are equal.
    #[default]
    Equal,
    /// The key is there, or no key is named.
    Exists,
}

/// A cluster taint with the fields of Kubernetes' node taint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect.
    pub effect: TaintEffect,
    /// When the taint was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
}

impl Taint {
    /// Whether this is the same taint: key, value and effect, whenever it was added.
    pub fn is_same(&self, other: &Taint) -> bool {
        (&self.key, &self.value, self.effect) == (&other.key, &other.value, other.effect)
    }
}

/// What a taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// No additional replicas.
    NoSchedule,
    /// What is there is taken away.
    NoExecute,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_seeds_placement_reads_as_it_stands() {
        let spec: PlacementSpec = serde_json::from_value(json!({"placement": [
            {"clusterSelector": {"region": "east"}, "replicas": "70%"},
            {"clusterSelector": {"region": "west"}, "replicas": "20%"}]}))
        .unwrap();
        assert_eq!(spec.placement.len(), 2);
        assert_eq!(spec.remainder, Remainder::Hold);
        assert_eq!(spec.placement[1].name_or_index(1), "rule-1");
        assert!(matches!(&spec.placement[0].replicas, Some(ReplicaShare::Percent(p)) if p.milli() == 70_000));
    }

    #[test]
    fn tolerations_match_as_in_kubernetes() {
        let taint = |key: &str, value: Option<&str>, effect| Taint {
            key: key.into(),
            value: value.map(Into::into),
            effect,
            time_added: None,
        };
        let exists_all = Toleration {
            operator: Some(TolerationOperator::Exists),
            ..Default::default()
        };
        let equal = Toleration {
            key: Some("gpu".into()),
            value: Some("a".into()),
            ..Default::default()
        };
        let no_execute = Toleration {
            effect: Some(TaintEffect::NoExecute),
            ..exists_all.clone()
        };
        let gpu = taint("gpu", Some("a"), TaintEffect::NoSchedule);
        assert!(exists_all.tolerates(&gpu) && equal.tolerates(&gpu));
        assert!(!no_execute.tolerates(&gpu));
        assert!(!equal.tolerates(&taint("gpu", Some("b"), TaintEffect::NoSchedule)));
        assert!(!equal.tolerates(&taint("cpu", Some("a"), TaintEffect::NoSchedule)));
        assert!(!Toleration::default().tolerates(&gpu));
    }
}
