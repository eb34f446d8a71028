//! Steps that act outside of the fleet: their jobs run beside the passes, and their outcomes are evidence.

use super::{bundles::Written, cache::Stored, error::PassError, pass::Hub, view::Delivery};
use crate::{
    action::{Came, Execution, Job, Outcome},
    workflow::{ActionEvidence, Effect, Spec},
    writes,
};
use kube::{Api, core::DynamicObject};
use roundhouse_api::{
    application::{ActionProperties, ApplicationStatus, StepPhase, StepStatus, WorkflowStatus},
    revision::ApplicationRevision,
};
use std::collections::{BTreeMap, BTreeSet};

/// Notes the revision of a run that has succeeded.
pub(super) fn deliver(status: &mut ApplicationStatus, spec: &Spec) {
    let workflow = status.workflow.as_ref();
    if workflow.is_some_and(|workflow| workflow.finished && workflow.status == Some(StepPhase::Succeeded)) {
        status.delivered_revision = Some(spec.revision.clone());
    }
}

/// The steps that act and are not over: the present execution, by run and step.
fn open(workflow: Option<&WorkflowStatus>) -> BTreeMap<Execution, u32> {
    let steps = workflow.into_iter().flat_map(WorkflowStatus::all_steps);
    let open = steps.filter(|step| !step.is_over());
    open.filter_map(|step| Some((execution(step), step.attempt?)))
        .collect()
}

/// The present execution of a step.
fn execution(step: &StepStatus) -> Execution {
    let run = step.run.map(|run| run.to_string());
    (run.unwrap_or_default(), step.name.clone())
}

impl Hub {
    /// Starts the jobs that are asked for, and gives up those that nobody waits for any more. Nothing waits for them here.
    pub(super) fn act(&self, delivery: &Delivery<'_>, workflow: Option<&WorkflowStatus>, effects: &[Effect]) {
        let open = open(workflow);
        self.jobs.retain(&delivery.application, &open);
        self.watches.retain(&delivery.application, &open);
        for effect in effects {
            let Effect::Act {
                step,
                attempt,
                action,
            } = effect
            else {
                continue;
            };
            let Some(state) = workflow.and_then(|workflow| workflow.step(step)) else {
                continue;
            };
            let (run, step) = execution(state);
            let job = Job {
                application: delivery.application.clone(),
                revision: delivery.spec.revision.clone(),
                run,
                step,
                attempt: *attempt,
                action: action.clone(),
                before: state.output.clone(),
            };
            let (queue, key) = (self.queue.clone(), delivery.key.clone());
            if matches!(job.action, ActionProperties::LookAt(_)) && self.jobs.is_new(&job) {
                let (queue, key) = (queue.clone(), key.clone());
                self.watches.look(&job, move || queue.add(key.clone()));
            }
            self.jobs.start(job, move || queue.add(key));
        }
    }

    /// What the API server refused to a step is its outcome.
    pub(super) fn note_refusal(
        &self,
        delivery: &Delivery<'_>,
        workflow: Option<&WorkflowStatus>,
        (step, attempt): (&str, u32),
        error: &PassError,
    ) {
        let Some(state) = workflow.and_then(|workflow| workflow.step(step)) else {
            return;
        };
        let outcome = Outcome::failed(error.reason());
        self.jobs
            .note(&delivery.application, execution(state), attempt, outcome);
    }

    /// The steps that wait for an object which has changed or is looked at just now, and are not over.
    pub(super) fn changed(
        &self,
        delivery: &Delivery<'_>,
        workflow: Option<&WorkflowStatus>,
    ) -> BTreeSet<String> {
        let open = open(workflow);
        let mut changed = self.watches.changed(&delivery.application, &open);
        changed.extend(self.jobs.under_way(&delivery.application, &open));
        changed
    }

    /// What came of the jobs of the steps that are not over, by step.
    pub(super) fn outcomes(
        &self,
        delivery: &Delivery<'_>,
        workflow: Option<&WorkflowStatus>,
    ) -> BTreeMap<String, ActionEvidence> {
        let open = open(workflow);
        let outcomes = self.jobs.outcomes(&delivery.application).into_iter();
        let outcomes = outcomes.filter(|(execution, _)| open.contains_key(execution));
        let evidence = |((_, step), came): (Execution, Came)| {
            let Came { attempt, at, outcome } = came;
            (step, ActionEvidence { attempt, at, outcome })
        };
        outcomes.map(evidence).collect()
    }

    /// Makes the application's spec what it was at an earlier revision, as a user would; a spec that was changed in between, or a
    /// command that was given, wins.
    pub(super) async fn roll_back(
        &self,
        delivery: &Delivery<'_>,
        app: &Stored,
        revision: &str,
    ) -> Result<Written, PassError> {
        let title = format!("{}/{}", delivery.key.0, delivery.key.1);
        let failed =
            |doing: &str, error| PassError::api(&title, format!("{doing} revision {revision}"), error);
        let revisions: Api<ApplicationRevision> = Api::namespaced(self.client.clone(), &delivery.key.0);
        let record = revisions
            .get_opt(revision)
            .await
            .map_err(|error| failed("reading", error))?;
        let Some(record) = record else {
            // The next round knows better.
            return Ok(Written::default());
        };
        let mut written = Written::default();
        if app.generation != delivery.spec.generation {
            return Ok(written);
        }
        let unreadable = |error: serde_json::Error| PassError::Unreadable {
            application: title.clone(),
            object: "the application".to_owned(),
            reason: error.to_string(),
        };
        let mut object: DynamicObject = serde_json::from_slice(&app.bytes).map_err(unreadable)?;
        if object.data.get("spec") == Some(&record.spec.application) {
            return Err(PassError::Same {
                application: title,
                revision: revision.to_owned(),
            });
        }
        object.data["spec"] = record.spec.application;
        let answer = self
            .applications(&app.namespace)
            .replace(&app.name, &writes::post(), &object)
            .await;
        let object = answer.map_err(|error| failed("going back to", error))?;
        self.cache.put_application(object);
        written.count += 1;
        Ok(written)
    }
}
