//! What kubectl 1.32 prints, word for word: the transcripts beside this file are run against a bare API server.
//!
//! `ROUNDHOUSE_TRANSCRIPTS=write` writes them anew; look at the difference.

use super::bare::Bare;
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::{
    process::Process,
    transcript::{Part, parse, printed, write},
};
use std::path::{Path, PathBuf};
use tokio::process::Command;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl")
}

/// kubectl of another version says some things in other words.
async fn is_the_version() -> Result<bool> {
    let mut command = Command::new("kubectl");
    command.args(["version", "--client", "-o", "yaml"]);
    let version = Process::spawn(command)?.wait().await?.stdout;
    let is = version.contains("gitVersion: v1.32.");
    if !is {
        println!("skipped: the transcripts are of kubectl 1.32, here is\n{version}");
    }
    Ok(is)
}

async fn run(name: &str, arguments: &[&str]) -> Result<()> {
    let Some(bare) = Bare::start_with(arguments).await? else {
        return Ok(());
    };
    if !is_the_version().await? {
        return bare.end().await;
    }
    let here = bare.home.path();
    for manifest in std::fs::read_dir(directory().join("manifests"))? {
        let manifest = manifest?;
        std::fs::copy(manifest.path(), here.join(manifest.file_name()))?;
    }
    let file = directory().join("transcripts").join(name).with_extension("txt");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let mut parts = parse(&text);
    for part in &mut parts {
        let Part::Step(step) = part else { continue };
        let mut command = Command::new("sh");
        command.args(["-c", &step.command]).current_dir(here);
        command
            .env("KUBECONFIG", bare.kubeconfig())
            .env("HOME", here)
            .env("LC_ALL", "C");
        for variable in ["KUBE_EDITOR", "EDITOR", "KUBECTL_APPLYSET"] {
            command.env_remove(variable);
        }
        let ended = Process::spawn(command)?.wait().await?;
        let code = ended.status.code().unwrap_or(-1);
        step.output = printed(&ended.stdout, &ended.stderr, code);
    }
    bare.end().await?;
    let seen = write(&parts);
    if std::env::var_os("ROUNDHOUSE_TRANSCRIPTS").is_some_and(|what| what == "write") {
        std::fs::write(&file, seen)?;
        return Ok(());
    }
    let differs = text.lines().zip(seen.lines()).position(|(was, is)| was != is);
    let at = differs.unwrap_or_else(|| text.lines().count().min(seen.lines().count()));
    let around = |text: &str| -> String {
        let lines = text.lines().skip(at.saturating_sub(3)).take(8);
        lines.map(|line| format!("    {line}\n")).collect()
    };
    ensure!(
        text == seen,
        "{name}.txt differs from line {}; expected\n{}but it was\n{}",
        at + 1,
        around(&text),
        around(&seen)
    );
    Ok(())
}

macro_rules! transcripts {
    ($($name:ident $(with $arguments:literal)?;)+) => {
        $(#[tokio::test]
        async fn $name() -> Result<()> {
            run(stringify!($name), &[$($arguments)?]).await
        })+
    };
}

transcripts! {
    get;
    describe;
    apply;
    change;
    label;
    scale;
    rollout with "--simulate-workloads";
    create;
    delete;
    wait;
    explain;
    nodes;
    rights;
    misc;
}
