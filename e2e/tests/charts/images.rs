//! The images are those that the charts run.

use crate::{cases, container, of_kind, strings};
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::charts::directory;
use serde_json::Value;
use std::{collections::BTreeSet, fs, process::Command};

/// The lines of the stage of that name.
fn stage(dockerfile: &str, name: &str) -> Option<Vec<String>> {
    let lines = dockerfile.lines().map(str::to_owned);
    let mut lines =
        lines.skip_while(|line| !(line.starts_with("FROM ") && line.ends_with(&format!(" AS {name}"))));
    let from = lines.next()?;
    let rest = lines.take_while(|line| !line.starts_with("FROM "));
    Some([from].into_iter().chain(rest).collect())
}

#[test]
fn images_are_empty_but_for_the_binary_and_run_as_the_user_of_the_charts() -> Result<()> {
    let text = fs::read_to_string(directory().join("Dockerfile"))?;
    for case in cases()?
        .iter()
        .filter(|case| case.name.ends_with("default values"))
    {
        let pod = of_kind(&case.objects, "Deployment")
            .next()
            .context("no Deployment")?;
        let pod = &pod["spec"]["template"]["spec"];
        let name = container(&case.objects)?["name"].as_str().context("no name")?;
        let stage = stage(&text, name).with_context(|| format!("no stage {name}"))?;
        assert_eq!(
            stage.first().map(String::as_str),
            Some(format!("FROM scratch AS {name}").as_str())
        );
        let context = &pod["securityContext"];
        let user = format!("USER {}:{}", context["runAsUser"], context["runAsGroup"]);
        ensure!(stage.contains(&user), "{name}: no {user} in {stage:?}");
        let binary = if name == "hub" {
            "roundhouse"
        } else {
            "roundhouse-agent"
        };
        let entry = format!("ENTRYPOINT [\"/{binary}\"]");
        ensure!(stage.contains(&entry), "{name}: no {entry} in {stage:?}");
        ensure!(
            !stage.iter().any(|line| line.starts_with("RUN ")),
            "{name}: there is no shell"
        );
        // Where the image has its own entry point, the chart gives arguments only.
        ensure!(container(&case.objects)?.get("command").is_none(), "{name}");
        ensure!(!strings(&container(&case.objects)?["args"]).is_empty(), "{name}");
    }
    Ok(())
}

/// What follows an option on a command line, each time that it is there.
fn after<'a>(words: &[&'a str], options: &[&str]) -> Vec<&'a str> {
    let pairs = words.windows(2);
    pairs
        .filter(|pair| options.contains(&pair[0]))
        .map(|pair| pair[1])
        .collect()
}

/// The binaries of the packages that `cargo build` with these arguments looks at: those that are named, all of them, or the
/// default members of the workspace.
fn selected(arguments: &[&str], metadata: &Value) -> BTreeSet<String> {
    let named = after(arguments, &["-p", "--package"]);
    let all = arguments.contains(&"--workspace");
    let defaults = strings(&metadata["workspace_default_members"]);
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages = packages.filter(|package| {
        let is = |field: &str, names: &[&str]| package[field].as_str().is_some_and(|is| names.contains(&is));
        all || is("name", &named) || (named.is_empty() && is("id", &defaults))
    });
    packages
        .flat_map(|package| package["targets"].as_array().into_iter().flatten())
        .filter(|target| strings(&target["kind"]).contains(&"bin"))
        .filter_map(|target| Some(target["name"].as_str()?.to_owned()))
        .collect()
}

#[test]
fn what_is_built_for_them_are_binaries_of_the_packages_that_are_named() -> Result<()> {
    let text = fs::read_to_string(directory().join("Dockerfile"))?.replace("\\\n", " ");
    let command = text.lines().find(|line| line.starts_with("RUN cargo build "));
    let command = command
        .context("nothing is built")?
        .split("&&")
        .next()
        .unwrap_or_default();
    let arguments: Vec<&str> = command.split_whitespace().collect();
    let asked = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(directory())
        .output()?;
    ensure!(
        asked.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let metadata: Value = serde_json::from_slice(&asked.stdout)?;
    let built = after(&arguments, &["--bin"]);
    assert_eq!(built, ["roundhouse", "roundhouse-agent"], "{command}");
    let there = selected(&arguments, &metadata);
    for binary in built {
        ensure!(
            there.contains(binary),
            "{command}: {binary} is no binary of the packages that are looked at, {there:?}"
        );
    }
    // As it was: the default members have one of the two.
    let before = selected(&["--bin", "roundhouse-agent"], &metadata);
    ensure!(!before.contains("roundhouse-agent"), "{before:?}");
    Ok(())
}
