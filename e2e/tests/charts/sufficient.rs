//! The rights that the charts give are enough: hub and agent run as their service accounts on servers that obey RBAC.

use crate::{
    charts,
    installed::{CLUSTER, Installed, clock, dial, install, invite, registered, run_hub},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::Secret,
    rbac::v1::{ClusterRole, Role},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_agent::{
    identity::{Keeper, Place, Source},
    rights::IDENTITY_SECRET,
};
use roundhouse_api::{
    application::{Application, ApplicationPhase},
    bundle::Bundle,
    clock::SharedClock,
    cluster::{AVAILABLE, Cluster, IdentityMethod, JOINED},
    condition,
    names::{AGENT_ROLE, ClusterName, annotation},
};
use roundhouse_e2e::{
    charts::NAMESPACE,
    world::{APP, eventually, object},
};
use roundhouse_hub::simulate::workloads;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long what an agent has is good; it is renewed after 70 to 80 % of it.
const LIFETIME: Duration = Duration::from_secs(3_600);

/// A hub and one member with its agent, both installed by their charts; they end when this is dropped.
struct Yard {
    hub: Installed,
    member: Installed,
    clock: SharedClock,
    _stop: tokio_util::sync::DropGuard,
}

/// An agent joins the hub, and an application is given to it.
async fn start(identity: IdentityMethod, agent_values: &Value) -> Result<Yard> {
    let clock = clock()?;
    let [(hub_chart, hub_release), (agent_chart, agent_release)] = charts()?;
    let hub = install(&hub_chart, hub_release, &json!({}), &clock).await?;
    let member = install(&agent_chart, agent_release, agent_values, &clock).await?;
    let stop = CancellationToken::new();
    run_hub(&hub, identity, &clock, &stop);
    registered(&hub.administrator).await?;
    let invitation = invite(&hub.administrator, &clock, 1_700_000_000).await?;
    let config = roundhouse_agent::Config::new(ClusterName::new(CLUSTER)?);
    // As the chart says it.
    let place = Place::Secret {
        client: member.account.clone(),
        namespace: NAMESPACE.to_owned(),
        name: IDENTITY_SECRET.to_owned(),
    };
    let source = Source::Given(Box::new(invitation));
    let jitter = config.jitter.clone();
    let mut keeper = Keeper::new(config.cluster.clone(), place, source, clock.clone(), jitter);
    keeper.dial = dial(&hub.server);
    keeper.lifetime = LIFETIME;
    let agent = roundhouse_agent::run(
        config,
        keeper.client(),
        member.account.clone(),
        clock.clone(),
        stop.clone(),
    );
    tokio::spawn(agent);
    let ended = stop.clone();
    tokio::spawn(async move { Box::pin(ended.run_until_cancelled(keeper.keep())).await });
    let model = workloads::Model::default();
    tokio::spawn(workloads::run(
        member.administrator.clone(),
        model,
        clock.clone(),
        stop.clone(),
    ));
    // The sample divides between east and west; here everything goes east.
    let mut application = object(APP)?;
    let placement = &mut application["spec"]["workflow"]["steps"][0]["properties"]["placement"];
    *placement = json!([{"name": "east", "clusterSelector": {"region": "east"}}]);
    let applications: Api<Application> = Api::namespaced(hub.administrator.clone(), "default");
    let application = serde_json::from_value(application)?;
    applications.create(&PostParams::default(), &application).await?;
    Ok(Yard {
        hub,
        member,
        clock,
        _stop: stop.drop_guard(),
    })
}

/// Joined, delivered, taken away, joined again, forgotten: nothing of it is refused to the hub, whose Roles for its agent the
/// server takes only of who has what they give.
async fn a_life(identity: IdentityMethod) -> Result<()> {
    let yard = start(identity, &json!({})).await?;
    let hub = yard.hub.administrator.clone();
    let applications: Api<Application> = Api::namespaced(hub.clone(), "default");
    eventually("the application to run", async || {
        let status = applications.get("shop").await?.status.unwrap_or_default();
        let runs = status.phase == Some(ApplicationPhase::Running);
        Ok(if runs {
            Ok(())
        } else {
            Err((status, yard.refused()))
        })
    })
    .await?;
    // What it has is renewed in its time, by itself, and more than once: the first is over long before the end.
    let mut had = vec![yard.credential().await?];
    for _ in 0..3 {
        tokio::time::sleep(LIFETIME * 9 / 10).await;
        had.push(yard.credential().await?);
    }
    had.dedup();
    assert_eq!(had.len(), 4, "it is renewed each time");
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let status = clusters.get(CLUSTER).await?.status.unwrap_or_default();
    assert!(condition::is_true(&status.conditions, AVAILABLE), "{status:?}");
    assert_eq!(status.identity.unwrap_or_default().serial, 1_700_000_000);
    assert_eq!(yard.refused(), [""; 0]);

    let deployments: Api<Deployment> = Api::namespaced(yard.member.administrator.clone(), "default");
    let deployed = deployments.get("shop").await?.status.unwrap_or_default();
    assert_eq!(deployed.ready_replicas, Some(6));
    applications.delete("shop", &DeleteParams::default()).await?;
    eventually("the application to be gone", async || {
        let left = (
            applications.get_opt("shop").await?.is_some(),
            deployments.get_opt("shop").await?.is_some(),
        );
        Ok(if left == (false, false) {
            Ok(())
        } else {
            Err((left, yard.refused()))
        })
    })
    .await?;
    assert_eq!(yard.refused(), [""; 0]);

    // From here on the agent is refused, who has not the next invitation.
    let serial = 1_700_000_001;
    invite(&hub, &yard.clock, serial).await?;
    let roles: Api<Role> = Api::namespaced(hub.clone(), &format!("cluster-{CLUSTER}"));
    let role = roles.get(AGENT_ROLE).await?;
    assert_eq!(role.annotations()[annotation::SERIAL], serial.to_string());
    let forget = Patch::Merge(json!({"spec": {"leave": "Forget"}}));
    clusters.patch(CLUSTER, &PatchParams::default(), &forget).await?;
    clusters.delete(CLUSTER, &DeleteParams::default()).await?;
    eventually("the cluster to have left", async || {
        Ok(match clusters.get_opt(CLUSTER).await? {
            None => Ok(()),
            Some(cluster) => Err((cluster.status, yard.refused())),
        })
    })
    .await?;
    let of_hub = format!("system:serviceaccount:{NAMESPACE}:roundhouse: ");
    let refused = yard.refused();
    assert!(
        !refused.iter().any(|line| line.starts_with(&of_hub)),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn with_the_rights_of_the_charts_clusters_and_applications_come_and_go_and_nothing_is_refused()
-> Result<()> {
    a_life(IdentityMethod::Certificate).await
}

#[tokio::test(start_paused = true)]
async fn they_are_enough_where_agents_prove_themselves_by_tokens() -> Result<()> {
    a_life(IdentityMethod::Token).await
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_lacks_what_it_hands_out_lets_nobody_in_and_says_what_it_lacks() -> Result<()> {
    let clock = clock()?;
    let [(chart, release), _] = charts()?;
    let hub = install(&chart, release, &json!({}), &clock).await?;
    let roles: Api<ClusterRole> = Api::all(hub.administrator.clone());
    let mut role = roles.get(release).await?;
    // What it reads of reports itself stays.
    for rule in role.rules.iter_mut().flatten() {
        if rule
            .resources
            .iter()
            .flatten()
            .any(|resource| resource == "clusterreports")
        {
            rule.verbs
                .retain(|verb| ["get", "list", "watch"].contains(&verb.as_str()));
        }
    }
    roles.replace(release, &PostParams::default(), &role).await?;
    let stop = CancellationToken::new();
    run_hub(&hub, IdentityMethod::Certificate, &clock, &stop);
    let _stop = stop.drop_guard();
    registered(&hub.administrator).await?;
    let clusters: Api<Cluster> = Api::all(hub.administrator.clone());
    let accepted = Patch::Merge(json!({"spec": {"accepted": true, "serial": 1}}));
    clusters
        .patch(CLUSTER, &PatchParams::default(), &accepted)
        .await?;
    eventually("the hub to say what it lacks", async || {
        let status = clusters.get(CLUSTER).await?.status.unwrap_or_default();
        let said = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == JOINED);
        let says = said.is_some_and(|joined| {
            ["attempting to grant RBAC permissions", "clusterreports"]
                .iter()
                .all(|words| joined.message.contains(words))
        });
        Ok(if says { Ok(()) } else { Err(status.conditions) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_rights_on_what_is_carried_is_refused_and_says_so() -> Result<()> {
    let yard = start(IdentityMethod::Certificate, &json!({"rights": {"rules": []}})).await?;
    let bundles: Api<Bundle> = Api::namespaced(yard.hub.administrator.clone(), "cluster-east-1");
    eventually("the bundle to say what was refused", async || {
        let status = serde_json::to_string(&bundles.get("default.shop").await?.status)?;
        Ok(if status.contains("forbidden") {
            Ok(())
        } else {
            Err(status)
        })
    })
    .await?;
    let refused = yard.refused();
    ensure!(
        refused.iter().any(|line| line.contains("/deployments")),
        "{refused:?}"
    );
    ensure!(
        refused.iter().all(|line| line.contains(":roundhouse-agent: ")),
        "{refused:?}"
    );
    Ok(())
}

impl Yard {
    /// What the agent shows to its hub now, and the serial that it is of.
    async fn credential(&self) -> Result<Value> {
        let secrets: Api<Secret> = Api::namespaced(self.member.administrator.clone(), NAMESPACE);
        let data = secrets.get(IDENTITY_SECRET).await?.data;
        let kept = data.context("an empty Secret")?.remove("identity.json");
        let kept: Value = serde_json::from_slice(&kept.context("no identity")?.0)?;
        ensure!(
            kept["identity"]["credential"].is_object(),
            "no credential is kept"
        );
        Ok(kept["identity"].clone())
    }

    fn refused(&self) -> Vec<String> {
        let (hub, member) = (self.hub.refusals.0.lock(), self.member.refusals.0.lock());
        hub.iter().chain(member.iter()).cloned().collect()
    }
}
