//! What is stored, compiled: bindings by their subjects, rules by the name of their role.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value;

use super::PolicyRule;
use crate::{
    auth::Identity,
    object::{at, text},
};

/// The group of the four kinds.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Where they are stored.
pub(crate) const TABLES: [&str; 4] = [
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
];

/// The place of a stored object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) table: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// Somebody a binding names, and how reasons call them.
#[derive(Debug)]
struct Subject {
    /// The user name (of a service account: its own) or the group.
    name: String,
    group: bool,
    described: String,
}

#[derive(Debug)]
struct Binding {
    /// How reasons call it, up to the subject.
    described: String,
    cluster_role: bool,
    role: String,
    subjects: Vec<Subject>,
}

/// The bindings of one namespace, or those across all.
#[derive(Debug, Default)]
struct Bindings {
    by_name: BTreeMap<String, Arc<Binding>>,
    users: HashMap<String, Vec<Arc<Binding>>>,
    groups: HashMap<String, Vec<Arc<Binding>>>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    cluster_roles: HashMap<String, Vec<PolicyRule>>,
    /// By namespace and name.
    roles: HashMap<String, HashMap<String, Vec<PolicyRule>>>,
    everywhere: Bindings,
    inside: HashMap<String, Bindings>,
}

/// What one binding gives somebody.
pub(super) struct Granted<'a> {
    /// The binding with its role, and the subject that matched.
    pub(super) source: (&'a str, &'a str),
    /// The rules, or which role is not there.
    pub(super) rules: Result<&'a [PolicyRule], String>,
}

impl Bindings {
    fn set(&mut self, name: &str, binding: Option<Binding>) {
        if let Some(old) = self.by_name.remove(name) {
            for subject in &old.subjects {
                let map = if subject.group {
                    &mut self.groups
                } else {
                    &mut self.users
                };
                if let Some(list) = map.get_mut(&subject.name) {
                    list.retain(|b| !Arc::ptr_eq(b, &old));
                    if list.is_empty() {
                        map.remove(&subject.name);
                    }
                }
            }
        }
        let Some(binding) = binding.map(Arc::new) else {
            return;
        };
        for subject in &binding.subjects {
            let map = if subject.group {
                &mut self.groups
            } else {
                &mut self.users
            };
            let list = map.entry(subject.name.clone()).or_default();
            // A subject may be named twice.
            if !list.iter().any(|b| Arc::ptr_eq(b, &binding)) {
                list.push(binding.clone());
            }
        }
        self.by_name.insert(name.to_owned(), binding);
    }

    /// The bindings of a user, each with the subject that matched.
    fn of<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = (&'a Binding, &'a Subject)> {
        let user = self.users.get(&identity.user).into_iter().flatten();
        let user = user.map(|b| (&**b, (identity.user.as_str(), false)));
        let groups = identity.groups.iter().flat_map(|group| {
            let bound = self.groups.get(group).into_iter().flatten();
            bound.map(move |b| (&**b, (group.as_str(), true)))
        });
        user.chain(groups).filter_map(|(binding, (name, group))| {
            let subject = binding
                .subjects
                .iter()
                .find(|s| s.group == group && s.name == name)?;
            Some((binding, subject))
        })
    }
}

impl Index {
    /// Puts what is stored at a place into the index; `None` takes it out.
    pub(super) fn set(&mut self, stored: &Stored<'_>, value: Option<&Value>) {
        let Stored { namespace, name, .. } = *stored;
        match stored.table.split('.').next() {
            Some("clusterroles") => match value {
                Some(role) => {
                    self.cluster_roles
                        .insert(name.to_owned(), PolicyRule::of_role(role));
                }
                None => {
                    self.cluster_roles.remove(name);
                }
            },
            Some("roles") => {
                let roles = self.roles.entry(namespace.to_owned()).or_default();
                match value {
                    Some(role) => roles.insert(name.to_owned(), PolicyRule::of_role(role)),
                    None => roles.remove(name),
                };
                if roles.is_empty() {
                    self.roles.remove(namespace);
                }
            }
            Some("clusterrolebindings") => self.everywhere.set(name, value.map(|v| binding(v, "", name))),
            Some("rolebindings") => {
                let inside = self.inside.entry(namespace.to_owned()).or_default();
                inside.set(name, value.map(|v| binding(v, namespace, name)));
                if inside.by_name.is_empty() {
                    self.inside.remove(namespace);
                }
            }
            _ => {}
        }
    }

    /// Shows everything that is granted to somebody in a namespace, those across all first, until `enough` says so.
    pub(super) fn visit(
        &self,
        identity: &Identity,
        namespace: &str,
        mut enough: impl FnMut(Granted<'_>) -> bool,
    ) {
        let inside = (!namespace.is_empty())
            .then(|| self.inside.get(namespace))
            .flatten();
        let inside = inside.into_iter().flat_map(|bindings| bindings.of(identity));
        let everywhere = self.everywhere.of(identity).map(|found| (found, ""));
        for ((binding, subject), namespace) in everywhere.chain(inside.map(|found| (found, namespace))) {
            let granted = Granted {
                source: (&binding.described, &subject.described),
                rules: self.role(binding.cluster_role, &binding.role, namespace),
            };
            if enough(granted) {
                return;
            }
        }
    }

    /// The rules of a role.
    pub(super) fn role(&self, cluster: bool, name: &str, namespace: &str) -> Result<&[PolicyRule], String> {
        let found = if cluster {
            self.cluster_roles.get(name)
        } else {
            self.roles.get(namespace).and_then(|roles| roles.get(name))
        };
        // The singular is what Kubernetes says here.
        let kind = if cluster { "clusterrole" } else { "role" };
        found
            .map(Vec::as_slice)
            .ok_or_else(|| format!("{kind}.{GROUP} {name:?} not found"))
    }
}

fn binding(value: &Value, namespace: &str, name: &str) -> Binding {
    let word = |key: &str| text(value, &["roleRef", key]).unwrap_or_default().to_owned();
    let (kind, role) = (word("kind"), word("name"));
    let described = if namespace.is_empty() {
        format!("ClusterRoleBinding {name:?} of {kind} {role:?}")
    } else {
        format!(
            "RoleBinding {:?} of {kind} {role:?}",
            format!("{name}/{namespace}")
        )
    };
    let subjects = at(value, &["subjects"]).and_then(Value::as_array);
    Binding {
        described,
        cluster_role: kind == "ClusterRole",
        role,
        subjects: subjects
            .into_iter()
            .flatten()
            .filter_map(|s| subject(s, namespace))
            .collect(),
    }
}

/// A subject; `None` for what names nobody, such as a service account of no namespace.
fn subject(value: &Value, namespace: &str) -> Option<Subject> {
    let word = |key: &str| text(value, &[key]).unwrap_or_default();
    let (kind, name) = (word("kind"), word("name"));
    let group = match kind {
        "User" | "ServiceAccount" => false,
        "Group" => true,
        _ => return None,
    };
    if kind != "ServiceAccount" {
        return Some(Subject {
            name: name.to_owned(),
            group,
            described: format!("{kind} {name:?}"),
        });
    }
    let place = match word("namespace") {
        "" => namespace,
        place => place,
    };
    (!place.is_empty()).then(|| Subject {
        name: format!("system:serviceaccount:{place}:{name}"),
        group,
        described: format!("{kind} {:?}", format!("{name}/{place}")),
    })
}
