//! An embedded API server on a TLS port, and the kubeconfigs that reach it.

use roundhouse_api::clock::SharedClock;
use roundhouse_apiserver::{
    AuditFile, AuditLimits, Authority, AuthorityError, Identity, Kubeconfig, Server, ServerBuilder, TokenKey,
    make_directory, serve, write_private,
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long the certificates in kubeconfigs are good for.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// Why an endpoint does not open, or a kubeconfig is not written.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A certificate cannot be made or read.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] AuthorityError),
    /// The certificate of the authority is there, its key is not.
    #[error("{} is missing: without it nobody can be given a certificate that those who know ca.crt take", path.display())]
    KeyMissing {
        /// Where the key should be.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// An open endpoint. Dropped, it stops serving.
#[derive(Debug)]
pub struct Endpoint {
    url: String,
    authority: Arc<Authority>,
    clock: SharedClock,
    stop: DropGuard,
    task: JoinHandle<io::Result<()>>,
}

impl Endpoint {
    /// Serves `server` at `address`. `names` are host names and addresses that clients know it by, beside the address
    /// itself; the first of them is used where the address is a wildcard.
    ///
    /// # Errors
    /// The address is taken or not ours, or a name is no host name.
    pub async fn open(
        server: Server,
        address: SocketAddr,
        names: &[String],
        authority: impl Into<Arc<Authority>>,
        clock: SharedClock,
    ) -> Result<Endpoint, EndpointError> {
        let authority = authority.into();
        let listen = |source| EndpointError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let bound = listener.local_addr().map_err(listen)?;
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut known: Vec<String> = names.to_vec();
        if !bound.ip().is_unspecified() {
            known.push(bound.ip().to_string());
        }
        known.extend(["localhost".to_owned(), loopback.to_string()]);
        let host = match names.first() {
            Some(name) if bound.ip().is_unspecified() => name.clone(),
            _ if bound.ip().is_unspecified() => loopback.to_string(),
            _ => bound.ip().to_string(),
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        known.sort();
        known.dedup();
        let tls = authority.server_config(&known, clock.now())?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, server, tls, stop.clone()));
        Ok(Endpoint {
            url: format!("https://{host}:{}", bound.port()),
            authority,
            clock,
            stop: stop.drop_guard(),
            task,
        })
    }

    /// Where it is served.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Writes a kubeconfig with a new certificate of `identity`, readable by its owner only.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_kubeconfig(
        &self,
        path: &Path,
        context: &str,
        identity: &Identity,
    ) -> Result<(), EndpointError> {
        let certificate = self
            .authority
            .issue(identity, CERTIFICATE_LIFETIME, self.clock.now())?;
        let kubeconfig = Kubeconfig::new(context, &self.url, &self.authority, certificate);
        write_private(path, &kubeconfig.to_string()).map_err(at(path))
    }

    /// Stops serving: watches end, open requests finish.
    ///
    /// # Errors
    /// Serving had failed before.
    pub async fn close(self) -> io::Result<()> {
        drop(self.stop);
        self.task
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

/// A server that others reach: stored roles say who may do what, approved certificate requests are signed by `authority`,
/// tokens of service accounts by the key in `sa.key`, and writes and refusals are recorded in `audit.log`. Both files are in
/// `directory`, made at the first start.
///
/// # Errors
/// The directory or a file cannot be used, or the key is damaged.
pub fn guarded(directory: &Path, authority: Arc<Authority>) -> Result<ServerBuilder, EndpointError> {
    make_private_directory(directory)?;
    let log = directory.join("audit.log");
    let audit = AuditFile::open(&log, AuditLimits::default()).map_err(at(&log))?;
    Ok(Server::builder()
        .rbac()
        .signer(authority)
        .tokens(token_key_in(directory)?)
        .audit(Arc::new(audit)))
}

fn token_key_in(directory: &Path) -> Result<TokenKey, EndpointError> {
    let path = directory.join("sa.key");
    match std::fs::read_to_string(&path) {
        Ok(pem) => Ok(TokenKey::from_pem(&pem)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = TokenKey::generate()?;
            write_private(&path, key.pem()).map_err(at(&path))?;
            Ok(key)
        }
        Err(error) => Err(at(&path)(error)),
    }
}

/// The certificate authority kept in a directory (`ca.crt`, `ca.key`), made at the first start.
///
/// # Errors
/// The directory or a file cannot be used, or what is there is damaged.
pub fn authority_in(directory: &Path, clock: &SharedClock) -> Result<Authority, EndpointError> {
    make_private_directory(directory)?;
    let (certificate, key) = (authority_certificate(directory), directory.join("ca.key"));
    let read = |path: &Path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    };
    match (read(&certificate)?, read(&key)?) {
        (Some(certificate), Some(key)) => return Ok(Authority::from_pem(&certificate, &key)?),
        // Whoever trusts it would not trust another one.
        (Some(_), None) => return Err(EndpointError::KeyMissing { path: key }),
        // The key is written first: a start that was interrupted left it alone.
        (None, _) => {}
    }
    let authority = Authority::generate(clock.now())?;
    write_private(&key, authority.key()).map_err(at(&key))?;
    write_private(&certificate, authority.certificate()).map_err(at(&certificate))?;
    Ok(authority)
}

/// The certificate of the authority that is, or would be, kept in a directory.
pub fn authority_certificate(directory: &Path) -> PathBuf {
    directory.join("ca.crt")
}

/// Creates a directory, readable by its owner only; one that exists is left as it is.
///
/// # Errors
/// It cannot be created.
pub fn make_private_directory(directory: &Path) -> Result<(), EndpointError> {
    make_directory(directory).map_err(at(directory))
}

fn at(path: &Path) -> impl Fn(io::Error) -> EndpointError {
    let path = path.to_owned();
    move |source| EndpointError::File {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::{
        Api, Client, Config,
        config::{KubeConfigOptions, Kubeconfig as Parsed},
    };
    use roundhouse_api::clock::SystemClock;
    use std::{os::unix::fs::PermissionsExt, sync::Arc};

    async fn client(path: &Path) -> Client {
        let parsed = Parsed::read_from(path).unwrap();
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
            .await
            .unwrap();
        Client::try_from(config).unwrap()
    }

    #[tokio::test]
    async fn a_guarded_server_keeps_its_keys_and_its_log() {
        use k8s_openapi::api::{
            authentication::v1::{TokenRequest, TokenRequestSpec, TokenReview, TokenReviewSpec},
            core::v1::ServiceAccount,
        };
        let directory = tempfile::tempdir().unwrap();
        let clock: SharedClock = Arc::new(SystemClock);
        let authority = Arc::new(authority_in(directory.path(), &clock).unwrap());
        let server = guarded(directory.path(), authority.clone()).unwrap().build();
        let accounts: Api<ServiceAccount> =
            Api::namespaced(Client::new(server.service(), "default"), "default");
        let account = serde_json::from_value(serde_json::json!({"metadata": {"name": "web"}})).unwrap();
        accounts.create(&Default::default(), &account).await.unwrap();
        let request = TokenRequest {
            spec: Some(TokenRequestSpec::default()),
            ..TokenRequest::default()
        };
        let token = accounts
            .create_token_request("web", &Default::default(), &request)
            .await
            .unwrap()
            .status
            .unwrap()
            .token
            .unwrap();
        let somebody = Client::new(
            server.service_as(Some(Identity::new("jane", ["people"]))),
            "default",
        );
        let namespaces: Api<Namespace> = Api::all(somebody);
        assert!(namespaces.list(&Default::default()).await.is_err());
        drop((server, accounts, namespaces));

        let again = guarded(directory.path(), authority).unwrap().build();
        let reviews: Api<TokenReview> = Api::all(Client::new(again.service(), "default"));
        let review = TokenReview {
            spec: TokenReviewSpec {
                token,
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let status = reviews
            .create(&Default::default(), &review)
            .await
            .unwrap()
            .status
            .unwrap();
        let error = status.error.unwrap();
        assert!(
            error.contains("default/web"),
            "the key is the same, the account is gone: {error}"
        );
        let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        assert!(lines[2].contains("\"jane\"") && lines[2].contains("403"), "{log}");
        for file in ["sa.key", "audit.log", "ca.key"] {
            let mode = std::fs::metadata(directory.path().join(file))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{file}");
        }
    }

    #[tokio::test]
    async fn kubeconfigs_reach_the_server_and_outlive_a_restart() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let clock: SharedClock = Arc::new(SystemClock);
        let open = async |address: SocketAddr| {
            let authority = authority_in(directory.path(), &clock).unwrap();
            let server = Server::builder().build();
            Endpoint::open(server, address, &[], authority, clock.clone())
                .await
                .unwrap()
        };
        let endpoint = open((Ipv4Addr::LOCALHOST, 0).into()).await;
        let path = directory.path().join("admin.kubeconfig");
        endpoint
            .write_kubeconfig(&path, "hub", &Identity::admin())
            .unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let namespaces = async || {
            let api: Api<Namespace> = Api::all(client(&path).await);
            api.get("kube-system").await
        };
        assert!(namespaces().await.is_ok());

        let agent = directory.path().join("agent.kubeconfig");
        endpoint
            .write_kubeconfig(&agent, "c1", &Identity::agent("c1"))
            .unwrap();
        let forbidden: Api<Namespace> = Api::all(client(&agent).await);
        let answer = forbidden.list(&Default::default()).await;
        assert!(
            matches!(&answer, Err(kube::Error::Api(status)) if status.is_forbidden()),
            "{answer:?}"
        );

        let address: SocketAddr = endpoint.url().trim_start_matches("https://").parse().unwrap();
        endpoint.close().await.unwrap();
        let endpoint = open(address).await;
        assert!(
            namespaces().await.is_ok(),
            "the old kubeconfig is good after a restart"
        );
        endpoint.close().await.unwrap();
    }
}
