//! The ledger: what a bundle intends and what it applied, written in the member before the member is touched.
//!
//! Its content is computed by pure functions ([`intend`], [`settle`]); [`Ledger`] holds the stored object and writes it
//! only when its content would change.

mod content;
mod size;
mod store;

pub(crate) use content::{
    Intentions, Ours, Settled, intend, is_leaving, may_be_asked_for, note_unanswered, obey, orphan, pause,
    remove_all, settle,
};
pub(crate) use size::{NoRoom, Room, check, weight_of_kept};
pub(crate) use store::{Ledger, entries, list};
