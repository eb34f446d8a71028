//! `roundhouse leave`

use super::{
    Failure, hub,
    reshape::{Looked, Options},
    terminal,
};
use crate::writes;
use kube::{Api, Client, ResourceExt};
use roundhouse_api::{
    clock::{Clock, SystemClock},
    cluster::{Cluster, LEAVING, Leave},
    condition,
};
use serde_json::json;
use std::{process::ExitCode, time::Duration};

const LOOK: Duration = Duration::from_millis(500);
/// Exit status of what is not over yet.
const IN_PROGRESS: u8 = 2;
/// Exit status of what was not done because something else is under way.
const REFUSED: u8 = 3;

/// Let a cluster leave the fleet
///
/// What would move to other clusters is printed first. The agent lets go of its bundles: what it applied stays in the cluster
/// as it is. With --delete-resources the agent deletes it. Then the hub removes the namespace of the cluster and the identity
/// of its agent.
///
/// A cluster whose agent is not heard of waits for it; with --force the hub forgets it, and what its agent applied stays.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    options: Options,
    /// Have the agent delete what it applied, but for Namespaces, PersistentVolumeClaims and CustomResourceDefinitions, which stay
    /// without our marks (unless they are annotated roundhouse.dev/prune: "true"); this confirms the removals, whatever the delete
    /// budget says
    #[arg(long, conflicts_with = "force")]
    delete_resources: bool,
    /// Do not wait for the agent: forget the cluster, and leave what is in it as it is
    #[arg(long)]
    force: bool,
    /// How long to wait until it has left, in seconds; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let name = &args.options.cluster;
    let how = match (args.delete_resources, args.force) {
        (true, _) => Leave::DeleteResources,
        (false, true) => Leave::Forget,
        (false, false) => Leave::Orphan,
    };
    let looked = Looked::at(&args.options).await?;
    let (leaves, before) = (
        looked.before.metadata.deletion_timestamp.is_some(),
        looked.before.spec.leave.unwrap_or_default(),
    );
    if leaves && how == Leave::DeleteResources && before != how {
        return Err(
            Failure::new("E-LEAVING", format!("cluster {name} leaves already, and what is in it stays"))
                .because("its agent was told to let go of its bundles")
                .advise("delete the objects in the cluster by hand; or let it leave, join it again, and let it leave with --delete-resources")
                .ends_with(REFUSED),
        );
    }
    let now = SystemClock.now();
    let mut after = looked.before.clone();
    after.spec.leave = Some(how);
    after.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    let says = match how {
        Leave::Orphan => "leaves; what its agent applied stays there",
        Leave::DeleteResources => "leaves; its agent deletes what it applied",
        Leave::Forget => "is forgotten; what its agent applied stays there",
    };
    if !looked.agreed(&args.options, &after, &[says.to_owned()], now)? {
        return Ok(ExitCode::SUCCESS);
    }
    write(&looked.client, &looked.before, how).await?;
    terminal::tell(format_args!("cluster {name} {says}"));
    if args.timeout == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    gone(&looked.client, &looked.before, args.timeout).await
}

/// Says how the cluster leaves, then deletes it: the hub's finalizer holds it until all is done.
async fn write(client: &Client, cluster: &Cluster, how: Leave) -> Result<(), Failure> {
    let (name, clusters) = (cluster.name_any(), Api::<Cluster>::all(client.clone()));
    let refused = |error| {
        let what = format!("cluster {name} does not leave");
        hub::unwritten(what, hub::LOOK_AGAIN, "patch,delete", error)
    };
    // What was looked at is what is changed; a heartbeat that is noted after that is no reason to ask again.
    let mut version = cluster.resource_version();
    if cluster.spec.leave != Some(how) {
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"leave": how}});
        hub::patch_cluster(client, &name, &patch).await.map_err(refused)?;
        version = None;
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let one = writes::delete_version(cluster.uid(), version);
    clusters.delete(&name, &one).await.map(drop).map_err(refused)
}

/// Waits until the cluster is gone, and says what is waited for.
async fn gone(client: &Client, cluster: &Cluster, seconds: u64) -> Result<ExitCode, Failure> {
    let (name, clusters) = (cluster.name_any(), Api::<Cluster>::all(client.clone()));
    let mut said = String::new();
    let look = async {
        loop {
            let found = clusters.get_opt(&name).await;
            let found = found.map_err(|error| hub::unreadable("Clusters", error))?;
            let Some(found) = found.filter(|found| found.uid() == cluster.uid()) else {
                return Ok::<(), Failure>(());
            };
            let conditions = found.status.map(|status| status.conditions).unwrap_or_default();
            if let Some(leaving) = condition::get(&conditions, LEAVING)
                && leaving.message != said
            {
                said.clone_from(&leaving.message);
                terminal::tell(format_args!("{said}"));
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(seconds), look).await {
        Ok(done) => done?,
        Err(_) => {
            terminal::tell(format_args!(
                "cluster {name} has not left in {seconds} s; kubectl wait --for=delete cluster/{name} waits on"
            ));
            return Ok(ExitCode::from(IN_PROGRESS));
        }
    }
    terminal::tell(format_args!("cluster {name} has left"));
    Ok(ExitCode::SUCCESS)
}
