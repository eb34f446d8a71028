//! One HTTP request and its answer: every connection to an address that was judged, every redirect judged anew, no more
//! of an answer read than is kept.
//!
//! One connection for each request, HTTP/1.1, without a pool: a pooled client chooses addresses itself.

mod answer;
mod connect;
mod redirect;
mod target;

pub(super) use answer::Answer;
pub use connect::Trust;
pub(super) use target::Target;

use super::egress::{self, Egress, EgressError, Network};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use http_body_util::Full;
use redirect::{Hop, RedirectError};
use roundhouse_api::application::HttpMethod;
use std::{io, sync::Arc, time::Duration};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 5;
/// Bytes that the head of an answer may have.
const MAX_HEAD: usize = 32 * 1024;

/// A request, its secrets put in.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: HttpMethod,
    pub(super) target: Target,
    /// Lower-case name, value, and whether it came out of a Secret.
    pub(super) headers: Vec<(HeaderName, HeaderValue, bool)>,
    pub(super) body: Option<Bytes>,
    pub(super) timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// The host may not be reached.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// No connection.
    #[error("no connection to {host}: {source}")]
    Connect {
        /// Host and port.
        host: String,
        source: io::Error,
    },
    /// No roots.
    #[error(
        "this machine has no root certificates to check {host} by: install them, or name them in SSL_CERT_FILE"
    )]
    NoRoots {
        /// Host and port.
        host: String,
    },
    /// The host is no name that a certificate could have.
    #[error("{host} cannot have a certificate: use a host name")]
    NoServerName {
        /// Host and port.
        host: String,
    },
    /// The other side is not understood.
    #[error("{host} does not answer as an HTTP server: {reason}")]
    Exchange {
        /// Host and port.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// Too slow.
    #[error("no answer from {host} within {timeout:?}, redirects and body included")]
    Timeout {
        /// Host and port.
        host: String,
        timeout: Duration,
    },
    /// Too much.
    #[error(
        "the answer of {host} is larger than {limit} KiB, the most that a step takes in: reading stopped there"
    )]
    TooLarge {
        /// Host and port.
        host: String,
        limit: usize,
    },
    /// A redirect that is not followed.
    #[error("{host} redirects, which is not followed: {source}")]
    Redirect {
        /// Host and port.
        host: String,
        source: RedirectError,
    },
}

/// Sends requests.
pub(super) struct Transport {
    egress: Egress,
    network: Arc<dyn Network>,
    trust: Trust,
}

impl Transport {
    pub(super) fn new(egress: Egress, network: Arc<dyn Network>, trust: Trust) -> Transport {
        Transport {
            egress,
            network,
            trust,
        }
    }

    /// Sends a request and reads its answer, redirects followed, all within its timeout.
    ///
    /// # Errors
    /// [`SendError`]; nothing in it shows a path or a header, which may be secret.
    pub(super) async fn send(&self, request: Request) -> Result<Answer, SendError> {
        let (host, timeout) = (request.target.shown(), request.timeout);
        if !self.egress.allows_host(&request.target.host) {
            // Not in the time that the other side has. It is asked for again where the answer matters.
            let _known = self.network.servers().await;
        }
        match tokio::time::timeout(timeout, self.follow(request)).await {
            Ok(answered) => answered,
            Err(_) => Err(SendError::Timeout { host, timeout }),
        }
    }

    async fn follow(&self, request: Request) -> Result<Answer, SendError> {
        let mut hop = Hop {
            target: request.target,
            method: request.method,
            headers: request.headers,
            body: request.body,
        };
        for left in (0..=MAX_REDIRECTS).rev() {
            let answer = self.exchange(&hop).await?;
            let host = hop.target.shown();
            let refused = |source| SendError::Redirect {
                host: host.clone(),
                source,
            };
            match hop
                .next(answer.status, answer.location().as_deref())
                .map_err(refused)?
            {
                None => return Ok(answer),
                Some(_) if left == 0 => return Err(refused(RedirectError::TooMany { limit: MAX_REDIRECTS })),
                Some(next) => hop = next,
            }
        }
        // The last round ends above.
        Err(SendError::Redirect {
            host: hop.target.shown(),
            source: RedirectError::TooMany { limit: MAX_REDIRECTS },
        })
    }

    async fn exchange(&self, hop: &Hop) -> Result<Answer, SendError> {
        let host = hop.target.shown();
        let permitted = egress::permitted(&self.egress, &*self.network, &hop.target.host, hop.target.port);
        let stream = connect::connect(&*self.network, &hop.target, &permitted.await?, &self.trust).await?;
        let reason = |error: hyper::Error| SendError::Exchange {
            host: host.clone(),
            reason: chain(&error),
        };
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_buf_size(MAX_HEAD);
        let (mut sender, connection) = builder.handshake(stream).await.map_err(reason)?;
        // Dropped with this request: what a server sends beyond it is not read.
        let _driving = Driving(tokio::spawn(async move {
            // The request sees the same error.
            let _ended = connection.await;
        }));
        let answer = sender.send_request(message(hop)).await.map_err(reason)?;
        answer::read(answer, &host).await
    }
}

struct Driving(tokio::task::JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn message(hop: &Hop) -> http::Request<Full<Bytes>> {
    let mut headers = HeaderMap::new();
    let mut standard = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    standard(header::ACCEPT, "*/*");
    standard(header::ACCEPT_ENCODING, "identity");
    standard(header::CONNECTION, "close");
    standard(
        header::USER_AGENT,
        concat!("roundhouse/", env!("CARGO_PKG_VERSION")),
    );
    for (name, value, secret) in &hop.headers {
        let mut value = value.clone();
        value.set_sensitive(*secret);
        headers.insert(name.clone(), value);
    }
    if let Ok(host) = HeaderValue::try_from(hop.target.authority()) {
        headers.insert(header::HOST, host);
    }
    let mut message = http::Request::new(Full::new(hop.body.clone().unwrap_or_default()));
    *message.method_mut() = match hop.method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Delete => Method::DELETE,
    };
    *message.uri_mut() = hop.target.path.clone();
    *message.headers_mut() = headers;
    message
}

/// An error with its causes: hyper's own text leaves them out.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
pub(super) mod tests;
