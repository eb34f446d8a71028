//! What the agent of cluster `c1` gets: every verb on every kind that is served, in its own namespace, in others, and as
//! somebody else. What it may is listed here; everything else is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod raw;

use std::{collections::BTreeSet, time::Duration};

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use raw::Raw;
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

#[tokio::test]
async fn the_agent_of_c1_gets_what_is_listed_and_nothing_else() {
    let server = hub().await;
    let admin = Raw::new(&server);
    let agent = Raw::as_somebody(&server, Some(Identity::agent("c1")));
    let kinds = kinds(&admin).await;
    assert!(kinds.len() > 55, "{}", kinds.len());
    for ours in [
        "bundles",
        "clusters",
        "clusterreports",
        "placements",
        "decisions",
        "applications",
    ] {
        assert!(kinds.iter().any(|(.., plural)| plural == ours), "{ours}");
    }
    let (mut checked, mut allowed) = (0, BTreeSet::new());
    for (root, group, plural) in &kinds {
        for place in PLACES {
            let all = requests(root, plural, place).into_iter().map(|one| (one, ""));
            let own = own_name(plural).map(|name| requests_for(root, plural, place, name));
            // Those of no name are the same for both.
            let own = own
                .into_iter()
                .flatten()
                .filter(|(verb, ..)| !matches!(*verb, "list" | "watch" | "deletecollection"));
            for ((verb, sub, method, path), own) in all.chain(own.map(|one| (one, " own"))) {
                let dot = if group.is_empty() { "" } else { "." };
                let slash = if sub.is_empty() { "" } else { "/" };
                let what = format!("{verb} {plural}{dot}{group}{slash}{sub} {place}{own}");
                let (code, message) = ask(&agent, &method, &path, &[]).await;
                let denied = code == 403 && message.contains("User \"roundhouse:agent:c1:1\" cannot ");
                let listed = ALLOWED.contains(&what.as_str());
                assert_eq!(!denied, listed, "{what}: {code} {message}");
                if listed {
                    assert_ne!(code, 401, "{what}");
                    allowed.insert(what.clone());
                }
                // What is asked for as somebody else is refused before it is looked at: one of the masks in turn.
                let mask = MASKS[checked % MASKS.len()];
                let (code, message) = ask(&agent, &method, &path, mask).await;
                let refused =
                    code == 403 && message.contains("User \"roundhouse:agent:c1:1\" cannot impersonate");
                assert!(refused, "{what} as {mask:?}: {code} {message}");
                checked += 1;
            }
        }
    }
    let listed: BTreeSet<String> = ALLOWED.iter().map(|s| (*s).to_owned()).collect();
    assert_eq!(allowed, listed, "everything that is listed was asked for");
    assert!(checked > 30_000, "{checked}");
}

#[tokio::test]
async fn an_agent_keeps_its_own_lease_and_report_and_no_others() {
    let server = hub().await;
    let agent = Raw::as_somebody(&server, Some(Identity::agent("c1")));
    let leases = "/apis/coordination.k8s.io/v1/namespaces/cluster-c1/leases".to_owned();
    let reports = "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/clusterreports".to_owned();
    let apply = "application/apply-patch+yaml";
    for (path, own, api_version, kind, spec, large) in [
        (
            &leases,
            roundhouse_api::names::AGENT_LEASE,
            "coordination.k8s.io/v1",
            "Lease",
            json!({"holderIdentity": "a"}),
            8 << 10,
        ),
        (
            &reports,
            "c1",
            "roundhouse.dev/v1alpha1",
            "ClusterReport",
            json!({"agentVersion": "1"}),
            64 << 10,
        ),
    ] {
        let object = |name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        for other in ["n", "c10", "agent-2", "agents", "default"] {
            let mut answers = vec![
                agent.post(path, object(other)).await,
                agent.put(&format!("{path}/{other}"), object(other)).await,
                agent.post(&format!("{path}?dryRun=All"), object(other)).await,
            ];
            let applied = format!("{path}/{other}?fieldManager=m");
            answers.push(
                agent
                    .ask(Method::PATCH, &applied, apply, object(other).to_string())
                    .await,
            );
            for (code, status) in answers {
                let message = status["message"].as_str().unwrap();
                assert_eq!(code, 403, "{other} {status}");
                assert!(
                    message.contains("User \"roundhouse:agent:c1:1\" cannot "),
                    "{message}"
                );
                assert!(message.contains(other), "{message}");
            }
        }
        let mut generated = object("x");
        generated["metadata"] = json!({"generateName": format!("{own}-")});
        assert_eq!(agent.post(path, generated).await.0, 403);
        // Its own, up to a size.
        let mut whale = object(own);
        whale["metadata"]["annotations"] = json!({"a": "v".repeat(large)});
        let (code, status) = agent.post(path, whale.clone()).await;
        let message = format!("Request entity too large: limit is {large}");
        assert_eq!((code, &status["message"]), (413, &json!(message)), "{status}");
        let (code, answer) = agent.post(path, object(own)).await;
        assert_eq!(code, 201, "{answer}");
        let one = format!("{path}/{own}");
        let fat = json!({"metadata": {"annotations": {"a": "v".repeat(large)}}});
        assert_eq!(agent.merge(&one, fat.clone()).await.0, 413);
        whale["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"].clone();
        assert_eq!(agent.put(&one, whale).await.0, 413);
        let half = json!({"metadata": {"annotations": {"a": "v".repeat(large / 2)}}});
        assert_eq!(agent.merge(&one, half).await.0, 200);
        // Others are not bounded so.
        let (code, answer) = Raw::new(&server).merge(&one, fat).await;
        assert_eq!(code, 200, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_has_what_is_bound_to_its_serial_until_the_binding_names_the_next() {
    let server = unbound().await;
    let admin = Raw::new(&server);
    let rbac = |cluster: &str, kind: &str| {
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/cluster-{cluster}/{kind}")
    };
    let binding = |cluster: &str, serial: u32| {
        json!({"metadata": {"name": "agent"},
            "subjects": [{"kind": "User", "name": format!("roundhouse:agent:{cluster}:{serial}")}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent"}})
    };
    for cluster in ["c1", "c10", "c1-x"] {
        let role = json!({"metadata": {"name": "agent"}, "rules": [
            {"apiGroups": ["roundhouse.dev"], "resources": ["bundles"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]});
        assert_eq!(admin.post(&rbac(cluster, "roles"), role).await.0, 201);
        let path = rbac(cluster, "rolebindings");
        assert_eq!(admin.post(&path, binding(cluster, 1)).await.0, 201);
    }
    let agent = |name: &str| {
        let user = format!("roundhouse:agent:{name}");
        Raw::as_somebody(&server, Some(Identity::new(user, ["roundhouse:agents"])))
    };
    let bundles =
        |cluster: &str| format!("/apis/roundhouse.dev/v1alpha1/namespaces/cluster-{cluster}/bundles");
    let leases = |cluster: &str| format!("/apis/coordination.k8s.io/v1/namespaces/cluster-{cluster}/leases");
    let lease = json!({"metadata": {"name": "agent"}});
    for (name, sees) in [
        ("c1:1", "c1"),
        ("c10:1", "c10"),
        ("c1-x:1", "c1-x"),
        ("c1:2", ""),
        ("c1:11", ""),
        ("c1:10", ""),
        ("c1:01", ""),
        ("c1:+1", ""),
        ("c1:0", ""),
        ("c1:", ""),
        ("c1", ""),
        ("c:1", ""),
        ("c1:1:1", ""),
        ("c1-y:1", ""),
    ] {
        for cluster in ["c1", "c10", "c1-x"] {
            let own = agent(name);
            let (read, wrote) = if sees == cluster { (200, 201) } else { (403, 403) };
            assert_eq!(own.get(&bundles(cluster)).await.0, read, "{name} {cluster}");
            let (code, _) = own.post(&leases(cluster), lease.clone()).await;
            assert_eq!(code, wrote, "{name} {cluster}");
            // The server's own rule would let it, but nothing binds it; and what is bound beyond that rule is nothing.
            let reports = bundles(cluster).replace("bundles", "clusterreports") + &format!("/{cluster}");
            assert_eq!(own.get(&reports).await.0, 403, "{name} {cluster}");
            assert_eq!(own.get(&leases(cluster)).await.0, 403, "{name} {cluster}");
        }
    }
    // What it is told that it may is the same.
    let review = json!({"spec": {"namespace": "cluster-c1"}});
    for (name, told) in [("c1:1", true), ("c1:2", false), ("c10:1", false)] {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let (code, answer) = agent(name).post(path, review.clone()).await;
        assert_eq!(code, 201, "{answer}");
        let rules = answer["status"]["resourceRules"].as_array().unwrap();
        let about = |plural: &str| rules.iter().any(|rule| rule["resources"] == json!([plural]));
        assert_eq!(
            (about("bundles"), about("leases")),
            (told, told),
            "{name} {answer}"
        );
        assert!(!about("clusterreports") && !about("*"), "{answer}");
    }
    // Revoked, or joined again: what the last one has open ends, and the next one goes on.
    let watch = format!("{}?watch=true&resourceVersion=0", bundles("c1"));
    let open = |name: &str| {
        let agent = agent(name);
        let watch = watch.clone();
        async move { agent.send(Method::GET, &watch, "", "").await }
    };
    let mut last = open("c1:1").await.into_body();
    let path = format!("{}/agent", rbac("c1", "rolebindings"));
    assert_eq!(admin.put(&path, binding("c1", 2)).await.0, 200);
    let end = tokio::time::timeout(Duration::from_secs(20), Raw::line(&mut last)).await;
    let end = end.unwrap().unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(403))
    );
    assert_eq!(open("c1:1").await.status(), 403);
    assert_eq!(open("c1:2").await.status(), 200);
    assert_eq!(agent("c1:1").get(&bundles("c1")).await.0, 403);
    assert_eq!(
        agent("c10:1").get(&bundles("c10")).await.0,
        200,
        "the neighbour stays"
    );
}

#[tokio::test]
async fn agents_that_are_named_almost_alike_get_nothing() {
    let server = hub().await;
    let mut checked = 0;
    for (user, group) in [
        ("roundhouse:agent:c10:1", "roundhouse:agents"),
        ("roundhouse:agent:c1-x:1", "roundhouse:agents"),
        ("roundhouse:agent:C1:1", "roundhouse:agents"),
        ("roundhouse:agent:", "roundhouse:agents"),
        ("roundhouse:agent::1", "roundhouse:agents"),
        ("roundhouse:agent:c1", "roundhouse:agents"),
        ("roundhouse:agent:c1 :1", "roundhouse:agents"),
        ("roundhouse:agent:c1/:1", "roundhouse:agents"),
        ("roundhouse:agent:c1:", "roundhouse:agents"),
        ("roundhouse:agent:c1:0", "roundhouse:agents"),
        ("roundhouse:agent:c1:01", "roundhouse:agents"),
        ("roundhouse:agent:c1:+1", "roundhouse:agents"),
        ("roundhouse:agent:c1:1 ", "roundhouse:agents"),
        ("roundhouse:agent:c1:1:1", "roundhouse:agents"),
        ("roundhouse:agent:c1:4294967296", "roundhouse:agents"),
        ("c1", "roundhouse:agents"),
        ("roundhouse:agent:c10:1", "system:masters"),
    ] {
        let agent = Raw::as_somebody(&server, Some(Identity::new(user, [group])));
        for (root, plural) in [
            ("/apis/roundhouse.dev/v1alpha1", "bundles"),
            ("/apis/roundhouse.dev/v1alpha1", "clusterreports"),
            ("/apis/coordination.k8s.io/v1", "leases"),
        ] {
            for (verb, sub, method, path) in requests(root, plural, "cluster-c1") {
                let (code, message) = ask(&agent, &method, &path, &[]).await;
                assert_eq!(code, 403, "{user} {verb} {plural}/{sub} {message}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1_000, "{checked}");
}

#[tokio::test]
async fn strangers_get_health_and_nothing_else() {
    let server = hub().await;
    let admin = Raw::new(&server);
    let nobody = Raw::as_somebody(&server, None);
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(ask(&nobody, &Method::GET, path, &[]).await.0, 200, "{path}");
    }
    let mut checked = 0;
    let masks: [&[(&str, &str)]; 3] = [
        &[],
        &[
            ("impersonate-user", "roundhouse:admin"),
            ("impersonate-group", "system:masters"),
        ],
        &[("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.")],
    ];
    for mask in masks {
        for path in [
            "/",
            "/api",
            "/apis",
            "/version",
            "/openapi/v2",
            "/openapi/v3",
            "/metrics",
            "/api/v1",
            "/nope",
        ] {
            assert_eq!(ask(&nobody, &Method::GET, path, mask).await.0, 401, "{path}");
        }
        for (root, _, plural) in kinds(&admin).await {
            for place in ["-", "cluster-c1", "default"] {
                for (verb, sub, method, path) in requests(&root, &plural, place) {
                    let (code, _) = ask(&nobody, &method, &path, mask).await;
                    assert_eq!(code, 401, "{verb} {plural}/{sub} {place} {mask:?}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 20_000, "{checked}");
}

#[tokio::test]
async fn one_certificate_sees_one_clusters_objects() {
    let server = hub().await;
    let admin = Raw::new(&server);
    let now = system_clock()();
    let authority = Authority::generate(now).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = authority.server_config(&["127.0.0.1".to_owned()], now).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, server, tls, stop.clone()));
    let client = async |identity: &Identity| {
        let issued = authority.issue(identity, Duration::from_secs(600), now).unwrap();
        let text = Kubeconfig::new("t", &url, &authority, issued).to_string();
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
            .await
            .unwrap();
        kube::Client::try_from(config).unwrap()
    };
    // Each object says whose it is.
    let mark = |namespace: &str| format!("<of {namespace}>");
    let places = ["cluster-c1", "cluster-c10", "cluster-c1-x", "default"];
    let group = "/apis/roundhouse.dev/v1alpha1";
    for namespace in places {
        let report = namespace.trim_start_matches("cluster-");
        let marked = |name: &str, more: Value| {
            let mut object = json!({"metadata": {"name": name, "annotations": {"of": mark(namespace)}}});
            object
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            object
        };
        let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
            "spec": {"workload": {"manifests": []}}});
        for (path, object) in [
            (
                format!("{group}/namespaces/{namespace}/bundles"),
                marked("n", bundle.clone()),
            ),
            (
                format!("{group}/namespaces/{namespace}/bundles"),
                marked("m", bundle),
            ),
            (
                format!("{group}/namespaces/{namespace}/clusterreports"),
                marked(
                    report,
                    json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "ClusterReport",
                    "spec": {"agentVersion": "1"}}),
                ),
            ),
            (
                format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
                marked("agent", json!({})),
            ),
            (
                format!("/api/v1/namespaces/{namespace}/secrets"),
                marked("n", json!({})),
            ),
        ] {
            let (code, answer) = admin.post(&path, object).await;
            assert_eq!(code, 201, "{path} {answer}");
        }
    }
    let (mut checked, mut seen) = (0, 0);
    for (cluster, sees) in [
        ("c1", Some("cluster-c1")),
        ("c10", Some("cluster-c10")),
        ("C1", None),
        ("c", None),
        ("", None),
    ] {
        let agent = client(&Identity::agent(cluster)).await;
        let named = format!("?fieldSelector=metadata.name%3D{cluster}");
        let own_lease = "?fieldSelector=metadata.name%3Dagent";
        for namespace in places {
            // With how many objects it sees there, if it may.
            for (plural, query, objects) in [
                ("bundles", "", 2),
                ("bundles", "?watch=true&timeoutSeconds=1", 2),
                ("bundles", "?fieldSelector=metadata.name%3Dn", 1),
                ("bundles", "?labelSelector=!none&limit=1", 1),
                ("bundles/n", "", 1),
                ("clusterreports", named.as_str(), 1),
                (
                    "clusterreports",
                    &format!("{named}&watch=true&timeoutSeconds=1"),
                    1,
                ),
                ("clusterreports", "", 0),
                ("leases", own_lease, 1),
                ("leases", &format!("{own_lease}&watch=true&timeoutSeconds=1"), 1),
                ("leases", "", 0),
                ("placements", "", 0),
                ("secrets", "", 0),
                ("secrets/n", "", 0),
            ] {
                let root = match plural {
                    "leases" => "/apis/coordination.k8s.io/v1",
                    "secrets" | "secrets/n" => "/api/v1",
                    _ => group,
                };
                let path = format!("{root}/namespaces/{namespace}/{plural}{query}");
                let request = Request::get(&path).body(vec![]).unwrap();
                let answer = tokio::time::timeout(Duration::from_secs(20), agent.request_text(request))
                    .await
                    .unwrap();
                let may = sees == Some(namespace) && objects > 0;
                match answer {
                    Ok(text) => {
                        assert!(may, "{cluster:?} {path} {text}");
                        assert_eq!(text.matches(&mark(namespace)).count(), objects, "{path} {text}");
                        assert_eq!(text.matches("<of ").count(), objects, "{path} {text}");
                        seen += objects;
                    }
                    Err(kube::Error::Api(status)) => {
                        assert_eq!((status.code, may), (403, false), "{cluster:?} {path}");
                        assert!(!status.message.contains("<of "));
                    }
                    Err(error) => panic!("{path} {error}"),
                }
                checked += 1;
            }
            // Nor across them all.
            for path in [
                format!("{group}/bundles"),
                "/apis/coordination.k8s.io/v1/leases".to_owned(),
            ] {
                let request = Request::get(&path).body(vec![]).unwrap();
                let answer = agent.request_text(request).await;
                assert!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 403));
            }
        }
    }
    assert_eq!((checked, seen), (5 * 4 * 14, 2 * 11));
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}
