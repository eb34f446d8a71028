//! Who the agent is on the hub: it is invited, asks for a certificate with a key of its own, and renews it.
//!
//! | module | what |
//! | --- | --- |
//! | `invitation` | what `roundhouse join` gives: a kubeconfig that says whom it is for |
//! | `next` | what is to be done, given what is stored, the invitation and the clock; pure |
//! | `request` | what the CertificateSigningRequest on the hub tells; pure |
//! | `certificate` | keys, requests, and from when to when a certificate is good |
//! | `place`, `stored` | where an identity is kept, and as what |
//! | `keeper` | does it: one step at a time, each of which may be the last before a crash |
//! | `swap` | one client of the hub whose credential changes underneath |
//!
//! Architecture invariant: a key is stored before the hub hears of it, and a credential before it is used. Whatever step a
//! crash comes after, the next start goes on from there.
//!
//! Architecture invariant: a credential that expired or was revoked never ends the agent. It goes on without its hub, says
//! what to do, and takes the next invitation.

mod certificate;
mod error;
mod invitation;
mod keeper;
mod next;
mod place;
mod request;
mod stored;
mod swap;

pub use error::IdentityError;
pub use invitation::{EXTENSION, Invitation, Method, Source, Terms};
pub use keeper::{Dial, Keeper, dial};
pub use place::{DOCUMENT, Place};

#[cfg(test)]
pub(crate) mod tests {
    use super::stored::{Credential, Identity};
    use jiff::Timestamp;
    use roundhouse_api::names::ClusterName;

    /// An identity of `c1`.
    pub(crate) fn identity() -> Identity {
        Identity {
            cluster: ClusterName::new("c1").unwrap(),
            serial: 1,
            hub: kube::config::Cluster {
                server: Some("https://hub.example.com:6443".to_owned()),
                ..kube::config::Cluster::default()
            },
            credential: Credential::Token("t".to_owned()),
            from: Timestamp::UNIX_EPOCH,
            until: Timestamp::UNIX_EPOCH,
        }
    }
}
