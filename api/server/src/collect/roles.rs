//! Aggregated ClusterRoles are filled from the ones they select, and the roles of the first start are kept.

use memchr::memmem;
use serde_json::Value;

use crate::{
    auth::{PolicyRule, RBAC_GROUP, missing_rules},
    kinds::Resource,
    object::{self, at, meta, set, set_meta, text},
    selector::{LabelSelector, Labels},
    server::Core,
    store::{Key, Record},
    verbs::{self, Intent, Part, Refusal},
};

/// Where ClusterRoles are stored.
pub(super) const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// Times a write is tried again when another one came between.
const TRIES: usize = 8;
/// Rounds of aggregation: a role that is aggregated may be part of another. Longer chains than this are left to the next
/// write of a ClusterRole.
const ROUNDS: usize = 8;

fn bindings(value: &Value) -> &[Value] {
    value
        .get("subjects")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn rules(value: &Value) -> &[Value] {
    value
        .get("rules")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// What an aggregated role selects; `None` if it is none.
fn selectors(role: &Value) -> Option<impl Iterator<Item = LabelSelector>> {
    let selectors = at(role, &["aggregationRule", "clusterRoleSelectors"])?.as_array()?;
    Some(
        selectors
            .iter()
            .filter_map(|selector| LabelSelector::of_object(selector).ok()),
    )
}

fn labels(role: &Value) -> Labels {
    let all = at(role, &["metadata", "labels"]).and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

impl Core {
    /// Whether a write of a ClusterRole may change what is aggregated: it is an aggregated one, or one selects it, before or after.
    /// Nearly none is: each cluster of a fleet has a role, and to read all of them at every write of one takes long.
    pub(super) fn is_aggregation(&self, old: Option<&Value>, new: Option<&Value>) -> bool {
        let written = || old.into_iter().chain(new);
        if written().any(|role| selectors(role).is_some()) {
            return true;
        }
        let labels: Vec<Labels> = written().map(labels).collect();
        let may_be = memmem::Finder::new(b"\"aggregationRule\"");
        let mut all = self.records(CLUSTER_ROLES, None);
        all.any(|(_, record)| {
            let selects = may_be
                .find(&record.bytes)
                .is_some()
                .then(|| object::decode(&record.bytes));
            let mut selects = selects.iter().filter_map(selectors).flatten();
            selects.any(|selector| labels.iter().any(|labels| selector.matches(labels)))
        })
    }

    /// Gives every aggregated ClusterRole the rules of those it selects.
    pub(super) fn aggregate_roles(&self) {
        let Some(resource) = self.resource_of(CLUSTER_ROLES) else {
            return;
        };
        for _ in 0..ROUNDS {
            let mut roles: Vec<(Key, Record, Value)> = self
                .records(CLUSTER_ROLES, None)
                .map(|(key, record)| {
                    let value = object::decode(&record.bytes);
                    (key, record, value)
                })
                .collect();
            let mut changed = false;
            for at in 0..roles.len() {
                let Some((key, record, role)) = roles.get(at) else {
                    break;
                };
                let Some(rules_) = aggregated(role, &roles) else {
                    continue;
                };
                if rules(role) == rules_ {
                    continue;
                }
                let old = verbs::decode_stored(&resource, &record.bytes);
                let mut new = old.clone();
                set(&mut new, "rules", Some(rules_.into()));
                let intent = Intent::of_controller(Part::Main);
                match verbs::store_update(self, &resource, key, record, old, new, &intent) {
                    Ok(new) => {
                        changed = true;
                        // The note of this write would begin all over, for ever if roles select each other.
                        self.notes.forget_role();
                        // Those that follow see it: so roles that select each other come to the same.
                        if let Some((_, _, role)) = roles.get_mut(at) {
                            *role = new.value;
                        }
                    }
                    // Another write came between; it leaves a note of its own.
                    Err(Refusal::Raced) => changed = true,
                    Err(Refusal::Error(error)) => {
                        tracing::warn!(%error, role = %key.name, "an aggregated role was not filled");
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Writes the roles and bindings of the first start, and gives back to them what they lack: never more, and nothing to
    /// one whose annotation says that it is not to be updated.
    pub(crate) fn reconcile_roles(&self) {
        for wanted in crate::auth::default_roles() {
            let kind = text(&wanted, &["kind"]).unwrap_or_default();
            let Some(resource) = self.registry.by_kind(&format!("{RBAC_GROUP}/v1"), kind) else {
                continue;
            };
            if let Err(error) = self.reconcile_role(&resource, &wanted) {
                tracing::error!(%error, name = meta(&wanted, "name"), "a default role or binding was not written");
            }
        }
        self.follow_up();
    }

    fn reconcile_role(&self, resource: &Resource, wanted: &Value) -> Result<(), crate::ApiError> {
        let key = Key::new(&resource.table, "", meta(wanted, "name"));
        let intent = Intent::of_controller(Part::Main);
        for _ in 0..TRIES {
            let Some(record) = self.store.get(&key) else {
                return verbs::store_new(self, resource, "", wanted, &intent).map(drop);
            };
            let have = verbs::decode_stored(resource, &record.bytes);
            let Some(new) = reconciled(&have, wanted) else {
                return Ok(());
            };
            match verbs::store_update(self, resource, &key, &record, have, new, &intent) {
                Ok(_) => return Ok(()),
                Err(Refusal::Raced) => {}
                Err(Refusal::Error(error)) => return Err(error),
            }
        }
        Err(resource.conflict(&key.name))
    }
}

/// The rules of an aggregated role: those of every role it selects, by name, each once. `None` if it is none.
fn aggregated(role: &Value, all: &[(Key, Record, Value)]) -> Option<Vec<Value>> {
    let mut out: Vec<Value> = vec![];
    for selector in selectors(role)? {
        for (_, record, other) in all {
            if meta(other, "name") == meta(role, "name") || !selector.matches(&Labels::of(&record.bytes)) {
                continue;
            }
            for rule in rules(other) {
                if !out.contains(rule) {
                    out.push(rule.clone());
                }
            }
        }
    }
    Some(out)
}

/// What a default role or binding becomes: labels, annotations, rules and subjects that it lacks are added. `None` if it
/// lacks nothing or is not to be touched.
fn reconciled(have: &Value, wanted: &Value) -> Option<Value> {
    if text(have, &["metadata", "annotations", AUTOUPDATE]).is_some_and(|v| v == "false") {
        return None;
    }
    let mut new = have.clone();
    for key in ["labels", "annotations"] {
        let mut map = at(wanted, &["metadata", key])?.as_object()?.clone();
        let own = at(have, &["metadata", key]).and_then(Value::as_object);
        map.extend(own.cloned().unwrap_or_default());
        set_meta(&mut new, key, Some(map.into()));
    }
    if let Some(aggregation) = wanted.get("aggregationRule") {
        if have.get("aggregationRule").is_none() {
            set(&mut new, "aggregationRule", Some(aggregation.clone()));
        }
    } else if wanted.get("rules").is_some() {
        let (own, wanted) = (PolicyRule::of_role(have), PolicyRule::of_role(wanted));
        let lacking: Vec<PolicyRule> = missing_rules(&own, &wanted).collect();
        if !lacking.is_empty() {
            let lacking = lacking.iter().filter_map(|rule| serde_json::to_value(rule).ok());
            let rules_: Vec<Value> = rules(have).iter().cloned().chain(lacking).collect();
            set(&mut new, "rules", Some(rules_.into()));
        }
    }
    if wanted.get("subjects").is_some() {
        let lacking = bindings(wanted).iter().filter(|s| !bindings(have).contains(s));
        let subjects: Vec<Value> = bindings(have).iter().chain(lacking).cloned().collect();
        set(&mut new, "subjects", Some(subjects.into()));
    }
    (new != *have).then_some(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_get_back_what_they_lack_and_keep_what_they_have() {
        let wanted = json!({"metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {AUTOUPDATE: "true"}},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]});
        assert_eq!(reconciled(&wanted, &wanted), None);
        let mut less = wanted.clone();
        less["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]}]);
        less["metadata"]["labels"] = json!({"l": "own", "m": "2"});
        let new = reconciled(&less, &wanted).unwrap();
        assert_eq!(new["metadata"]["labels"], json!({"l": "own", "m": "2"}));
        assert_eq!(
            new["rules"],
            json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]},
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
        );
        less["metadata"]["annotations"][AUTOUPDATE] = json!("false");
        assert_eq!(reconciled(&less, &wanted), None);
        let wanted = json!({"metadata": {"labels": {}, "annotations": {}}, "subjects": [{"name": "a"}, {"name": "b"}]});
        let mut less = wanted.clone();
        less["subjects"] = json!([{"name": "c"}, {"name": "b"}]);
        let new = reconciled(&less, &wanted).unwrap();
        assert_eq!(
            new["subjects"],
            json!([{"name": "c"}, {"name": "b"}, {"name": "a"}])
        );
    }
}
