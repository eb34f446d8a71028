//! The `roundhouse-agent` binary.

mod arguments;

use anyhow::Context;
use arguments::Arguments;
use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use roundhouse_api::clock::SystemClock;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_new(&arguments.log).context("--log")?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("a TLS provider was installed before main: build the agent with ring only");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(serve(arguments)))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone())?);
    let hub = client(Some(&arguments.hub_kubeconfig))
        .await
        .context("--hub-kubeconfig")?;
    let member = client(arguments.member_kubeconfig.as_deref())
        .await
        .context("--member-kubeconfig")?;
    roundhouse_agent::run(arguments.config(), hub, member, Arc::new(SystemClock), shutdown).await?;
    Ok(())
}

/// A client for a kubeconfig, or for the cluster that this pod runs in.
async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Client> {
    let mut config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| path.display().to_string())?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer()
            .await
            .context("no kubeconfig was given and this is no pod of a cluster")?,
    };
    // Longer than a watch is silent by agreement; each call has its own, shorter limit.
    config.read_timeout = Some(std::time::Duration::from_secs(300));
    Ok(kube::Client::try_from(config)?)
}

/// The first signal drains, and the supervisor's patience bounds the rest.
fn stop_on_signal(shutdown: CancellationToken) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: passes that have begun are finished");
        shutdown.cancel();
    })
}
