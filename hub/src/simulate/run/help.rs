//! Somebody who looks at what waits, and does what only a person can do.

use super::{
    Order, Target,
    objects::{self, ActError},
    stage::Stage,
};
use kube::Api;
use roundhouse_api::{
    application::{Application, ApplicationStatus, StepPhase},
    decision::Decision,
    names::{annotation, decision_name},
};
use serde_json::json;

/// What somebody does for an application in the namespace `default`, where it waits for that. Each of it has its reason in the
/// script: what waits without one waits on, and is a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Help {
    /// Its name.
    pub application: String,
    /// Confirms the removals that are held.
    pub confirms: bool,
    /// Lets a paused run go on: somebody pauses it, and may be heard again after who was to take that back.
    pub resumes: bool,
    /// Begins anew what has ended without success: somebody terminates it, or it bears few clusters that fail.
    pub restarts: bool,
    /// Begins anew at this step where it has placed on fewer clusters than others wait for: it was placed when few were there.
    pub places_anew: Option<(String, usize)>,
}

impl Help {
    /// What is to be said to a run whose step has placed on so many clusters; pure.
    fn order(&self, status: &ApplicationStatus, placed_on: usize) -> Option<Order> {
        let run = status.workflow.as_ref()?;
        if run.finished {
            let ended = self.restarts && run.status == Some(StepPhase::Failed);
            return ended.then_some(Order::Restart);
        }
        if run.suspend && run.paused {
            return self.resumes.then_some(Order::Resume);
        }
        let (step, least) = self.places_anew.as_ref()?;
        (placed_on < *least).then(|| Order::RestartFrom(step.clone()))
    }
}

impl Stage {
    /// Helps an application, and tells what was done.
    ///
    /// # Errors
    /// The API server does not answer, or somebody else was quicker: the same may go through later.
    pub(super) async fn help(&mut self, help: &Help) -> Result<(), ActError> {
        let client = self.fleet.hub_client();
        let name = &help.application;
        let api: Api<Application> = Api::namespaced(client.clone(), "default");
        let Some(status) = api.get_opt(name).await?.and_then(|found| found.status) else {
            return Ok(());
        };
        let placed_on = match &help.places_anew {
            Some((step, _)) => {
                let decisions: Api<Decision> = Api::namespaced(client, "default");
                let decided = decisions.get_opt(&decision_name(name, step)).await?;
                // What is not decided yet is placed on as many as are there.
                decided.map_or(usize::MAX, |decision| decision.spec.clusters.len())
            }
            None => usize::MAX,
        };
        if let Some(order) = help.order(&status, placed_on)
            && order.give(&self.fleet, name).await?
        {
            self.tell(format!("default/{name} {order} by who helps"));
        }
        if let Some(held) = status.held_deletes.filter(|_| help.confirms) {
            let patch = json!({"metadata": {"annotations": {annotation::CONFIRM_DELETES: held.hash}}});
            objects::patch(&self.fleet, &Target::application(name), &patch, false).await?;
            self.tell(format!("removals of default/{name} are confirmed by who helps"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_helped_without_a_reason() {
        let status = |run: serde_json::Value| -> ApplicationStatus {
            serde_json::from_value(json!({"workflow": run})).unwrap()
        };
        let [failed, paused, goes_on, suspends] = [
            json!({"finished": true, "status": "failed", "steps": []}),
            json!({"suspend": true, "paused": true, "status": "suspending", "steps": []}),
            json!({"status": "running", "steps": []}),
            json!({"suspend": true, "status": "suspending", "steps": []}),
        ]
        .map(status);
        let none = Help::default();
        let all = Help {
            resumes: true,
            restarts: true,
            places_anew: Some(("east".to_owned(), 6)),
            ..Help::default()
        };
        let anew = Some(Order::RestartFrom("east".to_owned()));
        for (status, placed_on, order) in [
            (&failed, 6, Some(Order::Restart)),
            (&paused, 6, Some(Order::Resume)),
            (&goes_on, 6, None),
            (&goes_on, 5, anew.clone()),
            (&suspends, 5, anew),
        ] {
            assert_eq!(all.order(status, placed_on), order, "{status:?}");
            assert_eq!(none.order(status, placed_on), None, "{status:?}");
        }
    }
}
