//! `charts/README.md` says what the charts do.

use crate::charts;
use anyhow::{Context, Result, ensure};
use roundhouse_agent::rights::ON_MEMBER;
use roundhouse_api::rights::{AGENT_CERTIFICATE, AGENT_ON_HUB, AGENT_TOKEN};
use roundhouse_e2e::charts::{directory, generated, rights, values};
use roundhouse_hub::rights::ON_HUB;
use std::{fmt::Write as _, fs};

/// Longer defaults are looked up.
const MAX_DEFAULT: usize = 60;

#[test]
fn the_readme_tells_what_each_right_is_for() -> Result<()> {
    let path = directory().join("README.md");
    for (name, table) in [
        ("rights of the hub", ON_HUB),
        ("rights of the agent", ON_MEMBER),
        ("rights of the agent on the hub", AGENT_ON_HUB),
        ("rights to get a certificate", AGENT_CERTIFICATE),
        ("rights to get a token", AGENT_TOKEN),
    ] {
        for right in table {
            ensure!(!right.why.is_empty(), "{name}: {} has no reason", right.resource);
        }
        generated::section(&path, name, &rights::table(table))?;
    }
    Ok(())
}

#[test]
fn the_readme_has_every_value_with_its_default() -> Result<()> {
    let path = directory().join("README.md");
    for (chart, _) in charts()? {
        let mut text = "| value | default | what |\n| --- | --- | --- |\n".to_owned();
        for one in values::described(&chart.values_text) {
            let pointer = format!("/{}", one.path.replace('.', "/"));
            let default = chart.values.pointer(&pointer).context(one.path.clone())?;
            let default = match default.to_string() {
                long if long.len() > MAX_DEFAULT => "see `values.yaml`".to_owned(),
                short => format!("`{short}`"),
            };
            writeln!(text, "| `{}` | {default} | {} |", one.path, one.comment)?;
        }
        generated::section(&path, &format!("values of {}", chart.metadata.name), &text)?;
    }
    Ok(())
}

#[test]
fn what_the_readme_sets_exists() -> Result<()> {
    let text = fs::read_to_string(directory().join("README.md"))?;
    let charts = charts()?;
    let mut count = 0;
    for words in text.split("--set ").skip(1) {
        let setting = words.split_whitespace().next().unwrap_or_default();
        let (path, _) = setting
            .split_once('=')
            .with_context(|| format!("--set {setting}"))?;
        let pointer = format!("/{}", path.replace('.', "/"));
        let known = charts
            .iter()
            .any(|(chart, _)| chart.values.pointer(&pointer).is_some());
        ensure!(known, "no chart has the value {path}");
        count += 1;
    }
    ensure!(count >= 3, "the README sets {count} values");
    Ok(())
}
