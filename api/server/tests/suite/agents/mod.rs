//! What the agent of cluster `c1` gets: every verb on every kind that is served, in its own namespace, in others, and as
//! somebody else. What it may is listed here; everything else is refused.

mod own;
mod reach;
mod sees;

use std::{collections::BTreeSet, time::Duration};

use crate::raw::{self, Raw};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use roundhouse_apiserver::{Authority, Identity, Kubeconfig, Server, serve, system_clock};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Everything the agent of `c1` may, as `verb resource.group[/subresource] namespace`, and `own` where it is so for the
/// name of its own object only.
const ALLOWED: [&str; 35] = [
    "get bundles.roundhouse.dev cluster-c1",
    "list bundles.roundhouse.dev cluster-c1",
    "watch bundles.roundhouse.dev cluster-c1",
    "get bundles.roundhouse.dev/status cluster-c1",
    "update bundles.roundhouse.dev/status cluster-c1",
    "patch bundles.roundhouse.dev/status cluster-c1",
    // A create has its name in the body, which is looked at later.
    "create clusterreports.roundhouse.dev cluster-c1",
    "create clusterreports.roundhouse.dev cluster-c1 own",
    "get clusterreports.roundhouse.dev cluster-c1 own",
    "update clusterreports.roundhouse.dev cluster-c1 own",
    "patch clusterreports.roundhouse.dev cluster-c1 own",
    "get clusterreports.roundhouse.dev/status cluster-c1 own",
    "update clusterreports.roundhouse.dev/status cluster-c1 own",
    "patch clusterreports.roundhouse.dev/status cluster-c1 own",
    "create leases.coordination.k8s.io cluster-c1",
    "create leases.coordination.k8s.io cluster-c1 own",
    "get leases.coordination.k8s.io cluster-c1 own",
    "update leases.coordination.k8s.io cluster-c1 own",
    "patch leases.coordination.k8s.io cluster-c1 own",
    // Lists and watches of one name are told from those of all.
    "list-one bundles.roundhouse.dev cluster-c1",
    "watch-one bundles.roundhouse.dev cluster-c1",
    "list-one clusterreports.roundhouse.dev cluster-c1 own",
    "watch-one clusterreports.roundhouse.dev cluster-c1 own",
    "list-one leases.coordination.k8s.io cluster-c1 own",
    "watch-one leases.coordination.k8s.io cluster-c1 own",
    // POST to an object is no verb of it, and is answered so.
    "create-named leases.coordination.k8s.io cluster-c1 own",
    "create-named clusterreports.roundhouse.dev cluster-c1 own",
    "create-named certificatesigningrequests.certificates.k8s.io - own",
    // A certificate, by the one name that its requests have; who it is, and what it may.
    "create certificatesigningrequests.certificates.k8s.io -",
    "create certificatesigningrequests.certificates.k8s.io - own",
    "get certificatesigningrequests.certificates.k8s.io - own",
    "delete certificatesigningrequests.certificates.k8s.io - own",
    "create selfsubjectreviews.authentication.k8s.io -",
    "create selfsubjectaccessreviews.authorization.k8s.io -",
    "create selfsubjectrulesreviews.authorization.k8s.io -",
];

/// `-` is no namespace: across all, and kinds without one.
const PLACES: [&str; 12] = [
    "-",
    "cluster-c1",
    "cluster-c10",
    "cluster-c1-x",
    "cluster-C1",
    "cluster-c",
    "cluster-",
    "c1",
    "cluster-c1%20",
    "default",
    "kube-system",
    "CLUSTER-c1",
];

/// Subresources that are asked for of every kind, whether or not it has them.
const SUBRESOURCES: [&str; 9] = [
    "status", "scale", "approval", "token", "finalize", "exec", "log", "status/x", "eviction",
];

/// Headers to act as somebody else by.
const MASKS: [&[(&str, &str)]; 3] = [
    &[("impersonate-user", "roundhouse:agent:c10:1")],
    &[
        ("impersonate-user", "roundhouse:admin"),
        ("impersonate-group", "system:masters"),
    ],
    &[
        ("impersonate-user", "roundhouse:agent:c1:1"),
        ("impersonate-uid", "1"),
    ],
];

/// A server with the hub's kinds and the namespaces of three clusters.
async fn unbound() -> Server {
    let server = Server::builder().seed(1).rbac().build();
    let admin = Raw::new(&server);
    for definition in roundhouse_api::crds::all() {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = admin.post(path, serde_json::to_value(definition).unwrap()).await;
        assert_eq!(code, 201, "{answer}");
    }
    for name in ["cluster-c1", "cluster-c10", "cluster-c1-x"] {
        let (code, _) = admin
            .post("/api/v1/namespaces", json!({"metadata": {"name": name}}))
            .await;
        assert_eq!(code, 201);
    }
    server
}

/// The same with bindings that mean agents too well: what they get is the most that an agent may have.
async fn hub() -> Server {
    let server = unbound().await;
    let admin = Raw::new(&server);
    for (i, subject) in [
        json!({"kind": "User", "name": "roundhouse:agent:c1:1"}),
        json!({"kind": "Group", "name": "roundhouse:agents"}),
        json!({"kind": "Group", "name": "system:authenticated"}),
    ]
    .into_iter()
    .enumerate()
    {
        let body = json!({"metadata": {"name": format!("b{i}")}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}});
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        assert_eq!(admin.post(path, body).await.0, 201);
    }
    server
}

/// The group version paths and plurals of every kind that is served.
async fn kinds(admin: &Raw) -> Vec<(String, String, String)> {
    let mut roots = vec![("".to_owned(), "/api/v1".to_owned())];
    let (_, groups) = admin.get("/apis").await;
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            roots.push((group["name"].as_str().unwrap().to_owned(), path));
        }
    }
    let mut out = vec![];
    for (group, root) in roots {
        let (_, list) = admin.get(&root).await;
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if !name.contains('/') {
                out.push((root.clone(), group.clone(), name.to_owned()));
            }
        }
    }
    out
}

/// Every request there is on a kind in a place: its verb, subresource, method and path.
fn requests(root: &str, plural: &str, place: &str) -> Vec<(&'static str, &'static str, Method, String)> {
    requests_for(root, plural, place, "n")
}

/// The same for an object of this name.
fn requests_for(
    root: &str,
    plural: &str,
    place: &str,
    name: &str,
) -> Vec<(&'static str, &'static str, Method, String)> {
    let many = match place {
        "-" => format!("{root}/{plural}"),
        place => format!("{root}/namespaces/{place}/{plural}"),
    };
    let one = format!("{many}/{name}");
    let named = format!("{many}?fieldSelector=metadata.name%3D{name}");
    let mut out = vec![
        ("list", "", Method::GET, many.clone()),
        (
            "watch",
            "",
            Method::GET,
            format!("{many}?watch=true&timeoutSeconds=1"),
        ),
        ("list-one", "", Method::GET, named.clone()),
        (
            "watch-one",
            "",
            Method::GET,
            format!("{named}&watch=true&timeoutSeconds=1"),
        ),
        ("create", "", Method::POST, many.clone()),
        ("deletecollection", "", Method::DELETE, many),
        ("get", "", Method::GET, one.clone()),
        ("update", "", Method::PUT, one.clone()),
        ("patch", "", Method::PATCH, one.clone()),
        ("delete", "", Method::DELETE, one.clone()),
        ("create-named", "", Method::POST, one.clone()),
    ];
    for sub in SUBRESOURCES {
        for (verb, method) in [
            ("get", Method::GET),
            ("update", Method::PUT),
            ("patch", Method::PATCH),
            ("create", Method::POST),
            ("delete", Method::DELETE),
        ] {
            out.push((verb, sub, method, format!("{one}/{sub}")));
        }
    }
    out
}

/// The name of the agent's own object of a kind.
fn own_name(plural: &str) -> Option<&'static str> {
    match plural {
        "leases" => Some("agent"),
        "clusterreports" => Some("c1"),
        "certificatesigningrequests" => Some("roundhouse-agent-c1"),
        _ => None,
    }
}

async fn ask(who: &Raw, method: &Method, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let media = if *method == Method::PATCH {
        raw::MERGE
    } else {
        "application/json"
    };
    let mut request = Request::builder()
        .method(method.clone())
        .uri(path)
        .header("content-type", media);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = who.request(request.body(Full::from("{}")).unwrap()).await;
    let code = response.status().as_u16();
    // A watch that is let through has no end to wait for.
    if !matches!(code, 401 | 403) {
        return (code, String::new());
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap();
    (code, status["message"].as_str().unwrap_or_default().to_owned())
}
