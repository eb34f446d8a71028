//! What is shown of an application: its name, its status, and where it stands.

use super::verdict::{Stands, Verdict, is_delivered, verdict};
use crate::cli::subject::status_of;
use kube::{ResourceExt, api::DynamicObject};
use roundhouse_api::application::{ApplicationStatus, StepKind, validate};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// An application at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct StatusView {
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    pub(in crate::cli) generation: Option<i64>,
    pub(in crate::cli) deleting: bool,
    pub(in crate::cli) status: ApplicationStatus,
    pub(in crate::cli) verdict: Verdict,
    /// The run of the present spec has succeeded, ready or not.
    pub(in crate::cli) delivered: bool,
}

/// Steps that suspend a run for a time only.
pub(in crate::cli) fn timers(application: &DynamicObject) -> BTreeMap<String, Duration> {
    let Some(Ok(valid)) = application.data.get("spec").map(validate) else {
        return BTreeMap::new();
    };
    let timer = |step: &roundhouse_api::application::ValidStep| match &step.kind {
        StepKind::Suspend(suspend) => Some((step.name.clone(), suspend.duration?)),
        _ => None,
    };
    valid.all_steps().filter_map(timer).collect()
}

impl StatusView {
    pub(in crate::cli) fn of(application: &DynamicObject) -> StatusView {
        let status = status_of(application);
        let (namespace, name) = (
            application.namespace().unwrap_or_default(),
            application.name_any(),
        );
        let timers = timers(application);
        let stands = Stands {
            namespace: &namespace,
            name: &name,
            generation: application.metadata.generation,
            deleting: application.metadata.deletion_timestamp.is_some(),
            status: &status,
            timers: &timers,
        };
        StatusView {
            verdict: verdict(&stands),
            delivered: is_delivered(&stands),
            generation: stands.generation,
            deleting: stands.deleting,
            namespace,
            name,
            status,
        }
    }

    /// The revision that is delivered or was delivered last.
    pub(in crate::cli) fn revision(&self) -> Option<&str> {
        let run = self.status.workflow.as_ref();
        let of_run = run.and_then(|run| run.app_revision.as_deref());
        of_run.or_else(|| {
            self.status
                .latest_revision
                .as_ref()
                .map(|latest| latest.name.as_str())
        })
    }

    pub(in crate::cli) fn structured(&self) -> Value {
        json!({
            "namespace": self.namespace,
            "name": self.name,
            "generation": self.generation,
            "deleting": self.deleting,
            "revision": self.revision(),
            "state": self.verdict.state.word(),
            "exitStatus": self.verdict.state.code(),
            "headline": self.verdict.headline,
            "why": self.verdict.why,
            "try": self.verdict.advice,
            "status": self.status,
        })
    }
}
