//! What a connection is known by to the requests that come over it, and they to it.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::auth::{Identity, MASTERS};

/// Fewest bytes that a client takes while answers wait for it, between two looks.
const LEAST: u64 = 4 << 10;
/// Longest time that one answer takes to be read, in looks.
const LOOKS: u32 = 15;

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// From where.
    pub(crate) address: IpAddr,
    known: CancellationToken,
    user: OnceLock<Arc<str>>,
    /// Bytes given to the connection so far.
    written: AtomicU64,
    answers: Mutex<Answers>,
}

/// Answers that are not sent, by when they were given.
#[derive(Debug, Default)]
struct Answers {
    given: u64,
    open: BTreeMap<u64, Instant>,
}

/// An answer on its way; it is sent, or given up, when this is dropped.
#[derive(Debug)]
pub(crate) struct Sending {
    link: Arc<Link>,
    number: u64,
}

impl Link {
    pub(crate) fn new(address: IpAddr) -> Arc<Self> {
        Arc::new(Self {
            address,
            known: CancellationToken::new(),
            user: OnceLock::new(),
            written: AtomicU64::new(0),
            answers: Mutex::default(),
        })
    }

    /// A request came of somebody who is known.
    pub(crate) fn is_known(&self, identity: &Identity) {
        if !self.known.is_cancelled() {
            if let Some(user) = counted(identity) {
                self.user.get_or_init(|| user.into());
            }
            self.known.cancel();
        }
    }

    /// Who that was, if connections of it are counted.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.get().map(|user| &**user)
    }

    /// Waits for the first such request.
    pub(super) async fn known(&self) {
        self.known.cancelled().await;
    }

    /// Notes an answer.
    pub(crate) fn answers(self: &Arc<Self>) -> Sending {
        let mut answers = self.answers.lock();
        answers.given += 1;
        let number = answers.given;
        answers.open.insert(number, Instant::now());
        Sending {
            link: self.clone(),
            number,
        }
    }

    /// Ready when whoever is at the other end does not read what it asked for: next to nothing for as long as `every`, or one
    /// answer not in [`LOOKS`] times that.
    pub(super) async fn stalled(&self, every: Duration) {
        let mut written = self.written.load(Ordering::Relaxed);
        loop {
            tokio::time::sleep(every).await;
            let now = self.written.load(Ordering::Relaxed);
            let oldest = self.answers.lock().open.values().next().copied();
            if let Some(since) = oldest {
                let waits = since.elapsed();
                if (waits >= every && now.saturating_sub(written) < LEAST) || waits >= every * LOOKS {
                    return;
                }
            }
            written = now;
        }
    }
}

/// Whose connections are counted: everybody's but administrators'.
pub(super) fn counted(identity: &Identity) -> Option<&str> {
    (!identity.in_group(MASTERS)).then_some(identity.user.as_str())
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.link.answers.lock().open.remove(&self.number);
    }
}

/// A connection whose bytes are counted.
#[derive(Debug)]
pub(super) struct Counted<S> {
    pub(super) stream: S,
    pub(super) link: Arc<Link>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S> Counted<S> {
    fn count(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.link.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.count(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(60);

    fn link() -> Arc<Link> {
        Link::new(IpAddr::from([127, 0, 0, 1]))
    }

    /// When a connection counts as stalled, in seconds, if every ten seconds so many bytes are taken.
    async fn stalls(link: &Link, bytes: u64) -> Option<u64> {
        let began = Instant::now();
        let taken = async {
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                link.written.fetch_add(bytes, Ordering::Relaxed);
            }
        };
        tokio::select! {
            () = link.stalled(EVERY) => Some(began.elapsed().as_secs()),
            () = taken => None,
            () = tokio::time::sleep(Duration::from_secs(3_600)) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_of_what_it_asked_for_has_stalled() {
        let idle = link();
        assert_eq!(stalls(&idle, 0).await, None, "nothing is asked for");
        let answer = idle.answers();
        assert_eq!(stalls(&idle, 0).await, Some(60));
        // Pings are no reading.
        assert_eq!(stalls(&idle, 40).await, Some(60));
        drop(answer);
        assert_eq!(stalls(&idle, 0).await, None);
        // One that is slow has time, but not without end.
        let slow = link();
        let _answer = slow.answers();
        assert_eq!(stalls(&slow, 1 << 20).await, Some(15 * 60));
    }
}
