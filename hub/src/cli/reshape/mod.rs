//! Changes of a cluster that placements see: `cordon`, `uncordon`, `taint` and `label` say what they would move first.

mod draw;
pub(super) mod grammar;
#[cfg(test)]
mod tests;

use super::{Failure, format::Format, hub, terminal};
use crate::fleet::{Impact, impact};
use jiff::Timestamp;
use kube::{Client, ResourceExt};
use roundhouse_api::{
    clock::{Clock, SystemClock},
    cluster::Cluster,
    names::ClusterName,
};
use serde_json::{Map, Value, json};
use std::{
    io::{BufRead, IsTerminal, stdin},
    path::PathBuf,
    process::ExitCode,
};

/// How a cluster is changed.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The cluster
    #[arg(value_name = "CLUSTER", value_parser = |name: &str| ClusterName::new(name))]
    pub(super) cluster: ClusterName,
    /// Go ahead without asking
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Only print what would move
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Output format of what would move
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    pub(super) kubeconfig: Option<PathBuf>,
}

/// What an edit of a cluster did, a line each.
pub(super) type Edited = Result<Vec<String>, Failure>;

/// Changes a cluster as `edit` does, which says what it did, a line each: prints what would move, asks, and writes with
/// the resourceVersion that was looked at as a precondition.
pub(super) async fn change(
    options: &Options,
    edit: impl FnOnce(&mut Cluster, Timestamp) -> Edited,
) -> Result<ExitCode, Failure> {
    let name = &options.cluster;
    let looked = Looked::at(options).await?;
    let now = SystemClock.now();
    let mut after = looked.before.clone();
    let done = edit(&mut after, now)?;
    let Some(patch) = difference(&looked.before, &after) else {
        let answer = || json!({"cluster": name.as_str(), "changed": false});
        let text = options.output.structured(answer)?;
        terminal::print(&text.unwrap_or_else(|| format!("cluster {name} unchanged\n")))?;
        return Ok(ExitCode::SUCCESS);
    };
    if !looked.agreed(options, &after, &done, now)? {
        return Ok(ExitCode::SUCCESS);
    }
    write(&looked.client, name, &patch).await?;
    terminal::tell(format_args!("cluster {name}: {}", done.join(", ")));
    Ok(ExitCode::SUCCESS)
}

/// A hub that was looked at, and the cluster that is to be changed.
pub(super) struct Looked {
    pub(super) client: Client,
    /// The cluster as it is.
    pub(super) before: Cluster,
    known: hub::Known,
}

impl Looked {
    /// Reads the hub.
    ///
    /// # Errors
    /// It cannot be read, or there is no such cluster.
    pub(super) async fn at(options: &Options) -> Result<Looked, Failure> {
        let name = &options.cluster;
        let client = hub::connect(options.kubeconfig.as_deref()).await?;
        let known = hub::read(&client).await?;
        let found = known
            .clusters
            .iter()
            .find(|cluster| cluster.name_any() == name.as_str());
        let Some(before) = found.cloned() else {
            let names: Vec<String> = known.clusters.iter().map(ResourceExt::name_any).collect();
            return Err(hub::no_cluster(name.as_str(), &names, "one of them"));
        };
        Ok(Looked {
            client,
            before,
            known,
        })
    }

    /// Prints what would move if the cluster became `after`, and asks. False if nothing is to be written.
    ///
    /// # Errors
    /// Whoever was asked did not agree, or nobody could be asked.
    pub(super) fn agreed(
        &self,
        options: &Options,
        after: &Cluster,
        done: &[String],
        now: Timestamp,
    ) -> Result<bool, Failure> {
        let impact = impact(&self.known.snapshot, &self.known.applications, after, now);
        let radius = Radius {
            cluster: options.cluster.as_str(),
            done,
            impact: &impact,
        };
        let text = options.output.structured(|| draw::structured(&radius))?;
        terminal::print(&text.unwrap_or_else(|| draw::text(&radius, options.output)))?;
        if options.dry_run {
            terminal::tell(format_args!("nothing was written (--dry-run)"));
            return Ok(false);
        }
        if !options.yes {
            ask(&options.cluster)?;
        }
        Ok(true)
    }
}

/// What a change would move.
struct Radius<'a> {
    cluster: &'a str,
    /// What is changed, a line each.
    done: &'a [String],
    impact: &'a Impact,
}

/// The merge patch from one cluster to the other, labels and taints only, with the resourceVersion of the first as a
/// precondition; `None` if they are the same.
fn difference(before: &Cluster, after: &Cluster) -> Option<Value> {
    let (old, new) = (before.labels(), after.labels());
    let mut labels = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        labels.insert(key.clone(), Value::Null);
    }
    for (key, value) in new.iter().filter(|(key, value)| old.get(*key) != Some(value)) {
        labels.insert(key.clone(), json!(value));
    }
    let mut patch = json!({"metadata": {"resourceVersion": before.resource_version()}});
    let mut differs = false;
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
        differs = true;
    }
    if before.spec.taints != after.spec.taints {
        patch["spec"] = json!({"taints": after.spec.taints});
        differs = true;
    }
    differs.then_some(patch)
}

/// Asks whoever sits at the terminal.
fn ask(name: &ClusterName) -> Result<(), Failure> {
    let unwritten = |code, cause: &str| {
        Failure::new(code, format!("cluster {name} was not changed"))
            .because(cause)
            .advise("--yes to go ahead without a question, --dry-run to only look")
    };
    if !stdin().is_terminal() {
        return Err(unwritten(
            "E-CONFIRM",
            "nobody can be asked: stdin is no terminal",
        ));
    }
    terminal::say("go ahead? [y/N] ");
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    match read.map(|_| line.trim().to_ascii_lowercase()) {
        Ok(answer) if matches!(answer.as_str(), "y" | "yes") => Ok(()),
        Ok(_) => Err(unwritten("E-DECLINED", "the answer was not yes")),
        Err(error) => Err(unwritten(
            "E-CONFIRM",
            &format!("the answer cannot be read: {error}"),
        )),
    }
}

async fn write(client: &Client, name: &ClusterName, patch: &Value) -> Result<(), Failure> {
    let written = hub::patch_cluster(client, name.as_str(), patch).await;
    let what = format!("cluster {name} was not changed");
    written
        .map(drop)
        .map_err(|error| hub::unwritten(what, hub::LOOK_AGAIN, "patch", error))
}
