//! The fleet harness.

mod backend;
mod door;
mod fleet;
mod member;
mod options;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

pub use backend::Standing;
pub use fleet::Fleet;
pub(crate) use fleet::member_spec;
pub use options::{
    Clocks, Configure, FleetOptions, HUB, MemberSpec, OTHER_HUB, SOMEBODY, Stores, Through, WORKLOADS,
};
pub use wire::{Answer, AnswerBody, Ends, Overdue, Sent, Wire, Wires};

use crate::words;

/// Why a fleet cannot be started or asked.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// A server refused.
    #[error("{what} failed: {}", words::said(source))]
    Api {
        /// What was being done.
        what: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// The hub's definitions cannot be installed.
    #[error(transparent)]
    Install(#[from] crate::run::HubError),
    /// There is no such member.
    #[error("no member is named {0:?}: see Fleet::members for the names")]
    NoSuchMember(String),
    /// The API server stands by itself: it has no counters and no service of ours.
    #[error("the API server of {0:?} is not embedded: ask it through a client")]
    NotEmbedded(String),
}

impl HarnessError {
    fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> HarnessError {
        let what = what.into();
        move |source| HarnessError::Api {
            what,
            source: Box::new(source),
        }
    }
}
