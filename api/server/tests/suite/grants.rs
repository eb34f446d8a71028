//! Watches that are open when what they stand on is taken away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use crate::raw::{self, Raw};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use roundhouse_apiserver::{
    ApiBody, Authority, Clock, Identity, Kubeconfig, Server, TokenKey, serve, system_clock,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const LISTENING: &str =
    "watch=true&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

/// The clock of a server, which a test sets.
#[derive(Clone)]
struct Hands(Arc<AtomicI64>);

impl Hands {
    fn now() -> Self {
        Self(Arc::new(AtomicI64::new(system_clock()().as_second())))
    }

    fn clock(&self) -> Clock {
        let seconds = self.0.clone();
        Arc::new(move || Timestamp::from_second(seconds.load(Ordering::SeqCst)).unwrap())
    }

    fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }
}

async fn make(admin: &Raw, name: &str) {
    let (code, answer) = admin.post(MAPS, json!({"metadata": {"name": name}})).await;
    assert_eq!(code, 201, "{answer}");
}

async fn opened(raw: &Raw, headers: &[(&str, &str)]) -> ApiBody {
    let mut request = Request::get(format!("{MAPS}?{LISTENING}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = raw.request(request.body(Full::default()).unwrap()).await;
    assert_eq!(response.status(), 200);
    response.into_body()
}

async fn next(body: &mut ApiBody) -> Value {
    Raw::line(body).await.unwrap()
}

/// That a watch ends with an error of this code, and nothing before or after it.
async fn ends_with(body: &mut ApiBody, code: u16, reason: &str) {
    let line = next(body).await;
    let status = &line["object"];
    assert_eq!(
        (&line["type"], &status["kind"], &status["code"], &status["reason"]),
        (&json!("ERROR"), &json!("Status"), &json!(code), &json!(reason)),
        "{line}"
    );
    assert!(Raw::line(body).await.is_none());
}

async fn bound(admin: &Raw, user: &str) {
    let role = json!({"metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]});
    let binding = json!({"metadata": {"name": user}, "subjects": [{"kind": "User", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}});
    admin.post(&format!("{RBAC}/clusterroles"), role).await;
    let (code, answer) = admin.post(&format!("{RBAC}/clusterrolebindings"), binding).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_taken_away_ends_the_watch() {
    let server = Server::builder().rbac().build();
    let admin = Raw::new(&server);
    bound(&admin, "jane").await;
    bound(&admin, "joe").await;
    let user = |name: &str| Raw::as_somebody(&server, Some(Identity::new(name, ["people"])));
    let (mut jane, mut idle, mut joe) = (
        opened(&user("jane"), &[]).await,
        opened(&user("jane"), &[]).await,
        opened(&user("joe"), &[]).await,
    );
    make(&admin, "before").await;
    for body in [&mut jane, &mut idle, &mut joe] {
        assert_eq!(next(body).await["object"]["metadata"]["name"], "before");
    }
    let unbound = admin
        .delete(&format!("{RBAC}/clusterrolebindings/jane"), json!({}))
        .await;
    assert_eq!(unbound.0, 200);
    // Nothing happens: it ends all the same, soon.
    let began = tokio::time::Instant::now();
    ends_with(&mut idle, 403, "Forbidden").await;
    assert!(
        began.elapsed() <= Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    // What was written since is not shown.
    make(&admin, "after").await;
    let line = Raw::line(&mut jane).await.unwrap();
    assert_eq!(
        line["object"]["message"],
        "configmaps is forbidden: User \"jane\" cannot watch resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    assert!(Raw::line(&mut jane).await.is_none());
    // Others go on, also when a role that is not theirs changes.
    assert_eq!(next(&mut joe).await["object"]["metadata"]["name"], "after");
    let body = json!({"rules": []});
    assert_eq!(
        admin.merge(&format!("{RBAC}/clusterroles/reader"), body).await.0,
        200
    );
    make(&admin, "later").await;
    ends_with(&mut joe, 403, "Forbidden").await;
}

#[tokio::test(start_paused = true)]
async fn whoever_acts_as_another_needs_both_rights() {
    let server = Server::builder().rbac().build();
    let admin = Raw::new(&server);
    bound(&admin, "jane").await;
    let role = json!({"metadata": {"name": "actor"},
        "rules": [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["jane"]}]});
    let binding = json!({"metadata": {"name": "actor"}, "subjects": [{"kind": "User", "name": "eve"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "actor"}});
    for (kind, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        assert_eq!(admin.post(&format!("{RBAC}/{kind}"), object).await.0, 201);
    }
    let eve = Raw::as_somebody(&server, Some(Identity::new("eve", ["people"])));
    let mut body = opened(&eve, &[("impersonate-user", "jane")]).await;
    make(&admin, "before").await;
    assert_eq!(next(&mut body).await["object"]["metadata"]["name"], "before");
    admin
        .delete(&format!("{RBAC}/clusterrolebindings/actor"), json!({}))
        .await;
    make(&admin, "after").await;
    let line = next(&mut body).await;
    assert!(
        line["object"]["message"]
            .as_str()
            .unwrap()
            .contains("User \"eve\" cannot impersonate resource \"users\""),
        "{line}"
    );
    assert!(Raw::line(&mut body).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ends_ends_the_watch() {
    let hands = Hands::now();
    let server = Server::builder()
        .rbac()
        .tokens(TokenKey::generate().unwrap())
        .clock(hands.clock())
        .build();
    let admin = Raw::new(&server);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    bound(&admin, "system:serviceaccount:default:robot").await;
    let robot = async || {
        admin.post(accounts, json!({"metadata": {"name": "robot"}})).await;
        let asked = json!({"spec": {"audiences": [], "expirationSeconds": 600}});
        let (code, made) = admin.post(&format!("{accounts}/robot/token"), asked).await;
        assert_eq!(code, 201, "{made}");
        let header = format!("Bearer {}", made["status"]["token"].as_str().unwrap());
        opened(&Raw::as_somebody(&server, None), &[("authorization", &header)]).await
    };
    let (mut shown, mut idle) = (robot().await, robot().await);
    hands.advance(590);
    make(&admin, "before").await;
    for body in [&mut shown, &mut idle] {
        assert_eq!(next(body).await["object"]["metadata"]["name"], "before");
    }
    // Clocks may be a minute apart.
    hands.advance(71);
    ends_with(&mut idle, 401, "Unauthorized").await;
    make(&admin, "after").await;
    ends_with(&mut shown, 401, "Unauthorized").await;
    // The account goes, and its watches with it.
    let mut gone = robot().await;
    admin.delete(&format!("{accounts}/robot"), json!({})).await;
    make(&admin, "last").await;
    ends_with(&mut gone, 401, "Unauthorized").await;
}

#[tokio::test]
async fn a_certificate_that_ends_or_is_revoked_ends_its_watches_and_no_others() {
    let hands = Hands::now();
    let now = hands.clock()();
    let authority = Authority::generate(now).unwrap();
    let server = Server::builder().rbac().clock(hands.clock()).build();
    let admin = Raw::new(&server);
    admin.bind_agents().await;
    for name in ["cluster-c1", "cluster-c2", "cluster-c3"] {
        assert_eq!(
            admin
                .post("/api/v1/namespaces", json!({"metadata": {"name": name}}))
                .await
                .0,
            201
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = authority.server_config(&["127.0.0.1".to_owned()], now).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, server.clone(), tls, stop.clone()));
    let lease = async |cluster: &str, holder: &str| {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/cluster-{cluster}/leases");
        let body = json!({"metadata": {"name": "agent"}, "spec": {"holderIdentity": holder}});
        match admin.post(&path, body.clone()).await {
            (201, _) => {}
            _ => assert_eq!(admin.merge(&format!("{path}/agent"), body).await.0, 200),
        }
    };
    let watch = async |cluster: &str, seconds: u64| {
        let identity = Identity::agent(cluster);
        let issued = authority
            .issue(&identity, Duration::from_secs(seconds), now)
            .unwrap();
        let text = Kubeconfig::new("t", &url, &authority, issued).to_string();
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
            .await
            .unwrap();
        let client = kube::Client::try_from(config).unwrap();
        lease(cluster, "a").await;
        let path = format!(
            "/apis/coordination.k8s.io/v1/namespaces/cluster-{cluster}/leases?fieldSelector=metadata.name%3Dagent&{LISTENING}"
        );
        let request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .body(kube::client::Body::empty())
            .unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    };
    async fn line(body: &mut kube::client::Body) -> Option<Value> {
        let frame = tokio::time::timeout(Duration::from_secs(20), body.frame())
            .await
            .unwrap()?;
        Some(serde_json::from_slice(&frame.unwrap().into_data().unwrap()).unwrap())
    }
    let (mut revoked, mut other, mut short) = (
        watch("c1", 7_200).await,
        watch("c2", 7_200).await,
        watch("c3", 600).await,
    );
    for (cluster, body) in [("c1", &mut revoked), ("c2", &mut other), ("c3", &mut short)] {
        lease(cluster, "b").await;
        assert_eq!(line(body).await.unwrap()["object"]["spec"]["holderIdentity"], "b");
    }
    let entry = json!({"metadata": {"name": "roundhouse-revoked"},
        "data": {"c1": "user roundhouse:agent:c1:1 before 2999-01-01T00:00:00Z"}});
    assert_eq!(
        admin
            .post("/api/v1/namespaces/kube-system/configmaps", entry)
            .await
            .0,
        201
    );
    // At once, with nothing else happening.
    let end = line(&mut revoked).await.unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(401))
    );
    assert!(line(&mut revoked).await.is_none());
    lease("c1", "c").await;
    // A certificate that is over by the clock of the server.
    hands.advance(601);
    lease("c3", "c").await;
    let end = line(&mut short).await.unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(401))
    );
    assert!(line(&mut short).await.is_none());
    // The other one has seen nothing of all that, and goes on.
    lease("c2", "c").await;
    let next = line(&mut other).await.unwrap();
    assert_eq!(
        (&next["type"], &next["object"]["spec"]["holderIdentity"]),
        (&json!("MODIFIED"), &json!("c"))
    );
    raw::end(&stop, task).await;
}
