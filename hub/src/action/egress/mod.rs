//! Where steps may send requests: to the world, not to this machine, its surroundings, or the hub's own API server.
//!
//! | file | what it is |
//! | --- | --- |
//! | `address` | the table of addresses that are refused |
//! | `net` | CIDR blocks |
//! | `rules` | `--egress-allow`, and the verdict over one host; pure |
//! | `network` | names to addresses and connections, behind a trait |
//! | `servers` | the addresses of the hub's API servers, from the API itself |
//!
//! Architecture Invariant: a name is resolved once for each connection, and the connection goes to an address that was
//! judged; redirects are judged like the first address.

mod address;
mod net;
mod network;
mod rules;
mod servers;

pub use net::Net;
pub use network::{Connection, Network, SystemNetwork};
pub use rules::{Allowed, AllowedError, Egress};
pub(super) use servers::WithServers;

use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
};

/// Why a host is not connected to.
#[derive(Debug, thiserror::Error)]
pub(super) enum EgressError {
    /// Every address of the host is refused.
    #[error(
        "{host} is refused: {address} is {why}; an administrator of the hub may allow it with --egress-allow"
    )]
    Refused {
        /// The host as written.
        host: String,
        /// An address of it.
        address: IpAddr,
        /// What is wrong with the address.
        why: &'static str,
    },
    /// The name does not resolve.
    #[error("the name {host} does not resolve: {source}")]
    Unresolved {
        /// The host as written.
        host: String,
        /// What the resolver says.
        source: io::Error,
    },
    /// Which addresses are the hub's own API servers' is not known, so nothing may be sent.
    #[error(
        "{host} may be one of the hub's API servers: the EndpointSlices of Service default/kubernetes cannot be listed \
         ({source}); allow the hub to list endpointslices in namespace default, or this host with --egress-allow"
    )]
    Servers {
        /// The host as written.
        host: String,
        /// What the API server says.
        source: io::Error,
    },
    /// The name has no address.
    #[error("the name {host} has no address")]
    NoAddress {
        /// The host as written.
        host: String,
    },
}

/// The addresses of a host that may be connected to, in the order of the resolver; never empty.
///
/// # Errors
/// [`EgressError`]: there is none.
pub(super) async fn permitted(
    egress: &Egress,
    network: &dyn Network,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, EgressError> {
    let addresses = resolve(network, host).await?;
    // Only asked for where the answer matters.
    let mut guarded = BTreeSet::new();
    if !egress.allows_host(host) {
        for own in egress.guarded() {
            guarded.extend(resolve(network, own).await?);
        }
        let servers = network.servers().await;
        guarded.extend(servers.map_err(|source| EgressError::Servers {
            host: host.to_owned(),
            source,
        })?);
    }
    let mut permitted = Vec::new();
    let mut refused = None;
    for address in addresses {
        match egress.judge(host, address, &guarded, || network.is_own(address)) {
            Ok(()) => permitted.push(SocketAddr::new(address, port)),
            Err(why) => refused = refused.or(Some((address, why))),
        }
    }
    match (permitted.is_empty(), refused) {
        (false, _) => Ok(permitted),
        (true, Some((address, why))) => Err(EgressError::Refused {
            host: host.to_owned(),
            address,
            why,
        }),
        (true, None) => Err(EgressError::NoAddress {
            host: host.to_owned(),
        }),
    }
}

async fn resolve(network: &dyn Network, host: &str) -> Result<Vec<IpAddr>, EgressError> {
    match host.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => {
            let resolved = network.resolve(host.to_owned()).await;
            resolved.map_err(|source| EgressError::Unresolved {
                host: host.to_owned(),
                source,
            })
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
