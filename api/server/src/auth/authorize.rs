//! What they may.

use super::{
    Identity, PolicyRule,
    agent::{agent_may, agent_may_path, agent_rules},
};
use crate::error::ApiError;

/// One request on a resource, as an authorizer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or a verb that is none of HTTP,
    /// such as `impersonate` for acting as somebody else, `bind`, `escalate`, `approve` and `sign`.
    pub verb: &'a str,
    /// API group; empty for core.
    pub group: &'a str,
    /// Resource, such as `bundles`.
    pub resource: &'a str,
    /// Subresource, such as `status`; empty if none.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped objects and for requests across namespaces.
    pub namespace: &'a str,
    /// Object; empty if the request concerns many. A list or watch of `metadata.name=x` concerns `x`.
    pub name: &'a str,
}

/// Something that may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<'a> {
    /// A request on a resource.
    Resource(Attributes<'a>),
    /// A request on a path that is no resource.
    Path {
        /// The method in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

/// Whether something is allowed, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Whether it is.
    pub allowed: bool,
    /// Why, for people; may be empty.
    pub reason: String,
}

/// Decides who may do what.
pub trait Authorizer: Send + Sync + 'static {
    /// Whether `identity` may do this.
    fn allows(&self, identity: &Identity, attributes: &Attributes<'_>) -> bool;

    /// Whether `identity` may ask a path that is no resource, such as `/version`; by default everybody may read them.
    fn allows_path(&self, _: &Identity, verb: &str, _: &str) -> bool {
        verb == "get"
    }

    /// The same with a reason.
    fn decide(&self, identity: &Identity, action: &Action<'_>) -> Decision {
        let allowed = match action {
            Action::Resource(attributes) => self.allows(identity, attributes),
            Action::Path { verb, path } => self.allows_path(identity, verb, path),
        };
        Decision {
            allowed,
            reason: String::new(),
        }
    }

    /// What `identity` may do in a namespace, as far as that is a list of rules, and what stood in the way of knowing
    /// all of it.
    fn rules(&self, _identity: &Identity, _namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        (vec![], vec!["this authorizer has no list of rules".to_owned()])
    }
}

/// The answer to what may not be, in Kubernetes' words.
pub(crate) fn denied(identity: &Identity, a: &Attributes<'_>, reason: &str) -> ApiError {
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
        "{about} is forbidden: User {:?} cannot {} resource {resource:?} in API group {:?} {place}{}",
        identity.user,
        a.verb,
        a.group,
        because(reason)
    );
    ApiError::new(403, "Forbidden", message).about(a.group, a.resource, a.name)
}

/// The same for a path that is no resource.
pub(crate) fn path_denied(identity: &Identity, verb: &str, path: &str, reason: &str) -> ApiError {
    let message = format!(
        "forbidden: User {:?} cannot {verb} path {path:?}{}",
        identity.user,
        because(reason)
    );
    ApiError::new(403, "Forbidden", message)
}

fn because(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    }
}

/// Everybody may do everything, except agents: each of them is confined to its own namespace.
///
/// `roundhouse:agent:<cluster>:<serial>` may, in namespace `cluster-<cluster>` and nowhere else, get, list and watch bundles,
/// write their status, and keep its Lease and its ClusterReport. Names are compared whole, never by prefix.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAuthenticated;

impl Authorizer for AllowAuthenticated {
    fn allows(&self, identity: &Identity, attributes: &Attributes<'_>) -> bool {
        identity
            .agent_of()
            .is_none_or(|cluster| agent_may(cluster, attributes))
    }

    fn allows_path(&self, identity: &Identity, verb: &str, path: &str) -> bool {
        identity.agent_of().is_none() || agent_may_path(verb, path)
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let rules = match identity.agent_of() {
            Some(_) => agent_rules(identity, namespace),
            None => PolicyRule::everything(),
        };
        (rules, vec![])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(user: &str, verb: &str, path: &str) -> bool {
        may_with(user, verb, path, "n")
    }

    fn may_with(user: &str, verb: &str, path: &str, name: &str) -> bool {
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
                name,
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
            assert_eq!(denied(&jane, &attributes, "").message, expected);
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
        let east = "roundhouse:agent:east:1";
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
        let (leases, reports) = (
            "coordination.k8s.io|leases||cluster-east",
            "roundhouse.dev|clusterreports||cluster-east",
        );
        for (path, own) in [(leases, "agent"), (reports, "east")] {
            for verb in ["create", "get", "list", "watch", "update", "patch"] {
                assert!(may_with(east, verb, path, own), "{verb} {path}");
                for other in ["n", "east-2", "eas", "agent-2", "AGENT"] {
                    assert!(!may_with(east, verb, path, other), "{verb} {path} {other}");
                }
            }
            assert!(!may_with(east, "delete", path, own));
            assert!(!may_with(east, "list", path, ""), "all of them");
            assert!(may_with(east, "create", path, ""), "the body has the name");
        }
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
