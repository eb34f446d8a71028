//! The writes: notes on a revision that it was delivered, and lets those go that nobody needs.

use super::{rollback_target, surplus};
use crate::application::{Key, bundles::Written, cache::Stored, error::PassError, pass::Hub};
use crate::writes;
use kube::{Api, ResourceExt, api::Patch};
use roundhouse_api::{application::StepPhase, names::annotation, revision::ApplicationRevision};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// Revisions that one pass lets go at most.
const AT_ONCE: usize = 25;

impl Hub {
    /// Brings the history of an application up to date with its stored status. Writes nothing if it is.
    pub(in crate::application) async fn keep_history(&self, key: &Key) -> Written {
        let mut written = Written::default();
        let Some(app) = self.cache.application(key).filter(|app| !app.deleting) else {
            return written;
        };
        match self.note_delivered(key, &app).await {
            Ok(true) => written.count += 1,
            Ok(false) => {}
            Err(error) => written.fail(error),
        }
        let own = self.own_revisions(key, &app);
        if own.len() > self.revision_limit {
            let used = self.revisions_in_use(key, &app, &own);
            let gone = surplus(&own, &used, self.revision_limit);
            for revision in own.iter().filter(|r| gone.contains(&r.name_any())).take(AT_ONCE) {
                match self.let_go(key, revision).await {
                    Ok(()) => written.count += 1,
                    Err(error) => written.fail(error),
                }
            }
        }
        written
    }

    /// Those of this life of the application, by name.
    fn own_revisions(&self, key: &Key, app: &Stored) -> Vec<Arc<ApplicationRevision>> {
        let mut all = self.cache.revisions(key);
        all.retain(|revision| {
            let mut owners = revision.owner_references().iter();
            owners.any(|owner| owner.uid == app.uid)
        });
        all
    }

    /// The run that succeeded last is noted on its revision, with the time at which it ended.
    async fn note_delivered(&self, key: &Key, app: &Stored) -> Result<bool, PassError> {
        let Some(run) = app.status.workflow.as_ref() else {
            return Ok(false);
        };
        let succeeded = run.finished && run.status == Some(StepPhase::Succeeded);
        let (true, Some(name), Some(ended)) = (succeeded, &run.app_revision, &run.end_time) else {
            return Ok(false);
        };
        let own = self.own_revisions(key, app);
        let Some(revision) = own.iter().find(|revision| revision.name_any() == *name) else {
            return Ok(false);
        };
        let ended = ended.0.to_string();
        if revision.annotations().get(annotation::DELIVERED) == Some(&ended) {
            return Ok(false);
        }
        let patch = json!({"metadata": {
            "uid": revision.metadata.uid,
            "resourceVersion": revision.metadata.resource_version,
            "annotations": {annotation::DELIVERED: ended},
        }});
        let answer = self
            .revisions(key)
            .patch(name, &writes::patch(), &Patch::Merge(patch))
            .await;
        let failed = |error| {
            PassError::api(
                &app.title(),
                format!("noting that revision {name} was delivered"),
                error,
            )
        };
        self.cache.put_revision(answer.map_err(failed)?);
        Ok(true)
    }

    /// Present run, last run that succeeded, what any Bundle or Decision is of, and where a rollback would go.
    fn revisions_in_use(
        &self,
        key: &Key,
        app: &Stored,
        own: &[Arc<ApplicationRevision>],
    ) -> BTreeSet<String> {
        let status = &app.status;
        let latest = status.latest_revision.as_ref().map(|latest| latest.name.clone());
        let run = status.workflow.as_ref().and_then(|run| run.app_revision.clone());
        let delivered = status.delivered_revision.clone();
        let mut used: BTreeSet<String> = latest.iter().cloned().chain(run).chain(delivered).collect();
        let bundles = self.cache.bundles(key);
        for bundle in bundles.values().flatten() {
            used.extend(bundle.spec.revision.clone());
            used.extend(bundle.steps().into_values());
        }
        let decisions = self.cache.decisions(key);
        used.extend(decisions.values().map(|decision| decision.spec.revision.clone()));
        // What a cluster that waits for its turn is made again of.
        let waiting = decisions.values().flat_map(|decision| &decision.spec.waiting);
        used.extend(waiting.filter_map(|waiting| waiting.revision.clone()));
        let all = || own.iter().map(Arc::as_ref);
        used.extend(rollback_target(all(), "").map(ResourceExt::name_any));
        let present = latest.unwrap_or_default();
        used.extend(rollback_target(all(), &present).map(ResourceExt::name_any));
        used
    }

    /// Deletes a revision; the ConfigMaps and Secrets with its content are its own and go with it.
    async fn let_go(&self, key: &Key, revision: &ApplicationRevision) -> Result<(), PassError> {
        let name = revision.name_any();
        match self.revisions(key).delete(&name, &writes::delete(revision)).await {
            Ok(_) => {}
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            Err(error) => {
                let title = format!("{}/{}", key.0, key.1);
                return Err(PassError::api(&title, format!("deleting revision {name}"), error));
            }
        }
        self.cache.remove_revision(&(key.0.clone(), name));
        Ok(())
    }

    fn revisions(&self, key: &Key) -> Api<ApplicationRevision> {
        Api::namespaced(self.client.clone(), &key.0)
    }
}
