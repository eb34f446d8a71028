//! The content hash of a decision.

use super::StepDecision;
use roundhouse_api::hash;
use serde_json::json;

/// Lower-case hex sha256 over the canonical form of what was decided: workloads, members and exclusions.
///
/// What depends on history (`previous`, `tie`, `bound`) is left out, so that deciding the same again has the same hash
/// and nothing is written.
pub fn decision_hash(decision: &StepDecision) -> String {
    let mut workloads = decision.workloads.clone();
    for workload in &mut workloads {
        workload.rules.iter_mut().for_each(|rule| rule.tie = None);
        for row in &mut workload.clusters {
            row.previous = None;
            row.tie = None;
            row.bound = None;
        }
    }
    hash::of_value(&json!({
        "clusters": decision.clusters,
        "excluded": decision.excluded,
        "workloads": workloads,
    }))
}
