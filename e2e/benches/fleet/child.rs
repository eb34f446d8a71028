//! Other processes of this very executable, each with one role.

use anyhow::{Context, Result, bail};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// Says which role a process has. It is no argument: the hub reads its arguments as `roundhouse` does.
const ROLE: &str = "ROUNDHOUSE_FIGURES_ROLE";
/// Longest wait for a line.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// `roundhouse`
    Hub,
    /// Agents with their members.
    Agents,
}

/// The role of this process; `None` of the one that measures.
pub(crate) fn role() -> Option<Role> {
    match std::env::var(ROLE).ok()?.as_str() {
        "hub" => Some(Role::Hub),
        "agents" => Some(Role::Agents),
        _ => None,
    }
}

/// A running process that is asked on stdin and answers on stdout. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(role: Role, arguments: &[String]) -> Result<Process> {
        let name = match role {
            Role::Hub => "hub",
            Role::Agents => "agents",
        };
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
            .env(ROLE, name)
            // What fails tells so on the stderr of whoever measures.
            .env(
                "RUST_LOG",
                std::env::var("RUST_LOG").unwrap_or_else(|_| "error".to_owned()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("a process of role {name} does not start"))?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        Ok(Process {
            child,
            stdin,
            stdout: BufReader::new(stdout).lines(),
        })
    }

    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }

    /// The next line that it prints.
    pub(crate) async fn line(&mut self) -> Result<String> {
        match timeout(PATIENCE, self.stdout.next_line()).await {
            Ok(line) => line?.context("the process ended; its stderr says why"),
            Err(_) => bail!("the process says nothing for {PATIENCE:?}"),
        }
    }

    /// Asks, and gives what is answered.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<String> {
        self.stdin.write_all(format!("{question}\n").as_bytes()).await?;
        self.line().await
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }
}
