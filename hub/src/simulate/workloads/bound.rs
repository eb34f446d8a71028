//! How many replicas a simulated cluster runs of one workload. Each is remembered, and looked at whenever one of them
//! changes: without a bound a number that was mistyped would take all memory, and the time of everything else.

use super::memory::count;

/// Replicas that one workload has in one simulated cluster at most. Further ones are not started, and its conditions say so.
pub const MOST_REPLICAS: u32 = 10_000;

/// Reason of the conditions that say so.
pub(super) const REASON: &str = "SimulatedReplicasBounded";

/// What a workload asks for beyond the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beyond {
    field: &'static str,
    wanted: u32,
}

/// The count in this field as far as it is run, and what is beyond that.
pub(super) fn bounded(field: &'static str, wanted: i32) -> (u32, Option<Beyond>) {
    let wanted = count(Some(wanted));
    let beyond = (wanted > MOST_REPLICAS).then_some(Beyond { field, wanted });
    (wanted.min(MOST_REPLICAS), beyond)
}

impl std::fmt::Display for Beyond {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Beyond { field, wanted } = self;
        write!(
            f,
            "{field} is {wanted}, and a simulated cluster runs at most {MOST_REPLICAS} replicas of one workload: write a \
             smaller number, or divide it among more clusters"
        )
    }
}
