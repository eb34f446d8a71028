//! Writing an Application's status: only when it differs, and not too often.

use super::{
    cache::Stored,
    error::PassError,
    events::{About, ended, transitions},
    feed::application_resource,
    pass::{Hub, Outcome, post},
    status,
};
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

    /// Writes the status if it differs; at most once a second unless it is `urgent`.
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
            .replace_status(&app.name, &post(), &object)
            .await;
        let object = answer.map_err(|error| PassError::api(&app.title(), "writing its status", error))?;
        self.written.lock().insert(key, now);
        self.tell(app, &status);
        Ok(self.cache.put_application(object))
    }
}
