//! The Roles of a chart, made of the table of rights of its binary.

use roundhouse_api::rights::{Right, Scope};
use std::fmt::Write as _;

/// The template of a chart that gives its service account the rights of `table`, which is named `constant`: those of the whole
/// API server by a ClusterRole, those of the own namespace by a Role.
pub fn template(chart: &str, constant: &str, table: &[Right]) -> String {
    let command = super::generated::COMMAND;
    let mut out = format!("{{{{- /* Made of {constant}: change that, and then {command}. */}}}}\n");
    let mut first = true;
    for (scope, role, own) in [(Scope::Cluster, "ClusterRole", false), (Scope::Own, "Role", true)] {
        let rights: Vec<&Right> = table.iter().filter(|right| right.scope == scope).collect();
        if rights.is_empty() {
            continue;
        }
        if !std::mem::take(&mut first) {
            out += "---\n";
        }
        out += &head(chart, role, own);
        out += "rules:\n";
        rights.into_iter().for_each(|right| out += &rule(right));
        out += "---\n";
        out += &head(chart, &format!("{role}Binding"), own);
        let _ = write!(
            out,
            "roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {role}
  name: {{{{ include \"{chart}.name\" . }}}}
subjects:
  - kind: ServiceAccount
    name: {{{{ include \"{chart}.name\" . }}}}
    namespace: {{{{ .Release.Namespace }}}}
"
        );
    }
    out
}

fn head(chart: &str, kind: &str, namespaced: bool) -> String {
    let namespace = if namespaced {
        "  namespace: {{ .Release.Namespace }}\n"
    } else {
        ""
    };
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata:
  name: {{{{ include \"{chart}.name\" . }}}}
{namespace}  labels:
    {{{{- include \"{chart}.labels\" . | nindent 4 }}}}
"
    )
}

fn rule(right: &Right) -> String {
    let list = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        format!("[{}]", words.join(", "))
    };
    let names = match right.names {
        [] => String::new(),
        names => format!("    resourceNames: {}\n", list(names)),
    };
    format!(
        "  # {}\n  - apiGroups: {}\n    resources: {}\n{names}    verbs: {}\n",
        right.why,
        list(&[right.group]),
        list(&[right.resource]),
        list(right.verbs)
    )
}

/// The table of rights for people, in Markdown.
pub fn table(rights: &[Right]) -> String {
    let mut out = "| where | resource | verbs | what for |\n| --- | --- | --- | --- |\n".to_owned();
    for right in rights {
        let scope = match right.scope {
            Scope::Cluster => "everywhere",
            Scope::Own => "its own namespace",
            Scope::OfCluster => "`cluster-NAME`",
        };
        let group = if right.group.is_empty() {
            String::new()
        } else {
            format!(" ({})", right.group)
        };
        let names = match right.names {
            [] => String::new(),
            names => format!(", only `{}`", names.join("`, `")),
        };
        let (resource, verbs) = (right.resource, right.verbs.join(", "));
        let _ = writeln!(
            out,
            "| {scope} | `{resource}`{group}{names} | {verbs} | {} |",
            right.why
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charts::{documents, template::Templates};
    use roundhouse_api::rights;
    use serde_json::{Value, json};

    const TABLE: &[Right] = &[
        Right {
            scope: Scope::Own,
            group: "",
            resource: "secrets",
            names: &["identity"],
            verbs: &["get", "patch"],
            why: "who it is",
        },
        Right {
            scope: Scope::Cluster,
            group: "apps",
            resource: "deployments/status",
            names: &[],
            verbs: &["*"],
            why: "how far: they are",
        },
    ];

    fn rendered(table: &[Right]) -> Vec<Value> {
        let mut templates = Templates::default();
        let definitions = "{{ define \"x.name\" }}x{{ end }}{{ define \"x.labels\" }}a: b{{ end }}";
        templates.add("_names", definitions).unwrap();
        templates.add("rights", &template("x", "TABLE", table)).unwrap();
        let root = json!({"Release": {"Namespace": "ns"}});
        documents(&templates.render(&root).unwrap()["rights"]).unwrap()
    }

    #[test]
    fn rights_of_each_scope_become_a_role_and_its_binding() {
        let objects = rendered(TABLE);
        let kinds: Vec<_> = objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
        );
        for (object, scope) in [(&objects[0], Scope::Cluster), (&objects[2], Scope::Own)] {
            let rules = serde_json::to_value(rights::rules(TABLE, scope)).unwrap();
            assert_eq!(object["rules"], rules);
        }
        assert_eq!(objects[2]["metadata"]["namespace"], "ns");
        assert!(objects[0]["metadata"].get("namespace").is_none());
        assert_eq!(objects[3]["roleRef"]["kind"], "Role");
        assert_eq!(rendered(&TABLE[..1]).len(), 2);
    }

    #[test]
    fn the_table_for_people_says_where_what_and_why() {
        let text = table(TABLE);
        assert!(
            text.contains("| its own namespace | `secrets`, only `identity` | get, patch | who it is |\n")
        );
        assert!(text.contains("| everywhere | `deployments/status` (apps) | * | how far: they are |\n"));
    }
}
