//! Waiting with an end: what does not come is an error that names it, and how much of it had come.

use anyhow::{Result, anyhow};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Longest wait of a bench for anything but what it says another for.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// Looks every so often until there is something, at most for so long. What is not there yet is an error that says how much of
/// it is; so is a server that does not answer for a moment, and it is asked again.
///
/// # Errors
/// It is not there in time. A look that never ends is no longer waited for, either.
pub async fn until<T>(
    patience: Duration,
    every: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let end = Instant::now() + patience;
    let mut seen = anyhow!("nothing");
    loop {
        match timeout_at(end, look()).await {
            Ok(Ok(there)) => return Ok(there),
            Ok(Err(lacks)) => seen = lacks,
            Err(_) => {}
        }
        if Instant::now() >= end {
            return Err(anyhow!("waited {patience:?} for {what}; last seen: {seen:#}"));
        }
        sleep(every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::ensure;

    const LOOK: Duration = Duration::from_millis(5);

    #[tokio::test(start_paused = true)]
    async fn what_comes_is_waited_for() {
        let mut there = 0;
        let count = until(PATIENCE, LOOK, "bundles", async || {
            there += 1;
            ensure!(there == 3, "{there} of 3");
            Ok(there)
        });
        assert_eq!(count.await.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_is_named_with_what_had_come() {
        let began = Instant::now();
        let wait = until(
            PATIENCE,
            LOOK,
            "the bundle on every agent",
            async || -> Result<()> { Err(anyhow!("4 of 5 agents have it")) },
        );
        let error = wait.await.unwrap_err().to_string();
        assert_eq!(
            error,
            "waited 600s for the bundle on every agent; last seen: 4 of 5 agents have it"
        );
        assert!(began.elapsed() < PATIENCE + 2 * LOOK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_never_ends_is_given_up() {
        let mut looks = 0;
        let wait = until(PATIENCE, LOOK, "the hub to lead", async || {
            looks += 1;
            ensure!(looks > 1, "it follows");
            std::future::pending::<Result<()>>().await
        });
        let error = wait.await.unwrap_err().to_string();
        assert_eq!(error, "waited 600s for the hub to lead; last seen: it follows");
    }
}
