//! One member: an API server, its simulated workloads, and its agent.

use super::{
    Configure, FleetOptions, HarnessError, MemberSpec, WORKLOADS, backend::Backend, options::seed_of,
    worker::Worker,
};
use crate::{simulate::workloads, steady::Steady};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::PostParams};

/// The name of a member's node.
const NODE: &str = "node-1";

pub(super) struct Member {
    pub(super) spec: MemberSpec,
    pub(super) server: Backend,
    simulator: Worker,
    agent: Option<Worker>,
}

impl Member {
    /// Starts all of it, over the node that it has.
    ///
    /// # Errors
    /// The server refuses the node.
    pub(super) async fn start(
        spec: MemberSpec,
        options: &FleetOptions,
        hub: &Backend,
    ) -> Result<Member, HarnessError> {
        let seed = seed_of(options.seed, spec.name.as_str());
        let server = Backend::of(options, spec.name.as_str());
        if let Some(status) = options.nodes.get(spec.name.as_str()) {
            let mut node = Node::default();
            node.metadata.name = Some(NODE.to_owned());
            node.status = Some(status.clone());
            let nodes: Api<Node> = Api::all(server.client(options));
            let made = nodes.create(&PostParams::default(), &node).await;
            made.map_err(HarnessError::api(format!("creating the node of {}", spec.name)))?;
        }
        let client = server.client_of(options, WORKLOADS);
        let model = workloads::Model {
            seed,
            ..options.model.clone()
        };
        // Kubelets and controllers let time pass, whatever the clock of their machine says.
        let clock = Steady::of(options.clock_of(spec.name.as_str()));
        let simulator = Worker::start(|stop| async move {
            workloads::run(client, model, clock, stop).await;
            Ok::<_, std::convert::Infallible>(())
        });
        let mut member = Member {
            spec,
            server,
            simulator,
            agent: None,
        };
        member.start_agent(hub, options);
        Ok(member)
    }

    /// Starts the agent if it is not running.
    pub(super) fn start_agent(&mut self, hub: &Backend, options: &FleetOptions) {
        if self.agent.is_some() {
            return;
        }
        let who = self.spec.name.as_str();
        let hub = hub.client_of_agent(options, who, &self.spec.name.namespace());
        let hub = options.reach(who, hub);
        let member = self.server.client_of(options, who);
        let clock = options.clock_of(who);
        let mut config = roundhouse_agent::Config::new(self.spec.name.clone());
        config.apply_once = options.apply_once;
        if let Some(Configure(configure)) = &options.configure {
            configure(&mut config);
        }
        self.agent = Some(Worker::start(|stop| {
            roundhouse_agent::run(config, hub, member, clock, stop)
        }));
    }

    pub(super) async fn stop_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
    }

    /// Ends the agent where it is, as `kill -9` does.
    pub(super) async fn kill_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.kill().await;
        }
    }

    /// Whether an agent was started and has not been ended.
    pub(super) fn has_agent(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.end().is_none())
    }

    /// Why its agent has ended by itself, if it has.
    pub(super) fn end_of_agent(&self) -> Option<&str> {
        self.agent.as_ref()?.end()
    }

    pub(super) async fn stop(mut self) {
        self.stop_agent().await;
        self.simulator.stop().await;
    }
}
