//! What a program may ask of an API server, as a table: who runs it reads why, charts make Roles of it, and tests hold it
//! against what the program does ask.

use crate::names::{AGENT_ROLE, ClusterName};
use k8s_openapi::api::rbac::v1::PolicyRule;

/// Stands in the names of a [`Right`] for the name of the cluster whose agent has it; no name has capitals.
pub const NAME: &str = "NAME";

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
    /// Names that it is confined to; empty for all. [`NAME`] in them stands for a cluster.
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

    /// Whether who has this right may give `other` away: it allows all that `other` does, whatever the cluster (as Kubernetes
    /// has it: who makes a Role has at least what is in it).
    pub fn covers(&self, other: &Right) -> bool {
        let everywhere = self.scope == Scope::Cluster || self.scope == other.scope;
        let names: &[&str] = if other.names.is_empty() {
            &[""]
        } else {
            other.names
        };
        let all = |verb: &&str| {
            let mut names = names.iter();
            names.all(|name| self.allows(verb, other.group, other.resource, name))
        };
        everywhere && other.verbs.iter().all(all)
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

/// The same of a table whose rights are of the agent of `cluster`.
pub fn rules_of(rights: &[Right], scope: Scope, cluster: &ClusterName) -> Vec<PolicyRule> {
    let mut rules = rules(rights, scope);
    let names = rules.iter_mut().filter_map(|rule| rule.resource_names.as_mut());
    for name in names.flatten() {
        *name = name.replace(NAME, cluster.as_str());
    }
    rules
}

/// What the agent of a cluster may on the hub: its Bundles, their status, its Lease and its ClusterReport, in the namespace of
/// its cluster and nowhere else. The hub makes the Role `roundhouse-agent` of it.
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
    Right {
        scope: Scope::OfCluster,
        group: "roundhouse.dev",
        resource: "clusterreports",
        names: &[NAME],
        verbs: &["get", "list", "patch", "update", "watch"],
        why: "what the agent says of its cluster",
    },
    // A Role cannot confine the right to create to a name: a create has none yet. On Kubernetes a ResourceQuota beside it lets one
    // report be; the embedded server, where nobody counts, refuses any other name itself.
    Right {
        scope: Scope::OfCluster,
        group: "roundhouse.dev",
        resource: "clusterreports",
        names: &[],
        verbs: &["create"],
        why: "the same, the first time; a ResourceQuota lets one be, and of another name it counts for nothing",
    },
];

const REQUESTS: &str = "certificatesigningrequests";

/// What the agent of a cluster, and who is invited to become it, may to get a certificate, where certificates are what agents
/// prove themselves by. The hub makes the ClusterRole `roundhouse-agent-<cluster>` of it.
pub const AGENT_CERTIFICATE: &[Right] = &[
    Right {
        scope: Scope::Cluster,
        group: "certificates.k8s.io",
        resource: REQUESTS,
        names: &[],
        verbs: &["create"],
        why: "to ask for a certificate; the hub approves what is of this agent under this name, and denies the rest",
    },
    Right {
        scope: Scope::Cluster,
        group: "certificates.k8s.io",
        resource: REQUESTS,
        names: &["roundhouse-agent-NAME"],
        verbs: &["delete", "get"],
        why: "to fetch it, and to clear the last request away",
    },
];

/// What the agent of a cluster, and who is invited to become it, may to get a token, where tokens are what agents prove
/// themselves by. The hub makes the Role `roundhouse-join` of it.
pub const AGENT_TOKEN: &[Right] = &[Right {
    scope: Scope::OfCluster,
    group: "",
    resource: "serviceaccounts/token",
    names: &[AGENT_ROLE],
    verbs: &["create"],
    why: "to get a token of the agent's account, once the cluster is accepted",
}];

/// All that a hub gives to others by Roles of its own making.
pub const HANDED_OUT: [&[Right]; 3] = [AGENT_ON_HUB, AGENT_CERTIFICATE, AGENT_TOKEN];

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

    #[test]
    fn the_rights_of_an_agent_name_its_own_cluster() {
        let cluster = ClusterName::new("c1").unwrap();
        let named = |table, scope| {
            let rules = rules_of(table, scope, &cluster);
            let names = rules
                .into_iter()
                .flat_map(|rule| rule.resource_names.unwrap_or_default());
            names.collect::<Vec<_>>()
        };
        assert_eq!(named(AGENT_ON_HUB, Scope::OfCluster), ["agent", "c1"]);
        let request = crate::names::AgentName::request(&cluster);
        assert_eq!(named(AGENT_CERTIFICATE, Scope::Cluster), [request]);
        assert_eq!(named(AGENT_TOKEN, Scope::OfCluster), [AGENT_ROLE]);
    }

    #[test]
    fn only_who_has_a_right_whole_may_give_it() {
        let has = |scope, names, verbs| Right {
            scope,
            names,
            verbs,
            ..AGENT_ON_HUB[2]
        };
        let given = &AGENT_ON_HUB[2];
        let verbs = given.verbs;
        assert!(has(Scope::Cluster, &[], verbs).covers(given));
        assert!(has(Scope::Cluster, &["agent", "x"], verbs).covers(given));
        assert!(has(Scope::Cluster, &[], &["*"]).covers(given));
        assert!(!has(Scope::Own, &[], verbs).covers(given));
        assert!(!has(Scope::Cluster, &["x"], verbs).covers(given));
        assert!(!has(Scope::Cluster, &[], &verbs[1..]).covers(given));
        // Of all names gives nobody who has it of some.
        assert!(!has(Scope::Cluster, &[NAME], verbs).covers(&has(Scope::OfCluster, &[], verbs)));
    }
}
