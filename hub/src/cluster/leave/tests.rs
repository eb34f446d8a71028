use super::*;
use crate::{
    cluster::tests::{controller, until},
    simulate::TokioClock,
};
use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::Time};
use kube::api::DeleteParams;
use kube::api::PatchParams;
use kube::api::PostParams;
use kube::{api::DynamicObject, core::ApiResource};
use roundhouse_api::condition;
use roundhouse_api::{
    application::Application,
    bundle::{BundleStatus, DeleteOption},
    clock::SharedClock,
    cluster::{ClusterReport, ClusterSpec},
    names::{AGENT_LEASE, CLUSTER_FINALIZER},
};
use roundhouse_apiserver::Server;
use std::sync::Arc;
use tokio_util::sync::DropGuard;

fn told(by: &str, policy: Option<PropagationPolicy>) -> Bundle {
    let mut bundle = Bundle::default();
    bundle.metadata.generation = Some(2);
    bundle.metadata.finalizers = Some(vec![BUNDLE_FINALIZER.to_owned()]);
    bundle.spec.deletion = Some(Deletion {
        revision: "web-v1".to_owned(),
        confirmed_by: by.to_owned(),
    });
    bundle.spec.delete_option = policy.map(|policy| DeleteOption {
        propagation_policy: Some(policy),
        ..DeleteOption::default()
    });
    bundle
}

fn word(bundle: &Bundle, how: Leave) -> &'static str {
    match due(bundle, how) {
        Due::Tell(_) => "tell",
        Due::Delete => "delete",
        Due::Release => "release",
        Due::Await => "await",
    }
}

#[test]
fn a_bundle_goes_when_its_agent_has_said_so() {
    let mut fresh = told("", None);
    fresh.spec.deletion = None;
    let (left, orphan) = (Deletion::CLUSTER_LEFT, Some(PropagationPolicy::Orphan));
    let going = |mut bundle: Bundle, cleaned: Option<i64>| {
        bundle.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        bundle.status = cleaned.map(|generation| BundleStatus {
            phase: Some(BundlePhase::Cleaned),
            observed_generation: Some(generation),
            ..BundleStatus::default()
        });
        bundle
    };
    let mut by_hand = told(left, None);
    by_hand.metadata.finalizers = None;
    for (why, bundle, how, expected) in [
        ("nothing told", fresh.clone(), Leave::Orphan, "tell"),
        ("nothing told", fresh.clone(), Leave::DeleteResources, "tell"),
        (
            "told to be garbage",
            told(Deletion::GARBAGE_COLLECTION, None),
            Leave::Orphan,
            "tell",
        ),
        (
            "told to delete, and now to let go",
            told(left, None),
            Leave::Orphan,
            "tell",
        ),
        ("told to let go", told(left, orphan), Leave::Orphan, "delete"),
        ("told", told(left, None), Leave::DeleteResources, "delete"),
        ("without a finalizer", by_hand, Leave::DeleteResources, "tell"),
        (
            "told and deleted",
            going(told(left, None), None),
            Leave::DeleteResources,
            "await",
        ),
        (
            "cleaned before",
            going(told(left, None), Some(1)),
            Leave::DeleteResources,
            "await",
        ),
        (
            "cleaned",
            going(told(left, None), Some(2)),
            Leave::DeleteResources,
            "release",
        ),
        (
            "let go",
            going(told(left, orphan), Some(2)),
            Leave::Orphan,
            "release",
        ),
        ("to be forgotten", fresh, Leave::Forget, "release"),
        (
            "waited for, and now to be forgotten",
            going(told(left, None), None),
            Leave::Forget,
            "release",
        ),
    ] {
        assert_eq!(word(&bundle, how), expected, "{why}, {how:?}");
    }
    let mut bare = told(left, None);
    bare.metadata.finalizers = None;
    assert_eq!(word(&bare, Leave::Forget), "delete");
}

#[test]
fn who_lets_go_says_so_and_who_deletes_keeps_the_choice_of_the_application() {
    let mut fresh = told("", Some(PropagationPolicy::Foreground));
    fresh.spec.deletion = None;
    fresh.spec.revision = Some("web-v7".to_owned());
    let Due::Tell(patch) = due(&fresh, Leave::Orphan) else {
        panic!()
    };
    assert_eq!(patch["spec"]["deleteOption"]["propagationPolicy"], "Orphan");
    assert_eq!(
        patch["spec"]["deletion"],
        json!({"revision": "web-v7", "confirmedBy": "cluster-left"})
    );
    let Due::Tell(patch) = due(&fresh, Leave::DeleteResources) else {
        panic!()
    };
    assert_eq!(patch["spec"]["deleteOption"], Value::Null);
    assert_eq!(patch["metadata"]["finalizers"], Value::Null);
}

struct Hub {
    client: Client,
    _stop: DropGuard,
}

impl Hub {
    async fn start() -> Hub {
        let clock: SharedClock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let now = clock.clone();
        let server = Server::builder()
            .seed(1)
            .strict()
            .clock(Arc::new(move || now.now()))
            .build();
        let client = Client::new(server.service(), "default");
        crate::run::install(&client, &crate::run::HubOptions::default())
            .await
            .unwrap();
        Hub {
            _stop: controller(&client, &clock),
            client,
        }
    }

    /// A cluster with two Bundles, one of them written by hand.
    async fn cluster(&self, name: &str) {
        let spec = ClusterSpec {
            accepted: true,
            serial: 1,
            ..ClusterSpec::default()
        };
        let params = PostParams::default();
        self.clusters()
            .create(&params, &Cluster::new(name, spec))
            .await
            .unwrap();
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &format!("cluster-{name}"));
        until("a Lease", async || leases.get_opt(AGENT_LEASE).await.unwrap()).await;
        for (bundle, finalizers) in [("default.web", vec![BUNDLE_FINALIZER]), ("by-hand", vec![])] {
            let body = json!({"metadata": {"name": bundle, "finalizers": finalizers},
                "spec": {"workload": {"manifests": []}, "revision": "web-v1"}});
            let body: Bundle = serde_json::from_value(body).unwrap();
            self.bundles(name).create(&params, &body).await.unwrap();
        }
    }

    fn clusters(&self) -> Api<Cluster> {
        Api::all(self.client.clone())
    }

    fn bundles(&self, name: &str) -> Api<Bundle> {
        Api::namespaced(self.client.clone(), &format!("cluster-{name}"))
    }

    async fn leave(&self, name: &str, how: Option<Leave>) {
        let patch = json!({"spec": {"leave": how}});
        self.clusters()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        self.clusters()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// What an agent does with a Bundle whose objects it is to let go, or has deleted.
    async fn clean(&self, name: &str, bundle: &str) {
        let api = self.bundles(name);
        let generation = api.get(bundle).await.unwrap().metadata.generation;
        let status = json!({"status": {"phase": "Cleaned", "observedGeneration": generation}});
        let params = PatchParams::default();
        api.patch_status(bundle, &params, &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn until_told(&self, name: &str) -> Vec<Bundle> {
        until("both to be told", async || {
            let all = self
                .bundles(name)
                .list(&ListParams::default())
                .await
                .unwrap()
                .items;
            let told = |bundle: &Bundle| {
                bundle.metadata.deletion_timestamp.is_some() && bundle.spec.deletion.is_some()
            };
            (all.len() == 2 && all.iter().all(told)).then_some(all)
        })
        .await
    }

    async fn until_left(&self, name: &str) {
        until("the cluster to be gone", async || {
            self.clusters()
                .get_opt(name)
                .await
                .unwrap()
                .is_none()
                .then_some(())
        })
        .await;
    }

    async fn until_gone(&self, name: &str) {
        self.until_left(name).await;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let left = namespaces.get_opt(&format!("cluster-{name}")).await.unwrap();
        assert!(left.is_none());
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let left = roles.get_opt(&format!("roundhouse-agent-{name}")).await.unwrap();
        assert!(left.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_leaves_when_its_agent_has_let_go_and_takes_its_namespace_along() {
    let hub = Hub::start().await;
    hub.cluster("c1").await;
    hub.leave("c1", None).await;
    for bundle in hub.until_told("c1").await {
        let option = bundle.spec.delete_option.unwrap();
        assert_eq!(option.propagation_policy, Some(PropagationPolicy::Orphan));
        assert_eq!(bundle.spec.deletion.unwrap().confirmed_by, Deletion::CLUSTER_LEFT);
    }
    // Silence is no answer.
    tokio::time::sleep(Duration::from_secs(600)).await;
    let cluster = hub.clusters().get("c1").await.unwrap();
    assert!(cluster.finalizers().iter().any(|f| f == CLUSTER_FINALIZER));
    let leaving = condition::get(&cluster.status.unwrap().conditions, LEAVING)
        .unwrap()
        .message
        .clone();
    assert_eq!(
        leaving,
        "the agent is to let go of 2 bundles, by-hand among them; it is not heard of: when it never comes back, roundhouse leave c1 --force forgets it and leaves its objects as they are"
    );
    hub.clean("c1", "by-hand").await;
    hub.clean("c1", "default.web").await;
    hub.until_gone("c1").await;
    // Of that name another one may join.
    hub.cluster("c1").await;
}

#[tokio::test(start_paused = true)]
async fn resources_are_deleted_where_that_is_said() {
    let hub = Hub::start().await;
    hub.cluster("c1").await;
    hub.leave("c1", Some(Leave::DeleteResources)).await;
    for bundle in hub.until_told("c1").await {
        assert_eq!(bundle.spec.delete_option, None, "the agent deletes");
    }
    hub.clean("c1", "by-hand").await;
    hub.clean("c1", "default.web").await;
    hub.until_gone("c1").await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_never_heard_of_again_can_be_forgotten() {
    let hub = Hub::start().await;
    hub.cluster("c1").await;
    hub.cluster("c2").await;
    hub.leave("c1", Some(Leave::DeleteResources)).await;
    hub.until_told("c1").await;
    let forget = json!({"spec": {"leave": Leave::Forget}});
    hub.clusters()
        .patch("c1", &PatchParams::default(), &Patch::Merge(forget))
        .await
        .unwrap();
    hub.until_gone("c1").await;
    let kept = hub
        .bundles("c2")
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    assert!(kept.len() == 2 && kept.iter().all(|b| b.spec.deletion.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_ours_is_not_emptied() {
    let hub = Hub::start().await;
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    let foreign: Namespace = serde_json::from_value(json!({"metadata": {"name": "cluster-c1"}})).unwrap();
    namespaces.create(&PostParams::default(), &foreign).await.unwrap();
    let body: Bundle = serde_json::from_value(
        json!({"metadata": {"name": "theirs"}, "spec": {"workload": {"manifests": []}}}),
    )
    .unwrap();
    hub.bundles("c1")
        .create(&PostParams::default(), &body)
        .await
        .unwrap();
    let spec = ClusterSpec {
        accepted: true,
        ..ClusterSpec::default()
    };
    hub.clusters()
        .create(&PostParams::default(), &Cluster::new("c1", spec))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    hub.leave("c1", Some(Leave::Forget)).await;
    hub.until_left("c1").await;
    assert!(hub.bundles("c1").get_opt("theirs").await.unwrap().is_some());
}

/// A client whose writes of Bundles of these names are refused for good.
fn refusing(inner: &Client, names: fn(&str) -> bool) -> Client {
    let inner = inner.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let inner = inner.clone();
        async move {
            let name = request
                .uri()
                .path()
                .split_once("/bundles/")
                .map(|(_, name)| name.to_owned());
            let refused = request.method() != http::Method::GET && name.is_some_and(|name| names(&name));
            match refused {
                true => {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                        "reason": "Forbidden", "message": "a policy says no"});
                    let answer = http::Response::builder().status(403);
                    Ok::<_, kube::Error>(
                        answer
                            .body(kube::client::Body::from(status.to_string().into_bytes()))
                            .unwrap(),
                    )
                }
                false => inner.send(request).await,
            }
        }
    });
    Client::new(service, "default")
}

/// Takes the leaving of a cluster one step further; what is waited for.
async fn waits(client: &Client, cluster: &Cluster) -> String {
    match step(client, cluster, true, (Some(1), None)).await.unwrap() {
        Left::Waiting { message, .. } => message,
        Left::Whole => panic!("nothing is waited for"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_bundle_that_may_not_be_written_is_named_and_holds_up_no_other() {
    let hub = Hub::start().await;
    hub.cluster("c1").await;
    let mut cluster = hub.clusters().get("c1").await.unwrap();
    cluster.spec.leave = Some(Leave::Orphan);
    let client = refusing(&hub.client, |name| name == "by-hand");
    for _ in 0..2 {
        let message = waits(&client, &cluster).await;
        assert!(message.contains("; bundle by-hand: "), "{message}");
        assert!(message.contains("a policy says no"), "{message}");
    }
    let other = hub.bundles("c1").get("default.web").await.unwrap();
    assert!(other.spec.deletion.is_some() && other.metadata.deletion_timestamp.is_some());
    assert_eq!(
        hub.bundles("c1").get("by-hand").await.unwrap().spec.deletion,
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_stays_as_long_as_a_bundle_may_yet_be_made_in_it_unless_its_agent_is_forgotten() {
    for (how, stays) in [
        (Leave::Orphan, true),
        (Leave::DeleteResources, true),
        (Leave::Forget, false),
    ] {
        let hub = Hub::start().await;
        hub.cluster("c1").await;
        let mut cluster = hub.clusters().get("c1").await.unwrap();
        cluster.spec.leave = Some(how);
        for name in ["by-hand", "default.web"] {
            let none = json!({"metadata": {"finalizers": null}});
            let (api, delete) = (hub.bundles("c1"), DeleteParams::default());
            api.patch(name, &PatchParams::default(), &Patch::Merge(none))
                .await
                .unwrap();
            api.delete(name, &delete).await.unwrap();
        }
        let homes = Api::<Namespace>::all(hub.client.clone());
        let uid = homes.get("cluster-c1").await.unwrap().uid();
        let may_be_made = Some(Duration::from_secs(90));
        let left = step(&hub.client, &cluster, true, (Some(1), may_be_made)).await;
        let Left::Waiting { message, .. } = left.unwrap() else {
            panic!("its namespace is there");
        };
        assert_eq!(
            message.ends_with("its namespace goes in 1m30s at the latest"),
            stays,
            "{message}"
        );
        // The Cluster that is stored stays, and with it comes another namespace.
        let is_there = async || {
            let found = homes.get_opt("cluster-c1").await.unwrap();
            found.is_some_and(|found| found.uid() == uid && found.metadata.deletion_timestamp.is_none())
        };
        assert_eq!(is_there().await, stays, "{how:?}");
        // When that is over it goes.
        step(&hub.client, &cluster, true, (Some(1), None)).await.unwrap();
        assert!(!is_there().await, "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_page_of_bundles_that_wait_others_are_told() {
    let hub = Hub::start().await;
    hub.cluster("c1").await;
    let mut cluster = hub.clusters().get("c1").await.unwrap();
    cluster.spec.leave = Some(Leave::Orphan);
    for n in 0..PAGE {
        let body = json!({"metadata": {"name": format!("a-{n:03}"), "finalizers": [BUNDLE_FINALIZER]},
            "spec": {"workload": {"manifests": []}, "deletion": {"revision": "r", "confirmedBy": "cluster-left"},
                "deleteOption": {"propagationPolicy": "Orphan"}}});
        let body: Bundle = serde_json::from_value(body).unwrap();
        let api = hub.bundles("c1");
        let made = api.create(&PostParams::default(), &body).await.unwrap();
        api.delete(&made.name_any(), &DeleteParams::default())
            .await
            .unwrap();
    }
    let expected = format!("the agent is to let go of {} bundles, a-000 among them", PAGE + 2);
    assert_eq!(waits(&hub.client, &cluster).await, expected);
    for name in ["by-hand", "default.web"] {
        let bundle = hub.bundles("c1").get(name).await.unwrap();
        assert!(bundle.spec.deletion.is_some(), "{name}");
    }
}

/// Given Bundles that somebody deleted and whose objects the agent holds, when the cluster leaves, then the agent is told what becomes of
/// those, too, and is waited for: once, whatever its report and the application go on saying.
#[tokio::test(start_paused = true)]
async fn what_an_agent_holds_of_bundles_that_are_gone_does_not_stay_behind() {
    for (how, policy) in [
        (None, Some(PropagationPolicy::Orphan)),
        (Some(Leave::DeleteResources), None),
    ] {
        let hub = Hub::start().await;
        hub.cluster("c1").await;
        let report = json!({"metadata": {"name": "c1"}, "spec": {"agentVersion": "0.1.0",
            "held": ["default.held", "theirs"], "heldCount": 2}});
        let reports: Api<ClusterReport> = Api::namespaced(hub.client.clone(), "cluster-c1");
        let report = serde_json::from_value(report).unwrap();
        reports.create(&PostParams::default(), &report).await.unwrap();
        let resource = ApiResource::erase::<Application>(&());
        let applications: Api<DynamicObject> = Api::namespaced_with(hub.client.clone(), "default", &resource);
        let web = DynamicObject::new("web", &resource).data(json!({"spec": {"components": []}}));
        applications.create(&PostParams::default(), &web).await.unwrap();
        let noted = json!({"status": {"letGo": [{"cluster": "c1", "bundle": "default.web.2"}]}});
        applications
            .patch_status("web", &PatchParams::default(), &Patch::Merge(noted))
            .await
            .unwrap();
        hub.leave("c1", how).await;
        hub.until_told("c1").await;
        hub.clean("c1", "by-hand").await;
        hub.clean("c1", "default.web").await;
        let gone = ["default.held", "default.web.2", "theirs"];
        let told = until("the agent to be told", async || {
            let all = hub.bundles("c1").list(&ListParams::default()).await.unwrap();
            let deleting = |bundle: &Bundle| bundle.metadata.deletion_timestamp.is_some();
            (all.items.len() == gone.len() && all.items.iter().all(deleting)).then_some(all.items)
        })
        .await;
        let names: Vec<String> = told.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, gone);
        for bundle in &told {
            assert_eq!(
                bundle.spec.deletion.as_ref().unwrap().confirmed_by,
                Deletion::CLUSTER_LEFT
            );
            assert_eq!(bundle.spec.epoch, Some(1), "an agent obeys no earlier one");
            let option = bundle.spec.delete_option.as_ref();
            assert_eq!(option.and_then(|option| option.propagation_policy), policy);
        }
        let of = told[1].spec.application_ref.clone().unwrap();
        assert_eq!((of.namespace.as_str(), of.name.as_str()), ("default", "web"));
        hub.clean("c1", gone[0]).await;
        hub.clean("c1", gone[1]).await;
        // Silence is no answer.
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert!(hub.clusters().get_opt("c1").await.unwrap().is_some());
        hub.clean("c1", gone[2]).await;
        hub.until_gone("c1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_agent_holds_and_does_not_name_is_waited_for() {
    let hub = Hub::start().await;
    hub.cluster("c1").await;
    let report = json!({"metadata": {"name": "c1"}, "spec": {"agentVersion": "0.1.0", "heldCount": 2}});
    let reports: Api<ClusterReport> = Api::namespaced(hub.client.clone(), "cluster-c1");
    let report = serde_json::from_value(report).unwrap();
    reports.create(&PostParams::default(), &report).await.unwrap();
    hub.leave("c1", Some(Leave::DeleteResources)).await;
    hub.until_told("c1").await;
    hub.clean("c1", "by-hand").await;
    hub.clean("c1", "default.web").await;
    until("what is not named", async || {
        let conditions = hub.clusters().get("c1").await.unwrap().status?.conditions;
        let leaving = condition::get(&conditions, LEAVING)?;
        leaving
            .message
            .contains("holds objects of 2 more bundles")
            .then_some(())
    })
    .await;
    let none = Patch::Merge(json!({"spec": {"heldCount": 0}}));
    reports.patch("c1", &PatchParams::default(), &none).await.unwrap();
    hub.until_gone("c1").await;
}
