//! A small port: plain HTTP/1, answers that are at hand, and bounds for whoever asks.

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Time for the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection that could not be accepted: whatever is short may be there again then.
const PAUSE: Duration = Duration::from_millis(50);

/// Where something small is answered.
#[derive(Debug)]
pub struct Port {
    /// Where it listens.
    pub listener: TcpListener,
    /// What it is to people: `health`.
    pub what: &'static str,
    /// Connections at a time; more wait to be accepted.
    pub connections: usize,
    /// A connection is closed after this time, however busy.
    pub longest: Duration,
}

impl Port {
    /// Answers until `shutdown`, to whom it is told.
    pub async fn serve<A>(self, answer: A, shutdown: CancellationToken)
    where
        A: Fn(&Request<Incoming>, SocketAddr) -> Response<Full<Bytes>> + Clone + Send + 'static,
    {
        let (what, slots) = (self.what, Arc::new(Semaphore::new(self.connections)));
        loop {
            let accepted = async {
                let slot = slots.clone().acquire_owned().await.ok()?;
                Some((self.listener.accept().await, slot))
            };
            let Some(Some((accepted, slot))) = shutdown.run_until_cancelled(accepted).await else {
                return;
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection to the {what} port could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let (answer, shutdown) = (answer.clone(), shutdown.clone());
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer(&request, peer);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .serve_connection(TokioIo::new(stream), service);
                let served = tokio::time::timeout(self.longest, connection);
                if let Some(Ok(Err(error))) = shutdown.run_until_cancelled(served).await {
                    tracing::debug!(%error, "a connection to the {what} port ended with an error");
                }
                drop(slot);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn open() -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let port = Port {
            listener,
            what: "test",
            connections: 1,
            longest: Duration::from_secs(60),
        };
        let answer = |request: &Request<Incoming>, peer: SocketAddr| {
            Response::new(format!("{} {}", request.uri(), peer.ip()).into())
        };
        (address, stop.clone(), tokio::spawn(port.serve(answer, stop)))
    }

    #[tokio::test]
    async fn one_more_than_fit_waits_until_another_has_gone() {
        let (address, stop, serving) = open().await;
        let first = TcpStream::connect(address).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let request = "GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        second.write_all(request.as_bytes()).await.unwrap();
        let mut byte = [0];
        let early = tokio::time::timeout(Duration::from_millis(100), second.read(&mut byte)).await;
        assert!(early.is_err(), "it was answered beside the first");
        drop(first);
        let mut answer = String::new();
        second.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("/x 127.0.0.1"), "{answer}");
        stop.cancel();
        serving.await.unwrap();
    }
}
