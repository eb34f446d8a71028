//! `roundhouse apiserver --data-dir`: what it answered is there after `kill -9`, whenever that comes.

#[path = "store/kills.rs"]
mod kills;
#[path = "store/ledger.rs"]
mod ledger;
#[path = "store/restarts.rs"]
mod restarts;

use anyhow::Result;
use roundhouse_e2e::{
    binaries::binaries,
    process::{Process, client},
};
use std::path::Path;

/// A server on `home/d` and a client for it.
async fn start(home: &Path) -> Result<(Process, kube::Client)> {
    let words = ["apiserver", "--data-dir", "d", "--listen", "127.0.0.1:0"];
    let mut process = Process::start(&binaries()?.roundhouse, words, home)?;
    let path = process
        .stdout_line(|line| line.ends_with("admin.kubeconfig"))
        .await?;
    Ok((process, client(&home.join(path)).await?))
}
