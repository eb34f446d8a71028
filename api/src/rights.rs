//! What a program may ask of an API server, as a table: who runs it reads why, charts make Roles of it, and tests hold it
//! against what the program does ask.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// Where a right holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In the whole of the API server: a ClusterRole and its binding.
    Cluster,
    /// In the namespace that the program itself runs in, by a Role there.
    Own,
    /// In the namespace of one cluster on the hub, `cluster-<name>`, by a Role there.
    OfCluster,
}

/// One right: verbs on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// Where it holds.
    pub scope: Scope,
    /// API group; empty for core.
    pub group: &'static str,
    /// Resource, with its subresource behind a slash: `bundles/status`.
    pub resource: &'static str,
    /// Names that it is confined to; empty for all.
    pub names: &'static [&'static str],
    /// Verbs, in alphabetical order.
    pub verbs: &'static [&'static str],
    /// What it is for, in one line for people.
    pub why: &'static str,
}

impl Right {
    /// Whether this right allows something; `resource` has its subresource behind a slash. A request without a name (a create, a
    /// list) is not allowed by a right that is confined to names, as in Kubernetes.
    pub fn allows(&self, verb: &str, group: &str, resource: &str, name: &str) -> bool {
        let verbs = self.verbs.contains(&verb) || self.verbs == ["*"];
        let group = self.group == group || self.group == "*";
        let resource = self.resource == resource || self.resource == "*";
        verbs && group && resource && (self.names.is_empty() || self.names.contains(&name))
    }

    /// The right as a rule of a Role.
    pub fn rule(&self) -> PolicyRule {
        let owned = |list: &[&str]| -> Vec<String> { list.iter().map(|text| (*text).to_owned()).collect() };
        PolicyRule {
            api_groups: Some(vec![self.group.to_owned()]),
            resources: Some(vec![self.resource.to_owned()]),
            resource_names: (!self.names.is_empty()).then(|| owned(self.names)),
            verbs: owned(self.verbs),
            ..PolicyRule::default()
        }
    }
}

/// The rules of those rights that hold in `scope`, in the order of the table.
pub fn rules(rights: &[Right], scope: Scope) -> Vec<PolicyRule> {
    rights
        .iter()
        .filter(|right| right.scope == scope)
        .map(Right::rule)
        .collect()
}

/// What the agent of a cluster may on the hub: its Bundles, their status, its Lease and its ClusterReport, in the namespace of
/// its cluster and nowhere else. The hub makes the Role of it.
pub const AGENT_ON_HUB: &[Right] = &[
    Right {
        scope: Scope::OfCluster,
        group: "roundhouse.dev",
        resource: "bundles",
        names: &[],
        verbs: &["get", "list", "watch"],
        why: "what is to be applied",
    },
    Right {
        scope: Scope::OfCluster,
        group: "roundhouse.dev",
        resource: "bundles/status",
        names: &[],
        verbs: &["get", "patch", "update"],
        why: "what became of it",
    },
    Right {
        scope: Scope::OfCluster,
        group: "coordination.k8s.io",
        resource: "leases",
        names: &[crate::names::AGENT_LEASE],
        verbs: &["get", "list", "patch", "update", "watch"],
        why: "the sign of life, and whether what the hub sends arrives",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_is_confined_to_names_allows_no_request_without_one() {
        let lease = &AGENT_ON_HUB[2];
        let may = |verb, resource, name| lease.allows(verb, "coordination.k8s.io", resource, name);
        assert!(may("patch", "leases", "agent"));
        assert!(!may("patch", "leases", ""));
        assert!(!may("patch", "leases", "agent-2"));
        assert!(!may("delete", "leases", "agent"));
        assert!(!may("patch", "leases/status", "agent"));
    }

    #[test]
    fn rules_are_those_of_the_scope() {
        let rules = rules(AGENT_ON_HUB, Scope::OfCluster);
        assert_eq!(rules.len(), AGENT_ON_HUB.len());
        assert_eq!(
            rules[2].resource_names.as_deref(),
            Some(&["agent".to_owned()][..])
        );
        assert!(super::rules(AGENT_ON_HUB, Scope::Cluster).is_empty());
    }
}
