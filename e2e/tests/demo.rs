//! `roundhouse demo` as a process: what a newcomer runs first.

use anyhow::{Context, Result};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Ended, Process, Signal, command, config},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};
use tempfile::TempDir;

/// What the demo promises with `--exit`, and when it gives up.
const EXIT_WITHIN: Duration = Duration::from_secs(20);

fn demo(words: &[&str], home: &TempDir) -> Result<Process> {
    let words = ["demo"].iter().chain(words);
    Process::start(&binaries()?.roundhouse, words, home.path())
}

fn is_empty(directory: &Path) -> Result<bool> {
    Ok(std::fs::read_dir(directory)?.next().is_none())
}

/// No escape codes, no errors, nothing left in the directory for temporary files.
fn is_clean(ended: &Ended, home: &TempDir) -> Result<()> {
    assert!(is_empty(home.path())?, "files are left behind");
    for text in [&ended.stdout, &ended.stderr] {
        assert!(
            !text.contains('\u{1b}'),
            "escape codes without a terminal: {text:?}"
        );
        assert!(!text.contains("panicked"), "{text}");
    }
    Ok(())
}

fn succeeded(ended: &Ended) {
    assert_eq!(ended.status.code(), Some(0), "{}\n{}", ended.stdout, ended.stderr);
}

#[tokio::test]
async fn it_delivers_the_seed_within_twenty_seconds_and_tells_the_story() -> Result<()> {
    let home = tempfile::tempdir()?;
    let ended = demo(&["--exit"], &home)?.wait().await?;
    succeeded(&ended);
    assert!(ended.after < EXIT_WITHIN, "{:?}", ended.after);
    is_clean(&ended, &home)?;
    for told in [
        "a hub and 5 simulated clusters",
        "5 agents have joined",
        "web: step step-0 places 10 × Deployment web",
        "region=east  70% of 10 = 7: east-1 2, east-2 3, east-3 2",
        "region=west  20% of 10 = 2: west-1 1, west-2 1",
        "1 of 10 replicas of Deployment default/web is not placed: no rule claims it",
        "default/web: delivered",
    ] {
        assert!(
            ended.stderr.contains(told),
            "{told:?} is missing in\n{}",
            ended.stderr
        );
    }
    for shown in [
        "default/web  web-v1  delivered",
        "70% of 10 = 7",
        "20% of 10 = 2",
        "10 − 7 − 2 = 1 unplaced",
        "no rule claims it",
        "9 of 9 placed replicas are ready in 5 clusters, 1 unplaced",
    ] {
        assert!(
            ended.stdout.contains(shown),
            "{shown:?} is missing in\n{}",
            ended.stdout
        );
    }
    Ok(())
}

/// The last line of `-o json`: exactly these fields.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Outcome {
    application: String,
    placed: u32,
    unplaced: u32,
    clusters: Vec<Cluster>,
    hub_kubeconfig: String,
    member_kubeconfigs: BTreeMap<String, String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Cluster {
    name: String,
    replicas: u32,
    ready: u32,
}

impl Outcome {
    fn of(stdout: &str) -> Result<Outcome> {
        let last = stdout.lines().last().context("nothing is printed")?;
        serde_json::from_str(last).with_context(|| last.to_owned())
    }

    /// Replicas, and ready ones, of the clusters of a region.
    fn sum(&self, region: &str) -> (u32, u32) {
        let its = self
            .clusters
            .iter()
            .filter(|cluster| cluster.name.starts_with(region));
        its.fold((0, 0), |(replicas, ready), c| {
            (replicas + c.replicas, ready + c.ready)
        })
    }
}

#[tokio::test]
async fn json_has_the_counts_of_every_cluster_and_the_talk_is_on_stderr() -> Result<()> {
    let home = tempfile::tempdir()?;
    let ended = demo(&["--exit", "-o", "json"], &home)?.wait().await?;
    succeeded(&ended);
    is_clean(&ended, &home)?;
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let outcome = Outcome::of(&ended.stdout)?;
    assert_eq!(outcome.application, "web");
    assert_eq!((outcome.placed, outcome.unplaced), (9, 1));
    assert_eq!((outcome.sum("east"), outcome.sum("west")), ((7, 7), (2, 2)));
    let names: Vec<&str> = outcome.clusters.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["east-1", "east-2", "east-3", "west-1", "west-2"]);
    assert!(outcome.member_kubeconfigs.keys().eq(&names));
    assert!(outcome.hub_kubeconfig.ends_with("hub.kubeconfig"));
    let reason = "1 of 10 replicas of Deployment default/web is not placed: no rule claims it";
    assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    Ok(())
}

#[tokio::test]
async fn any_number_of_clusters_gets_seven_and_two() -> Result<()> {
    for (number, east) in [(2, 1), (12, 8)] {
        let home = tempfile::tempdir()?;
        let words = ["--exit", "-o", "json", "--clusters", &number.to_string()];
        let ended = demo(&words, &home)?.wait().await?;
        succeeded(&ended);
        is_clean(&ended, &home)?;
        let outcome = Outcome::of(&ended.stdout)?;
        assert_eq!(
            (outcome.sum("east"), outcome.sum("west")),
            ((7, 7), (2, 2)),
            "{number}"
        );
        assert_eq!(outcome.unplaced, 1, "{number}");
        assert_eq!(outcome.member_kubeconfigs.len(), number);
        let in_east = outcome
            .member_kubeconfigs
            .keys()
            .filter(|name| name.starts_with("east"));
        assert_eq!(in_east.count(), east, "{number}");
    }
    Ok(())
}

#[tokio::test]
async fn bad_values_are_refused_with_the_cause_and_what_to_try() -> Result<()> {
    // One cluster would be a region without another.
    for (words, cause) in [
        (["--clusters", "1"], "1 is not in 2..=500"),
        (["--clusters", "0"], "0 is not in 2..=500"),
        (["--clusters", "501"], "501 is not in 2..=500"),
        (["--clusters", "five"], "invalid digit"),
        (["--output", "yaml"], "text, json"),
        (["--data-dir", "/dev/null/x"], "/dev/null/x"),
    ] {
        let home = tempfile::tempdir()?;
        let words: Vec<&str> = words.into_iter().chain(["--exit"]).collect();
        let ended = demo(&words, &home)?.wait().await?;
        let text = &ended.stderr;
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {text}");
        assert_eq!(ended.stdout, "", "{words:?}");
        for part in ["error: ", "\ncause: ", "\ntry: ", cause] {
            assert!(text.contains(part), "{words:?}: {part:?} is missing in\n{text}");
        }
        is_clean(&ended, &home)?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_delivered_in_time_is_a_failure() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut process = demo(&["--exit", "-o", "json"], &home)?;
    process
        .stderr_line(|line| line.contains("simulated clusters run"))
        .await?;
    // Held still until its time is over: it was at its beginning, and the simulated replicas take a while.
    process.signal(Signal::Stop).await?;
    tokio::time::sleep_until(process.started() + EXIT_WITHIN).await;
    let ended = process.end(Signal::Continue).await?;
    let text = &ended.stderr;
    assert_eq!(ended.status.code(), Some(1), "{text}");
    for part in [
        "error: not everything was delivered",
        "[E-NOT-DELIVERED]",
        "\ncause: ",
        "\ntry: ",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    assert_eq!(ended.stdout, "", "nothing is reported as delivered");
    is_clean(&ended, &home)
}

/// Host and port of the server that a kubeconfig is for.
async fn address(kubeconfig: &str) -> Result<SocketAddr> {
    let url = config(Path::new(kubeconfig)).await?.cluster_url;
    Ok(url.authority().context("no authority")?.as_str().parse()?)
}

#[tokio::test]
async fn ctrl_c_ends_it_cleanly() -> Result<()> {
    for signal in [Signal::Interrupt, Signal::Terminate] {
        let home = tempfile::tempdir()?;
        let mut process = demo(&["-o", "json"], &home)?;
        let outcome = Outcome::of(&process.stdout_line(|line| line.starts_with('{')).await?)?;
        let mut addresses = vec![address(&outcome.hub_kubeconfig).await?];
        for kubeconfig in outcome.member_kubeconfigs.values() {
            addresses.push(address(kubeconfig).await?);
        }
        for address in &addresses {
            assert!(address.ip().is_loopback(), "{address}");
            TcpStream::connect(address).with_context(|| format!("while it runs: {address}"))?;
        }
        process
            .stderr_line(|line| line.contains("look around while this runs"))
            .await?;
        let ended = process.end(signal).await?;
        succeeded(&ended);
        is_clean(&ended, &home)?;
        for address in &addresses {
            assert!(TcpStream::connect(address).is_err(), "{address} is still open");
        }
    }
    Ok(())
}

#[tokio::test]
async fn interrupted_before_the_delivery_exit_fails_and_leaves_nothing() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut process = demo(&["--exit"], &home)?;
    process
        .stderr_line(|line| line.contains("simulated clusters run"))
        .await?;
    assert!(
        !is_empty(home.path())?,
        "the kubeconfigs are in the directory for temporary files"
    );
    let ended = process.end(Signal::Interrupt).await?;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("[E-INTERRUPTED]"), "{}", ended.stderr);
    is_clean(&ended, &home)
}

#[tokio::test]
async fn a_reader_that_has_gone_away_is_no_panic() -> Result<()> {
    let home = tempfile::tempdir()?;
    // `true` reads nothing: the pipe is closed before or while the definitions are printed.
    let mut shell = command(Path::new("sh"), home.path());
    shell
        .args(["-c", r#""$0" crds | true"#])
        .arg(&binaries()?.roundhouse);
    let ended = Process::spawn(shell)?.wait().await?;
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    Ok(())
}

#[tokio::test]
async fn kubeconfigs_in_a_directory_of_ones_own_stay() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir()?;
    let ended = demo(&["--exit", "-o", "json", "--data-dir", "kept"], &home)?
        .wait()
        .await?;
    succeeded(&ended);
    let kept = home.path().join("kept");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&kept)? {
        let entry = entry?;
        assert_eq!(entry.metadata()?.permissions().mode() & 0o777, 0o600, "{entry:?}");
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let clusters = ["east-1", "east-2", "east-3", "hub", "west-1", "west-2"];
    assert_eq!(names, clusters.map(|name| format!("{name}.kubeconfig")));
    let outcome: Value = serde_json::from_str(ended.stdout.lines().last().unwrap_or_default())?;
    // Absolute, wherever the demo was started.
    assert_eq!(
        outcome["hubKubeconfig"],
        serde_json::json!(kept.join("hub.kubeconfig"))
    );
    Ok(())
}
