//! How much is done, and kept, for clients at a time.
//!
//! As in Kubernetes reads and writes are counted apart, so that a flood of one does not starve the other; one user holds at
//! most half of the places of either, so that a single client that runs wild leaves room for all others; and members of
//! `system:masters` are exempt but for a bound that guards the memory.
//!
//! A place is taken when the body has come: clients that are slow to send one keep nobody else from writing. What comes is
//! bounded by its bytes, to as much as would fit in all places.
//!
//! Beyond Kubernetes: the writes of one user are paced, so that others have their part of the processor; writes of Leases have
//! places of their own, since they go on where other writes wait for the disk; an open watch, which holds no place of a read,
//! is one of a bounded number; and so are the bytes of answers that wait for their reader. What HTTP/2 holds of a watch is
//! bounded by its flow control, what waits before that by the store.

mod pace;
mod share;

use std::{sync::Arc, time::Duration};

use http::Method;

pub(crate) use self::share::Slot;
use self::{
    pace::Pace,
    share::{Pool, Taken},
};
use crate::{
    auth::{Identity, MASTERS},
    error::ApiError,
    request::MAX_BODY,
};

/// Reads at a time (Kubernetes: `--max-requests-inflight`).
const READS: usize = 400;
/// Writes at a time (Kubernetes: `--max-mutating-requests-inflight`).
const WRITES: usize = 200;
/// Bytes of bodies that are on their way or read, in all and of one user; of administrators four times as many. One of unknown
/// length counts as the largest.
const ARRIVING: usize = WRITES * MAX_BODY;
const ARRIVING_EACH: usize = ARRIVING / 2;
/// Requests of administrators at a time: enough for a hub in this process, few enough for their bodies to fit in memory.
const EXEMPT: usize = 1_024;
/// Writes of Leases at a time: one of each agent of a fleet, and as many again.
const HEARTBEATS: usize = 2_048;
/// Of these, of one user: an agent sends one after the other, and one that timed out may still be under way.
const HEARTBEATS_EACH: usize = 8;
/// Open watches, and again as many of administrators.
const WATCHES: usize = 16_384;
/// Open watches of one user: a controller that watches every kind there is has about a hundred.
const WATCHES_EACH: usize = 256;
/// Bytes of answers that wait for their reader, in all and of one user; of administrators four times as many in all.
const UNSENT: usize = 256 << 20;
const UNSENT_EACH: usize = 64 << 20;
/// Writes that wait for their turn, and of one user.
const WAITING: usize = 4_096;
const WAITING_EACH: usize = 200;
/// Answers of so many bytes are given whatever others do not read; there are no more of them than requests at a time.
const SMALL: usize = 64 << 10;

/// The places of a server.
#[derive(Debug)]
pub(crate) struct Flow {
    reads: Arc<Pool>,
    writes: Arc<Pool>,
    exempt: Arc<Pool>,
    arriving: Arc<Pool>,
    arriving_exempt: Arc<Pool>,
    heartbeats: Arc<Pool>,
    heartbeats_exempt: Arc<Pool>,
    watches: Arc<Pool>,
    watches_exempt: Arc<Pool>,
    unsent: Arc<Pool>,
    unsent_exempt: Arc<Pool>,
    pace: Pace,
    /// Of writes of Leases, which wait for no others.
    heartbeat_pace: Pace,
    waiting: Arc<Pool>,
}

impl Default for Flow {
    fn default() -> Self {
        let all = |limit: usize| Pool::new(limit, limit);
        Self {
            reads: Pool::new(READS, READS / 2),
            writes: Pool::new(WRITES, WRITES / 2),
            exempt: all(EXEMPT),
            arriving: Pool::new(ARRIVING, ARRIVING_EACH),
            arriving_exempt: all(4 * ARRIVING),
            heartbeats: Pool::new(HEARTBEATS, HEARTBEATS_EACH),
            heartbeats_exempt: all(HEARTBEATS),
            watches: Pool::new(WATCHES, WATCHES_EACH),
            watches_exempt: all(WATCHES),
            unsent: Pool::new(UNSENT, UNSENT_EACH),
            unsent_exempt: all(4 * UNSENT),
            pace: Pace::default(),
            heartbeat_pace: Pace::default(),
            waiting: Pool::new(WAITING, WAITING_EACH),
        }
    }
}

/// Whether a request only reads.
pub(crate) fn reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn exempt(identity: &Identity) -> bool {
    identity.in_group(MASTERS)
}

fn unread(identity: &Identity, taken: Taken) -> ApiError {
    let message = match taken {
        Taken::ByUser => format!(
            "answers to user {:?} wait to be read: read them, or try again later",
            identity.user
        ),
        Taken::ByAll => "too many answers wait to be read, please try again later".to_owned(),
    };
    ApiError::new(429, "TooManyRequests", message)
}

impl Flow {
    /// What a request has to keep pace with.
    fn pace(&self, identity: &Identity, method: &Method, heartbeat: bool) -> Option<&Pace> {
        let is_free = exempt(identity) || reads(method);
        match heartbeat {
            _ if is_free => None,
            true => Some(&self.heartbeat_pace),
            false => Some(&self.pace),
        }
    }

    /// Waits until this user may write again, before the body is read; `waited` is how long that took.
    ///
    /// # Errors
    /// 429 if the user is far ahead of its pace, and not at once unless many of its writes wait already.
    pub(crate) async fn keep_pace(
        &self,
        identity: &Identity,
        method: &Method,
        heartbeat: bool,
        waited: &mut Duration,
    ) -> Result<(), ApiError> {
        let Some(pace) = self.pace(identity, method, heartbeat) else {
            return Ok(());
        };
        let enter = || self.waiting.enter(&identity.user, 1).ok();
        let turn;
        (*waited, turn) = pace.wait(&identity.user, enter).await;
        turn.map_err(|_| {
            let message = format!("user {:?} writes too fast, please try again later", identity.user);
            ApiError::new(429, "TooManyRequests", message)
        })
    }

    /// Counts what a write has brought.
    pub(crate) fn has_sent(&self, identity: &Identity, method: &Method, heartbeat: bool, bytes: usize) {
        if let Some(pace) = self.pace(identity, method, heartbeat) {
            pace.charge(&identity.user, bytes);
        }
    }

    /// Room for a body of so many bytes, if that is known. Where no place would be left for it, it is not read.
    ///
    /// # Errors
    /// 429 if there is no room, or no more for this user.
    pub(crate) fn arrive(
        &self,
        identity: &Identity,
        method: &Method,
        bytes: Option<u64>,
    ) -> Result<Slot, ApiError> {
        drop(self.enter(identity, method, false)?);
        let pool = match exempt(identity) {
            true => &self.arriving_exempt,
            false => &self.arriving,
        };
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.unwrap_or(MAX_BODY).min(MAX_BODY);
        pool.enter(&identity.user, bytes)
            .map_err(|_| ApiError::too_many_requests())
    }

    /// A place for a request of this user.
    ///
    /// # Errors
    /// 429 if all are taken, or all that this user may have.
    pub(crate) fn enter(
        &self,
        identity: &Identity,
        method: &Method,
        heartbeat: bool,
    ) -> Result<Slot, ApiError> {
        let pool = match (exempt(identity), reads(method), heartbeat) {
            (false, false, true) => &self.heartbeats,
            (true, false, true) => &self.heartbeats_exempt,
            (true, ..) => &self.exempt,
            (false, true, _) => &self.reads,
            (false, false, false) => &self.writes,
        };
        pool.enter(&identity.user, 1)
            .map_err(|_| ApiError::too_many_requests())
    }

    /// A place for an open watch of this user.
    ///
    /// # Errors
    /// 429 if all are taken, or all that this user may have.
    pub(crate) fn watch(&self, identity: &Identity) -> Result<Slot, ApiError> {
        let pool = if exempt(identity) {
            &self.watches_exempt
        } else {
            &self.watches
        };
        pool.enter(&identity.user, 1).map_err(|taken| {
            let message = match taken {
                Taken::ByUser => format!(
                    "user {:?} has {} watches open, which is all it may have: end some, or try again later",
                    identity.user, pool.share
                ),
                Taken::ByAll => "too many watches are open, please try again later".to_owned(),
            };
            ApiError::new(429, "TooManyRequests", message)
        })
    }

    /// Room for an answer of so many bytes until it is sent.
    ///
    /// # Errors
    /// 429 if there is none, or no more for this user.
    pub(crate) fn answer(&self, identity: &Identity, bytes: usize) -> Result<Slot, ApiError> {
        match self.unsent_of(identity).enter(&identity.user, bytes) {
            Err(Taken::ByAll) if bytes <= SMALL => Ok(self.answer_anyway(identity, bytes)),
            room => room.map_err(|taken| unread(identity, taken)),
        }
    }

    /// The same where it cannot be refused any longer.
    pub(crate) fn answer_anyway(&self, identity: &Identity, bytes: usize) -> Slot {
        self.unsent_of(identity).take(&identity.user, bytes)
    }

    /// Whether a user may ask for anything, or has to read what it asked for first. What others do not read is no reason.
    ///
    /// # Errors
    /// 429.
    pub(crate) fn may_ask(&self, identity: &Identity) -> Result<(), ApiError> {
        self.unsent_of(identity)
            .has_room(&identity.user)
            .then_some(())
            .ok_or_else(|| unread(identity, Taken::ByUser))
    }

    fn unsent_of(&self, identity: &Identity) -> &Arc<Pool> {
        if exempt(identity) {
            &self.unsent_exempt
        } else {
            &self.unsent
        }
    }

    /// Places taken by reads, by writes, by administrators, and by writes of Leases.
    pub(crate) fn taken(&self) -> [(&'static str, usize); 4] {
        let heartbeats = self.heartbeats.taken() + self.heartbeats_exempt.taken();
        [
            ("readOnly", self.reads.taken()),
            ("mutating", self.writes.taken()),
            ("exempt", self.exempt.taken()),
            ("lease", heartbeats),
        ]
    }

    /// Bytes of bodies that are on their way or read.
    pub(crate) fn arriving(&self) -> usize {
        self.arriving.taken() + self.arriving_exempt.taken()
    }

    /// Bytes of answers that wait for their reader.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.taken() + self.unsent_exempt.taken()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter_all(flow: &Flow, user: &Identity, method: &Method) -> Vec<Slot> {
        std::iter::from_fn(|| flow.enter(user, method, false).ok()).collect()
    }

    fn person(name: &str) -> Identity {
        Identity::new(name, ["people"])
    }

    #[test]
    fn reads_writes_and_users_do_not_starve_each_other() {
        let flow = Flow::default();
        let flood = enter_all(&flow, &person("a"), &Method::POST);
        assert_eq!(flood.len(), WRITES / 2, "one user has half of the writes");
        let other = enter_all(&flow, &person("b"), &Method::PATCH);
        assert_eq!(other.len(), WRITES / 2);
        assert!(
            flow.enter(&person("c"), &Method::DELETE, false).is_err(),
            "all are taken"
        );
        assert_eq!(enter_all(&flow, &person("a"), &Method::GET).len(), READS / 2);
        assert!(flow.enter(&Identity::admin(), &Method::POST, false).is_ok());
        drop(flood);
        assert_eq!(enter_all(&flow, &person("c"), &Method::POST).len(), WRITES / 2);
        drop(other);
        assert_eq!(flow.writes.taken(), 0);
    }

    #[test]
    fn heartbeats_are_kept_from_no_place_by_other_writes_and_few_are_of_one_user() {
        let flow = Flow::default();
        let _writes = (
            enter_all(&flow, &person("a"), &Method::POST),
            enter_all(&flow, &person("b"), &Method::POST),
            enter_all(&flow, &Identity::admin(), &Method::POST),
        );
        let beat = |who: &Identity| flow.enter(who, &Method::PATCH, true);
        let agents: Vec<Slot> = (0..1_000)
            .map(|i| beat(&Identity::agent(&format!("c{i}"))).unwrap())
            .collect();
        let c1 = Identity::agent("c1");
        let more: Vec<Slot> = std::iter::from_fn(|| beat(&c1).ok()).collect();
        assert_eq!(more.len(), HEARTBEATS_EACH - 1);
        assert!(beat(&Identity::agent("c2")).is_ok(), "others have theirs");
        assert!(beat(&Identity::admin()).is_ok(), "and so has who leads");
        // To read a Lease is to read.
        let _read = flow.enter(&c1, &Method::GET, true).unwrap();
        assert_eq!(flow.reads.taken(), 1);
        drop((agents, more));
    }

    #[test]
    fn watches_are_bounded_by_user_and_in_all() {
        let flow = Flow::default();
        let mut all = vec![];
        for user in 0.. {
            let who = person(&format!("u{user}"));
            let of_user: Vec<Slot> = std::iter::from_fn(|| flow.watch(&who).ok()).collect();
            if of_user.is_empty() {
                break;
            }
            assert_eq!(of_user.len(), WATCHES_EACH);
            all.extend(of_user);
        }
        assert_eq!(all.len(), WATCHES);
        let refused = flow.watch(&person("last")).unwrap_err();
        assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
        assert!(flow.watch(&Identity::admin()).is_ok(), "the hub has its own");
    }
}
