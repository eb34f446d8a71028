//! Over the network: TLS, client certificates, kubeconfigs, shutdown.

use std::{os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::{ListParams, WatchParams},
    config::{KubeConfigOptions, Kubeconfig as KubeconfigFile},
};
use roundhouse_apiserver::{
    Authority, Identity, Kubeconfig, ServeOptions, Server, serve_with, system_clock, write_private,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

struct Running {
    server: Server,
    authority: Authority,
    url: String,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

async fn start() -> Running {
    start_with(ServeOptions::default()).await
}

async fn start_with(options: ServeOptions) -> Running {
    let now = system_clock()();
    let made = Authority::generate(now).unwrap();
    // As after a restart.
    let authority = Authority::from_pem(made.certificate(), made.key()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = authority
        .server_config(&["127.0.0.1".to_owned(), "localhost".to_owned()], now)
        .unwrap();
    let shutdown = CancellationToken::new();
    let server = Server::builder().build();
    let task = tokio::spawn(serve_with(
        listener,
        server.clone(),
        tls,
        shutdown.clone(),
        options,
    ));
    Running {
        server,
        authority,
        url,
        shutdown,
        task,
    }
}

impl Running {
    fn kubeconfig(&self, identity: &Identity) -> String {
        let now = system_clock()();
        let issued = self
            .authority
            .issue(identity, Duration::from_secs(3_600), now)
            .unwrap();
        Kubeconfig::new("test", &self.url, &self.authority, issued).to_string()
    }

    async fn client(&self, text: &str) -> Client {
        let config = KubeconfigFile::from_yaml(text).unwrap();
        Client::try_from(
            Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
                .await
                .unwrap(),
        )
        .unwrap()
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("no answer within twenty seconds")
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn clients_are_who_their_certificate_says() {
    let running = start().await;
    let admin = running.client(&running.kubeconfig(&Identity::admin())).await;
    let spaces: Api<Namespace> = Api::all(admin);
    assert_eq!(
        within(spaces.list(&ListParams::default()))
            .await
            .unwrap()
            .items
            .len(),
        4
    );
    let agent = running
        .client(&running.kubeconfig(&Identity::agent("east")))
        .await;
    let spaces: Api<Namespace> = Api::all(agent);
    assert_eq!(
        code(within(spaces.list(&ListParams::default())).await.unwrap_err()),
        403
    );
    let full = running.kubeconfig(&Identity::admin());
    let without: String = full
        .lines()
        .filter(|l| !l.contains("client-"))
        .map(|l| format!("{l}\n"))
        .collect();
    let nobody = running.client(&without.replace("user:\n", "user: {}\n")).await;
    let spaces: Api<Namespace> = Api::all(nobody.clone());
    assert_eq!(
        code(within(spaces.list(&ListParams::default())).await.unwrap_err()),
        401
    );
    let health = http::Request::get("/readyz").body(vec![]).unwrap();
    assert_eq!(within(nobody.request_text(health)).await.unwrap(), "ok");
    let stranger = start().await;
    let other = Kubeconfig::new(
        "test",
        &running.url,
        &running.authority,
        stranger
            .authority
            .issue(&Identity::admin(), Duration::from_secs(3_600), system_clock()())
            .unwrap(),
    );
    let spaces: Api<Namespace> = Api::all(running.client(&other.to_string()).await);
    assert!(
        within(spaces.list(&ListParams::default())).await.is_err(),
        "another authority's certificate is refused"
    );
}

#[tokio::test]
async fn shutdown_ends_watches() {
    let running = start().await;
    let client = running.client(&running.kubeconfig(&Identity::admin())).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut events = within(maps.watch(&WatchParams::default(), "0"))
        .await
        .unwrap()
        .boxed();
    running.shutdown.cancel();
    assert!(within(events.next()).await.is_none_or(|e| e.is_err()));
    within(running.task).await.unwrap().unwrap();
}

/// A create whose body comes in two halves, over a connection of its own.
struct Slow {
    stream: TlsStream<TcpStream>,
    rest: String,
}

impl Slow {
    /// Sends the head and half of the body; the server has begun to read when it returns.
    async fn begin(running: &Running, watching: &Client) -> Self {
        let now = system_clock()();
        let issued = running
            .authority
            .issue(&Identity::admin(), Duration::from_secs(60), now)
            .unwrap();
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(running.authority.certificate().as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        let address = running.url.trim_start_matches("https://");
        let stream = TcpStream::connect(address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let mut stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .unwrap();
        let body = serde_json::json!({"metadata": {"name": "slow"}}).to_string();
        let (first, rest) = body.split_at(body.len() / 2);
        let head = format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{first}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // It is being read when it shows in the metrics.
        loop {
            let metrics = http::Request::get("/metrics").body(vec![]).unwrap();
            let metrics = watching.request_text(metrics).await.unwrap();
            if metrics.contains(&format!("apiserver_arriving_body_bytes {}\n", body.len())) {
                break;
            }
        }
        let rest = rest.to_owned();
        Self { stream, rest }
    }

    /// Sends the rest; what the server answers until it closes the connection.
    async fn finish(mut self) -> String {
        self.stream.write_all(self.rest.as_bytes()).await.unwrap();
        self.answer().await
    }

    async fn answer(&mut self) -> String {
        let mut answer = vec![];
        // A connection that is cut ends with an error, which is an end, too.
        let _ = self.stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[tokio::test]
async fn a_shutdown_answers_what_was_asked() {
    let running = start().await;
    let config = running.kubeconfig(&Identity::admin());
    let client = running.client(&config).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut events = within(maps.watch(&WatchParams::default(), "0"))
        .await
        .unwrap()
        .boxed();
    let slow = within(Slow::begin(&running, &client)).await;
    running.shutdown.cancel();
    // The watch has a clean end: no error comes before it.
    within(async {
        while let Some(event) = events.next().await {
            event.unwrap();
        }
    })
    .await;
    assert!(!running.task.is_finished(), "a request is open");
    let answer = within(slow.finish()).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    let late: Api<ConfigMap> = Api::default_namespaced(running.client(&config).await);
    within(running.task).await.unwrap().unwrap();
    assert!(
        within(late.list(&ListParams::default())).await.is_err(),
        "nobody listens"
    );
}

#[tokio::test]
async fn a_certificate_that_is_revoked_while_a_body_comes_writes_nothing() {
    let running = start().await;
    let client = running.client(&running.kubeconfig(&Identity::admin())).await;
    let mut slow = within(Slow::begin(&running, &client)).await;
    let inside = Client::new(running.server.service(), "kube-system");
    let maps: Api<ConfigMap> = Api::default_namespaced(inside.clone());
    let list = serde_json::json!({"metadata": {"name": "roundhouse-revoked"},
        "data": {"admin": "user roundhouse:admin before 2999-01-01T00:00:00Z"}});
    let list = serde_json::from_value(list).unwrap();
    within(maps.create(&Default::default(), &list)).await.unwrap();
    slow.stream.write_all(slow.rest.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    within(slow.stream.read_exact(&mut status)).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 401");
    let maps: Api<ConfigMap> = Api::namespaced(inside, "default");
    assert!(within(maps.get_opt("slow")).await.unwrap().is_none());
    running.shutdown.cancel();
    drop((slow, client));
    within(running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_never_ends_is_cut() {
    let running = start_with(ServeOptions {
        drain: Duration::from_millis(100),
        ..ServeOptions::default()
    })
    .await;
    let client = running.client(&running.kubeconfig(&Identity::admin())).await;
    let mut slow = within(Slow::begin(&running, &client)).await;
    running.shutdown.cancel();
    within(running.task).await.unwrap().unwrap();
    assert_eq!(within(slow.answer()).await, "");
}

/// Reads frames of HTTP/2 (RFC 9113, 4.1) until one of this type comes; its payload.
async fn frame(stream: &mut TlsStream<TcpStream>, ty: u8) -> Option<Vec<u8>> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await.ok()?;
        if head[3] == ty {
            return Some(payload);
        }
    }
}

#[tokio::test]
async fn a_drained_http2_connection_is_told_to_go_away() {
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    let running = start().await;
    // Without ALPN: what the client says first is what it speaks.
    let mut stream = within(dial(&running, Some(&Identity::admin()))).await.unwrap();
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    stream
        .write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    assert!(within(frame(&mut stream, SETTINGS)).await.is_some());
    running.shutdown.cancel();
    let told = within(frame(&mut stream, GOAWAY))
        .await
        .expect("a GOAWAY before the end");
    // No error: the last stream, and the code.
    assert_eq!(told[4..8], [0; 4]);
    drop(stream);
    within(running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn readiness_turns_before_the_listener_closes() {
    let running = start_with(ServeOptions {
        delay: Duration::from_secs(600),
        ..ServeOptions::default()
    })
    .await;
    running.shutdown.cancel();
    // A new connection each time: the listener is open still.
    let config = running.kubeconfig(&Identity::admin());
    within(async {
        loop {
            let client = running.client(&config).await;
            let probe = http::Request::get("/readyz")
                .body(kube::client::Body::empty())
                .unwrap();
            if client.send(probe).await.unwrap().status() == 500 {
                break;
            }
        }
    })
    .await;
    let maps: Api<ConfigMap> = Api::default_namespaced(running.client(&config).await);
    within(maps.list(&ListParams::default())).await.unwrap();
    running.task.abort();
}

#[tokio::test]
async fn connections_are_bounded_by_source_and_by_silence() {
    let running = start_with(ServeOptions {
        connections_per_source: 2,
        patience: Duration::from_millis(200),
        ..ServeOptions::default()
    })
    .await;
    let address = running.url.trim_start_matches("https://").to_owned();
    let connect = async || TcpStream::connect(&address).await.unwrap();
    let (mut one, _two) = (connect().await, connect().await);
    // The third one is closed at once; the first when it has said nothing for too long.
    let mut byte = [0];
    let closed = async |stream: &mut TcpStream, byte: &mut [u8]| !matches!(within(stream.read(byte)).await, Ok(read) if read > 0);
    assert!(closed(&mut connect().await, &mut byte).await);
    assert!(closed(&mut one, &mut byte).await);
    // Places are given back.
    let client = running.client(&running.kubeconfig(&Identity::admin())).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    within(async { while maps.list(&ListParams::default()).await.is_err() {} }).await;
    running.shutdown.cancel();
    within(running.task).await.unwrap().unwrap();
}

/// A connection of its own over HTTP/1, with a certificate of somebody or without one.
async fn dial(running: &Running, identity: Option<&Identity>) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(running.authority.certificate().as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match identity {
        Some(identity) => {
            let issued = running
                .authority
                .issue(identity, Duration::from_secs(60), system_clock()())
                .unwrap();
            let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![certificate], key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(running.url.trim_start_matches("https://")).await?;
    TlsConnector::from(Arc::new(config))
        .connect("localhost".try_into().unwrap(), stream)
        .await
}

/// Asks and gives the code of the answer; `None` if the connection is closed.
async fn get(stream: &mut TlsStream<TcpStream>, path: &str) -> Option<u16> {
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = vec![];
    // Answers to these are short.
    loop {
        let mut part = [0; 4_096];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => answer.extend_from_slice(&part[..read]),
        }
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let lower = head.to_lowercase();
        let length = lower
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return head.split(' ').nth(1)?.parse().ok();
        }
    }
}

/// Reads until the connection is closed; how much came.
async fn until_closed(stream: &mut TlsStream<TcpStream>) -> usize {
    let mut rest = vec![];
    // A connection that is cut ends with an error, which is an end, too.
    let _ = within(stream.read_to_end(&mut rest)).await;
    rest.len()
}

#[tokio::test]
async fn a_user_has_so_many_connections_and_none_once_it_is_revoked() {
    let running = start_with(ServeOptions {
        connections_per_user: 2,
        patience: Duration::from_millis(500),
        ..ServeOptions::default()
    })
    .await;
    let (c1, c2) = (Identity::agent("c1"), Identity::agent("c2"));
    let mut first = within(dial(&running, Some(&c1))).await.unwrap();
    let mut second = within(dial(&running, Some(&c1))).await.unwrap();
    if let Ok(mut third) = within(dial(&running, Some(&c1))).await {
        assert_eq!(within(get(&mut third, "/healthz")).await, None);
    }
    let mut other = within(dial(&running, Some(&c2))).await.unwrap();
    for stream in [&mut first, &mut second, &mut other] {
        assert_eq!(within(get(stream, "/healthz")).await, Some(200));
    }
    // Once one is gone there is room for another.
    drop(second);
    let mut next = loop {
        let mut next = within(dial(&running, Some(&c1))).await.unwrap();
        if within(get(&mut next, "/healthz")).await == Some(200) {
            break next;
        }
    };
    let maps: Api<ConfigMap> =
        Api::namespaced(Client::new(running.server.service(), "default"), "kube-system");
    let entry = serde_json::json!({"metadata": {"name": "roundhouse-revoked"},
        "data": {"c1": "user roundhouse:agent:c1:1 before 2999-01-01T00:00:00Z"}});
    let entry = serde_json::from_value(entry).unwrap();
    maps.create(&Default::default(), &entry).await.unwrap();
    // They ask for nothing.
    until_closed(&mut first).await;
    until_closed(&mut next).await;
    assert_eq!(within(get(&mut other, "/healthz")).await, Some(200));
    running.shutdown.cancel();
    drop(other);
    within(running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn strangers_make_room_and_do_not_stay() {
    let running = start_with(ServeOptions {
        strangers_per_source: 2,
        patience: Duration::from_millis(500),
        ..ServeOptions::default()
    })
    .await;
    let mut stranger = within(dial(&running, None)).await.unwrap();
    assert_eq!(within(get(&mut stranger, "/healthz")).await, Some(200));
    assert_eq!(within(get(&mut stranger, "/api")).await, Some(401));
    // Those who are known count with them no longer than until they are.
    let admin = Identity::admin();
    let mut known = vec![];
    for _ in 0..4 {
        let mut stream = within(dial(&running, Some(&admin))).await.unwrap();
        assert_eq!(within(get(&mut stream, "/api")).await, Some(200));
        known.push(stream);
    }
    // Two more strangers: the first one goes.
    let mut second = within(dial(&running, None)).await.unwrap();
    let mut third = within(dial(&running, None)).await.unwrap();
    assert_eq!(until_closed(&mut stranger).await, 0);
    assert_eq!(within(get(&mut second, "/healthz")).await, Some(200));
    // However much they ask for health, they have to go when their time is over.
    let began = tokio::time::Instant::now();
    let mut leaves = false;
    while !leaves || began.elapsed() < Duration::from_secs(2) {
        leaves |= within(get(&mut second, "/healthz")).await.is_none();
        for stream in &mut known {
            assert_eq!(within(get(stream, "/api")).await, Some(200), "the others stay");
        }
    }
    until_closed(&mut third).await;
    running.shutdown.cancel();
    drop(known);
    within(running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded_and_given_up() {
    let running = start_with(ServeOptions {
        stall: Duration::from_secs(2),
        ..ServeOptions::default()
    })
    .await;
    let client = running.client(&running.kubeconfig(&Identity::admin())).await;
    // A list of 66 MiB: more than one user may leave unread, but it may ask for it.
    let inside = Client::new(running.server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(inside);
    for i in 0..66 {
        let map = serde_json::from_value(serde_json::json!({"metadata": {"name": format!("m{i}")},
            "data": {"a": "v".repeat((1 << 20) - 1)}}));
        within(maps.create(&Default::default(), &map.unwrap()))
            .await
            .unwrap();
    }
    let list = "/api/v1/namespaces/default/configmaps";
    let jane = Identity::new("jane", ["people"]);
    let mut unread = within(dial(&running, Some(&jane))).await.unwrap();
    let head = format!("GET {list} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    unread.write_all(head.as_bytes()).await.unwrap();
    // Its answer has begun.
    let mut status = [0; 12];
    within(unread.read_exact(&mut status)).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    // Whoever is known under the same name has to wait; kube's own client would try again by itself.
    let mut other = within(dial(&running, Some(&jane))).await.unwrap();
    for path in [list, "/api"] {
        assert_eq!(within(get(&mut other, path)).await, Some(429), "{path}");
    }
    let joe = Identity::new("joe", ["people"]);
    let mut joe = within(dial(&running, Some(&joe))).await.unwrap();
    assert_eq!(within(get(&mut joe, "/api")).await, Some(200), "others go on");
    let unsent = async || {
        let metrics = http::Request::get("/metrics").body(vec![]).unwrap();
        let metrics = within(client.request_text(metrics)).await.unwrap();
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("apiserver_unsent_response_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    assert!(unsent().await > 66 << 20);
    // What is not read is given up after a while, and there is room again.
    within(async { while get(&mut other, "/api").await == Some(429) {} }).await;
    assert!(until_closed(&mut unread).await < 66 << 20, "it was cut off");
    assert_eq!(unsent().await, 0);
    assert_eq!(within(get(&mut other, "/api")).await, Some(200));
    running.shutdown.cancel();
    drop((client, other, joe));
    within(running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_head_is_bounded() {
    let running = start().await;
    let client = running.client(&running.kubeconfig(&Identity::admin())).await;
    let ask = async |value: String| {
        let request = http::Request::get("/version").header("x-long", value);
        client
            .send(request.body(kube::client::Body::empty()).unwrap())
            .await
    };
    assert_eq!(within(ask("v".repeat(1_000))).await.unwrap().status(), 200);
    let refused = within(ask("v".repeat(300_000))).await;
    let refused = refused.map(|answer| answer.status().as_u16());
    assert!(matches!(refused, Err(_) | Ok(431)), "{refused:?}");
    assert_eq!(
        within(ask("v".to_owned())).await.unwrap().status(),
        200,
        "others go on"
    );
}

#[test]
fn private_files_are_private() {
    let directory = std::env::temp_dir().join(format!("roundhouse-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("admin.kubeconfig");
    for text in ["one", "two"] {
        write_private(&path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
