//! `advance()` and the steps: a pure engine.
//!
//! [`advance()`] takes what is wanted ([`Spec`]), where the run stands ([`Status`]), what the clusters showed
//! ([`Evidence`]) and the time, and returns the new status and what is to be done ([`Effect`]). Everything the engine
//! remembers is in the status, so that a restart of the hub changes nothing.
//!
//! Architecture Invariant: a step passes only on evidence that was gathered after it was started, and that evidence
//! is the clusters' own for the content that the step dispatched (see `dispatch::evidence`).

pub mod backoff;
mod commands;
mod engine;
mod evidence;
mod message;
mod reach;
#[cfg(test)]
mod tests;

pub use commands::Command;
pub use engine::{TERMINATED_BY_FAILURE, advance};
pub use evidence::{ClusterEvidence, ClusterState, Evidence, StepEvidence};
pub use message::waiting;
pub use reach::{Reach, reach};

use roundhouse_api::application::{
    ApplicationPhase, StepKind, SuspendProperties, ValidApplication, WaitFor, WorkflowStatus,
};
use std::time::Duration;

/// What a run is to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// The ApplicationRevision that is delivered.
    pub revision: String,
    /// `metadata.generation` of the Application.
    pub generation: i64,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Limits of waiting and retrying.
    pub limits: Limits,
}

/// A step as the engine sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name.
    pub name: String,
    /// Type as written.
    pub type_: String,
    /// What it does.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Places and dispatches, then waits for the clusters.
    Deploy {
        /// What it waits for.
        wait: WaitFor,
    },
    /// Waits until a person resumes.
    Suspend {
        /// Shown while it waits.
        message: Option<String>,
    },
}

/// Limits of waiting and retrying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest wait between two looks (KubeVela's `--max-workflow-wait-backoff-time`).
    pub max_wait: Duration,
    /// How often a failing step is retried (KubeVela's `--max-workflow-step-error-retry-times`).
    pub max_retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_wait: backoff::MAX_WAIT,
            max_retries: 10,
        }
    }
}

/// The part of an application's status that the engine reads and writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// `status.phase`.
    pub phase: Option<ApplicationPhase>,
    /// `status.workflow`.
    pub workflow: Option<WorkflowStatus>,
}

/// What is to be done after the new status is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Bring the Decision and the Bundles of this step up to date, and keep those of earlier steps as they are.
    Dispatch {
        /// Step name.
        step: String,
    },
    /// Keep what the reached steps dispatched as it is: only a bundle that vanished is made again.
    Keep,
    /// The run has succeeded: its placing steps follow the fleet, in order.
    Refresh,
    /// The run has succeeded: what it does not place may go, within the delete budget.
    CollectGarbage,
    /// Look again after this time, if nothing else happens before.
    Wake {
        /// How long to wait.
        after: Duration,
    },
}

impl Spec {
    /// The run of a valid application.
    pub fn new(revision: &str, generation: i64, application: &ValidApplication, limits: Limits) -> Spec {
        let steps = application.steps.iter().map(|step| Step {
            name: step.name.clone(),
            type_: step.type_.clone(),
            action: match &step.kind {
                StepKind::Deploy(deploy) => Action::Deploy { wait: deploy.wait },
                StepKind::Suspend(SuspendProperties { message }) => Action::Suspend {
                    message: message.clone(),
                },
            },
        });
        Spec {
            revision: revision.to_owned(),
            generation,
            steps: steps.collect(),
            limits,
        }
    }

    /// Whether a run with this status is a run of this spec.
    pub fn is_of(&self, workflow: &WorkflowStatus) -> bool {
        workflow.generation == Some(self.generation)
            && workflow.app_revision.as_deref() == Some(self.revision.as_str())
            && workflow.steps.len() == self.steps.len()
            && workflow
                .steps
                .iter()
                .zip(&self.steps)
                .all(|(a, b)| a.name == b.name)
    }
}
