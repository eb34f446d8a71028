//! What becomes of a step that was looked at: it is done, it has failed, it waits, it is tried again.

use super::{
    backoff,
    run::Run,
    spec::{Action, At, Step},
    times::later,
    values::{NotGiven, referenced},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use roundhouse_api::application::{StepPhase, StepReason, StepStatus};
use serde_json::Value;

impl<'a> Run<'a> {
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
            // All of them have reported.
            state.clusters.clear();
        }
    }

    /// The step has failed for good.
    pub(super) fn fail(&mut self, at: At, reason: StepReason, message: String) {
        if let Some(state) = self.state(at) {
            state.phase = StepPhase::Failed;
            state.reason = Some(reason);
            state.message = Some(message);
            state.progress = None;
        }
    }

    pub(super) fn skip(&mut self, at: At, why: Option<String>) {
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
            state.last_execute_time = Some(MicroTime(now));
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
        // Where the clock has jumped back it is not known when that was.
        if tries > 0 && last <= now && now < due {
            return self.wake_at(due);
        }
        self.retry(at, message);
    }

    /// A try has failed.
    pub(super) fn retry(&mut self, at: At, message: String) {
        let (now, limits) = (self.now, self.spec.limits);
        let Some(state) = self.state(at) else { return };
        let tries = state.retries.unwrap_or(0);
        if tries >= limits.max_retries {
            return self.fail(at, StepReason::FailedAfterRetries, message);
        }
        (state.phase, state.reason) = (StepPhase::Failed, Some(StepReason::Execute));
        state.message = Some(message);
        state.progress = None;
        state.retries = Some(tries + 1);
        state.last_execute_time = Some(MicroTime(now));
        self.wake_in(backoff::wait(tries + 1, limits.max_wait));
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
}
