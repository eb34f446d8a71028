//! The images are those that the charts run.

use crate::{cases, container, of_kind, strings};
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::charts::directory;
use std::fs;

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
