//! Roles and bindings that are stored, and what they allow.

use crate::raw::{self, Raw};
use http::Method;
use roundhouse_apiserver::{Identity, Server};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

fn server() -> (Server, Raw) {
    let server = Server::builder().seed(1).rbac().build();
    let admin = Raw::new(&server);
    (server, admin)
}

fn user(server: &Server, name: &str, groups: &[&str]) -> Raw {
    Raw::as_somebody(server, Some(Identity::new(name, groups.iter().copied())))
}

async fn put_in(admin: &Raw, path: &str, body: Value) {
    let (code, answer) = admin.post(path, body).await;
    assert_eq!(code, 201, "{answer}");
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

async fn role(admin: &Raw, namespace: &str, name: &str, rules: Value) {
    let path = format!("{RBAC}/namespaces/{namespace}/roles");
    put_in(admin, &path, json!({"metadata": {"name": name}, "rules": rules})).await;
}

async fn cluster_role(admin: &Raw, name: &str, labels: Value, rules: Value) {
    let body = json!({"metadata": {"name": name, "labels": labels}, "rules": rules});
    put_in(admin, &format!("{RBAC}/clusterroles"), body).await;
}

/// Binds a role (`Role/name`, `ClusterRole/name`) to a subject (`User/name`, `Group/name`, `ServiceAccount/namespace/name`),
/// in a namespace or (empty) everywhere.
async fn bind(admin: &Raw, namespace: &str, name: &str, role: &str, subject: &str) -> (u16, Value) {
    let (kind, of) = role.split_once('/').unwrap();
    let who: Vec<&str> = subject.split('/').collect();
    let subject = match who[..] {
        [kind, name] => json!({"kind": kind, "name": name}),
        [kind, namespace, name] => json!({"kind": kind, "name": name, "namespace": namespace}),
        _ => panic!("{subject}"),
    };
    let path = match namespace {
        "" => format!("{RBAC}/clusterrolebindings"),
        namespace => format!("{RBAC}/namespaces/{namespace}/rolebindings"),
    };
    let body = json!({"metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": of}});
    admin.post(&path, body).await
}

async fn bound(admin: &Raw, namespace: &str, name: &str, role: &str, subject: &str) {
    let (code, answer) = bind(admin, namespace, name, role, subject).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn bindings_decide_and_what_is_not_bound_is_denied() {
    let (server, admin) = server();
    let jane = user(&server, "jane", &["people"]);
    let pods = "/api/v1/namespaces/default/pods";
    let (code, status) = jane.get(pods).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    role(
        &admin,
        "default",
        "readers",
        json!([rule(&[""], &["pods"], &["list"])]),
    )
    .await;
    bound(&admin, "default", "jane", "Role/readers", "User/jane").await;
    assert_eq!(jane.get(pods).await.0, 200);
    assert_eq!(jane.get("/api/v1/namespaces/kube-system/pods").await.0, 403);
    assert_eq!(jane.get("/api/v1/pods").await.0, 403);
    assert_eq!(jane.get(&format!("{pods}/x")).await.0, 403);
    assert_eq!(user(&server, "Jane", &[]).get(pods).await.0, 403);
    // A change of the role and of the binding counts at once.
    let path = format!("{RBAC}/namespaces/default/roles/readers");
    admin
        .merge(&path, json!({"rules": [rule(&[""], &["pods"], &["get"])]}))
        .await;
    assert_eq!(
        (jane.get(pods).await.0, jane.get(&format!("{pods}/x")).await.0),
        (403, 404)
    );
    let binding = format!("{RBAC}/namespaces/default/rolebindings/jane");
    let group = json!({"subjects": [{"apiGroup": GROUP, "kind": "Group", "name": "people"}]});
    admin.merge(&binding, group).await;
    assert_eq!(jane.get(&format!("{pods}/x")).await.0, 404);
    assert_eq!(user(&server, "jane", &[]).get(&format!("{pods}/x")).await.0, 403);
    assert_eq!(admin.delete(&path, json!({})).await.0, 200);
    let (code, status) = jane.get(&format!("{pods}/x")).await;
    assert_eq!(code, 403);
    let reason = "RBAC: role.rbac.authorization.k8s.io \"readers\" not found";
    assert!(status["message"].as_str().unwrap().ends_with(reason), "{status}");
    assert_eq!(admin.delete(&binding, json!({})).await.0, 200);
    let (_, status) = jane.get(&format!("{pods}/x")).await;
    assert!(!status["message"].as_str().unwrap().contains("RBAC"), "{status}");
}

#[tokio::test]
async fn cluster_roles_are_bound_in_a_namespace_or_everywhere() {
    let (server, admin) = server();
    bound(
        &admin,
        "default",
        "v",
        "ClusterRole/view",
        "ServiceAccount/default/web",
    )
    .await;
    bound(&admin, "", "n", "ClusterRole/view", "Group/viewers").await;
    let web = user(&server, "system:serviceaccount:default:web", &[]);
    let maps = |ns: &str| format!("/api/v1/namespaces/{ns}/configmaps");
    assert_eq!(web.get(&maps("default")).await.0, 200);
    assert_eq!(web.get(&maps("kube-system")).await.0, 403);
    assert_eq!(
        web.get("/api/v1/namespaces/default").await.0,
        200,
        "a namespace is in itself"
    );
    assert_eq!(web.get("/api/v1/namespaces/kube-system").await.0, 403);
    assert_eq!(web.get("/api/v1/namespaces").await.0, 403);
    assert_eq!(web.get("/api/v1/namespaces/default/secrets").await.0, 403);
    let viewer = user(&server, "joe", &["viewers"]);
    for path in [
        "/api/v1/configmaps",
        "/api/v1/namespaces/default",
        "/apis/apps/v1/deployments",
    ] {
        assert_eq!(viewer.get(path).await.0, 200, "{path}");
    }
    assert_eq!(viewer.get("/api/v1/secrets").await.0, 403);
    assert_eq!(
        viewer
            .post(&maps("default"), json!({"metadata": {"name": "a"}}))
            .await
            .0,
        403
    );
}

#[tokio::test]
async fn a_list_or_watch_of_one_name_asks_for_that_object() {
    let (server, admin) = server();
    let named = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"],
        "verbs": ["get", "list", "watch", "create", "deletecollection"]}]);
    role(&admin, "default", "one", named).await;
    bound(&admin, "default", "one", "Role/one", "User/jane").await;
    let jane = user(&server, "jane", &[]);
    let secrets = "/api/v1/namespaces/default/secrets";
    for (query, code) in [
        ("", 403),
        ("?fieldSelector=metadata.name%3Da", 200),
        ("?fieldSelector=type%3DOpaque,metadata.name%3D%3Da", 200),
        ("?fieldSelector=metadata.name%3Db", 403),
        ("?fieldSelector=metadata.name!%3Da", 403),
        ("?fieldSelector=metadata.name%3Da%5C,b", 403),
        ("?fieldSelector=type%3Da", 403),
        ("?fieldSelector=metadata.name%3Da&watch=1&timeoutSeconds=0", 200),
        ("?watch=1", 403),
    ] {
        let response = jane.send(Method::GET, &format!("{secrets}{query}"), "", "").await;
        assert_eq!(response.status().as_u16(), code, "{query}");
    }
    assert_eq!(
        jane.post(secrets, json!({"metadata": {"name": "a"}})).await.0,
        403
    );
    let all = format!("{secrets}?fieldSelector=metadata.name%3Da");
    assert_eq!(
        jane.delete(&all, json!({})).await.0,
        403,
        "a deletecollection names nothing"
    );
}

#[tokio::test]
async fn paths_that_are_no_resources_have_rights_too() {
    let (server, admin) = server();
    let jane = user(&server, "jane", &[]);
    for path in [
        "/api",
        "/apis",
        "/apis/apps/v1",
        "/openapi/v3",
        "/version",
        "/healthz",
    ] {
        assert_eq!(jane.get(path).await.0, 200, "{path}");
    }
    let (code, status) = jane.get("/metrics").await;
    assert_eq!(
        (code, status["message"].as_str()),
        (403, Some("forbidden: User \"jane\" cannot get path \"/metrics\""))
    );
    let paths = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    cluster_role(&admin, "metrics", json!({}), paths).await;
    bound(&admin, "", "metrics", "ClusterRole/metrics", "User/jane").await;
    assert_eq!(jane.get("/metrics").await.0, 200);
    // What Kubernetes gives to everybody can be taken away.
    admin
        .delete(&format!("{RBAC}/clusterrolebindings/system:discovery"), json!({}))
        .await;
    assert_eq!(jane.get("/apis").await.0, 403);
    assert_eq!(jane.get("/version").await.0, 200);
}

#[tokio::test]
async fn aggregated_roles_follow_what_they_select() {
    let (server, admin) = server();
    bound(&admin, "", "joe", "ClusterRole/admin", "User/joe").await;
    let joe = user(&server, "joe", &[]);
    let rules = async |name: &str| admin.get(&format!("{RBAC}/clusterroles/{name}")).await.1["rules"].clone();
    let view = rules("view").await;
    let (admins, edit) = (rules("admin").await, rules("edit").await);
    assert!(!view.as_array().unwrap().is_empty());
    let gadgets = rule(&["x.dev"], &["gadgets"], &["get"]);
    let part = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    cluster_role(&admin, "gadgets", part, json!([gadgets])).await;
    for name in ["view", "edit", "admin"] {
        assert!(rules(name).await.as_array().unwrap().contains(&gadgets), "{name}");
    }
    assert_eq!(
        joe.get("/apis/x.dev/v1/namespaces/default/gadgets/a").await.0,
        404
    );
    // Without the label it is none of them, with it again it is; and then it goes.
    let at = format!("{RBAC}/clusterroles/gadgets");
    let labelled = |value: Value| json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": value}}});
    let all = async || (rules("view").await, rules("edit").await, rules("admin").await);
    for value in [Value::Null, json!("true")] {
        let (code, _) = admin.merge(&at, labelled(value.clone())).await;
        assert_eq!(code, 200);
        let is_part = rules("admin").await.as_array().unwrap().contains(&gadgets);
        assert_eq!(is_part, value == json!("true"), "{value}");
    }
    admin.delete(&at, json!({})).await;
    assert_eq!(all().await, (view, edit, admins));
    // An empty selector selects every role.
    let everything = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{}]}});
    assert_eq!(
        admin.post(&format!("{RBAC}/clusterroles"), everything).await.0,
        201
    );
    let widgets = rule(&["x.dev"], &["widgets"], &["get"]);
    cluster_role(&admin, "widgets", json!({}), json!([widgets])).await;
    assert!(rules("all").await.as_array().unwrap().contains(&widgets));
    assert_eq!(
        joe.get("/apis/x.dev/v1/namespaces/default/gadgets/a").await.0,
        403
    );
}

#[tokio::test]
async fn nobody_gives_rights_that_they_lack() {
    let (server, admin) = server();
    bound(&admin, "default", "a", "ClusterRole/admin", "User/jane").await;
    let jane = user(&server, "jane", &["people"]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    let with = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    let fine = json!([rule(&[""], &["pods"], &["get", "list"])]);
    assert_eq!(jane.post(&roles, with("fine", fine.clone())).await.0, 201);
    let much = json!([rule(&["", "apps"], &["pods", "nodes"], &["get", "create"])]);
    let (code, status) = jane.post(&roles, with("much", much.clone())).await;
    assert_eq!((code, status["reason"].as_str()), (403, Some("Forbidden")));
    assert_eq!(
        status["message"],
        "roles.rbac.authorization.k8s.io \"much\" is forbidden: user \"jane\" (groups=[\"people\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"create\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"nodes\"], Verbs:[\"get\" \"create\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"create\"]}"
    );
    for (method, media, body) in [
        (Method::PATCH, raw::MERGE, json!({"rules": much})),
        (Method::PUT, "application/json", with("fine", much.clone())),
        (
            Method::PATCH,
            "application/apply-patch+yaml",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "fine"}, "rules": much}),
        ),
    ] {
        let force = if media.contains("apply") {
            "&force=true"
        } else {
            ""
        };
        let path = format!("{roles}/fine?fieldManager=m{force}");
        assert_eq!(
            jane.ask(method.clone(), &path, media, body.to_string()).await.0,
            403,
            "{method} {media}"
        );
    }
    // Labels of a role with more rights than its editor has may not be changed, finalizers may.
    role(&admin, "default", "strong", much.clone()).await;
    let strong = format!("{roles}/strong");
    assert_eq!(
        jane.merge(&strong, json!({"metadata": {"labels": {"a": "b"}}}))
            .await
            .0,
        403
    );
    assert_eq!(
        jane.merge(&strong, json!({"metadata": {"finalizers": ["x.dev/f"]}}))
            .await
            .0,
        200
    );
    // Bindings.
    assert_eq!(bind(&jane, "default", "b1", "Role/fine", "User/joe").await.0, 201);
    let (code, status) = bind(&jane, "default", "b2", "Role/strong", "User/joe").await;
    assert_eq!(code, 403);
    assert!(
        status["message"].as_str().unwrap().starts_with(
            "rolebindings.rbac.authorization.k8s.io \"b2\" is forbidden: user \"jane\" (groups="
        ),
        "{status}"
    );
    let (code, status) = bind(&jane, "default", "b3", "ClusterRole/absent", "User/joe").await;
    assert_eq!(
        (code, status["message"].as_str()),
        (
            404,
            Some("clusterroles.rbac.authorization.k8s.io \"absent\" not found")
        )
    );
    assert_eq!(
        bind(&jane, "default", "b4", "ClusterRole/cluster-admin", "User/jane")
            .await
            .0,
        403
    );
    assert_eq!(
        bind(&jane, "default", "b5", "ClusterRole/view", "User/joe")
            .await
            .0,
        201
    );
    // Who may bind one role may bind that one, who may escalate may write what they like.
    let may = json!([{"apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["cluster-admin"], "verbs": ["bind"]},
        {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"]}]);
    role(&admin, "default", "may", may).await;
    bound(&admin, "default", "may", "Role/may", "User/jane").await;
    assert_eq!(
        bind(&jane, "default", "b4", "ClusterRole/cluster-admin", "User/joe")
            .await
            .0,
        201
    );
    assert_eq!(
        bind(&jane, "default", "b2", "Role/strong", "User/joe").await.0,
        403
    );
    assert_eq!(jane.post(&roles, with("much", much)).await.0, 201);
}

#[tokio::test]
async fn aggregation_takes_all_rights() {
    let (server, admin) = server();
    let manage = json!([
        rule(&[GROUP], &["clusterroles"], &["create", "update", "get"]),
        rule(&[""], &["pods"], &["get"])
    ]);
    cluster_role(&admin, "manage", json!({}), manage).await;
    bound(&admin, "", "manage", "ClusterRole/manage", "User/jane").await;
    let jane = user(&server, "jane", &[]);
    let all = json!({"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let (code, status) = jane.post(&format!("{RBAC}/clusterroles"), all.clone()).await;
    assert_eq!(
        (code, status["message"].as_str()),
        (
            403,
            Some(
                "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
            )
        )
    );
    assert_eq!(admin.post(&format!("{RBAC}/clusterroles"), all).await.0, 201);
}

#[tokio::test]
async fn default_roles_are_kept_over_restarts_but_not_against_their_annotation() {
    use roundhouse_apiserver::{MemoryStore, Store, StoreLimits};
    use std::sync::Arc;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreLimits::default()));
    let start = || Server::builder().seed(1).store(store.clone()).rbac().build();
    let admin = Raw::new(&start());
    let revision = store.revision();
    let again = start();
    assert_eq!(
        store.revision(),
        revision,
        "nothing is written where nothing is lacking"
    );
    let view = format!("{RBAC}/clusterroles/system:basic-user");
    let discovery = format!("{RBAC}/clusterroles/system:discovery");
    admin.merge(&view, json!({"rules": null})).await;
    let off = json!({"rules": null, "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}});
    admin.merge(&discovery, off).await;
    bound(&admin, "", "jane", "ClusterRole/cluster-admin", "User/jane").await;
    drop(again);
    let server = start();
    let admin = Raw::new(&server);
    let rules = |answer: (u16, Value)| answer.1["rules"].as_array().map_or(0, Vec::len);
    assert_eq!(rules(admin.get(&view).await), 3, "each right is given back");
    assert_eq!(rules(admin.get(&discovery).await), 0);
    assert_eq!(
        admin.get(&view).await.1["metadata"]["labels"]["kubernetes.io/bootstrapping"],
        "rbac-defaults"
    );
    assert_eq!(
        user(&server, "jane", &[]).get("/api/v1/secrets").await.0,
        200,
        "the index is rebuilt"
    );
}

#[tokio::test]
async fn without_rbac_no_roles_are_kept() {
    let server = Server::builder().seed(1).build();
    let list = Raw::new(&server).get(&format!("{RBAC}/clusterroles")).await.1;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn the_hubs_own_kinds_join_the_roles_that_people_are_bound_to() {
    let (server, admin) = server();
    for name in ["view", "edit", "admin"] {
        bound(
            &admin,
            "default",
            name,
            &format!("ClusterRole/{name}"),
            &format!("User/{name}"),
        )
        .await;
    }
    let may = async |who: &str, verb: &str, group: &str, resource: &str| {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let asked = json!({"spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource,
            "subresource": subresource, "namespace": "default"}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let (code, answer) = user(&server, who, &[]).post(path, asked).await;
        assert_eq!(code, 201, "{answer}");
        answer["status"]["allowed"] == true
    };
    let ours = "roundhouse.dev";
    for (verb, group, resource, by) in [
        ("get", "core.oam.dev", "applications", "view edit admin"),
        ("watch", "core.oam.dev", "applicationrevisions", "view edit admin"),
        ("get", "core.oam.dev", "applications/status", "view edit admin"),
        ("list", ours, "placements", "view edit admin"),
        ("list", ours, "decisions", "view edit admin"),
        ("create", "core.oam.dev", "applications", "edit admin"),
        ("patch", ours, "placements", "edit admin"),
        (
            "deletecollection",
            "core.oam.dev",
            "componentdefinitions",
            "edit admin",
        ),
        // They hold Secrets.
        ("get", ours, "bundles", "edit admin"),
        // These are the hub's to write.
        ("update", ours, "bundles", ""),
        ("patch", ours, "bundles/status", ""),
        ("create", ours, "decisions", ""),
        ("update", ours, "clusterreports", ""),
        ("patch", "core.oam.dev", "applications/status", ""),
        ("get", ours, "clusters", ""),
    ] {
        for who in ["view", "edit", "admin"] {
            let want = by.split(' ').any(|name| name == who);
            assert_eq!(
                may(who, verb, group, resource).await,
                want,
                "{who} {verb} {resource}"
            );
        }
    }
}

#[tokio::test]
async fn no_binding_widens_an_agent() {
    let (server, admin) = server();
    let east = Raw::as_somebody(&server, Some(Identity::agent("east")));
    put_in(
        &admin,
        "/api/v1/namespaces",
        json!({"metadata": {"name": "cluster-east"}}),
    )
    .await;
    for (i, subject) in [
        "User/roundhouse:agent:east:1",
        "Group/roundhouse:agents",
        "Group/system:authenticated",
    ]
    .into_iter()
    .enumerate()
    {
        bound(&admin, "", &format!("w{i}"), "ClusterRole/cluster-admin", subject).await;
        bound(
            &admin,
            "cluster-east",
            &format!("n{i}"),
            "ClusterRole/cluster-admin",
            subject,
        )
        .await;
    }
    assert_eq!(
        user(&server, "jane", &[]).get("/api/v1/secrets").await.0,
        200,
        "the bindings are in force"
    );
    let leases = |ns: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases");
    let own = format!("{}?fieldSelector=metadata.name%3Dagent", leases("cluster-east"));
    assert_eq!(east.get(&own).await.0, 200);
    for path in [
        leases("default").as_str(),
        leases("cluster-east").as_str(),
        "/apis/coordination.k8s.io/v1/leases",
        "/api/v1/namespaces/cluster-east/secrets",
        "/api/v1/secrets",
        "/api/v1/namespaces/cluster-east",
        "/metrics",
    ] {
        assert_eq!(east.get(path).await.0, 403, "{path}");
    }
    let acted = admin
        .get_with(
            "/api/v1/secrets",
            &[
                ("Impersonate-User", "roundhouse:agent:east:1"),
                ("Impersonate-Group", "system:masters"),
            ],
        )
        .await;
    assert_eq!(acted.0, 403, "not even as a member of system:masters");
}

#[tokio::test]
async fn who_may_only_change_creates_nothing_on_the_way() {
    let (server, admin) = server();
    let change = json!([rule(
        &["", GROUP],
        &["configmaps", "services", "roles"],
        &["get", "update", "patch"]
    )]);
    role(&admin, "default", "change", change).await;
    bound(&admin, "default", "jane", "Role/change", "User/jane").await;
    let jane = user(&server, "jane", &[]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
        .to_string();
    let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=m";
    let apply = "application/apply-patch+yaml";
    let (code, status) = jane.ask(Method::PATCH, path, apply, map.clone()).await;
    assert_eq!(code, 403, "{status}");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("cannot create resource \"configmaps\""),
        "{status}"
    );
    assert_eq!(admin.ask(Method::PATCH, path, apply, map.clone()).await.0, 201);
    assert_eq!(jane.ask(Method::PATCH, path, apply, map).await.0, 200);
    let empty = json!({"metadata": {"name": "b"}});
    assert_eq!(
        jane.put(&format!("{RBAC}/namespaces/default/roles/b"), empty.clone())
            .await
            .0,
        403
    );
    assert_eq!(
        admin
            .put(&format!("{RBAC}/namespaces/default/roles/b"), empty)
            .await
            .0,
        201
    );
}

#[tokio::test]
async fn roles_that_select_each_other_come_to_an_end() {
    let (_server, admin) = server();
    let selects = |label: &str| json!({"clusterRoleSelectors": [{"matchLabels": {"part": label}}]});
    let own = json!([rule(&[""], &["pods"], &["get"])]);
    for (name, of, rules) in [("a", "b", json!([])), ("b", "a", own)] {
        let body = json!({"metadata": {"name": name, "labels": {"part": name}}, "aggregationRule": selects(of), "rules": rules});
        put_in(&admin, &format!("{RBAC}/clusterroles"), body).await;
    }
    let (_, a) = admin.get(&format!("{RBAC}/clusterroles/a")).await;
    let (_, b) = admin.get(&format!("{RBAC}/clusterroles/b")).await;
    assert_eq!(a["rules"], b["rules"], "both have come to the same");
    // And the next write is answered.
    cluster_role(
        &admin,
        "another",
        json!({"part": "a"}),
        json!([rule(&[""], &["nodes"], &["get"])]),
    )
    .await;
    let (_, b) = admin.get(&format!("{RBAC}/clusterroles/b")).await;
    assert!(b["rules"].to_string().contains("nodes"), "{b}");
}

#[tokio::test]
async fn namespaces_are_not_deleted_all_at_once() {
    let (_server, admin) = server();
    assert_eq!(admin.delete("/api/v1/namespaces", json!({})).await.0, 405);
    assert_eq!(admin.get("/api/v1/namespaces/kube-public").await.0, 200);
    let (_, discovery) = admin.get("/api/v1").await;
    let resources = discovery["resources"].as_array().unwrap();
    let namespaces = resources.iter().find(|r| r["name"] == "namespaces").unwrap();
    assert_eq!(
        namespaces["verbs"],
        json!(["create", "delete", "get", "list", "patch", "update", "watch"])
    );
}

#[tokio::test]
async fn a_role_of_a_million_rights_is_refused_at_once() {
    let (server, admin) = server();
    cluster_role(
        &admin,
        "author",
        json!({}),
        json!([rule(&[GROUP], &["roles"], &["create"])]),
    )
    .await;
    bound(&admin, "", "author", "ClusterRole/author", "User/jane").await;
    let jane = user(&server, "jane", &[]);
    let words = |letter: &str| -> Vec<String> { (0..1000).map(|n| format!("{letter}{n}")).collect() };
    let large = json!({"metadata": {"name": "large"},
        "rules": [{"apiGroups": words("g"), "resources": words("r"), "verbs": words("v")}]});
    let roles = format!("{RBAC}/namespaces/default/roles");
    let (code, status) = jane.post(&roles, large).await;
    assert_eq!(code, 403, "{status}");
    // What is missing is told as far as somebody reads it.
    let many = json!({"metadata": {"name": "many"}, "rules": [{"apiGroups": [""], "resources": words("r"), "verbs": ["a", "b"]}]});
    let (code, status) = jane.post(&roles, many).await;
    assert_eq!(code, 403);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains("is attempting to grant RBAC permissions not currently held"),
        "{message}"
    );
    assert!(
        message.contains(r#"Resources:["r0"], Verbs:["a" "b"]"#),
        "{message}"
    );
}
