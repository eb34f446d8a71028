//! The hub's executor: requests, messages, and objects on the hub.

use super::{
    Egress, Executor, Job, Network, Outcome, SystemNetwork, Trust, egress::WithServers, notification, object,
    request, transport::Transport,
};
use futures::{
    future::BoxFuture,
    stream::{self, BoxStream},
};
use kube::Client;
use roundhouse_api::{application::ActionProperties, clock::SharedClock};
use std::{fmt, sync::Arc, time::Duration};

/// How long the hub's API server may take for one step. Requests have their own timeout within it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Does what steps ask for.
#[derive(Clone)]
pub struct Runner(Arc<Means>);

/// What actions are done with.
pub(super) struct Means {
    /// The hub's API.
    pub(super) client: Client,
    pub(super) transport: Transport,
    pub(super) clock: SharedClock,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

impl Runner {
    /// A runner on the hub's API, sending where `egress` lets it.
    pub fn new(client: Client, egress: Egress, clock: SharedClock) -> Runner {
        Runner::over(client, egress, clock, Arc::new(SystemNetwork), Trust::default())
    }

    /// The same over another network, with other root certificates.
    pub fn over(
        client: Client,
        egress: Egress,
        clock: SharedClock,
        network: Arc<dyn Network>,
        trust: Trust,
    ) -> Runner {
        let network = Arc::new(WithServers::new(network, client.clone()));
        let transport = Transport::new(egress, network, trust);
        Runner(Arc::new(Means {
            client,
            transport,
            clock,
        }))
    }
}

impl Executor for Runner {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        let means = self.0.clone();
        Box::pin(async move {
            let done = tokio::time::timeout(TIMEOUT, act(&means, &job)).await;
            done.unwrap_or_else(|_| {
                Outcome::failed(format!(
                    "the hub's API server did not answer within {} s",
                    TIMEOUT.as_secs()
                ))
            })
        })
    }

    fn changes(&self, job: &Job) -> BoxStream<'static, ()> {
        match &job.action {
            ActionProperties::LookAt(of) => object::changes(self.0.clone(), job.clone(), of.clone()),
            _ => Box::pin(stream::empty()),
        }
    }
}

async fn act(means: &Means, job: &Job) -> Outcome {
    match &job.action {
        ActionProperties::Request(of) | ActionProperties::Webhook(of) => request::run(means, job, of).await,
        ActionProperties::Notification(of) => notification::run(means, job, of).await,
        ActionProperties::ApplyObject(of) => object::apply(means, job, of).await,
        ActionProperties::ReadObject(of) => object::read(means, job, of).await,
        ActionProperties::DeleteObject(of) => object::delete(means, job, of).await,
        ActionProperties::LookAt(of) => object::look_at(means, job, of).await,
    }
}
