//! Writing an Application's status: only when it differs, and not too often.

use super::{
    cache::Stored,
    error::PassError,
    events::{About, ended, transitions},
    feed::application_resource,
    pass::{Hub, Outcome},
    status,
};
use crate::writes;
use kube::{Api, core::DynamicObject};
use roundhouse_api::application::ApplicationStatus;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// At most one status write in this time, unless a step changes.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

impl Hub {
    pub(super) fn applications(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &application_resource())
    }

    /// Tells and counts what moved with a status that was written just now.
    fn tell(&self, app: &Stored, status: &ApplicationStatus) {
        let now = self.clock.now();
        let moved = transitions(&app.status, status);
        self.recorder.tell(&About::of(app), moved, now);
        ended(&self.metrics, &app.status, status, now);
    }

    /// Makes sure that the server has the application as it is known here, before anything is written that follows from it and
    /// whose own version would not tell: the watch may have fallen silent, or have begun with a list out of a cache that fell
    /// behind, while the Bundles are as another hub left them.
    ///
    /// # Errors
    /// [`PassError::Conflict`]: it has another one, which is known from here on, or none, which only the watch says for good.
    pub(super) async fn prove(&self, app: &Stored) -> Result<(), PassError> {
        let found = self.applications(&app.namespace).get_opt(&app.name).await;
        let found = found.map_err(|error| PassError::api(&app.title(), "reading it", error))?;
        if found
            .as_ref()
            .and_then(|found| found.metadata.resource_version.as_ref())
            == Some(&app.resource_version)
        {
            return Ok(());
        }
        if let Some(found) = found {
            let found = self.cache.put_application(found);
            // When it is heard of, it is held.
            self.queue.add_now(app.key(), found.resource_version.clone());
        }
        Err(PassError::Conflict {
            application: app.title(),
            action: "dispatching what it was".to_owned(),
        })
    }

    /// Writes the status if it differs; at most once a second unless it is `urgent`.
    ///
    /// # Errors
    /// [`PassError::Conflict`]: somebody has changed the application, before or since.
    pub(super) async fn store(
        &self,
        app: &Arc<Stored>,
        mut status: ApplicationStatus,
        urgent: bool,
        outcome: &mut Outcome,
    ) -> Result<Arc<Stored>, PassError> {
        if !status::differs(&app.status, &status) {
            return Ok(app.clone());
        }
        let (key, now) = (app.key(), Instant::now());
        let last = self.written.lock().get(&key).copied();
        if let Some(last) = last
            && !urgent
            && now.duration_since(last) < STATUS_INTERVAL
        {
            outcome.wake(STATUS_INTERVAL.saturating_sub(now.duration_since(last)));
            return Ok(app.clone());
        }
        if let Some(workflow) = &mut status.workflow {
            // Never the stored one: a hub that a newer one has followed is refused by the transition rule.
            workflow.epoch = Some(self.epoch);
        }
        let unreadable = |error: serde_json::Error| PassError::Unreadable {
            application: app.title(),
            object: "the application".to_owned(),
            reason: error.to_string(),
        };
        let mut object: DynamicObject = serde_json::from_slice(&app.bytes).map_err(unreadable)?;
        object.data["status"] = serde_json::to_value(&status).map_err(unreadable)?;
        let answer = self
            .applications(&app.namespace)
            .replace_status(&app.name, &writes::post(), &object)
            .await;
        let object = answer.map_err(|error| PassError::api(&app.title(), "writing its status", error))?;
        self.written.lock().insert(key, now);
        self.tell(app, &status);
        let held = self.answered(object)?;
        outcome.wrote = Some(held.resource_version.clone());
        Ok(held)
    }

    /// Takes in the answer to a write of an application.
    ///
    /// # Errors
    /// [`PassError::Conflict`]: somebody has changed it since, and what this pass goes by is of before.
    pub(super) fn answered(&self, object: DynamicObject) -> Result<Arc<Stored>, PassError> {
        let version = object.metadata.resource_version.clone();
        let held = self.cache.put_application(object);
        if version.as_ref() != Some(&held.resource_version) {
            return Err(PassError::Conflict {
                application: held.title(),
                action: "going on with what it was".to_owned(),
            });
        }
        Ok(held)
    }
}
