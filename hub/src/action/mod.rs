//! Steps that act outside of the fleet: what they are asked to do, and what came of it.
//!
//! The engine decides that a job runs and what its outcome means (`workflow`); an [`Executor`] does the work, beside the
//! passes over applications.
//!
//! | module | what it does |
//! | --- | --- |
//! | `jobs` | which jobs run, and what came of them |
//! | `watches` | which objects have changed that steps wait for |
//! | `outside` | who answers requests in place of the network |
//! | `runner` | the hub's executor |
//! | `request`, `notification`, `object` | what each kind of step does |
//! | `source` | Secrets and the Application, as actions need them |
//! | `egress` | where requests may go |
//! | `transport` | one request and its answer, within these rules |

mod egress;
mod jobs;
mod notification;
mod object;
mod outside;
mod request;
mod runner;
mod source;
mod transport;
mod watches;

#[cfg(test)]
mod tests;

pub use egress::{Allowed, AllowedError, Connection, Egress, Net, Network, SystemNetwork};
pub(crate) use jobs::{Came, Execution, Jobs};
pub(crate) use outside::Answered;
pub use outside::Outside;
pub use runner::Runner;
pub use transport::Trust;
pub(crate) use watches::Watches;

use futures::{future::BoxFuture, stream::BoxStream};
use roundhouse_api::{application::ActionProperties, bundle::ApplicationRef};
use serde_json::Value;

/// One execution of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The application.
    pub application: ApplicationRef,
    /// The revision that is delivered.
    pub revision: String,
    /// The run in which the step was started.
    pub run: String,
    /// The step.
    pub step: String,
    /// The number of the execution in the run, from 1.
    pub attempt: u32,
    /// What is to be done.
    pub action: ActionProperties,
    /// What of the output of the executions before the step has kept.
    pub before: Option<Value>,
}

impl Job {
    /// The same for every execution of the step in this run, those of a hub that was restarted included: one whose answer
    /// was lost is not another one to who looks at it.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}/{}", self.application.uid, self.run, self.step)
    }
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is done.
    Done {
        /// What other steps may name of it: of a request `{statusCode, responseCode, headers, body}`, of an object the
        /// object.
        output: Value,
    },
    /// It is not done yet: the step waits, and another execution looks again.
    Waiting {
        /// For people.
        message: String,
    },
    /// It failed: the step is tried again, up to the limit.
    Failed {
        /// For people.
        message: String,
        /// What there is all the same, such as the response with an unexpected status.
        output: Option<Value>,
    },
}

impl Outcome {
    /// A failure without an output.
    pub(crate) fn failed(message: impl Into<String>) -> Outcome {
        Outcome::Failed {
            message: message.into(),
            output: None,
        }
    }
}

/// Does what jobs ask for.
pub trait Executor: Send + Sync + 'static {
    /// Runs one job to its end. It must not take forever: a job is given up with its step, not before.
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome>;

    /// Tells when what a job looks at may have changed, as far and as long as that can be told.
    fn changes(&self, _job: &Job) -> BoxStream<'static, ()> {
        Box::pin(futures::stream::empty())
    }
}

/// A hub without executors: every job fails, and says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoExecutor;

impl Executor for NoExecutor {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        let message = format!("this hub cannot run steps of type {}", job.action.step_type());
        Box::pin(std::future::ready(Outcome::failed(message)))
    }
}
