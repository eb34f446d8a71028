//! The README's separate processes: a hub, two API servers and two agents, over TLS on loopback; and the demo's promises.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::PostParams};
use roundhouse_api::{
    application::{Application, DELIVERED},
    cluster::{Cluster, ClusterSpec},
    condition,
};
use roundhouse_e2e::{
    processes::{Process, binaries, client},
    world::{SEED, eventually, object},
};
use serde_json::Value;
use std::{path::Path, time::Duration};

/// Processes start and talk over real sockets, on a machine that may be busy.
const SOON: Duration = Duration::from_secs(60);

/// Starts an embedded API server of `verb` and waits until it has printed the path of its kubeconfig.
async fn server(directory: &Path, name: &str, arguments: &[&str]) -> anyhow::Result<Process> {
    let listen = ["--data-dir", name, "--listen", "127.0.0.1:0"];
    let arguments = arguments.iter().chain(&listen);
    let mut process = Process::start(&binaries()?.roundhouse, arguments, directory, name)?;
    let what = format!("the start of {name}");
    let started = eventually(&what, async || {
        let printed = process.stdout();
        Ok(match process.ended()? {
            // Waiting longer would not help.
            Some(status) => Ok(Err(anyhow::anyhow!(
                "{name} ended with {status}: {}",
                process.stderr()
            ))),
            None if printed.contains("admin.kubeconfig") => Ok(Ok(())),
            None => Err(printed),
        })
    });
    tokio::time::timeout(SOON, started).await???;
    Ok(process)
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_members_and_agents_run_as_processes() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let directory = home.path();
    let hub = server(directory, "hub", &["serve", "--embedded"]).await?;
    let hub_client = client(&directory.join("hub/admin.kubeconfig")).await?;
    let mut running = vec![hub];
    for (name, region) in [("east-1", "east"), ("west-1", "west")] {
        running.push(server(directory, name, &["apiserver", "--simulate-workloads"]).await?);
        let spec = ClusterSpec {
            accepted: true,
            taints: Vec::new(),
        };
        let mut cluster = Cluster::new(name, spec);
        cluster.metadata.labels = Some([("region".to_owned(), region.to_owned())].into());
        let clusters: Api<Cluster> = Api::all(hub_client.clone());
        clusters.create(&PostParams::default(), &cluster).await?;
        let kubeconfig = directory.join(format!("hub/agents/{name}.kubeconfig"));
        let written = eventually("the agent's kubeconfig", async || {
            Ok(if kubeconfig.exists() {
                Ok(())
            } else {
                Err("no file")
            })
        });
        tokio::time::timeout(SOON, written).await??;
        let member = format!("{name}/admin.kubeconfig");
        let hub_kubeconfig = format!("hub/agents/{name}.kubeconfig");
        let arguments = [
            "--cluster",
            name,
            "--hub-kubeconfig",
            &hub_kubeconfig,
            "--member-kubeconfig",
            &member,
        ];
        running.push(Process::start(
            &binaries()?.agent,
            arguments,
            directory,
            &format!("{name}-agent"),
        )?);
    }
    let applications: Api<Application> = Api::namespaced(hub_client, "default");
    let application = serde_json::from_value(object(SEED)?)?;
    applications.create(&PostParams::default(), &application).await?;
    let delivered = eventually("delivery", async || {
        let status = applications.get("web").await?.status.unwrap_or_default();
        let delivered = condition::is_true(&status.conditions, DELIVERED);
        Ok(if delivered { Ok(()) } else { Err(status.delivery) })
    });
    tokio::time::timeout(SOON, delivered).await??;
    for (name, replicas) in [("east-1", 7), ("west-1", 2)] {
        let member = client(&directory.join(format!("{name}/admin.kubeconfig"))).await?;
        let web = Api::<Deployment>::namespaced(member, "default")
            .get("web")
            .await?;
        assert_eq!(
            web.status.and_then(|status| status.ready_replicas),
            Some(replicas),
            "{name}"
        );
    }
    // An agent may use its own namespace and nothing else.
    let agent = client(&directory.join("hub/agents/east-1.kubeconfig")).await?;
    let foreign: Api<roundhouse_api::bundle::Bundle> = Api::namespaced(agent, "cluster-west-1");
    let answer = foreign.list(&Default::default()).await;
    assert!(
        matches!(&answer, Err(kube::Error::Api(status)) if status.is_forbidden()),
        "{answer:?}"
    );
    for process in running {
        let log = process.stderr();
        let status = process.terminate().await?;
        assert!(status.success(), "{status}: {log}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_delivers_the_seed_and_says_so_in_json() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let arguments = ["demo", "--exit", "-o", "json", "--data-dir", "kept"];
    let mut demo = Process::start(&binaries()?.roundhouse, arguments, home.path(), "demo")?;
    let status = tokio::time::timeout(SOON, demo.wait()).await??;
    assert!(status.success(), "{}", demo.stderr());
    let stdout = demo.stdout();
    let outcome: Value = serde_json::from_str(stdout.lines().last().unwrap_or_default())?;
    assert_eq!(outcome["application"], "web");
    assert_eq!(
        (&outcome["placed"], &outcome["unplaced"]),
        (&Value::from(9), &Value::from(1))
    );
    let clusters = outcome["clusters"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let sum = |region: &str, count: &str| -> u64 {
        let members = clusters
            .iter()
            .filter(|c| c["name"].as_str().is_some_and(|name| name.starts_with(region)));
        members.filter_map(|cluster| cluster[count].as_u64()).sum()
    };
    assert_eq!(
        (clusters.len(), sum("east", "ready"), sum("west", "ready")),
        (5, 7, 2)
    );
    assert_eq!(sum("", "replicas"), 9);
    assert_eq!(outcome["hubKubeconfig"], "kept/hub.kubeconfig");
    let members = outcome["memberKubeconfigs"]
        .as_object()
        .map(|members| members.len());
    assert_eq!(members, Some(5));
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(home.path().join("kept/hub.kubeconfig"))?
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!demo.stderr().contains("ERROR"), "{}", demo.stderr());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_what_why_and_what_to_try() -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let arguments = ["apiserver", "--data-dir", "d", "--listen", &address];
    let mut process = Process::start(&binaries()?.roundhouse, arguments, home.path(), "apiserver")?;
    let status = tokio::time::timeout(SOON, process.wait()).await??;
    let stderr = process.stderr();
    assert_eq!(status.code(), Some(1), "{stderr}");
    for part in ["error: ", "cause: ", "try: ", &address] {
        assert!(stderr.contains(part), "{part:?} is missing in {stderr}");
    }
    assert_eq!(process.stdout(), "");
    Ok(())
}
