//! Certificates that are asked for, approved and signed; certificates that are revoked.

mod asked;
mod signed;

use std::{sync::Arc, time::Duration};

use crate::raw::{self, Raw};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::Method;
use parking_lot::Mutex;
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
