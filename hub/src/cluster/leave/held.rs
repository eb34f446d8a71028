//! An agent that holds what it may write keeps nobody from forgetting its cluster.

use crate::{
    application::Making,
    cluster::{ClusterOptions, run, tests::until},
    leader::Leading,
    metrics::Metrics,
    simulate::TokioClock,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace},
        rbac::v1::ClusterRole,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, Error,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{
    clock::SharedClock,
    cluster::{Cluster, ClusterReport, ClusterSpec, LEAVING, Leave},
    condition,
    names::{AGENT_LEASE, AGENTS},
};
use roundhouse_apiserver::{Identity, Server};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};

const HELD: &str = "example.com/held";
const NAMESPACE: &str = "cluster-c1";

struct Hub {
    server: Server,
    client: Client,
    _stop: DropGuard,
}

impl Hub {
    async fn start() -> Hub {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock: SharedClock = Arc::new(TokioClock::starting_at(start));
        let now = clock.clone();
        let server = Server::builder()
            .seed(1)
            .rbac()
            .strict()
            .clock(Arc::new(move || now.now()))
            .build();
        let client = Client::new(server.service_as(Some(Identity::admin())), "default");
        crate::run::install(&client, &crate::run::HubOptions::default())
            .await
            .unwrap();
        let stop = CancellationToken::new();
        let options = ClusterOptions::default();
        tokio::spawn(run(
            client.clone(),
            options,
            Metrics::default(),
            Making::default(),
            Leading::always(1),
            clock.clone(),
            stop.clone(),
        ));
        let hub = Hub {
            server,
            client,
            _stop: stop.drop_guard(),
        };
        let spec = ClusterSpec {
            accepted: true,
            auto_accept: true,
            serial: 1,
            join_until: Some(Time(clock.now() + SignedDuration::from_hours(1))),
            ..ClusterSpec::default()
        };
        let made = Cluster::new("c1", spec);
        hub.clusters()
            .create(&PostParams::default(), &made)
            .await
            .unwrap();
        until("the Lease", async || {
            hub.hold::<Lease>(&hub.client, AGENT_LEASE).await
        })
        .await;
        hub
    }

    fn clusters(&self) -> Api<Cluster> {
        Api::all(self.client.clone())
    }

    /// Who the agent of the cluster is.
    fn agent(&self) -> Client {
        let identity = Identity::new("roundhouse:agent:c1:1", [AGENTS]);
        Client::new(self.server.service_as(Some(identity)), "default")
    }

    /// Puts a finalizer on an object of the agent; `None` if that is refused, or there is none.
    async fn hold<K>(&self, who: &Client, name: &str) -> Option<()>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(who.clone(), NAMESPACE);
        let patch: Patch<Value> = Patch::Merge(json!({"metadata": {"finalizers": [HELD]}}));
        match api.patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => Some(()),
            Err(Error::Api(status)) if matches!(status.code, 403 | 404 | 422) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// What is waited for.
    async fn leaving(&self) -> Option<String> {
        let conditions = self.clusters().get("c1").await.unwrap().status?.conditions;
        condition::get(&conditions, LEAVING).map(|leaving| leaving.message.clone())
    }

    async fn until_left(&self) {
        until("the cluster to be gone", async || {
            let found = self.clusters().get_opt("c1").await.unwrap();
            found.is_none().then_some(())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_holds_its_lease_and_report_keeps_its_cluster_from_leaving_and_not_from_being_forgotten()
 {
    let hub = Hub::start().await;
    let agent = hub.agent();
    let report = json!({"metadata": {"name": "c1", "finalizers": [HELD]}, "spec": {"agentVersion": "0.1.0"}});
    let reports: Api<ClusterReport> = Api::namespaced(agent.clone(), NAMESPACE);
    let report = serde_json::from_value(report).unwrap();
    until("the report", async || {
        match reports.create(&PostParams::default(), &report).await {
            Ok(_) => Some(()),
            // The hub gives it its rights in its own time.
            Err(Error::Api(status)) if status.code == 403 => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    hub.hold::<Lease>(&agent, AGENT_LEASE).await.unwrap();

    // Leaving waits for what is held, and says what that is.
    hub.clusters()
        .delete("c1", &DeleteParams::default())
        .await
        .unwrap();
    let said = until("what is left", async || {
        hub.leaving().await.filter(|said| said.contains("what is left"))
    })
    .await;
    assert_eq!(
        said,
        "its namespace cluster-c1 is being removed; what is left in it: lease agent, clusterreport c1; roundhouse leave c1 --force removes what its agent holds"
    );
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(hub.clusters().get_opt("c1").await.unwrap().is_some());

    let forget = Patch::Merge(json!({"spec": {"leave": Leave::Forget}}));
    hub.clusters()
        .patch("c1", &PatchParams::default(), &forget)
        .await
        .unwrap();
    hub.until_left().await;
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    assert!(namespaces.get_opt(NAMESPACE).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_agent_of_a_cluster_that_is_forgotten_has_no_right_left_before_its_namespace_goes() {
    let hub = Hub::start().await;
    let agent = hub.agent();
    until("its rights", async || {
        hub.hold::<Lease>(&agent, AGENT_LEASE).await
    })
    .await;
    // Somebody else's object, which the hub does not let go.
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), NAMESPACE);
    let held = json!({"metadata": {"name": "theirs", "finalizers": [HELD]}});
    let held = serde_json::from_value(held).unwrap();
    maps.create(&PostParams::default(), &held).await.unwrap();
    let forget = Patch::Merge(json!({"spec": {"leave": Leave::Forget}}));
    hub.clusters()
        .patch("c1", &PatchParams::default(), &forget)
        .await
        .unwrap();
    hub.clusters()
        .delete("c1", &DeleteParams::default())
        .await
        .unwrap();
    let roles: Api<ClusterRole> = Api::all(hub.client.clone());
    until("the end of its identity", async || {
        let role = roles.get_opt("roundhouse-agent-c1").await.unwrap();
        role.is_none().then_some(())
    })
    .await;
    assert!(maps.get_opt("theirs").await.unwrap().is_some());
    assert!(hub.hold::<Lease>(&agent, AGENT_LEASE).await.is_none());
    // Then somebody lets go of it.
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("theirs", &PatchParams::default(), &free)
        .await
        .unwrap();
    hub.until_left().await;
}
