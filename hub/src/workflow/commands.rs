//! The seed's controls: what a user says by changing `status.workflow` or `status.phase`.

use super::{Spec, Status};
use roundhouse_api::application::{ApplicationPhase, StepPhase};

/// What the stored status asks for. The engine never writes a status that reads as a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// No run of this spec is there: the spec changed, or `workflow` was emptied, or a finished run was set back to
    /// phase `runningWorkflow`.
    Start,
    /// `restartFrom` names a step.
    RestartFrom(String),
    /// `terminated: true` on a run that goes on.
    Terminate,
    /// `suspend: true` on a run that goes on, or `paused: true`: also while it is paused.
    Pause,
    /// `suspend: false` on a run that is suspended: a pause is over, or if there is none, its steps have their approval.
    Resume,
    /// Nothing: go on.
    Continue,
    /// The run ended and nobody asked for another.
    Rest,
}

impl Command {
    /// Reads the command out of a status.
    pub fn read(spec: &Spec, status: &Status) -> Command {
        let Some(workflow) = &status.workflow else {
            return Command::Start;
        };
        if !spec.is_of(workflow) {
            return Command::Start;
        }
        // A name that no step has is said, see `Run::say_unknown`, and asks for nothing.
        if let Some(step) = workflow.restart_from.as_ref().filter(|step| spec.has(step)) {
            return Command::RestartFrom(step.clone());
        }
        if workflow.finished {
            return match status.phase {
                Some(ApplicationPhase::RunningWorkflow) => Command::Start,
                _ => Command::Rest,
            };
        }
        if workflow.terminated {
            return Command::Terminate;
        }
        match (workflow.suspend, workflow.status == Some(StepPhase::Suspending)) {
            (true, false) => Command::Pause,
            (false, true) => Command::Resume,
            _ if workflow.paused => Command::Pause,
            _ => Command::Continue,
        }
    }
}
