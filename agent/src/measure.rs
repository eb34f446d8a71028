//! One pass over one bundle, for benches; an agent runs its workers itself.

use crate::agent::shared;
use crate::bundle::{Held, Presence};
use crate::config::Config;
use crate::install;
use crate::worker::Worker;
use kube::Client;
use kube::core::DynamicObject;
use roundhouse_api::clock::SharedClock;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A bundle's worker, whose passes begin when they are asked for.
pub struct Pass {
    worker: Worker,
}

impl Pass {
    /// The worker of `bundle`, a Bundle as the hub has it, without a ledger.
    ///
    /// # Errors
    /// The definition of the ledger cannot be installed in the member.
    pub async fn new(
        config: Config,
        (hub, hub_id): (&Client, &str),
        member: &Client,
        clock: &SharedClock,
        bundle: DynamicObject,
    ) -> Result<Pass, String> {
        let installed = install::definitions(member, config.call_timeout).await;
        installed.map_err(|error| error.message())?;
        let held = Held::of(bundle);
        let shared = Arc::new(shared(
            &config,
            hub,
            member,
            clock,
            hub_id,
            &CancellationToken::new(),
            Arc::default(),
        ));
        let name = held.name.clone();
        let inbox = shared.registry.tell(&name, Presence::Present(Arc::new(held)));
        let worker = Worker::new(shared, name, inbox.unwrap_or_default(), None);
        Ok(Pass { worker })
    }

    /// As [`Pass::run`], but every object is judged, as by an agent that has just been started.
    pub async fn run_judging_all(&mut self) -> bool {
        self.worker.forget_answers();
        self.run().await
    }

    /// One pass over the whole bundle, as at the slow resync; whether everything is applied and nothing is to be tried
    /// again.
    pub async fn run(&mut self) -> bool {
        self.worker.whole_pass().await
    }
}
