//! `roundhouse explain`, `clusters`, `cordon`, `uncordon`, `taint` and `label` against a hub that delivers.

use crate::yard::Yard;
use anyhow::{Context, Result, ensure};
use kube::Api;
use roundhouse_api::{
    cluster::{Cluster, TAINT_CORDONED},
    placement::{Taint, TaintEffect},
};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Ended, Process, soon},
    world::{SEED, object},
};
use serde_json::Value;

/// Runs `roundhouse` against the hub; it has to succeed.
pub(crate) async fn done(yard: &Yard, words: &[&str]) -> Result<Ended> {
    let ended = yard.roundhouse(words).await?;
    ensure!(
        ended.status.success(),
        "{words:?}: {}\n{}",
        ended.stdout,
        ended.stderr
    );
    Ok(ended)
}

/// The same; it has to fail with this code, and say what to try.
async fn refused(yard: &Yard, words: &[&str], code: &str) -> Result<Ended> {
    let ended = yard.roundhouse(words).await?;
    assert_eq!(ended.status.code(), Some(1), "{words:?}: {}", ended.stderr);
    for part in [format!("[{code}]"), "\ncause: ".to_owned(), "\ntry: ".to_owned()] {
        assert!(
            ended.stderr.contains(&part),
            "{part:?} is missing in\n{}",
            ended.stderr
        );
    }
    Ok(ended)
}

async fn json(yard: &Yard, words: &[&str]) -> Result<Value> {
    let ended = done(yard, &[words, &["-o", "json"]].concat()).await?;
    serde_json::from_str(&ended.stdout).with_context(|| ended.stdout.clone())
}

async fn cluster(yard: &Yard, name: &str) -> Result<Cluster> {
    Ok(Api::<Cluster>::all(yard.client.clone()).get(name).await?)
}

/// Waits until `explain` says this of the seed's application on west-1.
pub(crate) async fn explained(yard: &Yard, reason: &str) -> Result<Value> {
    soon(&format!("west-1 to be {reason}"), async || {
        let answer = json(yard, &["explain", "web", "--cluster", "west-1"]).await?;
        // Decided and stored, not only foreseen.
        let arithmetic = json(yard, &["explain", "web"]).await?;
        let there = answer["steps"][0]["reason"] == reason && arithmetic["steps"][0]["stored"] == true;
        Ok(if there { Ok(answer) } else { Err(answer) })
    })
    .await
}

#[tokio::test]
async fn a_fleet_is_explained_and_changed_with_its_consequences_first() -> Result<()> {
    let yard = Yard::start().await?;
    yard.deliver_seed().await?;

    let arithmetic = done(&yard, &["explain", "web"]).await?.stdout;
    for part in ["70% of 10 = 7", "20% of 10 = 2", "east-1", "no rule claims 1"] {
        assert!(arithmetic.contains(part), "{part:?} is missing in\n{arithmetic}");
    }
    let placed = explained(&yard, "Placed").await?;
    assert_eq!(placed["steps"][0]["replicas"], 2);
    for words in [
        &["explain", "web"][..],
        &["explain", "web", "--cluster", "west-1"],
    ] {
        let yaml = done(&yard, &[words, &["-o", "yaml"]].concat()).await?.stdout;
        assert_eq!(object(&yaml)?, json(&yard, words).await?, "{words:?}");
    }
    // A proposal of a file, on the fleet of the hub.
    let file = yard.home.path().join("more.yaml");
    std::fs::write(&file, SEED.replace("\"20%\"", "\"30%\""))?;
    let file = file.display().to_string();
    let proposed = json(&yard, &["explain", "web", "--cluster", "west-1", "-f", &file]).await?;
    assert_eq!(proposed["steps"][0]["replicas"], 3, "{proposed}");
    let arithmetic = done(&yard, &["explain", "web", "-f", &file]).await?.stdout;
    for part in ["30% of 10 = 3", "the hub has another Decision stored"] {
        assert!(arithmetic.contains(part), "{part:?} is missing in\n{arithmetic}");
    }
    refused(&yard, &["explain", "api", "-f", &file], "E-APPLICATION").await?;

    let listed = done(&yard, &["clusters"]).await?.stdout;
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 3, "{listed}");
    for (row, name, replicas) in [(1, "east-1", "7"), (2, "west-1", "2")] {
        assert_eq!(
            (rows[row].first(), rows[row].last()),
            (Some(&name), Some(&replicas)),
            "{listed}"
        );
    }
    let west = done(&yard, &["clusters", "-l", "region notin (east)"])
        .await?
        .stdout;
    assert!(west.contains("west-1") && !west.contains("east-1"), "{west}");
    let detail = done(&yard, &["clusters", "east-1"]).await?.stdout;
    assert!(
        detail.contains("region=east") && detail.contains("default/web"),
        "{detail}"
    );
    refused(&yard, &["clusters", "north-1"], "E-CLUSTER").await?;
    refused(&yard, &["clusters", "-l", "a in"], "E-SELECTOR").await?;
    refused(&yard, &["explain", "shop"], "E-APPLICATION").await?;

    // What it would do is told; nothing is done without a yes.
    let before = cluster(&yard, "west-1").await?;
    let relabel = ["label", "west-1", "region=east", "--overwrite"];
    let told = done(&yard, &[&relabel[..], &["--dry-run"]].concat()).await?;
    for part in [
        "decisions of 1 of 1 application would change",
        "default/web  west-1",
        "default/web: 3 replicas without a place (now 1)",
    ] {
        assert!(
            told.stdout.contains(part),
            "{part:?} is missing in\n{}",
            told.stdout
        );
    }
    assert_eq!(told.stderr.trim(), "nothing was written (--dry-run)");
    let asked = refused(&yard, &relabel, "E-CONFIRM").await?;
    assert_eq!(asked.stdout, told.stdout, "the consequences come first");
    refused(&yard, &["label", "west-1", "region=east", "--yes"], "E-LABEL").await?;
    refused(
        &yard,
        &["label", "west-1", "roundhouse.dev/x=y", "--yes"],
        "E-LABEL",
    )
    .await?;
    refused(
        &yard,
        &["taint", "west-1", "gpu:PreferNoSchedule", "--yes"],
        "E-TAINT",
    )
    .await?;
    let same = done(&yard, &["label", "west-1", "region=west"]).await?;
    assert_eq!(same.stdout, "cluster west-1 unchanged\n");
    let after = cluster(&yard, "west-1").await?;
    assert_eq!(
        (&before.spec, &before.metadata.labels),
        (&after.spec, &after.metadata.labels)
    );
    assert_eq!(before.metadata.generation, after.metadata.generation);

    // A taint takes the cluster out; the command that explain names brings it back.
    done(&yard, &["taint", "west-1", "flood:NoExecute", "--yes"]).await?;
    let taints = cluster(&yard, "west-1").await?.spec.taints;
    assert!(
        matches!(
            &taints[..],
            [Taint {
                effect: TaintEffect::NoExecute,
                time_added: Some(_),
                ..
            }]
        ),
        "{taints:?}"
    );
    let out = explained(&yard, "Tainted").await?;
    assert_eq!(out["steps"][0]["decisive"]["asks"], "flood:NoExecute");
    let command = out["steps"][0]["flips"]["ways"][0]["changes"][0]["command"]
        .as_str()
        .context("command")?;
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert_eq!(words, ["taint", "west-1", "flood:NoExecute-"]);
    done(&yard, &[&words[..], &["--yes"]].concat()).await?;
    let back = explained(&yard, "Placed").await?;
    assert_eq!(back["steps"][0]["replicas"], 2);

    // Cordoned, it keeps what it has.
    let told = done(&yard, &["cordon", "east-1", "-y"]).await?;
    assert!(
        told.stdout
            .contains("no decision changes: 1 application would be placed as now"),
        "{}",
        told.stdout
    );
    let taints = cluster(&yard, "east-1").await?.spec.taints;
    assert_eq!(
        taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(),
        [TAINT_CORDONED]
    );
    assert_eq!(
        done(&yard, &["cordon", "east-1"]).await?.stdout,
        "cluster east-1 unchanged\n"
    );
    done(&yard, &["uncordon", "east-1", "-y"]).await?;
    assert!(cluster(&yard, "east-1").await?.spec.taints.is_empty());
    assert_eq!(yard.web("east-1").await?.0, 7);
    Ok(())
}

#[tokio::test]
async fn no_hub_is_needed_for_files() -> Result<()> {
    let home = tempfile::tempdir()?;
    std::fs::write(home.path().join("app.yaml"), SEED)?;
    let inventory = "
- metadata: {name: east-1, labels: {region: east}}
- metadata: {name: lab-1, labels: {region: lab}}
";
    std::fs::write(home.path().join("fleet.yaml"), inventory)?;
    let explain = async |words: &[&str]| {
        let files = ["explain", "web", "-f", "app.yaml", "--inventory", "fleet.yaml"];
        let words = files.iter().chain(words);
        Process::start(&binaries()?.roundhouse, words, home.path())?
            .wait()
            .await
    };
    let all = explain(&[]).await?;
    assert!(all.status.success(), "{}", all.stderr);
    assert!(
        all.stdout.contains("70% of 10 = 7 → 1 cluster by weight"),
        "{}",
        all.stdout
    );
    assert!(
        all.stdout
            .contains("unplaced 2 of rule rule-1: the rule matches no cluster"),
        "{}",
        all.stdout
    );
    let lab = explain(&["--cluster", "lab-1"]).await?;
    for part in [
        "NOT PLACED",
        "← decisive",
        "To include it: label region=west",
        "roundhouse label lab-1 region=",
    ] {
        assert!(
            lab.stdout.contains(part),
            "{part:?} is missing in\n{}",
            lab.stdout
        );
    }
    assert!(!lab.stdout.contains('\u{1b}'), "no colours without a terminal");
    Ok(())
}
