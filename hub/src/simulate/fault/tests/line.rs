//! One line between an agent and the API server of the hub.

use crate::simulate::{
    Answer, AnswerBody, Ends, HUB, Wire,
    fault::{Dice, Effect, Kind, Network, On, Parties, Rule, Seen},
};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use roundhouse_apiserver::Server;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// Who asks.
pub(super) const WHO: &str = "c1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

pub(super) struct Line {
    pub(super) network: Network,
    pub(super) deaths: UnboundedReceiver<String>,
    pub(super) seen: Seen,
    /// With the faults.
    pub(super) wire: Wire,
    /// Without.
    pub(super) direct: Wire,
    pub(super) server: Server,
}

/// Everything that the agent asks.
pub(super) fn all() -> On {
    On::all_of(Parties::these([WHO]))
}

impl Line {
    pub(super) fn new() -> Line {
        let server = Server::builder().build();
        let seen = Seen::default();
        let (network, deaths) = Network::new(7, seen.clone());
        let direct = Wire::of(Client::new(server.service(), "default"));
        let wire = network.wires().0(&Ends::new(WHO, HUB), direct.clone());
        Line {
            network,
            deaths,
            seen,
            wire,
            direct,
            server,
        }
    }

    /// A line on which this happens to every request, and one on which nothing does.
    pub(super) fn with_and_without(effect: Effect) -> (Line, Line) {
        let line = Line::new();
        line.network.add(Rule::always(all(), effect));
        (line, Line::new())
    }

    /// Creates a ConfigMap of this name over a wire; how long that took.
    pub(super) async fn create(&self, name: &str) -> (Result<u16, String>, Duration) {
        let body = json!({"metadata": {"name": name}});
        let began = Instant::now();
        let answer = send(&self.wire, Method::POST, MAPS, &body).await;
        (code(answer), began.elapsed())
    }

    /// Sets a field of a ConfigMap.
    pub(super) async fn set(&self, name: &str, value: &str) -> Result<u16, String> {
        let path = format!("{MAPS}/{name}");
        let body = json!({"data": {"value": value}});
        code(send(&self.wire, Method::PATCH, &path, &body).await)
    }

    /// What the ConfigMaps of the server have there, by name; nobody's line is used.
    pub(super) async fn stored(&self) -> BTreeMap<String, String> {
        let answer = send(&self.direct, Method::GET, MAPS, &Value::Null).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&bytes).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().unwrap().iter();
        let all = items.map(|map| (text(&map["metadata"]["name"]), text(&map["data"]["value"])));
        all.filter(|(name, _)| name != "kube-root-ca.crt").collect()
    }

    pub(super) async fn has(&self, name: &str) -> bool {
        self.stored().await.contains_key(name)
    }

    /// A watch of all ConfigMaps from now on.
    pub(super) async fn watch(&self) -> AnswerBody {
        let path = format!("{MAPS}?watch=true&resourceVersion={}", self.server.revision());
        let answer = send(&self.wire, Method::GET, &path, &Value::Null).await;
        answer.unwrap().into_body()
    }

    pub(super) fn count(&self, kind: Kind) -> u64 {
        self.seen.counts().get(&kind).copied().unwrap_or(0)
    }

    /// Nothing has happened to anybody.
    #[track_caller]
    pub(super) fn is_sound(&self) {
        assert_eq!(self.seen.counts(), BTreeMap::new());
    }
}

pub(super) async fn send(wire: &Wire, method: Method, path: &str, body: &Value) -> Answer {
    let media = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    wire.send(request.body(body).unwrap()).await
}

fn code(answer: Answer) -> Result<u16, String> {
    match answer {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(error) => Err(error.to_string()),
    }
}

/// Seeds that find different things.
pub(super) fn seeds() -> impl Iterator<Item = u64> {
    let mut dice = Dice::new(1, "seeds");
    std::iter::repeat_with(move || dice.draw()).take(20)
}
