//! Clusters whose names begin alike, and serials that were: who has the one has nothing of the other.

use crate::{
    audit::Audit,
    joining::{cluster, may_list},
    refused::{AGENTS, Requests, agent_of, refusal, request},
    yard::Yard,
};
use anyhow::Result;
use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::RoleBinding};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use roundhouse_api::names::AGENT_ROLE;
use roundhouse_e2e::{
    process::{Signal, client},
    skipped::{Need, skipped},
};
use serde_json::json;

/// A cluster that nothing was done to.
pub(crate) struct Neighbour {
    name: String,
    pub(crate) user: String,
    /// The version of what says who its agent is.
    binding: Option<String>,
    key: Option<String>,
}

impl Neighbour {
    pub(crate) async fn of(yard: &Yard, name: &str) -> Result<Neighbour> {
        let bindings: Api<RoleBinding> = Api::namespaced(yard.client.clone(), &format!("cluster-{name}"));
        let identity = cluster(yard, name)
            .await?
            .status
            .and_then(|status| status.identity);
        Ok(Neighbour {
            name: name.to_owned(),
            user: agent_of(yard, name).await?,
            binding: bindings.get(AGENT_ROLE).await?.resource_version(),
            key: identity.and_then(|identity| identity.key),
        })
    }

    /// It is available, its agent is who it was and may what it might.
    pub(crate) async fn has_noticed_nothing(&self, yard: &Yard) -> Result<()> {
        yard.until_available(&self.name).await?;
        let now = Neighbour::of(yard, &self.name).await?;
        assert_eq!(
            (&now.user, &now.binding, &now.key),
            (&self.user, &self.binding, &self.key)
        );
        let agent = client(&yard.agent_kubeconfig(&self.name)?).await?;
        assert!(may_list(&agent, &self.name).await?);
        Ok(())
    }
}

#[tokio::test]
async fn who_has_an_old_serial_or_almost_the_name_of_another_is_refused_and_audited() -> Result<()> {
    let mut yard = Yard::of(&[("c1", "east"), ("c10", "west")]).await?;
    let neighbour = Neighbour::of(&yard, "c10").await?;
    let (first, me) = (
        agent_of(&yard, "c1").await?,
        client(&yard.agent_kubeconfig("c1")?).await?,
    );
    // On real servers nobody writes an audit log here.
    let test = "the audit of who_has_an_old_serial_or_almost_the_name_of_another";
    let audit = match skipped(test, Need::Embedded)? {
        true => None,
        false => Some(Audit::of(&yard)?),
    };
    let audited = async |user: &str, verb: &str, name: &str| match &audit {
        Some(audit) => audit.has(1, user, verb, name, 403).await,
        None => Ok(()),
    };
    let held = Patch::Merge(json!({"spec": {"holderIdentity": "me"}}));
    let leases = |client: &Client, of: &str| -> Api<Lease> {
        Api::namespaced(client.clone(), &format!("cluster-{of}"))
    };

    // Of c1 in the namespace of c10, and the other way round.
    let other = client(&yard.agent_kubeconfig("c10")?).await?;
    for (who, user, of) in [(&me, &first, "c10"), (&other, &neighbour.user, "c1")] {
        let there = leases(who, of);
        assert_eq!(
            refusal(there.patch("agent", &PatchParams::default(), &held).await)?,
            403
        );
        audited(user, "patch", "agent").await?;
        assert!(!may_list(who, of).await?);
        audited(user, "list", &format!("in the namespace \"cluster-{of}\"")).await?;
    }

    // Its own agent would be refused, too.
    yard.agents.remove(0).end(Signal::Terminate).await?;
    // Revoked, and joined again: the certificate of the old serial is worth nothing, for its own cluster neither.
    yard.ends(0, &["revoke", "c1"]).await?;
    let mine = leases(&me, "c1");
    let own = "roundhouse-agent-c1";
    assert_eq!(refusal(mine.get("agent").await)?, 403);
    audited(&first, "get", "agent").await?;
    yard.invite("c1", &["--auto-accept"]).await?;
    let now = agent_of(&yard, "c1").await?;
    let requests: Requests = Api::all(me.clone());
    for user in [&first, &now] {
        let asked = request(own, user, &[AGENTS])?;
        assert_eq!(refusal(requests.create(&Default::default(), &asked).await)?, 403);
    }
    if let Some(audit) = &audit {
        audit.has(2, &first, "create", "is forbidden", 403).await?;
    }
    assert_eq!(
        refusal(mine.patch("agent", &PatchParams::default(), &held).await)?,
        403
    );
    neighbour.has_noticed_nothing(&yard).await
}
