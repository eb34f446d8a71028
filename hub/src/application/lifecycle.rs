//! The two ends of an application: its finalizer, and its deletion.

use super::{
    Key, bundles,
    cache::Stored,
    error::PassError,
    pass::{Hub, Outcome},
    removing, status,
};
use crate::writes;
use kube::api::Patch;
use roundhouse_api::{application::ApplicationPhase, bundle::BundleSpec, names::APPLICATION_FINALIZER};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The server still lists Bundles where the cache has none, and one of them is behind: it is asked again so much later.
const LIST_AGAIN: Duration = Duration::from_secs(5);

/// Why an application stays whose Bundles are all gone.
const SENT: &str = "; a bundle was sent, and nobody has answered: it may arrive within ten minutes, and is waited for so long";

/// Why an application stays of which the hub knows no Bundle any more.
const BEHIND: &str = "the API server lists bundles of it that have not been seen here: it is asked again";

/// On whose behalf and on what terms its objects are removed; as the agents do it by themselves, if its spec is not understood.
fn terms(app: &Stored) -> BundleSpec {
    let object: Value = serde_json::from_slice(&app.bytes).unwrap_or_default();
    let valid = object.get("spec").and_then(|spec| app.understand(spec).ok());
    valid.map_or_else(BundleSpec::default, |valid| {
        bundles::terms(&valid, &app.namespace)
    })
}

impl Hub {
    pub(super) async fn delete(&self, key: &Key, app: Arc<Stored>) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        // Nobody waits for its steps any more.
        self.jobs.give_up(&key.0, &key.1);
        self.watches.give_up(&key.0, &key.1);
        let ours = app.finalizers.iter().any(|f| f == APPLICATION_FINALIZER);
        if !ours {
            return Ok(outcome);
        }
        let owed = removing::owed(&app, &self.cache.all_bundles(key), &self.cache.fleet());
        let owed = removing::with_application(&app, owed);
        let terms = terms(&app);
        let told = removing::tell_owed(self.writer(key), &app, &terms, owed).await;
        let mut written = told.written;
        // Confirm, delete, and release what needs no agent: at most three writes for a Bundle.
        for _ in 0..3 {
            let done = removing::delete(self.writer(key), &app, &self.cache.all_bundles(key)).await;
            let again = done.count > 0 && done.error.is_none();
            written = written.and(done);
            if !again {
                break;
            }
        }
        let observed = self.cache.all_bundles(key);
        let mut status = app.status.clone();
        let now = self.clock.now();
        let may_be_made = self.cache.unanswered().may_be_made(key);
        let mut message = removing::waiting(&observed, &told.left, &self.cache.fleet());
        let is_clean = observed.is_empty() && told.left.is_empty();
        outcome.wake_after(&written);
        if is_clean && app.status.phase == Some(ApplicationPhase::Deleting) && app.status.let_go.is_empty() {
            outcome.error = written.error;
            return self.release(&app, message, may_be_made, outcome).await;
        }
        if let Some(error) = written.error.as_ref().filter(|error| !error.is_conflict()) {
            message = format!("{error}; {message}");
        }
        status::deleting(&mut status, message.clone(), app.generation, now);
        status::clusters_seen(&mut status, self.cache.sees_clusters(), app.generation, now);
        // Who has a Bundle again is told by that.
        status.let_go = told.left;
        let moved = status.let_go != app.status.let_go;
        let app = self.store(&app, status, moved, &mut outcome).await?;
        outcome.error = written.error;
        match is_clean {
            true => self.release(&app, message, may_be_made, outcome).await,
            false => Ok(outcome),
        }
    }

    /// Lets an application go of which nothing is left, and says what is in the way of that. `clean` is what is said otherwise;
    /// `may_be_made` for how long a Bundle may still arrive.
    async fn release(
        &self,
        app: &Arc<Stored>,
        clean: String,
        may_be_made: Option<Duration>,
        mut outcome: Outcome,
    ) -> Result<Outcome, PassError> {
        let answer = match removing::any_left(self.writer(&app.key()), app).await {
            Ok(true) => {
                outcome.wake(LIST_AGAIN);
                return self.say_deleting(app, BEHIND.to_owned(), false, outcome).await;
            }
            Ok(false) => match may_be_made {
                // Nobody would take it away when its application is gone.
                Some(left) => {
                    outcome.wake(left);
                    return self.say_deleting(app, clean + SENT, false, outcome).await;
                }
                None => self.unfinalize(app).await,
            },
            Err(error) => Err(error),
        };
        match answer {
            Ok(None) => Ok(outcome),
            Ok(Some(held)) => {
                let others = held.finalizers.join(", ");
                let message = format!("{clean}, and finalizers of others are on it: {others}");
                // No pass looks at it after this one.
                self.say_deleting(&held, message, true, outcome).await
            }
            Err(error) if error.is_conflict() => Err(error),
            Err(error) => {
                let message = error.to_string();
                outcome.error = outcome.error.or(Some(error));
                self.say_deleting(app, message, false, outcome).await
            }
        }
    }

    /// Takes the hub's finalizer off; the application as it is then, if others hold it.
    async fn unfinalize(&self, app: &Arc<Stored>) -> Result<Option<Arc<Stored>>, PassError> {
        let kept = app.finalizers.iter().filter(|f| *f != APPLICATION_FINALIZER);
        let kept: Vec<_> = kept.collect();
        match self.patch(app, json!({"finalizers": kept}), "releasing it").await {
            Ok(released) => Ok(Some(released).filter(|_| !kept.is_empty())),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn say_deleting(
        &self,
        app: &Arc<Stored>,
        message: String,
        urgent: bool,
        mut outcome: Outcome,
    ) -> Result<Outcome, PassError> {
        let mut status = app.status.clone();
        status::deleting(&mut status, message, app.generation, self.clock.now());
        self.store(app, status, urgent, &mut outcome).await?;
        Ok(outcome)
    }

    pub(super) async fn finalize(&self, app: Arc<Stored>) -> Result<Arc<Stored>, PassError> {
        if app.finalizers.iter().any(|f| f == APPLICATION_FINALIZER) {
            return Ok(app);
        }
        let finalizers: Vec<_> = app
            .finalizers
            .iter()
            .map(String::as_str)
            .chain([APPLICATION_FINALIZER])
            .collect();
        self.patch(
            &app,
            json!({"finalizers": finalizers}),
            "putting a finalizer on it",
        )
        .await
    }

    async fn patch(&self, app: &Stored, mut metadata: Value, doing: &str) -> Result<Arc<Stored>, PassError> {
        metadata["resourceVersion"] = json!(app.resource_version);
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let answer = self
            .applications(&app.namespace)
            .patch(&app.name, &writes::patch(), &patch)
            .await;
        let object = answer.map_err(|error| PassError::api(&app.title(), doing, error))?;
        self.answered(object)
    }
}
