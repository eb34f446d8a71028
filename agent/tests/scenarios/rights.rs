//! Who may do what in the embedded member: the administrator everything, others what Roles and RoleBindings of the
//! member give them. As much of RBAC as scenarios need: no ClusterRoles, no resource names, no escalation check.

use roundhouse_apiserver::{
    Attributes, Authorizer, Identity, MemoryStore, Range, Server, Store, StoreLimits,
};
use serde_json::{Value, json};
use std::sync::Arc;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A member whose Roles count.
pub(crate) fn member() -> Server {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreLimits::default()));
    let server = Server::builder().seed(1).count_per_object(true).strict();
    server
        .store(Arc::clone(&store))
        .authorizer(Arc::new(Roles(store)))
        .build()
}

struct Roles(Arc<dyn Store>);

impl Roles {
    fn all(&self, plural: &str, namespace: &str) -> Vec<Value> {
        let range = Range::all(&format!("{plural}.{GROUP}"), Some(namespace));
        let listing = self.0.list(&range).unwrap();
        listing
            .into_records()
            .map(|(_, record)| serde_json::from_slice(&record.bytes).unwrap())
            .collect()
    }
}

impl Authorizer for Roles {
    fn allows(&self, identity: &Identity, asked: &Attributes<'_>) -> bool {
        // What one may oneself is everybody's to ask.
        if identity.in_group("system:masters") || asked.group == "authorization.k8s.io" {
            return true;
        }
        let bindings = self.all("rolebindings", asked.namespace);
        let roles = self.all("roles", asked.namespace);
        let bound = bindings
            .iter()
            .filter(|binding| list(binding, "subjects").any(|subject| is(subject, identity)));
        let given = bound.flat_map(|binding| {
            let name = &binding["roleRef"]["name"];
            roles.iter().filter(move |role| role["metadata"]["name"] == *name)
        });
        given
            .flat_map(|role| list(role, "rules"))
            .any(|rule| covers(rule, asked))
    }
}

fn list<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object[key].as_array().into_iter().flatten()
}

fn is(subject: &Value, identity: &Identity) -> bool {
    let text = |key: &str| subject[key].as_str().unwrap_or_default();
    text("kind") == "ServiceAccount"
        && identity.user == format!("system:serviceaccount:{}:{}", text("namespace"), text("name"))
}

fn covers(rule: &Value, asked: &Attributes<'_>) -> bool {
    let has = |key: &str, wanted: &str| list(rule, key).any(|given| given == wanted || given == "*");
    asked.subresource.is_empty()
        && has("apiGroups", asked.group)
        && has("resources", asked.resource)
        && has("verbs", asked.verb)
}

/// A Role and its binding to the service account `default/<account>`, in namespace `default`.
pub(crate) fn role(account: &str, resources: &[&str], verbs: &[&str]) -> [Value; 2] {
    let metadata = json!({"name": format!("bundles-of-{account}"), "namespace": "default"});
    [
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": ["*"], "resources": resources, "verbs": verbs}]}),
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": format!("bundles-of-{account}")},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": account}]}),
    ]
}
