//! The life of an identity, on an API server.

use super::{hub::Hub, *};
use crate::cluster::tests::until;
use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::names::{AGENT_ROLE, annotation};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_cluster_is_invited_accepted_renewed_joined_again_and_revoked() {
    let hub = Hub::start().await;
    hub.join("c1", 7, false).await;
    let (name, first) = ("roundhouse-agent-c1", "roundhouse:agent:c1:7");
    let invited = hub.invited("c1").await;

    // What is asked for waits until somebody accepts, and the hub says with which key.
    let key = KeyPair::generate().unwrap();
    let request = csr(name, "", pem(&key, first, &[AGENTS], |_| ()));
    let requests: Api<CertificateSigningRequest> = Api::all(invited.clone());
    requests.create(&PostParams::default(), &request).await.unwrap();
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let waiting = until("the waiting key", async || {
        let status = clusters.get("c1").await.unwrap().status?;
        status.identity?.waiting_key
    })
    .await;
    assert!(!hub.can_renew(first, "c1").await, "nobody has let it in");
    let accept = json!({"spec": {"accepted": true, "acceptedKey": waiting}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(accept))
        .await
        .unwrap();
    let certificate = until("the certificate", async || {
        requests.get(name).await.unwrap().status?.certificate
    })
    .await;
    assert!(certificate.0.starts_with(b"-----BEGIN CERTIFICATE-----"));
    requests.delete(name, &DeleteParams::default()).await.unwrap();

    // The invitation was used: whoever holds the token gets nothing more, and it goes with the first sign of life.
    assert_eq!(hub.ask(&invited, name, first, &[AGENTS]).await, "InvitationUsed");
    tokio::time::sleep(Duration::from_secs(5)).await;
    hub.wait_until_heard(first, "c1").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), "cluster-c1");
    until("the end of the invitation", async || {
        accounts
            .get_opt(JOIN_ACCOUNT)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    let bindings: Api<ClusterRoleBinding> = Api::all(hub.client.clone());
    let subjects = bindings.get(name).await.unwrap().subjects.unwrap();
    assert_eq!(
        subjects.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        [first],
        "the agent may ask, the invited may no longer"
    );

    // It renews itself, and asks for nobody else.
    let agent = hub.agent(first);
    assert_eq!(hub.ask(&agent, name, first, &[AGENTS]).await, "approved");
    assert_eq!(
        hub.ask(&agent, name, first, &[AGENTS, "system:masters"]).await,
        "403"
    );
    assert_eq!(
        hub.ask(&agent, name, first, &["people"]).await,
        "WrongOrganization"
    );
    assert_eq!(
        hub.ask(&agent, name, "roundhouse:agent:c10:7", &[AGENTS]).await,
        "WrongName"
    );
    assert_eq!(
        hub.ask(&agent, "roundhouse-agent-c10", first, &[AGENTS]).await,
        "403"
    );

    // Joined again: the old identity ends, also before the new agent has asked.
    hub.join("c1", 8, true).await;
    let roles: Api<RoleBinding> = Api::namespaced(hub.client.clone(), "cluster-c1");
    let subjects = roles.get(AGENT_ROLE).await.unwrap().subjects.unwrap();
    assert_eq!(subjects[0].name, "roundhouse:agent:c1:8");
    assert!(!hub.can_renew(first, "c1").await);
    assert_eq!(
        hub.ask(&agent, name, first, &[AGENTS]).await,
        "403",
        "nor may it ask"
    );
    let second = "roundhouse:agent:c1:8";
    assert_eq!(
        hub.ask(&hub.invited("c1").await, name, second, &[AGENTS]).await,
        "approved"
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    hub.wait_until_heard(second, "c1").await;

    // Revoked: the serial is raised without an invitation.
    let revoke = json!({"spec": {"serial": 9, "joinUntil": null}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(revoke))
        .await
        .unwrap();
    until("the end of the identity", async || {
        (!hub.can_renew(second, "c1").await).then_some(())
    })
    .await;
    let lowered = json!({"spec": {"serial": 8}});
    let refused = clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(lowered))
        .await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("the serial may not decrease")
    );

    // Shut out: nobody is bound, and what says so is of this serial. It is written once.
    let shut_out = json!({"spec": {"accepted": false}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(shut_out))
        .await
        .unwrap();
    let emptied = until("the end of the binding", async || {
        let binding = roles.get(AGENT_ROLE).await.unwrap();
        binding
            .subjects
            .as_ref()
            .is_none_or(Vec::is_empty)
            .then_some(binding)
    })
    .await;
    assert_eq!(emptied.annotations()[annotation::SERIAL], "9");
    tokio::time::sleep(Duration::from_secs(1_500)).await;
    let later = roles.get(AGENT_ROLE).await.unwrap();
    assert_eq!(later.resource_version(), emptied.resource_version());
}

#[tokio::test(start_paused = true)]
async fn neighbours_of_almost_the_same_name_are_not_affected() {
    let hub = Hub::start().await;
    for name in ["c1", "c10", "c1-x"] {
        hub.join(name, 1, true).await;
        let user = format!("roundhouse:agent:{name}:1");
        let request = format!("roundhouse-agent-{name}");
        assert_eq!(
            hub.ask(&hub.invited(name).await, &request, &user, &[AGENTS])
                .await,
            "approved"
        );
        tokio::time::sleep(Duration::from_secs(5)).await;
        hub.wait_until_heard(&user, name).await;
    }
    for (user, other) in [
        ("roundhouse:agent:c1:1", "c10"),
        ("roundhouse:agent:c10:1", "c1"),
        ("roundhouse:agent:c1-x:1", "c1"),
        ("roundhouse:agent:c1:1", "c1-x"),
        ("roundhouse:agent:c1:2", "c1"),
        ("roundhouse:agent:c1:01", "c1"),
        ("roundhouse:agent:c1", "c1"),
    ] {
        assert!(!hub.can_renew(user, other).await, "{user} in {other}");
    }
    // The requests of one stand in nobody's way.
    for n in 0..20 {
        let key = KeyPair::generate().unwrap();
        let request = csr(
            &format!("flood-{n}"),
            "",
            pem(&key, "roundhouse:agent:c10:1", &[AGENTS], |_| ()),
        );
        let admin: Api<CertificateSigningRequest> = Api::all(hub.client.clone());
        admin.create(&PostParams::default(), &request).await.unwrap();
    }
    assert_eq!(
        hub.ask(
            &hub.agent("roundhouse:agent:c10:1"),
            "roundhouse-agent-c10",
            "roundhouse:agent:c10:1",
            &[AGENTS]
        )
        .await,
        "approved"
    );
    for n in 0..20 {
        assert_eq!(hub.end_of(&format!("flood-{n}")).await, "WrongName");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_was_killed_lets_one_key_in() {
    let mut hub = Hub::start().await;
    hub.join("c1", 1, true).await;
    hub.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // As if it had been killed between the claim and the approval.
    let (claimed, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let user = "roundhouse:agent:c1:1";
    let ask = |key: &KeyPair| csr("roundhouse-agent-c1", "", pem(key, user, &[AGENTS], |_| ()));
    let digest = roundhouse_apiserver::CertificateRequest::parse(&ask(&claimed).spec.request.0)
        .unwrap()
        .key_digest();
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let status =
        json!({"status": {"identity": {"serial": 1, "key": digest, "since": hub.clock.now().to_string()}}});
    clusters
        .patch_status("c1", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    hub.restart();
    assert_eq!(
        hub.send(&hub.invited("c1").await, &ask(&other)).await,
        "InvitationUsed"
    );
    assert_eq!(
        hub.send(&hub.invited("c1").await, &ask(&claimed)).await,
        "approved"
    );
}
