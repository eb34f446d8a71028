//! The metrics port, scraped as Prometheus does.

use crate::yard::Yard;
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Process, soon},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn scrape(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
    Ok(body.to_owned())
}

#[tokio::test]
async fn a_delivery_shows_in_the_metrics_and_no_cluster_does() -> Result<()> {
    let mut yard = Yard::with(&["--metrics-listen", "127.0.0.1:0"]).await?;
    let line = yard
        .hub
        .stderr_line(|line| line.starts_with("metrics at http://"))
        .await?;
    let address = line
        .trim_start_matches("metrics at http://")
        .trim_end_matches("/metrics")
        .to_owned();
    yard.deliver_seed().await?;
    let body = soon("the delivery in the metrics", async || {
        let body = scrape(&address).await?;
        let wanted = [
            "roundhouse_workflow_runs_total{outcome=\"succeeded\"} 1\n",
            "roundhouse_workflow_steps{phase=\"succeeded\"} 1\n",
            "roundhouse_applications{phase=\"running\"} 1\n",
            "roundhouse_dispatch_to_ready_seconds_count{region=\"east\"} 1\n",
            "roundhouse_dispatch_to_ready_seconds_count{region=\"west\"} 1\n",
            "roundhouse_workflow_step_duration_seconds_count{type=\"open-cluster-management\",phase=\"succeeded\"} 1\n",
            "roundhouse_writes_total{resource=\"bundles\",verb=\"create\",outcome=\"ok\"} 2\n",
            "roundhouse_queue_depth 0\n",
            "roundhouse_passes_total{outcome=\"done\"} ",
            "# EOF\n",
        ];
        let missing: Vec<_> = wanted.into_iter().filter(|line| !body.contains(line)).collect();
        Ok(match missing.is_empty() {
            true => Ok(body),
            false => Err(format!("{missing:?} not in\n{body}")),
        })
    })
    .await?;
    for member in ["east-1", "west-1"] {
        ensure!(!body.contains(member), "{member} is in\n{body}");
    }
    top_of_it(&yard, &address).await
}

/// What `top` says of two clusters that have a bundle each, which is ready, and of the hub that has dispatched them.
async fn top_of_it(yard: &Yard, address: &str) -> Result<()> {
    let top = async |subject: &str, from: &[&str]| -> Result<Value> {
        let words = [&["top", subject, "-o", "json"], from].concat();
        let ended = Process::start(&binaries()?.roundhouse, &words, yard.home.path())?
            .wait()
            .await?;
        ensure!(ended.status.success(), "{words:?}: {}", ended.stderr);
        Ok(serde_json::from_str(&ended.stdout)?)
    };
    let metrics = ["--metrics", address];
    let hub = top("hub", &metrics).await?;
    ensure!(
        hub["standing"]
            .as_str()
            .is_some_and(|standing| standing.starts_with("leading"))
            && hub["bundles"] == json!({"failed": 0.0, "ready": 2.0, "waiting": 0.0})
            && hub["dispatchToReady"]["count"] == 2.0
            && hub["dispatchToReady"]["p50Seconds"]
                .as_f64()
                .is_some_and(|time| time > 0.0)
            && hub["memoryBytes"].as_f64().is_some_and(|bytes| bytes > 1e6)
            && hub["pass"]["count"].as_f64().is_some_and(|count| count >= 1.0),
        "{hub:#}"
    );
    let clusters = top("clusters", &metrics).await?;
    let rows = clusters["clusters"].as_array().context("no rows")?;
    ensure!(rows.len() == 2, "{clusters:#}");
    for row in rows {
        ensure!(
            row["bundles"] == 1 && row["ready"] == 1 && row["failed"] == 0 && row["available"] == true,
            "{clusters:#}"
        );
    }
    let kubeconfig = yard
        .home
        .path()
        .join("hub/admin.kubeconfig")
        .display()
        .to_string();
    let agents = top("agents", &["--kubeconfig", &kubeconfig]).await?;
    let rows = agents["agents"].as_array().context("no rows")?;
    ensure!(rows.len() == 2, "{agents:#}");
    for row in rows {
        ensure!(
            row["available"] == true && row["deaf"] == false && row["agentVersion"].is_string(),
            "{agents:#}"
        );
        // It renews every ten seconds, on this very machine.
        ensure!(
            row["silentSeconds"].as_f64().is_some_and(|silent| silent < 60.0),
            "{agents:#}"
        );
    }
    Ok(())
}
