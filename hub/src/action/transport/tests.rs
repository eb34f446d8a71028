//! Requests to servers of this machine: slow ones, large ones, and ones that redirect.

use super::{super::egress::tests::Names, answer::MAX_BODY, *};
use http_body_util::{BodyExt, StreamBody};
use hyper::{body::Frame, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::json;
use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::net::TcpListener;

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

/// What a server was asked: method, path, header names and values, body.
type Asked = (String, String, HeaderMap, String);

/// A server of this machine. Dropped, it ends.
pub(in crate::action) struct Local {
    pub(in crate::action) address: SocketAddr,
    pub(in crate::action) asked: Arc<Mutex<Vec<Asked>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Local {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Local {
    /// A server that answers its n-th request, from 0, as `answer` says.
    pub(in crate::action) async fn start<F>(answer: F) -> Local
    where
        F: Fn(usize, &str) -> http::Response<Body> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, noting) = (Arc::new(answer), asked.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, asked) = (answer.clone(), noting.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        let (answer, asked) = (answer.clone(), asked.clone());
                        async move {
                            let (head, body) = request.into_parts();
                            let body = body
                                .collect()
                                .await
                                .map(|body| body.to_bytes())
                                .unwrap_or_default();
                            let path = head.uri.to_string();
                            let body = String::from_utf8_lossy(&body).into_owned();
                            let count = {
                                let mut asked = asked.lock();
                                asked.push((head.method.to_string(), path.clone(), head.headers, body));
                                asked.len() - 1
                            };
                            Ok::<_, Infallible>(answer(count, &path))
                        }
                    });
                    // A client that hangs up is part of these tests.
                    let _ended = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Local { address, asked, task }
    }

    pub(in crate::action) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

pub(in crate::action) fn answer(status: u16, body: &str) -> http::Response<Body> {
    let mut answer = http::Response::new(Full::new(Bytes::from(body.to_owned())).boxed());
    *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
    answer
}

pub(in crate::action) fn redirect(status: u16, to: &str) -> http::Response<Body> {
    let mut answer = answer(status, "");
    answer
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_str(to).unwrap());
    answer
}

fn transport(allowed: &[&str]) -> Transport {
    over(allowed, &[])
}

fn over(allowed: &[&str], names: &[(&str, &[&str])]) -> Transport {
    let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
    let egress = Egress::new(allowed, Vec::new());
    Transport::new(egress, Arc::new(Names::new(names)), Trust::default())
}

fn get(url: &str) -> Request {
    Request {
        method: HttpMethod::Get,
        target: Target::parse(url).unwrap(),
        headers: Vec::new(),
        body: None,
        timeout: Duration::from_secs(60),
    }
}

async fn fails(transport: &Transport, request: Request) -> String {
    transport.send(request).await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_request_arrives_as_it_was_asked_for() {
    let local = Local::start(|_, _| answer(201, r#"{"a": 1}"#)).await;
    let mut request = get(&local.url("/x?y=%20z#no"));
    request.method = HttpMethod::Post;
    request.body = Some(Bytes::from_static(b"body"));
    request.headers = vec![(
        HeaderName::from_static("x-a"),
        HeaderValue::from_static("b"),
        true,
    )];
    let got = transport(&["127.0.0.1"]).send(request).await.unwrap();
    assert_eq!(got.output()["body"], json!({"a": 1}));
    assert_eq!(got.status, 201);
    let (method, path, headers, body) = local.asked.lock().remove(0);
    assert_eq!(
        (method.as_str(), path.as_str(), body.as_str()),
        ("POST", "/x?y=%20z", "body")
    );
    for (name, value) in [
        ("x-a", "b"),
        ("host", local.address.to_string().as_str()),
        ("content-length", "4"),
        ("connection", "close"),
        ("accept-encoding", "identity"),
    ] {
        assert_eq!(headers.get(name).unwrap(), value, "{name}");
    }
}

#[tokio::test]
async fn this_machine_is_refused_unless_it_is_allowed() {
    let local = Local::start(|_, _| answer(200, "")).await;
    let url = local.url("/");
    let refused = "127.0.0.1 is refused: 127.0.0.1 is loopback; an administrator of the hub may allow it with --egress-allow";
    assert_eq!(fails(&transport(&[]), get(&url)).await, refused);
    // By a name, too.
    let named = format!("http://hook.example:{}/", local.address.port());
    let names: &[(&str, &[&str])] = &[("hook.example", &["127.0.0.1"])];
    assert!(
        fails(&over(&[], names), get(&named))
            .await
            .contains("127.0.0.1 is loopback")
    );
    assert_eq!(local.asked.lock().len(), 0, "nothing was sent");
    assert_eq!(
        transport(&["127.0.0.0/8"]).send(get(&url)).await.unwrap().status,
        200
    );
    assert_eq!(
        over(&["hook.example"], names)
            .send(get(&named))
            .await
            .unwrap()
            .status,
        200
    );
    let host = local.asked.lock()[1].2.get("host").cloned().unwrap();
    assert_eq!(host, format!("hook.example:{}", local.address.port()));
}

#[tokio::test]
async fn redirects_are_judged_like_the_first_address() {
    let local = Local::start(|_, path| match path {
        "/metadata" => redirect(302, "http://169.254.169.254/latest/meta-data/"),
        "/name" => redirect(302, "http://inside.example/"),
        "/file" => redirect(302, "file:///etc/passwd"),
        "/once" => redirect(302, "/end"),
        "/for-ever" => redirect(307, "/for-ever"),
        _ => answer(200, "end"),
    })
    .await;
    let names: &[(&str, &[&str])] = &[("inside.example", &["::ffff:169.254.169.254"])];
    let transport = over(&["127.0.0.1"], names);
    assert_eq!(
        transport.send(get(&local.url("/once"))).await.unwrap().output()["body"],
        "end"
    );
    for (path, says) in [
        (
            "/metadata",
            "169.254.169.254 is refused: 169.254.169.254 is a metadata service of a cloud",
        ),
        (
            "/name",
            "inside.example is refused: ::ffff:169.254.169.254 is a metadata service of a cloud",
        ),
        ("/file", "its Location has the scheme \"file\""),
        (
            "/for-ever",
            "redirects, which is not followed: it is the 6th, and at most 5 are followed",
        ),
    ] {
        let error = fails(&transport, get(&local.url(path))).await;
        assert!(error.contains(says), "{path}: {error}");
    }
}

#[tokio::test]
async fn secrets_do_not_follow_a_redirect_to_another_server() {
    let other = Local::start(|_, _| answer(200, "")).await;
    let to = other.url("/taken");
    let local = Local::start(move |count, _| {
        if count == 0 {
            redirect(307, "/again")
        } else {
            redirect(307, &to)
        }
    })
    .await;
    let mut request = get(&local.url("/"));
    request.method = HttpMethod::Post;
    request.body = Some(Bytes::from_static(b"body"));
    let header = |name, secret| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static("v"),
            secret,
        )
    };
    request.headers = vec![
        header("x-token", true),
        header("authorization", false),
        header("x-plain", false),
    ];
    assert_eq!(transport(&["127.0.0.1"]).send(request).await.unwrap().status, 200);
    let same = local.asked.lock().clone();
    assert_eq!(same.len(), 2);
    assert!(
        same.iter()
            .all(|asked| asked.2.contains_key("x-token") && asked.3 == "body")
    );
    let (_, _, headers, body) = other.asked.lock().remove(0);
    assert_eq!(body, "body");
    assert!(headers.contains_key("x-plain"));
    assert!(!headers.contains_key("x-token") && !headers.contains_key("authorization"));
}

#[tokio::test]
async fn no_more_is_read_than_is_kept() {
    const PIECE: usize = 64 * 1024;
    const ALL: usize = 160;
    let taken = Arc::new(AtomicUsize::new(0));
    let counting = taken.clone();
    let local = Local::start(move |_, path| {
        if path == "/told" {
            return answer(200, &"x".repeat(MAX_BODY + 1));
        }
        if path == "/fits" {
            return answer(200, &"x".repeat(MAX_BODY));
        }
        // 10 MiB of which nobody knows beforehand how long they are.
        let counting = counting.clone();
        let pieces = futures::stream::iter((0..ALL).map(move |_| {
            counting.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; PIECE])))
        }));
        http::Response::new(StreamBody::new(pieces).boxed())
    })
    .await;
    let transport = transport(&["127.0.0.1"]);
    for path in ["/told", "/streamed"] {
        assert_eq!(
            fails(&transport, get(&local.url(path))).await,
            format!(
                "the answer of http://{} is larger than 64 KiB, the most that a step takes in: reading stopped there",
                local.address
            )
        );
    }
    assert_eq!(
        transport.send(get(&local.url("/fits"))).await.unwrap().body.len(),
        MAX_BODY
    );
    // What the sockets hold may have been sent; the rest was not even made.
    assert!(taken.load(Ordering::SeqCst) < ALL, "{taken:?} pieces");
}

#[tokio::test]
async fn a_slow_answer_ends_with_the_timeout_and_others_go_on() {
    let slow = Local::start(|_, _| {
        let never = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
        http::Response::new(StreamBody::new(never).boxed())
    })
    .await;
    // One that takes connections and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let fast = Local::start(|_, _| answer(200, "fast")).await;
    let transport = transport(&["127.0.0.1"]);
    for host in [slow.url("/"), format!("http://{}/", mute.local_addr().unwrap())] {
        let mut request = get(&host);
        request.timeout = Duration::from_millis(200);
        let (ended, other) = tokio::join!(fails(&transport, request), transport.send(get(&fast.url("/"))));
        let host = host.trim_end_matches('/');
        assert_eq!(
            ended,
            format!("no answer from {host} within 200ms, redirects and body included")
        );
        assert_eq!(other.unwrap().status, 200);
    }
}

#[tokio::test]
async fn what_does_not_answer_is_named_without_its_path() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let transport = transport(&["127.0.0.1"]);
    let error = fails(&transport, get(&format!("http://{closed}/hunter2?hunter2"))).await;
    assert!(
        error.starts_with(&format!("no connection to http://{closed}: ")),
        "{error}"
    );
    assert!(!error.contains("hunter2"), "{error}");
    // No HTTP at all.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let babbling = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example ESMTP\r\n")
            .await
            .unwrap();
        stream
    });
    let error = fails(&transport, get(&format!("http://{address}/hunter2"))).await;
    assert!(
        error.starts_with(&format!("http://{address} does not answer as an HTTP server: ")),
        "{error}"
    );
    drop(babbling.await);
}

/// A server with a certificate for `hook.example`, and the root that signed it.
async fn encrypted() -> (SocketAddr, rustls::RootCertStore, tokio::task::JoinHandle<()>) {
    let certified = rcgen::generate_simple_self_signed(vec!["hook.example".to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else {
                continue;
            };
            let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                Ok::<_, Infallible>(match request.uri().path() {
                    "/down" => redirect(302, "http://hook.example/"),
                    _ => answer(200, "encrypted"),
                })
            });
            let _ended = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    });
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    (address, roots, task)
}

#[tokio::test]
async fn certificates_are_checked_and_https_does_not_become_http() {
    let (address, roots, task) = encrypted().await;
    let names: &[(&str, &[&str])] = &[
        ("hook.example", &["127.0.0.1"]),
        ("other.example", &["127.0.0.1"]),
    ];
    let transport = |roots| {
        let egress = Egress::new(vec!["127.0.0.1".parse().unwrap()], Vec::new());
        Transport::new(egress, Arc::new(Names::new(names)), Trust::only(roots))
    };
    let url = |host: &str, path: &str| format!("https://{host}:{}{path}", address.port());
    let trusting = transport(roots);
    let got = trusting.send(get(&url("hook.example", "/"))).await.unwrap();
    assert_eq!(got.output()["body"], "encrypted");
    let error = fails(&trusting, get(&url("hook.example", "/down"))).await;
    assert!(
        error.ends_with("redirects, which is not followed: it leads from https to http"),
        "{error}"
    );
    let error = fails(&trusting, get(&url("other.example", "/"))).await;
    assert!(error.contains("certificate"), "{error}");
    // Another root.
    let other = rcgen::generate_simple_self_signed(vec!["root.example".to_owned()]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(other.cert.der().clone()).unwrap();
    let error = fails(&transport(roots), get(&url("hook.example", "/"))).await;
    assert!(error.contains("certificate"), "{error}");
    task.abort();
}

#[tokio::test]
async fn a_name_is_resolved_once_for_a_connection() {
    /// The first answer is harmless, the next ones are not.
    struct Rebinding(AtomicUsize);
    impl Network for Rebinding {
        fn resolve(&self, _: String) -> futures::future::BoxFuture<'static, io::Result<Vec<IpAddr>>> {
            let first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
            let address = if first { "127.0.0.1" } else { "169.254.169.254" };
            Box::pin(async move { Ok(vec![address.parse().unwrap()]) })
        }

        fn is_own(&self, _: IpAddr) -> bool {
            false
        }
    }
    let local = Local::start(|_, path| match path {
        "/again" => redirect(302, "/end"),
        _ => answer(200, ""),
    })
    .await;
    let transport = || {
        let egress = Egress::new(vec!["127.0.0.1".parse().unwrap()], Vec::new());
        Transport::new(egress, Arc::new(Rebinding(AtomicUsize::new(0))), Trust::default())
    };
    let url = |path: &str| format!("http://hook.example:{}{path}", local.address.port());
    assert_eq!(transport().send(get(&url("/"))).await.unwrap().status, 200);
    // The next connection is judged by what the name is then.
    let error = fails(&transport(), get(&url("/again"))).await;
    assert!(
        error.contains("hook.example is refused: 169.254.169.254"),
        "{error}"
    );
}
