//! A hub and its members.

use super::{
    FleetOptions, HarnessError, MemberSpec, backend::Backend, member::Member, options::HUB, worker::Worker,
};
use crate::{
    application::WRITES_AT_ONCE_IN_PROCESS,
    leader::{Gate, Leading, Standing},
    run,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use roundhouse_api::cluster::{Cluster, ClusterSpec};
use roundhouse_apiserver::Server;
use serde_json::json;
use std::collections::BTreeMap;

/// What the Cluster of a member says: it is let in, and its agent is the first one (`Identity::agent`).
pub(crate) fn member_spec() -> ClusterSpec {
    ClusterSpec {
        accepted: true,
        serial: 1,
        ..ClusterSpec::default()
    }
}

/// The controllers of one hub.
struct Hub {
    worker: Worker,
    leading: Leading,
    gate: Gate,
}

/// A hub and its members, all in this process. Dropped, everything is told to stop.
pub struct Fleet {
    options: FleetOptions,
    server: Backend,
    /// The controllers of the hubs that run, by name.
    hubs: BTreeMap<String, Hub>,
    members: BTreeMap<String, Member>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Fleet {
    /// Starts a hub and its members: servers with the definitions of the resources, the hub's controllers, and for each
    /// member an accepted Cluster, an agent and a workload simulator. Returns when everything is started, not when it
    /// has joined.
    ///
    /// # Errors
    /// A server refuses a definition, a Cluster or a node.
    pub async fn start(options: FleetOptions) -> Result<Fleet, HarnessError> {
        let server = Backend::of(&options, HUB);
        run::install(&server.client(&options), &options.hub).await?;
        let specs = options.members.clone();
        let mut fleet = Fleet {
            options,
            server,
            hubs: BTreeMap::new(),
            members: BTreeMap::new(),
        };
        fleet.start_hub();
        for spec in specs {
            fleet.add_member(spec).await?;
        }
        Ok(fleet)
    }

    /// Adds a member: an accepted Cluster on the hub, a server, an agent, a simulator.
    ///
    /// # Errors
    /// A server refuses the Cluster, the node or a definition.
    pub async fn add_member(&mut self, spec: MemberSpec) -> Result<(), HarnessError> {
        let name = spec.name.to_string();
        let mut cluster = Cluster::new(&name, member_spec());
        cluster.metadata.labels = Some(spec.labels.clone());
        let clusters: Api<Cluster> = Api::all(self.hub_client());
        match clusters.create(&PostParams::default(), &cluster).await {
            Ok(_) => {}
            // It was created before, and the answer was lost.
            Err(kube::Error::Api(status))
                if status.is_already_exists() && !self.members.contains_key(&name) => {}
            Err(error) => return Err(HarnessError::api(format!("creating Cluster {name}"))(error)),
        }
        // As the hub notes it when it approves the certificate of an agent: here none asks for one.
        let since = Time(self.options.clock_of(HUB).now());
        let identity = json!({"serial": cluster.spec.serial, "since": since});
        let status = Patch::Merge(json!({"status": {"identity": identity}}));
        let noted = clusters
            .patch_status(&name, &PatchParams::default(), &status)
            .await;
        noted.map_err(HarnessError::api(format!("noting who is the agent of {name}")))?;
        let member = Member::start(spec, &self.options, &self.server).await?;
        self.members.insert(name, member);
        Ok(())
    }

    /// The names of the members, sorted.
    pub fn members(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    /// What the fleet was made of.
    pub fn options(&self) -> &FleetOptions {
        &self.options
    }

    /// The hub's API server: its counters, and services for any identity.
    ///
    /// # Errors
    /// It is not embedded.
    pub fn hub_server(&self) -> Result<&Server, HarnessError> {
        self.server.embedded()
    }

    /// The hub's API as its administrator.
    pub fn hub_client(&self) -> Client {
        self.server.client(&self.options)
    }

    /// A member's API server.
    ///
    /// # Errors
    /// There is no such member, or its server is not embedded.
    pub fn member_server(&self, name: &str) -> Result<&Server, HarnessError> {
        self.member(name)?.server.embedded()
    }

    /// A member's API as its administrator.
    ///
    /// # Errors
    /// There is no such member.
    pub fn member_client(&self, name: &str) -> Result<Client, HarnessError> {
        Ok(self.member(name)?.server.client(&self.options))
    }

    fn member(&self, name: &str) -> Result<&Member, HarnessError> {
        self.members
            .get(name)
            .ok_or_else(|| HarnessError::NoSuchMember(name.to_owned()))
    }

    /// Stops one agent; its member goes on.
    ///
    /// # Errors
    /// There is no such member.
    pub async fn stop_agent(&mut self, name: &str) -> Result<(), HarnessError> {
        match self.members.get_mut(name) {
            Some(member) => {
                member.stop_agent().await;
                Ok(())
            }
            None => Err(HarnessError::NoSuchMember(name.to_owned())),
        }
    }

    /// Ends one agent where it is, as `kill -9` does; its member, and its ledgers there, stay.
    ///
    /// # Errors
    /// There is no such member.
    pub async fn kill_agent(&mut self, name: &str) -> Result<(), HarnessError> {
        match self.members.get_mut(name) {
            Some(member) => {
                member.kill_agent().await;
                Ok(())
            }
            None => Err(HarnessError::NoSuchMember(name.to_owned())),
        }
    }

    /// Whether the agent of a member runs.
    pub fn runs_agent(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(Member::has_agent)
    }

    /// Ends an embedded API server, the hub's ([`HUB`]) or a member's, as a machine that loses its power: what is under way
    /// is not answered, watches break off, and requests are refused until [`Fleet::restart_server`]. Whoever asks it goes on;
    /// a hub is one process with its server and has to be killed with it ([`Fleet::kill_hub_called`]).
    ///
    /// # Errors
    /// There is no such server.
    pub fn crash_server(&self, name: &str) -> Result<(), HarnessError> {
        match name {
            HUB => self.server.crash(),
            name => self.member(name)?.server.crash(),
        }
        Ok(())
    }

    /// Starts an embedded API server anew with what [`FleetOptions::stores`] finds.
    ///
    /// # Errors
    /// There is no such server.
    pub fn restart_server(&mut self, name: &str) -> Result<(), HarnessError> {
        let options = &self.options;
        match (name, self.members.get_mut(name)) {
            (HUB, _) => self.server.restart(options),
            (_, Some(member)) => member.server.restart(options),
            (_, None) => return Err(HarnessError::NoSuchMember(name.to_owned())),
        }
        Ok(())
    }

    /// Starts one agent again; a running one is left alone.
    ///
    /// # Errors
    /// There is no such member.
    pub fn start_agent(&mut self, name: &str) -> Result<(), HarnessError> {
        match self.members.get_mut(name) {
            Some(member) => {
                member.start_agent(&self.server, &self.options);
                Ok(())
            }
            None => Err(HarnessError::NoSuchMember(name.to_owned())),
        }
    }

    /// Stops the hub's controllers; its API server goes on.
    pub async fn stop_hub(&mut self) {
        self.stop_hub_called(HUB).await;
    }

    /// Starts the hub's controllers again, with nothing remembered; running ones are left alone.
    pub fn start_hub(&mut self) {
        self.start_hub_called(HUB);
    }

    /// Starts the controllers of another hub over the same API server, with this name as its identity. It reaches the server
    /// as `name` ([`FleetOptions::through`]). One that runs is left alone.
    pub fn start_hub_called(&mut self, name: &str) {
        if self.hubs.contains_key(name) {
            return;
        }
        // Clients have tasks of their own.
        let _runtime = self
            .options
            .hub_runtime
            .as_ref()
            .map(tokio::runtime::Handle::enter);
        let client = self.server.client_of(&self.options, name);
        let client = self.options.reach(name, client);
        let mut options = self.options.hub.clone();
        options.election.identity = name.to_owned();
        if self.server.is_embedded() {
            options.application.writes_at_once = WRITES_AT_ONCE_IN_PROCESS;
        }
        (options.leading, options.gate) = (Leading::default(), Gate::default());
        let (leading, gate) = (options.leading.clone(), options.gate.clone());
        let clock = self.options.clock_of(name);
        let worker = Worker::start(|stop| run::run(client, options, clock, stop));
        let hub = Hub {
            worker,
            leading,
            gate,
        };
        self.hubs.insert(name.to_owned(), hub);
    }

    /// Tells a hub to end, and waits until it has.
    pub async fn stop_hub_called(&mut self, name: &str) {
        if let Some(hub) = self.hubs.remove(name) {
            hub.worker.stop().await;
        }
    }

    /// Ends a hub where it is, as `kill -9` does: what it had sent goes through, and it says goodbye to nobody.
    pub async fn kill_hub_called(&mut self, name: &str) {
        if let Some(hub) = self.hubs.remove(name) {
            hub.worker.kill().await;
        }
    }

    /// Holds a hub still, as a process that is stopped by a signal or a machine that swaps, or lets it go on. Passes that are
    /// under way go on to their next request: hold its wires, too.
    pub fn pause_hub_called(&self, name: &str, is_on: bool) {
        if let Some(hub) = self.hubs.get(name) {
            hub.worker.pause(is_on);
        }
    }

    /// Why a hub has ended by itself, if it has.
    pub fn end_of_hub(&self, name: &str) -> Option<&str> {
        self.hubs.get(name)?.worker.end()
    }

    /// Why the agent of a member has ended by itself, if it has.
    pub fn end_of_agent(&self, name: &str) -> Option<&str> {
        self.members.get(name)?.end_of_agent()
    }

    /// The names of the hubs that were started and not ended, sorted.
    pub fn hubs(&self) -> Vec<String> {
        self.hubs.keys().cloned().collect()
    }

    /// Where a hub stands; `None` if it does not run.
    pub fn standing(&self, name: &str) -> Option<Standing> {
        self.hubs.get(name).map(|hub| hub.leading.standing())
    }

    /// How many writes a hub that runs has not sent because it did not lead.
    pub fn withheld(&self, name: &str) -> Option<u64> {
        self.hubs.get(name).map(|hub| hub.gate.refused())
    }

    /// Stops everything and waits for it.
    pub async fn stop(mut self) {
        for member in std::mem::take(&mut self.members).into_values() {
            member.stop().await;
        }
        for hub in std::mem::take(&mut self.hubs).into_values() {
            hub.worker.stop().await;
        }
        if let Ok(server) = self.hub_server() {
            server.close_watches();
        }
    }
}
