//! The way to an API server, as client-go goes it: the requests and watches of a client share one HTTP/2 connection, and a
//! connection that does not answer a ping is closed. kube's own client has a connection for each watch, which costs the hub
//! four of them for each agent, and learns that one is dead when its read times out.

#[cfg(test)]
mod tests;

use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use std::time::Duration;
use tower::{BoxError, ServiceBuilder};

/// How long the answer to a watch may be silent: longer than a watch is silent by agreement. Each call has its own, shorter
/// limit. It is what tells a dead connection of HTTP/1.1, which knows no ping.
pub const READ_TIMES_OUT: Duration = Duration::from_secs(300);
/// A dead connection is closed before the Lease ends that is renewed through it, and one through which it is renewed in time
/// is never pinged. (client-go has 30 s and 15 s.)
const PINGS: Pings = Pings {
    silence: Duration::from_secs(15),
    patience: Duration::from_secs(10),
};

struct Pings {
    /// A connection on which nothing was read for so long is pinged.
    silence: Duration,
    /// And closed when there is no answer for so long.
    patience: Duration,
}

/// What keeps a client from being made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// kube does not take the configuration: a certificate, a key, a token or a proxy.
    #[error(transparent)]
    Config(#[from] kube::Error),
    /// The name by which the server's certificate is checked.
    #[error("tls-server-name {name:?} is neither a DNS name nor an IP address: {reason}")]
    ServerName {
        /// As it was given.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A client that speaks HTTP/2 with servers that do, which over TLS they say themselves, and HTTP/1.1 with others and through
/// proxies (`proxy-url`, `HTTPS_PROXY`). Its read timeout is the agent's own, and it sends nothing twice by itself: who asks has
/// to know of every request that was not answered. All else is as the configuration says and as [`Client::try_from`] has it.
///
/// # Errors
/// [`ClientError`] for a configuration of which no client can be made. Nothing is sent.
pub fn client(config: Config) -> Result<Client, ClientError> {
    pinging(config, &PINGS)
}

fn pinging(mut config: Config, pings: &Pings) -> Result<Client, ClientError> {
    config.read_timeout = Some(READ_TIMES_OUT);
    config.default_retry = false;
    if config.proxy_url.is_some() {
        // Through a proxy it is kube's own, with a connection for each watch.
        return Ok(Client::try_from(config)?);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut tls = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let resolved = rustls::pki_types::ServerName::try_from(name.clone());
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(resolved.map_err(|reason| {
            ClientError::ServerName {
                name: name.clone(),
                reason: reason.to_string(),
            }
        })?));
    }
    let mut connector = TimeoutConnector::new(tls.enable_all_versions().wrap_connector(tcp));
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(pings.silence)
        .http2_keep_alive_timeout(pings.patience)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace))
}
