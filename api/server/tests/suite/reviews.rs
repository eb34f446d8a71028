//! Questions about rights and identities, and tokens of service accounts.

use std::sync::Arc;

use crate::raw::Raw;
use jiff::Timestamp;
use parking_lot::Mutex;
use roundhouse_apiserver::{Identity, Server, TokenKey};
use serde_json::{Value, json};

const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/team/serviceaccounts";

async fn made(admin: &Raw, path: &str, body: Value) -> Value {
    let (code, answer) = admin.post(path, body).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

async fn bound(admin: &Raw, role: &str, subject: Value) {
    let body = json!({"metadata": {"name": "b"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
    made(admin, &format!("{RBAC}/namespaces/default/rolebindings"), body).await;
}

#[tokio::test]
async fn what_may_i_and_what_may_somebody() {
    let server = Server::builder().seed(1).rbac().build();
    let admin = Raw::new(&server);
    bound(&admin, "view", json!({"kind": "User", "name": "jane"})).await;
    let jane = Raw::as_somebody(&server, Some(Identity::new("jane", ["people"])));
    let pods = json!({"namespace": "default", "verb": "list", "resource": "pods"});
    let review = async |who: &Raw, kind: &str, spec: Value| {
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "spec": spec});
        let path = match kind {
            "localsubjectaccessreviews" => format!("{ACCESS}/namespaces/default/{kind}"),
            _ => format!("{ACCESS}/{kind}"),
        };
        who.post(&path, body).await
    };
    let (code, answer) = review(
        &jane,
        "selfsubjectaccessreviews",
        json!({"resourceAttributes": pods}),
    )
    .await;
    assert_eq!(code, 201);
    let allowed = json!({"allowed": true,
        "reason": "RBAC: allowed by RoleBinding \"b/default\" of ClusterRole \"view\" to User \"jane\""});
    assert_eq!(answer["status"], allowed);
    let delete = json!({"namespace": "default", "verb": "delete", "resource": "pods"});
    let (_, answer) = review(
        &jane,
        "selfsubjectaccessreviews",
        json!({"resourceAttributes": delete}),
    )
    .await;
    assert_eq!(answer["status"], json!({"allowed": false}));
    let of_jane = json!({"user": "jane", "resourceAttributes": pods});
    for kind in ["subjectaccessreviews", "localsubjectaccessreviews"] {
        assert_eq!(
            review(&admin, kind, of_jane.clone()).await.1["status"],
            allowed,
            "{kind}"
        );
        assert_eq!(review(&jane, kind, of_jane.clone()).await.0, 403, "{kind}");
    }
    let path = json!({"user": "jane", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
    assert_eq!(
        review(&admin, "subjectaccessreviews", path.clone()).await.1["status"],
        json!({"allowed": false})
    );
    // A review names the groups itself: nothing is added to them.
    let everybody = json!({"user": "jane", "groups": ["system:authenticated"],
        "nonResourceAttributes": {"path": "/api", "verb": "get"}});
    assert_eq!(
        review(&admin, "subjectaccessreviews", everybody).await.1["status"]["allowed"],
        true
    );
    for (kind, spec, message) in [
        (
            "subjectaccessreviews",
            json!({"resourceAttributes": pods}),
            "SubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified",
        ),
        (
            "selfsubjectaccessreviews",
            json!({}),
            "SelfSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "localsubjectaccessreviews",
            json!({"user": "jane", "resourceAttributes": {"namespace": "other", "verb": "get", "resource": "pods"}}),
            "LocalSubjectAccessReview.authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace",
        ),
    ] {
        let (code, status) = review(&admin, kind, spec).await;
        assert_eq!((code, status["message"].as_str()), (422, Some(message)));
    }
    let (_, answer) = review(&jane, "selfsubjectrulesreviews", json!({"namespace": "default"})).await;
    let status = &answer["status"];
    assert_eq!(status["incomplete"], false);
    let resources = status["resourceRules"].as_array().unwrap();
    let has = |verb: &str, resource: &str| {
        let names = |rule: &Value, key: &str, word: &str| {
            rule[key].as_array().is_some_and(|l| l.contains(&word.into()))
        };
        resources
            .iter()
            .any(|r| names(r, "resources", resource) && names(r, "verbs", verb))
    };
    assert!(
        has("list", "pods")
            && has("create", "selfsubjectreviews")
            && !has("delete", "pods")
            && !has("get", "secrets")
    );
    assert!(!status["nonResourceRules"].as_array().unwrap().is_empty());
    let (_, answer) = review(&admin, "selfsubjectrulesreviews", json!({"namespace": "default"})).await;
    assert!(
        answer["status"]["resourceRules"]
            .as_array()
            .unwrap()
            .contains(&json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}))
    );
    let (code, _) = review(&jane, "selfsubjectrulesreviews", json!({})).await;
    assert_eq!(code, 400);
}

struct Cluster {
    server: Server,
    admin: Raw,
    now: Arc<Mutex<Timestamp>>,
    account: Value,
}

async fn cluster() -> Cluster {
    let now = Arc::new(Mutex::new(Timestamp::from_second(1_800_000_000).unwrap()));
    let clock = now.clone();
    let server = Server::builder()
        .seed(1)
        .clock(Arc::new(move || *clock.lock()))
        .rbac()
        .tokens(TokenKey::generate().unwrap())
        .build();
    let admin = Raw::new(&server);
    made(
        &admin,
        "/api/v1/namespaces",
        json!({"metadata": {"name": "team"}}),
    )
    .await;
    let account = made(&admin, ACCOUNTS, json!({"metadata": {"name": "web"}})).await;
    Cluster {
        server,
        admin,
        now,
        account,
    }
}

impl Cluster {
    async fn token(&self, spec: Value) -> String {
        let answer = made(
            &self.admin,
            &format!("{ACCOUNTS}/web/token"),
            json!({"spec": spec}),
        )
        .await;
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The code that whoever shows the token gets for asking who they are, and the answer.
    async fn who(&self, token: &str) -> (u16, Value) {
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"));
        let body = http_body_util::Full::from(bytes::Bytes::from("{}"));
        let nobody = Raw::as_somebody(&self.server, None);
        let response = nobody.request(request.body(body).unwrap()).await;
        let code = response.status().as_u16();
        let bytes = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap()
            .to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    fn later(&self, seconds: i64) {
        let mut now = self.now.lock();
        *now = Timestamp::from_second(now.as_second() + seconds).unwrap();
    }
}

#[tokio::test]
async fn a_token_is_its_service_account_for_its_time() {
    let cluster = cluster().await;
    let answer = made(
        &cluster.admin,
        &format!("{ACCOUNTS}/web/token"),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}),
    )
    .await;
    assert_eq!(
        (answer["kind"].as_str(), answer["apiVersion"].as_str()),
        (Some("TokenRequest"), Some("authentication.k8s.io/v1"))
    );
    assert_eq!(
        answer["spec"]["audiences"],
        json!(["https://kubernetes.default.svc.cluster.local"])
    );
    assert_eq!(answer["status"]["expirationTimestamp"], "2027-01-15T08:10:00Z");
    let token = answer["status"]["token"].as_str().unwrap();
    let (code, who) = cluster.who(token).await;
    assert_eq!(code, 201);
    let user = &who["status"]["userInfo"];
    assert_eq!(user["username"], "system:serviceaccount:team:web");
    assert_eq!(user["uid"], cluster.account["metadata"]["uid"]);
    assert_eq!(
        user["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:team",
            "system:authenticated"
        ])
    );
    let id = &user["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(id.as_str().unwrap().starts_with("JTI="), "{id}");
    cluster.later(661);
    assert_eq!(cluster.who(token).await.0, 401);
    assert_eq!(cluster.who("abc").await.0, 401);
}

#[tokio::test]
async fn a_token_ends_with_what_it_is_bound_to() {
    let cluster = cluster().await;
    let admin = &cluster.admin;
    let secrets = "/api/v1/namespaces/team/secrets";
    let pods = "/api/v1/namespaces/team/pods";
    let pod = |account: &str| {
        json!({"metadata": {"name": format!("p-{account}")},
        "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]}})
    };
    made(admin, secrets, json!({"metadata": {"name": "s"}})).await;
    made(admin, pods, pod("web")).await;
    made(admin, pods, pod("other")).await;
    let of =
        |kind: &str, name: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}});
    let (plain, secret, pod) = (
        cluster.token(json!({})).await,
        cluster.token(of("Secret", "s")).await,
        cluster.token(of("Pod", "p-web")).await,
    );
    let (_, who) = cluster.who(&pod).await;
    assert_eq!(
        who["status"]["userInfo"]["extra"]["authentication.kubernetes.io/pod-name"],
        json!(["p-web"])
    );
    for (spec, code, message) in [
        (of("Secret", "absent"), 404, "secrets \"absent\" not found"),
        (
            of("ConfigMap", "s"),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            of("Pod", "p-other"),
            400,
            "cannot bind token for serviceaccount \"web\" to pod running with different serviceaccount name.",
        ),
        (
            json!({"expirationSeconds": 599}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
        ),
    ] {
        let (got, status) = admin
            .post(&format!("{ACCOUNTS}/web/token"), json!({"spec": spec}))
            .await;
        assert_eq!((got, status["message"].as_str()), (code, Some(message)));
    }
    assert_eq!(
        admin.post(&format!("{ACCOUNTS}/absent/token"), json!({})).await.0,
        404
    );
    assert_eq!(admin.get(&format!("{ACCOUNTS}/web/token")).await.0, 405);
    let codes = async || {
        let codes = [
            cluster.who(&plain).await.0,
            cluster.who(&secret).await.0,
            cluster.who(&pod).await.0,
        ];
        codes.map(|code| code == 201)
    };
    assert_eq!(codes().await, [true, true, true]);
    admin
        .delete(&format!("{pods}/p-web"), json!({"gracePeriodSeconds": 0}))
        .await;
    assert_eq!(codes().await, [true, true, false]);
    admin.delete(&format!("{secrets}/s"), json!({})).await;
    made(admin, secrets, json!({"metadata": {"name": "s"}})).await;
    assert_eq!(
        codes().await,
        [true, false, false],
        "another secret of that name is another one"
    );
    admin.delete(&format!("{ACCOUNTS}/web"), json!({})).await;
    made(admin, ACCOUNTS, json!({"metadata": {"name": "web"}})).await;
    assert_eq!(
        codes().await,
        [false, false, false],
        "another account of that name is another one"
    );
}

#[tokio::test]
async fn tokens_are_reviewed_for_their_audience() {
    let cluster = cluster().await;
    let token = cluster.token(json!({"audiences": ["vault"]})).await;
    assert_eq!(cluster.who(&token).await.0, 401, "it is not for this server");
    let review = async |spec: Value| {
        let answer = made(
            &cluster.admin,
            "/apis/authentication.k8s.io/v1/tokenreviews",
            json!({"spec": spec}),
        )
        .await;
        answer["status"].clone()
    };
    let status = review(json!({"token": token, "audiences": ["vault", "other"]})).await;
    assert_eq!(
        (&status["authenticated"], &status["audiences"]),
        (&json!(true), &json!(["vault"]))
    );
    assert_eq!(status["user"]["username"], "system:serviceaccount:team:web");
    let status = review(json!({"token": token})).await;
    assert_eq!(status["authenticated"], Value::Null);
    assert!(
        status["error"]
            .as_str()
            .unwrap()
            .contains("is invalid for the target audiences"),
        "{status}"
    );
}

#[tokio::test]
async fn the_certificate_of_a_connection_is_asked_before_a_token() {
    let cluster = cluster().await;
    let token = cluster.token(json!({})).await;
    let jane = Raw::as_somebody(&cluster.server, Some(Identity::new("jane", ["x"])));
    for token in [token.as_str(), "abc"] {
        let header = format!("Bearer {token}");
        let headers = [("authorization", header.as_str())];
        let (code, status) = jane.get_with("/api/v1/nodes", &headers).await;
        assert_eq!(code, 403);
        assert!(
            status["message"].as_str().unwrap().contains("User \"jane\""),
            "{status}"
        );
    }
    // Who impersonates with a token has its rights to do so, and none.
    let (code, status) = Raw::as_somebody(&cluster.server, None)
        .get_with(
            "/api/v1/nodes",
            &[
                ("authorization", &format!("Bearer {token}")),
                ("impersonate-user", "jane"),
            ],
        )
        .await;
    assert_eq!(code, 403);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("cannot impersonate resource \"users\""),
        "{status}"
    );
}

#[tokio::test]
async fn without_a_key_there_are_no_tokens() {
    let server = Server::builder().seed(1).build();
    let admin = Raw::new(&server);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    made(&admin, accounts, json!({"metadata": {"name": "web"}})).await;
    assert_eq!(
        admin.post(&format!("{accounts}/web/token"), json!({})).await.0,
        404
    );
}
