//! How processes end, and how they fail to start.

use crate::yard::{Yard, serve};
use anyhow::Result;
use roundhouse_e2e::{
    binaries::binaries,
    process::{Ended, Process, Signal, client},
    skipped::{Need, skipped},
};
use std::{net::TcpListener, time::Duration};

/// A drain takes no longer than a service manager's patience, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(30);

fn drained(what: &str, ended: &Ended) {
    assert_eq!(ended.status.code(), Some(0), "{what}: {}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{what}: {}", ended.stderr);
}

/// Asks a process to end and waits until it has.
async fn end(what: &str, process: Process, signal: Signal) -> Result<()> {
    let ended = tokio::time::timeout(PATIENCE, process.end(signal)).await;
    let ended = ended.map_err(|_| anyhow::anyhow!("{what} did not end within {PATIENCE:?}"))??;
    drained(what, &ended);
    Ok(())
}

#[tokio::test]
async fn each_of_them_drains_when_told_to_end() -> Result<()> {
    if skipped("each_of_them_drains_when_told_to_end", Need::Embedded)? {
        return Ok(());
    }
    let mut yard = Yard::start().await?;
    yard.deliver_seed().await?;
    // One agent while its hub is there; the hub while an agent watches it; the other agent when its hub has gone.
    end("an agent", yard.agents.remove(0), Signal::Terminate).await?;
    end("the hub", yard.hub, Signal::Terminate).await?;
    end("an agent without a hub", yard.agents.remove(0), Signal::Terminate).await?;
    end("a member", yard.members.remove(0).process()?, Signal::Terminate).await?;
    end("a member", yard.members.remove(0).process()?, Signal::Interrupt).await?;
    Ok(())
}

#[tokio::test]
async fn an_agent_ends_while_nobody_answers_it() -> Result<()> {
    let mut yard = Yard::start().await?;
    yard.hub.signal(Signal::Stop).await?;
    yard.members[0].signal(Signal::Stop).await?;
    end("an agent", yard.agents.remove(0), Signal::Terminate).await?;
    end("an agent", yard.agents.remove(0), Signal::Interrupt).await
}

#[tokio::test]
async fn the_authority_outlives_a_restart() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (first, kubeconfig) = serve(home.path(), "d", &["apiserver"]).await?;
    let authority = std::fs::read(home.path().join("d/ca.crt"))?;
    end("the first", first, Signal::Terminate).await?;
    assert!(
        client(&kubeconfig).await?.apiserver_version().await.is_err(),
        "the port is closed"
    );
    let (_second, kubeconfig) = serve(home.path(), "d", &["apiserver"]).await?;
    assert_eq!(std::fs::read(home.path().join("d/ca.crt"))?, authority);
    client(&kubeconfig).await?.apiserver_version().await?;
    Ok(())
}

#[tokio::test]
async fn failures_say_what_why_and_what_to_try() -> Result<()> {
    let home = tempfile::tempdir()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let listen = ["--data-dir", "d", "--listen", &address];
    for (verb, words, part) in [
        (&["apiserver"][..], &listen[..], address.as_str()),
        (&["serve", "--embedded"], &listen, &address),
        (
            &["serve", "--kubeconfig", "absent.kubeconfig"],
            &[],
            "absent.kubeconfig",
        ),
        (&["serve"], &[], "--embedded"),
        (
            &["apiserver"],
            &["--data-dir", "/dev/null/d", "--listen", "127.0.0.1:0"],
            "/dev/null/d",
        ),
    ] {
        let words = verb.iter().chain(words);
        let ended = Process::start(&binaries()?.roundhouse, words, home.path())?
            .wait()
            .await?;
        let stderr = &ended.stderr;
        assert_eq!(ended.status.code(), Some(1), "{verb:?}: {stderr}");
        for part in ["error: ", "\ncause: ", "\ntry: ", part] {
            assert!(
                stderr.contains(part),
                "{verb:?}: {part:?} is missing in\n{stderr}"
            );
        }
        assert_eq!(ended.stdout, "", "{verb:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_with_a_wrong_kubeconfig_names_it() -> Result<()> {
    let home = tempfile::tempdir()?;
    let words = ["--cluster", "c1", "--hub-kubeconfig", "absent.kubeconfig"];
    let ended = Process::start(&binaries()?.agent, words, home.path())?
        .wait()
        .await?;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    for part in ["--hub-kubeconfig", "absent.kubeconfig"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    Ok(())
}
