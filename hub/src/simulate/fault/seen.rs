//! How often what happened.

use parking_lot::Mutex;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A request did not arrive.
    RequestLost,
    /// A request was answered, and the answer did not arrive.
    AnswerLost,
    /// A connection was broken off.
    Reset,
    /// A request took its time.
    Delayed,
    /// The same request arrived twice.
    Duplicated,
    /// A request arrived long after others that were sent later.
    Late,
    /// A request was answered with an error: 409, 410, 429, 500.
    Refused,
    /// A request was not answered for as long as the fault lasted.
    Stalled,
    /// A list was answered as it was some time ago.
    Stale,
    /// A watch was ended.
    WatchEnded,
    /// A watch fell silent.
    WatchSilenced,
    /// A line of a watch took its time.
    FrameDelayed,
    /// A request met a line that is cut.
    CutOff,
    /// A set of clusters was cut off.
    Partition,
    /// A clock was put wrong.
    ClockJump,
    /// The disk had no room.
    DiskFull,
    /// The disk refused to sync.
    SyncFailed,
    /// The disk was slow.
    DiskSlow,
    /// A bit on the disk was another one than was written.
    BitFlipped,
    /// What the hub's API server stores was put back to a backup.
    HubRestored,
    /// The machine of the hub lost its power: what was not synced is lost.
    PowerCut,
    /// It lost its power while something was written that was not synced.
    Unsynced,
    /// Of what was written then some sectors were there afterwards, and others were not.
    Torn,
    /// A hub was killed.
    HubKilled,
    /// A hub was told to end.
    HubStopped,
    /// A hub ended by itself: its store failed, or it said why.
    HubEnded,
    /// A hub was held still.
    HubPaused,
    /// An agent was killed.
    AgentKilled,
    /// An agent was told to end.
    AgentStopped,
    /// An agent ended by itself, and said why.
    AgentEnded,
    /// Whoever was killed was so at the moment of its life that was foreseen: in the middle of something.
    KilledAtMoment,
}

impl Kind {
    /// Whether each of them is a fault by itself, not what one of them did to a request, a watch or a write.
    fn is_by_itself(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Partition
                | ClockJump
                | DiskFull
                | SyncFailed
                | DiskSlow
                | BitFlipped
                | HubRestored
                | PowerCut
                | HubKilled
                | HubStopped
                | HubPaused
                | AgentKilled
                | AgentStopped
        )
    }
}

/// Counts of what happened. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<Mutex<BTreeMap<Kind, u64>>>);

impl Seen {
    /// Counts one.
    pub fn note(&self, kind: Kind) {
        *self.0.lock().entry(kind).or_default() += 1;
    }

    /// How many faults happened beside those of requests and watches.
    pub(crate) fn by_themselves(&self) -> u64 {
        let counts = self.0.lock();
        let own = counts.iter().filter(|(kind, _)| kind.is_by_itself());
        own.map(|(_, count)| count).sum()
    }

    /// How often each kind happened that happened.
    pub fn counts(&self) -> BTreeMap<Kind, u64> {
        self.0.lock().clone()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::RequestLost => "request lost",
            Kind::AnswerLost => "answer lost",
            Kind::Reset => "connection reset",
            Kind::Delayed => "request delayed",
            Kind::Duplicated => "request duplicated",
            Kind::Late => "request late",
            Kind::Refused => "error answered",
            Kind::Stalled => "request stalled",
            Kind::Stale => "list stale",
            Kind::WatchEnded => "watch ended",
            Kind::WatchSilenced => "watch silenced",
            Kind::FrameDelayed => "watch line delayed",
            Kind::CutOff => "request cut off",
            Kind::Partition => "partition",
            Kind::ClockJump => "clock jump",
            Kind::DiskFull => "disk full",
            Kind::SyncFailed => "sync failed",
            Kind::DiskSlow => "disk slow",
            Kind::BitFlipped => "bit flipped",
            Kind::HubRestored => "hub restored",
            Kind::PowerCut => "power cut",
            Kind::Unsynced => "unsynced at a power cut",
            Kind::Torn => "write torn by a power cut",
            Kind::HubKilled => "hub killed",
            Kind::HubStopped => "hub stopped",
            Kind::HubEnded => "hub ended by itself",
            Kind::HubPaused => "hub paused",
            Kind::AgentKilled => "agent killed",
            Kind::AgentStopped => "agent stopped",
            Kind::AgentEnded => "agent ended by itself",
            Kind::KilledAtMoment => "killed in the middle of it",
        })
    }
}
