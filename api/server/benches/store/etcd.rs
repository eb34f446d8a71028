//! etcd, and as much of its gRPC as a put needs: a client library would bring a protocol compiler along.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpStream, time::Instant};

use crate::{Rate, TIME, content, name};

/// A running etcd with a data directory of its own.
pub(crate) struct Etcd {
    process: Child,
    address: String,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free() -> String {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string()
}

impl Etcd {
    pub(crate) async fn start(home: &Path) -> Result<Self, String> {
        let binary = std::env::var_os("ETCD").unwrap_or_else(|| "etcd".into());
        let (address, peer) = (free(), free());
        let urls = [format!("http://{address}"), format!("http://{peer}")];
        let process = Command::new(&binary)
            .arg("--data-dir")
            .arg(home.join("etcd"))
            .args([
                "--listen-client-urls",
                &urls[0],
                "--advertise-client-urls",
                &urls[0],
            ])
            .args(["--listen-peer-urls", &urls[1], "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", binary.display()))?;
        let etcd = Self { process, address };
        let end = Instant::now() + Duration::from_secs(20);
        while etcd.put_one().await.is_none() {
            if Instant::now() > end {
                return Err("it does not answer".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(etcd)
    }

    async fn put_one(&self) -> Option<()> {
        let mut client = Client::connect(&self.address).await?;
        client.put("first", b"").await
    }

    /// Puts of so many clients, each on a connection of its own.
    pub(crate) async fn puts(&self, clients: u64) -> Rate {
        let count = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let (address, count) = (self.address.clone(), count.clone());
                tokio::spawn(async move {
                    let mut connection = Client::connect(&address).await.unwrap();
                    let mut n = client;
                    while start.elapsed() < TIME {
                        let key = format!("configmaps/default/{}-{client}", name(n));
                        connection
                            .put(&key, &content(n))
                            .await
                            .expect("etcd takes the put");
                        count.fetch_add(1, Ordering::Relaxed);
                        n += clients;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        Rate(count.load(Ordering::Relaxed), start.elapsed())
    }
}

struct Client {
    address: String,
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
}

/// A field of a protobuf message: bytes with their length.
fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push(u8::try_from(len & 0x7f).unwrap_or(0) | 0x80);
        len >>= 7;
    }
    out.push(u8::try_from(len).unwrap_or(0));
    out.extend(bytes);
}

impl Client {
    async fn connect(address: &str) -> Option<Self> {
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(Self {
            address: address.to_owned(),
            sender,
        })
    }

    /// `etcdserverpb.KV/Put`.
    async fn put(&mut self, key: &str, value: &[u8]) -> Option<()> {
        let mut message = vec![];
        field(1, key.as_bytes(), &mut message);
        field(2, value, &mut message);
        let mut body = vec![0];
        body.extend(u32::try_from(message.len()).ok()?.to_be_bytes());
        body.extend(message);
        let request = Request::post(format!("http://{}/etcdserverpb.KV/Put", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(body)))
            .ok()?;
        let answer = self
            .sender
            .send_request(request)
            .await
            .ok()?
            .into_body()
            .collect()
            .await
            .ok()?;
        let status = answer.trailers()?.get("grpc-status")?;
        (status == "0").then_some(())
    }
}
