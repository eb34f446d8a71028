//! Helm itself, where it is installed: `cargo test -p roundhouse-e2e --test charts helm -- --ignored`.

use crate::charts;
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::charts::{NAMESPACE, documents};
use serde_json::Value;
use std::{path::Path, process::Command};

/// What Helm prints; `HELM` names another program than `helm`.
fn helm<'a>(words: impl IntoIterator<Item = &'a str>, values: Option<&Path>) -> Result<String> {
    let program = std::env::var("HELM").unwrap_or_else(|_| "helm".to_owned());
    let mut command = Command::new(&program);
    command.args(words);
    if let Some(file) = values {
        command.arg("--values").arg(file);
    }
    let output = command.output().with_context(|| program.clone())?;
    ensure!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Helm orders objects by kind, for installing.
fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
    objects
}

#[test]
#[ignore = "needs Helm"]
fn helm_finds_nothing_amiss_and_renders_the_same_objects() -> Result<()> {
    for (chart, release) in charts()? {
        let directory = chart.directory.to_str().context("a path that is no text")?;
        for (name, given) in chart.cases() {
            let file = chart.directory.join(format!("ci/{name}-values.yaml"));
            let file = (name != "default").then_some(file);
            helm(["lint", "--strict", directory], file.as_deref())?;
            let words = ["template", release, directory, "--namespace", NAMESPACE];
            let theirs = sorted(documents(&helm(words, file.as_deref())?)?);
            let ours = sorted(chart.objects(release, &given)?);
            for (their, our) in theirs.iter().zip(&ours) {
                ensure!(
                    their == our,
                    "{directory} {name}: Helm has\n{their:#}\nand we have\n{our:#}"
                );
            }
            assert_eq!(theirs.len(), ours.len(), "{directory} {name}");
        }
    }
    Ok(())
}
