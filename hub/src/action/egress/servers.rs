//! The API servers behind the address that the hub asks: a cluster lists them in EndpointSlices of Service
//! `default/kubernetes`, and each of them answers under its own address as well.

use super::{Connection, Network};
use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client, api::ListParams};
use std::{
    collections::BTreeSet,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// How long an answer counts, and how long a failure does.
const FRESH: Duration = Duration::from_secs(60);
const FAILED: Duration = Duration::from_secs(5);
/// How long it is waited for.
const TIMEOUT: Duration = Duration::from_secs(10);

type Answer = Result<BTreeSet<IpAddr>, String>;
type Known = Arc<Mutex<Option<(Instant, Answer)>>>;

/// A network, and which addresses in it the hub's API servers have.
pub(in crate::action) struct WithServers {
    network: Arc<dyn Network>,
    client: Client,
    known: Known,
}

impl WithServers {
    pub(in crate::action) fn new(network: Arc<dyn Network>, client: Client) -> WithServers {
        WithServers {
            network,
            client,
            known: Known::default(),
        }
    }
}

impl Network for WithServers {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.network.resolve(name)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.network.is_own(address)
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Connection>> {
        self.network.connect(address)
    }

    fn servers(&self) -> BoxFuture<'static, io::Result<BTreeSet<IpAddr>>> {
        let (client, known) = (self.client.clone(), self.known.clone());
        async move {
            // Who comes while it is asked waits for the same answer.
            let mut known = known.lock().await;
            let counts = |(asked, answer): &&(Instant, Answer)| {
                asked.elapsed() < if answer.is_ok() { FRESH } else { FAILED }
            };
            let answer = match known.as_ref().filter(counts) {
                Some((_, answer)) => answer.clone(),
                None => {
                    let listed = timeout(TIMEOUT, list(client)).await;
                    let answer = listed.unwrap_or_else(|_| Err("no answer within 10 s".to_owned()));
                    *known = Some((Instant::now(), answer.clone()));
                    answer
                }
            };
            answer.map_err(io::Error::other)
        }
        .boxed()
    }
}

async fn list(client: Client) -> Answer {
    let slices: Api<EndpointSlice> = Api::namespaced(client, "default");
    let of_service = ListParams::default().labels("kubernetes.io/service-name=kubernetes");
    match slices.list(&of_service).await {
        Ok(slices) => {
            let endpoints = slices
                .items
                .into_iter()
                .flat_map(|slice| slice.endpoints.unwrap_or_default());
            let addresses = endpoints.flat_map(|endpoint| endpoint.addresses);
            Ok(addresses.filter_map(|address| address.parse().ok()).collect())
        }
        // A server without the kind keeps no such list.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(BTreeSet::new()),
        Err(error) => Err(error.to_string()),
    }
}
