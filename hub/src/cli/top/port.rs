//! The hub's metrics port, asked.

use crate::{cli::Failure, fleet::Summary};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use std::{error::Error, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// How long the port is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read: some hundred thousand clusters.
const LONGEST: usize = 64 << 20;

/// A metric that every hub has, and nobody else.
const OF_HUBS: &str = "roundhouse_queue_depth ";

/// Its address, host and port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Port<'a>(pub(super) &'a str);

/// `HOST:PORT` of an address as people have it: that, or the URL that `roundhouse serve` prints.
///
/// # Errors
/// It is another URL, or has no port; the message says what to write.
pub(super) fn address(text: &str) -> Result<String, String> {
    let wrong = || {
        "use HOST:PORT, such as 127.0.0.1:9464, or the http://HOST:PORT/metrics that roundhouse serve prints"
            .to_owned()
    };
    let rest = text.strip_prefix("http://").unwrap_or(text);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let rest = rest.strip_suffix("/metrics").unwrap_or(rest);
    let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
    let is_host = !host.is_empty() && !host.contains(|c: char| c == '/' || c.is_whitespace());
    match is_host && port.parse::<u16>().is_ok() {
        true => Ok(rest.to_owned()),
        false => Err(wrong()),
    }
}

/// Agents and others have metrics, too.
fn is_of_hub(metrics: &[u8]) -> bool {
    let text = String::from_utf8_lossy(metrics);
    text.lines().any(|line| line.starts_with(OF_HUBS))
}

type Asked = Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>>;

impl Port<'_> {
    async fn ask(self, path: &str) -> Result<(StatusCode, Bytes), Failure> {
        let failed = || {
            Failure::new("E-METRICS", format!("the metrics port {} does not answer", self.0)).advise(
                "roundhouse serve with --metrics-listen 127.0.0.1:9464, or --metrics with the address that it has",
            )
        };
        match timeout(PATIENCE, self.get(path)).await {
            Ok(answer) => answer.map_err(|error| failed().because(error)),
            Err(_) => Err(failed().because(format!("nothing came for {} s", PATIENCE.as_secs()))),
        }
    }

    async fn get(self, path: &str) -> Asked {
        let stream = TcpStream::connect(self.0).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let request = Request::get(path)
            .header(header::HOST, self.0)
            .body(Empty::<Bytes>::new())?;
        let answer = async {
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LONGEST).collect().await?;
            Ok::<_, Box<dyn Error + Send + Sync>>((status, body.to_bytes()))
        };
        tokio::pin!(answer, connection);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            ended = &mut connection => {
                ended?;
                answer.await
            }
        }
    }

    /// Its metrics, in the text format of OpenMetrics.
    pub(super) async fn metrics(self) -> Result<String, Failure> {
        match self.ask("/metrics").await? {
            (StatusCode::OK, body) if is_of_hub(&body) => Ok(String::from_utf8_lossy(&body).into_owned()),
            (status, body) => Err(self.other(status, &body)),
        }
    }

    /// Whether it leads, follows, or starts.
    pub(super) async fn standing(self) -> Result<String, Failure> {
        // One that is not ready says so with another status.
        let (_, body) = self.ask("/readyz").await?;
        Ok(String::from_utf8_lossy(&body).trim().to_owned())
    }

    /// How the fleet fares.
    pub(super) async fn fleet(self) -> Result<Summary, Failure> {
        match self.ask("/fleet").await? {
            (StatusCode::OK, body) => serde_json::from_slice(&body)
                .map_err(|error| self.other(StatusCode::OK, &body).because(error)),
            (status, body) => Err(self.other(status, &body)),
        }
    }

    fn other(self, status: StatusCode, body: &[u8]) -> Failure {
        let text = String::from_utf8_lossy(body);
        let said: String = text.trim().chars().take(200).collect();
        Failure::new(
            "E-METRICS",
            format!(
                "{} answers with {} and not as a hub does",
                self.0,
                status.as_u16()
            ),
        )
        .because(said)
        .advise("--metrics with the address that roundhouse serve printed behind \"metrics at\"")
    }
}
