//! The API server of a hub or of a member: an embedded one, or one that stands already.

use super::{
    FleetOptions, HarnessError,
    options::{HUB, seed_of},
};
use kube::Client;
use roundhouse_apiserver::{Identity, Server};
use std::fmt;

/// Access to an API server that stands already, such as a real kube-apiserver, as its administrator.
#[derive(Clone)]
pub struct Standing(pub Client);

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing").finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub(super) enum Backend {
    Embedded(Server),
    Standing(Client),
}

impl Backend {
    /// The server called `name`: the one that stands, or an embedded one with its own seed.
    pub(super) fn of(options: &FleetOptions, name: &str) -> Backend {
        match options.standing.get(name) {
            Some(Standing(client)) => Backend::Standing(client.clone()),
            None => {
                let clock = options.clock.clone();
                let mut server = Server::builder();
                if let Some(store) = options.hub_store.as_ref().filter(|_| name == HUB) {
                    server = server.store(store.0.clone());
                }
                let server = server
                    .seed(seed_of(options.seed, name))
                    .clock(std::sync::Arc::new(move || clock.now()))
                    .count_per_object(options.count_per_object)
                    .limits(options.limits)
                    .build();
                Backend::Embedded(server)
            }
        }
    }

    /// Its administrator.
    pub(super) fn client(&self) -> Client {
        match self {
            Backend::Embedded(server) => Client::new(server.service(), "default"),
            Backend::Standing(client) => client.clone(),
        }
    }

    /// The agent of a cluster. A server that stands knows no such identity yet: there it is the administrator.
    pub(super) fn client_of_agent(&self, cluster: &str, namespace: String) -> Client {
        match self {
            Backend::Embedded(server) => {
                Client::new(server.service_as(Some(Identity::agent(cluster))), namespace)
            }
            Backend::Standing(client) => client.clone(),
        }
    }

    /// The embedded server.
    ///
    /// # Errors
    /// It is not embedded.
    pub(super) fn embedded(&self, name: &str) -> Result<&Server, HarnessError> {
        match self {
            Backend::Embedded(server) => Ok(server),
            Backend::Standing(_) => Err(HarnessError::NotEmbedded(name.to_owned())),
        }
    }
}
