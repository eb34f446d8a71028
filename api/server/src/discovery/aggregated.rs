//! Aggregated discovery (`apidiscovery.k8s.io/v2`): everything in two requests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::groups::{SUB_VERBS, by_group, verbs_of};
use crate::{kinds::Resource, object::set, server::Core};

/// `/api`.
pub(super) fn core(core: &Core) -> Value {
    list(core, |group| group.is_empty())
}

/// `/apis`.
pub(super) fn groups(core: &Core) -> Value {
    list(core, |group| !group.is_empty())
}

fn list(core: &Core, wanted: impl Fn(&str) -> bool) -> Value {
    let groups = by_group(core)
        .into_iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|(version, all)| {
                    let resources: Vec<Value> = all.iter().map(resource).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": name, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        });
    let items: Vec<Value> = groups.collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn resource(r: &Arc<Resource>) -> Value {
    let kind = json!({"group": r.group, "version": r.version, "kind": r.kind});
    let mut entry = json!({
        "resource": r.plural, "responseKind": kind, "singularResource": r.singular, "verbs": verbs_of(r),
        "scope": if r.namespaced { "Namespaced" } else { "Cluster" },
    });
    if !r.short_names.is_empty() {
        set(&mut entry, "shortNames", Some(json!(r.short_names)));
    }
    if !r.categories.is_empty() {
        set(&mut entry, "categories", Some(json!(r.categories)));
    }
    let mut subresources = vec![];
    if r.status {
        subresources.push(json!({"subresource": "status", "responseKind": kind, "verbs": SUB_VERBS}));
    }
    if r.scale.is_some() {
        let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        subresources.push(json!({"subresource": "scale", "responseKind": scale, "verbs": SUB_VERBS}));
    }
    for (name, [group, version, kind], verbs) in super::groups::own_subresources(r) {
        let kind = json!({"group": group, "version": version, "kind": kind});
        subresources.push(json!({"subresource": name, "responseKind": kind, "verbs": verbs}));
    }
    if !subresources.is_empty() {
        set(&mut entry, "subresources", Some(subresources.into()));
    }
    entry
}
