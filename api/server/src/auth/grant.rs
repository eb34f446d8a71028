//! What an open watch stands on: the credential of whoever opened it, and the right to what it shows.
//!
//! A request is asked once who sends it and what that one may; a watch lives on after the answer. It is asked again before
//! each line if rights have changed since or some time has passed, and every [`EVERY`] while nothing happens: nothing that
//! was written after a right was taken away is shown by it, and it ends within that time. A revoked certificate ends it at
//! once. Kubernetes ends no watch before its time is over, half an hour or more; here that time would be a leaked
//! certificate's.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, header};
use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{Notify, futures::OwnedNotified},
    time::{Sleep, sleep_until},
};

use super::{Caller, Identity, effective};
use crate::{error::ApiError, server::Core, service::authorize, verbs::Call};

/// Longest time between two looks at what a watch stands on.
const EVERY: Duration = Duration::from_secs(10);

/// Tells open watches that somebody may have lost a right.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    version: AtomicU64,
    revoked: Arc<Notify>,
}

impl Rights {
    /// How often they changed.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A role, a binding or an account changed: watches look before they show another line.
    pub(crate) fn changed(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The list of revoked certificates changed: watches look now.
    pub(crate) fn revoked(&self) {
        self.changed();
        self.revoked.notify_waiters();
    }
}

/// What one watch stands on.
pub(crate) struct Grant {
    sender: Caller,
    /// Those headers that tell who sends, and whom the sender acts as.
    headers: HeaderMap,
    /// The version of the rights it was found good under.
    seen: u64,
    /// Who the sender was then.
    known: Option<Identity>,
    /// When to look again, by the clock of the server.
    next: Timestamp,
    revoked: Pin<Box<OwnedNotified>>,
    tick: Pin<Box<Sleep>>,
}

fn later(now: Timestamp) -> Timestamp {
    let every = SignedDuration::try_from(EVERY).unwrap_or_default();
    now.checked_add(every).unwrap_or(Timestamp::MAX)
}

impl Grant {
    /// Of a request that was let through when the rights had the version `seen`.
    pub(crate) fn new(core: &Core, sender: &Caller, headers: &HeaderMap, seen: u64) -> Self {
        let tells_who =
            |name: &str| name == header::AUTHORIZATION.as_str() || name.starts_with("impersonate-");
        let kept = headers.iter().filter(|(name, _)| tells_who(name.as_str()));
        let mut headers = HeaderMap::new();
        for (name, value) in kept {
            headers.append(name.clone(), value.clone());
        }
        Self {
            sender: sender.clone(),
            headers,
            seen,
            known: None,
            next: later((core.clock)()),
            revoked: Box::pin(core.rights.revoked.clone().notified_owned()),
            tick: Box::pin(sleep_until(core.moments.next(EVERY))),
        }
    }

    /// Looks again if it is time to, before a line is shown.
    ///
    /// # Errors
    /// 401 if the sender is nobody any longer, or somebody else; 403 if it may not see this any longer.
    pub(crate) fn before_a_line(&mut self, core: &Core, call: &Call) -> Result<(), ApiError> {
        if self.seen == core.rights.version() && (core.clock)() < self.next {
            return Ok(());
        }
        self.look(core, call)
    }

    /// Looks again whenever something is revoked or time has passed; ready when it does not hold any longer.
    pub(crate) fn poll_lost(&mut self, cx: &mut Context<'_>, core: &Core, call: &Call) -> Poll<ApiError> {
        loop {
            let revoked = self.revoked.as_mut().poll(cx).is_ready();
            if revoked {
                self.revoked.set(core.rights.revoked.clone().notified_owned());
            } else if self.tick.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if let Err(error) = self.look(core, call) {
                return Poll::Ready(error);
            }
        }
    }

    fn look(&mut self, core: &Core, call: &Call) -> Result<(), ApiError> {
        // Before anything is asked: what changes meanwhile is looked at again.
        let before = std::mem::replace(&mut self.seen, core.rights.version());
        self.next = later((core.clock)());
        self.tick.as_mut().reset(core.moments.next(EVERY));
        let sender = self.sender.clone().authenticated(core, &self.headers);
        let sender = sender.identity.ok_or_else(ApiError::unauthorized)?;
        // What the same sender may is the same as long as no right changes.
        if before == self.seen && self.known.as_ref() == Some(&sender) {
            return Ok(());
        }
        let identity = effective(&self.headers, &sender, &*core.authorizer)?;
        if identity != *call.identity {
            return Err(ApiError::unauthorized());
        }
        authorize(core, &identity, call.verb, &call.path, &call.query)?;
        self.known = Some(sender);
        Ok(())
    }
}
