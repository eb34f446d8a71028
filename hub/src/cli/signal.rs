//! Being told to end.

use tokio::signal::unix::{SignalKind, signal};

/// Completes on Ctrl-C, or on SIGTERM as service managers send it. From the call on, neither ends the process by
/// itself: call it before anything is printed that others take as a sign of life.
pub(super) fn termination() -> impl Future<Output = ()> {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else {
            // Without handlers the signals end the process as they always do.
            return std::future::pending().await;
        };
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
