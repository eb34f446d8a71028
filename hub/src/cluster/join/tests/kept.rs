//! What the hub makes for the agent of a cluster stays as it should be, and goes with the Cluster.

use super::{hub::Hub, *};
use crate::cluster::tests::until;
use k8s_openapi::api::{
    core::v1::{Namespace, ResourceQuota, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::names::AGENT_ROLE;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn rights_that_somebody_changes_are_put_back() {
    let mut hub = Hub::start().await;
    hub.join("c1", 1, true).await;
    let roles: Api<RoleBinding> = Api::namespaced(hub.client.clone(), "cluster-c1");
    let wider =
        json!({"subjects": [{"kind": "Group", "name": AGENTS, "apiGroup": "rbac.authorization.k8s.io"}]});
    roles
        .patch(AGENT_ROLE, &PatchParams::default(), &Patch::Merge(wider))
        .await
        .unwrap();
    hub.restart();
    until("the binding as it was", async || {
        let subjects = roles.get(AGENT_ROLE).await.unwrap().subjects?;
        (subjects[0].name == "roundhouse:agent:c1:1").then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_role_of_that_name_that_is_somebody_elses_is_not_overwritten() {
    let hub = Hub::start().await;
    let roles: Api<ClusterRole> = Api::all(hub.client.clone());
    let foreign = serde_json::from_value(json!({"metadata": {"name": "roundhouse-agent-c1"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}))
    .unwrap();
    roles.create(&PostParams::default(), &foreign).await.unwrap();
    let api: Api<Cluster> = Api::all(hub.client.clone());
    let spec = ClusterSpec {
        serial: 1,
        accepted: true,
        join_until: Some(Time(hub.clock.now() + SignedDuration::from_hours(1))),
        ..ClusterSpec::default()
    };
    api.create(&PostParams::default(), &Cluster::new("c1", spec))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let kept = roles.get("roundhouse-agent-c1").await.unwrap();
    assert_eq!(kept.rules.unwrap()[0].resources.as_ref().unwrap(), &["pods"]);
    // The others have theirs all the same.
    hub.join("c2", 1, true).await;
}

#[tokio::test(start_paused = true)]
async fn rights_go_with_a_cluster_that_goes_while_the_hub_is_away() {
    let mut hub = Hub::start().await;
    for name in ["c1", "c10"] {
        hub.join(name, 1, true).await;
        hub.wait_until_heard(&format!("roundhouse:agent:{name}:1"), name)
            .await;
    }
    let roles: Api<ClusterRole> = Api::all(hub.client.clone());
    // Somebody's own that looks like ours, and of no Cluster.
    let mut foreign = roles.get("roundhouse-agent-c1").await.unwrap();
    foreign.metadata = kube::core::ObjectMeta {
        name: Some("roundhouse-agent-c1-x".to_owned()),
        labels: foreign.metadata.labels,
        ..kube::core::ObjectMeta::default()
    };
    roles.create(&PostParams::default(), &foreign).await.unwrap();

    hub.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let let_go = json!({"metadata": {"finalizers": null}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(let_go))
        .await
        .unwrap();
    clusters.delete("c1", &DeleteParams::default()).await.unwrap();
    until("the end of the rights", async || {
        let bindings: Api<ClusterRoleBinding> = Api::all(hub.client.clone());
        let role = roles.get_opt("roundhouse-agent-c1").await.unwrap();
        let binding = bindings.get_opt("roundhouse-agent-c1").await.unwrap();
        (role.is_none() && binding.is_none()).then_some(())
    })
    .await;
    assert!(!hub.can_renew("roundhouse:agent:c1:1", "c1").await);
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), "cluster-c1");
    assert!(accounts.get_opt(JOIN_ACCOUNT).await.unwrap().is_none());
    // What was sent to the cluster is held, and nobody else is concerned.
    let namespaces: Api<Namespace> = Api::all(hub.client.clone());
    let kept = namespaces.get("cluster-c1").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);
    assert!(roles.get_opt("roundhouse-agent-c1-x").await.unwrap().is_some());
    assert!(hub.can_renew("roundhouse:agent:c10:1", "c10").await);

    // Another Cluster of that name is another owner.
    hub.restart();
    hub.join("c1", 2, true).await;
    hub.wait_until_heard("roundhouse:agent:c1:2", "c1").await;
    let owner = roles.get("roundhouse-agent-c1").await.unwrap();
    let uid = clusters.get("c1").await.unwrap().uid().unwrap();
    assert_eq!(owner.owner_references()[0].uid, uid);
}

#[tokio::test(start_paused = true)]
async fn what_a_hub_of_another_age_has_made_gets_its_owner() {
    let mut hub = Hub::start().await;
    hub.join("c1", 1, true).await;
    hub.wait_until_heard("roundhouse:agent:c1:1", "c1").await;
    hub.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let roles: Api<Role> = Api::namespaced(hub.client.clone(), "cluster-c1");
    let unowned = json!({"metadata": {"ownerReferences": null}});
    roles
        .patch(AGENT_ROLE, &PatchParams::default(), &Patch::Merge(unowned))
        .await
        .unwrap();
    hub.restart();
    until("the owner", async || {
        let role = roles.get(AGENT_ROLE).await.unwrap();
        role.owner_references()
            .iter()
            .any(|owner| owner.name == "c1")
            .then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_may_have_one_report_where_somebody_counts() {
    let hub = Hub::start().await;
    hub.join("c1", 1, true).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(hub.client.clone(), "cluster-c1");
    let spec = quotas.get(AGENT_ROLE).await.unwrap().spec.unwrap();
    let hard = spec.hard.unwrap();
    let counted: Vec<(&str, &str)> = hard
        .iter()
        .map(|(what, n)| (what.as_str(), n.0.as_str()))
        .collect();
    assert_eq!(counted, [("count/clusterreports.roundhouse.dev", "1")]);
    assert_eq!((spec.scopes, spec.scope_selector), (None, None));
}
