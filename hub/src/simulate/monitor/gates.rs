//! P7: a step that suspends passes when its time is over, or when somebody says so. That a pause is over is nobody's word for it.

use super::{
    commit::Commit,
    evidence::status_of,
    model::{APPLICATIONS, Model, Name},
    promise::{CLOCK, Check, Found, Note, Promise},
};
use crate::simulate::{HUB, begins};
use roundhouse_api::application::{
    ApplicationStatus, StepKind, StepPhase, StepStatus, SuspendProperties, WorkflowStatus,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What this judges.
const SUSPEND: &str = "steps that suspend pass";

#[derive(Debug, Default)]
pub(super) struct Gates {
    /// The steps that somebody has let go on since they suspend, by application.
    approved: BTreeMap<Name, BTreeSet<String>>,
    /// Whether the clock of a hub was ever wrong: then times are not judged.
    wrong: bool,
}

impl Check for Gates {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        if (&*commit.server, &*commit.key.table) != (HUB, APPLICATIONS)
            || !suspends(&commit.key.namespace, model)
        {
            return;
        }
        let [before, after] =
            [commit.before(), commit.after()].map(|object| status_of(object).unwrap_or_default());
        let name = (commit.key.namespace.clone(), commit.key.name.clone());
        if !commit.by().is_some_and(|who| who.is_hub()) {
            return self.says(name, &before, &after);
        }
        let (before, Some(after)) = (before.workflow.unwrap_or_default(), after.workflow) else {
            self.approved.remove(&name);
            return;
        };
        let revision = after.app_revision.as_deref();
        let revision = revision.and_then(|of| model.revisions.get(&(name.0.clone(), of.into())));
        let suspended = |step: &StepStatus| {
            let mut all = revision?.valid.all_steps();
            match &all.find(|valid| valid.name == step.name)?.kind {
                StepKind::Suspend(properties) => Some(properties),
                _ => None,
            }
        };
        let approved = self.approved.entry(name).or_default();
        for step in after.all_steps() {
            let Some(properties) = suspended(step) else {
                continue;
            };
            let goes_on = begun(&before, &after, step, self.wrong);
            let had = goes_on.is_some_and(|was| was.phase == StepPhase::Succeeded);
            if step.phase == StepPhase::Succeeded && !had {
                found.judges_part(Promise::P7, SUSPEND);
                let is_approved = goes_on.is_some() && approved.contains(&step.name);
                let is_unknown = self.wrong && properties.duration.is_some();
                if !(is_approved || is_unknown || is_over(step, properties, commit.at)) {
                    let expected = match properties.duration {
                        Some(duration) => format!("{duration:?} to be over, or somebody to resume the run"),
                        None => "somebody to resume the run".to_owned(),
                    };
                    let is = format!("step {} has passed", step.name);
                    found.broke(Promise::P7, commit.object(), expected, is);
                }
            }
            if step.phase != StepPhase::Suspending || goes_on.is_none() {
                approved.remove(&step.name);
            }
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, _: &mut Found<'_>) {
        if let Note::Fault { party, .. } = note {
            self.wrong |= **party == *CLOCK;
        }
    }
}

impl Gates {
    /// Somebody writes a status: who resumes a run that nobody has paused lets the steps go on that suspend.
    fn says(&mut self, name: Name, before: &ApplicationStatus, after: &ApplicationStatus) {
        let (Some(was), Some(is)) = (&before.workflow, &after.workflow) else {
            return;
        };
        if was.suspend && !is.suspend && !was.paused {
            let suspended = was.all_steps().filter(|step| step.phase == StepPhase::Suspending);
            let approved = self.approved.entry(name).or_default();
            approved.extend(suspended.map(|step| step.name.clone()));
        }
    }
}

/// Whether any revision of the namespace has a step that suspends.
fn suspends(namespace: &str, model: &Model) -> bool {
    let mut own = model.revisions.iter().filter(|((of, _), _)| **of == *namespace);
    own.any(|(_, revision)| {
        let mut steps = revision.valid.all_steps();
        steps.any(|step| matches!(step.kind, StepKind::Suspend(_)))
    })
}

/// The same step as it was, if it has not begun anew since: by `wrong` clocks it may have begun at another time.
fn begun<'a>(
    before: &'a WorkflowStatus,
    after: &WorkflowStatus,
    step: &StepStatus,
    wrong: bool,
) -> Option<&'a StepStatus> {
    let was = before
        .step(&step.name)
        .filter(|was| before.app_revision == after.app_revision && was.first_execute_time.is_some())?;
    let taken_back = wrong && step.first_execute_time < was.first_execute_time;
    (was.first_execute_time == step.first_execute_time || taken_back).then_some(was)
}

/// Whether the time of a step is over by a clock that is right.
fn is_over(step: &StepStatus, properties: &SuspendProperties, at: Duration) -> bool {
    let Some((duration, began)) = properties.duration.zip(step.first_execute_time.as_ref()) else {
        return false;
    };
    let began = Duration::try_from(began.0.duration_since(begins())).unwrap_or_default();
    at.saturating_sub(began) >= duration
}
