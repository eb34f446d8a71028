//! The fleet changes while an application is delivered: no replica is lost or doubled at any moment, and what is out of
//! reach keeps what it has.
//!
//! One member holds still while the fleet changes, so that the run of the new revision is under way all the time.

use crate::{
    conserved::Conserved,
    fleet::done,
    yard::{MEMBERS, Yard},
};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use roundhouse_api::{
    bundle::Bundle,
    cluster::{Cluster, TAINT_UNREACHABLE},
};
use roundhouse_e2e::process::{Signal, soon};
use serde_json::json;

const EAST: &str = MEMBERS[0].0;
const WEST: &str = MEMBERS[1].0;

/// States that are there at least once two members have what was decided first: the Decision and two Bundles. Every
/// decision behind it is one more, with a Bundle for each cluster that it changes, and a new revision is one for each that
/// runs it.
const FIRST: usize = 3;

/// 01-seed delivered, with every state recorded.
async fn delivered() -> Result<(Yard, Conserved)> {
    let yard = Yard::start().await?;
    let conserved = Conserved::watch(&yard.client);
    yard.deliver_seed().await?;
    conserved.settle(10, &[(EAST, 7), (WEST, 2)], FIRST).await?;
    Ok((yard, conserved))
}

/// A new revision that cannot be delivered until the member of that place goes on.
async fn under_way(yard: &Yard, member: usize) -> Result<()> {
    yard.members[member].signal(Signal::Stop).await?;
    yard.set_image("nginx:1.29").await
}

async fn still_under_way(yard: &Yard) -> Result<()> {
    let status = yard.status().await?;
    ensure!(
        !Yard::is_delivered(&status, "web-v2"),
        "something is to be waited for: {status:?}"
    );
    Ok(())
}

async fn label(yard: &Yard, cluster: &str, region: &str) -> Result<()> {
    let clusters: Api<Cluster> = Api::all(yard.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"region": region}}}));
    clusters.patch(cluster, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until a member runs so many replicas of an image.
async fn runs(yard: &Yard, cluster: &str, replicas: i32, image: &str) -> Result<()> {
    soon(
        &format!("{replicas} replicas of {image} on {cluster}"),
        async || {
            let seen = yard.web(cluster).await?;
            let there = seen == (replicas, replicas, image.to_owned());
            Ok(if there { Ok(()) } else { Err(seen) })
        },
    )
    .await
}

#[tokio::test]
async fn a_cluster_joins_while_an_application_is_delivered() -> Result<()> {
    let (mut yard, conserved) = delivered().await?;
    under_way(&yard, 1).await?;
    yard.join("east-2", "east").await?;
    // Of equal claims the fourth replica stays with who had it.
    runs(&yard, "east-2", 3, "nginx:1.29").await?;
    runs(&yard, EAST, 4, "nginx:1.29").await?;
    still_under_way(&yard).await?;
    yard.members[1].signal(Signal::Continue).await?;
    yard.delivered("web-v2").await?;
    // v2 for both, and the decision for three with what it changes.
    conserved
        .settle(10, &[(EAST, 4), ("east-2", 3), (WEST, 2)], FIRST + 2 + 3)
        .await?;
    runs(&yard, WEST, 2, "nginx:1.29").await
}

#[tokio::test]
async fn a_cluster_leaves_while_an_application_is_delivered() -> Result<()> {
    let (mut yard, conserved) = delivered().await?;
    yard.join("east-2", "east").await?;
    conserved
        .settle(10, &[(EAST, 4), ("east-2", 3), (WEST, 2)], FIRST + 3)
        .await?;
    yard.delivered("web-v1").await?;
    under_way(&yard, 1).await?;
    let clusters: Api<Cluster> = Api::all(yard.client.clone());
    clusters.delete("east-2", &DeleteParams::default()).await?;
    runs(&yard, EAST, 7, "nginx:1.29").await?;
    still_under_way(&yard).await?;
    yard.members[1].signal(Signal::Continue).await?;
    yard.delivered("web-v2").await?;
    // It lets go of what it has, which the others get. v2 for both, the decision without it, and its Bundle gone.
    conserved
        .settle(10, &[(EAST, 7), (WEST, 2)], FIRST + 3 + 2 + 2)
        .await?;
    soon("east-2 to have left", async || {
        let there = clusters.get_opt("east-2").await?;
        Ok(there.map_or(Ok(()), |there| Err(there.finalizers().to_vec())))
    })
    .await?;
    let left = yard.deployments("east-2").await?.get("web").await?;
    assert_eq!(left.metadata.deletion_timestamp, None, "nobody said to delete it");
    Ok(())
}

#[tokio::test]
async fn a_cluster_is_relabelled_while_an_application_is_delivered() -> Result<()> {
    let (yard, conserved) = delivered().await?;
    let before = yard.deployments(WEST).await?.get("web").await?.uid();
    under_way(&yard, 0).await?;
    // Nothing is left in the west, whose two replicas have no place then; the east shares its seven.
    label(&yard, WEST, "east").await?;
    let decisions: Api<roundhouse_api::decision::Decision> = Api::namespaced(yard.client.clone(), "default");
    soon("the decision for two clusters in the east", async || {
        let spec = decisions.get("web-step-0").await?.spec;
        let seen = (spec.placed, spec.unplaced, spec.clusters);
        let there = seen.0 == 7 && seen.1 == 3 && seen.2 == [EAST, WEST];
        Ok(if there { Ok(()) } else { Err(seen) })
    })
    .await?;
    yard.members[0].signal(Signal::Continue).await?;
    conserved.settle(10, &[(EAST, 4), (WEST, 3)], FIRST + 3).await?;
    runs(&yard, EAST, 4, "nginx:1.29").await?;
    runs(&yard, WEST, 3, "nginx:1.29").await?;
    // The step waits for a cluster in the west.
    still_under_way(&yard).await?;
    label(&yard, WEST, "west").await?;
    yard.delivered("web-v2").await?;
    conserved
        .settle(10, &[(EAST, 7), (WEST, 2)], FIRST + 3 + 3)
        .await?;
    runs(&yard, EAST, 7, "nginx:1.29").await?;
    runs(&yard, WEST, 2, "nginx:1.29").await?;
    let after = yard.deployments(WEST).await?.get("web").await?.uid();
    assert_eq!(before, after, "it was never made anew");
    Ok(())
}

#[tokio::test]
async fn a_cluster_out_of_reach_keeps_what_it_has_and_catches_up() -> Result<()> {
    let (yard, conserved) = delivered().await?;
    let web = yard.deployments(WEST).await?;
    let before = web.get("web").await?;
    // Its agent hangs: the process is there, and says nothing.
    yard.agents[1].signal(Signal::Stop).await?;
    yard.set_image("nginx:1.29").await?;
    let clusters: Api<Cluster> = Api::all(yard.client.clone());
    soon("west-1 to be out of reach", async || {
        let taints = clusters.get(WEST).await?.status.unwrap_or_default().taints;
        let there = taints.iter().any(|taint| taint.key == TAINT_UNREACHABLE);
        Ok(if there { Ok(()) } else { Err(taints) })
    })
    .await?;
    runs(&yard, EAST, 7, "nginx:1.29").await?;
    still_under_way(&yard).await?;
    let held = crate::fleet::explained(&yard, "Held").await?;
    assert_eq!(
        (&held["steps"][0]["heldBy"], &held["steps"][0]["replicas"]),
        (&json!("reachable"), &json!(2))
    );
    let bundles: Api<Bundle> = Api::namespaced(yard.client.clone(), "cluster-west-1");
    let bundle = bundles.get("default.web").await?;
    assert!(
        bundle.metadata.deletion_timestamp.is_none() && bundle.spec.deletion.is_none(),
        "{:?}",
        bundle.metadata
    );
    let namespaces: Api<Namespace> = Api::all(yard.client.clone());
    assert!(
        namespaces
            .get("cluster-west-1")
            .await?
            .metadata
            .deletion_timestamp
            .is_none()
    );
    let kept = web.get("web").await?;
    assert_eq!(
        (kept.uid(), kept.resource_version()),
        (before.uid(), before.resource_version()),
        "nobody touched it"
    );
    yard.agents[1].signal(Signal::Continue).await?;
    yard.until_available(WEST).await?;
    yard.delivered("web-v2").await?;
    // v2, placed as before.
    conserved.settle(10, &[(EAST, 7), (WEST, 2)], FIRST + 3).await?;
    runs(&yard, WEST, 2, "nginx:1.29").await?;
    let after = web.get("web").await?;
    assert_eq!(after.uid(), before.uid(), "it was never made anew");
    let ready = after
        .status
        .and_then(|status| status.ready_replicas)
        .context("ready")?;
    assert_eq!(ready, 2);
    Ok(())
}

#[tokio::test]
async fn a_cluster_is_tainted_while_an_application_is_delivered() -> Result<()> {
    let (mut yard, conserved) = delivered().await?;
    yard.join("west-2", "west").await?;
    conserved
        .settle(10, &[(EAST, 7), (WEST, 1), ("west-2", 1)], FIRST + 3)
        .await?;
    yard.delivered("web-v1").await?;
    under_way(&yard, 0).await?;
    done(&yard, &["taint", WEST, "flood:NoExecute", "--yes"]).await?;
    runs(&yard, "west-2", 2, "nginx:1.29").await?;
    still_under_way(&yard).await?;
    yard.members[0].signal(Signal::Continue).await?;
    yard.delivered("web-v2").await?;
    // One cluster may go without a question; its agent cleans up. v2 for both, the decision without it, and its Bundle
    // gone.
    conserved
        .settle(10, &[(EAST, 7), ("west-2", 2)], FIRST + 3 + 2 + 2)
        .await?;
    let left = yard.deployments(WEST).await?;
    soon("west-1 to be cleaned", async || {
        let there = left.get_opt("web").await?;
        Ok(there.map_or(Ok(()), |there| Err(there.metadata.uid)))
    })
    .await?;
    done(&yard, &["taint", WEST, "flood-", "--yes"]).await?;
    conserved
        .settle(10, &[(EAST, 7), (WEST, 1), ("west-2", 1)], FIRST + 3 + 4 + 3)
        .await?;
    runs(&yard, WEST, 1, "nginx:1.29").await
}

#[tokio::test]
async fn a_cordoned_cluster_gets_no_more_than_it_has() -> Result<()> {
    let (yard, conserved) = delivered().await?;
    done(&yard, &["cordon", EAST, "--yes"]).await?;
    yard.set_replicas(20).await?;
    // 70 % of 20 are fourteen: seven of them wait for a place.
    conserved
        .settle_from(&[10, 20], &[(EAST, 7), (WEST, 4)], FIRST + 2)
        .await?;
    runs(&yard, WEST, 4, "nginx:1.28").await?;
    runs(&yard, EAST, 7, "nginx:1.28").await?;
    let decisions: Api<roundhouse_api::decision::Decision> = Api::namespaced(yard.client.clone(), "default");
    let spec = decisions.get("web-step-0").await?.spec;
    assert_eq!((spec.placed, spec.unplaced, spec.satisfied), (11, 9, false));
    still_under_way(&yard).await?;
    done(&yard, &["uncordon", EAST, "--yes"]).await?;
    conserved
        .settle_from(&[10, 20], &[(EAST, 14), (WEST, 4)], FIRST + 2 + 2)
        .await?;
    yard.delivered("web-v2").await?;
    runs(&yard, EAST, 14, "nginx:1.28").await
}
