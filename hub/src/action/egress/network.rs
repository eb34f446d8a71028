//! Names to addresses.

use futures::future::BoxFuture;
use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

/// What judging an address has to know of the network.
pub trait Network: Send + Sync + 'static {
    /// The addresses of a name.
    ///
    /// # Errors
    /// It does not resolve.
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// Whether an address is one of this machine's own.
    fn is_own(&self, address: IpAddr) -> bool;

    /// The addresses of the hub's API servers, beside those of the name that the hub knows them by.
    ///
    /// # Errors
    /// They are not known.
    fn servers(&self) -> BoxFuture<'static, io::Result<BTreeSet<IpAddr>>> {
        Box::pin(std::future::ready(Ok(BTreeSet::new())))
    }
}

/// The network of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

impl Network for SystemNetwork {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    fn is_own(&self, address: IpAddr) -> bool {
        // Nothing is sent: the system says from which address it would be, and only to itself it is the same.
        let any: IpAddr = match address {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let from = || {
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect((address, 9))?;
            socket.local_addr()
        };
        from().is_ok_and(|from| from.ip() == address)
    }
}
