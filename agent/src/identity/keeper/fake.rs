//! A hub, as much of it as an identity needs: one request for a certificate, tokens, and who may ask.

use super::Dial;
use crate::identity::certificate::tests::sign;
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;
use parking_lot::Mutex;
use roundhouse_api::clock::{Clock, SharedClock};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::Instant;

pub(super) const REQUEST: &str =
    "/apis/certificates.k8s.io/v1/certificatesigningrequests/roundhouse-agent-c1";

/// A clock that goes with tokio's.
#[derive(Debug)]
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        start + SignedDuration::try_from(self.0.elapsed()).unwrap()
    }
}

/// What becomes of a request whose turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It never arrives.
    Lost,
    /// It arrives, and its answer does not.
    Unanswered,
}

#[derive(Default)]
pub(super) struct Hub {
    /// The request for a certificate.
    pub(super) request: Option<Value>,
    /// Whether requests are accepted and signed at once.
    pub(super) signs: bool,
    /// What is decided at once on each request: a type of condition, and its reason.
    pub(super) decides: Option<(&'static str, &'static str)>,
    /// Tokens that are not known.
    pub(super) ended: BTreeSet<String>,
    /// Whether nobody may have tokens yet.
    pub(super) withholds_tokens: bool,
    /// How long a token lasts at the most.
    pub(super) token_seconds: i64,
    /// What was asked: when, by whom, what.
    pub(super) asked: Vec<(Timestamp, String, String)>,
    /// The request of this number (from 0) has this fate.
    pub(super) fate: Option<(usize, Fate)>,
    uids: u32,
    tokens: u32,
}

/// The hub, and its clock.
#[derive(Clone)]
pub(super) struct Fake {
    pub(super) hub: Arc<Mutex<Hub>>,
    pub(super) clock: SharedClock,
}

impl Fake {
    pub(super) fn new() -> Self {
        let hub = Hub {
            token_seconds: 3600,
            ..Hub::default()
        };
        Fake {
            hub: Arc::new(Mutex::new(hub)),
            clock: Arc::new(TestClock(Instant::now())),
        }
    }

    pub(super) fn dial(&self) -> Dial {
        let fake = self.clone();
        Arc::new(move |kubeconfig| {
            let (fake, caller) = (fake.clone(), caller(&kubeconfig));
            let service = tower::service_fn(move |request: http::Request<Body>| {
                let (fake, caller) = (fake.clone(), caller.clone());
                async move { fake.answer(caller, request).await }
            });
            async move { Ok(Client::new(service, "default")) }.boxed()
        })
    }

    async fn answer(
        &self,
        caller: String,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, kube::Error> {
        let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
        let body = request.into_body().collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (fate, (status, answer)) = {
            let mut hub = self.hub.lock();
            let fate = hub.fate.filter(|(number, _)| *number == hub.asked.len());
            let fate = fate.map(|(_, fate)| fate);
            hub.asked
                .push((self.clock.now(), caller.clone(), format!("{method} {path}")));
            let answer = match fate {
                Some(Fate::Lost) => (200, Value::Null),
                _ => hub.answer(self.clock.now(), &caller, (&method, &path), body),
            };
            (fate, answer)
        };
        if fate.is_some() {
            return std::future::pending().await;
        }
        let body = Body::from(serde_json::to_vec(&answer).unwrap());
        Ok(http::Response::builder().status(status).body(body).unwrap())
    }
}

/// Who asks, by their credential.
fn caller(kubeconfig: &Kubeconfig) -> String {
    let user: Value = serde_json::to_value(&kubeconfig.auth_infos[0].auth_info).unwrap();
    let text = |key: &str| user[key].as_str().map(str::to_owned);
    text("token").unwrap_or_else(|| format!("certificate {}", text("client-certificate-data").unwrap().len()))
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let details = json!({"kind": "certificatesigningrequests", "name": "roundhouse-agent-c1"});
    (
        code,
        json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": reason, "details": details}),
    )
}

impl Hub {
    fn answer(
        &mut self,
        now: Timestamp,
        caller: &str,
        (method, path): (&str, &str),
        body: Value,
    ) -> (u16, Value) {
        if self.ended.contains(caller) {
            return failure(401, "Unauthorized");
        }
        let collection = REQUEST.rsplit_once('/').unwrap().0;
        match (method, path) {
            ("GET", REQUEST) => match &self.request {
                Some(request) => (200, request.clone()),
                None => failure(404, "NotFound"),
            },
            ("POST", path) if path == collection => {
                if self.request.is_some() {
                    return failure(409, "AlreadyExists");
                }
                let request = self.put(body);
                match self.decides {
                    Some((type_, reason)) => self.decide(type_, reason),
                    None if self.signs => self.sign(now),
                    None => {}
                }
                (201, request)
            }
            ("DELETE", REQUEST) => match &self.request {
                Some(request) if request["metadata"]["uid"] != body["preconditions"]["uid"] => {
                    failure(409, "Conflict")
                }
                Some(_) => (200, self.request.take().unwrap()),
                None => failure(404, "NotFound"),
            },
            ("POST", "/api/v1/namespaces/cluster-c1/serviceaccounts/roundhouse-agent/token")
                if self.withholds_tokens =>
            {
                failure(403, "Forbidden")
            }
            ("POST", "/api/v1/namespaces/cluster-c1/serviceaccounts/roundhouse-agent/token") => {
                self.tokens += 1;
                let asked = body["spec"]["expirationSeconds"].as_i64().unwrap();
                let until = now + SignedDuration::from_secs(asked.min(self.token_seconds));
                let status = json!({"token": format!("agent-{}", self.tokens), "expirationTimestamp": until});
                (
                    201,
                    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
                    "spec": body["spec"], "status": status}),
                )
            }
            ("GET", "/version") => (
                200,
                json!({"major": "1", "minor": "36", "gitVersion": caller, "gitCommit": "",
                "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
            ),
            other => panic!("an agent asks for {other:?}"),
        }
    }

    /// Puts a request there, as anybody might.
    pub(super) fn put(&mut self, mut request: Value) -> Value {
        self.uids += 1;
        request["metadata"]["uid"] = json!(format!("uid-{}", self.uids));
        self.request = Some(request.clone());
        request
    }

    /// Decides on what is asked for, and signs nothing.
    pub(super) fn decide(&mut self, type_: &str, reason: &str) {
        let condition = json!({"type": type_, "status": "True", "reason": reason, "message": "no"});
        self.request.as_mut().unwrap()["status"] = json!({"conditions": [condition]});
    }

    /// Accepts and signs what is asked for.
    pub(super) fn sign(&mut self, now: Timestamp) {
        let request = self.request.as_mut().unwrap();
        let asked: ByteString = serde_json::from_value(request["spec"]["request"].clone()).unwrap();
        let until = now + SignedDuration::from_secs(request["spec"]["expirationSeconds"].as_i64().unwrap());
        let certificate = sign(std::str::from_utf8(&asked.0).unwrap(), now, until);
        request["status"] = json!({"certificate": ByteString(certificate.into_bytes())});
    }

    /// When and by whom it was asked for something that begins so.
    pub(super) fn asked_for(&self, what: &str) -> Vec<(Timestamp, String)> {
        let asked = self.asked.iter().filter(|(_, _, asked)| asked.starts_with(what));
        asked.map(|(at, caller, _)| (*at, caller.clone())).collect()
    }
}
