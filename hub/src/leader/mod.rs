//! Which hub writes: a Lease elects one leader among several hubs, and every term of a leader has an epoch of its own.
//!
//! | module | what it does |
//! | --- | --- |
//! | `timing` | how long a Lease holds, and how often it is renewed |
//! | `lease` | the Lease as it is read and written |
//! | `skew` | how far this clock is off the leader's; pure |
//! | `decide` | whose turn it is; pure |
//! | `epoch` | the fencing epoch of a new term |
//! | `candidate` | stands for election: follows the Lease until it is ours |
//! | `held` | a Lease that is ours: renewed, marked with the epoch, released |
//! | `gate` | lets nothing be written but by the leader |
//! | `leading` | what the controllers know of it |
//!
//! Architecture Invariant: the epoch of a term is stored on the Lease, with the resourceVersion of this hub's own
//! acquisition, before anything else is written; so of two hubs that both think that they lead, one has the higher epoch. What
//! the other one still writes the embedded API server refuses, whatever it is: every write names its term. On a kube-apiserver
//! it is refused by the transition rule of the epoch or by the resourceVersion where the new leader has written the object,
//! and stopped by the gate else: what passed the gate before and arrives late there is put right by the new leader, as
//! anything that somebody else wrote.

mod candidate;
mod decide;
mod epoch;
mod gate;
mod held;
mod leading;
mod lease;
mod skew;
mod timing;

pub(crate) use candidate::Candidate;
pub(crate) use epoch::{Claims, each, is_newer, obeyed_epoch};
pub use epoch::{LEAP, MAX_EPOCH, stored_epoch};
pub(crate) use gate::Guarded;
pub use gate::{Gate, NotLeading};
pub(crate) use held::{Ended, Held};
pub use leading::{Leading, Standing, Term};
pub use lease::{LEASE, NAMESPACE};
pub use timing::{Timing, TimingError};

/// Whether and where a hub stands for election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    /// Namespace of the Lease; it is created if it is not there.
    pub namespace: String,
    /// What tells this hub from the others.
    pub identity: String,
    /// `None` for a hub that is alone: it leads without asking, and whoever held the Lease does not any more. Another one that
    /// is started so takes the Lease from it, and has it until it gives it up.
    pub timing: Option<Timing>,
}

impl Default for Election {
    fn default() -> Self {
        Election {
            namespace: NAMESPACE.to_owned(),
            identity: "roundhouse".to_owned(),
            timing: None,
        }
    }
}
