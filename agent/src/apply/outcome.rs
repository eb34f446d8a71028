//! The one outcome that each manifest of a pass ends with.

use crate::apply::adopt::Refused;
use crate::apply::decode::DecodeError;
use std::time::Duration;

/// The reason of an object that is being deleted to be made again.
pub(crate) const RECREATING: &str = "Recreating";

/// Failures that only a change of the bundle or of the object can end: they wait for one, or for the slow resync.
const PATIENT: [&str; 4] = [
    "ApplyConflict",
    "Immutable",
    "InvalidIgnoreField",
    "InvalidRecreateField",
];

/// How long a kind may be missing before that is a failure: an operator that is dispatched together with its custom
/// resources installs their definitions in that time.
pub(crate) const KIND_TAKES: Duration = Duration::from_secs(120);

/// What became of one manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The member has it as the bundle wants it.
    Applied(Applied),
    /// The manifest is no object.
    Undecodable(DecodeError),
    /// The member does not know the kind (yet). `lasting`: for longer than [`KIND_TAKES`].
    NoKind { message: String, lasting: bool },
    /// The object is not ours to touch.
    Refused(Refused),
    /// The member or the merge said no.
    Failed { reason: &'static str, message: String },
    /// Something that passes by itself stood in the way: conflict, time-out, an API server that is away.
    Delayed { reason: &'static str, message: String },
}

/// In which way an object is as the bundle wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It was made.
    Created,
    /// It was changed.
    Changed,
    /// Nothing differed.
    Unchanged,
    /// Apply-once, `CreateOnly` or `drift: Ignore` leaves it as it is.
    Left,
    /// It differs and `drift: Report` only says so.
    Drifted,
    /// Somebody else rewrites a field of it again and again, and the next repair is not due. It counts as applied:
    /// this content was written to it, and what differs now was written by the other one.
    Fought,
    /// `ReadOnly`: it is somebody else's and only looked at.
    Observed,
    /// It ran to its end and is gone.
    Finished,
    /// Somebody deleted it, and apply-once `Force` keeps it so.
    KeptDeleted,
}

impl Outcome {
    /// Whether the manifest counts as applied.
    pub(crate) fn is_applied(&self) -> bool {
        matches!(self, Outcome::Applied(_))
    }

    /// Whether the manifest counts as failed; what is only delayed, or not served yet, does not.
    pub(crate) fn is_failed(&self) -> bool {
        !matches!(
            self,
            Outcome::Applied(_) | Outcome::Delayed { .. } | Outcome::NoKind { lasting: false, .. }
        )
    }

    /// Whether trying again soon, without any change of the bundle, may help.
    pub(crate) fn wants_retry(&self) -> bool {
        match self {
            Outcome::Applied(_) | Outcome::Undecodable(_) => false,
            Outcome::Failed { reason, .. } => !PATIENT.contains(reason),
            Outcome::NoKind { .. } | Outcome::Refused(_) | Outcome::Delayed { .. } => true,
        }
    }

    /// The reason in a condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Outcome::Applied(Applied::KeptDeleted) => "KeptDeleted",
            Outcome::Applied(_) => "Applied",
            Outcome::Undecodable(error) => error.reason(),
            Outcome::NoKind { .. } => "NoKind",
            Outcome::Refused(refused) => refused.reason(),
            Outcome::Failed { reason, .. } | Outcome::Delayed { reason, .. } => reason,
        }
    }

    /// What a person should know; empty when all is well.
    pub(crate) fn message(&self) -> String {
        match self {
            Outcome::Applied(_) => String::new(),
            Outcome::Undecodable(error) => error.to_string(),
            Outcome::Refused(refused) => refused.to_string(),
            Outcome::NoKind { message, .. }
            | Outcome::Failed { message, .. }
            | Outcome::Delayed { message, .. } => message.clone(),
        }
    }
}
