//! Steps that wait for a time, for the fleet, or for an object on the hub.

use super::{
    ClusterEvidence, ClusterState, StepEvidence, backoff,
    expressions::fleet,
    run::Run,
    spec::{At, Step},
    times::later,
};
use crate::action::Outcome;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use roundhouse_api::application::{
    HubObject, ReadyShare, StepExpression, StepPhase, StepReason, StepStatus, SuspendProperties, Until,
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
        if let Some(why) = self.waits_for_nobody(of) {
            return self.skip(at, Some(why));
        }
        let counts = fleet(self.waited(of).into_values());
        match self.until(until, step, &counts) {
            Ok(None) => self.finish(step, at, None),
            Ok(Some(message)) => self.wait(at, message, Some(digest(&counts))),
            Err(why) => self.refused(at, why),
        }
    }

    /// What the clusters of these steps show (of all that place, if none is named). Of a cluster of several steps the last one speaks
    /// that brings all components, for what it brings replaces the rest; of those of single components each has to have come to it.
    fn waited(&self, of: &[String]) -> BTreeMap<&'a str, &'a ClusterEvidence> {
        let mut clusters: BTreeMap<&str, &ClusterEvidence> = BTreeMap::new();
        for (placing, deploy) in self.spec.placing() {
            let is_named = of.is_empty() || of.contains(&placing.name);
            let evidence = self.evidence.steps.get(&placing.name).filter(|_| is_named);
            for shown in evidence.map_or(&[][..], StepEvidence::clusters) {
                let known = clusters.entry(&shown.cluster).or_insert(shown);
                if deploy.only.is_none() || shown.state == ClusterState::Dispatching {
                    *known = shown;
                }
            }
        }
        clusters
    }

    /// Why a wait for the clusters of these steps (of all that place, if none is named) waits for nobody: they are all passed
    /// over, and what earlier runs placed is not theirs; or those that are not are over, and of their clusters none is there any
    /// more, if there ever was one.
    fn waits_for_nobody(&self, of: &[String]) -> Option<String> {
        let waited: Vec<&str> = match of.is_empty() {
            true => self.spec.placing().map(|(step, _)| step.name.as_str()).collect(),
            false => of.iter().map(String::as_str).collect(),
        };
        let skipped = |name: &&str| {
            let state = self.workflow.step(name);
            state.is_some_and(|state| state.phase == StepPhase::Skipped)
        };
        let is_empty = |name: &&str| {
            let is_over = self.workflow.step(name).is_some_and(StepStatus::is_over);
            let shown = self.evidence.steps.get(*name).filter(|_| is_over);
            shown.is_some_and(StepEvidence::has_no_cluster)
        };
        let left: Vec<&str> = waited.iter().copied().filter(|name| !skipped(name)).collect();
        match (waited.as_slice(), left.as_slice()) {
            ([], _) => None,
            ([one], []) => Some(format!("step {one} was skipped")),
            (many, []) => Some(format!("steps {} were skipped", many.join(", "))),
            (_, left) if !left.iter().all(is_empty) => None,
            (_, [one]) => Some(format!("step {one} has placed on no cluster that is still there")),
            (_, many) => {
                let many = many.join(", ");
                Some(format!(
                    "steps {many} have placed on no cluster that is still there"
                ))
            }
        }
    }

    /// What came of the last look at an object. One that was judged before is judged again until the next one is due, which is
    /// asked for here: nothing of it is stored, and the step's state stays as it is while the object does. With it comes when
    /// the next one is due.
    fn looked(&mut self, step: &'a Step, at: At) -> Option<(u32, &'a Outcome, Timestamp)> {
        let state = self.seen(at)?;
        let came = self.evidence.actions.get(&step.name);
        let Some(came) = came.filter(|came| came.attempt >= state.attempt.unwrap_or(1)) else {
            self.came(step, at);
            return None;
        };
        let Outcome::Done { output } = &came.outcome else {
            return Some((came.attempt, &came.outcome, self.now));
        };
        let max = self.spec.limits.max_wait;
        let is_known = state.progress.as_ref() == Some(&version(output));
        let changed = self.evidence.changed.contains(&step.name);
        let since = match &state.last_execute_time {
            Some(time) if is_known => time.0,
            // It is looked at soon again.
            _ => came.at,
        };
        let wait = match changed {
            true => backoff::wait(1, max),
            false => backoff::until_next_look(since, came.at, max).max(backoff::wait(1, max)),
        };
        let due = match came.at > self.now {
            // The clock has jumped back: when it was is not known.
            true => self.now,
            false => later(came.at, wait),
        };
        if is_known && self.now >= due {
            self.ask(step, at, came.attempt.saturating_add(1));
            return None;
        }
        if is_known && changed {
            self.wake_at(due);
            return None;
        }
        Some((came.attempt, &came.outcome, due))
    }

    /// A step that waits for an object: what an expression names may be missing for now, as the object itself may.
    pub(super) fn judge_look(&mut self, step: &'a Step, at: At, object: &HubObject, until: &StepExpression) {
        let Some((attempt, outcome, due)) = self.looked(step, at) else {
            return;
        };
        let (message, seen) = match outcome {
            Outcome::Done { output: Value::Null } => (
                format!("waiting until {until}: {object} does not exist"),
                version(&Value::Null),
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
        let now = self.now;
        let Some(state) = self.state(at) else { return };
        (state.phase, state.reason) = (StepPhase::Running, Some(StepReason::Wait));
        state.message = Some(message);
        state.retries = None;
        if state.progress.as_ref() != Some(&seen) {
            state.progress = Some(seen);
            state.last_execute_time = Some(MicroTime(now));
        }
        self.wake_at(due);
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

/// Which object it is, and which version of it; that there is none.
fn version(object: &Value) -> String {
    if object.is_null() {
        return "none".to_owned();
    }
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
