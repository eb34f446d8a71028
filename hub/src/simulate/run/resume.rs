//! Somebody who lets runs go on that wait for a person.

use super::{
    Target,
    objects::{self, ActError},
    stage::Stage,
};
use kube::Api;
use roundhouse_api::application::{Application, StepPhase, StepStatus, WorkflowStatus};
use serde_json::json;
use std::time::Duration;

/// Somebody lets applications go on whenever this step suspends their runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The step: one of type `suspend`, or a placing one that asks.
    pub step: String,
    /// The applications that have it, by namespace and name.
    pub applications: Vec<[String; 2]>,
    /// Not sooner than so long after the applications are applied.
    pub from: Duration,
}

impl Stage {
    /// Resumes every run that the step suspends now: whether there was one.
    ///
    /// # Errors
    /// The API server does not answer, or somebody else was quicker: the same may go through later.
    pub(super) async fn resume(&mut self, resume: &Resume) -> Result<bool, ActError> {
        let mut resumed = false;
        for [namespace, name] in &resume.applications {
            let api: Api<Application> = Api::namespaced(self.fleet.hub_client(), namespace);
            let status = api.get_opt(name).await?.and_then(|found| found.status);
            let Some(others) = status
                .and_then(|status| status.workflow)
                .and_then(|run| suspended_by(&run, &resume.step))
            else {
                continue;
            };
            let target = Target::on_hub("core.oam.dev/v1beta1", "Application", namespace, name);
            let patch = json!({"status": {"workflow": {"suspend": false}}});
            objects::patch(&self.fleet, &target, &patch, true).await?;
            resumed = true;
            let others = match others.is_empty() {
                true => String::new(),
                false => format!(", and with it {}", others.join(", ")),
            };
            self.tell(format!(
                "{namespace}/{name}: step {} is resumed{others}",
                resume.step
            ));
        }
        Ok(resumed)
    }
}

/// Where this step suspends a run that is not resumed yet: the other steps that do, which go on with it; pure.
fn suspended_by(run: &WorkflowStatus, step: &str) -> Option<Vec<String>> {
    let suspends = |step: &&StepStatus| step.phase == StepPhase::Suspending;
    let all: Vec<&StepStatus> = run.all_steps().filter(suspends).collect();
    // A pause is another person's.
    let is_asked = run.suspend && !run.paused && all.iter().any(|one| one.name == step);
    let others = all
        .into_iter()
        .filter(|one| one.name != step && one.sub_steps.is_empty());
    is_asked.then(|| others.map(|one| one.name.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_run_is_resumed_once_by_the_step_that_suspends_it() {
        let run = |changes: Value| -> WorkflowStatus {
            let step = |name: &str, phase: &str| json!({"name": name, "type": "suspend", "phase": phase});
            let mut run = json!({"suspend": true, "steps": [
                step("east", "succeeded"),
                {"name": "both", "type": "step-group", "phase": "suspending",
                    "subSteps": [step("a", "suspending"), step("b", "suspending")]}]});
            run.as_object_mut()
                .unwrap()
                .extend(changes.as_object().unwrap().clone());
            serde_json::from_value(run).unwrap()
        };
        let suspended = run(json!({}));
        assert_eq!(suspended_by(&suspended, "a"), Some(vec!["b".to_owned()]));
        assert_eq!(suspended_by(&suspended, "east"), None);
        assert_eq!(suspended_by(&run(json!({"suspend": false})), "a"), None);
        assert_eq!(suspended_by(&run(json!({"paused": true})), "a"), None);
    }
}
