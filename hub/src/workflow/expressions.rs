//! What expressions of steps see, and their evaluation.

use super::{ClusterEvidence, ClusterState, run::Run, spec::Step};
use roundhouse_api::application::{
    InputSource, StepExpression, StepPhase, StepReason, StepStatus, WorkflowStatus,
};
use roundhouse_expression::{Allowance, Failure, Subject, with_stack};
use serde_json::{Map, Value, json};

/// Variables by name; what is not offered is not there.
type Variables<'v> = Vec<(&'v str, Value)>;

impl Run<'_> {
    /// Whether an expression holds for a step.
    pub(super) fn holds(
        &self,
        expression: &StepExpression,
        step: &Step,
        more: Variables<'_>,
    ) -> Result<bool, String> {
        self.evaluate(step, more, |subject| expression.holds(subject))
    }

    /// What an expression of a step comes to.
    pub(super) fn value(
        &self,
        expression: &StepExpression,
        step: &Step,
        more: Variables<'_>,
    ) -> Result<Value, String> {
        self.evaluate(step, more, |subject| expression.json(subject))
    }

    fn evaluate<T: Send>(
        &self,
        step: &Step,
        more: Variables<'_>,
        evaluate: impl FnOnce(&Subject<'_>) -> Result<T, Failure> + Send,
    ) -> Result<T, String> {
        let mut variables = self.common(step);
        let inputs = step.inputs.iter().filter_map(|input| {
            // One that is missing is a key that is missing.
            Some((input.name.clone(), self.input(&input.source, step).ok()?))
        });
        variables.push(("inputs", Value::Object(inputs.collect())));
        variables.extend(more);
        run(&variables, evaluate)
    }

    /// The value of an input of a step, or why there is none.
    pub(super) fn input(&self, source: &InputSource, step: &Step) -> Result<Value, String> {
        match source {
            InputSource::Output(name) => {
                let giving = self.workflow.all_steps().find_map(|state| state.values.get(name));
                giving
                    .cloned()
                    .ok_or_else(|| format!("there is no output {name:?}: {}", self.why_missing(name)))
            }
            InputSource::Expression(expression) => {
                let variables = self.common(step);
                run(&variables, |subject| expression.json(subject))
            }
        }
    }

    /// Why a step did not give an output.
    fn why_missing(&self, output: &str) -> String {
        let places = self.spec.places();
        let gives = |step: &&Step| step.outputs.iter().any(|given| given.name == output);
        let step = places.iter().filter_map(|at| self.spec.at(*at)).find(gives);
        let Some(state) = step.and_then(|step| self.workflow.step(&step.name)) else {
            return "no step gives it".to_owned();
        };
        let how = match state.phase {
            StepPhase::Skipped => "was skipped",
            StepPhase::Failed => "failed",
            StepPhase::Succeeded => "gave none",
            _ => "is not done",
        };
        format!("step {} {how}", state.name)
    }

    fn common(&self, step: &Step) -> Variables<'static> {
        let (namespace, name) = &self.spec.application;
        let context = json!({
            "name": name,
            "appName": name,
            "namespace": namespace,
            "appRevision": self.spec.revision,
            "generation": self.spec.generation,
            "stepName": step.name,
        });
        vec![("status", statuses(&self.workflow)), ("context", context)]
    }
}

fn run<T: Send>(
    variables: &[(&str, Value)],
    evaluate: impl FnOnce(&Subject<'_>) -> Result<T, Failure> + Send,
) -> Result<T, String> {
    let evaluated = with_stack(|| {
        let allowance = Allowance::default();
        let named: Vec<(&str, &Value)> = variables.iter().map(|(name, value)| (*name, value)).collect();
        evaluate(&Subject::over(&named, &allowance))
    });
    match evaluated {
        Ok(result) => result.map_err(|failure| failure.to_string()),
        Err(unworked) => Err(unworked.to_string()),
    }
}

/// `status`: step -> how it stands.
fn statuses(workflow: &WorkflowStatus) -> Value {
    let all = workflow
        .all_steps()
        .map(|state| (state.name.clone(), shown(state)));
    Value::Object(all.collect::<Map<_, _>>())
}

fn shown(state: &StepStatus) -> Value {
    let is = |reason| state.reason == Some(reason);
    let mut shown = json!({
        "phase": state.phase,
        "reason": state.reason,
        "message": state.message.clone().unwrap_or_default(),
        "succeeded": state.phase == StepPhase::Succeeded,
        "failed": state.phase == StepPhase::Failed,
        "skipped": state.phase == StepPhase::Skipped,
        "timeout": is(StepReason::Timeout),
        "failedAfterRetries": is(StepReason::FailedAfterRetries),
        "terminate": is(StepReason::Terminate),
    });
    if let (Some(output), Some(map)) = (&state.output, shown.as_object_mut()) {
        map.insert("output".to_owned(), output.clone());
    }
    shown
}

/// `fleet`: clusters by how they stand.
pub(super) fn fleet<'c>(clusters: impl Iterator<Item = &'c ClusterEvidence>) -> Value {
    let mut counts = [0_u64; 8];
    for cluster in clusters {
        let place = match cluster.state {
            ClusterState::Dispatching => 0,
            ClusterState::Waiting => 1,
            ClusterState::Progressing => 2,
            ClusterState::Applied => 3,
            ClusterState::Ready => 4,
            ClusterState::Failed => 5,
            ClusterState::Unreachable => 6,
            ClusterState::Unhealthy => 7,
        };
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }
    let [
        dispatching,
        waiting,
        progressing,
        applied,
        ready,
        failed,
        unreachable,
        unhealthy,
    ] = counts;
    json!({
        "clusters": counts.iter().sum::<u64>(),
        "waiting": dispatching + waiting + progressing,
        "applied": applied + ready + unhealthy,
        "ready": ready,
        "failed": failed + unhealthy,
        "unreachable": unreachable,
    })
}
