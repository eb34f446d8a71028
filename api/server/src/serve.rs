//! Serving over TLS.

use std::{io, sync::Arc, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{Server, auth::identity_of};

/// Connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 8_192;
/// Requests at a time on one connection.
const MAX_STREAMS: u32 = 1_000;
/// Time for a TLS handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between pings on a quiet HTTP/2 connection.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time for open requests to finish after the shutdown began.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until `shutdown` is cancelled, then ends watches and lets open requests finish.
///
/// Clients are who their certificate says; without one only the health paths answer.
///
/// # Errors
/// If the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    server: Server,
    tls: Arc<ServerConfig>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Cut when this function ends, however it ends.
    let cut = CancellationToken::new();
    let _cut = cut.clone().drop_guard();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, slot)) = accepted else { continue };
        let (acceptor, server, watcher) = (acceptor.clone(), server.clone(), graceful.watcher());
        let cut = cut.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = connection(stream, acceptor, server, watcher) => {}
            }
            drop(slot);
        });
    }
    drop(listener);
    server.close_watches();
    if timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open {DRAIN:?} after the shutdown began; they are cut");
    }
    Ok(())
}

type Slot = tokio::sync::OwnedSemaphorePermit;

/// The next connection; `None` if accepting failed for a reason that passes, such as a lack of file descriptors.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, Slot)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, slot)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    server: Server,
    watcher: hyper_util::server::graceful::Watcher,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let stream = match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took longer than {PATIENCE:?}"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let identity = certificate.and_then(|c| identity_of(c));
    let service = TowerToHyperService::new(server.service_as(identity));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PATIENCE);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection ended with an error");
    }
}
