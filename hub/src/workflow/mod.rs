//! `advance()` and the steps: a pure engine.
//!
//! [`advance()`] takes what is wanted ([`Spec`]), where the run stands ([`Status`]), what the clusters showed
//! ([`Evidence`]) and the time, and returns the new status and what is to be done ([`Effect`]). Everything the engine
//! remembers is in the status, so that a restart of the hub changes nothing.
//!
//! Architecture Invariant: a step passes only on evidence that was gathered after it was started, and that evidence
//! is the clusters' own for the content that the step dispatched (see `dispatch::evidence`).

mod acts;
mod ahead;
pub mod backoff;
mod commands;
mod deploy;
mod engine;
mod evidence;
mod expressions;
mod message;
mod objects;
mod outcome;
mod patches;
mod reach;
mod restart;
mod run;
mod settle;
mod spec;
mod start;
mod taking;
#[cfg(test)]
mod tests;
mod times;
mod values;
mod waits;

pub use ahead::{ObjectAhead, objects_ahead};
pub use commands::Command;
pub use deploy::until_holds;
pub use engine::advance;
pub use evidence::{
    ActionEvidence, ClusterEvidence, ClusterState, Evidence, HeldObject, OutputEvidence, StepEvidence,
};
pub use message::waiting;
pub use objects::{StepObject, objects};
pub use outcome::TERMINATED_BY_FAILURE;
pub use patches::{ResolvedChange, ResolvedPatch, patches, patches_ahead};
pub use reach::{Reach, reach, succeeded};
pub use spec::{Action, Deploy, Spec, Step};
pub use values::MAX_VALUES;

use roundhouse_api::application::{ActionProperties, ApplicationPhase, WorkflowStatus};
use std::time::Duration;

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
    /// Run this once, and look again when it is over. Asked for until its outcome is among the evidence.
    Act {
        /// Step name.
        step: String,
        /// The number of the execution, from 1.
        attempt: u32,
        /// What is to be done.
        action: ActionProperties,
    },
    /// Make the application what it was at this revision: a new run delivers it.
    RollBack {
        /// Step name.
        step: String,
        /// The number of the try, from 1.
        attempt: u32,
        /// Name of the ApplicationRevision.
        revision: String,
    },
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
