//! The charts in `charts/`: that they render, that an API server takes what comes out, and that rights, flags, ports,
//! definitions and documentation are those of the binaries.

mod admitted;
mod definitions;
mod flags;
mod helm;
mod images;
mod installed;
mod invited;
mod linked;
mod policy;
mod readme;
mod rights;
mod secure;
mod sufficient;
mod values;

use anyhow::{Context, Result};
use roundhouse_e2e::charts::Chart;
use serde_json::Value;

/// Both charts, each with the name of a release.
fn charts() -> Result<[(Chart, &'static str); 2]> {
    let load = |name| Chart::load(name).with_context(|| format!("charts/{name}"));
    Ok([(load("hub")?, "roundhouse"), (load("agent")?, "east-1")])
}

/// What a chart makes of one set of values.
struct Case {
    /// Chart and name of the values, for messages.
    name: String,
    /// Its objects.
    objects: Vec<Value>,
}

/// Every chart with its default values and with those of `ci/`.
fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (chart, release) in charts()? {
        for (name, values) in chart.cases() {
            let name = format!("{} with {name} values", chart.metadata.name);
            let objects = chart.objects(release, &values).with_context(|| name.clone())?;
            cases.push(Case { name, objects });
        }
    }
    Ok(cases)
}

/// The objects of a kind.
fn of_kind<'a>(objects: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// The only container of the only Deployment.
fn container(objects: &[Value]) -> Result<&Value> {
    let deployment = of_kind(objects, "Deployment").next().context("no Deployment")?;
    Ok(&deployment["spec"]["template"]["spec"]["containers"][0])
}

/// The strings of a list.
fn strings(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
