//! What was decided before, read from earlier decisions.

use super::{Previous, StepDecision};
use roundhouse_api::decision::{DecisionSpec, FrozenWeights, WorkloadDecision};

/// The kind that is divided once per revision.
const JOB: &str = "Job";

impl Previous {
    /// Reads the decisions of an application's placing steps: assignments settle ties and say what a cluster out of
    /// reach keeps; members keep their bundles.
    pub fn from_decisions<'a>(decisions: impl IntoIterator<Item = &'a DecisionSpec>) -> Self {
        let mut previous = Previous::default();
        for decision in decisions {
            previous.add(&decision.step, &decision.workloads, &decision.clusters);
            previous.freeze(&decision.step, &decision.frozen_weights);
        }
        previous
    }

    /// The same, with the Jobs fixed that were divided for this revision: a Job is divided once per revision and never
    /// again, since what runs of it cannot be moved.
    pub fn from_decisions_at<'a>(
        revision: &str,
        decisions: impl IntoIterator<Item = &'a DecisionSpec>,
    ) -> Self {
        let mut previous = Previous::default();
        for decision in decisions {
            previous.add(&decision.step, &decision.workloads, &decision.clusters);
            previous.freeze(&decision.step, &decision.frozen_weights);
            let jobs = decision.workloads.iter().filter(|w| w.workload.kind == JOB);
            for workload in jobs.filter(|_| decision.revision == revision) {
                let key = (decision.step.clone(), workload.workload.clone());
                previous.fixed.insert(key, workload.clone());
            }
        }
        previous
    }

    /// The same from the answer of [`place`](super::place).
    pub fn from_steps<'a>(decisions: impl IntoIterator<Item = &'a StepDecision>) -> Self {
        let mut previous = Previous::default();
        for decision in decisions {
            previous.add(&decision.step, &decision.workloads, &decision.clusters);
            previous.freeze(&decision.step, &decision.frozen_weights);
        }
        previous
    }

    fn add(&mut self, step: &str, workloads: &[WorkloadDecision], clusters: &[String]) {
        self.members.insert(step.to_owned(), clusters.to_vec());
        for workload in workloads {
            for row in &workload.clusters {
                let key = (step.to_owned(), workload.workload.clone(), row.rule.clone());
                let counts = self.assignments.entry(key).or_default();
                counts.insert(row.name.clone(), row.replicas);
            }
            let totals = self.totals.entry(workload.workload.clone()).or_default();
            for total in &workload.rules {
                let key = total.rule.as_ref().map(|rule| (step.to_owned(), rule.clone()));
                totals.insert(key, total.seats);
            }
        }
    }

    fn freeze(&mut self, step: &str, frozen: &[FrozenWeights]) {
        for weights in frozen {
            self.frozen
                .insert((step.to_owned(), weights.rule.clone()), weights.clone());
        }
    }

    /// The seats that a rule of a step had of a workload, or with `None` those that the remainder had.
    pub(super) fn seats(
        &self,
        workload: &roundhouse_api::decision::WorkloadRef,
        rule: Option<(&str, &str)>,
    ) -> u32 {
        let key = rule.map(|(step, rule)| (step.to_owned(), rule.to_owned()));
        if let Some(seats) = self.totals.get(workload).and_then(|totals| totals.get(&key)) {
            return *seats;
        }
        let Some((step, rule)) = key else { return 0 };
        let counts = self.assignments.get(&(step, workload.clone(), rule));
        let sum: u64 = counts
            .into_iter()
            .flatten()
            .map(|(_, count)| u64::from(*count))
            .sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    }
}
