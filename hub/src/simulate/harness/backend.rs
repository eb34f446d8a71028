//! The API server of a hub or of a member: an embedded one, or one that stands already.

use super::{
    FleetOptions, HUB, HarnessError,
    door::Door,
    options::{SOMEBODY, seed_of},
    wire::{Ends, Wire, Wires},
};
use kube::Client;
use roundhouse_apiserver::{Identity, Server};
use std::{fmt, sync::Arc};

/// Access to an API server that stands already, such as a real kube-apiserver, as its administrator.
#[derive(Clone)]
pub struct Standing(pub Client);

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").finish_non_exhaustive()
    }
}

/// An API server of a fleet, by its name.
pub(super) struct Backend {
    name: String,
    kind: Kind,
}

enum Kind {
    Embedded {
        /// The one that runs, or that ran last.
        server: Server,
        door: Door,
        /// How often one was started.
        starts: u64,
    },
    Standing(Client),
}

impl Backend {
    /// The server called `name`: the one that stands, or an embedded one with its own seed.
    pub(super) fn of(options: &FleetOptions, name: &str) -> Backend {
        let kind = match options.standing.get(name) {
            Some(Standing(client)) => Kind::Standing(client.clone()),
            None => {
                let door = Door::new(name);
                let server = embedded(options, name, 0);
                door.open(&server, 0);
                Kind::Embedded {
                    server,
                    door,
                    starts: 1,
                }
            }
        };
        Backend {
            name: name.to_owned(),
            kind,
        }
    }

    /// Whether it is of this process.
    pub(super) fn is_embedded(&self) -> bool {
        matches!(self.kind, Kind::Embedded { .. })
    }

    /// Ends an embedded server as a machine does that loses its power: nothing that is under way is answered, watches
    /// break off. One that stands is left alone.
    pub(super) fn crash(&self) {
        if let Kind::Embedded { server, door, .. } = &self.kind {
            door.shut();
            server.close_watches();
        }
    }

    /// Starts an embedded server anew, with what its store has ([`FleetOptions::stores`]). One that runs is ended first.
    pub(super) fn restart(&mut self, options: &FleetOptions) {
        self.crash();
        if let Kind::Embedded { server, door, starts } = &mut self.kind {
            *server = embedded(options, &self.name, *starts);
            door.open(server, *starts);
            *starts += 1;
        }
    }

    /// Its administrator, whom no fault befalls.
    pub(super) fn client(&self, options: &FleetOptions) -> Client {
        match (&self.kind, &options.peoples_wires) {
            (Kind::Standing(client), None) => client.clone(),
            (_, wires) => self.over(wires.as_ref(), SOMEBODY, self.wire(&Identity::admin()), "default"),
        }
    }

    /// Its administrator under the name of somebody who reaches it over a wire.
    pub(super) fn client_of(&self, options: &FleetOptions, who: &str) -> Client {
        self.reached(options, who, &Identity::admin(), "default")
    }

    /// The agent of a cluster. A server that stands knows no such identity yet: there it is the administrator.
    pub(super) fn client_of_agent(&self, options: &FleetOptions, cluster: &str, namespace: &str) -> Client {
        self.reached(options, cluster, &Identity::agent(cluster), namespace)
    }

    fn reached(&self, options: &FleetOptions, who: &str, identity: &Identity, namespace: &str) -> Client {
        if let (Kind::Standing(client), None) = (&self.kind, &options.wires) {
            return client.clone();
        }
        let wire = self.wire(identity);
        let wire = match &options.hub_runtime {
            Some(runtime) if self.name == HUB => wire.worked_by(runtime.clone()),
            _ => wire,
        };
        self.over(options.wires.as_ref(), who, wire, namespace)
    }

    /// A wire to it. A server that stands knows one identity.
    fn wire(&self, identity: &Identity) -> Wire {
        match &self.kind {
            Kind::Embedded { door, .. } => door.wire(identity),
            Kind::Standing(client) => Wire::of(client.clone()),
        }
    }

    fn over(&self, wires: Option<&Wires>, who: &str, wire: Wire, namespace: &str) -> Client {
        let wire = match wires {
            Some(wires) => wires.0(&Ends::new(who, &self.name), wire),
            None => wire,
        };
        wire.client(namespace)
    }

    /// The embedded server.
    ///
    /// # Errors
    /// It is not embedded.
    pub(super) fn embedded(&self) -> Result<&Server, HarnessError> {
        match &self.kind {
            Kind::Embedded { server, .. } => Ok(server),
            Kind::Standing(_) => Err(HarnessError::NotEmbedded(self.name.clone())),
        }
    }
}

fn embedded(options: &FleetOptions, name: &str, start: u64) -> Server {
    let clock = options.clock_of(name);
    // Uids of one start are not those of another.
    let seed = seed_of(options.seed, &format!("{name}#{start}"));
    let builder = Server::builder()
        .seed(seed)
        .clock(Arc::new(move || clock.now()))
        .count_per_object(options.count_per_object)
        .limits(options.limits);
    let builder = match options.strict {
        true => builder.strict(),
        false => builder,
    };
    // Stored roles say what agents may do on their hub. What they may do in their cluster is for whoever installs them to say.
    let builder = match name == HUB {
        true => builder.rbac(),
        false => builder,
    };
    match &options.stores {
        Some(stores) => builder.store(stores.open(name)).build(),
        None => builder.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, ResourceExt, api::PostParams};
    use roundhouse_api::clock::SystemClock;
    use std::collections::BTreeSet;

    #[tokio::test]
    async fn no_uid_is_given_twice_however_often_a_server_is_started() {
        let mut given = BTreeSet::new();
        let options = FleetOptions::new(Vec::new(), Arc::new(SystemClock));
        for name in [HUB, "east-1"] {
            for start in 0..10 {
                let server = embedded(&options, name, start);
                let maps: Api<ConfigMap> =
                    Api::namespaced(Client::new(server.service(), "default"), "default");
                for n in 0..20 {
                    let mut map = ConfigMap::default();
                    map.metadata.name = Some(format!("m{n}"));
                    let made = maps.create(&PostParams::default(), &map).await.unwrap();
                    assert!(given.insert(made.uid()), "{name}, start {start}, object {n}");
                }
            }
        }
    }
}
