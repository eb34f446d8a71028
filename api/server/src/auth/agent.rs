//! What an agent may at most: a rule of the server, beside the stored roles.
//!
//! Architecture invariant: no Role, ClusterRole or binding widens it. An agent's certificate is all that a member cluster
//! holds of the hub, so its reach must not depend on what somebody binds to `system:authenticated` or, by a slip, to the
//! agent itself. What of it an agent has is said by bindings, as on any other server: the one in its namespace names the
//! present agent, and an agent of an earlier serial has nothing.

use super::{Attributes, Identity, PolicyRule};

const READ: [&str; 3] = ["get", "list", "watch"];
const CSRS: &str = "certificatesigningrequests";

/// The name of every agent's Lease; its ClusterReport has the name of the cluster.
const LEASE: &str = "agent";

/// The name of the one request for a certificate that the agent of a cluster has.
pub(crate) fn request_name(cluster: &str) -> String {
    format!("roundhouse-agent-{cluster}")
}

/// Whether an agent of `cluster` may do this at all: in namespace `cluster-<cluster>` and nowhere else, get, list and watch
/// bundles, write their status, and keep its Lease and its ClusterReport, which have names of their own; beside that ask
/// for a certificate, by the one name that its requests have, and ask who it is and what it may. Names are compared whole,
/// never by prefix.
pub(crate) fn agent_may(cluster: &str, a: &Attributes<'_>) -> bool {
    if cluster.is_empty() {
        return false;
    }
    if a.namespace.is_empty() {
        return match (a.group, a.resource, a.subresource) {
            ("certificates.k8s.io", CSRS, "") => {
                let own = request_name(cluster);
                may_create(a, &own) || (a.name == own && matches!(a.verb, "get" | "delete"))
            }
            ("authentication.k8s.io", "selfsubjectreviews", "")
            | ("authorization.k8s.io", "selfsubjectaccessreviews" | "selfsubjectrulesreviews", "") => {
                may_create(a, "")
            }
            _ => false,
        };
    }
    if a.namespace.strip_prefix("cluster-") != Some(cluster) {
        return false;
    }
    let changes = matches!(a.verb, "get" | "update" | "patch");
    // Lists and watches that are confined to its name are of that object only.
    let keeps = |name: &str| may_create(a, name) || (a.name == name && (changes || READ.contains(&a.verb)));
    match (a.group, a.resource, a.subresource) {
        ("roundhouse.dev", "bundles", "") => READ.contains(&a.verb),
        ("roundhouse.dev", "bundles", "status") => changes,
        ("coordination.k8s.io", "leases", "") => keeps(LEASE),
        ("roundhouse.dev", "clusterreports", "") => keeps(cluster),
        ("roundhouse.dev", "clusterreports", "status") => changes && a.name == cluster,
        _ => false,
    }
}

/// Whether this creates an object of that name, or one whose name is not told yet: the body says it, and is looked at by
/// [`check_agent`](crate::admission::check_agent).
fn may_create(a: &Attributes<'_>, name: &str) -> bool {
    a.verb == "create" && (a.name.is_empty() || a.name == name)
}

/// Whether an agent may ask this path that is no resource: what it takes to learn what is served.
pub(crate) fn agent_may_path(verb: &str, path: &str) -> bool {
    let below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    verb == "get" && (path == "/version" || ["/api", "/apis", "/openapi"].iter().any(|root| below(root)))
}

/// The same rule as a list: the rules in `namespace`.
pub(crate) fn agent_rules(identity: &Identity, namespace: &str) -> Vec<PolicyRule> {
    let Some(cluster) = identity.agent_of().filter(|cluster| !cluster.is_empty()) else {
        return vec![];
    };
    let mut rules = vec![
        PolicyRule::paths(
            &["get"],
            &[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/openapi",
                "/openapi/*",
                "/version",
            ],
        ),
        PolicyRule::resources(&["create"], "certificates.k8s.io", &[CSRS]),
        PolicyRule {
            resource_names: vec![request_name(cluster)],
            ..PolicyRule::resources(&["delete", "get"], "certificates.k8s.io", &[CSRS])
        },
        PolicyRule::resources(&["create"], "authentication.k8s.io", &["selfsubjectreviews"]),
        PolicyRule::resources(
            &["create"],
            "authorization.k8s.io",
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
    ];
    if namespace.strip_prefix("cluster-") == Some(cluster) {
        rules.extend(in_its_namespace(cluster));
    }
    rules
}

/// What an agent of a cluster may in its own namespace.
fn in_its_namespace(cluster: &str) -> Vec<PolicyRule> {
    let own = |group: &str, resource: &str, name: &str, verbs: &[&str]| PolicyRule {
        resource_names: vec![name.to_owned()],
        ..PolicyRule::resources(verbs, group, &[resource])
    };
    let (keeps, status) = (
        &["get", "list", "patch", "update", "watch"],
        &["get", "patch", "update"],
    );
    let (ours, leases) = ("roundhouse.dev", "coordination.k8s.io");
    vec![
        PolicyRule::resources(&READ, ours, &["bundles"]),
        PolicyRule::resources(status, ours, &["bundles/status"]),
        own(ours, "clusterreports/status", cluster, status),
        own(ours, "clusterreports", cluster, keeps),
        // The right to create cannot be confined to a name: a create has none yet.
        PolicyRule::resources(&["create"], ours, &["clusterreports"]),
        own(leases, "leases", LEASE, keeps),
        PolicyRule::resources(&["create"], leases, &["leases"]),
    ]
}
