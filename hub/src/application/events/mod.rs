//! Events on Applications: what `kubectl describe application` shows below the status.
//!
//! | module | what it does |
//! | --- | --- |
//! | `transitions` | what moved between two statuses; pure, and also what `roundhouse watch` prints line by line |
//! | `recorder` | writes it as core/v1 Events |
//! | `ended` | counts what ended: steps with how long they took, runs |
//!
//! A transition is told when the status that has it was stored, so a conflict or a repeated pass tells nothing twice, and a
//! steady state tells nothing. Events are for people: one that is lost with the hub's process changes nothing.

mod ended;
mod recorder;
mod transitions;

pub(super) use ended::ended;
pub(super) use recorder::{About, Recorder, record};
pub(crate) use transitions::{Transition, transitions, transitions_called};
