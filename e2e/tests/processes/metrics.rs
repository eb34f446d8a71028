//! The metrics port, scraped as Prometheus does.

use crate::yard::Yard;
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::process::soon;
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
    Ok(())
}
