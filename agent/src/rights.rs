//! What the agent asks of its member, and what for: the chart makes its roles of it, the agent checks on the spot whether it
//! has them, and a test holds them against what it does ask. What it asks of the hub is
//! [`AGENT_ON_HUB`](roundhouse_api::rights::AGENT_ON_HUB), and beside it what gets it an identity.
//!
//! Discovery (`/api`, `/apis`, `/version`) and reviews of one's own rights are open to whoever is authenticated, by the roles
//! `system:discovery` and `system:basic-user` of every Kubernetes.

use roundhouse_api::rights::{Right, Scope};

/// The Secret that keeps an agent's identity, if its chart is not told otherwise.
pub const IDENTITY_SECRET: &str = "roundhouse-agent-identity";

/// What the agent needs to run at all.
pub const ON_MEMBER: &[Right] = &[
    Right {
        scope: Scope::Cluster,
        group: "roundhouse.dev",
        resource: "appliedbundles",
        names: &[],
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
        why: "the ledgers: what was applied, written before anything is touched",
    },
    Right {
        scope: Scope::Cluster,
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        names: &[],
        verbs: &["create", "get", "list", "watch"],
        why: "the definition of ledgers, and which kinds there are",
    },
    Right {
        scope: Scope::Cluster,
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        names: &["appliedbundles.roundhouse.dev"],
        verbs: &["patch"],
        why: "the definition of ledgers as this version of the agent needs it",
    },
    Right {
        scope: Scope::Cluster,
        group: "",
        resource: "nodes",
        names: &[],
        verbs: &["list"],
        why: "how much room there is, for placement",
    },
    Right {
        scope: Scope::Own,
        group: "",
        resource: "secrets",
        names: &[],
        verbs: &["create"],
        why: "the identity on the hub, the first time",
    },
    Right {
        scope: Scope::Own,
        group: "",
        resource: "secrets",
        names: &[IDENTITY_SECRET],
        verbs: &["get", "patch"],
        why: "the identity on the hub: its key and its certificate",
    },
];

/// What the agent needs for bundles with an executor: on the service accounts that they name, and on no others. Who may act as
/// every service account may what any of them may, so nobody is given it unasked.
pub const AS_EXECUTOR: Right = Right {
    scope: Scope::Cluster,
    group: "",
    resource: "serviceaccounts",
    names: &[],
    verbs: &["impersonate"],
    why: "bundles that are applied with the rights of a service account",
};

/// What the agent needs on the kinds that bundles without an executor have, beside [`ON_MEMBER`]: all kinds by default, or
/// those that the chart is given. A bundle that has another kind fails and names the verb and the resource. Roles and
/// bindings in bundles moreover need `escalate` and `bind`, or rights that are at least those.
pub const ON_OBJECTS: Right = Right {
    scope: Scope::Cluster,
    group: "*",
    resource: "*",
    names: &[],
    verbs: &["create", "delete", "get", "list", "patch", "watch"],
    why: "what bundles carry: looked at, applied, repaired, removed",
};
