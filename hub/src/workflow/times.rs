//! Times of steps: their beginning and end, and when to look again.

use super::{engine::each, run::Run, spec::At};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use roundhouse_api::application::{StepPhase, StepReason, StepStatus};
use std::time::Duration;

/// By so much two clocks may be off that are in step: a hub that takes over corrects no less (`leader::skew`).
const IN_STEP: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// A step that began later than now begins now: the hub that wrote so had a fast clock, or this one was started with a slow
    /// one. So what has a time takes no longer than that from here on.
    pub(super) fn begin_by_now(&mut self) {
        let (now, latest) = (self.now, later(self.now, IN_STEP));
        each(&mut self.workflow, |state| {
            if !state.is_over()
                && let Some(began) = &mut state.first_execute_time
                && began.0 > latest
            {
                *began = MicroTime(now);
            }
        });
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

    /// Sees to it that a step that goes on is looked at when its time is up.
    pub(super) fn wake_at_end(&mut self, at: At) {
        let open = |state: &&StepStatus| !state.is_over() && state.first_execute_time.is_some();
        if self.seen(at).filter(open).is_some() {
            self.wake_for(at, self.spec.at(at).and_then(|step| step.timeout));
        }
    }

    /// What is left of a time that began when the step did.
    pub(super) fn left(&self, at: At, duration: Duration) -> Duration {
        let start = self.seen(at).and_then(|state| state.first_execute_time.as_ref());
        let end = later(start.map_or(self.now, |time| time.0), duration);
        Duration::try_from(end.duration_since(self.now)).unwrap_or_default()
    }

    pub(super) fn wake_for(&mut self, at: At, duration: Option<Duration>) {
        if let Some(duration) = duration {
            let left = self.left(at, duration);
            self.wake_in(left);
        }
    }

    pub(super) fn wake_at(&mut self, when: Timestamp) {
        self.wake_in(Duration::try_from(when.duration_since(self.now)).unwrap_or_default());
    }

    pub(super) fn wake_in(&mut self, after: Duration) {
        self.wake = Some(self.wake.map_or(after, |wake| wake.min(after)));
    }
}

pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// A time for people, in whole seconds, as it is stored.
pub(super) fn whole(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

fn shown(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}
