//! etcd, and as much of its gRPC as a put needs: a client library would bring a protocol compiler along.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use roundhouse_apiserver::Authority;
use rustls::pki_types::ServerName;
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
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::TlsConnector;

use crate::{
    Rate, TIME, content, name,
    over_http::{now, tls},
};

/// A running etcd with a data directory of its own.
pub(crate) struct Etcd {
    process: Child,
    address: String,
    /// What its clients speak TLS with; without it they speak in the open.
    tls: Option<TlsConnector>,
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
    /// Starts one in a directory of its own below `home`. With an authority it takes TLS only, and only clients with a
    /// certificate of that authority, as the embedded server does.
    pub(crate) async fn start(home: &Path, authority: Option<&Authority>) -> Result<Self, String> {
        let binary = std::env::var_os("ETCD").unwrap_or_else(|| "etcd".into());
        let (address, peer) = (free(), free());
        let (directory, scheme) = match authority {
            Some(_) => (home.join("etcd-tls"), "https"),
            None => (home.join("etcd"), "http"),
        };
        std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
        let urls = [format!("{scheme}://{address}"), format!("http://{peer}")];
        let mut command = Command::new(&binary);
        if let Some(authority) = authority {
            let issued = authority
                .server_certificate(&["127.0.0.1".to_owned()], now())
                .map_err(|error| error.to_string())?;
            let files = [
                ("--cert-file", "server.crt", issued.certificate.as_str()),
                ("--key-file", "server.key", issued.key.as_str()),
                ("--trusted-ca-file", "ca.crt", authority.certificate()),
            ];
            for (flag, name, content) in files {
                let path = directory.join(name);
                std::fs::write(&path, content).map_err(|error| error.to_string())?;
                command.arg(flag).arg(path);
            }
            command.args(["--client-cert-auth", "--enable-grpc-gateway=false"]);
        }
        let process = command
            .arg("--data-dir")
            .arg(directory.join("data"))
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
        let etcd = Self {
            process,
            address,
            tls: authority.map(tls),
        };
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
        let mut client = Client::connect(&self.address, self.tls.as_ref()).await?;
        client.put("first", b"").await
    }

    /// Puts of so many clients, each on a connection of its own.
    pub(crate) async fn puts(&self, clients: u64) -> Rate {
        let count = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let (address, tls, count) = (self.address.clone(), self.tls.clone(), count.clone());
                tokio::spawn(async move {
                    let mut connection = Client::connect(&address, tls.as_ref()).await.unwrap();
                    let mut n = client;
                    while start.elapsed() < TIME {
                        let key = format!("configmaps/default/{}-{client}", name(n));
                        connection
                            .put(&key, content(n).as_bytes())
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
    /// Scheme, host and port.
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
    async fn connect(address: &str, tls: Option<&TlsConnector>) -> Option<Self> {
        let stream = TcpStream::connect(address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        match tls {
            Some(tls) => {
                let name = ServerName::try_from("127.0.0.1").ok()?;
                let stream = tls.connect(name, stream).await.ok()?;
                Self::over(format!("https://{address}"), stream).await
            }
            None => Self::over(format!("http://{address}"), stream).await,
        }
    }

    async fn over<S>(address: String, stream: S) -> Option<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(Self { address, sender })
    }

    /// `etcdserverpb.KV/Put`.
    async fn put(&mut self, key: &str, value: &[u8]) -> Option<()> {
        let mut message = vec![];
        field(1, key.as_bytes(), &mut message);
        field(2, value, &mut message);
        let mut body = vec![0];
        body.extend(u32::try_from(message.len()).ok()?.to_be_bytes());
        body.extend(message);
        let request = Request::post(format!("{}/etcdserverpb.KV/Put", self.address))
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
