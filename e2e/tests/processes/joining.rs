//! A cluster's life: invited, accepted, delivered to, renewed, revoked, joined again, let go, forgotten.

use crate::{
    refused::request,
    yard::{Yard, invitation},
};
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::{
    apps::v1::Deployment, certificates::v1::CertificateSigningRequest, coordination::v1::Lease,
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{
    bundle::{Bundle, BundlePhase},
    cluster::{Cluster, JOINED},
    condition,
    ledger::AppliedBundle,
    names::JOIN_ACCOUNT,
};
use roundhouse_e2e::{
    process::{Signal, client, soon},
    skipped::{Need, skipped},
};
use serde_json::{Value, json};

const NAME: &str = "east-1";

pub(crate) async fn cluster(yard: &Yard, name: &str) -> Result<Cluster> {
    Ok(Api::<Cluster>::all(yard.client.clone()).get(name).await?)
}

pub(crate) fn may_not<T>(answer: &kube::Result<T>) -> bool {
    matches!(answer, Err(Error::Api(status)) if matches!(status.code, 401 | 403))
}

/// Whether whoever has this client may still do what an agent does.
pub(crate) async fn may_list(client: &Client, name: &str) -> Result<bool> {
    let bundles: Api<Bundle> = Api::namespaced(client.clone(), &format!("cluster-{name}"));
    match bundles.list(&ListParams::default()).await {
        Ok(_) => Ok(true),
        refused if may_not(&refused) => Ok(false),
        _ => anyhow::bail!("no answer of the hub"),
    }
}

#[tokio::test]
async fn a_cluster_joins_is_accepted_by_its_key_renews_is_revoked_and_joins_again() -> Result<()> {
    let mut yard = Yard::of(&[("west-1", "west")]).await?;
    yard.member(NAME).await?;
    let printed = yard.invite(NAME, &["--label", "region=east"]).await?;
    // Ten minutes are the shortest life of a certificate, of which it is renewed after seven to eight.
    let mut agent = yard.start_invited(NAME, &printed, &["--certificate-lifetime", "600"])?;

    // Invited only: it waits, the hub shows the key that asks, and the agent logs the same.
    let key = soon("the waiting key", async || {
        let status = cluster(&yard, NAME).await?.status.unwrap_or_default();
        let key = status
            .identity
            .as_ref()
            .and_then(|identity| identity.waiting_key.clone());
        Ok(key.ok_or(status))
    })
    .await?;
    let logged = agent
        .stderr_line(|line| line.contains("roundhouse accept"))
        .await?;
    assert!(logged.contains(&key), "{logged} has not {key}");
    let status = cluster(&yard, NAME).await?.status.unwrap_or_default();
    assert!(!condition::is_true(&status.conditions, JOINED));
    let other = format!("sha256:{}", "0".repeat(64));
    let refused = yard.ends(3, &["accept", NAME, "--key", &other]).await?;
    assert!(refused.contains(&key), "{refused}");
    yard.ends(0, &["accept", NAME, "--key", &key]).await?;
    yard.until_available(NAME).await?;

    // The invitation went with its use, and its token with it.
    let accounts: Api<ServiceAccount> = Api::namespaced(yard.client.clone(), &format!("cluster-{NAME}"));
    soon("the end of the invitation", async || {
        Ok(match accounts.get_opt(JOIN_ACCOUNT).await? {
            None => Ok(()),
            Some(account) => Err(account.name_any()),
        })
    })
    .await?;
    let (_, word) = invitation(&printed)?;
    let kubeconfig = yard.home.path().join("invitation.kubeconfig");
    std::fs::write(&kubeconfig, STANDARD.decode(word)?)?;
    let thief: Api<CertificateSigningRequest> = Api::all(client(&kubeconfig).await?);
    let serial = cluster(&yard, NAME).await?.spec.serial;
    let user = format!("roundhouse:agent:{NAME}:{serial}");
    let asked = request(&format!("roundhouse-agent-{NAME}"), &user, &["roundhouse:agents"])?;
    assert!(may_not(&thief.create(&PostParams::default(), &asked).await));

    // Delivered to, as every other cluster is.
    yard.deliver_seed().await?;
    assert!(yard.web(NAME).await?.0 > 0);

    // Renewed: as if it had been away for most of the life of its certificate.
    agent.end(Signal::Terminate).await?;
    let path = yard.identity(NAME);
    let stored = || -> Result<Value> { Ok(serde_json::from_slice(&std::fs::read(&path)?)?) };
    let mut aged = stored()?;
    let certificate = |stored: &Value| stored["identity"]["credential"]["certificate"]["certificate"].clone();
    let before = certificate(&aged);
    aged["identity"]["from"] = json!("2020-01-01T00:00:00Z");
    std::fs::write(&path, aged.to_string())?;
    let agent = yard.start_agent(NAME)?;
    soon("another certificate", async || {
        let now = stored()?;
        Ok((certificate(&now) != before).then_some(()).ok_or(agent.stderr()))
    })
    .await?;
    assert_eq!(stored()?["identity"]["serial"], serial);
    yard.until_available(NAME).await?;

    // Revoked: what it has is worth nothing any more, and what it applied stays.
    let old = client(&yard.agent_kubeconfig(NAME)?).await?;
    assert!(may_list(&old, NAME).await?);
    yard.ends(0, &["revoke", NAME]).await?;
    assert!(!may_list(&old, NAME).await?);
    assert!(yard.web(NAME).await?.0 > 0);
    let leases: Api<Lease> = Api::namespaced(old.clone(), &format!("cluster-{NAME}"));
    let held = Patch::Merge(json!({"spec": {"holderIdentity": "me"}}));
    assert!(may_not(
        &leases.patch("agent", &PatchParams::default(), &held).await
    ));

    // Joined again, with the agent still running: an invitation of a higher serial is taken at its next start.
    let printed = yard.invite(NAME, &[]).await?;
    agent.end(Signal::Terminate).await?;
    let mut agent = yard.start_invited(NAME, &printed, &[])?;
    // The cluster is accepted; whoever has the invitation is let in by key all the same.
    agent
        .stderr_line(|line| line.contains("roundhouse accept"))
        .await?;
    soon("the key of the new agent", async || {
        let said = yard.roundhouse(&["accept", NAME]).await?;
        let key = cluster(&yard, NAME).await?.spec.accepted_key;
        Ok(key.map(drop).ok_or(said.stderr))
    })
    .await?;
    soon("the new identity", async || {
        let now = client(&yard.agent_kubeconfig(NAME)?).await?;
        Ok(may_list(&now, NAME).await?.then_some(()).ok_or("not yet"))
    })
    .await?;
    assert!(!may_list(&old, NAME).await?, "the old one stays ended");
    yard.set_image("nginx:1.27").await?;
    yard.delivered("web-v2").await?;
    drop(agent);
    Ok(())
}

#[tokio::test]
async fn clusters_leave_with_or_without_what_they_have_or_are_forgotten() -> Result<()> {
    // The namespace of a cluster that has left is gone when somebody has emptied it.
    let test = "clusters_leave_with_or_without_what_they_have_or_are_forgotten";
    if skipped(test, Need::Controllers)? {
        return Ok(());
    }
    let mut yard = Yard::of(&[("east-1", "east"), ("east-2", "east"), ("west-1", "west")]).await?;
    yard.deliver_seed().await?;
    let last = yard.agents.remove(2);
    let left = async |name: &str| -> Result<Option<Deployment>> {
        Ok(yard.deployments(name).await?.get_opt("web").await?)
    };
    let before = left("east-1").await?.context("web in east-1")?;

    // Left alone: its objects stay, and are nobody's.
    let said = yard.ends(0, &["leave", "east-1", "--yes"]).await?;
    assert!(said.contains("cluster east-1 has left"), "{said}");
    let after = left("east-1").await?.context("web in east-1")?;
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.spec, before.spec);
    let member = client(&yard.member_kubeconfig("east-1")).await?;
    let ledgers = Api::<AppliedBundle>::all(member)
        .list(&ListParams::default())
        .await?;
    assert!(ledgers.items.is_empty(), "{:?}", ledgers.items);

    // Deleted: the agent removes what it applied.
    yard.ends(0, &["leave", "east-2", "--delete-resources", "--yes"])
        .await?;
    assert!(left("east-2").await?.is_none());

    // Not heard of, for it stands still: it waits, until somebody says to forget it.
    last.signal(Signal::Stop).await?;
    let said = yard
        .ends(2, &["leave", "west-1", "--yes", "--timeout", "5"])
        .await?;
    assert!(said.contains("the agent is to let go of 1 bundle"), "{said}");
    let said = yard.ends(0, &["leave", "west-1", "--force", "--yes"]).await?;
    assert!(said.contains("cluster west-1 has left"), "{said}");
    let before = left("west-1").await?.context("what it had stays")?;
    let clusters = Api::<Cluster>::all(yard.client.clone())
        .list(&ListParams::default())
        .await?;
    assert!(clusters.items.is_empty());

    // It goes on, knows of nothing, is nobody on the hub, and lets what it has applied be.
    let forgotten = client(&yard.agent_kubeconfig("west-1")?).await?;
    last.signal(Signal::Continue).await?;
    assert!(!may_list(&forgotten, "west-1").await?);
    last.end(Signal::Terminate).await?;

    // And it comes back under its name: what it has is taken over again as it is.
    let printed = yard
        .invite("west-1", &["--auto-accept", "--label", "region=west"])
        .await?;
    let agent = yard.start_invited("west-1", &printed, &[])?;
    yard.until_available("west-1").await?;
    let bundles: Api<Bundle> = Api::namespaced(yard.client.clone(), "cluster-west-1");
    let ready = soon("the bundle to be ready again", async || {
        let bundle = bundles.get("default.web").await?;
        let status = bundle.status.clone().unwrap_or_default();
        let current = status.observed_generation == bundle.metadata.generation;
        Ok(match status.phase == Some(BundlePhase::Ready) && current {
            true => Ok(bundle),
            false => Err(status),
        })
    })
    .await?;
    assert!(!ready.spec.workload.manifests.is_empty());
    let after = left("west-1").await?.context("web in west-1")?;
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.spec, before.spec);
    let ledgers = Api::<AppliedBundle>::all(client(&yard.member_kubeconfig("west-1")).await?)
        .list(&ListParams::default())
        .await?;
    assert_eq!(ledgers.items.len(), 1, "{:?}", ledgers.items);
    drop(agent);
    Ok(())
}
