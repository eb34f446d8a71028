//! The journal of the durable store: every change in the order of revisions, each durable before anybody hears of it.
//!
//! Files of a directory:
//! - `segment-<sequence>`: changes. Written over zeros (or over a segment that is no longer needed), since writing into
//!   allocated blocks is what a disk syncs fastest. A full one is sealed, and the next goes on.
//! - `base-<revision>`: every object as of a revision at which a segment begins. Segments before it are dropped, those
//!   after it are both the later changes and the history that watches resume from.
//! - `spare-<number>`: a next segment, made in advance, so that a full disk shows while there is room.
//!
//! Architecture invariant: at most one frame that was not synced yet is in a file, so that after a crash everything before
//! the last frame is whole, and anything else is damage.

mod base;
mod error;
mod frame;
mod read;
mod write;

pub(super) use base::{Place, write_base, write_objects};
pub use error::JournalError;
pub(super) use read::{Recovered, read_objects, recover};
pub(super) use write::{Journal, Segment, Spares, drop_segments, make_spare, seed, size};

use std::io;

use super::disk::Disk;

const SEGMENT: &str = "segment-";
const BASE: &str = "base-";

/// Whether a file of this name holds objects.
pub(super) fn is_part(name: &str) -> bool {
    name.starts_with(SEGMENT) || name.starts_with(BASE)
}
const SPARE: &str = "spare-";
/// End of the name of a file that is not whole yet.
const UNFINISHED: &str = ".tmp";

pub(super) fn segment_name(sequence: u64) -> String {
    format!("{SEGMENT}{sequence:016}")
}

pub(super) fn base_name(revision: u64) -> String {
    format!("{BASE}{revision:020}")
}

fn failed<'a>(
    disk: &'a dyn Disk,
    what: &'static str,
    file: &'a str,
) -> impl Fn(io::Error) -> JournalError + 'a {
    move |source| JournalError::Io {
        what,
        place: disk.place(),
        file: file.to_owned(),
        source,
    }
}
