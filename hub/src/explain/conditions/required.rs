//! What a rule requires of a cluster to match, and what a step tolerates.

use crate::{
    placement::{ClusterFacts, Eligibility, eligibility},
    words,
};
use jiff::Timestamp;
use roundhouse_api::placement::{PlacementSpec, Rule, Taint};

/// Clusters of a rule that a requirement names.
const NAMES: usize = 5;

/// One requirement of a rule.
pub(in crate::explain) struct Required {
    pub(in crate::explain) about: &'static str,
    pub(in crate::explain) asks: String,
    pub(in crate::explain) found: String,
    pub(in crate::explain) holds: bool,
}

/// What a rule requires of a cluster to match, in order.
pub(in crate::explain) fn required(rule: &Rule, facts: &ClusterFacts) -> Vec<Required> {
    let mut all = Vec::new();
    if let Some(names) = &rule.clusters {
        let holds = names.contains(&facts.name);
        all.push(Required {
            about: "clusters",
            asks: words::listed(names, NAMES),
            found: if holds { "listed" } else { "not listed" }.to_owned(),
            holds,
        });
    }
    if let Some(selector) = &rule.cluster_selector {
        for (key, value) in &selector.match_labels {
            all.push(Required {
                about: "clusterSelector",
                asks: format!("{key}={value}"),
                found: words::label(&facts.labels, key),
                holds: facts.labels.get(key) == Some(value),
            });
        }
        for requirement in &selector.match_expressions {
            all.push(Required {
                about: "clusterSelector",
                asks: words::requirement(requirement),
                found: words::label(&facts.labels, &requirement.key),
                holds: requirement.matches(&facts.labels),
            });
        }
    }
    if all.is_empty() {
        all.push(Required {
            about: "clusterSelector",
            asks: "every cluster".to_owned(),
            found: facts.name.clone(),
            holds: true,
        });
    }
    all
}

/// Whether a taint alone would not keep a cluster away, by placement's own rule.
pub(in crate::explain) fn tolerates(spec: &PlacementSpec, taint: &Taint, now: Timestamp) -> bool {
    let facts = ClusterFacts {
        taints: vec![taint.clone()],
        joined: true,
        accepted: true,
        reachable: true,
        ..ClusterFacts::default()
    };
    eligibility(&facts, &spec.tolerations, false, now) == Eligibility::Open
}
