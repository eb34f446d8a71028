//! Who asks.

use std::collections::BTreeMap;

/// Everybody who is known.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who is not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user that nobody is known as.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// Those who may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of agents.
pub(crate) const AGENTS: &str = "roundhouse:agents";
/// What stands before the cluster in the user name of an agent.
const AGENT: &str = "roundhouse:agent:";

use serde_json::{Value, json};

use crate::object::set;

/// An authenticated user: of a client certificate the common name and organizations.
///
/// Put one into a request's extensions to act as somebody else through the in-process service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What tells this user from an earlier one of the same name; of service accounts only.
    pub uid: String,
    /// Whatever else is known of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The cluster in the user name of an agent.
pub(crate) fn cluster_of_agent(user: &str) -> Option<&str> {
    user.strip_prefix(AGENT)
}

impl Identity {
    /// A user with groups.
    pub fn new(user: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            user: user.into(),
            groups: groups.into_iter().map(Into::into).collect(),
            uid: String::new(),
            extra: BTreeMap::new(),
        }
    }

    /// The administrator: member of `system:masters`.
    pub fn admin() -> Self {
        Self::new("roundhouse:admin", [MASTERS])
    }

    /// The agent of a cluster.
    pub fn agent(cluster: &str) -> Self {
        Self::new(format!("{AGENT}{cluster}"), [AGENTS])
    }

    /// Kubernetes' `UserInfo`, as reviews and audit events show it.
    pub(crate) fn to_user_info(&self) -> Value {
        let mut user = json!({"username": self.user, "groups": self.groups});
        if !self.uid.is_empty() {
            set(&mut user, "uid", Some(self.uid.as_str().into()));
        }
        if !self.extra.is_empty() {
            set(&mut user, "extra", Some(json!(self.extra)));
        }
        user
    }

    /// Whether the user is in a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The cluster of an agent, empty if its name is none; `None` for everybody who is no agent.
    ///
    /// The group alone makes an agent too: of no cluster, so that it may nothing.
    pub(crate) fn agent_of(&self) -> Option<&str> {
        match cluster_of_agent(&self.user) {
            None => self.in_group(AGENTS).then_some(""),
            some => some,
        }
    }

    /// With the group that Kubernetes adds: everybody who is known, or everybody who is not.
    #[must_use]
    pub(crate) fn with_everybody(mut self) -> Self {
        if !self.in_group(AUTHENTICATED) && !self.in_group(UNAUTHENTICATED) {
            let everybody = if self.user == ANONYMOUS {
                UNAUTHENTICATED
            } else {
                AUTHENTICATED
            };
            self.groups.push(everybody.to_owned());
        }
        self
    }
}
