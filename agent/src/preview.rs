//! What the next pass would do with the objects of an application, and why, without doing it.
//!
//! The same functions decide here as in a pass (`apply::decode`, `apply::strategy`, `apply::decide`, `apply::prune`), so
//! that a preview cannot promise something else. [`preview`] reads the ledger and the live objects and writes nothing;
//! [`offline`] is the same against objects that are given.

mod difference;
mod member;
mod object;
mod offline;
mod owners;
mod part;
mod secret;
mod server_side;

pub use difference::{Difference, Shown, Verdict};
pub use member::preview;
pub use offline::offline;
pub use owners::Owner;

use roundhouse_api::bundle::{ApplyOnce, BundleSpec};

/// One Bundle of an application on one cluster, as the hub has it.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
    /// Whether its agent has reported that it applied something of it: then the member must have its ledger.
    pub applied: bool,
    /// The spec.
    pub spec: BundleSpec,
}

/// On what terms the cluster's agent works.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Id of the hub, as in the markers and ledgers of the member.
    pub hub_id: String,
    /// The agent's apply-once mode, for bundles that do not say.
    pub apply_once: ApplyOnce,
    /// What the digests of secret values are salted with. It should be new for each preview: a short value could be
    /// found by trying all of them otherwise.
    pub salt: [u8; 16],
}

/// What the next pass would do with the objects of an application on one cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// In the order of the bundles and their manifests; objects that go come after those of their bundle.
    pub objects: Vec<ObjectPreview>,
    /// Bundles of which nothing is applied now, with the reason.
    pub held: Vec<Held>,
}

/// A bundle of which nothing is applied now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Name of the Bundle.
    pub bundle: String,
    /// A word for it: `Paused`, `HashMismatch`, `OldEpoch`, …
    pub reason: String,
    /// What a person should know.
    pub message: String,
}

/// What the next pass would do with one object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectPreview {
    /// Name of the Bundle.
    pub bundle: String,
    /// Place in the Bundle, from 0; `None` for an object that is only in the ledger.
    pub ordinal: Option<u32>,
    /// API group, empty for the core group; of a manifest that does not decode, what can be read of it.
    pub group: String,
    /// API version without the group.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What would be done.
    pub action: Action,
    /// A word for the reason, as in the conditions of a Bundle; empty if there is nothing to say.
    pub reason: String,
    /// What a person should know; empty if there is nothing to say.
    pub message: String,
    /// Where last applied, live and desired part, in the order of the paths.
    pub differences: Vec<Difference>,
}

impl ObjectPreview {
    /// Whether there is anything to say about it.
    pub fn is_quiet(&self) -> bool {
        self.action == Action::Nothing && self.differences.is_empty()
    }
}

/// What a pass would do with one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed.
    Change,
    /// It is deleted and made again.
    Recreate,
    /// It is left as it is.
    Nothing,
    /// It is not ours to touch.
    Refuse,
    /// Something stands in the way that passes by itself.
    Wait,
    /// It cannot be applied.
    Fail,
    /// It is no longer in the bundle and is deleted.
    Delete,
    /// It is no longer in the bundle and stays, without our marker.
    Release,
    /// It is no longer in the bundle, and gone or somebody else's: the ledger forgets it.
    Forget,
}

impl Action {
    /// The word for it: `Create`, `Change`, …
    pub fn word(self) -> &'static str {
        match self {
            Action::Create => "Create",
            Action::Change => "Change",
            Action::Recreate => "Recreate",
            Action::Nothing => "Nothing",
            Action::Refuse => "Refuse",
            Action::Wait => "Wait",
            Action::Fail => "Fail",
            Action::Delete => "Delete",
            Action::Release => "Release",
            Action::Forget => "Forget",
        }
    }
}

/// Why there is no preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The member does not answer, or not this user.
    #[error("the member cannot be read: {0}")]
    Member(String),
    /// The member has no ledger of a bundle that was applied.
    #[error(
        "bundle {bundle} was applied, but this cluster has no ledger of it for hub {hub_id}{others}: it is another cluster"
    )]
    NoLedger {
        /// Name of the Bundle.
        bundle: String,
        /// Id of the hub.
        hub_id: String,
        /// The hubs that it has ledgers of, as a remark.
        others: String,
    },
    /// The member's ledger is about another Bundle of the same name.
    #[error(
        "the ledger of bundle {bundle} in this cluster is about the Bundle with uid {found}, but the one of this cluster name has {expected}: it is another cluster"
    )]
    OtherBundle {
        /// Name of the Bundle.
        bundle: String,
        /// Uid in the ledger.
        found: String,
        /// Uid on the hub.
        expected: String,
    },
}
