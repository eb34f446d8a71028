//! One object to the hub: created, or given the spec that was written, and what came of it.

use super::stale;
use crate::cli::{
    Failure,
    hub::unreadable,
    proposals::Proposed,
    snapshot::{ABSENT, state_of},
    terminal,
};
use kube::{Api, Client, Error, ResourceExt, api::PostParams, core::DynamicObject};
use serde_json::Value;
use std::path::Path;

/// Field manager of what users apply.
const FIELD_MANAGER: &str = "roundhouse";
/// How often an object is read again because somebody wrote it in between: the hub writes its status.
const TRIES: usize = 10;

/// Sends objects.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) client: &'a Client,
    pub(super) dry_run: bool,
}

/// What an object has to be when it is replaced.
#[derive(Clone, Copy)]
pub(super) struct Guard<'a> {
    /// Its digest, or [`ABSENT`].
    pub(super) before: &'a str,
    /// The plan that says so.
    pub(super) file: &'a Path,
}

impl Sender<'_> {
    /// Applies one object and prints what became of it.
    ///
    /// # Errors
    /// The hub refuses it or cannot be reached; the object is not what the guard says any more.
    pub(super) async fn send(self, proposed: &Proposed, guard: Option<Guard<'_>>) -> Result<(), Failure> {
        let resource = proposed.kind.resource();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &proposed.namespace, &resource);
        let wanted: DynamicObject = serde_json::from_value(proposed.object.clone()).map_err(|error| {
            Failure::new("E-INPUT", format!("{} does not read", proposed.place)).because(error)
        })?;
        let mut tries = 0;
        loop {
            let before = api.get_opt(&proposed.name).await;
            let before = before.map_err(|error| unreadable(&proposed.title(), error))?;
            if let Some(guard) = guard {
                let now = before.as_ref().map_or_else(|| ABSENT.to_owned(), state_of);
                if now != guard.before {
                    let moved = format!("{} has changed", proposed.title());
                    return Err(stale(guard.file).because(moved));
                }
            }
            let answer = match &before {
                None => api.create(&self.params(), &wanted).await.map(|_| "created"),
                Some(before) => {
                    let next = replaced(before, &wanted);
                    if said(&next) == said(before) {
                        return self.print(proposed, "unchanged");
                    }
                    // With the version that was looked at: a write in between is seen.
                    let answer = api.replace(&proposed.name, &self.params(), &next).await;
                    answer.map(|_| "configured")
                }
            };
            tries += 1;
            match answer {
                Err(Error::Api(status)) if status.code == 409 && tries < TRIES => {}
                Err(error) => return Err(refused(proposed, error)),
                Ok(done) => return self.print(proposed, done),
            }
        }
    }

    fn params(self) -> PostParams {
        PostParams {
            dry_run: self.dry_run,
            field_manager: Some(FIELD_MANAGER.to_owned()),
        }
    }

    fn print(self, proposed: &Proposed, done: &str) -> Result<(), Failure> {
        let dry = if self.dry_run { " (dry run)" } else { "" };
        let kind = proposed.kind.word().to_lowercase();
        terminal::print(&format!(
            "{kind} {}/{} {done}{dry}\n",
            proposed.namespace, proposed.name
        ))
    }
}

/// The object that is there with the spec that is wanted, and the wanted labels and annotations beside its own.
fn replaced(before: &DynamicObject, wanted: &DynamicObject) -> DynamicObject {
    let mut next = before.clone();
    next.metadata.managed_fields = None;
    next.labels_mut().extend(wanted.labels().clone());
    next.annotations_mut().extend(wanted.annotations().clone());
    if let (Value::Object(next), Some(spec)) = (&mut next.data, wanted.data.get("spec")) {
        next.insert("spec".to_owned(), spec.clone());
    }
    next
}

/// What users say of an object.
fn said(object: &DynamicObject) -> [Value; 3] {
    let text = |map| serde_json::to_value(map).unwrap_or_default();
    [
        object.data.get("spec").cloned().unwrap_or_default(),
        text(object.labels()),
        text(object.annotations()),
    ]
}

fn refused(proposed: &Proposed, error: Error) -> Failure {
    let what = format!("{}: {} was not applied", proposed.place, proposed.title());
    let failure = Failure::new("E-APPLY", what);
    match error {
        Error::Api(status) if status.code == 404 => {
            let namespace = &proposed.namespace;
            failure.because(status.message).advise(format!(
                "kubectl create namespace {namespace}, if it is missing; roundhouse crds, if no hub has run there"
            ))
        }
        Error::Api(status) => failure
            .because(status.message)
            .advise("what the hub names; objects that were printed before are applied"),
        error => failure
            .because(error)
            .advise("the same again when the hub answers: what was applied is unchanged then"),
    }
}
