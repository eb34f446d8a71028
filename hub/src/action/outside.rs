//! Requests and messages that somebody else answers than the network: a simulation has none.

use super::{Executor, Job, Outcome, Runner};
use futures::{future::BoxFuture, stream::BoxStream};
use roundhouse_api::application::ActionProperties;
use serde_json::json;
use std::{fmt, sync::Arc};

/// Who answers.
#[derive(Clone)]
pub struct Outside(pub Arc<dyn Executor>);

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}

impl Outside {
    /// Everybody answers everything at once with 200 and an empty object.
    pub fn agreeing() -> Outside {
        Outside(Arc::new(Agreeing))
    }
}

struct Agreeing;

impl Executor for Agreeing {
    fn run(&self, _: Job) -> BoxFuture<'static, Outcome> {
        let output = json!({"statusCode": 200, "responseCode": 200, "headers": {}, "body": {}});
        Box::pin(std::future::ready(Outcome::Done { output }))
    }
}

/// The hub's runner, of which somebody else does what leaves the hub.
pub(crate) struct Answered {
    pub(crate) runner: Runner,
    /// The network, if nobody.
    pub(crate) outside: Option<Outside>,
}

impl Executor for Answered {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        match (&self.outside, &job.action) {
            (
                Some(Outside(answers)),
                ActionProperties::Request(_)
                | ActionProperties::Webhook(_)
                | ActionProperties::Notification(_),
            ) => answers.run(job),
            _ => self.runner.run(job),
        }
    }

    fn changes(&self, job: &Job) -> BoxStream<'static, ()> {
        self.runner.changes(job)
    }
}
