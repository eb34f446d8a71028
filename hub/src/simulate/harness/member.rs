//! One member: an API server, its simulated workloads, and its agent.

use super::{FleetOptions, MemberSpec, options::seed_of, worker::Worker};
use crate::simulate::workloads;
use kube::Client;
use roundhouse_apiserver::{Identity, Server};

pub(super) struct Member {
    pub(super) spec: MemberSpec,
    pub(super) server: Server,
    simulator: Worker,
    agent: Option<Worker>,
}

impl Member {
    pub(super) fn start(spec: MemberSpec, options: &FleetOptions, hub: &Server) -> Member {
        let seed = seed_of(options.seed, spec.name.as_str());
        let server = server(options, seed);
        let client = client_of(&server);
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
    pub(super) fn start_agent(&mut self, hub: &Server, options: &FleetOptions) {
        if self.agent.is_some() {
            return;
        }
        let identity = Identity::agent(self.spec.name.as_str());
        let hub = Client::new(hub.service_as(Some(identity)), self.spec.name.namespace());
        let member = client_of(&self.server);
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

/// An API server in memory.
pub(super) fn server(options: &FleetOptions, seed: u64) -> Server {
    let clock = options.clock.clone();
    Server::builder()
        .seed(seed)
        .clock(std::sync::Arc::new(move || clock.now()))
        .count_per_object(options.count_per_object)
        .build()
}

pub(super) fn client_of(server: &Server) -> Client {
    Client::new(server.service(), "default")
}
