//! Nobody gives rights away that they have not themselves (`pkg/registry/rbac/*/policybased`).

use serde_json::Value;

use crate::{
    auth::{
        Action, Attributes, Identity, MASTERS, PolicyRule, RBAC_GROUP, Rbac, count_rules, described,
        missing_rules, quoted,
    },
    error::ApiError,
    kinds::Resource,
    object::{meta, set_meta, text},
    server::Core,
    verbs::Author,
};

/// Rights of one verb on one thing that are checked one by one; no real role has as many.
const MAX_RIGHTS: usize = 100_000;

/// Missing rights that are told.
const MAX_TOLD: usize = 1000;

/// Refuses a role or binding that gives more than its author has, unless the author may `escalate` roles, or `bind` this
/// one. Where stored roles decide nothing there is nothing to guard.
pub(crate) fn check_escalation(
    core: &Core,
    resource: &Resource,
    namespace: &str,
    old: Option<&Value>,
    new: &Value,
    author: Option<&Author>,
) -> Result<(), ApiError> {
    let (Some(rbac), Some(author)) = (&core.rbac, author) else {
        return Ok(());
    };
    if resource.group != RBAC_GROUP || author.identity.in_group(MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| only_for_collection(old, new)) {
        return Ok(());
    }
    let asked = Asked {
        core,
        rbac,
        resource,
        namespace,
        author,
    };
    match &*resource.kind {
        "Role" | "ClusterRole" => asked.role(old, new),
        _ => asked.binding(new),
    }
}

/// Whether an update changes no more than what the collection of garbage does.
fn only_for_collection(old: &Value, new: &Value) -> bool {
    let bare = |value: &Value| {
        let mut value = value.clone();
        for key in [
            "finalizers",
            "ownerReferences",
            "managedFields",
            "resourceVersion",
        ] {
            set_meta(&mut value, key, None);
        }
        value
    };
    bare(old) == bare(new)
}

struct Asked<'a> {
    core: &'a Core,
    rbac: &'a Rbac,
    resource: &'a Resource,
    namespace: &'a str,
    author: &'a Author,
}

impl Asked<'_> {
    fn may(&self, verb: &str, resource: &str, name: &str) -> bool {
        let attributes = Attributes {
            verb,
            group: RBAC_GROUP,
            resource,
            subresource: "",
            namespace: self.namespace,
            name,
        };
        let action = Action::Resource(attributes);
        self.core
            .authorizer
            .decide(&self.author.identity, &action)
            .allowed
    }

    /// What the author lacks of these rights, as a message.
    fn lacks(&self, rules: &[PolicyRule]) -> Option<String> {
        let who: &Identity = &self.author.identity;
        let count = count_rules(rules);
        if count > MAX_RIGHTS {
            return Some(format!(
                "user {:?} is attempting to grant {count} RBAC permissions at once, more than the limit of {MAX_RIGHTS}: \
                 write \"*\" for all of a kind, or several roles",
                who.user
            ));
        }
        let own = self.rbac.rules_of(who, self.namespace);
        let missing: Vec<PolicyRule> = missing_rules(&own.rules, rules).take(MAX_TOLD).collect();
        if missing.is_empty() {
            return None;
        }
        let mut message = format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            who.user,
            quoted(&who.groups),
            described(missing).join("\n")
        );
        if !own.errors.is_empty() {
            message.push_str(&format!("; resolution errors: [{}]", own.errors.join(", ")));
        }
        Some(message)
    }

    fn role(&self, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        let name = meta(new, "name");
        // A create does not carry the name in its path, so that a right to escalate one role does not cover it.
        let path_name = if self.author.named { name } else { "" };
        if self.may("escalate", &self.resource.plural, path_name) {
            return Ok(());
        }
        if let Some(why) = self.lacks(&PolicyRule::of_role(new)) {
            return Err(self.resource.forbidden(name, &why));
        }
        let aggregates = |role: &Value| role.get("aggregationRule").is_some_and(|rule| !rule.is_null());
        if (aggregates(new) || old.is_some_and(aggregates)) && self.lacks(&PolicyRule::everything()).is_some()
        {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(self.resource.forbidden(name, why));
        }
        Ok(())
    }

    fn binding(&self, new: &Value) -> Result<(), ApiError> {
        let word = |key: &str| text(new, &["roleRef", key]).unwrap_or_default();
        let (kind, role) = (word("kind"), word("name"));
        let plural = match kind {
            "ClusterRole" => "clusterroles",
            "Role" if !self.namespace.is_empty() => "roles",
            // No such role can be bound; the checks of the object say so.
            _ => return Ok(()),
        };
        if self.may("bind", plural, role) {
            return Ok(());
        }
        let Ok(rules) = self.rbac.role(kind, role, self.namespace) else {
            let resource = self.core.registry.by_kind(&format!("{RBAC_GROUP}/v1"), kind);
            return Err(resource.map_or_else(ApiError::no_such_path, |r| r.not_found(role)));
        };
        match self.lacks(&rules) {
            Some(why) => Err(self.resource.forbidden(meta(new, "name"), &why)),
            None => Ok(()),
        }
    }
}
