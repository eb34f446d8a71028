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
/// The ServiceAccount in a cluster's namespace whose tokens invite an agent.
const JOIN_ACCOUNT: &str = "roundhouse-join";
/// Longest name of a cluster.
const MAX_CLUSTER: usize = 55;

use serde_json::{Value, json};

use crate::{names, object::set};

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

/// The cluster in the user name of an agent, `roundhouse:agent:<cluster>:<serial>`; empty if it begins like one and is none.
pub(crate) fn cluster_of_agent(user: &str) -> Option<&str> {
    let rest = user.strip_prefix(AGENT)?;
    let Some((cluster, serial)) = rest.split_once(':') else {
        return Some("");
    };
    let counts = serial
        .parse::<u32>()
        .is_ok_and(|n| n > 0 && n.to_string() == serial);
    let named = cluster.len() <= MAX_CLUSTER && names::dns_label(cluster).is_empty();
    Some(if counts && named { cluster } else { "" })
}

/// The cluster that a ServiceAccount invites an agent of: `system:serviceaccount:cluster-<cluster>:roundhouse-join`.
pub(crate) fn cluster_of_invitation(user: &str) -> Option<&str> {
    let (namespace, account) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let cluster = namespace.strip_prefix("cluster-")?;
    (account == JOIN_ACCOUNT && !cluster.is_empty()).then_some(cluster)
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

    /// The first agent of a cluster, `roundhouse:agent:<cluster>:1`.
    pub fn agent(cluster: &str) -> Self {
        Self::new(format!("{AGENT}{cluster}:1"), [AGENTS])
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
