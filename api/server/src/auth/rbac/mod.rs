//! Role-based access control over the stored Roles, ClusterRoles and their bindings.
//!
//! What is stored is compiled when it is written and looked up by subject when it is asked for; no request parses a role.

mod bootstrap;
mod index;
mod rule;

pub(crate) use bootstrap::defaults;
pub(crate) use index::{GROUP, Stored, TABLES};
pub use rule::PolicyRule;
pub(crate) use rule::{count, described, missing, quoted};

use index::Index;
use parking_lot::RwLock;
use rule::covered;
use serde_json::Value;

use super::{
    Action, Attributes, Authorizer, Decision, Identity,
    agent::{agent_may, agent_may_path, agent_rules},
    identity::MASTERS,
};

/// An authorizer that obeys the stored RBAC objects: what no binding allows is denied.
///
/// Members of `system:masters` may do everything, as in Kubernetes. Agents may what is bound to them as far as the server's
/// own rule goes: no role widens that, whatever it names, and what nobody has bound to an agent it may not.
#[derive(Debug, Default)]
pub struct Rbac {
    index: RwLock<Index>,
}

/// The rules that hold for somebody, and what stood in the way of knowing all of them.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) rules: Vec<PolicyRule>,
    pub(crate) errors: Vec<String>,
}

impl Rbac {
    /// Takes over what is stored at a place. `read` gives the object of now: it is called while nobody else takes
    /// anything over, so that of two writes at once the later one is what stays.
    pub(crate) fn follow(&self, stored: &Stored<'_>, read: impl FnOnce() -> Option<Value>) {
        let mut index = self.index.write();
        let value = read();
        index.set(stored, value.as_ref());
    }

    /// What a user may by bindings in `namespace` (empty: across all).
    pub(crate) fn rules_of(&self, identity: &Identity, namespace: &str) -> Rules {
        let mut out = Rules::default();
        self.index.read().visit(identity, namespace, |granted| {
            match granted.rules {
                Ok(rules) => out.rules.extend_from_slice(rules),
                Err(error) => out.errors.push(error),
            }
            false
        });
        if identity.agent_of().is_some() {
            out.rules = covered(&out.rules, &agent_rules(identity, namespace));
        }
        out
    }

    /// The rules a reference names: of a ClusterRole, or of a Role in the namespace.
    ///
    /// # Errors
    /// Which role is not there.
    pub(crate) fn role(&self, kind: &str, name: &str, namespace: &str) -> Result<Vec<PolicyRule>, String> {
        self.index
            .read()
            .role(kind == "ClusterRole", name, namespace)
            .map(<[_]>::to_vec)
    }

    fn ask(&self, identity: &Identity, namespace: &str, allows: impl Fn(&PolicyRule) -> bool) -> Decision {
        if identity.in_group(MASTERS) && identity.agent_of().is_none() {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }
        let mut errors = vec![];
        let mut decision = Decision::default();
        self.index.read().visit(identity, namespace, |granted| {
            match granted.rules {
                Ok(rules) => decision.allowed = rules.iter().any(&allows),
                Err(error) => errors.push(error),
            }
            if decision.allowed {
                let (binding, subject) = granted.source;
                decision.reason = format!("RBAC: allowed by {binding} to {subject}");
            }
            decision.allowed
        });
        if !decision.allowed && !errors.is_empty() {
            errors.dedup();
            decision.reason = match errors.as_slice() {
                [one] => format!("RBAC: {one}"),
                many => format!("RBAC: [{}]", many.join(", ")),
            };
        }
        decision
    }
}

impl Authorizer for Rbac {
    fn allows(&self, identity: &Identity, attributes: &Attributes<'_>) -> bool {
        self.decide(identity, &Action::Resource(*attributes)).allowed
    }

    fn allows_path(&self, identity: &Identity, verb: &str, path: &str) -> bool {
        self.decide(identity, &Action::Path { verb, path }).allowed
    }

    fn decide(&self, identity: &Identity, action: &Action<'_>) -> Decision {
        if let Some(cluster) = identity.agent_of() {
            let possible = match action {
                Action::Resource(attributes) => agent_may(cluster, attributes),
                Action::Path { verb, path } => agent_may_path(verb, path),
            };
            if !possible {
                return Decision::default();
            }
        }
        match action {
            Action::Resource(a) => self.ask(identity, a.namespace, |rule| rule.allows(a)),
            Action::Path { verb, path } => self.ask(identity, "", |rule| rule.allows_path(verb, path)),
        }
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let Rules { mut rules, errors } = self.rules_of(identity, namespace);
        if identity.in_group(MASTERS) && identity.agent_of().is_none() {
            let everything = PolicyRule::everything().into_iter();
            let lacking: Vec<_> = everything.filter(|rule| !rules.contains(rule)).collect();
            rules.splice(0..0, lacking);
        }
        (rules, errors)
    }
}
