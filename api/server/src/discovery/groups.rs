//! Plain discovery.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{kinds::Resource, server::Core, verbs::VERBS};

/// The verbs of namespaces: they are deleted one by one.
const NAMESPACE_VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
/// The verbs of a resource.
pub(super) fn verbs_of(resource: &Resource) -> &'static [&'static str] {
    if resource.quirks.review {
        &["create"]
    } else if &*resource.table == "namespaces" {
        &NAMESPACE_VERBS
    } else {
        &VERBS
    }
}

/// The verbs of subresources.
pub(super) const SUB_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A subresource that only this kind has: its name, the group, version and kind it speaks of, and its verbs.
type Own = (&'static str, [&'static str; 3], &'static [&'static str]);

/// The subresources that only this kind has.
pub(super) fn own_subresources(resource: &Resource) -> &'static [Own] {
    const POD: [&str; 3] = ["", "v1", "Pod"];
    match &*resource.table {
        "pods" => &[
            ("binding", ["", "v1", "Binding"], &["create"]),
            ("ephemeralcontainers", POD, &SUB_VERBS),
            ("eviction", ["policy", "v1", "Eviction"], &["create"]),
            ("resize", POD, &SUB_VERBS),
        ],
        "certificatesigningrequests.certificates.k8s.io" => &[(
            "approval",
            ["certificates.k8s.io", "v1", "CertificateSigningRequest"],
            &SUB_VERBS,
        )],
        "serviceaccounts" => &[(
            "token",
            ["authentication.k8s.io", "v1", "TokenRequest"],
            &["create"],
        )],
        "namespaces" => &[("finalize", ["", "v1", "Namespace"], &["update"])],
        _ => &[],
    }
}

/// The resources of a group by version.
type Versions = Vec<(String, Vec<Arc<Resource>>)>;

/// Resources by group and version; built-in groups first, in the order of the table, then custom ones by name.
pub(super) fn by_group(core: &Core) -> Vec<(String, Versions)> {
    let mut order: Vec<String> = vec![];
    let mut groups: BTreeMap<String, BTreeMap<Priority, Vec<Arc<Resource>>>> = BTreeMap::new();
    for resource in core.registry.all() {
        let group = resource.group.to_string();
        if !order.contains(&group) {
            order.push(group.clone());
        }
        groups
            .entry(group)
            .or_default()
            .entry(Priority::of(&resource.version))
            .or_default()
            .push(resource);
    }
    order
        .into_iter()
        .filter_map(|group| {
            let versions = groups.remove(&group)?;
            Some((
                group,
                versions.into_iter().map(|(v, list)| (v.name, list)).collect(),
            ))
        })
        .collect()
}

/// The order of versions: stable before beta before alpha, newer before older
/// (`k8s.io/apimachinery/pkg/version.CompareKubeAwareVersionStrings`).
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Priority {
    rank: (u8, std::cmp::Reverse<u64>, std::cmp::Reverse<u64>),
    name: String,
}

impl Priority {
    fn of(version: &str) -> Self {
        let parsed = version.strip_prefix('v').and_then(|rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (major, tail) = rest.split_at(digits);
            let major: u64 = major.parse().ok()?;
            let (class, minor) = match tail {
                "" => (0, ""),
                t if t.starts_with("beta") => (1, t.trim_start_matches("beta")),
                t if t.starts_with("alpha") => (2, t.trim_start_matches("alpha")),
                _ => return None,
            };
            let minor = if minor.is_empty() { 0 } else { minor.parse().ok()? };
            Some((class, std::cmp::Reverse(major), std::cmp::Reverse(minor)))
        });
        let last = (3, std::cmp::Reverse(0), std::cmp::Reverse(0));
        Self {
            rank: parsed.unwrap_or(last),
            name: version.to_owned(),
        }
    }
}

fn group_value(name: &str, versions: &Versions) -> Value {
    let entry = |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(|(v, _)| entry(v)).collect();
    let preferred = all.first().cloned().unwrap_or_default();
    json!({"name": name, "versions": all, "preferredVersion": preferred})
}

/// `APIGroupList`.
pub(super) fn list(core: &Core) -> Value {
    let groups: Vec<Value> = by_group(core)
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, v)| group_value(name, v))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `APIGroup`.
pub(super) fn one(core: &Core, group: &str) -> Option<Value> {
    let groups = by_group(core);
    let (name, versions) = groups
        .iter()
        .find(|(name, _)| name == group && !name.is_empty())?;
    let mut value = group_value(name, versions);
    crate::object::set(&mut value, "kind", Some("APIGroup".into()));
    crate::object::set(&mut value, "apiVersion", Some("v1".into()));
    Some(value)
}

/// `APIResourceList`.
pub(super) fn resources(core: &Core, group: &str, version: &str) -> Option<Value> {
    let all: Vec<Arc<Resource>> = core
        .registry
        .all()
        .into_iter()
        .filter(|r| r.group == group && r.version == version)
        .collect();
    let group_version = all.first()?.api_version();
    let mut list = vec![];
    for r in &all {
        let mut entry = json!({"name": r.plural, "singularName": r.singular, "namespaced": r.namespaced, "kind": r.kind, "verbs": verbs_of(r)});
        if !r.short_names.is_empty() {
            crate::object::set(&mut entry, "shortNames", Some(json!(r.short_names)));
        }
        if !r.categories.is_empty() {
            crate::object::set(&mut entry, "categories", Some(json!(r.categories)));
        }
        list.push(entry);
        if r.status {
            list.push(json!({"name": format!("{}/status", r.plural), "singularName": "", "namespaced": r.namespaced, "kind": r.kind, "verbs": SUB_VERBS}));
        }
        for (name, [group, version, kind], verbs) in own_subresources(r) {
            let mut entry = json!({"name": format!("{}/{name}", r.plural), "singularName": "", "namespaced": r.namespaced, "kind": kind, "verbs": verbs});
            if (*group, *version) != (&*r.group, &*r.version) {
                crate::object::set(&mut entry, "group", Some((*group).into()));
                crate::object::set(&mut entry, "version", Some((*version).into()));
            }
            list.push(entry);
        }
        if r.scale.is_some() {
            list.push(
                json!({"name": format!("{}/scale", r.plural), "singularName": "", "namespaced": r.namespaced,
                "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": SUB_VERBS}),
            );
        }
    }
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_order() {
        let mut versions = ["v1alpha1", "v10", "foo", "v1", "v2beta1", "v1beta2", "v2"].map(Priority::of);
        versions.sort();
        let names: Vec<&str> = versions.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]
        );
    }
}
