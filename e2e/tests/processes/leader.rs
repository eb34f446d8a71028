//! Several hubs, each a process of its own, on one API server: one of them writes.

use crate::yard::{Member, serve, write};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, PostParams},
};
use roundhouse_api::{
    application::Application,
    cluster::{Cluster, ClusterSpec},
    names::{HUB_LEASE, annotation},
};
use roundhouse_apiserver::envtest;
use roundhouse_e2e::{
    binaries::binaries,
    process::{Process, Signal, client, soon},
    real::{self, RealServer},
    world::{SEED, object},
};
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::MutexGuard,
    time::Instant,
};

/// Quick enough for a test, slow enough for a busy machine.
const QUICK: [&str; 3] = ["6s", "4s", "500ms"];
/// A Lease that nobody waits for in a test.
const SLOW: [&str; 3] = ["600s", "400s", "1s"];

/// One API server, and hubs on it.
struct Depot {
    home: TempDir,
    kubeconfig: PathBuf,
    client: Client,
    _server: Member,
    _turn: Option<MutexGuard<'static, ()>>,
}

struct Hub {
    process: Process,
    address: String,
}

impl Depot {
    async fn open() -> Result<Depot> {
        let home = tempfile::tempdir()?;
        let (server, kubeconfig, turn) = match envtest::assets() {
            Some(assets) => {
                let turn = real::turn().await;
                let (server, _) = RealServer::start(&assets).await?;
                let kubeconfig = write(home.path(), "api/admin.kubeconfig", &server.kubeconfig)?;
                (Member::Real(server), kubeconfig.into(), Some(turn))
            }
            None => {
                let (server, kubeconfig) = serve(home.path(), "api", &["apiserver"]).await?;
                (Member::Embedded(server), kubeconfig, None)
            }
        };
        Ok(Depot {
            client: client(&kubeconfig).await?,
            home,
            kubeconfig,
            _server: server,
            _turn: turn,
        })
    }

    async fn hub(&self, [lease, deadline, retry]: [&str; 3]) -> Result<Hub> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let words = [
            "serve",
            "--kubeconfig",
            kubeconfig.as_str(),
            "--leader-elect",
            "--leader-elect-lease-duration",
            lease,
            "--leader-elect-renew-deadline",
            deadline,
            "--leader-elect-retry-period",
            retry,
            "--metrics-listen",
            "127.0.0.1:0",
        ];
        let mut process = Process::start(&binaries()?.roundhouse, words, self.home.path())?;
        let line = process
            .stderr_line(|line| line.starts_with("metrics at http://"))
            .await?;
        let address = line
            .trim_start_matches("metrics at http://")
            .trim_end_matches("/metrics")
            .to_owned();
        Ok(Hub { process, address })
    }

    /// The epoch on the Lease.
    async fn epoch(&self) -> Result<i64> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "roundhouse-system");
        let lease = leases.get(HUB_LEASE).await?;
        let epoch = lease.annotations().get(annotation::EPOCH).context("no epoch")?;
        Ok(epoch.parse()?)
    }

    /// Accepts a cluster and waits until the leader has made its namespace.
    async fn is_at_work(&self, cluster: &str) -> Result<()> {
        let spec = ClusterSpec {
            accepted: true,
            ..ClusterSpec::default()
        };
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        clusters
            .create(&PostParams::default(), &Cluster::new(cluster, spec))
            .await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        soon("the namespace of a cluster", async || {
            let found = namespaces.get_opt(&format!("cluster-{cluster}")).await?;
            Ok(found.map(drop).ok_or("none"))
        })
        .await
    }

    /// The epoch with which the status of the seed's application was written.
    async fn epoch_of_run(&self) -> Result<Option<i64>> {
        let applications: Api<Application> = Api::namespaced(self.client.clone(), "default");
        let status = applications.get("web").await?.status.unwrap_or_default();
        Ok(status.workflow.and_then(|run| run.epoch))
    }
}

impl Hub {
    /// What it says of its readiness.
    async fn says(&self) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!(
            "GET /readyz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (_, body) = answer.split_once("\r\n\r\n").context("no head")?;
        Ok(body.trim().to_owned())
    }

    async fn until(&self, standing: &str) -> Result<String> {
        soon(&format!("a hub that is {standing}"), async || {
            let said = self.says().await?;
            Ok(if said.starts_with(standing) {
                Ok(said)
            } else {
                Err(said)
            })
        })
        .await
    }

    /// The epoch of a hub that leads.
    async fn leads(&self) -> Result<i64> {
        let said = self.until("leading").await?;
        let epoch = said.rsplit(' ').next().context("no epoch")?;
        Ok(epoch.parse()?)
    }
}

#[tokio::test]
async fn a_leader_that_is_killed_or_stopped_is_followed_and_writes_nothing_later() -> Result<()> {
    let depot = Depot::open().await?;
    let a = depot.hub(QUICK).await?;
    let first = a.leads().await?;
    let b = depot.hub(QUICK).await?;
    b.until("following").await?;
    depot.is_at_work("c1").await?;

    a.process.end(Signal::Kill).await?;
    let second = b.leads().await?;
    ensure!(second > first, "{second} after {first}");
    depot.is_at_work("c2").await?;

    // Stopped where it is, past its Lease.
    let c = depot.hub(QUICK).await?;
    c.until("following").await?;
    b.process.signal(Signal::Stop).await?;
    let third = c.leads().await?;
    ensure!(third > second, "{third} after {second}");
    let seed: DynamicObject = serde_json::from_value(object(SEED)?)?;
    let seed: Application = serde_json::from_value(serde_json::to_value(seed)?)?;
    let applications: Api<Application> = Api::namespaced(depot.client.clone(), "default");
    applications.create(&PostParams::default(), &seed).await?;
    soon("the run of the application", async || {
        Ok(match depot.epoch_of_run().await? {
            Some(epoch) if epoch == third => Ok(()),
            epoch => Err(epoch),
        })
    })
    .await?;
    b.process.signal(Signal::Continue).await?;
    b.until("following").await?;
    depot.is_at_work("c3").await?;
    ensure!(depot.epoch_of_run().await? == Some(third));
    ensure!(depot.epoch().await? == third);
    ensure!(c.leads().await? == third, "nothing was taken from it");
    Ok(())
}

#[tokio::test]
async fn a_leader_that_is_told_to_end_hands_over_at_once() -> Result<()> {
    let depot = Depot::open().await?;
    let a = depot.hub(SLOW).await?;
    let first = a.leads().await?;
    let b = depot.hub(SLOW).await?;
    b.until("following").await?;
    depot.is_at_work("c1").await?;

    let told = Instant::now();
    let ended = a.process.end(Signal::Terminate).await?;
    ensure!(ended.status.success(), "{}", ended.stderr);
    let second = b.leads().await?;
    let took = told.elapsed();
    println!("handed over in {} ms", took.as_millis());
    ensure!(second > first, "{second} after {first}");
    // Two seconds where the machine has nothing else to do (the fleet tests say so in virtual time).
    ensure!(
        took < Duration::from_secs(10),
        "{took:?}, and the Lease is for ten minutes"
    );
    depot.is_at_work("c2").await?;
    Ok(())
}
