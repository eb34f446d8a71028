//! Waiting until a write cannot be lost.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

/// The write is not settled, and may never be: nobody knows whether it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the disk takes no writes now; whether this one is kept shows later, when it is read")]
pub struct Unsettled;

/// Ready when a write is settled, or never will be.
#[derive(Debug)]
pub struct Settling(Step);

#[derive(Debug)]
enum Step {
    Done(Result<(), Unsettled>),
    Waits(oneshot::Receiver<()>),
}

impl Settling {
    /// Settled already.
    pub fn done() -> Self {
        Self(Step::Done(Ok(())))
    }

    /// Never to be settled.
    pub fn failed() -> Self {
        Self(Step::Done(Err(Unsettled)))
    }

    /// Settled when the sender sends, lost when it is dropped.
    pub fn on(told: oneshot::Receiver<()>) -> Self {
        Self(Step::Waits(told))
    }
}

impl Future for Settling {
    type Output = Result<(), Unsettled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Step::Done(result) => Poll::Ready(*result),
            Step::Waits(told) => Pin::new(told).poll(cx).map_err(|_| Unsettled),
        }
    }
}
