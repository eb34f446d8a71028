//! Certificates that are asked for, approved and signed; certificates that are revoked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod raw;

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Method;
use parking_lot::Mutex;
use raw::Raw;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use roundhouse_apiserver::{
    AuditSink, Authority, ClientCertificate, DurableOptions, DurableStore, Identity, Kubeconfig, Server,
    serve, system_clock,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const OTHER: &str = "example.com/other";
/// The agent of `c1`, who invites it, and the one name of its requests.
const C1: &str = "roundhouse:agent:c1:1";
const INVITED: &str = "system:serviceaccount:cluster-c1:roundhouse-join";
const OF_C1: &str = "roundhouse-agent-c1";
const AGENTS: &str = "roundhouse:agents";

#[derive(Default)]
struct Events(Mutex<Vec<Value>>);

impl AuditSink for Events {
    fn record(&self, event: &Value) {
        self.0.lock().push(event.clone());
    }
}

struct Cluster {
    server: Server,
    admin: Raw,
    authority: Arc<Authority>,
    events: Arc<Events>,
}

fn cluster() -> Cluster {
    let authority = Arc::new(Authority::generate(system_clock()()).unwrap());
    let events = Arc::<Events>::default();
    let server = Server::builder()
        .seed(1)
        .rbac()
        .signer(authority.clone())
        .audit(events.clone())
        .build();
    Cluster {
        admin: Raw::new(&server),
        server,
        authority,
        events,
    }
}

/// A key, and a request for a certificate of these names.
fn asked(user: &str, group: &str, more: impl FnOnce(&mut CertificateParams)) -> (KeyPair, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    if !group.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    more(&mut params);
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    (key, STANDARD.encode(pem))
}

fn csr(name: &str, signer: &str, request: &str) -> Value {
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "request": request, "usages": ["client auth", "digital signature"],
            "username": "root", "groups": ["system:masters"], "uid": "0", "extra": {"a": ["b"]}},
        "status": {"conditions": [{"type": "Approved", "status": "True"}]}})
}

impl Cluster {
    fn agent(&self, name: &str) -> Raw {
        Raw::as_somebody(&self.server, Some(Identity::agent(name)))
    }

    fn user(&self, name: &str) -> Raw {
        Raw::as_somebody(&self.server, Some(Identity::new(name, ["people"])))
    }

    /// Gives a user a ClusterRole of these rules.
    async fn give(&self, user: &str, name: &str, rules: Value) {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        assert_eq!(
            self.admin.post(&format!("{RBAC}/clusterroles"), role).await.0,
            201
        );
        let binding = json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": user}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
        assert_eq!(
            self.admin
                .post(&format!("{RBAC}/clusterrolebindings"), binding)
                .await
                .0,
            201
        );
    }

    /// A new key and its request by the agent of `c1`, approved: the key and the object.
    async fn issued_to_c1(&self) -> (KeyPair, String, Value) {
        let (key, request) = asked(C1, AGENTS, |_| ());
        let (code, object) = self.agent("c1").post(CSRS, csr(OF_C1, CLIENT, &request)).await;
        assert_eq!((code, &object["status"]), (201, &json!({})), "{object}");
        let (code, object) = self.decide(&self.admin, OF_C1, "Approved").await;
        assert_eq!(code, 200, "{object}");
        assert!(object["status"]["certificate"].is_string(), "{object}");
        (key, request, object)
    }

    async fn decide(&self, who: &Raw, name: &str, ty: &str) -> (u16, Value) {
        let path = format!("{CSRS}/{name}/approval");
        let (_, mut object) = self.admin.get(&path).await;
        object["status"]["conditions"] = json!([{"type": ty, "status": "True", "reason": "Test"}]);
        who.put(&path, object).await
    }

    fn audited(&self, code: u16, name: &str) -> usize {
        let events = self.events.0.lock();
        let of = |e: &&Value| e["responseStatus"]["code"] == code && e["user"]["username"] == name;
        events.iter().filter(of).count()
    }
}

#[tokio::test]
async fn a_user_asks_an_approver_approves_and_the_certificate_is_signed() {
    let cluster = cluster();
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "update"]}]);
    cluster.give("jane", "asker", rules).await;
    let approve = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"]}]);
    cluster.give("eve", "approver", approve).await;
    let (jane, eve) = (cluster.user("jane"), cluster.user("eve"));
    let (_, request) = asked("joe", "people", |_| ());
    let mut body = csr("joe", CLIENT, &request);
    body["spec"]["expirationSeconds"] = json!(3_600);
    let (code, object) = jane.post(CSRS, body).await;
    assert_eq!(code, 201, "{object}");
    assert_eq!(
        (&object["spec"]["username"], &object["spec"]["groups"]),
        (&json!("jane"), &json!(["people", "system:authenticated"])),
        "who asks is not taken from the body"
    );
    assert_eq!(
        (&object["spec"]["uid"], &object["spec"]["extra"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(object["status"], json!({}), "nothing is approved at the start");
    // The request cannot change.
    let mut changed = object.clone();
    changed["spec"]["signerName"] = json!(OTHER);
    changed["spec"]["username"] = json!("root");
    changed["metadata"]["labels"] = json!({"a": "b"});
    let (code, kept) = jane.put(&format!("{CSRS}/joe"), changed).await;
    assert_eq!((code, &kept["spec"]), (200, &object["spec"]));
    assert_eq!(kept["metadata"]["labels"]["a"], "b");
    assert_eq!(cluster.decide(&jane, "joe", "Approved").await.0, 403);
    let (code, approved) = cluster.decide(&eve, "joe", "Approved").await;
    assert_eq!(code, 200, "{approved}");
    let condition = &approved["status"]["conditions"][0];
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());
    let pem = STANDARD
        .decode(approved["status"]["certificate"].as_str().unwrap())
        .unwrap();
    assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----"));
    // What is decided stays.
    for ty in ["Denied", "Other"] {
        let (code, status) = cluster.decide(&cluster.admin, "joe", ty).await;
        assert_eq!(code, 422);
        let why = "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"";
        assert!(status["message"].as_str().unwrap().contains(why), "{status}");
    }
    let forged = json!({"status": {"certificate": STANDARD.encode("x")}});
    let (code, status) = cluster.admin.merge(&format!("{CSRS}/joe/status"), forged).await;
    assert_eq!(code, 422);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("updates may not modify existing certificate content")
    );
}

#[tokio::test]
async fn who_may_approve_for_one_signer_may_not_for_another() {
    let cluster = cluster();
    let approve = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/*", "certificatesigningrequests/approval", "certificatesigningrequests/status"], "verbs": ["update", "patch"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [OTHER], "verbs": ["approve"]}]);
    cluster.give("eve", "approver", approve).await;
    let eve = cluster.user("eve");
    let (_, request) = asked("joe", "", |_| ());
    assert_eq!(
        cluster.admin.post(CSRS, csr("joe", CLIENT, &request)).await.0,
        201
    );
    let (code, status) = cluster.decide(&eve, "joe", "Approved").await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "certificatesigningrequests.certificates.k8s.io \"joe\" is forbidden: user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
    );
    let certificate = json!({"status": {"certificate": STANDARD.encode("x")}});
    let (code, status) = eve.merge(&format!("{CSRS}/joe/status"), certificate).await;
    assert_eq!(code, 403);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("user not permitted to sign requests with signerName")
    );
    // Through the status nobody approves.
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let (code, status) = cluster.admin.merge(&format!("{CSRS}/joe/status"), approved).await;
    assert_eq!(code, 422, "{status}");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("updates may not add a condition of type \"Approved\"")
    );
    // Denied, it is not signed.
    let (code, denied) = cluster.decide(&cluster.admin, "joe", "Denied").await;
    assert_eq!((code, &denied["status"]["certificate"]), (200, &Value::Null));
    // Both at once are none.
    let (_, request) = asked("ann", "", |_| ());
    assert_eq!(
        cluster.admin.post(CSRS, csr("ann", CLIENT, &request)).await.0,
        201
    );
    let both = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]}});
    let (code, status) = cluster.admin.merge(&format!("{CSRS}/ann/approval"), both).await;
    assert_eq!(code, 422);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("Approved and Denied conditions are mutually exclusive")
    );
}

#[tokio::test]
async fn what_is_no_request_is_told_field_by_field() {
    let cluster = cluster();
    let (_, request) = asked("joe", "", |_| ());
    let with = |path: &str, value: Value| {
        let mut body = csr("x", CLIENT, &request);
        *body.pointer_mut(path).unwrap() = value;
        body
    };
    for (body, field, message) in [
        (
            with("/spec/request", json!(STANDARD.encode("no"))),
            "spec.request",
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        (
            with("/spec/usages", json!(["fun"])),
            "spec.usages[0]",
            "Unsupported value: \"fun\": supported values: \"any\"",
        ),
        (
            with("/spec/usages", json!(["any", "any"])),
            "spec.usages[1]",
            "Duplicate value: \"any\"",
        ),
        (
            with("/spec/signerName", json!("x")),
            "spec.signerName",
            "must be a fully qualified domain and path",
        ),
        (
            with(
                "/spec",
                json!({"request": request, "signerName": CLIENT, "usages": ["any"], "expirationSeconds": 599}),
            ),
            "spec.expirationSeconds",
            "may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ] {
        let (code, status) = cluster.admin.post(CSRS, body).await;
        assert_eq!(code, 422, "{status}");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], field);
        assert!(cause["message"].as_str().unwrap().contains(message), "{cause}");
    }
    // The signer refuses what Kubernetes' own refuses.
    let mut body = csr("server", CLIENT, &request);
    body["spec"]["usages"] = json!(["client auth", "server auth"]);
    assert_eq!(cluster.admin.post(CSRS, body).await.0, 201);
    let (_, failed) = cluster.decide(&cluster.admin, "server", "Approved").await;
    let condition = &failed["status"]["conditions"][1];
    assert_eq!(
        (&condition["type"], &condition["reason"], &condition["message"]),
        (
            &json!("Failed"),
            &json!("SignerValidationFailed"),
            &json!("invalid usage for client certificate: server auth")
        )
    );
    assert_eq!(failed["status"]["certificate"], Value::Null);
    let (_, request) = asked("joe", "system:masters", |_| ());
    let (code, status) = cluster.admin.post(CSRS, csr("y", CLIENT, &request)).await;
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert_eq!(code, 403);
    assert!(status["message"].as_str().unwrap().ends_with(why), "{status}");
}

#[tokio::test]
async fn who_asks_for_the_agent_of_a_cluster_asks_under_its_name_and_waits() {
    let cluster = cluster();
    cluster.admin.bind_agents().await;
    let ask = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}]);
    cluster.give(INVITED, "invited", ask).await;
    let invited = Raw::as_somebody(
        &cluster.server,
        Some(Identity::new(INVITED, ["system:serviceaccounts"])),
    );
    for (who, user) in [(&cluster.agent("c1"), C1), (&invited, INVITED)] {
        let (_, request) = asked(C1, AGENTS, |_| ());
        let mut refused = 0;
        for name in [
            "roundhouse-agent-c10",
            "roundhouse-agent-c",
            "roundhouse-agent-c1-x",
            "c1",
            "x",
        ] {
            for signer in [CLIENT, OTHER] {
                let (code, status) = who.post(CSRS, csr(name, signer, &request)).await;
                assert_eq!(code, 403, "{user} {name} {status}");
                assert!(status["message"].as_str().unwrap().contains(name), "{status}");
                refused += 1;
            }
        }
        let mut generated = csr("", CLIENT, &request);
        generated["metadata"] = json!({"generateName": OF_C1});
        assert_eq!(who.post(CSRS, generated).await.0, 403, "{user}");
        let (_, master) = asked(C1, "system:masters", |_| ());
        assert_eq!(who.post(CSRS, csr(OF_C1, CLIENT, &master)).await.0, 403, "{user}");
        assert_eq!(cluster.audited(403, user), refused + 2);
        let mut whale = csr(OF_C1, CLIENT, &request);
        whale["metadata"]["annotations"] = json!({"a": "v".repeat(32 << 10)});
        assert_eq!(who.post(CSRS, whale).await.0, 413, "{user}");
        // Whatever the subject says: who becomes an agent is not the server's to tell.
        for (subject, group) in [
            (C1, AGENTS),
            ("roundhouse:agent:c1:2", AGENTS),
            ("roundhouse:agent:c10:1", AGENTS),
            (C1, ""),
            ("joe", "people"),
        ] {
            let (_, request) = asked(subject, group, |_| ());
            let (code, object) = who.post(CSRS, csr(OF_C1, CLIENT, &request)).await;
            assert_eq!(
                (code, &object["status"]),
                (201, &json!({})),
                "{user} {subject} {object}"
            );
            assert_eq!(object["spec"]["username"], user);
            assert_eq!(
                cluster.decide(who, OF_C1, "Approved").await.0,
                403,
                "it decides nothing"
            );
            let one = format!("{CSRS}/{OF_C1}");
            let read = if user == C1 { 200 } else { 403 };
            assert_eq!(who.get(&one).await.0, read);
            assert_eq!(who.get(CSRS).await.0, 403);
            assert_eq!(who.delete(&one, json!({})).await.0, read);
            if user != C1 {
                assert_eq!(cluster.admin.delete(&one, json!({})).await.0, 200);
            }
        }
    }
}

/// A request for a certificate of these names with a key that is there already.
fn asked_again(key: &KeyPair, user: &str, group: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    if !group.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    STANDARD.encode(params.serialize_request(key).unwrap().pem().unwrap())
}

#[tokio::test]
async fn a_key_is_of_one_identity_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Arc::new(Authority::generate(system_clock()()).unwrap());
    let start = || {
        let store = DurableStore::open(directory.path(), DurableOptions::default()).unwrap();
        let events = Arc::<Events>::default();
        let server = Server::builder()
            .rbac()
            .store(Arc::new(store))
            .signer(authority.clone())
            .audit(events.clone())
            .build();
        Cluster {
            admin: Raw::new(&server),
            server,
            authority: authority.clone(),
            events,
        }
    };
    let (jane, jane_text) = asked("jane", "people", |_| ());
    let (key, text) = {
        let cluster = start();
        cluster.admin.bind_agents().await;
        let (code, _) = cluster.admin.post(CSRS, csr("taken", CLIENT, &jane_text)).await;
        assert_eq!(code, 201);
        let (key, text, _) = cluster.issued_to_c1().await;
        let (code, object) = cluster.decide(&cluster.admin, "taken", "Approved").await;
        assert!(
            code == 200 && object["status"]["certificate"].is_string(),
            "{object}"
        );
        // Nothing is left of them but the keys.
        for name in [OF_C1, "taken"] {
            assert_eq!(
                cluster.admin.delete(&format!("{CSRS}/{name}"), json!({})).await.0,
                200
            );
        }
        (key, text)
    };
    let cluster = start();
    let used =
        "a certificate was issued for the key of this request before; make a new key, and a request with it";
    let agent = cluster.agent("c1");
    // The same text, and the same key in another one: for itself, for its next serial, for another cluster, for a user.
    let anew = asked_again(&key, C1, AGENTS);
    assert_ne!(anew, text);
    for (who, request) in [
        (&agent, text.clone()),
        (&agent, anew),
        (&cluster.admin, text),
        (&cluster.admin, asked_again(&key, "roundhouse:agent:c1:2", AGENTS)),
        (&cluster.admin, asked_again(&key, "roundhouse:agent:c2:1", AGENTS)),
        (&cluster.admin, asked_again(&key, "eve", "people")),
        (&cluster.admin, asked_again(&jane, "eve", "people")),
        (&cluster.admin, asked_again(&jane, "jane", "more")),
        (&cluster.admin, asked_again(&jane, C1, AGENTS)),
    ] {
        let (code, status) = who.post(CSRS, csr(OF_C1, CLIENT, &request)).await;
        assert_eq!(code, 403, "{status}");
        assert!(status["message"].as_str().unwrap().ends_with(used), "{status}");
    }
    let refused = cluster.audited(403, C1) + cluster.audited(403, "roundhouse:admin");
    assert_eq!(refused, 9, "and it is audited");
    // Somebody else who asks for jane's key is refused, whoever asked first gets it again, as in Kubernetes.
    let ask = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}]);
    cluster.give("joe", "asker", ask).await;
    let joe = cluster.user("joe");
    assert_eq!(joe.post(CSRS, csr("j", CLIENT, &jane_text)).await.0, 403);
    assert_eq!(
        cluster.admin.post(CSRS, csr("j", CLIENT, &jane_text)).await.0,
        201
    );
    let (_, object) = cluster.decide(&cluster.admin, "j", "Approved").await;
    assert!(object["status"]["certificate"].is_string(), "{object}");
    // A new key is a renewal.
    cluster.issued_to_c1().await;
}

#[tokio::test]
async fn of_two_requests_with_one_key_one_is_signed() {
    let cluster = cluster();
    let (key, request) = asked("jane", "people", |_| ());
    let other = asked_again(&key, "eve", "people");
    for (name, request) in [("a", &request), ("b", &other)] {
        assert_eq!(cluster.admin.post(CSRS, csr(name, CLIENT, request)).await.0, 201);
    }
    let (_, first) = cluster.decide(&cluster.admin, "b", "Approved").await;
    assert!(first["status"]["certificate"].is_string(), "{first}");
    let (code, second) = cluster.decide(&cluster.admin, "a", "Approved").await;
    let failed = &second["status"]["conditions"][1];
    assert_eq!((code, &failed["type"]), (200, &json!("Failed")), "{second}");
    assert!(
        failed["message"]
            .as_str()
            .unwrap()
            .starts_with("a certificate was issued for the key")
    );
    assert_eq!(second["status"]["certificate"], Value::Null);
}

#[tokio::test]
async fn a_dry_run_gives_no_certificate() {
    let cluster = cluster();
    let (_, request) = asked("joe", "people", |_| ());
    assert_eq!(
        cluster.admin.post(CSRS, csr("joe", CLIENT, &request)).await.0,
        201
    );
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let path = format!("{CSRS}/joe/approval?dryRun=All");
    let (code, object) = cluster.admin.merge(&path, approved).await;
    assert_eq!((code, &object["status"]["certificate"]), (200, &Value::Null));
    let (_, kept) = cluster.admin.get(&format!("{CSRS}/joe")).await;
    assert_eq!(kept["status"], json!({}));
}

#[tokio::test]
async fn a_signed_certificate_opens_the_door_until_it_is_revoked() {
    let cluster = cluster();
    let now = system_clock()();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = cluster
        .authority
        .server_config(&["127.0.0.1".to_owned()], now)
        .unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, cluster.server.clone(), tls, stop.clone()));
    let ns = "/api/v1/namespaces";
    assert_eq!(
        cluster
            .admin
            .post(ns, json!({"metadata": {"name": "cluster-c1"}}))
            .await
            .0,
        201
    );

    cluster.admin.bind_agents().await;
    let (key, _, object) = cluster.issued_to_c1().await;
    let pem = STANDARD
        .decode(object["status"]["certificate"].as_str().unwrap())
        .unwrap();
    let issued = ClientCertificate {
        certificate: String::from_utf8(pem).unwrap(),
        key: key.serialize_pem(),
    };
    let client = async |issued: ClientCertificate| {
        let text = Kubeconfig::new("t", &url, &cluster.authority, issued).to_string();
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
            .await
            .unwrap();
        kube::Client::try_from(config).unwrap()
    };
    let code = async |client: &kube::Client, path: &str| {
        let request = http::Request::get(path).body(vec![]).unwrap();
        let answer = client.request_text(request);
        match tokio::time::timeout(Duration::from_secs(20), answer)
            .await
            .unwrap()
        {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    };
    let c1 = client(issued).await;
    let leases =
        "/apis/coordination.k8s.io/v1/namespaces/cluster-c1/leases?fieldSelector=metadata.name%3Dagent";
    assert_eq!(code(&c1, leases).await, 200);
    assert_eq!(
        code(&c1, "/apis/coordination.k8s.io/v1/namespaces/cluster-c10/leases").await,
        403
    );
    let events = cluster.events.0.lock().clone();
    let refused = events
        .iter()
        .find(|e| e["responseStatus"]["code"] == 403)
        .unwrap();
    assert_eq!(refused["sourceIPs"], json!(["127.0.0.1"]));
    assert!(refused["annotations"]["roundhouse.dev/certificate-serial"].is_string());
    let id = &refused["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(id.as_str().unwrap().starts_with("X509SHA256="), "{id}");

    let list = |entry: &str| json!({"metadata": {"name": "roundhouse-revoked"}, "data": {"c1": entry}});
    let maps = "/api/v1/namespaces/kube-system/configmaps";
    let (answer, status) = cluster.admin.post(maps, list("user roundhouse:agent:c1:1")).await;
    assert_eq!(answer, 422, "{status}");
    let (answer, _) = cluster
        .admin
        .post(
            maps,
            list("user roundhouse:agent:c1:1 before 2999-01-01T00:00:00Z"),
        )
        .await;
    assert_eq!(answer, 201);
    assert_eq!(
        code(&c1, leases).await,
        401,
        "the connection that is open is refused too"
    );
    assert_eq!(cluster.audited(401, C1), 0, "it is nobody any longer");
    let unknown = |e: &Value| e["responseStatus"]["code"] == 401 && e["requestURI"] == leases;
    assert!(cluster.events.0.lock().iter().any(unknown), "and it is audited");
    let path = format!("{maps}/roundhouse-revoked");
    let serial = refused["annotations"]["roundhouse.dev/certificate-serial"]
        .as_str()
        .unwrap();
    for (entry, want) in [
        (
            "user roundhouse:agent:c10:1 before 2999-01-01T00:00:00Z".to_owned(),
            200,
        ),
        (format!("serial {serial}"), 401),
        (
            "user roundhouse:agent:c1:1 before 2001-01-01T00:00:00Z".to_owned(),
            200,
        ),
    ] {
        let answer = cluster.admin.merge(&path, json!({"data": {"c1": entry}})).await;
        assert_eq!(answer.0, 200);
        assert_eq!(code(&c1, leases).await, want, "{entry}");
    }

    // A certificate whose time is over does not get as far as a request.
    let long_ago = jiff::Timestamp::from_second(now.as_second() - 7_200).unwrap();
    let old = cluster
        .authority
        .issue(&Identity::agent("c1"), Duration::from_secs(3_600), long_ago)
        .unwrap();
    let old = client(old).await;
    let request = http::Request::get(leases).body(vec![]).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(20), old.request_text(request))
        .await
        .unwrap();
    assert!(answer.is_err());
    let connect = |e: &Value| e["verb"] == "connect" && e["responseStatus"]["code"] == 401;
    assert!(cluster.events.0.lock().iter().any(connect), "it is audited");
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), task)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn without_an_authority_nothing_is_signed() {
    let server = Server::builder().seed(1).build();
    let admin = Raw::new(&server);
    let (_, request) = asked("joe", "", |_| ());
    assert_eq!(admin.post(CSRS, csr("joe", CLIENT, &request)).await.0, 201);
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let path = format!("{CSRS}/joe/approval");
    let (code, object) = admin
        .ask(Method::PATCH, &path, raw::MERGE, approved.to_string())
        .await;
    assert_eq!((code, &object["status"]["certificate"]), (200, &Value::Null));
}
