//! A connection to one of the addresses that were judged.

use super::{
    super::egress::{Connection, Network},
    SendError, Target,
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

/// What certificates of servers are checked by: the roots of this machine, read when they are needed first.
#[derive(Debug, Default)]
pub struct Trust(OnceCell<Arc<ClientConfig>>);

impl Trust {
    /// Only these roots.
    pub fn only(roots: RootCertStore) -> Trust {
        Trust(OnceCell::new_with(config(roots)))
    }

    async fn config(&self) -> Option<Arc<ClientConfig>> {
        let read = async || {
            let native = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs);
            let native = native.await.map_err(drop)?;
            for error in &native.errors {
                tracing::debug!(%error, "some root certificates of this machine do not read");
            }
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(native.certs);
            config(roots).ok_or(())
        };
        self.0.get_or_try_init(read).await.ok().cloned()
    }
}

fn config(roots: RootCertStore) -> Option<Arc<ClientConfig>> {
    if roots.is_empty() {
        return None;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(Arc::new(config))
}

/// Connects to the first of the addresses that answers.
pub(super) async fn connect(
    network: &dyn Network,
    target: &Target,
    addresses: &[SocketAddr],
    trust: &Trust,
) -> Result<TokioIo<Connection>, SendError> {
    let host = target.shown();
    let mut failed = None;
    let mut connected = None;
    for address in addresses {
        match network.connect(*address).await {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => failed = Some(error),
        }
    }
    let no_connection = |source: io::Error| SendError::Connect {
        host: host.clone(),
        source,
    };
    let Some(stream) = connected else {
        let source = failed.unwrap_or_else(|| io::Error::other("it has no address"));
        return Err(no_connection(source));
    };
    if !target.https {
        return Ok(TokioIo::new(stream));
    }
    let name = ServerName::try_from(target.host.clone());
    let name = name.map_err(|_| SendError::NoServerName { host: host.clone() })?;
    let config = trust.config().await;
    let config = config.ok_or_else(|| SendError::NoRoots { host: host.clone() })?;
    let stream = TlsConnector::from(config).connect(name, stream).await;
    Ok(TokioIo::new(Box::pin(stream.map_err(no_connection)?)))
}
