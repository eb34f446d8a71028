//! Labels, annotations, and the names that are derived from other names.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Group of the OAM resources.
pub const OAM_GROUP: &str = "core.oam.dev";
/// Group of Roundhouse's own resources.
pub const GROUP: &str = "roundhouse.dev";
/// Field manager of the hub's writes.
pub const HUB_FIELD_MANAGER: &str = "roundhouse-hub";
/// Field manager of the agent's writes.
pub const AGENT_FIELD_MANAGER: &str = "roundhouse-agent";
/// Finalizer that dispatch puts on a Bundle and removes when the agent reports `Cleaned`.
pub const BUNDLE_FINALIZER: &str = "roundhouse.dev/dispatch";
/// Finalizer that the application controller puts on an Application.
pub const APPLICATION_FINALIZER: &str = "roundhouse.dev/application";
/// Finalizer that the agent puts on an AppliedBundle.
pub const LEDGER_FINALIZER: &str = "roundhouse.dev/ledger";
/// Finalizer that the cluster controller puts on a Cluster: what it made for it is taken away in order.
pub const CLUSTER_FINALIZER: &str = "roundhouse.dev/cluster";
/// Name of the Lease in the cluster's namespace that the agent renews.
pub const AGENT_LEASE: &str = "agent";
/// Name of the Lease that the hubs elect their leader by, in the namespace of the hub.
pub const HUB_LEASE: &str = "roundhouse-hub";
/// The group (organization of the certificate) of every agent; it has no rights of its own.
pub const AGENTS: &str = "roundhouse:agents";
/// Name of the Role in a cluster's namespace that holds what its agent may there, of the RoleBinding that gives it to
/// exactly one agent, and of the agent's ServiceAccount where the hub signs no certificates.
pub const AGENT_ROLE: &str = "roundhouse-agent";
/// Name of the ServiceAccount in a cluster's namespace whose tokens invite an agent, of its Role and its RoleBinding.
pub const JOIN_ACCOUNT: &str = "roundhouse-join";
/// The signer of agents' certificates (Kubernetes convention: clients of the API server).
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Longest name of an application or component, so that every derived name stays a legal label value.
pub const MAX_APPLICATION_NAME: usize = 50;
/// Longest name of a cluster, so that `cluster-<name>` is a DNS label.
pub const MAX_CLUSTER_NAME: usize = 55;

/// Label keys.
pub mod label {
    /// Application name, on everything rendered.
    pub const APP_NAME: &str = "app.oam.dev/name";
    /// Application namespace, on everything rendered.
    pub const APP_NAMESPACE: &str = "app.oam.dev/namespace";
    /// Component name.
    pub const COMPONENT: &str = "app.oam.dev/component";
    /// Component revision, `<component>-v<N>` (seed: apply-once-only).
    pub const REVISION: &str = "app.oam.dev/revision";
    /// Application revision, `<app>-v<N>`.
    pub const APP_REVISION: &str = "app.oam.dev/appRevision";
    /// [`WORKLOAD`] or [`TRAIT`] (seed: apply-once-only).
    pub const RESOURCE_TYPE: &str = "app.oam.dev/resourceType";
    /// Value of [`RESOURCE_TYPE`]: what runs pods.
    pub const WORKLOAD: &str = "WORKLOAD";
    /// Value of [`RESOURCE_TYPE`]: everything else.
    pub const TRAIT: &str = "TRAIT";
    /// Type of the component that an object was rendered from, as KubeVela writes it.
    pub const COMPONENT_TYPE: &str = "workload.oam.dev/type";
    /// Type of the trait that an object was rendered from, as KubeVela writes it.
    pub const TRAIT_TYPE: &str = "trait.oam.dev/type";
    /// Cluster name, on the namespace of a cluster and on Bundles.
    pub const CLUSTER: &str = "roundhouse.dev/cluster";
    /// The step that placed a Bundle last.
    pub const STEP: &str = "roundhouse.dev/step";
    /// Marks what Roundhouse made itself (cluster namespaces, CRDs): `roundhouse`.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Value of [`MANAGED_BY`].
    pub const MANAGED_BY_VALUE: &str = "roundhouse";
    /// Region of a cluster: statuses are grouped by it.
    pub const REGION: &str = "region";
    /// Prefix of the labels that an agent may propose for its Cluster; no other label of a Cluster is an agent's to say.
    pub const PROPOSED: &str = "agent.roundhouse.dev/";
}

/// Whether a label or annotation is Roundhouse's own bookkeeping (or KubeVela's of the same name): it says nothing about
/// what an object does.
pub fn is_bookkeeping(key: &str) -> bool {
    const PREFIXES: [&str; 4] = [
        "app.oam.dev/",
        "workload.oam.dev/",
        "trait.oam.dev/",
        "roundhouse.dev/",
    ];
    PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Annotation keys.
pub mod annotation {
    /// What an agent leaves on an object in a member, and takes away when it lets the object go.
    pub const STAMPS: [&str; 5] = [OWNED_BY, DESIRED_HASH, LAST_APPLIED, GENERATION, FENCED];
    /// Generation of the Application that the object was rendered from (seed: apply-once-only).
    pub const GENERATION: &str = "app.oam.dev/generation";
    /// Last applied manifest (seed: three-way-merge).
    pub const LAST_APPLIED: &str = "app.oam.dev/last-applied-configuration";
    /// kubectl's own, read on adoption.
    pub const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
    /// `<hub id>/<bundle>`: who owns an object in a member.
    pub const OWNED_BY: &str = "roundhouse.dev/owned-by";
    /// On a Bundle, or on an object in a member: the version that a write or a deletion without an answer has named, and that
    /// none finds any more.
    pub const FENCED: &str = "roundhouse.dev/fenced";
    /// sha256 of the manifest as divided and overridden for this cluster, stamps excluded.
    pub const DESIRED_HASH: &str = "roundhouse.dev/desired-hash";
    /// `"true"` lets an agent prune a kind that it otherwise orphans, and under apply-once a workload that still asks for
    /// replicas.
    pub const PRUNE: &str = "roundhouse.dev/prune";
    /// Hub id, written by the hub on the Lease of each cluster; agents read it there.
    pub const HUB_ID: &str = "roundhouse.dev/hub-id";
    /// On the Lease of a cluster, written by its agent with each renewal: the resourceVersion of the Lease that its watch
    /// showed last; `0` before it has shown any. One that does not change from renewal to renewal is of an agent that sends
    /// and does not receive.
    pub const SEEN: &str = "roundhouse.dev/seen";
    /// On the ServiceAccounts that the hub makes for the agent of a cluster: the serial that they are for.
    pub const SERIAL: &str = "roundhouse.dev/serial";
    /// On the ServiceAccount that invites an agent: `certificate` or `token`, what the hub gives it.
    pub const IDENTITY: &str = "roundhouse.dev/identity";
    /// When the run that delivered an ApplicationRevision last succeeded, written by the hub on the revision.
    pub const DELIVERED: &str = "roundhouse.dev/delivered";
    /// On a Namespace of the hub: kinds that Applications in it may contain beyond the rules of tenancy, separated by commas:
    /// `ClusterRole.rbac.authorization.k8s.io`, `Namespace`, or `*.example.org` for all kinds of a group.
    pub const ALLOW_KINDS: &str = "roundhouse.dev/allow-kinds";
    /// On a Namespace of the hub: further namespaces of the members that Applications in it may have objects in, separated
    /// by commas; `team-*` for all that begin so.
    pub const ALLOW_NAMESPACES: &str = "roundhouse.dev/allow-namespaces";
    /// On the definition of Applications, written by the hub: what its tenancy is, `open` or `namespace`, for who plans.
    pub const TENANCY: &str = "roundhouse.dev/tenancy";
    /// On each definition: the version of the schemas that it is of, see [`crate::crds::SCHEMA_VERSION`].
    pub const SCHEMA_VERSION: &str = "roundhouse.dev/schema-version";
    /// On what names an object in a Bundle that only reads it: the run that asks. What is reported is about this run then.
    pub const RUN: &str = "roundhouse.dev/run";
    /// On the Lease of the hubs: the fencing epoch of the present term, or of the last one.
    pub const EPOCH: &str = "roundhouse.dev/epoch";
    /// On a Bundle of a cluster on which several steps place, written by the hub: a JSON object, step → the revision that the step
    /// brought. It tells what a step has brought there where it stopped on its way, or its Decision is lost.
    pub const STEPS: &str = "roundhouse.dev/steps";
    /// Confirms the removals of the named hash.
    pub const CONFIRM_DELETES: &str = "roundhouse.dev/confirm-deletes";
}

/// Why a name is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty or too long.
    #[error("{what} {name:?} has {length} characters: use 1 to {max}")]
    Length {
        /// What the name is of.
        what: &'static str,
        /// The name.
        name: String,
        /// Its length.
        length: usize,
        /// The limit.
        max: usize,
    },
    /// The name is no DNS label (RFC 1123).
    #[error(
        "{what} {name:?} is not a DNS label: use lower-case letters, digits and '-', starting and ending with a letter or digit"
    )]
    Characters {
        /// What the name is of.
        what: &'static str,
        /// The name.
        name: String,
    },
}

/// Checks that `name` is a DNS label (RFC 1123) of at most `max` characters.
///
/// # Errors
/// [`NameError`] names the thing, the name and the rule.
pub fn check_dns_label(what: &'static str, name: &str, max: usize) -> Result<(), NameError> {
    if name.is_empty() || name.len() > max {
        return Err(NameError::Length {
            what,
            name: name.to_owned(),
            length: name.len(),
            max,
        });
    }
    let inner = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !inner || name.starts_with('-') || name.ends_with('-') {
        return Err(NameError::Characters {
            what,
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// What [`is_qualified`] asks for, behind "use".
pub const QUALIFIED: &str = "an optional DNS prefix and '/', then 1 to 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit";
/// What [`is_label_value`] asks for, behind "use".
pub const LABEL_VALUE: &str =
    "at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit";

/// Longest name behind the prefix of a key, and longest value of a label or taint.
const MAX_WORD: usize = 63;
/// Longest prefix of a key.
const MAX_PREFIX: usize = 253;

/// Whether Kubernetes takes it for the key of a label, an annotation or a taint (`IsQualifiedName` of
/// `k8s.io/apimachinery/pkg/util/validation`).
pub fn is_qualified(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let part = |part: &str| bounded(part, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), b"-");
    let domain = |prefix: &str| prefix.len() <= MAX_PREFIX && prefix.split('.').all(part);
    prefix.is_none_or(domain) && is_word(name)
}

/// Whether Kubernetes takes it for the value of a label or a taint (`IsValidLabelValue`).
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_word(value)
}

fn is_word(text: &str) -> bool {
    text.len() <= MAX_WORD && bounded(text, |b| b.is_ascii_alphanumeric(), b"-_.")
}

/// Whether a text is made of these bytes, and its first and last are of the first sort.
fn bounded(text: &str, edge: fn(&u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(first, last)| edge(first) && edge(last))
        && bytes.iter().all(|b| edge(b) || inner.contains(b))
}

/// The name of a cluster: a DNS label of at most 55 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

/// What the namespace of a cluster begins with.
const CLUSTER_NAMESPACE: &str = "cluster-";

/// The namespace of a cluster on the hub, `cluster-<name>`.
pub fn cluster_namespace(cluster: &str) -> String {
    format!("{CLUSTER_NAMESPACE}{cluster}")
}

/// The cluster that a namespace of the hub is of.
pub fn cluster_of_namespace(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(CLUSTER_NAMESPACE)
}

impl ClusterName {
    /// Parses a name.
    ///
    /// # Errors
    /// [`NameError`] if it is no DNS label or longer than [`MAX_CLUSTER_NAME`].
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        check_dns_label("cluster name", &name, MAX_CLUSTER_NAME)?;
        Ok(ClusterName(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace of this cluster on the hub, `cluster-<name>`.
    pub fn namespace(&self) -> String {
        cluster_namespace(&self.0)
    }
}

impl TryFrom<String> for ClusterName {
    type Error = NameError;
    fn try_from(name: String) -> Result<Self, NameError> {
        ClusterName::new(name)
    }
}

impl From<ClusterName> for String {
    fn from(name: ClusterName) -> String {
        name.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for ClusterName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The user name of an agent on the hub, `roundhouse:agent:<cluster>:<serial>`: the common name of its certificate.
///
/// The serial is that of the Cluster's spec when the certificate was asked for: a Cluster that is joined again, or whose
/// identity is revoked, counts on, and the RoleBinding of its namespace names the present agent and no other. Names are
/// compared whole, never by prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName {
    /// The cluster.
    pub cluster: ClusterName,
    /// Counts from 1.
    pub serial: u32,
}

impl AgentName {
    /// What stands before the cluster.
    pub const PREFIX: &str = "roundhouse:agent:";

    /// The agent of a cluster with a serial.
    pub fn new(cluster: ClusterName, serial: u32) -> Self {
        AgentName { cluster, serial }
    }

    /// Reads the user name of an agent; `None` for whatever is not exactly one.
    pub fn parse(user: &str) -> Option<Self> {
        let (cluster, serial) = user.strip_prefix(Self::PREFIX)?.split_once(':')?;
        let name = AgentName {
            cluster: ClusterName::new(cluster).ok()?,
            serial: serial.parse().ok()?,
        };
        // One spelling: no sign, no leading zero, counting from 1.
        (name.serial > 0 && name.to_string() == user).then_some(name)
    }

    /// Name of the CertificateSigningRequest of a cluster's agent: it has one at a time.
    pub fn request(cluster: &ClusterName) -> String {
        format!("roundhouse-agent-{cluster}")
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}:{}", Self::PREFIX, self.cluster, self.serial)
    }
}

/// Name of the Bundle of an application: `<app namespace>.<app>`, further parts `.2`, `.3`. `part` counts from 1.
pub fn bundle_name(app_namespace: &str, app: &str, part: usize) -> String {
    if part <= 1 {
        format!("{app_namespace}.{app}")
    } else {
        format!("{app_namespace}.{app}.{part}")
    }
}

/// Name of the Bundle that carries the object of a step: `<app namespace>.<app>.step.<step>`. Parts are numbers, and none
/// of these names has a dot.
pub fn step_bundle_name(app_namespace: &str, app: &str, step: &str) -> String {
    format!("{app_namespace}.{app}.step.{step}")
}

/// The step whose object a Bundle of this name carries.
pub fn step_of_bundle(name: &str) -> Option<&str> {
    let mut parts = name.splitn(4, '.').skip(2);
    (parts.next()? == "step").then(|| parts.next()).flatten()
}

/// Namespace and name of the application whose Bundle has this name, be it its first, a further part, or the one of a step.
pub fn application_of_bundle(name: &str) -> Option<(&str, &str)> {
    let (namespace, rest) = name.split_once('.')?;
    let (app, rest) = rest
        .split_once('.')
        .map_or((rest, None), |(app, rest)| (app, Some(rest)));
    let is_one = rest.is_none_or(|rest| rest.starts_with("step.") || rest.parse::<usize>().is_ok());
    (is_one && !namespace.is_empty() && !app.is_empty()).then_some((namespace, app))
}

/// Name of an application revision, `<app>-v<N>`.
pub fn revision_name(app: &str, revision: u64) -> String {
    format!("{app}-v{revision}")
}

/// Name of a step's Decision, `<app>-<step>`.
pub fn decision_name(app: &str, step: &str) -> String {
    format!("{app}-{step}")
}

/// Name of an AppliedBundle in a member, `<hub id>.<bundle>`.
pub fn ledger_name(hub_id: &str, bundle: &str) -> String {
    format!("{hub_id}.{bundle}")
}

/// Value of the annotation [`annotation::OWNED_BY`], `<hub id>/<bundle>`.
pub fn owner_marker(hub_id: &str, bundle: &str) -> String {
    format!("{hub_id}/{bundle}")
}

/// Hub id: the first 10 hex digits of the sha256 of the uid of the hub's namespace `kube-system`.
pub fn hub_id(kube_system_uid: &str) -> String {
    let mut id = crate::hash::sha256(kube_system_uid.as_bytes());
    id.truncate(10);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_dns_labels_of_55() {
        assert_eq!(ClusterName::new("c1").unwrap().namespace(), "cluster-c1");
        assert!(ClusterName::new("c".repeat(55)).is_ok());
        for bad in ["", "C1", "c_1", "-c", "c-", "c.1", "é", &"c".repeat(56)] {
            assert!(ClusterName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_and_values_of_labels_are_as_kubernetes_takes_them() {
        let long = "a".repeat(63);
        let prefix = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
        for key in [
            "region",
            "A.b_c-9",
            "example.com/tier",
            "1/2",
            &long,
            &format!("{prefix}/{long}"),
        ] {
            assert!(is_qualified(key), "{key:?}");
        }
        for key in [
            "",
            "bad key",
            "-a",
            "a-",
            "/a",
            "a/",
            "a/b/c",
            "Example.com/a",
            "a..b/c",
            "é",
            &format!("{long}a"),
            &format!("{prefix}e/a"),
        ] {
            assert!(!is_qualified(key), "{key:?}");
        }
        for value in ["", "east", "1.0_b-C", &long] {
            assert!(is_label_value(value), "{value:?}");
        }
        for value in ["not valid!", "-a", "a.", "a/b", "é", &format!("{long}a")] {
            assert!(!is_label_value(value), "{value:?}");
        }
    }

    #[test]
    fn names_of_agents_have_one_spelling() {
        let east = AgentName::new(ClusterName::new("east").unwrap(), 3);
        assert_eq!(east.to_string(), "roundhouse:agent:east:3");
        assert_eq!(AgentName::parse("roundhouse:agent:east:3"), Some(east));
        for other in [
            "roundhouse:agent:east",
            "roundhouse:agent:east:",
            "roundhouse:agent:east:0",
            "roundhouse:agent:east:03",
            "roundhouse:agent:east:+3",
            "roundhouse:agent:east:-3",
            "roundhouse:agent:east:3:4",
            "roundhouse:agent:East:3",
            "roundhouse:agent::3",
            "roundhouse:agent:east:4294967296",
            "xroundhouse:agent:east:3",
        ] {
            assert_eq!(AgentName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn bookkeeping_is_told_by_its_prefix() {
        for own in [
            label::COMPONENT_TYPE,
            label::TRAIT_TYPE,
            label::REVISION,
            annotation::OWNED_BY,
        ] {
            assert!(is_bookkeeping(own), "{own}");
        }
        for other in ["app", "app.kubernetes.io/name", label::MANAGED_BY, "oam.dev/x"] {
            assert!(!is_bookkeeping(other), "{other}");
        }
    }

    #[test]
    fn whose_a_bundle_was_is_told_by_its_name() {
        for (name, expected) in [
            ("default.web", Some(("default", "web"))),
            ("default.web.2", Some(("default", "web"))),
            ("default.web.step.flags", Some(("default", "web"))),
            ("default.web.step.a.b", Some(("default", "web"))),
            ("by-hand", None),
            ("by.hand.too", None),
            (".web", None),
            ("default.", None),
        ] {
            assert_eq!(application_of_bundle(name), expected, "{name}");
        }
    }

    #[test]
    fn derived_names() {
        assert_eq!(bundle_name("default", "web", 1), "default.web");
        assert_eq!(bundle_name("default", "web", 2), "default.web.2");
        assert_eq!(
            step_bundle_name("default", "web", "step-0"),
            "default.web.step.step-0"
        );
        for (name, step) in [
            ("default.web.step.step-0", Some("step-0")),
            ("default.web.2", None),
            ("default.web.step", None),
            ("default.step.2", None),
            ("step", None),
        ] {
            assert_eq!(step_of_bundle(name), step, "{name}");
        }
        assert_eq!(revision_name("web", 3), "web-v3");
        assert_eq!(decision_name("web", "step-0"), "web-step-0");
        assert_eq!(
            owner_marker("0123456789", "default.web"),
            "0123456789/default.web"
        );
        assert_eq!(hub_id("u").len(), 10);
    }
}
