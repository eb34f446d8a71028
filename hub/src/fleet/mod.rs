//! The fleet as a whole: what a change of one cluster does to every application, and what each cluster has. Pure.
//!
//! | module | question |
//! | --- | --- |
//! | [`impact()`] | which applications would decide anew, what would move, what would be removed? |
//! | [`ahead()`] | what will the clock alone change? |
//! | [`Counts`], [`summary()`] | what became of all Bundles, by cluster and by application? |
//! | [`load()`] | which applications are placed on a cluster, with how many replicas? |
//!
//! Architecture invariant: nothing here decides. What would come of a change is foreseen by the controller's own functions
//! ([`foresee`](crate::application::foresee)), once with the cluster as it is and once with the cluster as it would be.

mod counts;
mod impact;
mod later;
mod load;
mod summary;
#[cfg(test)]
mod tests;

pub use counts::{Application, Counts, Tally};
pub use impact::{ApplicationImpact, Impact, Moved, impact};
pub use later::{Later, ahead, next_change};
pub use load::{Load, load};
pub use summary::{ApplicationRow, ClusterRow, Members, Summary, summary};
