//! Names to addresses, and addresses to connections.

use futures::future::BoxFuture;
use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    pin::Pin,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// What is written to and read from.
pub trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// A connection.
pub type Connection = Pin<Box<dyn Stream>>;

/// What requests go over, and what judging an address has to know of it.
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

    /// A connection to an address that was judged: this machine's, if nothing else is said.
    ///
    /// # Errors
    /// Nobody answers there.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Connection>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // One small message each way: waiting for more to send gains nothing. Failing to say so costs milliseconds only.
            let _told = stream.set_nodelay(true);
            let connection: Connection = Box::pin(stream);
            Ok(connection)
        })
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
