//! Serves an empty in-memory server on a loopback port: `cargo run -p roundhouse-apiserver --example serve -- 6443 DIR`.

use std::{path::PathBuf, time::Duration};

use roundhouse_apiserver::{Authority, Identity, Kubeconfig, Server, serve, system_clock, write_private};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().map_or(Ok(0), |p| p.parse())?;
    let directory = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let now = system_clock()();
    let authority = Authority::generate(now)?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let url = format!("https://{}", listener.local_addr()?);
    let client = authority.issue(&Identity::admin(), Duration::from_secs(86_400), now)?;
    for (name, text) in [
        ("ca.crt", authority.certificate()),
        ("admin.crt", &client.certificate),
        ("admin.key", &client.key),
    ] {
        write_private(&directory.join(name), text)?;
    }
    let path = directory.join("admin.kubeconfig");
    write_private(
        &path,
        &Kubeconfig::new("roundhouse", &url, &authority, client).to_string(),
    )?;
    println!("serving at {url}; kubectl --kubeconfig {}", path.display());
    let tls = authority.server_config(&["127.0.0.1".to_owned(), "localhost".to_owned()], now)?;
    serve(listener, Server::builder().build(), tls, CancellationToken::new()).await?;
    Ok(())
}
