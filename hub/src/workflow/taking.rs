//! Steps that take away what a step before them has applied in clusters.

use super::{
    Reach, message,
    reach::of_step,
    run::Run,
    spec::{At, Step},
};
use roundhouse_api::application::{ClusterObjectStep, ClusterVerb, StepPhase};
use std::collections::BTreeSet;

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

    /// The clusters that have what a step is to take away there, sorted: of these each has to report that it is gone.
    pub(super) fn to_clear(&self, step: &Step, object: &ClusterObjectStep) -> Vec<String> {
        let applied = |name: &String| {
            object.takes_of.contains(name) && of_step(Some(&self.workflow), name) != Some(Reach::Unreached)
        };
        let held = self.evidence.held.get(&step.name).into_iter().flatten();
        let clusters: BTreeSet<&String> = held
            .filter(|held| held.named && !held.gone && applied(&held.step))
            .map(|held| &held.cluster)
            .collect();
        clusters.into_iter().cloned().collect()
    }

    /// What a step says that cannot know of all clusters that the object is gone: Bundles went without a report on it.
    pub(super) fn unreported(&self, step: &Step, at: At, object: &ClusterObjectStep) -> Option<String> {
        let held = self.evidence.held.get(&step.name).into_iter().flatten();
        let held: BTreeSet<&String> = held.map(|held| &held.cluster).collect();
        let noted = self.seen(at)?.clusters.iter();
        let vanished: Vec<String> = noted.filter(|cluster| !held.contains(cluster)).cloned().collect();
        (!vanished.is_empty()).then(|| {
            format!(
                "the bundles of step {} vanished from {} before their agents reported that the object is gone: waiting until \
                 these are back and report it; a restart from this step no longer waits for clusters that have left",
                object.takes_of.join(" and "),
                message::named(&vanished)
            )
        })
    }
}
