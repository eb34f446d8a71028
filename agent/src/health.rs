//! Whether the agent lives and works, for probes: plain HTTP, `GET /healthz` and `GET /readyz`.
//!
//! An agent that its hub does not hear, or that does not hear its hub, is not ready, and it is alive: it heals what it has, and
//! a restart would not help it.

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::port::Port;

/// Connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 8;
/// A connection is closed after this time, however busy.
const LONGEST: Duration = Duration::from_secs(60);

/// The pulse of an agent. Clones are the same.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<Pulse>>);

#[derive(Debug)]
struct Pulse {
    /// When the loop that joins and renews came round last.
    ticked: Instant,
    /// When the hub took a renewal of the Lease last.
    renewed: Option<Instant>,
    /// When the watch of the Lease showed one last; at first, when there was one to be shown.
    heard: Option<Instant>,
}

impl Default for Health {
    fn default() -> Self {
        Health(Arc::new(Mutex::new(Pulse {
            ticked: Instant::now(),
            renewed: None,
            heard: None,
        })))
    }
}

impl Health {
    /// The loop came round, whatever came of it.
    pub(crate) fn tick(&self) {
        self.0.lock().ticked = Instant::now();
    }

    /// The hub took a renewal.
    pub(crate) fn renewed(&self) {
        let (now, mut pulse) = (Instant::now(), self.0.lock());
        pulse.renewed = Some(now);
        pulse.heard.get_or_insert(now);
    }

    /// The watch of the Lease showed a renewal.
    pub(crate) fn heard(&self) {
        self.0.lock().heard = Some(Instant::now());
    }

    /// Whether the agent goes round.
    ///
    /// # Errors
    /// Why not.
    pub fn alive(&self, config: &Config) -> Result<(), String> {
        // A round is a pause and a call at the most.
        let patience = 2 * (config.lease_interval + config.call_timeout);
        let since = self.0.lock().ticked.elapsed();
        if since > patience {
            return Err(format!(
                "the agent hangs: its loop came round {} s ago",
                since.as_secs()
            ));
        }
        Ok(())
    }

    /// Whether the hub hears the agent, and the agent the hub.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self, config: &Config) -> Result<(), String> {
        let (renewed, heard) = {
            let pulse = self.0.lock();
            (pulse.renewed, pulse.heard)
        };
        let too_old = |at: Instant| Some(at.elapsed()).filter(|since| *since > config.lease_duration);
        let Some(renewed) = renewed else {
            return Err("not joined: the Lease on the hub was not renewed yet".to_owned());
        };
        if let Some(since) = too_old(renewed) {
            return Err(format!(
                "the Lease on the hub was renewed {} s ago",
                since.as_secs()
            ));
        }
        match heard.and_then(too_old) {
            Some(since) => Err(format!(
                "deaf: the hub takes renewals of the Lease, and its watch has shown none for {} s",
                since.as_secs()
            )),
            None => Ok(()),
        }
    }
}

/// Answers for the agent of `config` on `listener` until `shutdown`.
pub async fn serve(listener: TcpListener, config: Config, shutdown: CancellationToken) {
    let port = Port {
        listener,
        what: "health",
        connections: MAX_CONNECTIONS,
        longest: LONGEST,
    };
    let config = Arc::new(config);
    let answer =
        move |request: &Request<Incoming>, _| answer(request.method(), request.uri().path(), &config);
    port.serve(answer, shutdown).await;
}

fn answer(method: &Method, path: &str, config: &Config) -> Response<Full<Bytes>> {
    let health = &config.health;
    let judged = match (method, path) {
        (&Method::GET | &Method::HEAD, "/healthz") => health.alive(config),
        (&Method::GET | &Method::HEAD, "/readyz") => health.ready(config),
        (_, "/healthz" | "/readyz") => return text(StatusCode::METHOD_NOT_ALLOWED, "use GET"),
        _ => return text(StatusCode::NOT_FOUND, "there are /healthz and /readyz"),
    };
    match judged {
        Ok(()) => text(StatusCode::OK, "ok"),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, &why),
    }
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{body}\n"))));
    *response.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::names::ClusterName;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    fn config() -> Config {
        Config::new(ClusterName::new("c1").unwrap())
    }

    fn status(path: &str, config: &Config) -> u16 {
        answer(&Method::GET, path, config).status().as_u16()
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_without_its_hub_is_alive_and_not_ready() {
        let config = config();
        let (health, alive, ready) = (config.health.clone(), "/healthz", "/readyz");
        assert_eq!((status(alive, &config), status(ready, &config)), (200, 503));
        health.renewed();
        assert_eq!(status(ready, &config), 200);
        tokio::time::advance(config.lease_duration).await;
        health.tick();
        assert_eq!(status(ready, &config), 200);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((status(alive, &config), status(ready, &config)), (200, 503));
        tokio::time::advance(Duration::from_secs(80)).await;
        assert_eq!(status(alive, &config), 503);
        assert_eq!(status("/", &config), 404);
        assert_eq!(answer(&Method::POST, alive, &config).status(), 405);
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_does_not_hear_its_hub_is_alive_and_not_ready() {
        let config = config();
        let health = config.health.clone();
        for _ in 0..5 {
            health.renewed();
            health.tick();
            assert_eq!(health.ready(&config), Ok(()));
            tokio::time::advance(config.lease_interval).await;
        }
        health.renewed();
        let why = health.ready(&config).unwrap_err();
        assert!(why.contains("deaf") && why.contains("50 s"), "{why}");
        assert_eq!(status("/healthz", &config), 200);
        health.heard();
        assert_eq!(health.ready(&config), Ok(()));
    }

    #[tokio::test]
    async fn a_probe_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (config, stop) = (config(), CancellationToken::new());
        let serving = tokio::spawn(serve(listener, config, stop.clone()));
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("not joined"),
            "{answer}"
        );
        stop.cancel();
        serving.await.unwrap();
    }
}
