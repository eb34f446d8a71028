//! What keeps a cluster as it is, whatever placement answers: what was decided or dispatched before stays in force.

use super::{Condition, Mark, StepAnswer};
use crate::{
    dispatch::{Layer, Share, shares},
    placement::error_line,
};
use roundhouse_api::decision::DecisionSpec;

/// Why a step, or a cluster in it, is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Overrides of the step cannot be applied: what is wrong, one line each.
    Overrides(Vec<String>),
    /// A Placement that the application refers to cannot be used.
    Placement(String),
    /// The cluster is to lose the application, and the removal waits for a confirmation.
    Removal(String),
    /// The cluster is to lose the application, and its agent cannot be told.
    RemovalOutOfReach,
    /// The cluster would get a step or lose the application, and the run has ended without success: nothing of it moves.
    RunEnded,
    /// The step places the cluster, and its agent cannot be told of anything new.
    OutOfReach,
}

impl Hold {
    /// What it is about, as the condition that decides names it.
    pub fn about(&self) -> &'static str {
        match self {
            Hold::Overrides(_) => "overrides",
            Hold::Placement(_) => "placementRef",
            Hold::Removal(_) => "removal",
            Hold::RunEnded => "run",
            Hold::RemovalOutOfReach | Hold::OutOfReach => "reachable",
        }
    }

    /// What would have to be.
    fn asks(&self) -> &'static str {
        match self {
            Hold::Overrides(_) => "all of them can be applied",
            Hold::Placement(_) => "a Placement that can be used",
            Hold::Removal(_) => "within the delete budget, or confirmed",
            Hold::RunEnded => "one that goes on, or has succeeded",
            Hold::RemovalOutOfReach | Hold::OutOfReach => "its agent's heartbeat",
        }
    }

    /// What there is, one line each.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Hold::Overrides(errors) => errors.clone(),
            Hold::Placement(why) | Hold::Removal(why) => vec![why.clone()],
            Hold::RunEnded => {
                vec![
                    "its run has ended without success: what it placed stays as it is until it is started again"
                        .to_owned(),
                ]
            }
            Hold::RemovalOutOfReach => {
                vec!["its agent is out of reach: it removes the application once it answers again".to_owned()]
            }
            Hold::OutOfReach => {
                vec![
                    "its agent is out of reach: nothing new reaches it, and nothing is taken away".to_owned(),
                ]
            }
        }
    }
}

/// What is wrong with the overrides of a step, one line each; none if nothing is.
pub fn holding(decision: &DecisionSpec) -> Vec<String> {
    decision.override_errors.iter().map(error_line).collect()
}

/// What a cluster keeps of what is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What holds it.
    pub hold: Hold,
    /// Whether the cluster was placed before.
    pub placed: bool,
    /// The replicas that it keeps, over all workloads and rules.
    pub replicas: u64,
}

impl Kept {
    /// What a cluster keeps of a decision that stays in force.
    pub fn of(hold: Hold, decision: &DecisionSpec, cluster: &str) -> Kept {
        let mut shares = shares(&[Layer::of(true, decision)]);
        // The step may not have come to it yet.
        let own = shares
            .remove(cluster)
            .filter(|_| decision.given(cluster).is_some());
        let replicas = own.as_ref().map_or(0, Share::total);
        Kept {
            hold,
            placed: replicas > 0 || own.is_some() && decision.workloads.is_empty(),
            replicas,
        }
    }

    /// Says of a cluster that it is held: that decides then, whatever placement would answer.
    pub fn decides(&self, answer: &mut StepAnswer) {
        for condition in &mut answer.conditions {
            condition.decisive = false;
        }
        let lines = self.hold.lines();
        let mut found = lines.first().cloned().unwrap_or_default();
        if lines.len() > 1 {
            found.push_str(&format!("; … and {} more", lines.len() - 1));
        }
        let about = self.hold.about();
        // The heartbeat is asked for already.
        answer.conditions.retain(|condition| condition.about != about);
        answer.conditions.push(Condition {
            mark: Mark::Fails,
            decisive: true,
            about,
            rule: None,
            asks: self.hold.asks().to_owned(),
            found,
        });
    }
}
