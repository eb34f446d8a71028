//! The steps of a run: which start, and what becomes of those that have started.

use super::{
    Effect, Evidence, Spec, backoff,
    expressions::fleet,
    spec::{Action, At, Step, state_at},
    values::{NotGiven, referenced},
};
use crate::action::Outcome;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::application::{
    ActionProperties, ApplicationPhase, Condition, ExportStep, HubObject, StepExpression, StepPhase,
    StepReason, StepStatus, SuspendProperties, Until, WaitStep, WorkflowStatus,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub(super) const PAUSED: &str = "paused: set status.workflow.suspend to false to go on";
/// What a suspended run says where its step says nothing.
pub(super) const AWAITING: &str = "waiting for a person: set status.workflow.suspend to false to go on";

/// One call of the engine.
pub(super) struct Run<'a> {
    pub(super) spec: &'a Spec,
    pub(super) evidence: &'a Evidence,
    pub(super) now: Timestamp,
    pub(super) phase: Option<ApplicationPhase>,
    pub(super) workflow: WorkflowStatus,
    pub(super) effects: Vec<Effect>,
    /// Steps that were started or judged in this call.
    pub(super) judged: BTreeSet<At>,
    /// When to look again.
    pub(super) wake: Option<Duration>,
}

/// Whether a step starts.
enum Start {
    Now,
    NotYet,
    Never(String),
}

/// A step that has not been reached.
pub(super) fn pending(step: &Step) -> StepStatus {
    StepStatus {
        name: step.name.clone(),
        type_: step.type_.clone(),
        sub_steps: step.inner().iter().map(pending).collect(),
        ..StepStatus::default()
    }
}

impl<'a> Run<'a> {
    pub(super) fn seen(&self, at: At) -> Option<&StepStatus> {
        state_at(&self.workflow, at)
    }

    pub(super) fn state(&mut self, at: At) -> Option<&mut StepStatus> {
        let step = self.workflow.steps.get_mut(at.index)?;
        match at.inner {
            None => Some(step),
            Some(inner) => step.sub_steps.get_mut(inner),
        }
    }

    /// The steps that are no groups, in the order of the document.
    pub(super) fn leaves(&self) -> impl Iterator<Item = At> + use<'a> {
        let spec = self.spec;
        let is_leaf = move |at: &At| spec.at(*at).is_some_and(|step| step.inner().is_empty());
        spec.places().into_iter().filter(is_leaf)
    }

    /// The steps that a person has paused.
    pub(super) fn paused_steps(&self) -> impl Iterator<Item = At> {
        self.leaves().filter(|at| {
            let suspends = self
                .spec
                .at(*at)
                .is_some_and(|step| matches!(step.action, Action::Suspend(_)));
            !suspends
                && self
                    .seen(*at)
                    .is_some_and(|state| state.phase == StepPhase::Suspending)
        })
    }

    /// Goes on as far as it goes without waiting: each step is judged at most once.
    pub(super) fn proceed(&mut self) {
        loop {
            let mut moved = false;
            for index in 0..self.spec.steps.len() {
                moved |= self.visit(At { index, inner: None });
            }
            if !moved {
                break;
            }
        }
        self.conclude();
    }

    /// Looks at a step; `true` if its phase has changed.
    fn visit(&mut self, at: At) -> bool {
        let (Some(step), Some(state)) = (self.spec.at(at), self.seen(at)) else {
            return false;
        };
        let before = (state.phase, state.reason);
        if state.is_over() {
            return false;
        }
        if state.phase == StepPhase::Pending {
            return match self.admission(step, at) {
                Start::NotYet => false,
                Start::Never(why) => {
                    self.skip(at, Some(why));
                    true
                }
                Start::Now => {
                    self.start(step, at);
                    true
                }
            };
        }
        if self.time_out(at) {
            return true;
        }
        if let Action::Group(steps) = &step.action {
            let mut moved = false;
            for inner in 0..steps.len() {
                moved |= self.visit(At {
                    inner: Some(inner),
                    ..at
                });
            }
            return self.settle_group(at) || moved;
        }
        if !self.judged.insert(at) {
            return false;
        }
        self.judge(step, at);
        self.seen(at).map(|state| (state.phase, state.reason)) != Some(before)
    }

    /// Whether a pending step starts.
    fn admission(&self, step: &Step, at: At) -> Start {
        let list = match at.inner {
            None => self.workflow.steps.as_slice(),
            Some(_) => self
                .workflow
                .steps
                .get(at.index)
                .map_or(&[][..], |group| group.sub_steps.as_slice()),
        };
        let after = || step.after.iter().filter_map(|index| list.get(*index));
        if !after().all(StepStatus::is_over) {
            return Start::NotYet;
        }
        match &step.condition {
            Some(Condition::Always) => return Start::Now,
            _ if self.ended_by().is_some() => {
                let by = self.ended_by().unwrap_or_default();
                return Start::Never(format!("the workflow was ended by step {by}"));
            }
            Some(Condition::When(expression)) => {
                return match self.holds(expression, step, Vec::new()) {
                    Ok(true) => Start::Now,
                    Ok(false) => Start::Never(format!("if: {expression} does not hold")),
                    Err(why) => Start::Never(format!("if: {expression}: {why}")),
                };
            }
            None => {}
        }
        let stops = |state: &&StepStatus| match step.strict {
            true => state.phase != StepPhase::Succeeded,
            false => state.phase == StepPhase::Failed,
        };
        match after().find(stops) {
            None => Start::Now,
            Some(state) if state.phase == StepPhase::Failed => {
                Start::Never(format!("step {} failed", state.name))
            }
            Some(state) => Start::Never(format!("step {} was skipped", state.name)),
        }
    }

    /// The step that has ended the workflow, if one has.
    pub(super) fn ended_by(&self) -> Option<&str> {
        let ended = |state: &&StepStatus| {
            state.phase == StepPhase::Succeeded && state.reason == Some(StepReason::Terminate)
        };
        self.workflow
            .all_steps()
            .find(ended)
            .map(|state| state.name.as_str())
    }

    fn start(&mut self, step: &'a Step, at: At) {
        self.judged.insert(at);
        let now = self.now;
        let Some(state) = self.state(at) else { return };
        state.first_execute_time = Some(Time(now));
        state.last_execute_time = Some(Time(now));
        (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
        match &step.action {
            Action::Deploy(deploy) => {
                if deploy.patch.as_ref().is_some_and(|patch| patch.value.is_none()) {
                    // What the patch puts in is settled now, and stays.
                    let input = step.inputs.iter().find(|input| input.key.is_some());
                    let value = match input {
                        Some(input) => self.input(&input.source, step),
                        None => Err("no input gives the value of the patch".to_owned()),
                    };
                    match value {
                        Ok(value) => {
                            if !self.keep(at, BTreeMap::new(), Some(value)) {
                                return;
                            }
                        }
                        Err(why) => return self.fail(at, StepReason::Input, why),
                    }
                }
                let step = step.name.clone();
                self.effects.push(Effect::Dispatch { step });
            }
            Action::Suspend(suspend) => {
                state.last_execute_time = None;
                (state.phase, state.reason) = (StepPhase::Suspending, Some(StepReason::Suspend));
                state.message.clone_from(&suspend.message);
                self.wake_for(at, suspend.duration);
            }
            Action::Group(_) => {
                state.last_execute_time = None;
                state.reason = None;
                // Its steps are looked at in the same call.
                self.judged.remove(&at);
            }
            Action::Break { message } => {
                state.message = Some(
                    message
                        .clone()
                        .unwrap_or_else(|| "the workflow ends here".to_owned()),
                );
                self.finish(step, at, None);
                if let Some(state) = self.state(at).filter(|state| state.phase == StepPhase::Succeeded) {
                    state.reason = Some(StepReason::Terminate);
                    state.message = Some(
                        message
                            .clone()
                            .unwrap_or_else(|| "the workflow ends here".to_owned()),
                    );
                }
            }
            Action::Fail { message } => {
                let message = message
                    .clone()
                    .unwrap_or_else(|| "the step is there to fail".to_owned());
                self.fail(at, StepReason::Action, message);
            }
            Action::Export(export) => self.export(step, at, export),
            Action::Act { .. } | Action::Wait(WaitStep::Object { .. }) => {
                state.attempt = Some(1);
                self.ask(step, at, 1);
            }
            Action::ClusterObject { object, .. } => {
                if let Err(why) = self.filled(step, &object.properties) {
                    return self.fail(at, StepReason::Input, why);
                }
                let step = step.name.clone();
                self.effects.push(Effect::Dispatch { step });
            }
            Action::Wait(WaitStep::Fleet { .. }) | Action::Rollback { .. } => {}
        }
        self.wake_for(at, step.timeout);
    }

    fn export(&mut self, step: &'a Step, at: At, export: &ExportStep) {
        let value = self
            .filled(step, &export.properties)
            .map(|filled| filled.get("value").cloned().unwrap_or_default());
        match value {
            Ok(value) if export.component.is_some() && !value.is_object() => {
                let message =
                    "the value of a patch is a map that is merged into the component's object".to_owned();
                self.fail(at, StepReason::Input, message);
            }
            Ok(value) => self.finish(step, at, Some(value)),
            Err(why) => self.fail(at, StepReason::Input, why),
        }
    }

    /// Looks at a step that has started.
    fn judge(&mut self, step: &'a Step, at: At) {
        match &step.action {
            Action::Deploy(deploy) => {
                self.judge_deploy(step, at, deploy, self.evidence.steps.get(&step.name));
            }
            Action::ClusterObject { deploy, .. } => {
                self.judge_deploy(step, at, deploy, self.evidence.objects.get(&step.name));
            }
            Action::Suspend(suspend) => self.judge_suspend(at, suspend),
            Action::Wait(WaitStep::Fleet { until, steps }) => self.judge_wait(step, at, until, steps),
            Action::Wait(WaitStep::Object { object, until }) => self.judge_look(step, at, object, until),
            Action::Act { .. } => self.judge_act(step, at),
            Action::Rollback { to } => self.judge_rollback(at, to.as_deref()),
            // Over as soon as they start.
            Action::Group(_) | Action::Break { .. } | Action::Fail { .. } | Action::Export(_) => {}
        }
    }

    fn judge_suspend(&mut self, at: At, suspend: &SuspendProperties) {
        let Some(duration) = suspend.duration else { return };
        if self.left(at, duration).is_zero() {
            self.succeed(at);
        } else {
            self.wake_for(at, Some(duration));
        }
    }

    fn judge_wait(&mut self, step: &'a Step, at: At, until: &Until, of: &[String]) {
        let mut clusters = BTreeMap::new();
        for (name, evidence) in &self.evidence.steps {
            if of.is_empty() || of.contains(name) {
                clusters.extend(evidence.clusters().iter().map(|c| (c.cluster.as_str(), c)));
            }
        }
        let counts = fleet(clusters.values().copied());
        let passes = self.until(until, step, &counts);
        match passes {
            Ok(None) => self.finish(step, at, None),
            Ok(Some(message)) => self.wait(at, message, Some(digest(&counts))),
            Err(why) => self.refused(at, why),
        }
    }

    /// Whether `until` holds over clusters that were counted; if not, what is waited for.
    pub(super) fn until(&self, until: &Until, step: &Step, counts: &Value) -> Result<Option<String>, String> {
        let count = |key: &str| {
            let count = counts.get(key).and_then(Value::as_u64).unwrap_or(0);
            usize::try_from(count).unwrap_or(usize::MAX)
        };
        match until {
            Until::Ready(share) => {
                let (ready, all) = (count("ready"), count("clusters"));
                let message = match share {
                    roundhouse_api::application::ReadyShare::Percent(percent) => {
                        format!("waiting until {percent} of the clusters are ready: {ready} of {all} are")
                    }
                    roundhouse_api::application::ReadyShare::Count(wanted) => {
                        format!("waiting until {wanted} clusters are ready: {ready} of {all} are")
                    }
                };
                Ok((!share.is_met(ready, all)).then_some(message))
            }
            Until::Holds(expression) => {
                let holds = self.holds(expression, step, vec![("fleet", counts.clone())]);
                // Nothing holds of no clusters.
                match holds.map(|holds| holds && count("clusters") > 0) {
                    Ok(true) => Ok(None),
                    Ok(false) => Ok(Some(format!("waiting until {expression}"))),
                    Err(why) => Err(format!("until: {expression}: {why}")),
                }
            }
        }
    }

    fn judge_rollback(&mut self, at: At, to: Option<&str>) {
        let Some(revision) = to.or(self.evidence.delivered.as_deref()) else {
            let message = "no revision was delivered whole yet: there is nothing to go back to".to_owned();
            return self.fail(at, StepReason::Action, message);
        };
        if revision == self.spec.revision {
            let message = format!(
                "revision {revision} is the one that is being delivered: there is nothing to go back to"
            );
            return self.fail(at, StepReason::Action, message);
        }
        if !self.evidence.revisions.contains(revision) {
            let message = format!("there is no revision {revision} of this application (any more)");
            return self.fail(at, StepReason::Action, message);
        }
        let revision = revision.to_owned();
        self.wait(at, format!("going back to revision {revision}"), None);
        self.effects.push(Effect::RollBack { revision });
    }

    /// What came of the present execution of a step. Where nothing has yet, it is asked for once it is due.
    fn came(&mut self, step: &'a Step, at: At) -> Option<(u32, &'a Outcome)> {
        let state = self.seen(at)?;
        let attempt = state.attempt.unwrap_or(1);
        let came = self.evidence.actions.get(&step.name);
        if let Some(came) = came.filter(|came| came.attempt == attempt) {
            return Some((attempt, &came.outcome));
        }
        let since = state.last_execute_time.as_ref().map_or(self.now, |time| time.0);
        let waits = match self.evidence.changed.contains(&step.name) {
            // It is looked at soon, and not more often than it would be at first.
            true => 1,
            false => state.looks.or(state.retries).unwrap_or(attempt.saturating_sub(1)),
        };
        let due = match attempt {
            0 | 1 => self.now,
            _ => later(since, backoff::wait(waits, self.spec.limits.max_wait)),
        };
        match self.now < due {
            true => self.wake_at(due),
            false => self.ask(step, at, attempt),
        }
        None
    }

    /// A step that waits for an object: what an expression names may be missing for now, as the object itself may.
    fn judge_look(&mut self, step: &'a Step, at: At, object: &HubObject, until: &StepExpression) {
        let Some((attempt, outcome)) = self.came(step, at) else {
            return;
        };
        let (message, seen) = match outcome {
            Outcome::Done { output: Value::Null } => (
                format!("waiting until {until}: {object} does not exist"),
                "none".to_owned(),
            ),
            Outcome::Done { output } => {
                let holds = self.holds(until, step, vec![("object", output.clone())]);
                let message = match holds {
                    Ok(true) => return self.finish(step, at, None),
                    Ok(false) => format!("waiting until {until}: {object} is not so far"),
                    Err(why) => format!("waiting until {until}: {why}"),
                };
                (message, version(output))
            }
            Outcome::Waiting { message } | Outcome::Failed { message, .. } => {
                self.next_attempt(at, attempt);
                return self.retry(at, message.clone());
            }
        };
        self.next_attempt(at, attempt);
        let (now, limits) = (self.now, self.spec.limits);
        let Some(state) = self.state(at) else { return };
        let looks = match state.progress.as_ref() == Some(&seen) {
            true => state.looks.unwrap_or(0).saturating_add(1),
            // It has changed: it is looked at soon again.
            false => 1,
        };
        (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
        state.message = Some(message);
        state.progress = Some(seen);
        state.looks = Some(looks);
        state.retries = None;
        state.last_execute_time = Some(Time(now));
        self.wake_in(backoff::wait(looks, limits.max_wait));
    }

    fn judge_act(&mut self, step: &'a Step, at: At) {
        let Some((attempt, outcome)) = self.came(step, at) else {
            return;
        };
        match outcome {
            Outcome::Done { output } => self.finish(step, at, Some(output.clone())),
            Outcome::Waiting { message } => {
                self.next_attempt(at, attempt);
                let now = self.now;
                if let Some(state) = self.state(at) {
                    (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
                    state.message = Some(message.clone());
                    state.retries = None;
                    state.last_execute_time = Some(Time(now));
                }
                self.wake_in(backoff::wait(attempt, self.spec.limits.max_wait));
            }
            Outcome::Failed { message, output } => {
                self.next_attempt(at, attempt);
                let kept = output
                    .as_ref()
                    .and_then(|output| referenced(output, &step.referenced));
                if self.keep(at, BTreeMap::new(), kept) {
                    self.retry(at, message.clone());
                }
            }
        }
    }

    fn next_attempt(&mut self, at: At, attempt: u32) {
        if let Some(state) = self.state(at) {
            state.attempt = Some(attempt.saturating_add(1));
        }
    }

    /// Asks for an execution, its inputs put in.
    fn ask(&mut self, step: &'a Step, at: At, attempt: u32) {
        let read = match &step.action {
            Action::Wait(WaitStep::Object { object, .. }) => Ok(ActionProperties::LookAt(object.clone())),
            Action::Act {
                action: Some(action), ..
            } => Ok(action.clone()),
            Action::Act { properties, .. } => self.filled(step, properties).and_then(|filled| {
                ActionProperties::read(&step.type_, &filled).map_err(|violations| {
                    let first = violations.first().map(ToString::to_string);
                    format!(
                        "with its inputs the step is refused: {}",
                        first.unwrap_or_default()
                    )
                })
            }),
            _ => return,
        };
        match read {
            Ok(action) => self.effects.push(Effect::Act {
                step: step.name.clone(),
                attempt,
                action,
            }),
            Err(why) => self.fail(at, StepReason::Input, why),
        }
    }

    /// The step has done what it does: it succeeds, if it can give what it is to give.
    pub(super) fn finish(&mut self, step: &'a Step, at: At, own: Option<Value>) {
        match self.outputs(step, own.as_ref()) {
            Ok(values) => {
                let patches = matches!(&step.action, Action::Export(export) if export.component.is_some());
                let output = match (patches, &step.action) {
                    // What a patch put in is needed for as long as the run is.
                    (true, _) => own,
                    (_, Action::Deploy(_)) => self.seen(at).and_then(|state| state.output.clone()),
                    _ => own.and_then(|own| referenced(&own, &step.referenced)),
                };
                if self.keep(at, values, output) {
                    self.succeed(at);
                }
            }
            Err(NotGiven::Yet(message)) => self.wait(at, message, None),
            Err(NotGiven::Ever(message)) => self.fail(at, StepReason::Output, message),
        }
    }

    pub(super) fn succeed(&mut self, at: At) {
        if let Some(state) = self.state(at) {
            state.phase = StepPhase::Succeeded;
            state.reason = None;
            state.message = None;
            state.progress = None;
            state.retries = None;
            state.looks = None;
        }
    }

    /// The step has failed for good.
    pub(super) fn fail(&mut self, at: At, reason: StepReason, message: String) {
        if let Some(state) = self.state(at) {
            state.phase = StepPhase::Failed;
            state.reason = Some(reason);
            state.message = Some(message);
            state.progress = None;
            state.looks = None;
        }
    }

    fn skip(&mut self, at: At, why: Option<String>) {
        let Some(state) = self.state(at) else { return };
        (state.phase, state.reason) = (StepPhase::Skipped, Some(StepReason::Skip));
        state.message = why;
        for state in state.sub_steps.iter_mut().filter(|state| !state.is_over()) {
            (state.phase, state.reason) = (StepPhase::Skipped, Some(StepReason::Skip));
        }
    }

    /// The step waits. With a digest the wait is counted from the last progress, which is a different digest.
    pub(super) fn wait(&mut self, at: At, message: String, digest: Option<String>) {
        let (now, limits) = (self.now, self.spec.limits);
        let Some(state) = self.state(at) else { return };
        (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
        state.retries = None;
        if digest.is_some() && state.progress != digest {
            state.progress = digest;
            state.last_execute_time = Some(Time(now));
        }
        let since = state.last_execute_time.as_ref().map_or(now, |time| time.0);
        state.message = Some(message);
        self.wake_in(backoff::until_next_look(since, now, limits.max_wait));
    }

    /// The step cannot be carried out: counted and tried again, up to the limit, but not before its time.
    pub(super) fn refused(&mut self, at: At, message: String) {
        let (now, limits) = (self.now, self.spec.limits);
        let Some(state) = self.seen(at) else { return };
        let tries = state.retries.unwrap_or(0);
        let last = state.last_execute_time.as_ref().map_or(now, |time| time.0);
        let due = later(last, backoff::wait(tries.max(1), limits.max_wait));
        if tries > 0 && now < due {
            return self.wake_at(due);
        }
        self.retry(at, message);
    }

    /// A try has failed.
    fn retry(&mut self, at: At, message: String) {
        let (now, limits) = (self.now, self.spec.limits);
        let Some(state) = self.state(at) else { return };
        let tries = state.retries.unwrap_or(0);
        if tries >= limits.max_retries {
            return self.fail(at, StepReason::FailedAfterRetries, message);
        }
        (state.phase, state.reason) = (StepPhase::Failed, Some(StepReason::Execute));
        state.message = Some(message);
        state.progress = None;
        state.looks = None;
        state.retries = Some(tries + 1);
        state.last_execute_time = Some(Time(now));
        self.wake_in(backoff::wait(tries + 1, limits.max_wait));
    }

    /// Ends a step whose time is up, and with a group the steps in it; `true` if it was.
    pub(super) fn time_out(&mut self, at: At) -> bool {
        let (Some(step), Some(state)) = (self.spec.at(at), self.seen(at)) else {
            return false;
        };
        let Some(timeout) = step.timeout else { return false };
        if state.is_over() || state.first_execute_time.is_none() {
            return false;
        }
        if !self.left(at, timeout).is_zero() {
            self.wake_for(at, Some(timeout));
            return false;
        }
        let message = match &state.message {
            Some(message) => format!("not done within {}: {message}", shown(timeout)),
            None => format!("not done within {}", shown(timeout)),
        };
        for inner in 0..step.inner().len() {
            let at = At {
                inner: Some(inner),
                ..at
            };
            match self.seen(at).map(|state| (state.is_over(), state.phase)) {
                Some((true, _)) | None => {}
                Some((false, StepPhase::Pending)) => self.skip(at, None),
                Some((false, _)) => {
                    self.fail(at, StepReason::Timeout, "the time of its group is up".to_owned())
                }
            }
        }
        self.fail(at, StepReason::Timeout, message);
        true
    }

    /// Ends a group whose steps are all over; `true` if it did.
    pub(super) fn settle_group(&mut self, at: At) -> bool {
        let Some(state) = self.seen(at) else { return false };
        let inner = &state.sub_steps;
        if state.is_over() || !inner.iter().all(StepStatus::is_over) {
            return false;
        }
        let failed = inner.iter().find(|state| state.phase == StepPhase::Failed);
        let skipped = inner.iter().all(|state| state.phase == StepPhase::Skipped);
        match failed {
            Some(failed) => {
                let message = format!("step {} failed", failed.name);
                let reason = failed.reason.unwrap_or(StepReason::Action);
                self.fail(at, reason, message);
            }
            None if skipped => self.skip(at, Some("none of its steps ran".to_owned())),
            None => match self.spec.at(at) {
                Some(step) => self.finish(step, at, None),
                None => self.succeed(at),
            },
        }
        true
    }

    /// What is left of a time that began when the step did.
    fn left(&self, at: At, duration: Duration) -> Duration {
        let start = self.seen(at).and_then(|state| state.first_execute_time.as_ref());
        let end = later(start.map_or(self.now, |time| time.0), duration);
        Duration::try_from(end.duration_since(self.now)).unwrap_or_default()
    }

    fn wake_for(&mut self, at: At, duration: Option<Duration>) {
        if let Some(duration) = duration {
            let left = self.left(at, duration);
            self.wake_in(left);
        }
    }

    fn wake_at(&mut self, when: Timestamp) {
        self.wake_in(Duration::try_from(when.duration_since(self.now)).unwrap_or_default());
    }

    pub(super) fn wake_in(&mut self, after: Duration) {
        self.wake = Some(self.wake.map_or(after, |wake| wake.min(after)));
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn shown(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}

/// Which object it is, and which version of it.
fn version(object: &Value) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    format!("{}/{}", text("/metadata/uid"), text("/metadata/resourceVersion"))
}

fn digest(counts: &Value) -> String {
    let mut digest = roundhouse_api::hash::of_value(counts);
    digest.truncate(16);
    digest
}
