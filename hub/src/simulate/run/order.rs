//! What a person says to a run, as the commands of the same names do.

use super::{
    Target,
    objects::{self, ActError},
};
use crate::simulate::Fleet;
use kube::Api;
use roundhouse_api::application::{Application, ApplicationStatus, StepPhase};
use serde_json::{Value, json};
use std::fmt;

/// What is said to the run of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// To stand still.
    Suspend,
    /// To go on, whether a person has paused it or a step has.
    Resume,
    /// To end.
    Terminate,
    /// To begin again.
    Restart,
    /// To begin again at a step that has begun.
    RestartFrom(String),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Suspend => f.write_str("is paused"),
            Order::Resume => f.write_str("is resumed"),
            Order::Terminate => f.write_str("is terminated"),
            Order::Restart => f.write_str("is restarted"),
            Order::RestartFrom(step) => write!(f, "is restarted from step {step}"),
        }
    }
}

impl Order {
    /// The change of the status that says it; nothing where it makes no sense, or is so already. Pure.
    fn patch(&self, status: &ApplicationStatus) -> Option<Value> {
        let run = status.workflow.as_ref()?;
        let is_suspended = run.status == Some(StepPhase::Suspending);
        match self {
            Order::Suspend if run.finished || run.terminated || is_suspended || run.suspend => None,
            Order::Suspend => Some(json!({"workflow": {"suspend": true}})),
            Order::Resume if run.finished || run.terminated || !run.suspend => None,
            Order::Resume if is_suspended => Some(json!({"workflow": {"suspend": false}})),
            Order::Resume => Some(json!({"workflow": {"suspend": false, "paused": null}})),
            Order::Terminate if run.finished || run.terminated => None,
            Order::Terminate => Some(json!({"workflow": {"terminated": true}})),
            Order::Restart => Some(json!({"phase": "runningWorkflow", "workflow": null})),
            Order::RestartFrom(step) => {
                let phase = run.step(step)?.phase;
                (phase != StepPhase::Pending).then(|| json!({"workflow": {"restartFrom": step}}))
            }
        }
    }

    /// Says it to the run of this application in the namespace `default`, as it stands: whether there was anything to say.
    ///
    /// # Errors
    /// The API server does not answer, or somebody else was quicker: the same may go through later.
    pub(super) async fn give(&self, fleet: &Fleet, application: &str) -> Result<bool, ActError> {
        let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
        let Some(found) = api.get_opt(application).await? else {
            return Ok(false);
        };
        let looked_at = |status: &&ApplicationStatus| status.observed_generation == found.metadata.generation;
        let status = found.status.as_ref().filter(looked_at);
        let Some(status) = status.and_then(|status| self.patch(status)) else {
            return Ok(false);
        };
        let patch =
            json!({"metadata": {"resourceVersion": found.metadata.resource_version}, "status": status});
        objects::patch(fleet, &Target::application(application), &patch, true).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_where_a_run_stands_is_not_said() {
        let run = |changes: Value| -> ApplicationStatus {
            let mut run = json!({"status": "running", "steps": [
                {"name": "east", "type": "deploy", "phase": "running"},
                {"name": "west", "type": "deploy", "phase": "pending"}]});
            let changes = changes.as_object().unwrap().clone();
            run.as_object_mut().unwrap().extend(changes);
            serde_json::from_value(json!({"workflow": run})).unwrap()
        };
        let from = |step: &str| Order::RestartFrom(step.to_owned());
        let goes_on = run(json!({}));
        let asked = run(json!({"suspend": true}));
        let paused = run(json!({"suspend": true, "paused": true, "status": "suspending"}));
        let ended = run(json!({"finished": true, "status": "failed"}));
        let says = |workflow: Value| Some(json!({"workflow": workflow}));
        for (order, status, patch) in [
            (Order::Suspend, &goes_on, says(json!({"suspend": true}))),
            (Order::Suspend, &asked, None),
            (Order::Suspend, &paused, None),
            (Order::Suspend, &ended, None),
            (Order::Resume, &goes_on, None),
            (
                Order::Resume,
                &asked,
                says(json!({"suspend": false, "paused": null})),
            ),
            (Order::Resume, &paused, says(json!({"suspend": false}))),
            (Order::Resume, &ended, None),
            (Order::Terminate, &goes_on, says(json!({"terminated": true}))),
            (Order::Terminate, &paused, says(json!({"terminated": true}))),
            (Order::Terminate, &ended, None),
            (from("east"), &ended, says(json!({"restartFrom": "east"}))),
            (from("west"), &goes_on, None),
            (from("north"), &goes_on, None),
        ] {
            assert_eq!(order.patch(status), patch, "{order:?} {status:?}");
        }
        let anew = json!({"phase": "runningWorkflow", "workflow": null});
        assert_eq!(Order::Restart.patch(&ended), Some(anew));
        assert_eq!(Order::Restart.patch(&ApplicationStatus::default()), None);
    }
}
