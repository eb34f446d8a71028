//! The words that end-to-end tests use: a fleet in this process, the samples, and waiting for a condition with a
//! deadline.

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use roundhouse_api::{
    application::{Application, ApplicationPhase, ApplicationStatus},
    bundle::{ApplyOnce, Bundle},
    cluster::Cluster,
    names::ClusterName,
};
use roundhouse_hub::simulate::{Fleet, FleetOptions, MemberSpec, TokioClock};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The seed's application: ten replicas, east 70 %, west 20 %.
pub const SEED: &str = include_str!("../samples/01-seed.yaml");
/// A web service with a ConfigMap and a Service.
pub const APP: &str = include_str!("../samples/02-app.yaml");
/// East, a suspend step, then west.
pub const REGIONS: &str = include_str!("../samples/03-regions.yaml");

/// Longest wait for a condition, in tokio's time (which tests pause).
const DEADLINE: Duration = Duration::from_secs(600);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// A hub and its members in this process, under tokio's clock.
pub struct World {
    /// The fleet.
    pub fleet: Fleet,
    /// The hub's API as its administrator.
    pub hub: Client,
}

/// Reads a sample as an object.
///
/// # Errors
/// The text is not YAML.
pub fn object(yaml: &str) -> Result<Value> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    Ok(serde_saphyr::from_str_with_options(yaml, options)?)
}

/// Looks until `look` answers with a value, or the deadline passes: then the error says what was waited for and what
/// was seen last.
///
/// # Errors
/// The deadline passed.
pub async fn eventually<T, S: std::fmt::Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<std::result::Result<T, S>>,
) -> Result<T> {
    let end = tokio::time::Instant::now() + DEADLINE;
    loop {
        let seen = match look().await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(seen)) => format!("{seen:?}"),
            Err(error) => format!("{error:#}"),
        };
        if tokio::time::Instant::now() > end {
            return Err(anyhow!("waited {DEADLINE:?} for {what}; last seen: {seen}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

impl World {
    /// A fleet of `(name, region)`; agents in the given apply-once mode. Returns when every cluster is available.
    ///
    /// # Errors
    /// A part of the fleet does not start.
    pub async fn start(members: &[(&str, &str)], apply_once: ApplyOnce) -> Result<World> {
        let spec = |(name, region): &(&str, &str)| -> Result<MemberSpec> {
            let labels = BTreeMap::from([("region".to_owned(), (*region).to_owned())]);
            Ok(MemberSpec {
                name: ClusterName::new(*name)?,
                labels,
            })
        };
        let members = members.iter().map(spec).collect::<Result<Vec<_>>>()?;
        let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
        let mut options = FleetOptions::new(members, Arc::new(TokioClock::starting_at(start)));
        options.seed = 42;
        options.apply_once = apply_once;
        options.count_per_object = true;
        let fleet = Fleet::start(options).await?;
        let hub = fleet.hub_client();
        let world = World { fleet, hub };
        for name in world.fleet.members() {
            world.until_available(&name, true).await?;
        }
        Ok(world)
    }

    /// Three clusters in the east and two in the west, as in the demo.
    ///
    /// # Errors
    /// A part of the fleet does not start.
    pub async fn five() -> Result<World> {
        let members = [
            ("east-1", "east"),
            ("east-2", "east"),
            ("east-3", "east"),
            ("west-1", "west"),
            ("west-2", "west"),
        ];
        World::start(&members, ApplyOnce::Never).await
    }

    /// Waits until a cluster is available, or no longer is.
    ///
    /// # Errors
    /// The deadline passed.
    pub async fn until_available(&self, name: &str, available: bool) -> Result<()> {
        let clusters: Api<Cluster> = Api::all(self.hub.clone());
        eventually(&format!("cluster {name} available={available}"), async || {
            let status = clusters.get(name).await?.status.unwrap_or_default();
            let is =
                roundhouse_api::condition::is_true(&status.conditions, roundhouse_api::cluster::AVAILABLE);
            Ok(if is == available { Ok(()) } else { Err(status) })
        })
        .await
    }

    /// Creates an Application from YAML.
    ///
    /// # Errors
    /// The hub's API server refuses it.
    pub async fn create(&self, yaml: &str) -> Result<()> {
        self.create_value(&object(yaml)?).await
    }

    /// Creates an Application from a value: as a user's client sends it, unknown fields and all.
    ///
    /// # Errors
    /// The hub's API server refuses it.
    pub async fn create_value(&self, application: &Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(application.clone())?;
        self.raw_applications()
            .create(&PostParams::default(), &object)
            .await?;
        Ok(())
    }

    /// Changes an Application as `kubectl patch --type json` does.
    ///
    /// # Errors
    /// The hub's API server refuses it.
    pub async fn edit(&self, name: &str, operations: Value) -> Result<()> {
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations)?);
        self.raw_applications()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Sets the image of the Deployment of the seed's application.
    ///
    /// # Errors
    /// The hub's API server refuses it.
    pub async fn set_image(&self, image: &str) -> Result<()> {
        let path = "/spec/components/0/properties/objects/0/spec/template/spec/containers/0/image";
        self.edit("web", json!([{"op": "replace", "path": path, "value": image}]))
            .await
    }

    fn raw_applications(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.hub.clone(),
            "default",
            &ApiResource::erase::<Application>(&()),
        )
    }

    /// The status of an Application.
    ///
    /// # Errors
    /// There is no such Application.
    pub async fn status(&self, name: &str) -> Result<ApplicationStatus> {
        let applications: Api<Application> = Api::namespaced(self.hub.clone(), "default");
        Ok(applications.get_status(name).await?.status.unwrap_or_default())
    }

    /// Waits until the run of the named revision succeeded and everything is ready.
    ///
    /// # Errors
    /// The deadline passed.
    pub async fn delivered(&self, name: &str, revision: &str) -> Result<ApplicationStatus> {
        eventually(&format!("{name} delivered at {revision}"), async || {
            let status = self.status(name).await?;
            let run = status.workflow.clone().unwrap_or_default();
            let there = run.app_revision.as_deref() == Some(revision)
                && run.finished
                && status.phase == Some(ApplicationPhase::Running);
            Ok(if there { Ok(status) } else { Err(status) })
        })
        .await
    }

    /// Waits until the message of the run contains a text.
    ///
    /// # Errors
    /// The deadline passed.
    pub async fn says(&self, name: &str, text: &str) -> Result<ApplicationStatus> {
        eventually(&format!("{name} to say {text:?}"), async || {
            let status = self.status(name).await?;
            let run = status.workflow.clone().unwrap_or_default();
            let said = run.message.unwrap_or_default();
            let conditions = status.conditions.iter().map(|c| c.message.as_str());
            let there = said.contains(text) || conditions.into_iter().any(|m| m.contains(text));
            Ok(if there { Ok(status) } else { Err(status) })
        })
        .await
    }

    /// A Deployment of a member.
    ///
    /// # Errors
    /// There is no such member or Deployment.
    pub async fn deployment(&self, member: &str, name: &str) -> Result<Deployment> {
        let api: Api<Deployment> = Api::namespaced(self.fleet.member_client(member)?, "default");
        api.get(name)
            .await
            .with_context(|| format!("Deployment {name} of {member}"))
    }

    /// Patches a Deployment of a member by hand, as `kubectl patch` (strategic) does.
    ///
    /// # Errors
    /// The member's API server refuses it.
    pub async fn patch_deployment(&self, member: &str, name: &str, patch: Value) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.fleet.member_client(member)?, "default");
        api.patch(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        Ok(())
    }

    /// Replicas that each member's Deployment asks for; members without it are left out.
    ///
    /// # Errors
    /// A member does not answer.
    pub async fn replicas(&self, name: &str) -> Result<BTreeMap<String, i32>> {
        let mut replicas = BTreeMap::new();
        for member in self.fleet.members() {
            let api: Api<Deployment> = Api::namespaced(self.fleet.member_client(&member)?, "default");
            if let Some(deployment) = api.get_opt(name).await? {
                replicas.insert(member, deployment.spec.and_then(|s| s.replicas).unwrap_or(1));
            }
        }
        Ok(replicas)
    }

    /// The Bundle of an application on a cluster.
    ///
    /// # Errors
    /// There is none.
    pub async fn bundle(&self, cluster: &str, application: &str) -> Result<Bundle> {
        let api: Api<Bundle> = Api::namespaced(self.hub.clone(), &format!("cluster-{cluster}"));
        Ok(api.get(&format!("default.{application}")).await?)
    }

    /// Stored writes of every object of hub and members, Leases left out.
    ///
    /// # Errors
    /// There is no such member.
    pub fn writes(&self) -> Result<BTreeMap<(String, String), u64>> {
        let mut writes = BTreeMap::new();
        let mut add = |whose: &str, server: &roundhouse_apiserver::Server| {
            for ((table, namespace, name), count) in server.counter().by_object() {
                if !table.starts_with("leases.") {
                    writes.insert((whose.to_owned(), format!("{table} {namespace}/{name}")), count);
                }
            }
        };
        add("hub", self.fleet.hub_server());
        for member in self.fleet.members() {
            add(&member, self.fleet.member_server(&member)?);
        }
        Ok(writes)
    }
}

/// The image of the container `name` of a Deployment.
pub fn image(deployment: &Deployment, name: &str) -> Option<String> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.iter().find(|c| c.name == name)?.image.clone()
}

/// An annotation of a Deployment.
pub fn annotation(deployment: &Deployment, key: &str) -> Option<String> {
    deployment.annotations().get(key).cloned()
}
