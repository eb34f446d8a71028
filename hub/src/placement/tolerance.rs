//! Taints that are tolerated for a time.

use super::{Inventory, PlacingStep};
use jiff::Timestamp;
use roundhouse_api::placement::{Taint, TaintEffect, Toleration};

/// Until when a taint is tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerated {
    /// Not at all, or no longer.
    No,
    /// Until this moment.
    Until(Timestamp),
    /// For as long as it is there.
    Always,
}

/// Until when a taint is tolerated, by Kubernetes' rules for `tolerationSeconds`: they count from `timeAdded` for
/// `NoExecute`; of several tolerations that match the shortest counts, one without seconds tolerates for ever only if
/// no other matches; zero and negative seconds tolerate nothing.
///
/// A taint without `timeAdded` is tolerated until the time is known: nobody saw it begin, and holding is the default.
pub(super) fn tolerated(taint: &Taint, tolerations: &[Toleration], now: Timestamp) -> Tolerated {
    let mut matching = tolerations.iter().filter(|t| t.tolerates(taint)).peekable();
    if matching.peek().is_none() {
        return Tolerated::No;
    }
    let seconds = match taint.effect {
        TaintEffect::NoExecute => matching.filter_map(|t| t.toleration_seconds).min(),
        TaintEffect::NoSchedule => None,
    };
    match (seconds, &taint.time_added) {
        (None, _) => Tolerated::Always,
        (Some(..=0), _) => Tolerated::No,
        (Some(_), None) => Tolerated::Always,
        (Some(seconds), Some(added)) => {
            let end = added.0.as_second().saturating_add(seconds);
            match Timestamp::from_second(end) {
                // Beyond the last moment that can be written.
                Err(_) => Tolerated::Always,
                Ok(end) if end <= now => Tolerated::No,
                Ok(end) => Tolerated::Until(end),
            }
        }
    }
}

/// The next moment after `now` at which a decision changes because a taint is no longer tolerated; `None` if no clock
/// matters. A controller decides anew then.
pub fn next_change(steps: &[PlacingStep<'_>], inventory: &Inventory, now: Timestamp) -> Option<Timestamp> {
    let timed = |step: &&PlacingStep<'_>| {
        step.spec
            .tolerations
            .iter()
            .any(|toleration| toleration.toleration_seconds.is_some())
    };
    let ends = steps.iter().filter(timed).flat_map(|step| {
        let taints = inventory.clusters().iter().flat_map(|cluster| &cluster.taints);
        taints.filter_map(move |taint| match tolerated(taint, &step.spec.tolerations, now) {
            Tolerated::Until(end) => Some(end),
            Tolerated::No | Tolerated::Always => None,
        })
    });
    ends.min()
}
