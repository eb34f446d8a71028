//! What can be wrong with managed fields and with an applied configuration.

use super::Conflicts;
use crate::MAX_DEPTH;

/// Why managed fields cannot be read. Messages name the entry and the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManagedError {
    /// An entry is not what `metadata.managedFields` holds.
    #[error("managedFields[{entry}]: {reason}")]
    BadEntry {
        /// Index of the entry.
        entry: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A key of `fieldsV1` is none of `.`, `f:…`, `k:…`, `v:…`, `i:…`.
    #[error("fieldsV1: {key:?} names no field: {reason}")]
    BadStep {
        /// The key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A value of `fieldsV1` is not an object.
    #[error("fieldsV1: {key:?} must hold an object")]
    NoObject {
        /// Its key.
        key: String,
    },
    /// Sets nest no deeper than the documents they are about.
    #[error("fieldsV1: nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// Why a configuration is not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Others own fields that would get another value.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// The configuration does not fit the kind; `path` is written as in conflicts.
    #[error("{path}: {reason}")]
    Misfit {
        /// The field.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}
