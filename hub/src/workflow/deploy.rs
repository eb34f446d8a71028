//! When a step that dispatches passes, waits, or fails.

use super::{
    ClusterEvidence, Deploy, Effect, Evidence, Spec, Status, StepEvidence, backoff,
    expressions::fleet,
    message,
    run::Run,
    spec::{At, Step},
    waiting,
};
use jiff::Timestamp;
use roundhouse_api::application::StepReason;

impl<'a> Run<'a> {
    pub(super) fn judge_deploy(
        &mut self,
        step: &'a Step,
        at: At,
        deploy: &Deploy,
        evidence: Option<&StepEvidence>,
    ) {
        // A step that fails dispatches nothing more.
        if let Some(message) = evidence.and_then(|evidence| too_many_failed(evidence, deploy)) {
            return self.fail(at, StepReason::Action, message);
        }
        self.effects.push(Effect::Dispatch {
            step: step.name.clone(),
        });
        let Some(evidence) = evidence else {
            let state = self.seen(at);
            let since = state.and_then(|state| state.last_execute_time.clone());
            let since = since.map_or(self.now, |time| time.0);
            return self.wake_in(backoff::until_next_look(
                since,
                self.now,
                self.spec.limits.max_wait,
            ));
        };
        if let StepEvidence::Refused { message, .. } = evidence {
            return self.refused(at, message.clone());
        }
        let open = match &deploy.until {
            None => (!evidence.passes(deploy.wait)).then(|| waiting(evidence, deploy.wait)),
            // There is nobody to count, and the placement allows that.
            Some(_) if *evidence == StepEvidence::AllowedEmpty => None,
            Some(until) => match evidence.until() {
                false => Some(waiting(evidence, deploy.wait)),
                true => match self.until(until, step, &fleet(evidence.clusters().iter())) {
                    Ok(Some(message)) => Some(format!("{message}; {}", waiting(evidence, deploy.wait))),
                    Ok(None) => None,
                    Err(why) => return self.refused(at, why),
                },
            },
        };
        match open {
            None => self.finish(step, at, None),
            Some(message) => self.wait(at, message, Some(evidence.digest())),
        }
    }
}

/// Whether the `wait: {until: …}` of a placing step holds over these clusters; `false` for a step that has none.
pub fn until_holds(
    spec: &Spec,
    status: &Status,
    step: &str,
    clusters: &[&ClusterEvidence],
    now: Timestamp,
) -> bool {
    let Some((step, deploy)) = spec.placing().find(|(placing, _)| placing.name == step) else {
        return false;
    };
    let evidence = Evidence::default();
    let run = Run::of(spec, status, &evidence, now);
    let holds = |until| run.until(until, step, &fleet(clusters.iter().copied()));
    deploy
        .until
        .as_ref()
        .is_some_and(|until| matches!(holds(until), Ok(None)))
}

/// What a step says that has more failed clusters than it may.
fn too_many_failed(evidence: &StepEvidence, deploy: &Deploy) -> Option<String> {
    let most = usize::try_from(deploy.max_failed_clusters?).unwrap_or(usize::MAX);
    let failed: Vec<&ClusterEvidence> = evidence
        .clusters()
        .iter()
        .filter(|cluster| cluster.state.has_failed(deploy.wait))
        .collect();
    (failed.len() > most).then(|| {
        format!(
            "{} clusters failed, more than maxFailedClusters {most}: {}",
            failed.len(),
            message::clusters(failed.iter().copied())
        )
    })
}
