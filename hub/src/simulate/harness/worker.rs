//! A task that can be stopped and waited for, or held still.

use parking_lot::Mutex;
use std::{
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A running task. Dropped, it is told to stop.
#[derive(Debug)]
pub(super) struct Worker {
    stop: DropGuard,
    task: JoinHandle<()>,
    pause: Pause,
    /// Why it ended, if it did with an error.
    failed: Arc<OnceLock<String>>,
}

/// Holds a task still: it is not polled, whatever happens around it. Tasks that it has spawned are others, and go on.
#[derive(Debug, Clone, Default)]
struct Pause(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    is_on: bool,
    waker: Option<Waker>,
}

impl Pause {
    fn set(&self, is_on: bool) {
        let waker = {
            let mut held = self.0.lock();
            held.is_on = is_on;
            held.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn holds(&self, context: &Context<'_>) -> bool {
        let mut held = self.0.lock();
        held.waker = Some(context.waker().clone());
        held.is_on
    }
}

/// A future that is polled unless it is held.
struct Pausable<F> {
    pause: Pause,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Pausable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.pause.holds(context) {
            return Poll::Pending;
        }
        self.work.as_mut().poll(context)
    }
}

impl Worker {
    /// Starts a task that ends when its token is cancelled.
    pub(super) fn start<F, E>(task: impl FnOnce(CancellationToken) -> F) -> Worker
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display,
    {
        let token = CancellationToken::new();
        let (pause, failed) = (Pause::default(), Arc::<OnceLock<String>>::default());
        let (work, tells) = (task(token.clone()), failed.clone());
        let work = async move {
            if let Err(error) = work.await {
                tracing::error!(%error, "a task of the harness has ended by itself");
                // Nobody else tells.
                let _ = tells.set(error.to_string());
            }
        };
        let task = tokio::spawn(Pausable {
            pause: pause.clone(),
            work: Box::pin(work),
        });
        Worker {
            stop: token.drop_guard(),
            task,
            pause,
            failed,
        }
    }

    /// Holds the task still, or lets it go on.
    pub(super) fn pause(&self, is_on: bool) {
        self.pause.set(is_on);
    }

    /// Why the task has ended by itself, if it has.
    pub(super) fn end(&self) -> Option<&str> {
        let failed = self.failed.get().map(String::as_str);
        self.task
            .is_finished()
            .then(|| failed.unwrap_or("nobody told it to, and it gives no reason"))
    }

    /// Tells the task to stop and waits until it has.
    pub(super) async fn stop(self) {
        self.pause.set(false);
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a task of the harness ended badly");
        }
    }

    /// Ends the task where it is.
    pub(super) async fn kill(self) {
        let Worker { stop, task, .. } = self;
        task.abort();
        // That it was given up is what was asked for.
        let _ = task.await;
        drop(stop);
    }
}
