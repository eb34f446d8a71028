//! One object to the hub: server-side apply, and what came of it.

use super::stale;
use crate::cli::{
    Failure,
    proposals::{Kind, Proposed},
    snapshot::{ABSENT, state_of, unreadable},
    terminal,
};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ApiResource, Patch, PatchParams, ValidationDirective},
    core::{DynamicObject, Status},
};
use roundhouse_api::{application::Application, placement::Placement};
use serde_json::{Value, json};
use std::path::Path;

/// Field manager of what users apply.
const FIELD_MANAGER: &str = "roundhouse";
/// How often an object is read again because its status was written in between.
const TRIES: usize = 10;

/// Sends objects.
#[derive(Clone, Copy)]
pub(super) struct Sender<'a> {
    pub(super) client: &'a Client,
    pub(super) dry_run: bool,
    pub(super) force: bool,
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
        let resource = match proposed.kind {
            Kind::Application => ApiResource::erase::<Application>(&()),
            Kind::Placement => ApiResource::erase::<Placement>(&()),
        };
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &proposed.namespace, &resource);
        let mut tries = 0;
        loop {
            let before = api.get_opt(&proposed.name).await;
            let before = before.map_err(|error| unreadable(&proposed.title(), error))?;
            let mut object = proposed.object.clone();
            if let Some(guard) = guard {
                let now = before.as_ref().map_or_else(|| ABSENT.to_owned(), state_of);
                if now != guard.before {
                    return Err(stale(guard.file).because(format!("{} has changed", proposed.title())));
                }
                // What was looked at is what is replaced.
                if let Some(version) = before.as_ref().and_then(ResourceExt::resource_version) {
                    object["metadata"]["resourceVersion"] = json!(version);
                }
            }
            let answer = api
                .patch(&proposed.name, &self.params(), &Patch::Apply(&object))
                .await;
            tries += 1;
            match answer {
                Err(Error::Api(status)) if guard.is_some() && raced(&status) && tries < TRIES => {}
                Err(error) => return Err(refused(proposed, error)),
                Ok(after) => return terminal::print(&self.line(proposed, before.as_ref(), &after)),
            }
        }
    }

    fn params(self) -> PatchParams {
        PatchParams {
            dry_run: self.dry_run,
            force: self.force,
            field_manager: Some(FIELD_MANAGER.to_owned()),
            field_validation: Some(ValidationDirective::Strict),
        }
    }

    fn line(self, proposed: &Proposed, before: Option<&DynamicObject>, after: &DynamicObject) -> String {
        let done = match before {
            None => "created",
            Some(before) if said(before) == said(after) => "unchanged",
            Some(_) => "configured",
        };
        let dry = if self.dry_run { " (dry run)" } else { "" };
        let kind = proposed.kind.word().to_lowercase();
        format!("{kind} {}/{} {done}{dry}\n", proposed.namespace, proposed.name)
    }
}

/// What users say of an object.
fn said(object: &DynamicObject) -> (Option<&Value>, Value) {
    let metadata = json!([object.labels(), object.annotations(), object.finalizers()]);
    (object.data.get("spec"), metadata)
}

/// Whether somebody wrote the object in between; not that another manager holds a field.
fn raced(status: &Status) -> bool {
    status.code == 409 && !holds_fields(status)
}

fn holds_fields(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "FieldManagerConflict")
}

fn refused(proposed: &Proposed, error: Error) -> Failure {
    let failure = Failure::new(
        "E-APPLY",
        format!("{}: {} was not applied", proposed.place, proposed.title()),
    );
    match error {
        Error::Api(status) if holds_fields(&status) => failure
            .because(status.message)
            .advise("--force-conflicts, to take these fields over; or leave them out of the file"),
        Error::Api(status) if status.code == 404 => {
            let namespace = &proposed.namespace;
            failure
                .because(status.message)
                .advise(format!("kubectl create namespace {namespace}, if it is missing; roundhouse crds, if the hub has never run there"))
        }
        Error::Api(status) => failure
            .because(status.message)
            .advise("what the hub names; objects that were printed before are applied"),
        error => failure
            .because(error)
            .advise("the same again, when the hub answers: what was applied is unchanged then"),
    }
}
