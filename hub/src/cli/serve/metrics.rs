//! The metrics port of a hub.

use crate::{
    cli::Failure,
    metrics::{Metrics, serve},
};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves the metrics of a hub at `address` until `stop`.
///
/// # Errors
/// The address cannot be listened on.
pub(super) async fn listen(
    address: SocketAddr,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let unusable = |error| {
        Failure::new("E-LISTEN", format!("the metrics cannot be served at {address}"))
            .because(error)
            .advise("another address or port with --metrics-listen")
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    eprintln!("metrics at http://{address}/metrics");
    tokio::spawn(serve(listener, metrics.clone(), stop.clone()));
    Ok(())
}
