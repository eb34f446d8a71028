//! Registration, heartbeats, conditions and taints of member clusters.
//!
//! For each accepted `Cluster` the hub keeps a namespace `cluster-<name>` with a Lease `agent` in it; the cluster's
//! agent renews that Lease and writes a `ClusterReport` beside it. [`judge()`] is the whole decision: what the status
//! says given what was seen, pure and without I/O. [`run()`] watches, calls it and writes what differs.
//!
//! Architecture Invariant: freshness is measured by the hub's clock from the moment the hub saw the Lease change; the
//! agent's timestamps are only compared for being different, so that skewed clocks change nothing.

mod answer;
mod controller;
mod due;
mod facts;
mod grant;
mod heartbeat;
mod join;
mod judge;
mod labels;
mod leave;
mod mirror;
mod objects;
mod options;
mod pass;
mod provision;
mod sight;
#[cfg(test)]
mod tests;

pub use controller::run;
pub use facts::{Facts, checked as checked_facts};
pub use heartbeat::{Heartbeat, Heartbeats};
pub use judge::{Home, Judgement, Observed, Obstacle, judge, same_but_last_seen};
pub(crate) use mirror::Mirror;
pub use options::{ClusterOptions, hub_id};

/// Why a pass over a cluster did not finish; the pass is repeated with back-off.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The API server refused or could not be reached.
    #[error("cluster {cluster}: {action} failed: {source}; it is tried again")]
    Api {
        /// Cluster name.
        cluster: String,
        /// What was being done.
        action: &'static str,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// An object that the hub needs is somebody else's.
    #[error(
        "cluster {cluster}: {what} {name:?} exists and was not made by this hub for it: remove it, or label it as the hub does"
    )]
    Foreign {
        /// Cluster name.
        cluster: String,
        /// What it would be.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// An object changed while it was written.
    #[error("cluster {cluster}: {what} changed meanwhile; it is looked at again")]
    Changed {
        /// Cluster name.
        cluster: String,
        /// What it is.
        what: &'static str,
    },
    /// A pass took too long.
    #[error("cluster {cluster}: no answer from the hub's API server for {seconds} s; it is tried again")]
    Timeout {
        /// Cluster name.
        cluster: String,
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
}
