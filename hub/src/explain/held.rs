//! A step that is held: something is wrong with its overrides, and what was decided before stays in force.

use super::{Condition, Mark, StepAnswer};
use crate::placement::error_line;
use roundhouse_api::decision::DecisionSpec;

/// What is wrong with the overrides of a step, one line each; none if nothing is.
pub fn holding(decision: &DecisionSpec) -> Vec<String> {
    decision.override_errors.iter().map(error_line).collect()
}

/// What a cluster keeps of a step that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What holds the step, one line each.
    pub errors: Vec<String>,
    /// Whether the cluster was placed before.
    pub placed: bool,
    /// The replicas that it keeps, over all workloads and rules.
    pub replicas: u64,
}

/// Says of a cluster that its step is held, if it is: that decides then, whatever placement would answer. `decision` is
/// what is in force of the step.
pub fn hold(answer: &mut StepAnswer, decision: &DecisionSpec, cluster: &str) -> Option<Kept> {
    let errors = holding(decision);
    let first = errors.first()?;
    for condition in &mut answer.conditions {
        condition.decisive = false;
    }
    let mut found = first.clone();
    if errors.len() > 1 {
        found.push_str(&format!("; … and {} more", errors.len() - 1));
    }
    answer.conditions.push(Condition {
        mark: Mark::Fails,
        decisive: true,
        about: "overrides",
        rule: None,
        asks: "all of them can be applied".to_owned(),
        found,
    });
    let rows = decision.workloads.iter().flat_map(|workload| &workload.clusters);
    let own = rows.filter(|row| row.name == cluster);
    let replicas = own.map(|row| u64::from(row.replicas)).sum();
    Some(Kept {
        placed: replicas > 0
            || decision.workloads.is_empty() && decision.clusters.iter().any(|name| name == cluster),
        replicas,
        errors,
    })
}
