//! Who may do what with which certificate.

use crate::yard::{MEMBERS, Yard, serve};
use anyhow::{Context, Result};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    Api, Client, Error,
    api::{ListParams, Patch, PatchParams},
};
use roundhouse_api::{application::Application, bundle::Bundle, cluster::Cluster};
use roundhouse_e2e::{
    process::{client, config},
    skipped::{Need, skipped},
};
use serde_json::json;
use std::{fmt::Debug, os::unix::fs::PermissionsExt, path::Path};

/// The HTTP status of an answer.
async fn code<T: Debug>(answer: impl Future<Output = kube::Result<T>>) -> Result<u16> {
    match answer.await {
        Ok(_) => Ok(200),
        Err(Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error).context("no answer of the API server"),
    }
}

#[tokio::test]
async fn an_agents_certificate_opens_its_own_namespace_and_nothing_else() -> Result<()> {
    let yard = Yard::start().await?;
    yard.deliver_seed().await?;
    let agent = client(&yard.agent_kubeconfig("east-1")?).await?;
    let (all, page) = (ListParams::default(), PatchParams::default());

    let own: Api<Bundle> = Api::namespaced(agent.clone(), "cluster-east-1");
    assert_eq!(code(own.list(&all)).await?, 200);
    let leases: Api<Lease> = Api::namespaced(agent.clone(), "cluster-east-1");
    assert_eq!(code(leases.get("agent")).await?, 200);

    for namespace in ["cluster-west-1", "cluster-east-10", "default", "kube-system"] {
        let bundles: Api<Bundle> = Api::namespaced(agent.clone(), namespace);
        assert_eq!(code(bundles.list(&all)).await?, 403, "{namespace}");
        assert_eq!(code(bundles.get("default.web")).await?, 403, "{namespace}");
    }
    let everywhere: Api<Bundle> = Api::all(agent.clone());
    assert_eq!(code(everywhere.list(&all)).await?, 403);
    assert_eq!(
        code(Api::<Application>::all(agent.clone()).list(&all)).await?,
        403
    );
    assert_eq!(code(Api::<Cluster>::all(agent.clone()).list(&all)).await?, 403);
    assert_eq!(code(Api::<Cluster>::all(agent.clone()).get("east-1")).await?, 403);
    assert_eq!(code(Api::<Namespace>::all(agent.clone()).list(&all)).await?, 403);
    let secrets: Api<Secret> = Api::namespaced(agent.clone(), "cluster-east-1");
    assert_eq!(code(secrets.list(&all)).await?, 403);
    let maps: Api<ConfigMap> = Api::namespaced(agent.clone(), "default");
    assert_eq!(code(maps.list(&all)).await?, 403);

    // It reports on its bundles; what is in them is the hub's.
    let other = Patch::Merge(json!({"spec": {"hash": "0"}}));
    assert_eq!(code(own.patch("default.web", &page, &other)).await?, 403);
    assert_eq!(code(own.delete("default.web", &Default::default())).await?, 403);
    let foreign: Api<Lease> = Api::namespaced(agent, "cluster-west-1");
    let held = Patch::Merge(json!({"spec": {"holderIdentity": "me"}}));
    assert_eq!(code(foreign.patch("agent", &page, &held)).await?, 403);
    assert!(
        Yard::is_delivered(&yard.status().await?, "web-v1"),
        "nothing has changed"
    );
    Ok(())
}

/// A request with no body; its status and text.
async fn get(client: &Client, path: &str) -> Result<(u16, String)> {
    let request = http::Request::get(path).body(Vec::new())?;
    match client.request_text(request).await {
        Ok(text) => Ok((200, text)),
        Err(Error::Api(status)) => Ok((status.code, status.reason.clone())),
        Err(error) => Err(error).context(path.to_owned()),
    }
}

#[tokio::test]
async fn without_a_certificate_only_health_is_answered() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (_hub, kubeconfig) = serve(home.path(), "hub", &["serve", "--embedded"]).await?;
    let admin = config(&kubeconfig).await?;
    let mut nobody = admin.clone();
    nobody.auth_info = Default::default();
    let nobody = Client::try_from(nobody)?;
    for path in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(get(&nobody, path).await?, (200, "ok".to_owned()), "{path}");
    }
    for path in [
        "/api/v1/namespaces",
        "/apis/core.oam.dev/v1beta1/applications",
        "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-east-1/bundles",
    ] {
        assert_eq!(
            get(&nobody, path).await?,
            (401, "Unauthorized".to_owned()),
            "{path}"
        );
    }
    let mut guess = admin;
    guess.auth_info = serde_json::from_value(json!({"token": "guessed"}))?;
    assert_eq!(get(&Client::try_from(guess)?, "/api/v1/namespaces").await?.0, 401);
    Ok(())
}

#[tokio::test]
async fn another_servers_certificates_are_worth_nothing() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (_one, ours) = serve(home.path(), "one", &["apiserver"]).await?;
    let (_two, theirs) = serve(home.path(), "two", &["apiserver"]).await?;
    let (ours, theirs) = (config(&ours).await?, config(&theirs).await?);
    let mut imposter = ours.clone();
    imposter.auth_info = theirs.auth_info.clone();
    let answer = get(&Client::try_from(imposter)?, "/api/v1/namespaces").await;
    assert!(!matches!(answer, Ok((200, _))), "{answer:?}");
    let mut elsewhere = ours.clone();
    elsewhere.root_cert = theirs.root_cert;
    let answer = get(&Client::try_from(elsewhere)?, "/healthz").await;
    assert!(
        answer.is_err(),
        "a server of another authority is not trusted: {answer:?}"
    );
    assert_eq!(get(&Client::try_from(ours)?, "/api/v1/namespaces").await?.0, 200);
    Ok(())
}

fn mode(path: &Path) -> Result<u32> {
    let metadata = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(metadata.permissions().mode() & 0o777)
}

#[tokio::test]
async fn kubeconfigs_and_keys_are_for_their_owner_only() -> Result<()> {
    if skipped("kubeconfigs_and_keys_are_for_their_owner_only", Need::Embedded)? {
        return Ok(());
    }
    let yard = Yard::start().await?;
    for (name, _) in MEMBERS {
        assert_eq!(mode(&yard.identity(name))?, 0o600, "{name}");
        assert_eq!(mode(&yard.member_kubeconfig(name))?, 0o600, "{name}");
    }
    for (name, expected) in [("", 0o700), ("admin.kubeconfig", 0o600), ("ca.key", 0o600)] {
        assert_eq!(
            mode(&yard.home.path().join("hub").join(name))?,
            expected,
            "{name}"
        );
    }
    Ok(())
}
