//! Where no API server signs for agents they prove themselves by tokens: the same life, without keys to compare.

use crate::{
    joining::{cluster, may_list},
    yard::{MEMBERS, Yard, invitation},
};
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ListParams, PostParams},
};
use roundhouse_api::{
    bundle::Bundle,
    cluster::Cluster,
    names::{AGENT_ROLE, JOIN_ACCOUNT},
};
use roundhouse_e2e::{
    process::{Process, Signal, client, soon},
    skipped::{Need, skipped},
};
use serde_json::{Value, json};

const NAME: &str = "east-2";

/// The hub as who has the invitation that was printed.
async fn invited(yard: &Yard, printed: &str) -> Result<Client> {
    let (_, word) = invitation(printed)?;
    let kubeconfig = yard.home.path().join("invitation.kubeconfig");
    std::fs::write(&kubeconfig, STANDARD.decode(word)?)?;
    client(&kubeconfig).await
}

/// The hub as the agent of the cluster is now.
async fn agent(yard: &Yard) -> Result<Client> {
    let stored: Value = serde_json::from_slice(&std::fs::read(yard.identity(NAME))?)?;
    let token = stored["identity"]["credential"]["token"].as_str();
    let kubeconfig = json!({
        "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": stored["identity"]["hub"]}],
        "users": [{"name": "agent", "user": {"token": token.context("no token is stored")?}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "agent"}}]});
    let path = yard.home.path().join(format!("{NAME}.kubeconfig"));
    std::fs::write(&path, kubeconfig.to_string())?;
    client(&path).await
}

/// The HTTP status of asking for a token of the agent.
async fn asks(who: &Client) -> Result<u16> {
    let accounts: Api<ServiceAccount> = Api::namespaced(who.clone(), &format!("cluster-{NAME}"));
    let asked = TokenRequest::default();
    let given = accounts
        .create_token_request(AGENT_ROLE, &PostParams::default(), &asked)
        .await;
    match given {
        Ok(_) => Ok(201),
        Err(Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error).context("no answer of the hub"),
    }
}

/// Waits until the agent says that it waits; meanwhile whoever has the invitation is given nothing.
async fn waits(process: &mut Process, invited: &Client) -> Result<()> {
    process
        .stderr_line(|line| line.contains("roundhouse accept"))
        .await?;
    assert!(matches!(asks(invited).await?, 403 | 404));
    Ok(())
}

/// Waits until the invitation of the cluster is over.
async fn until_used(yard: &Yard) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(yard.client.clone(), &format!("cluster-{NAME}"));
    soon("the end of the invitation", async || {
        let account = accounts.get_opt(JOIN_ACCOUNT).await?;
        Ok(account.map_or(Ok(()), |account| Err(account.name_any())))
    })
    .await
}

#[tokio::test]
async fn an_agent_with_a_token_is_accepted_delivers_is_revoked_and_is_accepted_anew() -> Result<()> {
    // Those of the yard are let in at once.
    let mut yard = Yard::with(&["--agent-identity", "token"]).await?;
    yard.member(NAME).await?;
    let printed = yard.invite(NAME, &["--label", "region=east"]).await?;
    let guest = invited(&yard, &printed).await?;
    let mut process = yard.start_invited(NAME, &printed, &[])?;
    waits(&mut process, &guest).await?;
    let key = format!("sha256:{}", "0".repeat(64));
    let refused = yard.ends(3, &["accept", NAME, "--key", &key]).await?;
    assert!(refused.contains("without --key"), "{refused}");
    yard.ends(0, &["accept", NAME]).await?;
    yard.until_available(NAME).await?;

    // Delivered to, as every other cluster is; nobody else gets a token by the invitation when its agent has been heard of.
    yard.deliver_seed().await?;
    assert!(yard.web(NAME).await?.0 > 0);
    until_used(&yard).await?;
    soon("the end of the token of the invitation", async || {
        let code = asks(&guest).await?;
        Ok(if code == 401 { Ok(()) } else { Err(code) })
    })
    .await?;

    // Revoked: its token is nobody's.
    let old = agent(&yard).await?;
    assert!(may_list(&old, NAME).await?);
    yard.ends(0, &["revoke", NAME]).await?;
    assert!(!may_list(&old, NAME).await?);
    let bundles: Api<Bundle> = Api::namespaced(old.clone(), &format!("cluster-{NAME}"));
    soon("the end of the token of the agent", async || {
        Ok(match bundles.list(&ListParams::default()).await {
            Err(Error::Api(status)) if status.code == 401 => Ok(()),
            other => Err(other.map(|list| list.items.len())),
        })
    })
    .await?;
    assert!(yard.web(NAME).await?.0 > 0, "what it applied stays");

    // Joined again: the cluster is accepted, and its next agent waits all the same.
    let printed = yard.invite(NAME, &[]).await?;
    let guest = invited(&yard, &printed).await?;
    process.end(Signal::Terminate).await?;
    let mut process = yard.start_invited(NAME, &printed, &[])?;
    waits(&mut process, &guest).await?;
    assert!(cluster(&yard, NAME).await?.spec.accepted);
    let listed = yard.ends(0, &["clusters"]).await?;
    let row = listed.lines().find(|line| line.starts_with(NAME));
    let row = row.context("it is not listed")?;
    assert_eq!(row.split_whitespace().nth(2), Some("waits"), "{listed}");
    let said = yard.ends(0, &["accept", NAME]).await?;
    assert!(said.contains("whoever has the invitation first"), "{said}");
    soon("the new identity", async || {
        let now = agent(&yard).await?;
        Ok(may_list(&now, NAME).await?.then_some(()).ok_or("not yet"))
    })
    .await?;
    assert!(!may_list(&old, NAME).await?, "the old one stays ended");
    yard.set_image("nginx:1.27").await?;
    yard.delivered("web-v2").await?;

    // The namespace of a cluster that has left is gone when somebody has emptied it.
    let test = "the leaving of an_agent_with_a_token_is_accepted_delivers_is_revoked_and_is_accepted_anew";
    if !skipped(test, Need::Controllers)? {
        let said = yard.ends(0, &["leave", NAME, "--yes"]).await?;
        assert!(said.contains(&format!("cluster {NAME} has left")), "{said}");
        assert!(yard.web(NAME).await?.0 > 0, "what it had stays");
        let now = agent(&yard).await?;
        assert!(!may_list(&now, NAME).await?);
        let clusters: Api<Cluster> = Api::all(yard.client.clone());
        assert_eq!(
            clusters.list(&ListParams::default()).await?.items.len(),
            MEMBERS.len()
        );
    }
    drop(process);
    Ok(())
}
