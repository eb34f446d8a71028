//! The whole way: JSON, admission, storage, and TLS where it is between processes.

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use roundhouse_apiserver::{Authority, DurableOptions, DurableStore, Identity, Server, serve};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::{Rate, TIME, content};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str, n: u64) -> String {
    let text = content(n);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"content":"{text}"}}}}"#
    )
}

fn create(host: &str, name: &str, n: u64) -> Request<Full<bytes::Bytes>> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("{host}{MAPS}"))
        .header("content-type", "application/json")
        .body(Full::new(map(name, n).into()))
        .unwrap()
}

pub(crate) fn tls(authority: &Authority) -> TlsConnector {
    let issued = authority
        .issue(&Identity::admin(), Duration::from_secs(3_600), now())
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap())
        .unwrap();
    let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config).into()
}

pub(crate) fn now() -> Timestamp {
    (roundhouse_apiserver::system_clock())()
}

/// Creates of ConfigMaps by 64 clients, each on a TLS connection of its own.
pub(crate) async fn creates(home: &TempDir, authority: &Authority) -> Rate {
    let store = DurableStore::open(&home.path().join("server"), DurableOptions::default()).unwrap();
    let server = Server::builder().store(Arc::new(store)).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = authority.server_config(&["127.0.0.1".to_owned()], now()).unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, server, config, stop.clone()));
    let connector = tls(authority);
    let count = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..64_u64)
        .map(|client| {
            let (connector, count) = (connector.clone(), count.clone());
            tokio::spawn(async move {
                let stream = TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let name = ServerName::try_from("127.0.0.1").unwrap();
                let stream = connector.connect(name, stream).await.unwrap();
                let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
                let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
                tokio::spawn(connection);
                let mut n = client;
                while start.elapsed() < TIME {
                    let request = create("https://127.0.0.1", &format!("map-{n}"), n);
                    let answer = sender.send_request(request).await.unwrap();
                    let status = answer.status();
                    let body = answer.into_body().collect().await.unwrap().to_bytes();
                    assert_eq!(status, 201, "{body:?}");
                    count.fetch_add(1, Ordering::Relaxed);
                    n += 64;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let rate = Rate(count.load(Ordering::Relaxed), start.elapsed());
    stop.cancel();
    serving.await.unwrap().unwrap();
    rate
}

/// Creates of ConfigMaps through the service, in process and in memory, by as many tasks as there are processors.
pub(crate) async fn in_process() -> Rate {
    let server = Server::builder().build();
    let count = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..2_u64)
        .map(|task| {
            let (server, count) = (server.clone(), count.clone());
            tokio::spawn(async move {
                let mut n = task;
                while start.elapsed() < TIME {
                    let answer = server
                        .service()
                        .oneshot(create("", &format!("map-{n}"), n))
                        .await
                        .unwrap();
                    assert_eq!(answer.status(), 201);
                    count.fetch_add(1, Ordering::Relaxed);
                    n += 2;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    Rate(count.load(Ordering::Relaxed), start.elapsed())
}
