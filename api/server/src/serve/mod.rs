//! Serving over TLS.

mod link;
mod source;

pub(crate) use link::{Link, Sending};
pub(crate) use source::place;

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{Instant, interval_at, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    link::{Counted, counted},
    source::{Limits, Source, Sources},
};
use crate::{
    Server,
    audit::refused_connection,
    auth::{Caller, presented},
};

/// Requests at a time on one connection.
const MAX_STREAMS: u32 = 1_000;
/// Time between pings on a quiet HTTP/2 connection.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time for the head of a request on an HTTP/1 connection, and between two of them: longer than clients keep a connection that
/// they do not use, and than a heartbeat takes to come again. Of strangers less is asked by the time they have in all.
const HEAD_EVERY: Duration = Duration::from_secs(90);
/// Most headers of a request on an HTTP/1 connection.
const MAX_HEADERS: usize = 64;
/// Bytes of one stream that HTTP/2 takes before they are sent; an answer that is made whole is taken whole.
const MAX_SEND: usize = 64 << 10;
/// Largest head of a request, in bytes. On an HTTP/1 connection the last read may bring as much again.
const MAX_HEAD: u32 = 64 << 10;

/// Bounds and times of [`serve_with`].
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// Connections at a time from one address (of IPv6: from one /64); more are closed at once. An agent takes four or five, each
    /// some 40 KiB of the server, and a fleet may be behind one address.
    pub connections_per_source: usize,
    /// Of these, such as have shown neither a certificate nor a token that is good; for one more, the first of them is closed.
    /// The same holds from everywhere for half of all connections. A whole fleet behind one address comes back at once after an
    /// outage, so this is no less than a fleet.
    pub strangers_per_source: usize,
    /// Connections at a time of one user, wherever from; of administrators there may be any number.
    pub connections_per_user: usize,
    /// Time for a TLS handshake, and for the first request of somebody who is known. A connection that has asked for nothing but health by then is told to go.
    pub patience: Duration,
    /// Time in which whoever asked for something must have read some of it; one answer has fifteen times as much.
    pub stall: Duration,
    /// Time between the readiness turning false and the listener closing, for load balancers to notice (Kubernetes:
    /// `--shutdown-delay-duration`).
    pub delay: Duration,
    /// Time for open requests to finish after the listener was closed.
    pub drain: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            connections: 16_384,
            connections_per_source: 8_192,
            strangers_per_source: 2_048,
            connections_per_user: 512,
            patience: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            delay: Duration::ZERO,
            drain: Duration::from_secs(5),
        }
    }
}

/// Serves until `shutdown` is cancelled, then ends watches and lets open requests finish.
///
/// Clients are who their certificate says, or the token of a service account; strangers get the health paths only.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    tls: Arc<ServerConfig>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_with(listener, server, tls, shutdown, ServeOptions::default()).await
}

/// As [`serve`], with other bounds and times.
///
/// When `shutdown` is cancelled `/readyz` turns 500 at once; after [`ServeOptions::delay`] no connection is accepted any
/// longer, watches get their end, and each connection is told that it takes no new requests (HTTP/2: GOAWAY); what is
/// still open after [`ServeOptions::drain`] is cut.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve_with(
    listener: TcpListener,
    server: Server,
    tls: Arc<ServerConfig>,
    shutdown: CancellationToken,
    options: ServeOptions,
) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(tls);
    let (connections, draining) = (TaskTracker::new(), CancellationToken::new());
    let slots = Arc::new(Semaphore::new(options.connections));
    let sources = Sources::default();
    let limits = Limits {
        each: options.connections_per_source,
        strangers_each: options.strangers_per_source,
        strangers: options.connections / 2,
        each_user: options.connections_per_user,
    };
    let times = Times {
        patience: options.patience,
        stall: options.stall,
    };
    // Cut when this function ends, however it ends.
    let cut = CancellationToken::new();
    let _cut = cut.clone().drop_guard();
    let closing = async {
        shutdown.cancelled().await;
        server.begin_shutdown();
        sleep(options.delay).await;
    };
    tokio::pin!(closing);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut closing => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, slot, address)) = accepted else {
            continue;
        };
        let Some(source) = sources.enter(address, limits) else {
            tracing::debug!(%address, "one connection too many from this address");
            continue;
        };
        let (acceptor, server, cut) = (acceptor.clone(), server.clone(), cut.clone());
        let open = Open {
            link: Link::new(address),
            source,
            times,
            draining: draining.clone(),
        };
        connections.spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = open.serve(stream, acceptor, server) => {}
            }
            drop(slot);
        });
    }
    drop(listener);
    server.close_watches();
    let drain = options.drain;
    draining.cancel();
    connections.close();
    if timeout(drain, connections.wait()).await.is_err() {
        tracing::warn!("connections were still open {drain:?} after the shutdown began; they are cut");
    }
    Ok(())
}

type Slot = tokio::sync::OwnedSemaphorePermit;

/// The next connection; `None` if accepting failed for a reason that passes, such as a lack of file descriptors.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, Slot, IpAddr)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, source)) => Some((stream, slot, source.ip())),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// Times of one connection, as of [`ServeOptions`].
#[derive(Debug, Clone, Copy)]
struct Times {
    patience: Duration,
    stall: Duration,
}

/// A connection that was accepted.
struct Open {
    link: Arc<Link>,
    source: Source,
    times: Times,
    /// Cancelled when the server stops.
    draining: CancellationToken,
}

impl Open {
    async fn serve(mut self, stream: TcpStream, acceptor: TlsAcceptor, server: Server) {
        let Times { patience, stall } = self.times;
        let link = &self.link.clone();
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
        let accepted = tokio::select! {
            accepted = timeout(patience, acceptor.accept(stream)) => accepted,
            () = self.source.displaced() => return,
        };
        let stream = match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "TLS handshake failed");
                let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
                if let Some(error @ rustls::Error::InvalidCertificate(_)) = inner {
                    refused_connection(&server.core, link.address, &error.to_string());
                }
                return;
            }
            Err(_) => return tracing::debug!("TLS handshake took longer than {patience:?}"),
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let caller = Caller::outside(certificate.and_then(|c| presented(c)), link.clone());
        let one_too_many = || tracing::warn!(address = %link.address, "one connection too many of this user");
        let was_good = caller.has_good_certificate(&server.core);
        if was_good && !self.source.is_known(caller.identity.as_ref().and_then(counted)) {
            return one_too_many();
        }
        let presented = caller.clone();
        let service = TowerToHyperService::new(server.service_for(caller));
        let builder = protocols(patience);
        let stream = Counted {
            stream,
            link: link.clone(),
        };
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let (known, deadline, stalled) = (link.known(), sleep(patience), link.stalled(stall));
        let mut tick = interval_at(server.core.moments.next(patience), patience);
        tokio::pin!(connection, known, deadline, stalled);
        let (mut stranger, mut leaving) = (true, false);
        loop {
            tokio::select! {
                ended = &mut connection => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended with an error");
                    }
                    return;
                }
                () = self.draining.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = &mut known, if stranger => {
                    stranger = false;
                    if !self.source.is_known(link.user()) {
                        return one_too_many();
                    }
                }
                // Requests are refused at once, and watches end that are read; the rest goes here.
                _ = tick.tick(), if was_good => if !presented.has_good_certificate(&server.core) {
                    if leaving {
                        return tracing::debug!(address = %link.address, "the certificate of a connection is not taken any longer");
                    }
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                },
                // Until somebody is known nothing else bounds how long a connection may be kept.
                () = &mut deadline, if stranger => {
                    if leaving {
                        return tracing::debug!("nobody who is known asked for anything within {patience:?}");
                    }
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                    deadline.as_mut().reset(Instant::now() + patience);
                }
                () = self.source.displaced(), if stranger => return,
                () = &mut stalled => {
                    return tracing::debug!(address = %link.address, "what was asked for is not read");
                }
            }
        }
    }
}

fn protocols(patience: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD as usize)
        .header_read_timeout(HEAD_EVERY);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD)
        .max_send_buf_size(MAX_SEND)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(patience);
    builder
}
