//! What the hub asks of its API server, and why. Charts make Roles of it; `hub/tests/fleet/rights.rs` holds it against what
//! hubs do ask.
//!
//! Not in it is what steps of type `apply-object`, `read-object`, `delete-object` and `wait` over an object ask for
//! ([`OF_STEPS`]): on which kinds, users say, and whoever installs the hub grants them.

use crate::restored;
use roundhouse_api::{
    names::{AGENT_ROLE, CLIENT_SIGNER, GROUP, HUB_LEASE, OAM_GROUP},
    rights::{Right, Scope},
};

const CORE: &str = "";
const CERTIFICATES: &str = "certificates.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const LEASES: &str = "coordination.k8s.io";

const fn everywhere(
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    why: &'static str,
) -> Right {
    Right {
        scope: Scope::Cluster,
        group,
        resource,
        names: &[],
        verbs,
        why,
    }
}

/// The rights of the hub.
pub const ON_HUB: &[Right] = &[
    everywhere(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &["create", "get", "list", "update", "watch"],
        "its own definitions: installed at the start, replaced by a newer version",
    ),
    everywhere(
        OAM_GROUP,
        "applications",
        &["get", "list", "patch", "update", "watch"],
        "what is to be delivered: its finalizer, and the spec of a step that rolls back",
    ),
    everywhere(
        OAM_GROUP,
        "applications/status",
        &["update"],
        "how far the delivery is",
    ),
    everywhere(
        OAM_GROUP,
        "applicationrevisions",
        &["create", "delete", "get", "list", "patch", "watch"],
        "the record of each spec, and when it was delivered; old ones go",
    ),
    everywhere(
        OAM_GROUP,
        "componentdefinitions",
        &["get", "list", "watch"],
        "where the replicas of custom kinds are",
    ),
    everywhere(
        GROUP,
        "bundles",
        &["create", "delete", "get", "list", "patch", "update", "watch"],
        "what each cluster is to run, and what became of it",
    ),
    everywhere(
        GROUP,
        "bundles/status",
        &["get", "patch", "update"],
        "handed out to agents, which report there",
    ),
    everywhere(
        GROUP,
        "clusters",
        &["get", "list", "patch", "watch"],
        "the clusters, their labels and taints; labels that agents propose, and the finalizer that lets them leave in order",
    ),
    everywhere(
        GROUP,
        "clusters/status",
        &["patch"],
        "whether a cluster is there, and what it has",
    ),
    everywhere(
        GROUP,
        "clusterreports",
        &["create", "get", "list", "patch", "update", "watch"],
        "what agents say of their clusters; the rest is handed out to agents",
    ),
    everywhere(
        GROUP,
        "decisions",
        &["create", "delete", "get", "list", "update", "watch"],
        "how many replicas each cluster gets, and why",
    ),
    everywhere(
        GROUP,
        "placements",
        &["get", "list", "watch"],
        "rules that several applications share",
    ),
    everywhere(
        GROUP,
        "placements/status",
        &["update"],
        "what a Placement comes to",
    ),
    everywhere(
        CORE,
        "configmaps",
        &["create", "get"],
        "what a revision was rendered to",
    ),
    Right {
        scope: Scope::Cluster,
        group: CORE,
        resource: "configmaps",
        names: &[restored::NAME],
        verbs: &["get", "list", "watch"],
        why: "the mark of a hub that was restored from a backup, in kube-system",
    },
    everywhere(
        CORE,
        "secrets",
        &["create", "get"],
        "the same where it contains Secrets; addresses and headers of steps that send requests",
    ),
    everywhere(
        CORE,
        "events",
        &["create", "get", "patch"],
        "the story of an application",
    ),
    everywhere(
        CORE,
        "namespaces",
        &["create", "delete", "get", "list", "watch"],
        "the namespace of each cluster, that of the hub, and what tenants may have in theirs",
    ),
    everywhere(
        LEASES,
        "leases",
        &["create", "get", "list", "patch", "update", "watch"],
        "the signs of life of the agents; the rest is handed out to agents",
    ),
    Right {
        scope: Scope::Own,
        group: LEASES,
        resource: "leases",
        names: &[],
        verbs: &["create"],
        why: "the Lease that the hubs elect their leader by",
    },
    Right {
        scope: Scope::Own,
        group: LEASES,
        resource: "leases",
        names: &[HUB_LEASE],
        verbs: &["get", "list", "update", "watch"],
        why: "who leads, and with which epoch",
    },
    everywhere(
        CERTIFICATES,
        "certificatesigningrequests",
        &["create", "delete", "get", "list", "watch"],
        "what agents ask for, and those of clusters that left; to ask, and to see to one's own, is handed out to agents",
    ),
    everywhere(
        CERTIFICATES,
        "certificatesigningrequests/approval",
        &["patch"],
        "whether the agent of a cluster gets its certificate",
    ),
    Right {
        scope: Scope::Cluster,
        group: CERTIFICATES,
        resource: "signers",
        names: &[CLIENT_SIGNER],
        verbs: &["approve"],
        why: "the same, for certificates of clients of the API server and for no others",
    },
    everywhere(
        CORE,
        "serviceaccounts",
        &["create", "delete", "get", "update"],
        "the accounts that invite the agents of clusters, in their namespaces",
    ),
    everywhere(
        CORE,
        "resourcequotas",
        &["create", "get", "update"],
        "one ClusterReport in the namespace of each cluster, whatever its agent makes",
    ),
    Right {
        scope: Scope::Cluster,
        group: CORE,
        resource: "serviceaccounts/token",
        names: &[AGENT_ROLE],
        verbs: &["create"],
        why: "handed out to agents where tokens are their identity (--agent-identity token)",
    },
    everywhere(
        RBAC,
        "roles",
        &["create", "get", "update"],
        "what the agent of a cluster may in the namespace of its cluster",
    ),
    everywhere(
        RBAC,
        "rolebindings",
        &["create", "get", "update"],
        "which agent that is: exactly the present one",
    ),
    everywhere(
        RBAC,
        "clusterroles",
        &["create", "delete", "get", "update"],
        "to ask for the certificate of one agent, under one name",
    ),
    everywhere(
        RBAC,
        "clusterrolebindings",
        &["create", "delete", "get", "update"],
        "who may: the agent, and who is invited to become it",
    ),
    everywhere(
        "discovery.k8s.io",
        "endpointslices",
        &["list"],
        "the addresses of the API server itself, where steps send nothing",
    ),
];

/// What steps ask for on the objects that they name, on the hub and in the namespace of their Application: their types, and the
/// verbs. An object that is not there yet is applied by who may create it, too. A wait without `list` and `watch` looks now and
/// then.
pub const OF_STEPS: [(&[&str], &[&str]); 3] = [
    (&["apply-object"], &["create", "get", "patch"]),
    (&["read-object", "wait"], &["get"]),
    (&["delete-object"], &["delete", "get"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_says_why() {
        for right in ON_HUB {
            assert!(right.verbs.is_sorted(), "{}", right.resource);
            assert!(!right.why.is_empty(), "{}", right.resource);
            assert!(!right.verbs.contains(&"*") && right.group != "*" && right.resource != "*");
        }
    }
}
