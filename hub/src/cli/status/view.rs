//! What is shown of an application: its name, its status, and where it stands.

use super::verdict::{Stands, Verdict, is_delivered, verdict};
use crate::cli::subject::status_of;
use kube::{ResourceExt, api::DynamicObject};
use roundhouse_api::{
    application::{ApplicationStatus, StepKind, ValidStep, validate},
    names::annotation,
};
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
    /// What people call the steps, by their names.
    pub(in crate::cli) aliases: BTreeMap<String, String>,
}

/// What the spec says of its steps, by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::cli) struct Written {
    /// Steps that suspend a run for a time only.
    pub(in crate::cli) timers: BTreeMap<String, Duration>,
    /// What people call them.
    pub(in crate::cli) aliases: BTreeMap<String, String>,
}

impl Written {
    /// Of a spec that is not understood nothing is known.
    pub(in crate::cli) fn of(application: &DynamicObject) -> Written {
        let Some(Ok(valid)) = application.data.get("spec").map(validate) else {
            return Written::default();
        };
        let timer = |step: &ValidStep| match &step.kind {
            StepKind::Suspend(suspend) => Some((step.name.clone(), suspend.duration?)),
            _ => None,
        };
        let alias = |step: &ValidStep| Some((step.name.clone(), step.alias.clone()?));
        Written {
            timers: valid.all_steps().filter_map(timer).collect(),
            aliases: valid.all_steps().filter_map(alias).collect(),
        }
    }
}

/// The hash of the removals that a person has confirmed last.
pub(in crate::cli) fn confirmed(application: &DynamicObject) -> Option<&str> {
    let annotations = application.metadata.annotations.as_ref()?;
    annotations.get(annotation::CONFIRM_DELETES).map(String::as_str)
}

impl StatusView {
    pub(in crate::cli) fn of(application: &DynamicObject) -> StatusView {
        let status = status_of(application);
        let (namespace, name) = (
            application.namespace().unwrap_or_default(),
            application.name_any(),
        );
        let written = Written::of(application);
        let stands = Stands {
            namespace: &namespace,
            name: &name,
            generation: application.metadata.generation,
            deleting: application.metadata.deletion_timestamp.is_some(),
            status: &status,
            timers: &written.timers,
            confirmed: confirmed(application),
        };
        StatusView {
            verdict: verdict(&stands),
            delivered: is_delivered(&stands),
            generation: stands.generation,
            deleting: stands.deleting,
            aliases: written.aliases,
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

    /// The name of a step, with what people call it: `east (East first)`.
    pub(in crate::cli) fn step_title(&self, name: &str) -> String {
        match self.aliases.get(name) {
            Some(alias) => format!("{name} ({alias})"),
            None => name.to_owned(),
        }
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
            "aliases": self.aliases,
            "status": self.status,
        })
    }
}
