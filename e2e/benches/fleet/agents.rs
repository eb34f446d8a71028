//! Agents as they are, with simulated members, in a process of their own: each reaches the hub over TLS with a certificate of
//! its own, and what the hub sends it of Bundles is counted.

use crate::{
    child::{Process, Role},
    content::has,
};
use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use roundhouse_api::{
    clock::{Clock, SharedClock, SystemClock},
    names::ClusterName,
};
use roundhouse_apiserver::{Authority, Identity, Kubeconfig, Server, StoreLimits};
use roundhouse_hub::{
    endpoint::authority_in,
    simulate::workloads::{self, Model},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// How long the certificates are good for.
const LIFETIME: Duration = Duration::from_secs(86_400);
/// Changes that a member keeps for its watches: members are not what is measured.
const HISTORY: usize = 200;

/// Which agents a process has.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    /// The hub's data directory: whoever has its authority makes certificates.
    data: PathBuf,
    url: String,
    clusters: Vec<String>,
}

/// What the hub has sent to the agents of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Bytes of answers that have the manifests of Bundles in them.
    pub(crate) bundles: u64,
    /// Bytes of all other answers about Bundles: bookmarks, errors, and what is said of them without their manifests.
    pub(crate) others: u64,
    /// Errors among these answers, such as 410 where a watch cannot go on.
    pub(crate) errors: u64,
    /// Lists and watches of Bundles that were begun.
    pub(crate) begun: u64,
    /// Watches of Bundles that were answered, by cluster.
    pub(crate) watches: BTreeMap<String, u64>,
}

impl Sent {
    /// Whether a cluster's agent has another watch of its Bundles than it had then.
    pub(crate) fn watches_anew(&self, cluster: &str, then: &Sent) -> bool {
        self.watches.get(cluster) > then.watches.get(cluster)
    }
}

/// A process with agents.
pub(crate) struct Agents(Process);

impl Agents {
    pub(crate) async fn start(data: &Path, url: &str, clusters: Vec<String>) -> Result<Agents> {
        let order = Order {
            data: data.to_owned(),
            url: url.to_owned(),
            clusters,
        };
        let mut process = Process::start(Role::Agents, &[serde_json::to_string(&order)?])?;
        process.line().await?;
        Ok(Agents(process))
    }

    pub(crate) fn id(&self) -> Result<u32> {
        self.0.id()
    }

    pub(crate) async fn sent(&mut self) -> Result<Sent> {
        Ok(serde_json::from_str(&self.0.ask("sent").await?)?)
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.0.kill().await
    }
}

/// What such a process does.
pub(crate) fn main() -> Result<()> {
    let order = std::env::args().nth(1).context("no order")?;
    let order: Order = serde_json::from_str(&order)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(serve(order))
}

#[derive(Default)]
struct Counted {
    bundles: AtomicU64,
    others: AtomicU64,
    errors: AtomicU64,
    begun: AtomicU64,
    watches: Mutex<BTreeMap<String, u64>>,
}

async fn serve(order: Order) -> Result<()> {
    let clock: SharedClock = Arc::new(SystemClock);
    let authority = authority_in(&order.data, &clock)?;
    let counted = Arc::new(Counted::default());
    for cluster in &order.clusters {
        let hub = client(&authority, &order.url, cluster, counted.clone()).await?;
        start(ClusterName::new(cluster)?, hub, &clock);
    }
    println!("started");
    // Until whoever measures closes it.
    let answering = tokio::task::spawn_blocking(move || answer(&counted));
    answering.await?
}

/// Answers every line on stdin with what was sent so far.
fn answer(counted: &Counted) -> Result<()> {
    for question in std::io::stdin().lines() {
        question?;
        let sent = Sent {
            bundles: counted.bundles.load(Ordering::Relaxed),
            others: counted.others.load(Ordering::Relaxed),
            errors: counted.errors.load(Ordering::Relaxed),
            begun: counted.begun.load(Ordering::Relaxed),
            watches: counted.watches.lock().clone(),
        };
        println!("{}", serde_json::to_string(&sent)?);
    }
    Ok(())
}

/// A member, its workloads, which are ready at once, and its agent: they end with the process.
fn start(name: ClusterName, hub: Client, clock: &SharedClock) {
    let server = Server::builder().limits(StoreLimits {
        history_events: HISTORY,
        ..StoreLimits::default()
    });
    let member = Client::new(server.build().service(), "default");
    let model = Model {
        delay: Duration::ZERO..=Duration::ZERO,
        ..Model::default()
    };
    let never = CancellationToken::new();
    tokio::spawn(workloads::run(
        member.clone(),
        model,
        clock.clone(),
        never.clone(),
    ));
    let clock = clock.clone();
    tokio::spawn(async move {
        let config = roundhouse_agent::Config::new(name.clone());
        if let Err(error) = Box::pin(roundhouse_agent::run(config, hub, member, clock, never)).await {
            eprintln!("the agent of {name} ended: {error}");
        }
    });
}

/// The way of an agent to its hub.
async fn client(authority: &Authority, url: &str, cluster: &str, counted: Arc<Counted>) -> Result<Client> {
    let certificate = authority.issue(&Identity::agent(cluster), LIFETIME, SystemClock.now())?;
    let kubeconfig = Kubeconfig::new("hub", url, authority, certificate).to_string();
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig)?;
    let client = roundhouse_agent::identity::dial()(kubeconfig).await?;
    let cluster = cluster.to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, counted, cluster) = (client.clone(), counted.clone(), cluster.clone());
        async move {
            let reads = request.method() == http::Method::GET && request.uri().path().contains("/bundles");
            let watches = reads
                && request
                    .uri()
                    .query()
                    .is_some_and(|query| query.contains("watch="));
            let answer: Response<Body> = client.send(request).await?;
            if reads {
                counted.begun.fetch_add(1, Ordering::Relaxed);
            }
            let watches = watches && answer.status().is_success();
            if watches {
                *counted.watches.lock().entry(cluster.clone()).or_default() += 1;
            }
            Ok::<_, kube::Error>(answer.map(|body| {
                body.map_frame(move |frame| {
                    if let Some(bytes) = frame.data_ref().filter(|_| reads) {
                        counted.take(bytes);
                        // It was answered, with the word that it cannot go on.
                        if watches && has(bytes, b"\"code\":410") {
                            *counted.watches.lock().entry(cluster.clone()).or_default() -= 1;
                        }
                    }
                    frame
                })
                .boxed_unsync()
            }))
        }
    });
    Ok(Client::new(service, "default"))
}

impl Counted {
    /// A part of an answer about Bundles. What continues a Bundle counts as one, but where a bookmark or an error comes in the same
    /// part: its beginning, the part with the manifests, never counts as anything else.
    fn take(&self, bytes: &Bytes) {
        let has = |word: &[u8]| has(bytes, word);
        let has_manifests = has(b"\"manifests\"");
        let is_error = !has_manifests && has(b"\"kind\":\"Status\"");
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        let is_other = is_error
            || !has_manifests && (has(b"BOOKMARK") || has(b"PartialObjectMetadata") || has(b"\"items\":[]"));
        let counter = if is_other { &self.others } else { &self.bundles };
        counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    }
}
