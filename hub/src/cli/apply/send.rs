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
use std::{fmt, path::Path};

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

/// How far it came.
#[derive(Clone, Copy)]
pub(super) struct Applied {
    done: usize,
    of: usize,
}

impl Guard<'_> {
    /// Whether the object is what the plan was made for.
    fn holds(
        self,
        proposed: &Proposed,
        now: Option<&DynamicObject>,
        applied: Applied,
    ) -> Result<(), Failure> {
        let now = now.map_or_else(|| ABSENT.to_owned(), state_of);
        if now == self.before {
            return Ok(());
        }
        let moved = format!("{} has changed", proposed.title());
        Err(stale(self.file, applied).because(moved))
    }
}

impl Applied {
    /// Nothing of so many objects.
    pub(super) fn none(of: usize) -> Applied {
        Applied { done: 0, of }
    }

    /// The failure that ends it, with what was applied before.
    fn told(self, failure: Failure) -> Failure {
        match self.done {
            0 => failure,
            _ => failure.because(self.to_string()),
        }
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.done, self.of) {
            (0, _) => f.write_str("nothing was applied"),
            (1, of) => write!(f, "1 of {of} objects was applied"),
            (done, of) => write!(f, "{done} of {of} objects were applied"),
        }
    }
}

impl Sender<'_> {
    /// Applies objects one after the other and prints what became of each. The guards of all of them are looked at right
    /// before the first is written, so that a plan that does not hold any more is applied in part only if an object
    /// changes while it is.
    ///
    /// # Errors
    /// The hub refuses one or cannot be reached; an object is not what its guard says any more. The failure says how many
    /// were applied.
    pub(super) async fn send_all(self, objects: &[(&Proposed, Option<Guard<'_>>)]) -> Result<(), Failure> {
        let mut applied = Applied::none(objects.len());
        for (proposed, guard) in objects {
            let Some(guard) = guard else { continue };
            let before = self.read(proposed).await?;
            guard.holds(proposed, before.as_ref(), applied)?;
        }
        for (proposed, guard) in objects {
            self.send(proposed, *guard, applied).await?;
            applied.done += 1;
        }
        Ok(())
    }

    fn api(self, proposed: &Proposed) -> Api<DynamicObject> {
        let resource = proposed.kind.resource();
        Api::namespaced_with(self.client.clone(), &proposed.namespace, &resource)
    }

    async fn read(self, proposed: &Proposed) -> Result<Option<DynamicObject>, Failure> {
        let before = self.api(proposed).get_opt(&proposed.name).await;
        before.map_err(|error| unreadable(&proposed.title(), error))
    }

    async fn send(
        self,
        proposed: &Proposed,
        guard: Option<Guard<'_>>,
        applied: Applied,
    ) -> Result<(), Failure> {
        let api = self.api(proposed);
        let wanted: DynamicObject = serde_json::from_value(proposed.object.clone()).map_err(|error| {
            Failure::new("E-INPUT", format!("{} does not read", proposed.place)).because(error)
        })?;
        let mut tries = 0;
        loop {
            let before = self
                .read(proposed)
                .await
                .map_err(|failure| applied.told(failure))?;
            if let Some(guard) = guard {
                guard.holds(proposed, before.as_ref(), applied)?;
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
                Err(error) => return Err(applied.told(refused(proposed, error))),
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
        Error::Api(status) => failure.because(status.message).advise("what the hub names"),
        error => failure
            .because(error)
            .advise("the same again when the hub answers: what was applied is unchanged then"),
    }
}
