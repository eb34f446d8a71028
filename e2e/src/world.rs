//! The words that end-to-end tests use: a fleet in this process, the samples, and waiting for a condition with a
//! deadline.

use crate::{
    patience::until,
    real::{self, RealServer},
    skipped,
};
use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
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
use roundhouse_apiserver::envtest;
use roundhouse_hub::simulate::{Fleet, FleetOptions, HUB, MemberSpec, Standing, TokioClock};
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
    /// Real API servers, where the environment names them; they end with the world.
    real: Vec<RealServer>,
    /// Real servers are few at a time.
    _turn: Option<tokio::sync::MutexGuard<'static, ()>>,
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
    let look = async || look().await?.map_err(|seen| anyhow!("{seen:?}"));
    until(DEADLINE, LOOK, what, look).await
}

impl World {
    /// A fleet of `(name, region)`; agents in the given apply-once mode. Returns when every cluster is available.
    ///
    /// Where `KUBEBUILDER_ASSETS` is set, the hub and the first members ([`real::members`]) are on real API servers, and time is not
    /// paused.
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
        let (mut servers, mut standing, mut turn) = (Vec::new(), BTreeMap::new(), None);
        if let Some(assets) = envtest::assets() {
            turn = Some(real::turn().await);
            tokio::time::resume();
            let most = real::members()?;
            skipped::embedded(members.len().saturating_sub(most))?;
            let first = members.iter().take(most).map(|member| member.name.as_str());
            for name in std::iter::once(HUB).chain(first) {
                let (server, client) = RealServer::start(&assets).await?;
                servers.push(server);
                standing.insert(name.to_owned(), Standing(client));
            }
        }
        let mut options = FleetOptions::new(members, Arc::new(TokioClock::starting_at(start)));
        options.seed = 42;
        options.apply_once = apply_once;
        options.count_per_object = true;
        options.standing = standing;
        let fleet = Fleet::start(options).await?;
        let hub = fleet.hub_client();
        let world = World {
            fleet,
            hub,
            real: servers,
            _turn: turn,
        };
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

    /// Ends a namespace of the hub that was deleted. A real API server without a controller manager waits for somebody
    /// who empties the namespace: this plays that part. An embedded one, and one with a controller manager, do it by themselves.
    ///
    /// # Errors
    /// The hub's API server refuses it, or the deadline passed.
    pub async fn end_namespace(&self, name: &str) -> Result<()> {
        if self.real.iter().all(RealServer::has_controllers) {
            return Ok(());
        }
        let bundles: Api<Bundle> = Api::namespaced(self.hub.clone(), name);
        bundles
            .delete_collection(&Default::default(), &Default::default())
            .await?;
        eventually(&format!("namespace {name} to be empty"), async || {
            let left = bundles.list_metadata(&Default::default()).await?.items;
            Ok(if left.is_empty() { Ok(()) } else { Err(left) })
        })
        .await?;
        let mut namespace = Api::<Namespace>::all(self.hub.clone()).get(name).await?;
        namespace.spec = None;
        let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&namespace)?)?;
        self.hub.request_text(request).await?;
        Ok(())
    }

    /// Whether real API servers are under test.
    pub fn is_real(&self) -> bool {
        !self.real.is_empty()
    }

    /// Lets a long time pass, in which nothing should happen: an hour where time is paused, and with real servers a
    /// quarter of a minute.
    pub async fn long_while(&self) {
        let seconds = if self.is_real() { 15 } else { 3600 };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// A mark of the last write of every object of hub and members, Leases left out: its count of stored writes at an
    /// embedded server, its resourceVersion at a real one.
    ///
    /// # Errors
    /// A server does not answer.
    pub async fn writes(&self) -> Result<BTreeMap<(String, String), String>> {
        let mut writes = BTreeMap::new();
        let servers = std::iter::once(HUB.to_owned()).chain(self.fleet.members());
        for whose in servers {
            let (server, client) = match whose.as_str() {
                HUB => (self.fleet.hub_server(), self.hub.clone()),
                name => (self.fleet.member_server(name), self.fleet.member_client(name)?),
            };
            let marks = match server {
                Ok(server) => counted(server),
                Err(_) => versions(&client).await?,
            };
            writes.extend(
                marks
                    .into_iter()
                    .map(|(object, mark)| ((whose.clone(), object), mark)),
            );
        }
        Ok(writes)
    }
}

fn counted(server: &roundhouse_apiserver::Server) -> BTreeMap<String, String> {
    let objects = server.counter().by_object().into_iter();
    let objects = objects.filter(|((table, ..), _)| !table.starts_with("leases."));
    objects
        .map(|((table, namespace, name), count)| (format!("{table} {namespace}/{name}"), count.to_string()))
        .collect()
}

async fn versions(client: &Client) -> Result<BTreeMap<String, String>> {
    let discovery = kube::discovery::Discovery::new(client.clone()).run().await?;
    let mut versions = BTreeMap::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let ours = ["", "apps", "core.oam.dev", "roundhouse.dev"].contains(&resource.group.as_str());
            if !ours || !capabilities.supports_operation(kube::discovery::verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in api.list(&kube::api::ListParams::default()).await? {
                let key = format!(
                    "{} {}/{}",
                    resource.plural,
                    object.namespace().unwrap_or_default(),
                    object.name_any()
                );
                versions.insert(key, object.resource_version().unwrap_or_default());
            }
        }
    }
    Ok(versions)
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
