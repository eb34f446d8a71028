//! What can go wrong with an identity.

use std::path::PathBuf;

/// Why an invitation or an identity cannot be used as it is.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// An invitation is not what `roundhouse join` gives.
    #[error("the invitation {why}; take the one that `roundhouse join NAME` prints, whole")]
    Invitation {
        /// What is wrong with it.
        why: String,
    },
    /// An invitation is of another cluster.
    #[error(
        "the invitation is for cluster {invited}, and this agent is of cluster {cluster}: check --cluster"
    )]
    OtherCluster {
        /// Whom it invites.
        invited: String,
        /// Whose agent this is.
        cluster: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// What is stored is no identity.
    #[error(
        "{place} holds no identity that this agent can read: {why}; remove it and join again (roundhouse join NAME)"
    )]
    Stored {
        /// Where.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// What is stored belongs to another cluster.
    #[error(
        "{place} holds the identity of cluster {stored}, and this agent is of cluster {cluster}: give each agent its own"
    )]
    StoredForOther {
        /// Where.
        place: String,
        /// Whose identity it is.
        stored: String,
        /// Whose agent this is.
        cluster: String,
    },
    /// A key or a request for a certificate could not be made.
    #[error("a key and its request for a certificate could not be made: {0}")]
    Key(#[from] rcgen::Error),
    /// A certificate cannot be used.
    #[error("the certificate that was issued {0}; check the signer of the hub")]
    Certificate(&'static str),
    /// The connection to the hub could not be set up.
    #[error("the hub's address or credentials cannot be used: {0}")]
    Access(String),
    /// An API server did not answer as it should.
    #[error("{what}: {why}")]
    Call {
        /// What was asked.
        what: &'static str,
        /// The answer.
        why: String,
        /// Whether who asked is not known (401): their credentials ended.
        unknown_caller: bool,
    },
}

impl IdentityError {
    /// The failure of a call.
    pub(crate) fn call(what: &'static str, error: &crate::error::CallError) -> Self {
        IdentityError::Call {
            what,
            why: error.reasons(),
            unknown_caller: error.status().is_some_and(|status| status.code == 401),
        }
    }

    /// Whether the server does not know who asked.
    pub(crate) fn is_unknown_caller(&self) -> bool {
        matches!(
            self,
            IdentityError::Call {
                unknown_caller: true,
                ..
            }
        )
    }
}
