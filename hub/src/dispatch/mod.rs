//! Decision + manifests -> Bundles; reports -> roll-up.
//!
//! Everything here is pure; the application controller does the writes.
//!
//! | module | question |
//! | --- | --- |
//! | [`observed`] | what does the hub remember of a Bundle? |
//! | [`shares()`] | which cluster gets how many replicas, over all steps of a run? |
//! | [`overrides`] | what differs on this cluster, and can it be applied? |
//! | [`content`] | which manifests are that, in how many parts, with which hash? |
//! | [`mixed`] | which step gives which component, where steps dispatch single ones? |
//! | [`object`] | where is the object of a step, and where does it differ? |
//! | [`taking`] | what does a step take away again, and who has reported that it is gone? |
//! | [`waves`] | how many clusters are under way at a time? |
//! | [`plan()`] | which Bundles differ from what is wanted? |
//! | [`evidence`] | what has a cluster shown about the content that was dispatched to it? |
//! | [`rollup`] | what does the Application's status say about all of them? |
//! | [`expiry`] | when does a hand-written Bundle go by itself? |
//! | [`removal`] | what may go, in which order, within which budget? |
//!
//! Architecture Invariant: epoch, revision and stamps alone never cause a write here, but of a Bundle of an earlier term that
//! its agent ignores (after a confirmed restore the application controller's `going_back` raises epochs); a Bundle is removed only after its
//! `spec.deletion` was written.

pub mod content;
pub mod evidence;
pub mod expiry;
pub mod mixed;
pub mod object;
pub mod observed;
pub mod overrides;
pub mod plan;
pub mod removal;
pub mod rollup;
pub mod shares;
pub mod slim;
pub mod taking;
#[cfg(test)]
mod tests;
pub mod waves;

pub(crate) use content::MAX_PARTS;
pub use content::{Content, Divided, Part, Refusal};
pub use evidence::cluster_evidence;
pub(crate) use evidence::failure;
pub use object::{ObjectRequest, object_plan};
pub use observed::Observed;
pub use plan::{Plan, Request, Target, Todo, Wanted, plan};
pub use rollup::{Member, Unplaced, roll_up};
pub use shares::{Layer, Share, shares};
pub use slim::Slim;
pub use taking::{Taken, Taking, take_away};
pub use waves::{Wave, hold_back};
