//! Checks of roles and bindings, in Kubernetes' own words (`pkg/apis/rbac/validation`).

use serde_json::Value;

use crate::{
    auth::RBAC_GROUP,
    error::Cause,
    names,
    object::at,
    schema::{join, join_index},
    selector::LabelSelector,
};

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn unsupported(field: String, value: &str, supported: &[&str]) -> Cause {
    let words: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
    let words = words.join(", ");
    Cause::not_supported(
        field,
        format!("Unsupported value: {value:?}: supported values: {words}"),
    )
}

/// What is wrong with an RBAC object.
pub(super) fn check_rbac(kind: &str, value: &Value, out: &mut Vec<Cause>) {
    let namespaced = matches!(kind, "Role" | "RoleBinding");
    match kind {
        "Role" | "ClusterRole" => {
            for (i, rule) in list(value, "rules").iter().enumerate() {
                check_rule(rule, namespaced, &join_index("rules", i), out);
            }
            check_aggregation(value, out);
        }
        _ => check_binding(value, namespaced, out),
    }
}

fn check_rule(rule: &Value, namespaced: bool, path: &str, out: &mut Vec<Cause>) {
    let has = |key: &str| !list(rule, key).is_empty();
    let required = |key: &str, why: &str| Cause::required(join(path, key), format!("Required value: {why}"));
    if !has("verbs") {
        out.push(required("verbs", "verbs must contain at least one value"));
    }
    if has("nonResourceURLs") {
        let invalid =
            |why: &str| Cause::invalid_value(join(path, "nonResourceURLs"), rule.get("nonResourceURLs"), why);
        if namespaced {
            out.push(invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
            out.push(invalid(
                "rules cannot apply to both regular resources and non-resource URLs",
            ));
        }
        return;
    }
    if !has("apiGroups") {
        out.push(required(
            "apiGroups",
            "resource rules must supply at least one api group",
        ));
    }
    if !has("resources") {
        out.push(required(
            "resources",
            "resource rules must supply at least one resource",
        ));
    }
}

fn check_aggregation(value: &Value, out: &mut Vec<Cause>) {
    let Some(rule) = value.get("aggregationRule").filter(|r| !r.is_null()) else {
        return;
    };
    let path = "aggregationRule.clusterRoleSelectors";
    if list(rule, "clusterRoleSelectors").is_empty() {
        let why = "Required value: at least one clusterRoleSelector required if aggregationRule is non-nil";
        out.push(Cause::required(path, why));
    }
    for (i, selector) in list(rule, "clusterRoleSelectors").iter().enumerate() {
        if LabelSelector::of_object(selector).is_err() {
            let why = "invalid label selector.";
            out.push(Cause::invalid_value(join_index(path, i), Some(selector), why));
        }
    }
}

fn check_binding(value: &Value, namespaced: bool, out: &mut Vec<Cause>) {
    let empty = Value::Null;
    let role = at(value, &["roleRef"]).unwrap_or(&empty);
    if word(role, "apiGroup") != RBAC_GROUP {
        out.push(unsupported(
            "roleRef.apiGroup".into(),
            word(role, "apiGroup"),
            &[RBAC_GROUP],
        ));
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&word(role, "kind")) {
        out.push(unsupported("roleRef.kind".into(), word(role, "kind"), kinds));
    }
    match word(role, "name") {
        "" => out.push(Cause::required("roleRef.name", "Required value")),
        name => {
            let wrong = names::path_segment(name).into_iter();
            out.extend(
                wrong.map(|why| Cause::invalid("roleRef.name", format!("Invalid value: {name:?}: {why}"))),
            );
        }
    }
    for (i, subject) in list(value, "subjects").iter().enumerate() {
        check_subject(subject, namespaced, &join_index("subjects", i), out);
    }
}

fn check_subject(subject: &Value, namespaced: bool, path: &str, out: &mut Vec<Cause>) {
    let (kind, name, group) = (
        word(subject, "kind"),
        word(subject, "name"),
        word(subject, "apiGroup"),
    );
    let at = |key: &str| join(path, key);
    let invalid = |why: &str| Cause::invalid(at("name"), format!("Invalid value: {name:?}: {why}"));
    if name.is_empty() {
        out.push(Cause::required(at("name"), "Required value"));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                out.extend(names::dns_subdomain(name).iter().map(|why| invalid(why)));
            }
            if !group.is_empty() {
                out.push(unsupported(at("apiGroup"), group, &[""]));
            }
            if !namespaced && word(subject, "namespace").is_empty() {
                out.push(Cause::required(at("namespace"), "Required value"));
            }
        }
        "User" | "Group" => {
            if name.is_empty() {
                out.push(invalid(&format!("{} name cannot be empty", kind.to_lowercase())));
            }
            if group != RBAC_GROUP {
                out.push(unsupported(at("apiGroup"), group, &[RBAC_GROUP]));
            }
        }
        _ => out.push(unsupported(
            at("kind"),
            kind,
            &["ServiceAccount", "User", "Group"],
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(kind: &str, value: &Value) -> Vec<String> {
        let mut out = vec![];
        check_rbac(kind, value, &mut out);
        out.iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect()
    }

    #[test]
    fn roles() {
        let ok = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
        assert!(wrong("Role", &ok).is_empty());
        let paths = json!({"rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]});
        assert!(wrong("ClusterRole", &paths).is_empty());
        assert_eq!(
            wrong("Role", &paths),
            [
                r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#
            ]
        );
        let both = json!({"rules": [{"nonResourceURLs": ["/x"], "resources": ["pods"]}]});
        assert_eq!(
            wrong("ClusterRole", &both),
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#
            ]
        );
        assert_eq!(
            wrong("Role", &json!({"rules": [{"verbs": ["get"]}]})),
            [
                "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
                "rules[0].resources: Required value: resource rules must supply at least one resource"
            ]
        );
        assert_eq!(
            wrong("ClusterRole", &json!({"aggregationRule": {}})),
            [
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"
            ]
        );
    }

    #[test]
    fn bindings() {
        let binding = |kind: &str, subject: Value| json!({"roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": "r"}, "subjects": [subject]});
        let user = json!({"kind": "User", "apiGroup": RBAC_GROUP, "name": "jane"});
        assert!(wrong("RoleBinding", &binding("Role", user.clone())).is_empty());
        assert_eq!(
            wrong("ClusterRoleBinding", &binding("Role", user)),
            [r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#]
        );
        let table: [(Value, &[&str]); 5] = [
            (
                json!({"kind": "ServiceAccount", "name": "a"}),
                &["subjects[0].namespace: Required value"],
            ),
            (
                json!({"kind": "ServiceAccount", "name": "a", "namespace": "b", "apiGroup": "x"}),
                &[r#"subjects[0].apiGroup: Unsupported value: "x": supported values: """#],
            ),
            (
                json!({"kind": "User", "name": "", "apiGroup": RBAC_GROUP}),
                &[
                    "subjects[0].name: Required value",
                    r#"subjects[0].name: Invalid value: "": user name cannot be empty"#,
                ],
            ),
            (
                json!({"kind": "Group", "name": "g", "apiGroup": "x"}),
                &[
                    r#"subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                ],
            ),
            (
                json!({"kind": "Robot", "name": "g"}),
                &[
                    r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
                ],
            ),
        ];
        for (subject, want) in table {
            assert_eq!(
                wrong("ClusterRoleBinding", &binding("ClusterRole", subject.clone())),
                want,
                "{subject}"
            );
        }
        assert_eq!(
            wrong("RoleBinding", &json!({"roleRef": {"kind": "X", "apiGroup": "y"}})),
            [
                r#"roleRef.apiGroup: Unsupported value: "y": supported values: "rbac.authorization.k8s.io""#,
                r#"roleRef.kind: Unsupported value: "X": supported values: "Role", "ClusterRole""#,
                "roleRef.name: Required value"
            ]
        );
    }
}
