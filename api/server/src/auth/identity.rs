//! Who asks.

/// An authenticated user: of a client certificate the common name and organizations.
///
/// Put one into a request's extensions to act as somebody else through the in-process service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl Identity {
    /// A user with groups.
    pub fn new(user: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            user: user.into(),
            groups: groups.into_iter().map(Into::into).collect(),
        }
    }

    /// The administrator: member of `system:masters`.
    pub fn admin() -> Self {
        Self::new("roundhouse:admin", ["system:masters"])
    }

    /// The agent of a cluster.
    pub fn agent(cluster: &str) -> Self {
        Self::new(format!("roundhouse:agent:{cluster}"), ["roundhouse:agents"])
    }

    /// Whether the user is in a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}
