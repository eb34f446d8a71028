//! What can be wrong with a journal.

use std::io;

/// Why a journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has the directory.
    #[error("{place} is in use by another process; stop that one, or use another directory")]
    InUse {
        /// The directory.
        place: String,
    },
    /// The file system refuses.
    #[error("cannot {what} {place}/{file}: {source}")]
    Io {
        /// What was to be done.
        what: &'static str,
        /// The directory.
        place: String,
        /// The file; empty for the directory itself.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Acknowledged writes are damaged.
    #[error(
        "{place}/{file} is damaged at offset {offset}: {why}. Nothing was changed: bring the file back from where it is whole, or restore a backup into an empty directory"
    )]
    Damaged {
        /// The directory.
        place: String,
        /// The file.
        file: String,
        /// Bytes from its start.
        offset: u64,
        /// What is wrong there.
        why: String,
    },
    /// A file that others go on from is not there.
    #[error(
        "{place}/{file} is missing, and other files go on from it. Nothing was changed: bring it back, or restore a backup into an empty directory"
    )]
    Missing {
        /// The directory.
        place: String,
        /// The file.
        file: String,
    },
    /// A newer program wrote a file.
    #[error(
        "{place}/{file} has layout version {found}, and this program reads version {reads}: use the newer program"
    )]
    Version {
        /// The directory.
        place: String,
        /// The file.
        file: String,
        /// Version found.
        found: u32,
        /// Version read.
        reads: u32,
    },
}

impl JournalError {
    /// What was to be done where bytes were to survive a crash.
    pub(super) const SYNC: &'static str = "sync";

    /// Whether the disk could not make something survive: nobody knows what is on it.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Io { what, .. } if *what == Self::SYNC)
    }

    /// Whether room on the disk would help. Never after a failed sync: what is on the disk is unknown then.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Self::Io { what, source, .. } => {
                *what != Self::SYNC && matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            }
            _ => false,
        }
    }
}
