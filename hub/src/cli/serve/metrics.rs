//! The metrics port of a hub, which tells of its health, too.

use crate::{
    cli::{Failure, terminal},
    metrics::{Metrics, serve},
    run::HubOptions,
};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Serves the metrics and the health of a hub with these options at `address` until `stop`.
///
/// # Errors
/// The address cannot be listened on.
pub(super) async fn listen(
    address: SocketAddr,
    options: &HubOptions,
    stop: &CancellationToken,
) -> Result<Metrics, Failure> {
    let unusable = |error| {
        Failure::new("E-LISTEN", format!("the metrics cannot be served at {address}"))
            .because(error)
            .advise("another address or port with --metrics-listen")
    };
    let listener = TcpListener::bind(address).await.map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
    terminal::tell(format_args!("metrics at http://{address}/metrics"));
    let metrics = options.application.metrics.clone();
    let leading = options.leading.clone();
    tokio::spawn(serve(listener, metrics.clone(), leading, stop.clone()));
    Ok(metrics)
}
