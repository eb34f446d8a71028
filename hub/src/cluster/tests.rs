//! The controller against an embedded API server, on paused time.

use super::*;
use crate::{
    application::{Making, testing::refusal},
    leader::Leading,
    metrics::Metrics,
    simulate::TokioClock,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{
    clock::SharedClock,
    cluster::{AVAILABLE, Cluster, ClusterReport, ClusterReportSpec, ClusterSpec, JOINED},
    condition,
    names::{AGENT_LEASE, annotation, label},
};
use roundhouse_apiserver::Server;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Waits, for at most two minutes of virtual time, until `look` finds something.
pub(super) async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..2_400 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited two minutes for {what}");
}

struct Hub {
    server: Server,
    client: Client,
    clock: SharedClock,
    _stop: DropGuard,
}

impl Hub {
    async fn start() -> Hub {
        let clock: SharedClock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let now = clock.clone();
        let server = Server::builder()
            .seed(1)
            .clock(Arc::new(move || now.now()))
            .count_per_object(true)
            .strict()
            .build();
        let client = Client::new(server.service(), "default");
        crate::run::install(&client, &crate::run::HubOptions::default())
            .await
            .unwrap();
        Hub {
            _stop: controller(&client, &clock),
            server,
            client,
            clock,
        }
    }

    /// Stops the controller and starts another one that remembers nothing.
    fn restart(&mut self) {
        self._stop = controller(&self.client, &self.clock);
    }

    async fn create(&self, name: &str, accepted: bool) {
        let spec = ClusterSpec {
            accepted,
            taints: Vec::new(),
            ..ClusterSpec::default()
        };
        let api: Api<Cluster> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &Cluster::new(name, spec))
            .await
            .unwrap();
    }

    async fn cluster(&self, name: &str) -> Cluster {
        Api::all(self.client.clone()).get(name).await.unwrap()
    }

    /// Waits, for at most a minute of virtual time, until a condition of the cluster is `status/reason`.
    async fn until(&self, name: &str, type_: &str, expected: &str) -> Cluster {
        let mut last = String::new();
        for _ in 0..1200 {
            let cluster = self.cluster(name).await;
            let conditions = cluster.status.as_ref().map(|s| s.conditions.as_slice());
            if let Some(found) = condition::get(conditions.unwrap_or_default(), type_) {
                last = format!("{}/{}", found.status, found.reason);
                if last == expected {
                    return cluster;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{type_} of {name} is {last:?} and does not become {expected:?}");
    }

    fn leases(&self, cluster: &str) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"))
    }

    /// What an agent does every ten seconds. Its clock is its own affair.
    async fn renew(&self, cluster: &str, agent_time: &str) {
        let renewed = MicroTime(agent_time.parse::<Timestamp>().unwrap());
        let patch = json!({"spec": {"holderIdentity": "agent", "renewTime": renewed}});
        let params = PatchParams::default();
        self.leases(cluster)
            .patch(AGENT_LEASE, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }
}

/// Starts the cluster controller; it ends with what is returned.
pub(super) fn controller(client: &Client, clock: &SharedClock) -> DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn(run(
        client.clone(),
        ClusterOptions::default(),
        Metrics::default(),
        Making::default(),
        Leading::always(1),
        clock.clone(),
        stop.clone(),
    ));
    stop.drop_guard()
}

#[tokio::test(start_paused = true)]
async fn an_accepted_cluster_gets_a_home_and_joins() {
    let hub = Hub::start().await;
    hub.create("c1", true).await;
    let cluster = hub.until("c1", JOINED, "False/WaitingForAgent").await;
    assert_eq!(
        cluster.status.unwrap().taints[0].key,
        "roundhouse.dev/unavailable"
    );
    let namespace: Namespace = Api::all(hub.client.clone()).get("cluster-c1").await.unwrap();
    assert_eq!(namespace.labels()[label::CLUSTER], "c1");
    let lease = hub.leases("c1").get(AGENT_LEASE).await.unwrap();
    let system: Namespace = Api::all(hub.client.clone()).get("kube-system").await.unwrap();
    let hub_id = roundhouse_api::names::hub_id(&system.uid().unwrap());
    assert_eq!(lease.annotations()[annotation::HUB_ID], hub_id);

    hub.renew("c1", "2031-05-05T00:00:00Z").await;
    let status = hub
        .until("c1", AVAILABLE, "True/LeaseRenewed")
        .await
        .status
        .unwrap();
    assert!(status.taints.is_empty());
    let seen = status.last_seen.unwrap().0;
    assert!(
        seen.duration_since(hub.clock.now()).abs().as_secs() < 60,
        "by the hub's clock, not the agent's"
    );

    let report = ClusterReport::new(
        "c1",
        ClusterReportSpec {
            kubernetes_version: Some("v1.36.0".into()),
            agent_version: "0.1.0".into(),
            ..Default::default()
        },
    );
    let reports: Api<ClusterReport> = Api::namespaced(hub.client.clone(), "cluster-c1");
    reports.create(&PostParams::default(), &report).await.unwrap();
    let copied = async {
        while hub
            .cluster("c1")
            .await
            .status
            .unwrap()
            .kubernetes_version
            .is_none()
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), copied)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn heartbeats_write_nothing_and_silence_is_noticed() {
    let mut hub = Hub::start().await;
    hub.create("c1", true).await;
    hub.until("c1", JOINED, "False/WaitingForAgent").await;
    hub.renew("c1", "2026-01-01T00:00:01Z").await;
    hub.until("c1", AVAILABLE, "True/LeaseRenewed").await;
    let writes = || {
        hub.server
            .counter()
            .stored_of("clusters.roundhouse.dev", "", "c1")
    };
    let before = writes();
    let all = hub.server.counter().total_stored();
    for beat in 0..30 {
        hub.renew("c1", &format!("2026-01-01T00:05:{beat:02}Z")).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(writes(), before);
    assert_eq!(
        hub.server.counter().total_stored() - all,
        30,
        "the Lease and nothing else"
    );

    let silent_since = hub.clock.now();
    let status = hub
        .until("c1", AVAILABLE, "Unknown/LeaseNotRenewed")
        .await
        .status
        .unwrap();
    assert_eq!(status.taints[0].key, "roundhouse.dev/unreachable");
    let waited = hub.clock.now().duration_since(silent_since).as_secs();
    assert!((25..=35).contains(&waited), "{waited} s after 10 s of silence");

    // Another hub does not take the old Lease for a sign of life, and one renewal heals.
    hub.restart();
    tokio::time::sleep(Duration::from_secs(20)).await;
    hub.until("c1", AVAILABLE, "Unknown/LeaseNotRenewed").await;
    hub.renew("c1", "2026-01-01T00:00:00Z").await;
    hub.until("c1", AVAILABLE, "True/LeaseRenewed").await;

    // Restarted while all is well, it writes nothing.
    let all = hub.server.counter().total_stored();
    hub.restart();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(hub.server.counter().total_stored(), all);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_namespace_is_refused_and_left_alone() {
    let hub = Hub::start().await;
    let mut foreign = Namespace::default();
    foreign.metadata.name = Some("cluster-c1".into());
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    namespaces.create(&PostParams::default(), &foreign).await.unwrap();
    hub.create("c1", true).await;
    hub.create("c2", false).await;
    hub.until("c1", JOINED, "False/NamespaceConflict").await;
    hub.until("c2", JOINED, "False/NotAccepted").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(
        hub.leases("c1")
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert_eq!(hub.server.counter().stored_of("namespaces", "", "cluster-c1"), 1);
    assert!(namespaces.get_opt("cluster-c2").await.unwrap().is_none());

    // Once it is gone, the cluster gets its own.
    namespaces
        .delete("cluster-c1", &DeleteParams::default())
        .await
        .unwrap();
    hub.until("c1", JOINED, "False/WaitingForAgent").await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_namespace_is_made_again() {
    let hub = Hub::start().await;
    hub.create("c1", true).await;
    hub.until("c1", JOINED, "False/WaitingForAgent").await;
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    let first = namespaces.get("cluster-c1").await.unwrap().uid();
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "cluster-c1");
    maps.create(
        &PostParams::default(),
        &serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap(),
    )
    .await
    .unwrap();
    namespaces
        .delete("cluster-c1", &DeleteParams::default())
        .await
        .unwrap();
    let made_again = async {
        loop {
            let namespace = namespaces.get_opt("cluster-c1").await.unwrap();
            let lease = hub.leases("c1").get_opt(AGENT_LEASE).await.unwrap();
            if namespace.is_some_and(|n| n.uid() != first) && lease.is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), made_again)
        .await
        .unwrap();
}

/// Something in between answers the first write of each path with a conflict that is none: no event follows, and the cluster
/// joins all the same.
#[tokio::test(start_paused = true)]
async fn a_conflict_after_which_nothing_happens_is_tried_again() {
    let mut hub = Hub::start().await;
    let refused = Arc::new(parking_lot::Mutex::new(std::collections::BTreeSet::new()));
    let (inner, seen) = (hub.client.clone(), refused.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (inner, path) = (inner.clone(), request.uri().path().to_owned());
        let is_first = request.method() == http::Method::PATCH
            && path.contains("/clusters/")
            && seen.lock().insert(path);
        async move {
            if !is_first {
                return inner.send(request).await;
            }
            Ok(refusal(409, "said by a proxy"))
        }
    });
    let client = Client::new(service, "default");
    hub._stop = controller(&client, &hub.clock);
    hub.create("c1", true).await;
    until("its Lease", async || {
        hub.leases("c1").get_opt(AGENT_LEASE).await.unwrap()
    })
    .await;
    hub.renew("c1", "2026-01-01T00:00:00Z").await;
    hub.until("c1", AVAILABLE, "True/LeaseRenewed").await;
    let refused: Vec<String> = refused.lock().iter().cloned().collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
}

/// Where the namespace of a cluster cannot be made, the cluster is judged all the same: one that is new says why, and one that had
/// joined is not heard of any more.
#[tokio::test(start_paused = true)]
async fn a_cluster_whose_namespace_is_refused_is_judged_all_the_same() {
    let mut hub = Hub::start().await;
    hub.create("old", true).await;
    until("its Lease", async || {
        hub.leases("old").get_opt(AGENT_LEASE).await.unwrap()
    })
    .await;
    hub.renew("old", "2026-01-01T00:00:00Z").await;
    hub.until("old", AVAILABLE, "True/LeaseRenewed").await;
    let inner = hub.client.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        let creates = request.method() == http::Method::POST && request.uri().path() == "/api/v1/namespaces";
        async move {
            if !creates {
                return inner.send(request).await;
            }
            Ok(refusal(403, "denied the request: no more namespaces"))
        }
    });
    hub._stop = controller(&Client::new(service, "default"), &hub.clock);
    hub.create("new", true).await;
    let new = hub.until("new", "Joined", "False/NotProvisioned").await;
    let conditions = new.status.unwrap().conditions;
    let joined = condition::get(&conditions, "Joined").unwrap();
    assert!(
        joined.message.contains("no more namespaces"),
        "{}",
        joined.message
    );

    hub.renew("old", "2026-01-01T00:00:10Z").await;
    hub.until("old", AVAILABLE, "True/LeaseRenewed").await;
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    let params = DeleteParams::default();
    namespaces.delete("cluster-old", &params).await.unwrap();
    hub.until("old", AVAILABLE, "Unknown/LeaseNotRenewed").await;
}
