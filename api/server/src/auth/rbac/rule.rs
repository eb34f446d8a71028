//! One rule of a role: what it allows, what it covers (`k8s.io/component-helpers/auth/rbac/validation`).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::auth::Attributes;

/// A rule: verbs on resources, or on paths that are no resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// API groups; `*` for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources and subresources: `pods`, `pods/log`, `*/scale`, `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Objects; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths; a trailing `*` stands for whatever follows.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
    /// Verbs; `*` for all.
    pub verbs: Vec<String>,
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|w| w == word)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

impl PolicyRule {
    /// Verbs on resources of one group.
    pub(crate) fn resources(verbs: &[&str], group: &str, resources: &[&str]) -> Self {
        Self {
            api_groups: words(&[group]),
            resources: words(resources),
            verbs: words(verbs),
            ..Self::default()
        }
    }

    /// Verbs on paths.
    pub(crate) fn paths(verbs: &[&str], paths: &[&str]) -> Self {
        Self {
            non_resource_urls: words(paths),
            verbs: words(verbs),
            ..Self::default()
        }
    }

    /// The rules that allow everything.
    pub(crate) fn everything() -> Vec<Self> {
        vec![Self::resources(&["*"], "*", &["*"]), Self::paths(&["*"], &["*"])]
    }

    /// The rules of a stored role; what does not read allows nothing.
    pub(crate) fn of_role(role: &Value) -> Vec<Self> {
        let list = role.get("rules").and_then(Value::as_array);
        let rules = list.into_iter().flatten();
        rules.filter_map(|rule| Self::deserialize(rule).ok()).collect()
    }

    fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == "*" || v == verb)
    }

    /// Whether it allows a request on a resource.
    pub(crate) fn allows(&self, a: &Attributes<'_>) -> bool {
        self.has_verb(a.verb)
            && self.api_groups.iter().any(|g| g == "*" || g == a.group)
            && self
                .resources
                .iter()
                .any(|r| names_resource(r, a.resource, a.subresource))
            && (self.resource_names.is_empty() || has(&self.resource_names, a.name))
    }

    /// Whether it allows a request on a path that is no resource.
    pub(crate) fn allows_path(&self, verb: &str, path: &str) -> bool {
        self.has_verb(verb) && self.non_resource_urls.iter().any(|url| covers_path(url, path))
    }

    /// Whether it allows whatever `one`, a rule of one verb and one thing, allows.
    fn covers(&self, one: &Self) -> bool {
        let all = |have: &[String], want: &[String], star: &str| {
            has(have, star) || want.iter().all(|w| has(have, w))
        };
        let names = self.resource_names.is_empty()
            || (!one.resource_names.is_empty()
                && one.resource_names.iter().all(|n| has(&self.resource_names, n)));
        all(&self.verbs, &one.verbs, "*")
            && all(&self.api_groups, &one.api_groups, "*")
            && one.resources.iter().all(|r| covers_resource(&self.resources, r))
            && names
            && one
                .non_resource_urls
                .iter()
                .all(|url| self.non_resource_urls.iter().any(|own| covers_path(own, url)))
    }

    /// Taken apart into rules of one verb and one thing each, one after the other: all of them may be more than fit anywhere.
    fn atoms(&self) -> impl Iterator<Item = Self> {
        self.things().flat_map(|thing| {
            self.verbs.iter().map(move |verb| Self {
                verbs: vec![verb.clone()],
                ..thing.clone()
            })
        })
    }

    /// Rules of one thing each, without verbs.
    fn things(&self) -> impl Iterator<Item = Self> {
        let resources = self.api_groups.iter().flat_map(|group| {
            let resources = self.resources.iter();
            resources.map(move |resource| Self::resources(&[], group, &[resource]))
        });
        let named = resources.flat_map(|thing| {
            let any = self.resource_names.is_empty().then(|| thing.clone());
            let named = self.resource_names.iter().map(move |name| Self {
                resource_names: vec![name.clone()],
                ..thing.clone()
            });
            any.into_iter().chain(named)
        });
        let paths = self.non_resource_urls.iter();
        named.chain(paths.map(|url| Self::paths(&[], &[url])))
    }

    /// How many rules it is taken apart into, or things without a verb.
    fn count(&self) -> usize {
        let things = [&self.api_groups, &self.resources].into_iter().map(Vec::len);
        let things = things.fold(self.resource_names.len().max(1), usize::saturating_mul);
        let things = things.saturating_add(self.non_resource_urls.len());
        things.saturating_mul(self.verbs.len().max(1))
    }

    /// The rule in one line, as messages show it (`CompactString`).
    fn compact(&self) -> String {
        let parts: Vec<String> = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| format!("{name}:{}", quoted(list)))
        .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// A list as Go's `%q` prints it.
pub(crate) fn quoted(list: &[String]) -> String {
    let words: Vec<String> = list.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", words.join(" "))
}

fn names_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    match rule.split_once('/') {
        Some((parent, sub)) => sub == subresource && (parent == "*" || parent == resource),
        None => false,
    }
}

fn covers_resource(have: &[String], want: &str) -> bool {
    has(have, "*")
        || has(have, want)
        || want
            .split_once('/')
            .is_some_and(|(_, sub)| has(have, &format!("*/{sub}")))
}

fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

/// What of `wanted` no rule of `have` allows, taken apart.
pub(crate) fn missing(have: &[PolicyRule], wanted: &[PolicyRule]) -> impl Iterator<Item = PolicyRule> {
    let atoms = wanted.iter().flat_map(PolicyRule::atoms);
    atoms.filter(|atom| !have.iter().any(|rule| rule.covers(atom)))
}

/// How many rights of one verb on one thing there are in `rules`.
pub(crate) fn count(rules: &[PolicyRule]) -> usize {
    rules.iter().map(PolicyRule::count).fold(0, usize::saturating_add)
}

/// What of `wanted` the rules of `have` cover.
pub(super) fn covered(have: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let atoms = wanted.iter().flat_map(PolicyRule::atoms);
    joined(
        atoms
            .filter(|atom| have.iter().any(|rule| rule.covers(atom)))
            .collect(),
    )
}

/// Puts the verbs on one thing back together.
pub(crate) fn joined(atoms: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut out: Vec<PolicyRule> = vec![];
    for atom in atoms {
        let simple = atom.non_resource_urls.is_empty();
        let same = |rule: &&mut PolicyRule| {
            simple
                && rule.api_groups == atom.api_groups
                && rule.resources == atom.resources
                && rule.resource_names == atom.resource_names
                && rule.non_resource_urls.is_empty()
        };
        match out.iter_mut().find(same) {
            Some(rule) => rule.verbs.extend(atom.verbs),
            None => out.push(atom),
        }
    }
    out
}

/// The lines that say which rights are missing, in order.
pub(crate) fn described(missing: Vec<PolicyRule>) -> Vec<String> {
    let mut lines: Vec<String> = joined(missing).iter().map(PolicyRule::compact).collect();
    lines.sort();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(value: Value) -> PolicyRule {
        PolicyRule::deserialize(value).unwrap()
    }

    #[test]
    fn what_a_rule_allows() {
        let may = |rule_: &Value, asked: &str| {
            let words: Vec<&str> = asked.split('|').collect();
            let [verb, group, resource, subresource, name] = words[..] else {
                panic!("{asked}")
            };
            rule(rule_.clone()).allows(&Attributes {
                verb,
                group,
                resource,
                subresource,
                namespace: "n",
                name,
            })
        };
        let pods = json!({"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]});
        let scales = json!({"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]});
        let named = json!({"apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a", "b"],
            "verbs": ["get", "list", "create", "deletecollection"]});
        let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        let none = json!({"apiGroups": [], "resources": ["pods"], "verbs": ["get"]});
        let table: [(&Value, &str, bool); 24] = [
            (&pods, "get||pods||x", true),
            (&pods, "get||pods|log|x", true),
            (&pods, "get||pods|exec|x", false),
            (&pods, "watch||pods||", false),
            (&pods, "get|apps|pods||x", false),
            (&pods, "get||podtemplates||x", false),
            (&scales, "patch|apps|deployments|scale|x", true),
            (&scales, "patch|apps|deployments||x", false),
            (&scales, "patch|apps|deployments|status|x", false),
            (&scales, "get||replicationcontrollers|scale|x", false),
            (&named, "get||secrets||a", true),
            (&named, "get||secrets||c", false),
            // A name in a rule is never an empty one: a list of all, a create and a deletecollection have none.
            (&named, "list||secrets||", false),
            (&named, "create||secrets||", false),
            (&named, "deletecollection||secrets||", false),
            (&named, "list||secrets||b", true),
            (&all, "get||pods||x", true),
            (&all, "update|x.dev|gadgets|status|y", true),
            (&all, "impersonate||users||root", true),
            (&none, "get||pods||x", false),
            (&json!({"verbs": ["*"]}), "get||pods||x", false),
            (
                &json!({"apiGroups": [""], "resources": ["pods"], "verbs": []}),
                "get||pods||x",
                false,
            ),
            (
                &json!({"apiGroups": [""], "resources": ["pods/*"], "verbs": ["*"]}),
                "get||pods|log|x",
                false,
            ),
            (
                &json!({"apiGroups": [""], "resources": ["pods/"], "verbs": ["*"]}),
                "get||pods||x",
                false,
            ),
        ];
        for (rule, asked, want) in table {
            assert_eq!(may(rule, asked), want, "{rule} {asked}");
        }
    }

    #[test]
    fn what_a_rule_allows_of_paths() {
        let rule = PolicyRule::paths(&["get"], &["/healthz", "/api/*", "/open*"]);
        for (verb, path, want) in [
            ("get", "/healthz", true),
            ("get", "/healthz/x", false),
            ("get", "/api/", true),
            ("get", "/api/v1", true),
            ("get", "/api", false),
            ("get", "/openapi/v3", true),
            ("post", "/healthz", false),
        ] {
            assert_eq!(rule.allows_path(verb, path), want, "{verb} {path}");
        }
        assert!(PolicyRule::paths(&["*"], &["*"]).allows_path("head", "/"));
        assert!(!PolicyRule::resources(&["*"], "*", &["*"]).allows_path("get", "/"));
    }

    #[test]
    fn what_is_missing_is_told_as_kubernetes_tells_it() {
        let have = [
            rule(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]})),
            rule(json!({"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"]})),
            rule(
                json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]}),
            ),
            PolicyRule::paths(&["get"], &["/api/*"]),
        ];
        let table: [(Value, &[&str]); 8] = [
            (
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get"]}),
                &[],
            ),
            (
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "watch", "delete"]}),
                &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#],
            ),
            (
                json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}),
                &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
            ),
            (
                json!({"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get"]}),
                &[],
            ),
            (
                json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}),
                &[r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#],
            ),
            (
                json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]}),
                &[r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#],
            ),
            (
                json!({"nonResourceURLs": ["/api/v1", "/api/*"], "verbs": ["get"]}),
                &[],
            ),
            (
                json!({"nonResourceURLs": ["/metrics", "*"], "verbs": ["get"]}),
                &[
                    r#"{NonResourceURLs:["*"], Verbs:["get"]}"#,
                    r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#,
                ],
            ),
        ];
        for (wanted, lines) in table {
            assert_eq!(
                described(missing(&have, &[rule(wanted.clone())]).collect()),
                lines,
                "{wanted}"
            );
        }
        assert_eq!(missing(&PolicyRule::everything(), &have).next(), None);
    }

    #[test]
    fn rights_are_counted_as_they_are_taken_apart() {
        for (value, want) in [
            (
                json!({"apiGroups": ["", "a"], "resources": ["b", "c", "d"], "verbs": ["e", "f"]}),
                12,
            ),
            (
                json!({"apiGroups": [""], "resources": ["b"], "resourceNames": ["x", "y"], "verbs": ["e", "f"]}),
                4,
            ),
            (json!({"nonResourceURLs": ["/a", "/b"], "verbs": ["get"]}), 2),
            (json!({"verbs": ["get"]}), 0),
        ] {
            let rule = rule(value.clone());
            assert_eq!((rule.count(), rule.atoms().count()), (want, want), "{value}");
        }
    }
}
