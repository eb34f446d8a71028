//! The roles and bindings every server with RBAC starts with: those of Kubernetes
//! (`plugin/pkg/auth/authorizer/rbac/bootstrappolicy`) that make sense without nodes and controllers of its own.

use serde_json::{Value, json};

use crate::verbs::VERBS;

const RW: &[&str] = &VERBS;
const W: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const R: &[&str] = &["get", "list", "watch"];

/// Verbs, group and resources.
type Row = (&'static [&'static str], &'static str, &'static [&'static str]);

/// The label a ClusterRole joins an aggregated one by, without the name of that one.
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// The aggregated roles, each with the one it is part of.
const AGGREGATES: [(&str, Option<&str>); 3] =
    [("admin", None), ("edit", Some("admin")), ("view", Some("edit"))];

const ADMIN: &[Row] = &[
    (
        &["create"],
        "authorization.k8s.io",
        &["localsubjectaccessreviews"],
    ),
    (RW, "rbac.authorization.k8s.io", &["rolebindings", "roles"]),
];

const EDIT: &[Row] = &[
    (
        R,
        "",
        &[
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "secrets",
            "services/proxy",
        ],
    ),
    (&["impersonate"], "", &["serviceaccounts"]),
    (
        W,
        "",
        &[
            "pods",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
        ],
    ),
    (&["create"], "", &["pods/eviction"]),
    (
        W,
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    (&["create"], "", &["serviceaccounts/token"]),
    (
        W,
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    (W, "autoscaling", &["horizontalpodautoscalers"]),
    (W, "batch", &["cronjobs", "jobs"]),
    (W, "policy", &["poddisruptionbudgets"]),
    (W, "networking.k8s.io", &["ingresses", "networkpolicies"]),
    (RW, "coordination.k8s.io", &["leases"]),
];

const VIEW: &[Row] = &[
    (
        R,
        "",
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        R,
        "",
        &[
            "bindings",
            "events",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
    ),
    (R, "", &["namespaces"]),
    (R, "discovery.k8s.io", &["endpointslices"]),
    (
        R,
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    (
        R,
        "autoscaling",
        &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    ),
    (
        R,
        "batch",
        &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
    ),
    (
        R,
        "policy",
        &["poddisruptionbudgets", "poddisruptionbudgets/status"],
    ),
    (
        R,
        "networking.k8s.io",
        &["ingresses", "ingresses/status", "networkpolicies"],
    ),
];

/// What of the hub's own kinds is edited: what people write. Decisions and revisions are the hub's, and so are bundles, of
/// which whoever writes one writes to a member.
const EDIT_OWN: &[Row] = &[
    (W, "core.oam.dev", &["applications", "componentdefinitions"]),
    (W, "roundhouse.dev", &["placements"]),
    // They carry Secrets, as a whole.
    (R, "roundhouse.dev", &["bundles", "bundles/status"]),
];

const VIEW_OWN: &[Row] = &[
    (
        R,
        "core.oam.dev",
        &[
            "applicationrevisions",
            "applications",
            "applications/status",
            "componentdefinitions",
        ],
    ),
    (
        R,
        "roundhouse.dev",
        &["clusterreports", "decisions", "placements", "placements/status"],
    ),
];

fn rules(rows: &[Row]) -> Value {
    let rule = |(verbs, group, resources): &Row| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    rows.iter().map(rule).collect()
}

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let mut value = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    });
    if let (Some(map), Value::Object(rest)) = (value.as_object_mut(), rest) {
        map.extend(rest);
    }
    value
}

fn label(value: &mut Value, key: String) {
    if let Some(labels) = value
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.insert(key, "true".into());
    }
}

fn role(name: &str, rules: &Value) -> Value {
    object("ClusterRole", name, json!({"rules": rules}))
}

fn binding(name: &str, role: &str, groups: &[&str]) -> Value {
    let group = |name: &&str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
    let subjects: Vec<Value> = groups.iter().map(group).collect();
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
    object(
        "ClusterRoleBinding",
        name,
        json!({"roleRef": reference, "subjects": subjects}),
    )
}

/// The ClusterRoles and ClusterRoleBindings of the first start.
pub(crate) fn defaults() -> Vec<Value> {
    let create = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["create"]});
    let get = |paths: &[&str]| json!({"nonResourceURLs": paths, "verbs": ["get"]});
    let mut out = vec![
        role(
            "cluster-admin",
            &json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]),
        ),
        role(
            "system:discovery",
            &json!([get(&[
                "/api",
                "/api/*",
                "/apis",
                "/apis/*",
                "/healthz",
                "/livez",
                "/openapi",
                "/openapi/*",
                "/readyz",
                "/version",
                "/version/",
            ])]),
        ),
        role(
            "system:public-info-viewer",
            &json!([get(&["/healthz", "/livez", "/readyz", "/version", "/version/"])]),
        ),
        role(
            "system:basic-user",
            &json!([
                create(
                    "authorization.k8s.io",
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
                ),
                create("authentication.k8s.io", &["selfsubjectreviews"]),
            ]),
        ),
        role(
            "system:auth-delegator",
            &json!([
                create("authentication.k8s.io", &["tokenreviews"]),
                create("authorization.k8s.io", &["subjectaccessreviews"]),
            ]),
        ),
    ];
    for (name, whole) in AGGREGATES {
        let selectors = json!([{"matchLabels": {format!("{AGGREGATE}{name}"): "true"}}]);
        let mut aggregated = object(
            "ClusterRole",
            name,
            json!({"aggregationRule": {"clusterRoleSelectors": selectors}}),
        );
        if let Some(whole) = whole {
            label(&mut aggregated, format!("{AGGREGATE}{whole}"));
        }
        // The aggregated one is filled from the start, as aggregation would fill it: in the order of the names of its parts.
        let (rows, filled) = match name {
            "admin" => (ADMIN, [EDIT_OWN, EDIT, VIEW_OWN, VIEW, ADMIN].concat()),
            "edit" => (EDIT, [EDIT_OWN, EDIT, VIEW_OWN, VIEW].concat()),
            _ => (VIEW, [VIEW_OWN, VIEW].concat()),
        };
        crate::object::set(&mut aggregated, "rules", Some(rules(&filled)));
        let mut part = role(&format!("system:aggregate-to-{name}"), &rules(rows));
        label(&mut part, format!("{AGGREGATE}{name}"));
        out.extend([part, aggregated]);
    }
    // As whoever defines kinds has them join the roles that people are bound to. Who administers a namespace edits it.
    for (name, rows) in [("edit", EDIT_OWN), ("view", VIEW_OWN)] {
        let mut part = role(&format!("roundhouse:aggregate-to-{name}"), &rules(rows));
        label(&mut part, format!("{AGGREGATE}{name}"));
        out.push(part);
    }
    let everybody = ["system:authenticated"];
    out.extend([
        binding("cluster-admin", "cluster-admin", &["system:masters"]),
        binding("system:discovery", "system:discovery", &everybody),
        binding("system:basic-user", "system:basic-user", &everybody),
        binding(
            "system:public-info-viewer",
            "system:public-info-viewer",
            &["system:authenticated", "system:unauthenticated"],
        ),
    ]);
    out
}
