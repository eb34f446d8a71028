//! One member: an API server, its simulated workloads, and its agent.

use super::{FleetOptions, MemberSpec, backend::Backend, options::seed_of, worker::Worker};
use crate::simulate::workloads;

pub(super) struct Member {
    pub(super) spec: MemberSpec,
    pub(super) server: Backend,
    simulator: Worker,
    agent: Option<Worker>,
}

impl Member {
    pub(super) fn start(spec: MemberSpec, options: &FleetOptions, hub: &Backend) -> Member {
        let seed = seed_of(options.seed, spec.name.as_str());
        let server = Backend::of(options, spec.name.as_str());
        let client = server.client();
        let model = workloads::Model {
            seed,
            ..options.model.clone()
        };
        let clock = options.clock.clone();
        let simulator = Worker::start(|stop| workloads::run(client, model, clock, stop));
        let mut member = Member {
            spec,
            server,
            simulator,
            agent: None,
        };
        member.start_agent(hub, options);
        member
    }

    /// Starts the agent if it is not running.
    pub(super) fn start_agent(&mut self, hub: &Backend, options: &FleetOptions) {
        if self.agent.is_some() {
            return;
        }
        let hub = hub.client_of_agent(self.spec.name.as_str(), self.spec.name.namespace());
        let hub = options.reach(self.spec.name.as_str(), hub);
        let member = self.server.client();
        let clock = options.clock.clone();
        let mut config = roundhouse_agent::Config::new(self.spec.name.clone());
        config.apply_once = options.apply_once;
        let name = self.spec.name.clone();
        self.agent = Some(Worker::start(|stop| async move {
            if let Err(error) = roundhouse_agent::run(config, hub, member, clock, stop).await {
                tracing::error!(cluster = %name, %error, "an agent ended");
            }
        }));
    }

    pub(super) async fn stop_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
    }

    pub(super) async fn stop(mut self) {
        self.stop_agent().await;
        self.simulator.stop().await;
    }
}
