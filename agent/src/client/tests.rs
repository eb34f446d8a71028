use super::{ClientError, Pings, client, pinging};
use futures::StreamExt;
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig as File};
use kube::{Api, Config};
use roundhouse_api::clock::{Clock, SystemClock};
use roundhouse_apiserver::{Authority, Identity, Kubeconfig, ServeOptions, Server, serve_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A server, and a way to it that counts its connections and that can swallow what is sent on those that are there.
struct Running {
    config: Config,
    connections: Arc<AtomicU32>,
    dead: Arc<parking_lot::Mutex<Arc<AtomicBool>>>,
    end: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// Whoever reads of it waits for ever once it is `dead`.
async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    dead: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}

async fn start() -> Running {
    let now = SystemClock.now();
    let authority = Authority::generate(now).unwrap();
    let behind = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = behind.local_addr().unwrap();
    let tls = authority.server_config(&["127.0.0.1".to_owned()], now).unwrap();
    let end = CancellationToken::new();
    let server = Server::builder().build();
    tokio::spawn(serve_with(
        behind,
        server,
        tls,
        end.clone(),
        ServeOptions::default(),
    ));
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", front.local_addr().unwrap());
    let issued = authority
        .issue(&Identity::admin(), Duration::from_secs(3_600), now)
        .unwrap();
    let file = Kubeconfig::new("test", &url, &authority, issued).to_string();
    let file = File::from_yaml(&file).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    let running = Running {
        config,
        connections: Arc::default(),
        dead: Arc::default(),
        end: end.clone(),
    };
    let (connections, dead) = (running.connections.clone(), running.dead.clone());
    tokio::spawn(end.run_until_cancelled_owned(async move {
        loop {
            let (here, _) = front.accept().await.unwrap();
            let there = TcpStream::connect(address).await.unwrap();
            connections.fetch_add(1, Ordering::Relaxed);
            let dead = dead.lock().clone();
            let (from, to) = here.into_split();
            let (answers, requests) = there.into_split();
            tokio::spawn(pump(from, requests, dead.clone()));
            tokio::spawn(pump(answers, to, dead));
        }
    }));
    running
}

impl Running {
    /// Nothing comes through the connections that are there, and nobody is told.
    fn swallow(&self) {
        let connections = std::mem::take(&mut *self.dead.lock());
        connections.store(true, Ordering::Relaxed);
    }

    fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("no answer within twenty seconds")
}

#[tokio::test]
async fn watches_and_requests_share_one_connection() {
    let running = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(running.config.clone()).unwrap());
    let first = within(maps.list(&ListParams::default())).await.unwrap();
    let version = first.metadata.resource_version.unwrap();
    let mut watches = Vec::new();
    for _ in 0..8 {
        let watch = maps.watch(&WatchParams::default(), &version).await.unwrap();
        watches.push(Box::pin(watch));
    }
    let post = PostParams::default();
    for name in ["a", "b", "c"] {
        within(maps.create(&post, &map(name))).await.unwrap();
    }
    for watch in &mut watches {
        for _ in 0..3 {
            assert!(matches!(
                within(watch.next()).await,
                Some(Ok(kube::api::WatchEvent::Added(_)))
            ));
        }
    }
    assert_eq!(running.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_answers_no_ping_is_closed_and_the_next_request_has_another() {
    let running = start().await;
    let pings = Pings {
        silence: Duration::from_millis(300),
        patience: Duration::from_millis(300),
    };
    let maps: Api<ConfigMap> = Api::default_namespaced(pinging(running.config.clone(), &pings).unwrap());
    let version = maps.list(&ListParams::default()).await.unwrap();
    let version = version.metadata.resource_version.unwrap();
    let watch = maps.watch(&WatchParams::default(), &version).await.unwrap();
    let mut watch = Box::pin(watch);
    // While its pings are answered a watch is silent as long as it has nothing to say.
    let silent = tokio::time::timeout(Duration::from_secs(2), watch.next()).await;
    assert!(silent.is_err(), "{silent:?}");
    running.swallow();
    let ended = within(watch.next()).await;
    assert!(matches!(ended, Some(Err(_))), "{ended:?}");
    within(maps.create(&PostParams::default(), &map("a")))
        .await
        .unwrap();
    assert_eq!(running.connections(), 2);
}

#[tokio::test]
async fn a_server_that_speaks_http_1_only_is_spoken_to_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = |request: Request<hyper::body::Incoming>| async move {
            assert_eq!(request.version(), http::Version::HTTP_11);
            Ok::<_, std::convert::Infallible>(http::Response::new(request.uri().path().to_owned()))
        };
        let io = hyper_util::rt::TokioIo::new(stream);
        hyper::server::conn::http1::Builder::new()
            .serve_connection(io, hyper::service::service_fn(answer))
            .await
            .unwrap();
    });
    let client = client(Config::new(url.parse().unwrap())).unwrap();
    let request = Request::get("/healthz").body(Vec::new()).unwrap();
    assert_eq!(within(client.request_text(request)).await.unwrap(), "/healthz");
}

#[test]
fn a_name_that_no_certificate_can_have_is_an_error_that_names_it() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    config.tls_server_name = Some("not a name".to_owned());
    let Err(error) = client(config) else {
        panic!("a client that checks certificates by the name \"not a name\"");
    };
    assert!(matches!(&error, ClientError::ServerName { .. }), "{error}");
    assert!(error.to_string().contains("\"not a name\""), "{error}");
}

#[tokio::test]
async fn a_proxy_is_asked_for_the_way() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new("https://hub.example:6443".parse().unwrap());
    config.proxy_url = Some(format!("http://{}", proxy.local_addr().unwrap()).parse().unwrap());
    let client = client(config).unwrap();
    let request = Request::get("/healthz").body(Vec::new()).unwrap();
    tokio::spawn(async move { client.request_text(request).await });
    let (mut stream, _) = within(proxy.accept()).await.unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(within(stream.read_u8()).await.unwrap());
    }
    let asked = String::from_utf8(asked).unwrap();
    assert!(
        asked.starts_with("CONNECT hub.example:6443 HTTP/1.1\r\n"),
        "{asked}"
    );
}
