//! `roundhouse simulate` as a process: what it prints, how it ends, and that a seed is a run.

use anyhow::{Context, Result, ensure};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Ended, Process},
    world::SEED,
};
use serde_json::Value;
use std::path::Path;

async fn simulate(home: &Path, words: &[&str]) -> Result<Ended> {
    let all = ["simulate", "-f", "app.yaml"].iter().chain(words);
    let ended = Process::start(&binaries()?.roundhouse, all, home)?.wait().await?;
    for text in [&ended.stdout, &ended.stderr] {
        ensure!(!text.contains('\u{1b}') && !text.contains("panicked"), "{text}");
    }
    Ok(ended)
}

#[tokio::test]
async fn a_lost_region_comes_back_and_the_same_seed_tells_the_same_story() -> Result<()> {
    let home = tempfile::tempdir()?;
    std::fs::write(home.path().join("app.yaml"), SEED)?;
    let words = [
        "--clusters",
        "5",
        "--lose",
        "region=west",
        "--patience",
        "2m",
        "--seed",
        "7",
        "-o",
        "json",
    ];
    let first = simulate(home.path(), &words).await?;
    ensure!(first.status.code() == Some(0), "{}{}", first.stdout, first.stderr);
    let told: Value = serde_json::from_str(&first.stdout)?;
    assert_eq!(
        (&told["delivered"], &told["broken"]),
        (&true.into(), &serde_json::json!([]))
    );
    assert_eq!(told["clusters"], 5);
    assert_eq!(told["decisions"][0]["step"], "step-0", "{}", told["decisions"]);
    let timeline = told["timeline"].as_array().context("no timeline")?;
    let at = |what: &str| {
        let found = timeline
            .iter()
            .position(|event| event["what"].as_str().is_some_and(|text| text.starts_with(what)));
        found.with_context(|| format!("{what:?} is not told: {timeline:?}"))
    };
    assert!(at("cut off from the hub")? < at("nothing further happens")?);
    assert!(at("nothing further happens")? < at("all faults end")?);
    assert!(at("all faults end")? < at("everything is delivered")?);
    // Another process has other addresses and other hashes.
    assert_eq!(simulate(home.path(), &words).await?.stdout, first.stdout);
    let mut others = words;
    others[7] = "8";
    assert_ne!(simulate(home.path(), &others).await?.stdout, first.stdout);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_delivered_is_named_and_nothing_is_broken() -> Result<()> {
    let home = tempfile::tempdir()?;
    std::fs::write(home.path().join("app.yaml"), SEED)?;
    let words = [
        "--clusters",
        "5",
        "--fail",
        "step-0:40%",
        "--forever",
        "--patience",
        "5m",
    ];
    let ended = simulate(home.path(), &words).await?;
    ensure!(ended.status.code() == Some(0), "{}{}", ended.stdout, ended.stderr);
    for part in [
        "not everything is delivered after",
        "waits:\n",
        "failed",
        "none broken",
    ] {
        assert!(
            ended.stdout.contains(part),
            "{part:?} is missing:\n{}",
            ended.stdout
        );
    }
    let words = [
        "--clusters",
        "5",
        "--lose",
        "region=west",
        "--forever",
        "--until",
        "delivered",
        "--within",
        "10m",
    ];
    let ended = simulate(home.path(), &words).await?;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    assert!(
        ended.stderr.starts_with(
            "error: the run did not go as it was asked for [E-SIMULATION]\ncause: not delivered after"
        ),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("c4, c5 are cut off"), "{}", ended.stderr);
    let ended = simulate(home.path(), &["--lose", "region=nord"]).await?;
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended
            .stderr
            .starts_with("error: --lose: no cluster is \"region=nord\" [E-CLUSTERS]"),
        "{}",
        ended.stderr
    );
    Ok(())
}
