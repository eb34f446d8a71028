//! The controller that strings rendering, revisions, workflow and dispatch together.
//!
//! | module | what it does |
//! | --- | --- |
//! | `feed` | watches Applications, Placements, Bundles, Clusters, Decisions and ApplicationRevisions into the cache |
//! | `feedback` | outputs of placing steps: what agents are to report, and what they do |
//! | `patching` | changes that a run has come to know, as overrides of a decision |
//! | `fleet` | the one index of the clusters |
//! | `cache` | what the hub knows, without manifests; never goes back in time |
//! | `queue` | which application is looked at next; one pass of an application at a time |
//! | `pass` | one level-triggered pass over one application |
//! | `admission` | whether the tenancy of the hub admits what an application contains |
//! | `revisions` | which revision a spec is, and its record |
//! | `foresee` | what a run would come to: the same functions over a snapshot, without a write |
//! | `placements` | Placements and their status |
//! | `placing` | the decisions of the placing steps; pure |
//! | `acting` | steps that act: their jobs, and going back to an earlier revision |
//! | `bundles` | the writes of a plan |
//! | `unanswered` | sees to it that no write is done long after it was given up |
//! | `going_back` | lets agents go back to what a restored hub says, when that was confirmed |
//! | `expiring` | deletes hand-written Bundles some time after they are complete |
//! | `removing` | garbage collection, and the deletion of an application |
//! | `objects` | what steps want that have an object in clusters, and what the clusters show of it |
//! | `view` | what one round of a pass looks at, from one state of the cache |
//! | `lifecycle` | its two ends: the finalizer, the deletion |
//! | `storing` | the write of a status, if it differs and not too often |
//! | `status` | what the Application's status says; written only when it differs |
//! | `events` | tells what moved, as Events |
//! | `history` | which revisions are kept, which were delivered, and which one a rollback goes to |
//!
//! Architecture Invariant: a step's start is stored in the Application's status before anything of it is dispatched,
//! so that a command or a new spec that came in between wins by resourceVersion.

mod acting;
mod admission;
mod bundles;
mod cache;
mod controller;
mod error;
pub(crate) mod events;
mod expiring;
mod feed;
mod feedback;
mod fleet;
mod foresee;
mod going_back;
pub(crate) mod history;
mod lifecycle;
mod objects;
mod pass;
mod patching;
mod placements;
mod placing;
mod queue;
mod removing;
mod revisions;
mod status;
mod storing;
#[cfg(test)]
pub(crate) mod testing;
mod tries;
mod unanswered;
mod view;
mod witness;

pub use controller::{ApplicationOptions, DEFAULT_REVISION_LIMIT, WRITES_AT_ONCE_IN_PROCESS, run};
pub use error::PassError;
pub use foresee::{Foreseen, ForeseenDecision, Proposal, Snapshot, Unforeseen, foresee, understand};
pub use objects::ForeseenObject;
pub(crate) use placing::looking;
pub use unanswered::Making;
pub use witness::{Decided, Said, Witness};

/// Namespace and name.
pub(crate) type Key = (String, String);
