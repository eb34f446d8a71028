//! Steps that wait for a time, for the fleet, or for an object on the hub.

use super::{
    backoff,
    expressions::fleet,
    run::Run,
    spec::{At, Step},
};
use crate::action::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use roundhouse_api::application::{
    HubObject, ReadyShare, StepExpression, StepPhase, StepReason, SuspendProperties, Until,
};
use serde_json::Value;
use std::collections::BTreeMap;

impl<'a> Run<'a> {
    pub(super) fn judge_suspend(&mut self, at: At, suspend: &SuspendProperties) {
        let Some(duration) = suspend.duration else { return };
        if self.left(at, duration).is_zero() {
            self.succeed(at);
        } else {
            self.wake_for(at, Some(duration));
        }
    }

    pub(super) fn judge_wait(&mut self, step: &'a Step, at: At, until: &Until, of: &[String]) {
        if let Some(why) = self.never_places(of) {
            return self.skip(at, Some(why));
        }
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

    /// Why a wait for the clusters of these steps (of all that place, if none is named) waits for nobody: they are all passed
    /// over, and what earlier runs placed is not theirs.
    fn never_places(&self, of: &[String]) -> Option<String> {
        let waited: Vec<&str> = match of.is_empty() {
            true => self.spec.placing().map(|(step, _)| step.name.as_str()).collect(),
            false => of.iter().map(String::as_str).collect(),
        };
        let skipped = |name: &&str| {
            let state = self.workflow.step(name);
            state.is_some_and(|state| state.phase == StepPhase::Skipped)
        };
        (!waited.is_empty() && waited.iter().all(skipped)).then(|| match waited.as_slice() {
            [one] => format!("step {one} was skipped"),
            many => format!("steps {} were skipped", many.join(", ")),
        })
    }

    /// A step that waits for an object: what an expression names may be missing for now, as the object itself may.
    pub(super) fn judge_look(&mut self, step: &'a Step, at: At, object: &HubObject, until: &StepExpression) {
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
        state.last_execute_time = Some(MicroTime(now));
        self.wake_in(backoff::wait(looks, limits.max_wait));
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
                    ReadyShare::Percent(percent) => {
                        format!("waiting until {percent} of the clusters are ready: {ready} of {all} are")
                    }
                    ReadyShare::Count(wanted) => {
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
