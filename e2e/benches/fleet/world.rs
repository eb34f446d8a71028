//! A hub process and a process of agents: made once, and grown as the scenarios ask.

use crate::{Size, agents::Agents, content, hub::Hub, machine};
use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use roundhouse_api::{
    application::{Application, ApplicationPhase},
    cluster::{AVAILABLE, Cluster, ClusterSpec},
    condition,
};
use roundhouse_e2e::patience::{self, PATIENCE};
use std::{collections::BTreeMap, time::Duration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// Requests at a time while a fleet is made.
const AT_ONCE: usize = 32;
const LOOK: Duration = Duration::from_millis(250);
/// What each application of a fleet adds to the longest wait for all of them.
const EACH: Duration = Duration::from_secs(30);
/// The table of the hub's Bundles.
const BUNDLES: &str = "bundles.roundhouse.dev";

/// Clusters of the fleet that the targets of whole fleets are for.
pub(crate) const CLUSTERS: usize = 1_000;
/// Its applications: of the smaller and of the larger fleet.
pub(crate) const APPLICATIONS: [usize; 2] = [10, 100];

/// A hub, its clusters and their agents.
pub(crate) struct World {
    pub(crate) hub: Hub,
    pub(crate) agents: Agents,
    clusters: usize,
    joined: Joined,
    /// The data directory goes with it.
    home: TempDir,
}

/// MiB of the hub, with all of its clusters and no application: before their agents came, and when all are available.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joined {
    pub(crate) before: f64,
    pub(crate) after: f64,
}

/// The name of a cluster.
pub(crate) fn cluster(n: usize) -> String {
    format!("c{n:04}")
}

impl World {
    /// Everything has joined and is available.
    pub(crate) async fn start(clusters: usize) -> Result<World> {
        let home = tempfile::tempdir()?;
        let hub = Hub::start(&home.path().join("hub")).await?;
        hub.leads().await?;
        let api: Api<Cluster> = Api::all(hub.client.clone());
        stream::iter(0..clusters)
            .map(|n| {
                let api = api.clone();
                async move { api.create(&PostParams::default(), &accepted(n)).await.map(drop) }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
            .context("making clusters")?;
        let (before, _) = machine::memory(hub.id()?)?;
        let names = (0..clusters).map(cluster).collect();
        let agents = Agents::start(hub.directory(), &hub.url(), names).await?;
        all_available(&hub.client, clusters).await?;
        let (after, _) = machine::memory(hub.id()?)?;
        Ok(World {
            hub,
            agents,
            clusters,
            joined: Joined { before, after },
            home,
        })
    }

    pub(crate) fn client(&self) -> Client {
        self.hub.client.clone()
    }

    /// Creates applications, and waits until all of the fleet are delivered and ready.
    pub(crate) async fn deliver(&self, applications: Vec<Application>) -> Result<()> {
        let api: Api<Application> = Api::namespaced(self.client(), "default");
        let patience = applications.iter().fold(PATIENCE, |sum, _| sum + EACH);
        stream::iter(applications)
            .map(|application| {
                let api = api.clone();
                async move { api.create(&PostParams::default(), &application).await.map(drop) }
            })
            .buffer_unordered(4)
            .try_collect::<()>()
            .await
            .context("creating applications")?;
        patience::until(patience, LOOK, "every application to be delivered", async || {
            let (delivered, all) = delivered(&api).await?;
            ensure!(delivered == all, "{delivered} of {all} are");
            Ok(())
        })
        .await
    }

    /// The same onto all clusters, as those count it by whom later nothing has to be written and sent: who sees nothing of this sees
    /// nothing.
    async fn deliver_counted(&mut self, applications: Vec<Application>) -> Result<()> {
        let bundles = (applications.len() * self.clusters) as u64;
        let (writes, sent) = (self.hub.writes().await?, self.agents.sent().await?);
        self.deliver(applications).await?;
        let written = crate::hub::since(&writes, &self.hub.writes().await?);
        let of_bundles = written.get(BUNDLES).copied().unwrap_or(0);
        ensure!(
            of_bundles >= bundles,
            "{bundles} bundles were delivered by {of_bundles} writes of them: {written:?}"
        );
        let bytes = self.agents.sent().await?.bundles - sent.bundles;
        let least = bundles * content::BUNDLE_BYTES as u64 * 9 / 10;
        ensure!(
            bytes >= least,
            "agents were sent {bytes} bytes of bundles, and {bundles} bundles have {least} at least"
        );
        Ok(())
    }

    /// The processes, for what they use.
    pub(crate) fn processes(&self) -> Result<[(&'static str, u32); 2]> {
        Ok([("hub", self.hub.id()?), ("agents", self.agents.id()?)])
    }

    /// Kills the hub and starts it again. Returns when it was started.
    pub(crate) async fn restart_hub(self) -> Result<(World, Instant)> {
        let (hub, started) = self.hub.restart().await?;
        Ok((World { hub, ..self }, started))
    }

    pub(crate) fn clusters(&self) -> usize {
        self.clusters
    }

    pub(crate) fn joined(&self) -> Joined {
        self.joined
    }

    fn takes(&self) -> Result<Taken> {
        let (memory, highest) = machine::memory(self.hub.id()?)?;
        Ok(Taken {
            memory,
            highest,
            disk: machine::disk(self.home.path())?,
        })
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.agents.end().await?;
        drop(self.hub);
        Ok(self.home.close()?)
    }
}

fn accepted(n: usize) -> Cluster {
    let spec = ClusterSpec {
        accepted: true,
        serial: 1,
        ..ClusterSpec::default()
    };
    let mut made = Cluster::new(&cluster(n), spec);
    let (fleet, number) = (content::FLEET, (content::NUMBER, n.to_string()));
    let labels = [(fleet.0, fleet.1.to_owned()), number];
    made.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value)).into());
    made
}

/// How many clusters are available.
pub(crate) async fn available(client: &Client) -> Result<usize> {
    let all = Api::<Cluster>::all(client.clone())
        .list(&ListParams::default())
        .await?;
    let is = |cluster: &&Cluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| condition::is_true(&status.conditions, AVAILABLE))
    };
    Ok(all.iter().filter(is).count())
}

/// Waits until all clusters of a fleet are available.
pub(crate) async fn all_available(client: &Client, clusters: usize) -> Result<()> {
    until("every cluster to be available", async || {
        let now = available(client).await?;
        ensure!(now == clusters, "{now} of {clusters} are");
        Ok(())
    })
    .await
}

/// How many applications are delivered and ready, and how many there are.
async fn delivered(api: &Api<Application>) -> Result<(usize, usize)> {
    let all = api.list(&ListParams::default()).await?;
    let runs = |application: &&Application| {
        let status = application.status.as_ref();
        status.and_then(|status| status.phase) == Some(ApplicationPhase::Running)
    };
    Ok((all.iter().filter(runs).count(), all.items.len()))
}

/// Looks until it is so, for as long as anything is waited for.
pub(crate) async fn until(what: &str, look: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    patience::until(PATIENCE, LOOK, what, look).await
}

/// What a hub takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// MiB resident.
    pub(crate) memory: f64,
    /// The same, at the highest.
    pub(crate) highest: f64,
    /// Bytes of files.
    pub(crate) disk: u64,
}

/// The fleet that several scenarios use, and what its hub took at each size that it has had.
pub(crate) struct Worlds {
    size: Size,
    /// Applications of the larger fleet, if not as many as the size says.
    larger: Option<usize>,
    world: Option<World>,
    applications: usize,
    /// By the number of applications.
    taken: BTreeMap<usize, Taken>,
}

impl Worlds {
    pub(crate) fn new(size: Size, larger: Option<usize>) -> Worlds {
        Worlds {
            size,
            larger,
            world: None,
            applications: 0,
            taken: BTreeMap::new(),
        }
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Its clusters.
    pub(crate) fn clusters(&self) -> usize {
        self.size.pick(CLUSTERS, 100, 4)
    }

    /// The applications of the smaller and of the larger fleet: one Bundle for each and every cluster.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        let [smaller, larger] = self.size.pick(APPLICATIONS, [10, 30], [2, 3]);
        let larger = self.larger.unwrap_or(larger);
        [smaller.min(larger), larger]
    }

    /// The applications that the fleet has.
    pub(crate) fn applications(&self) -> usize {
        self.applications
    }

    /// The fleet with at least so many applications, delivered and at rest. One that fails in this is none any more: nobody
    /// measures what has come of it.
    pub(crate) async fn reach(&mut self, applications: usize) -> Result<&mut World> {
        let had = std::mem::take(&mut self.applications);
        let mut world = match self.world.take() {
            Some(world) => world,
            None => World::start(self.clusters()).await?,
        };
        if had < applications {
            let started = Instant::now();
            let clusters = world.clusters();
            let more = had..applications;
            let more = more.map(|n| content::application(&format!("app-{n:03}"), clusters, content::FLEET));
            world.deliver_counted(more.collect()).await?;
            eprintln!(
                "  {applications} applications on {clusters} clusters are delivered, the last {} in {:.1} s",
                applications - had,
                started.elapsed().as_secs_f64()
            );
            // What follows from the deliveries comes to rest.
            sleep(self.size.pick(30, 10, 2).seconds()).await;
            self.taken.insert(applications, world.takes()?);
        }
        self.applications = had.max(applications);
        Ok(self.world.insert(world))
    }

    /// What the hub took when the fleet had come to rest with so many applications.
    pub(crate) fn taken(&self, applications: usize) -> Option<Taken> {
        self.taken.get(&applications).copied()
    }

    /// Takes the fleet out, with the number of its applications, to put it in again. Until then there is none.
    pub(crate) fn take(&mut self) -> Result<(World, usize)> {
        let world = self.world.take().context("there is no fleet")?;
        Ok((world, std::mem::take(&mut self.applications)))
    }

    pub(crate) fn put(&mut self, world: World, applications: usize) {
        (self.world, self.applications) = (Some(world), applications);
    }

    pub(crate) async fn end(self) -> Result<()> {
        match self.world {
            Some(world) => world.end().await,
            None => Ok(()),
        }
    }
}

/// Seconds as a time.
pub(crate) trait Seconds {
    fn seconds(self) -> Duration;
}

impl Seconds for u64 {
    fn seconds(self) -> Duration {
        Duration::from_secs(self)
    }
}
