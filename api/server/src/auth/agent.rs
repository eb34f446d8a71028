//! What an agent may: a rule of the server, not of stored roles.
//!
//! Architecture invariant: no Role, ClusterRole or binding widens or narrows it. An agent's certificate is all that a
//! member cluster holds of the hub, so its reach must not depend on what somebody binds to `system:authenticated` or,
//! by a slip, to the agent itself.

use super::{Attributes, Identity, PolicyRule};

const READ: [&str; 3] = ["get", "list", "watch"];
const CSRS: &str = "certificatesigningrequests";

/// The name of every agent's Lease; its ClusterReport has the name of the cluster.
const LEASE: &str = "agent";

/// Whether the agent of `cluster` may do this: in namespace `cluster-<cluster>` and nowhere else, get, list and watch
/// bundles, write their status, and keep its Lease and its ClusterReport, which have names of their own; beside that ask
/// for a certificate of its own (whose subject the signer checks) and see what became of that, and ask who it is and what it
/// may. Names are compared whole, never by prefix.
pub(crate) fn agent_may(cluster: &str, a: &Attributes<'_>) -> bool {
    if cluster.is_empty() {
        return false;
    }
    if a.namespace.is_empty() {
        return match (a.group, a.resource, a.subresource) {
            // Which of them it sees is told by what they say: those of others are left out of what it gets.
            ("certificates.k8s.io", CSRS, "") => may_create(a, a.name) || READ.contains(&a.verb),
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

/// The same rule as a list, for those who ask for it: the rules in `namespace`.
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
        PolicyRule::resources(
            &["create", "get", "list", "watch"],
            "certificates.k8s.io",
            &[CSRS],
        ),
        PolicyRule::resources(&["create"], "authentication.k8s.io", &["selfsubjectreviews"]),
        PolicyRule::resources(
            &["create"],
            "authorization.k8s.io",
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
    ];
    if namespace.strip_prefix("cluster-") == Some(cluster) {
        rules.extend(in_its_namespace(Some(cluster)));
    }
    rules
}

/// What the agent of a cluster may in its own namespace; without a cluster, what all agents may in theirs, in which a
/// ClusterReport may have any name: one role for all of them cannot tell which.
pub(crate) fn in_its_namespace(cluster: Option<&str>) -> Vec<PolicyRule> {
    let own = |group: &str, resource: &str, name: Option<&str>| {
        let mut rule =
            PolicyRule::resources(&["get", "list", "patch", "update", "watch"], group, &[resource]);
        rule.resource_names = name.map(str::to_owned).into_iter().collect();
        // The right to create cannot be confined to a name: a create has none yet.
        [rule, PolicyRule::resources(&["create"], group, &[resource])]
    };
    let status = &["get", "patch", "update"];
    let mut rules = vec![
        PolicyRule::resources(&READ, "roundhouse.dev", &["bundles"]),
        PolicyRule::resources(status, "roundhouse.dev", &["bundles/status"]),
        PolicyRule {
            resource_names: cluster.map(str::to_owned).into_iter().collect(),
            ..PolicyRule::resources(status, "roundhouse.dev", &["clusterreports/status"])
        },
    ];
    rules.extend(own("roundhouse.dev", "clusterreports", cluster));
    rules.extend(own("coordination.k8s.io", "leases", Some(LEASE)));
    rules
}
