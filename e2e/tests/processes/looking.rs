//! `roundhouse top --watch` of a hub that does not answer.

use anyhow::{Result, ensure};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Process, Signal, soon},
};

#[tokio::test]
async fn a_look_that_fails_is_told_and_is_followed_by_another_one() -> Result<()> {
    let home = tempfile::tempdir()?;
    // Nobody listens on the port of tcpmux.
    let words = ["top", "hub", "--metrics", "127.0.0.1:1"];
    let once = Process::start(&binaries()?.roundhouse, words, home.path())?;
    let once = once.wait().await?;
    assert_eq!(once.status.code(), Some(1), "{}", once.stderr);
    let watching = Process::start(
        &binaries()?.roundhouse,
        words.iter().chain(&["--watch"]),
        home.path(),
    )?;
    soon("a second look", async || {
        let told = watching.stderr();
        Ok(match told.matches("[E-METRICS]").count() {
            0 | 1 => Err(told),
            _ => Ok(()),
        })
    })
    .await?;
    let ended = watching.end(Signal::Terminate).await?;
    ensure!(ended.status.code() == Some(0), "{}", ended.stderr);
    Ok(())
}
