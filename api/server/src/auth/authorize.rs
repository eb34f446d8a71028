//! What they may.

use super::Identity;
use crate::error::ApiError;

/// One request, as an authorizer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `impersonate` for acting as
    /// somebody else.
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

/// The answer to what may not be, in Kubernetes' words.
pub(crate) fn denied(identity: &Identity, a: &Attributes<'_>) -> ApiError {
    let dot = if a.group.is_empty() { "" } else { "." };
    let about = format!("{}{dot}{}", a.resource, a.group);
    let about = if a.name.is_empty() {
        about
    } else {
        format!("{about} {:?}", a.name)
    };
    let resource = if a.subresource.is_empty() {
        a.resource.to_owned()
    } else {
        format!("{}/{}", a.resource, a.subresource)
    };
    let place = if a.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", a.namespace)
    };
    let message = format!(
        "{about} is forbidden: User {:?} cannot {} resource {resource:?} in API group {:?} {place}",
        identity.user, a.verb, a.group
    );
    ApiError::new(403, "Forbidden", message).about(a.group, a.resource, a.name)
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
    fn what_is_said_to_those_who_may_not() {
        let jane = Identity::new("jane", ["people"]);
        for (namespace, name, subresource, expected) in [
            (
                "team",
                "web",
                "scale",
                "deployments.apps \"web\" is forbidden: User \"jane\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"team\"",
            ),
            (
                "",
                "",
                "",
                "deployments.apps is forbidden: User \"jane\" cannot get resource \"deployments\" in API group \"apps\" at the cluster scope",
            ),
        ] {
            let attributes = Attributes {
                verb: "get",
                group: "apps",
                resource: "deployments",
                subresource,
                namespace,
                name,
            };
            assert_eq!(denied(&jane, &attributes).message, expected);
        }
    }

    #[test]
    fn agents_may_be_nobody_else() {
        let agent = Identity::agent("east");
        for (resource, namespace) in [
            ("users", ""),
            ("groups", ""),
            ("serviceaccounts", "cluster-east"),
            ("serviceaccounts", "kube-system"),
        ] {
            let attributes = Attributes {
                verb: "impersonate",
                group: "",
                resource,
                subresource: "",
                namespace,
                name: "n",
            };
            assert!(!AllowAuthenticated.allows(&agent, &attributes), "{resource}");
            assert!(AllowAuthenticated.allows(&Identity::admin(), &attributes));
        }
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
