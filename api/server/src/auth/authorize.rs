//! What they may.

use super::Identity;

/// One request, as an authorizer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'a str,
    /// API group; empty for core.
    pub group: &'a str,
    /// Resource, such as `bundles`.
    pub resource: &'a str,
    /// Subresource, such as `status`; empty if none.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped objects and for requests across namespaces.
    pub namespace: &'a str,
    /// Object; empty if the request concerns many.
    pub name: &'a str,
}

/// Decides who may do what.
pub trait Authorizer: Send + Sync + 'static {
    /// Whether `identity` may do this.
    fn allows(&self, identity: &Identity, attributes: &Attributes<'_>) -> bool;
}

/// Everybody may do everything, except agents: each of them is confined to its own namespace.
///
/// `roundhouse:agent:<cluster>` may, in namespace `cluster-<cluster>` and nowhere else, get, list and watch bundles,
/// write their status, and keep its Lease and its ClusterReport. Names are compared whole, never by prefix.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAuthenticated;

impl Authorizer for AllowAuthenticated {
    fn allows(&self, identity: &Identity, attributes: &Attributes<'_>) -> bool {
        match identity.user.strip_prefix("roundhouse:agent:") {
            None => !identity.in_group("roundhouse:agents"),
            Some(cluster) => !cluster.is_empty() && agent(cluster, attributes),
        }
    }
}

fn agent(cluster: &str, a: &Attributes<'_>) -> bool {
    if a.namespace != format!("cluster-{cluster}") {
        return false;
    }
    let read = matches!(a.verb, "get" | "list" | "watch");
    let write = matches!(a.verb, "update" | "patch");
    match (a.group, a.resource, a.subresource) {
        ("roundhouse.dev", "bundles", "") => read,
        ("roundhouse.dev", "bundles", "status") => write || a.verb == "get",
        // A create carries its name in the body, which the namespace confines.
        ("coordination.k8s.io", "leases", "") | ("roundhouse.dev", "clusterreports", "" | "status") => {
            read || write || a.verb == "create"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(user: &str, verb: &str, path: &str) -> bool {
        let parts: Vec<&str> = path.split('|').collect();
        let [group, resource, subresource, namespace] = parts[..] else {
            panic!("{path}")
        };
        let groups = if user.starts_with("roundhouse:agent") {
            vec!["roundhouse:agents"]
        } else {
            vec![]
        };
        AllowAuthenticated.allows(
            &Identity::new(user, groups),
            &Attributes {
                verb,
                group,
                resource,
                subresource,
                namespace,
                name: "n",
            },
        )
    }

    #[test]
    fn agents_are_confined() {
        let east = "roundhouse:agent:east";
        for verb in ["get", "list", "watch"] {
            assert!(may(east, verb, "roundhouse.dev|bundles||cluster-east"));
            assert!(!may(east, verb, "roundhouse.dev|bundles||cluster-east-2"));
            assert!(!may(east, verb, "roundhouse.dev|bundles||cluster-eas"));
            assert!(!may(east, verb, "roundhouse.dev|bundles||"));
            assert!(!may(east, verb, "|secrets||cluster-east"));
        }
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            assert!(!may(east, verb, "roundhouse.dev|bundles||cluster-east"));
        }
        assert!(may(east, "patch", "roundhouse.dev|bundles|status|cluster-east"));
        assert!(may(east, "create", "coordination.k8s.io|leases||cluster-east"));
        assert!(may(east, "update", "roundhouse.dev|clusterreports||cluster-east"));
        assert!(!may(east, "delete", "coordination.k8s.io|leases||cluster-east"));
        assert!(!may(
            "roundhouse:agent:",
            "get",
            "roundhouse.dev|bundles||cluster-"
        ));
        assert!(
            !may("roundhouse:agents", "get", "|pods||default"),
            "the group alone gives nothing"
        );
        assert!(may("somebody", "delete", "|secrets||kube-system"));
    }
}
