//! A bare `roundhouse apiserver` and kubectl for it.

use anyhow::{Result, ensure};
use roundhouse_e2e::{
    binaries::binaries,
    kubectl::Kubectl,
    process::{Process, Signal, soon},
};
use std::path::PathBuf;
use tempfile::TempDir;

/// A bare API server and kubectl for it.
pub(crate) struct Bare {
    pub(crate) home: TempDir,
    process: Process,
    pub(crate) kubectl: Kubectl,
}

impl Bare {
    /// `None`, with the reason printed, where kubectl is not installed.
    pub(crate) async fn start() -> Result<Option<Self>> {
        Self::start_with(&[]).await
    }

    /// With further arguments.
    pub(crate) async fn start_with(arguments: &[&str]) -> Result<Option<Self>> {
        if let Err(reason) = Kubectl::installed().await {
            println!("{reason}");
            return Ok(None);
        }
        let home = tempfile::tempdir()?;
        let mut words = vec!["apiserver", "--data-dir", "d", "--listen", "127.0.0.1:0"];
        words.extend(arguments);
        let process = Process::start(&binaries()?.roundhouse, words, home.path())?;
        let kubectl = Kubectl::new(&home.path().join("d/admin.kubeconfig"));
        let bare = Self {
            home,
            process,
            kubectl,
        };
        soon("an API server that answers", async || {
            let answer = bare.kubectl.run(&["get", "--raw", "/readyz"]).await;
            Ok(answer.map(|_| ()).map_err(|error| error.to_string()))
        })
        .await?;
        Ok(Some(bare))
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("d/admin.kubeconfig")
    }

    pub(crate) async fn end(self) -> Result<()> {
        let ended = self.process.end(Signal::Interrupt).await?;
        ensure!(ended.status.success(), "{}", ended.stderr);
        Ok(())
    }
}
