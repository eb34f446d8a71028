//! What an agent keeps of its identity: one document, so that a key and its certificate are never of two minds.

use super::error::IdentityError;
use super::invitation::Invitation;
use jiff::Timestamp;
use kube::config::{Cluster, Kubeconfig};
use roundhouse_api::names::{AgentName, ClusterName};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;

/// What is stored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stored {
    /// Who this agent is on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) identity: Option<Identity>,
    /// A key that a certificate is asked for; it is here before the hub hears of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<Pending>,
}

/// Who an agent is on a hub.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Identity {
    pub(crate) cluster: ClusterName,
    pub(crate) serial: u32,
    /// The hub's address and authority.
    pub(crate) hub: Cluster,
    pub(crate) credential: Credential,
    /// Since when the credential is good.
    pub(crate) from: Timestamp,
    /// Until when.
    pub(crate) until: Timestamp,
}

/// What an agent shows to its hub.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Credential {
    /// PEM, both.
    Certificate { key: String, certificate: String },
    /// A token of a ServiceAccount.
    Token(String),
}

/// A key that waits for its certificate, PEM both.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pending {
    pub(crate) serial: u32,
    pub(crate) key: String,
    /// Kept whole: signatures differ from one time to the next, and the hub's copy is compared with it.
    pub(crate) request: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Certificate { .. } => "Certificate",
            Credential::Token(_) => "Token",
        })
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("serial", &self.serial)
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// The user name on the hub, where certificates say it.
    pub(crate) fn name(&self) -> AgentName {
        AgentName::new(self.cluster.clone(), self.serial)
    }

    /// How the hub is reached as this identity.
    ///
    /// # Errors
    /// If it makes no kubeconfig, which only a changed document does.
    pub(crate) fn kubeconfig(&self) -> Result<Kubeconfig, IdentityError> {
        use base64::Engine;
        let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let user = match &self.credential {
            Credential::Certificate { key, certificate } => {
                json!({"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)})
            }
            Credential::Token(token) => json!({"token": token}),
        };
        let kubeconfig = json!({
            "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": self.hub}],
            "users": [{"name": "agent", "user": user}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "agent"}}],
        });
        Kubeconfig::deserialize(kubeconfig).map_err(|error| IdentityError::Access(error.to_string()))
    }
}

impl Stored {
    /// Reads what `place` holds, if it belongs to `cluster`.
    ///
    /// # Errors
    /// [`IdentityError::Stored`], [`IdentityError::StoredForOther`].
    pub(crate) fn parse(bytes: &[u8], place: &str, cluster: &ClusterName) -> Result<Self, IdentityError> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(|error| IdentityError::Stored {
            place: place.to_owned(),
            // Where, and never what: it is a secret.
            why: format!("line {}, column {}", error.line(), error.column()),
        })?;
        match &stored.identity {
            Some(identity) if identity.cluster != *cluster => Err(IdentityError::StoredForOther {
                place: place.to_owned(),
                stored: identity.cluster.to_string(),
                cluster: cluster.to_string(),
            }),
            _ => Ok(stored),
        }
    }

    /// With a new credential; the key that waited for one is spent.
    pub(crate) fn with(identity: Identity) -> Self {
        Stored {
            identity: Some(identity),
            pending: None,
        }
    }
}

/// Who asks the hub for a credential.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Voucher<'a> {
    /// Whoever was invited.
    Invitation(&'a Invitation),
    /// The agent as it is, for its renewal.
    Identity(&'a Identity),
}

impl Voucher<'_> {
    pub(crate) fn serial(&self) -> u32 {
        match self {
            Voucher::Invitation(invitation) => invitation.terms.serial,
            Voucher::Identity(identity) => identity.serial,
        }
    }

    /// Where the hub is.
    pub(crate) fn hub(&self) -> &Cluster {
        match self {
            Voucher::Invitation(invitation) => &invitation.hub,
            Voucher::Identity(identity) => &identity.hub,
        }
    }

    pub(crate) fn cluster(&self) -> &ClusterName {
        match self {
            Voucher::Invitation(invitation) => &invitation.terms.cluster,
            Voucher::Identity(identity) => &identity.cluster,
        }
    }

    /// How the hub is reached with it.
    ///
    /// # Errors
    /// As [`Identity::kubeconfig`].
    pub(crate) fn kubeconfig(&self) -> Result<Kubeconfig, IdentityError> {
        match self {
            Voucher::Invitation(invitation) => Ok(invitation.kubeconfig.clone()),
            Voucher::Identity(identity) => identity.kubeconfig(),
        }
    }

    /// Whether tokens are asked for, and no certificate.
    pub(crate) fn is_for_token(&self) -> bool {
        match self {
            Voucher::Invitation(invitation) => invitation.terms.method == super::invitation::Method::Token,
            Voucher::Identity(identity) => matches!(identity.credential, Credential::Token(_)),
        }
    }
}
