//! What a server and an agent weigh: resident memory of their processes in a release build, of the server without objects, of
//! the agent idle with one bundle of one object, and with 1,000 applied objects. `cargo test --release -p roundhouse-e2e --test processes memory -- --ignored --nocapture`

use crate::yard::{Yard, serve};
use anyhow::{Context, Result};
use kube::{Api, api::PostParams};
use roundhouse_api::bundle::{Bundle, BundlePhase};
use roundhouse_e2e::process::{client, soon};
use serde_json::{Value, json};

/// Limits in KiB.
const SERVER: u64 = 15 * 1024;
const IDLE: u64 = 12 * 1024;
const LOADED: u64 = 25 * 1024;

/// Resident memory now and at its highest, in KiB, as the kernel tells.
fn resident(pid: u32) -> Result<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .context("no such field")?;
        Ok(line.trim_matches(|c: char| !c.is_ascii_digit()).parse()?)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

fn object(kind: &str, bundle: usize, n: usize) -> Value {
    let name = format!("{}-{bundle}-{n}", kind.to_lowercase());
    let metadata = json!({"name": name, "namespace": "default", "labels": {"app.oam.dev/name": "load"}});
    match kind {
        "Deployment" => {
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {"replicas": 0,
            "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.28", "ports": [{"containerPort": 80}]}]}}}})
        }
        "Service" => json!({"apiVersion": "v1", "kind": kind, "metadata": metadata,
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}),
        _ => json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"key": "value"}}),
    }
}

/// Creates a bundle and waits until it is ready.
async fn deliver(yard: &Yard, name: &str, manifests: &[Value]) -> Result<()> {
    let bundles: Api<Bundle> = Api::namespaced(yard.client.clone(), "cluster-east-1");
    let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
        "metadata": {"name": name, "namespace": "cluster-east-1"}, "spec": {"workload": {"manifests": manifests}}});
    bundles
        .create(&PostParams::default(), &serde_json::from_value(bundle)?)
        .await?;
    soon(name, async || {
        let status = bundles.get(name).await?.status.unwrap_or_default();
        let ready = status.phase == Some(BundlePhase::Ready);
        Ok(if ready { Ok(()) } else { Err(status.counts) })
    })
    .await
}

#[tokio::test]
#[ignore = "only a release build tells: see the head of this file"]
async fn an_idle_server_is_small() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (server, kubeconfig) = serve(home.path(), "d", &["apiserver"]).await?;
    client(&kubeconfig).await?.apiserver_version().await?;
    let (idle, peak) = resident(server.id().context("the server has ended")?)?;
    println!("a server without objects: VmRSS {idle} KiB, VmHWM {peak} KiB");
    if !cfg!(debug_assertions) {
        assert!(idle <= SERVER, "{idle} KiB without objects, more than {SERVER}");
    }
    Ok(())
}

#[tokio::test]
#[ignore = "only a release build tells: see the head of this file"]
async fn an_agent_is_small() -> Result<()> {
    let yard = Yard::start().await?;
    let pid = yard.agents[0].id().context("the agent has ended")?;
    deliver(&yard, "default.one", &[object("ConfigMap", 0, 0)]).await?;
    let (idle, peak) = resident(pid)?;
    println!("one bundle of one object: VmRSS {idle} KiB, VmHWM {peak} KiB");
    for bundle in 1..=4 {
        let kinds = ["Deployment", "Service", "ConfigMap", "ConfigMap", "ConfigMap"];
        let manifests: Vec<Value> = (0..250)
            .map(|n| object(kinds[n % kinds.len()], bundle, n))
            .collect();
        deliver(&yard, &format!("default.load-{bundle}"), &manifests).await?;
    }
    let (loaded, peak) = resident(pid)?;
    println!("1,000 more objects in four bundles: VmRSS {loaded} KiB, VmHWM {peak} KiB");
    if !cfg!(debug_assertions) {
        assert!(idle <= IDLE, "{idle} KiB with one bundle, more than {IDLE}");
        assert!(
            loaded <= LOADED,
            "{loaded} KiB with 1,000 objects, more than {LOADED}"
        );
    }
    Ok(())
}
