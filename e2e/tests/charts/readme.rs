//! `charts/README.md` says what the charts do.

use crate::{admitted, charts};
use anyhow::{Context, Result, ensure};
use kube::{
    Client,
    discovery::{self, Discovery},
};
use roundhouse_agent::rights::ON_MEMBER;
use roundhouse_api::{
    application::validate,
    rights::{AGENT_CERTIFICATE, AGENT_ON_HUB, AGENT_TOKEN, Right, Scope},
};
use roundhouse_apiserver::Server;
use roundhouse_e2e::charts::{directory, generated, rights, values};
use roundhouse_hub::{
    render,
    rights::{OF_STEPS, ON_HUB},
    tenancy::{AllowList, violations},
};
use serde_json::json;
use std::{collections::BTreeMap, fmt::Write as _, fs};

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

/// Resources that have a namespace, with the apiVersion and the kind of each, as a hub serves them.
async fn namespaced() -> Result<BTreeMap<(String, String), (String, String)>> {
    let client = Client::new(Server::builder().seed(1).build().service(), "default");
    admitted::define(&client, &charts()?[0].0).await?;
    let discovered = Discovery::new(client).run().await?;
    let all = discovered
        .groups()
        .flat_map(|group| group.recommended_resources());
    let own = all.filter(|(_, capabilities)| capabilities.scope == discovery::Scope::Namespaced);
    Ok(own
        .map(|(kind, _)| ((kind.group, kind.plural), (kind.api_version, kind.kind)))
        .collect())
}

/// Whether an Application may have a step of this type for an object of this kind on the hub, and that of a tenant, too.
fn may_have(step: &str, api_version: &str, kind: &str) -> (bool, bool) {
    let properties = match step {
        "apply-object" => {
            json!({"value": {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}})
        }
        _ => json!({"apiVersion": api_version, "kind": kind, "name": "x"}),
    };
    let spec = json!({
        "components": [{"name": "x", "type": "webservice", "properties": {"image": "x"}}],
        "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{}]}}],
        "workflow": {"steps": [{"type": "deploy", "properties": {"policies": ["all"]}},
            {"type": step, "properties": properties}]}});
    let Ok(valid) = validate(&spec) else {
        return (false, false);
    };
    let (rendered, variants) = (
        render::render("team-a", "x", &valid),
        render::variants("team-a", "x", &valid),
    );
    let found = violations("team-a", &valid, &rendered, &variants, &AllowList::default());
    (true, found.is_empty())
}

#[tokio::test]
async fn the_readme_tells_what_steps_reach_without_further_rights() -> Result<()> {
    let kinds = namespaced().await?;
    let mut text =
        "| step | needs | reaches | under `tenancy: namespace` |\n| --- | --- | --- | --- |\n".to_owned();
    for (steps, verbs) in OF_STEPS {
        let allows = |verb: &str, group: &str, resource: &str| {
            let everywhere = ON_HUB.iter().filter(|right| right.scope == Scope::Cluster);
            everywhere
                .into_iter()
                .any(|right: &Right| right.allows(verb, group, resource, ""))
        };
        let (mut reached, mut of_tenants) = (Vec::new(), Vec::new());
        for ((group, resource), (api_version, kind)) in &kinds {
            let named = may_have(steps[0], api_version, kind);
            if verbs.iter().all(|verb| allows(verb, group, resource)) && named.0 {
                reached.push(kind.as_str());
                of_tenants.extend(named.1.then_some(kind.as_str()));
            }
        }
        let list = |kinds: &[&str]| match kinds {
            [] => "none".to_owned(),
            kinds => format!("`{}`", kinds.join("`, `")),
        };
        let of_tenants = match of_tenants == reached {
            true => "the same".to_owned(),
            false => list(&of_tenants),
        };
        let (steps, verbs) = (list(steps), verbs.join(", "));
        writeln!(text, "| {steps} | {verbs} | {} | {of_tenants} |", list(&reached))?;
    }
    generated::section(&directory().join("README.md"), "reach of steps", &text)
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
