//! The rights that the charts give are enough: hub and agent run as their service accounts on servers that obey RBAC.

use crate::{admitted, charts, of_kind};
use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{DeleteParams, PatchParams, PostParams},
};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{Application, ApplicationPhase},
    bundle::Bundle,
    clock::SharedClock,
    cluster::{Cluster, ClusterSpec},
    names::ClusterName,
};
use roundhouse_apiserver::{AuditSink, Identity, Server};
use roundhouse_e2e::{
    charts::{Chart, NAMESPACE},
    world::{APP, eventually, object},
};
use roundhouse_hub::{
    application::ApplicationOptions,
    run::{self, HubOptions},
    simulate::{TokioClock, workloads},
    tenancy::Tenancy,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What was refused, as `user: verb uri`.
#[derive(Clone, Default)]
struct Refusals(Arc<Mutex<Vec<String>>>);

impl AuditSink for Refusals {
    fn record(&self, _: &Value) {}

    fn record_refusal(&self, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (user, verb) = (text(&event["user"]["username"]), text(&event["verb"]));
        self.0
            .lock()
            .push(format!("{user}: {verb} {}", text(&event["requestURI"])));
    }
}

/// A server on which a chart was installed.
struct Installed {
    administrator: Client,
    /// As the service account of the chart's pods.
    account: Client,
    refusals: Refusals,
}

async fn install(chart: &Chart, release: &str, values: &Value, clock: &SharedClock) -> Result<Installed> {
    let refusals = Refusals::default();
    let clock = clock.clone();
    let server = Server::builder()
        .seed(1)
        .clock(Arc::new(move || clock.now()))
        .audit(Arc::new(refusals.clone()))
        .rbac()
        .build();
    let administrator = Client::new(server.service(), "default");
    admitted::prepare(&administrator).await?;
    admitted::define(&administrator, chart).await?;
    let objects = chart.objects(release, values)?;
    for object in &objects {
        let params = PatchParams::apply("helm").validation_strict();
        admitted::apply(&administrator, object, params).await?;
    }
    let deployment = of_kind(&objects, "Deployment").next().context("no Deployment")?;
    let name = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        .as_str()
        .context("no account")?;
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let identity = Identity::new(format!("system:serviceaccount:{NAMESPACE}:{name}"), groups);
    Ok(Installed {
        account: Client::new(server.service_as(Some(identity)), NAMESPACE),
        administrator,
        refusals,
    })
}

/// A hub and one member with its agent, both installed by their charts; they end when this is dropped.
struct Yard {
    hub: Installed,
    member: Installed,
    _stop: tokio_util::sync::DropGuard,
}

/// An application is given to the hub.
async fn start(agent_values: &Value) -> Result<Yard> {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse()?;
    let clock: SharedClock = Arc::new(TokioClock::starting_at(epoch));
    let [(hub_chart, hub_release), (agent_chart, agent_release)] = charts()?;
    let hub = install(&hub_chart, hub_release, &json!({}), &clock).await?;
    let member = install(&agent_chart, agent_release, agent_values, &clock).await?;
    let stop = CancellationToken::new();
    let options = HubOptions {
        application: ApplicationOptions {
            tenancy: Tenancy::Namespace,
            ..ApplicationOptions::default()
        },
        ..HubOptions::default()
    };
    tokio::spawn(run::run(
        hub.account.clone(),
        options,
        clock.clone(),
        stop.clone(),
    ));
    let name = ClusterName::new(agent_release)?;
    let mut cluster = Cluster::new(
        agent_release,
        ClusterSpec {
            accepted: true,
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.labels = Some([("region".to_owned(), "east".to_owned())].into());
    let clusters: Api<Cluster> = Api::all(hub.administrator.clone());
    clusters.create(&PostParams::default(), &cluster).await?;
    // On the hub an agent has the rights that the hub gives it; here its chart is what counts.
    let agent = roundhouse_agent::run(
        roundhouse_agent::Config::new(name),
        hub.administrator.clone(),
        member.account.clone(),
        clock.clone(),
        stop.clone(),
    );
    tokio::spawn(agent);
    let model = workloads::Model::default();
    tokio::spawn(workloads::run(
        member.administrator.clone(),
        model,
        clock,
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
        _stop: stop.drop_guard(),
    })
}

#[tokio::test(start_paused = true)]
async fn with_the_rights_of_the_charts_an_application_comes_and_goes_and_nothing_is_refused() -> Result<()> {
    let yard = start(&json!({})).await?;
    let applications: Api<Application> = Api::namespaced(yard.hub.administrator.clone(), "default");
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
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_rights_on_what_is_carried_is_refused_and_says_so() -> Result<()> {
    let yard = start(&json!({"rights": {"rules": []}})).await?;
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
    fn refused(&self) -> Vec<String> {
        let (hub, member) = (self.hub.refusals.0.lock(), self.member.refusals.0.lock());
        hub.iter().chain(member.iter()).cloned().collect()
    }
}
