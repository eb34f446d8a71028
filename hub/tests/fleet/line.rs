//! The lines between hubs and their API server: held, and with a record of what went over them.

use http::{Method, Request};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use roundhouse_hub::simulate::Through;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::watch;
use tower::service_fn;

/// A request that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) who: String,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    /// What the body says of the epoch.
    pub(crate) epoch: Option<i64>,
    pub(crate) code: u16,
    /// Whether it was held on its way.
    pub(crate) held: bool,
}

impl Sent {
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET
    }

    pub(crate) fn is_lease(&self) -> bool {
        self.path.contains("/leases/") || self.path.ends_with("/leases")
    }

    /// A list, or the beginning of a watch.
    pub(crate) fn lists(&self) -> bool {
        self.method == Method::GET && (self.query.contains("limit=") || self.query.contains("watch="))
    }
}

#[derive(Default)]
struct State {
    held: BTreeSet<String>,
    /// Held from their next write to a path with this word on.
    traps: BTreeMap<String, &'static str>,
    sent: Vec<Sent>,
}

/// All lines.
#[derive(Clone, Default)]
pub(crate) struct Lines {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

impl Lines {
    /// What the clients of a fleet go through.
    pub(crate) fn through(&self) -> Through {
        let lines = self.clone();
        Through(Arc::new(move |who, client| lines.client(who.to_owned(), client)))
    }

    /// Holds whatever somebody sends and is sent, from their next write to a path with this word on.
    pub(crate) fn trap(&self, who: &str, word: &'static str) {
        self.state.lock().traps.insert(who.to_owned(), word);
    }

    /// Holds whatever somebody sends and is sent, from now on.
    pub(crate) fn hold(&self, who: &str) {
        self.state.lock().held.insert(who.to_owned());
    }

    /// Whether somebody's line is held.
    pub(crate) fn is_held(&self, who: &str) -> bool {
        self.state.lock().held.contains(who)
    }

    /// Lets go whatever is held.
    pub(crate) fn let_go(&self, who: &str) {
        self.state.lock().held.remove(who);
        self.changed.send_replace(());
    }

    /// What was answered, in that order.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.state.lock().sent.clone()
    }

    pub(crate) fn forget(&self) {
        self.state.lock().sent.clear();
    }

    /// Waits while a line is held; true if it was.
    async fn pass(&self, who: &str) -> bool {
        let mut changed = self.changed.subscribe();
        let mut held = false;
        while self.is_held(who) {
            held = true;
            changed.changed().await.unwrap();
        }
        held
    }

    fn client(&self, who: String, client: Client) -> Client {
        let lines = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (client, lines, who) = (client.clone(), lines.clone(), who.clone());
            async move {
                let (head, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let parsed: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let epoch = ["/spec/epoch", "/status/workflow/epoch"]
                    .iter()
                    .find_map(|pointer| parsed.pointer(pointer)?.as_i64());
                let (method, uri) = (head.method.clone(), head.uri.clone());
                {
                    let mut state = lines.state.lock();
                    let trap = state.traps.get(&who).copied();
                    if method != Method::GET && trap.is_some_and(|word| uri.path().contains(word)) {
                        state.traps.remove(&who);
                        state.held.insert(who.clone());
                    }
                }
                let held = lines.pass(&who).await;
                let answer = client
                    .send(Request::from_parts(head, Body::from(bytes.to_vec())))
                    .await?;
                lines.state.lock().sent.push(Sent {
                    who: who.clone(),
                    method,
                    path: uri.path().to_owned(),
                    query: uri.query().unwrap_or_default().to_owned(),
                    epoch,
                    code: answer.status().as_u16(),
                    held,
                });
                lines.pass(&who).await;
                Ok::<_, kube::Error>(answer)
            }
        });
        Client::new(service, namespace)
    }
}
