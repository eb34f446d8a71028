//! The promises, how one is checked, and what is said when it does not hold.

use super::{answer::Named, commit::Commit, model::Model, who::Asked};
use crate::{application::Said, simulate::trace::Object};
use http::StatusCode;
use roundhouse_apiserver::{Expect, Store};
use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

/// What Roundhouse promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// No acknowledged write is lost.
    P1,
    /// No update is lost.
    P2,
    /// What is dispatched takes effect once.
    P3,
    /// One hub writes.
    P4,
    /// Nothing is deleted without positive evidence.
    P5,
    /// Replicas are conserved.
    P6,
    /// A step passes on its own revision's evidence only.
    P7,
    /// So many clusters at a time, and no more.
    P8,
    /// A disconnected agent keeps what it has.
    P9,
    /// Fields of others survive.
    P10,
    /// The steady state writes nothing.
    P11,
    /// Memory and queues are bounded.
    P12,
    /// One identity sees one cluster's data.
    P13,
    /// The same inputs give the same decision.
    P14,
}

impl Promise {
    /// All of them, in order.
    pub const ALL: [Promise; 14] = [
        Promise::P1,
        Promise::P2,
        Promise::P3,
        Promise::P4,
        Promise::P5,
        Promise::P6,
        Promise::P7,
        Promise::P8,
        Promise::P9,
        Promise::P10,
        Promise::P11,
        Promise::P12,
        Promise::P13,
        Promise::P14,
    ];

    /// What it says, in a few words.
    pub fn says(self) -> &'static str {
        match self {
            Promise::P1 => "no acknowledged write is lost",
            Promise::P2 => "no update is lost",
            Promise::P3 => "what is dispatched takes effect once",
            Promise::P4 => "one hub writes",
            Promise::P5 => "nothing is deleted without positive evidence",
            Promise::P6 => "replicas are conserved",
            Promise::P7 => "a step passes on its own evidence",
            Promise::P8 => "no more clusters are reached or lost than may be",
            Promise::P9 => "a disconnected agent keeps what it has",
            Promise::P10 => "fields of others survive",
            Promise::P11 => "the steady state writes nothing",
            Promise::P12 => "memory and queues are bounded",
            Promise::P13 => "one identity sees one cluster's data",
            Promise::P14 => "the same inputs give the same decision",
        }
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub promise: Promise,
    /// Where.
    pub object: Object,
    /// So long after the start, in tokio's time.
    pub at: Duration,
    /// What should have been.
    pub expected: String,
    /// What was.
    pub found: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} ({}) at {:.3} s, {}: expected {}; found {}",
            self.promise,
            self.promise.says(),
            self.at.as_secs_f64(),
            self.object,
            self.expected,
            self.found
        )
    }
}

/// The party of a [`Note::Fault`] of the clock of a server.
pub const CLOCK: &str = "clock";

/// What the script tells.
#[derive(Clone)]
pub enum Note {
    /// Everything is delivered and settled: from now on nothing is written but Leases.
    Quiet,
    /// The quiet is over.
    Busy,
    /// A cluster's agent does not reach the hub from now on. Once more where the last that the hub sent it arrives only now.
    Cut(Arc<str>),
    /// It reaches it again.
    Healed(Arc<str>),
    /// The watches that a cluster's agent has open on its member show nothing from now on, and nobody tells it.
    Silenced(Arc<str>),
    /// From now on, for so long, requests of a cluster's agent to its member fail now and then; without an end for good.
    Hindered(Arc<str>, Option<Duration>),
    /// Nothing hinders anybody from now on.
    Eased,
    /// A cluster's agent does not run from now on.
    Stopped(Arc<str>),
    /// It runs again.
    Started(Arc<str>),
    /// A server was started on what its store had kept.
    Reopened {
        /// The server.
        server: Arc<str>,
        /// The store.
        store: Arc<dyn Store>,
    },
    /// The disk of a server has no room from now on: Leases may be renewed without it, and a crash forgets that.
    NoRoom(Arc<str>),
    /// It has room again: with what is written next, those Leases are.
    Room(Arc<str>),
    /// What a server's store has is put back to an earlier state, by hand: what it had acknowledged since is no longer asked for.
    Restored(Arc<str>),
    /// A fault that no promise depends on, for the trace.
    Fault {
        /// The server that it is done to or next to.
        server: Arc<str>,
        /// The party or line.
        party: Arc<str>,
        /// What is done.
        what: String,
    },
    /// Something that is bounded was measured.
    Gauge {
        /// The server.
        server: Arc<str>,
        /// What was measured.
        name: &'static str,
        /// How much it is.
        value: usize,
        /// How much it may be.
        most: usize,
    },
}

impl Note {
    /// What a trace says of it, and of which party.
    pub(super) fn fault(&self) -> Option<(Object, String)> {
        let agent = |cluster: &str, what: &str| Some((Object::party(cluster, "agent"), what.to_owned()));
        match self {
            Note::Cut(cluster) => agent(cluster, "cut off"),
            Note::Healed(cluster) => agent(cluster, "connected again"),
            Note::Silenced(cluster) => agent(cluster, "no longer told by its member"),
            Note::Stopped(cluster) => agent(cluster, "stopped"),
            Note::Started(cluster) => agent(cluster, "started"),
            Note::Reopened { server, .. } => Some((Object::party(server, "server"), "restarted".to_owned())),
            Note::Restored(server) => Some((Object::party(server, "server"), "put back".to_owned())),
            Note::Fault { server, party, what } => Some((Object::party(server, party), what.clone())),
            // The fault itself is told.
            Note::Hindered(..) | Note::Eased | Note::NoRoom(_) | Note::Room(_) => None,
            Note::Quiet | Note::Busy | Note::Gauge { .. } => None,
        }
    }
}

/// Where a check says what it has found.
pub(super) struct Found<'a> {
    pub(super) at: Duration,
    pub(super) broken: &'a mut Vec<Broken>,
    /// The promises that something was judged by, and by which part of them where there are several.
    pub(super) judged: &'a mut BTreeSet<(Promise, &'static str)>,
}

/// More than this of one promise say nothing new.
const MAX_BROKEN: usize = 100;

impl Found<'_> {
    /// Something is judged by a promise now.
    pub(super) fn judges(&mut self, promise: Promise) {
        self.judges_part(promise, "");
    }

    /// The same by one of several parts of a promise.
    pub(super) fn judges_part(&mut self, promise: Promise, part: &'static str) {
        self.judged.insert((promise, part));
    }

    /// A promise is broken.
    pub(super) fn broke(
        &mut self,
        promise: Promise,
        object: Object,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        let same = self.broken.iter().filter(|broken| broken.promise == promise);
        if same.count() < MAX_BROKEN {
            self.broken.push(Broken {
                promise,
                object,
                at: self.at,
                expected: expected.into(),
                found: found.into(),
            });
        }
    }
}

/// A check of one promise or of several that go together; pure. Whatever it does not ask for passes it by. The model is as it
/// was before.
pub(super) trait Check: Send {
    /// A store made a write, and what was expected of the object before.
    fn expected(&mut self, _: &Commit, _: Expect, _: &mut Found<'_>) {}
    /// A store made a write.
    fn committed(&mut self, _: &Commit, _: &Model, _: &mut Found<'_>) {}
    /// A server is asked.
    fn asked(&mut self, _: &Asked, _: &Model, _: &mut Found<'_>) {}
    /// A server answers.
    fn answered(&mut self, _: &Asked, _: StatusCode, _: &mut Found<'_>) {}
    /// A part of an answer of a hub's server was read by an agent, which names these.
    fn heard(&mut self, _: &Asked, _: &[Named], _: &mut Found<'_>) {}
    /// A hub has said what it acts on.
    fn said(&mut self, _: &Said, _: &mut Found<'_>) {}
    /// The script told something.
    fn noted(&mut self, _: &Note, _: &Model, _: &mut Found<'_>) {}
}
