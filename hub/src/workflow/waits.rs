//! Steps that wait for a time or for the fleet.

use super::{
    expressions::fleet,
    run::Run,
    spec::{At, Step},
};
use roundhouse_api::application::{ReadyShare, SuspendProperties, Until, WaitStep};
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

    pub(super) fn judge_wait(&mut self, step: &'a Step, at: At, wait: &WaitStep) {
        let mut clusters = BTreeMap::new();
        for (name, evidence) in &self.evidence.steps {
            if wait.steps.is_empty() || wait.steps.contains(name) {
                clusters.extend(evidence.clusters().iter().map(|c| (c.cluster.as_str(), c)));
            }
        }
        let counts = fleet(clusters.values().copied());
        let passes = self.until(&wait.until, step, &counts);
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

fn digest(counts: &Value) -> String {
    let mut digest = roundhouse_api::hash::of_value(counts);
    digest.truncate(16);
    digest
}
