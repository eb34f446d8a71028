//! Steps that take away what a step before them has applied in clusters.

use super::{Reach, reach::of_step, run::Run, spec::At};
use roundhouse_api::application::{ClusterObjectStep, ClusterVerb, StepPhase};

impl Run<'_> {
    /// Why there is nothing to take away: in this run nothing was applied, and what earlier runs applied is not this step's.
    pub(super) fn never_applied(&self, object: &ClusterObjectStep) -> Option<String> {
        let of = &object.takes_of;
        let open = |name: &String| of_step(Some(&self.workflow), name) != Some(Reach::Unreached);
        let skipped = |name: &String| {
            let state = self.workflow.step(name);
            state.is_some_and(|state| state.phase == StepPhase::Skipped)
        };
        if object.verb != ClusterVerb::Delete || of.iter().any(|name| open(name) && !skipped(name)) {
            return None;
        }
        Some(match of.as_slice() {
            [one] if skipped(one) => format!("step {one} was skipped"),
            [one] => format!("step {one} has applied nothing"),
            many => format!("steps {} have applied nothing", many.join(", ")),
        })
    }

    /// The Bundles that carry what a step takes away.
    pub(super) fn held(&self, object: &ClusterObjectStep) -> u32 {
        let of = object.takes_of.iter();
        of.filter_map(|step| self.evidence.held.get(step)).sum()
    }

    /// What a step says that cannot know of all clusters that the object is gone: Bundles went without a report on it.
    pub(super) fn unreported(&self, at: At, object: &ClusterObjectStep) -> Option<String> {
        let all = self.seen(at)?.bundles?;
        let vanished = all.saturating_sub(self.held(object));
        (vanished > 0).then(|| {
            format!(
                "{vanished} of {all} bundles of step {} vanished before their agents reported that the object is gone: waiting \
                 until these are back and report it; a restart from this step no longer waits for clusters that have left",
                object.takes_of.join(" and ")
            )
        })
    }
}
