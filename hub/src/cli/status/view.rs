//! What is shown of an application: its name, its status, and where it stands.

use super::verdict::{Stands, Verdict, is_delivered, verdict};
use crate::cli::subject::status_of;
use kube::{ResourceExt, api::DynamicObject};
use roundhouse_api::application::ApplicationStatus;
use serde_json::{Value, json};

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

impl StatusView {
    pub(in crate::cli) fn of(application: &DynamicObject) -> StatusView {
        let status = status_of(application);
        let (namespace, name) = (
            application.namespace().unwrap_or_default(),
            application.name_any(),
        );
        let stands = Stands {
            namespace: &namespace,
            name: &name,
            generation: application.metadata.generation,
            deleting: application.metadata.deletion_timestamp.is_some(),
            status: &status,
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
