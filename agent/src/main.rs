//! The `roundhouse-agent` binary.

mod arguments;

use anyhow::Context;
use arguments::Arguments;
use clap::Parser;
use kube::config::{KubeConfigOptions, Kubeconfig};
use roundhouse_agent::client::client;
use roundhouse_agent::health;
use roundhouse_agent::identity::Keeper;
use roundhouse_api::clock::SystemClock;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Threads for what blocks, which is the resolution of names; they end when they are idle.
const BLOCKING_THREADS: usize = 2;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_new(&arguments.log).context("--log")?)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // It would be said on stderr, which is what cannot be written to.
        .log_internal_errors(false)
        .init();
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("a TLS provider was installed before main: build the agent with ring only");
    }
    // One thread: an agent waits nearly all the time, and each further thread costs a stack and a heap of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(serve(arguments)))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    tokio::spawn(stop_on_signal(shutdown.clone())?);
    let ready = match &arguments.hub_kubeconfig {
        Some(path) => {
            let config = access(Some(path)).await;
            Some(
                config
                    .and_then(|config| Ok(client(config)?))
                    .context("--hub-kubeconfig")?,
            )
        }
        None => None,
    };
    let member = access(arguments.member_kubeconfig.as_deref())
        .await
        .and_then(acting_as_itself)
        .and_then(|config| Ok(client(config)?))
        .context("--member-kubeconfig")?;
    let (config, clock) = (arguments.config().context("--label")?, Arc::new(SystemClock));
    if let Some(address) = arguments.health_listen {
        let listener = tokio::net::TcpListener::bind(address)
            .await
            .with_context(|| format!("--health-listen {address}"))?;
        tokio::spawn(health::serve(listener, config.clone(), shutdown.clone()));
    }
    let keeper = arguments.keeper(&member, &config, clock.clone());
    if let Some(keeper) = &keeper {
        keeper.check().await.context(arguments.invited_by())?;
    }
    let Some(hub) = ready.or_else(|| keeper.as_ref().map(Keeper::client)) else {
        anyhow::bail!(
            "no way to the hub was given: use --identity-dir, --identity-secret or --hub-kubeconfig"
        );
    };
    let keeping = async {
        match keeper {
            Some(keeper) => keeper.keep().await,
            None => std::future::pending().await,
        }
    };
    let run = Box::pin(roundhouse_agent::run(config, hub, member, clock, shutdown));
    tokio::select! {
        biased;
        ended = run => ended?,
        () = Box::pin(keeping) => anyhow::bail!("the keeper of the identity ended although it never should"),
    }
    Ok(())
}

/// What a kubeconfig says, or the cluster that this pod runs in.
async fn access(kubeconfig: Option<&Path>) -> anyhow::Result<kube::Config> {
    Ok(match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| path.display().to_string())?;
            kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer()
            .await
            .context("no kubeconfig was given and this is no pod of a cluster")?,
    })
}

/// An agent that is impersonating already cannot act on behalf of an executor: Kubernetes would give the groups that the
/// kubeconfig names to every executor.
fn acting_as_itself(config: kube::Config) -> anyhow::Result<kube::Config> {
    let user = &config.auth_info;
    anyhow::ensure!(
        user.impersonate.is_none()
            && user.impersonate_groups.is_none()
            && user.impersonate_uid.is_none()
            && user.impersonate_user_extra.is_none(),
        "its user impersonates another one (as, as-groups, as-uid or as-user-extra): the agent impersonates the \
         executors of bundles, which cannot be done on top of that; give it credentials of its own"
    );
    Ok(config)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_not_accessed_in_disguise() {
        let config = || kube::Config::new("https://member.example.com".parse().unwrap());
        assert!(acting_as_itself(config()).is_ok());
        let mut user = config();
        user.auth_info.impersonate = Some("jane".to_owned());
        let mut groups = config();
        groups.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        for disguised in [user, groups] {
            let error = acting_as_itself(disguised).unwrap_err().to_string();
            assert!(error.contains("as-groups"), "{error}");
        }
    }
}
