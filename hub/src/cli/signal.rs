//! Being told to end.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C, or for SIGTERM as service managers send it.
pub(super) async fn terminated() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
