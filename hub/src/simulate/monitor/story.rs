//! What becomes of applications and clusters, in sentences for people.

use super::commit::Commit;
use crate::simulate::HUB;
use roundhouse_api::{
    application::Application,
    bundle::{Bundle, BundlePhase},
    cluster::{AVAILABLE, Cluster},
    condition,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

/// Sentences that are kept: a story that is longer has told what it is about.
const MOST: usize = 20_000;

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// So long after the start of the monitor, in tokio's time.
    pub at: Duration,
    /// Of whom, where it may happen to many.
    pub who: Option<String>,
    /// What.
    pub what: String,
}

/// The sentences so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Story(pub(super) Vec<Told>);

impl Story {
    /// Takes a write in.
    pub(super) fn take(&mut self, commit: &Commit) {
        if &*commit.server != HUB || self.0.len() >= MOST {
            return;
        }
        let mut tell = |who: Option<&str>, what: String| {
            let who = who.map(str::to_owned);
            let at = commit.at;
            self.0.push(Told { at, who, what });
        };
        match &*commit.key.table {
            "applications.core.oam.dev" => {
                let (before, after) = (read(commit.before()), read(commit.after()));
                for what in steps(before.as_ref(), after.as_ref()) {
                    tell(
                        None,
                        format!("{}/{}: {what}", commit.key.namespace, commit.key.name),
                    );
                }
            }
            "clusters.roundhouse.dev" => {
                let available = |value: &Value| {
                    let status = read::<Cluster>(value)?.status?;
                    Some(condition::is_true(&status.conditions, AVAILABLE))
                };
                let (before, after) = (available(commit.before()), available(commit.after()));
                if let Some(now) = after
                    && now != before.unwrap_or(false)
                {
                    let what = if now { "available" } else { "not available" };
                    tell(Some(&*commit.key.name), what.to_owned());
                }
            }
            "bundles.roundhouse.dev" => {
                let failed = |value: &Value| {
                    let status = read::<Bundle>(value)?.status?;
                    Some(status.phase == Some(BundlePhase::Failed))
                };
                if failed(commit.after()) == Some(true) && failed(commit.before()) != Some(true) {
                    let cluster = commit.key.namespace.trim_start_matches("cluster-");
                    tell(Some(cluster), format!("bundle {} failed", commit.key.name));
                }
            }
            _ => {}
        }
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}

/// What has changed of an application: its phase, and those of its steps.
fn steps(before: Option<&Application>, after: Option<&Application>) -> Vec<String> {
    let phases = |application: Option<&Application>| -> BTreeMap<String, (String, String)> {
        let status = application.and_then(|application| application.status.as_ref());
        let steps = status.and_then(|status| status.workflow.as_ref());
        let steps = steps.into_iter().flat_map(|workflow| workflow.all_steps());
        steps
            .map(|step| {
                let message = step.message.clone().unwrap_or_default();
                (step.name.clone(), (format!("{:?}", step.phase), message))
            })
            .collect()
    };
    let mut told = Vec::new();
    let was = phases(before);
    for (step, (phase, message)) in phases(after) {
        if was.get(&step).is_none_or(|(before, _)| *before != phase) {
            let why = if message.is_empty() {
                String::new()
            } else {
                format!(": {message}")
            };
            told.push(format!("step {step} is {phase}{why}"));
        }
    }
    let phase = |application: Option<&Application>| application?.status.as_ref()?.phase;
    if let Some(now) = phase(after)
        && phase(before) != Some(now)
    {
        told.push(format!("{now:?}"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn application(phase: &str, step: &str) -> Option<Application> {
        let object = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": "web"},
            "spec": {"components": []}, "status": {"phase": phase, "workflow": {"steps": [
                {"name": "east", "type": "deploy", "phase": step, "message": "waits"}]}}});
        serde_json::from_value(object).ok()
    }

    #[test]
    fn a_change_of_a_phase_is_told_once() {
        let (first, second) = (
            application("runningWorkflow", "running"),
            application("running", "succeeded"),
        );
        assert!(first.is_some() && second.is_some());
        assert_eq!(
            steps(first.as_ref(), second.as_ref()),
            ["step east is Succeeded: waits", "Running"]
        );
        assert_eq!(steps(second.as_ref(), second.as_ref()), Vec::<String>::new());
    }
}
