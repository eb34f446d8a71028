//! A task that can be stopped and waited for.

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running task. Dropped, it is told to stop.
#[derive(Debug)]
pub(super) struct Worker {
    stop: DropGuard,
    task: JoinHandle<()>,
}

impl Worker {
    /// Starts a task that ends when its token is cancelled.
    pub(super) fn start<F>(task: impl FnOnce(CancellationToken) -> F) -> Worker
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let token = CancellationToken::new();
        let task = tokio::spawn(task(token.clone()));
        Worker {
            stop: token.drop_guard(),
            task,
        }
    }

    /// Tells the task to stop and waits until it has.
    pub(super) async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a task of the harness ended badly");
        }
    }

    /// Ends the task where it is.
    pub(super) async fn kill(self) {
        let Worker { stop, task } = self;
        task.abort();
        // That it was given up is what was asked for.
        let _ = task.await;
        drop(stop);
    }
}
