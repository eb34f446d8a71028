//! What steps take from one another, and what they give.

use super::{
    OutputEvidence,
    run::Run,
    spec::{At, Step},
};
use roundhouse_api::application::{OutputSource, StepReason};
use roundhouse_api::hash;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// All values of a run weigh at most this much, in bytes of canonical JSON.
pub const MAX_VALUES: usize = 64 * 1024;

/// Why a step cannot give what it is to give.
pub(super) enum NotGiven {
    /// It may come.
    Yet(String),
    /// It will not.
    Ever(String),
}

impl Run<'_> {
    /// The properties of a step with its inputs put in.
    pub(super) fn filled(&self, step: &Step, properties: &Value) -> Result<Value, String> {
        let mut filled = properties.clone();
        for input in &step.inputs {
            if let Some(key) = &input.key {
                let value = self
                    .input(&input.source, step)
                    .map_err(|why| format!("input from {:?}: {why}", input.name))?;
                key.set(&mut filled, value)
                    .map_err(|why| format!("input from {:?} cannot be put in: {why}", input.name))?;
            }
        }
        Ok(filled)
    }

    /// The values that a step gives, `own` being what it has got itself.
    pub(super) fn outputs(
        &self,
        step: &Step,
        own: Option<&Value>,
    ) -> Result<BTreeMap<String, Value>, NotGiven> {
        let mut values = BTreeMap::new();
        for output in &step.outputs {
            let name = &output.name;
            let value = match &output.value {
                OutputSource::Expression(expression) => {
                    let more = own.map(|own| ("output", own.clone())).into_iter().collect();
                    self.value(expression, step, more)
                        .map_err(|why| NotGiven::Ever(format!("output {name:?}: {expression}: {why}")))?
                }
                OutputSource::Feedback { .. } => match self.evidence.outputs.get(name) {
                    Some(OutputEvidence::Agreed(value)) => value.clone(),
                    Some(OutputEvidence::Missing { clusters, .. }) => {
                        let clusters = super::message::named(clusters);
                        return Err(NotGiven::Yet(format!(
                            "waiting for output {name:?}: no value from {clusters}"
                        )));
                    }
                    Some(OutputEvidence::Differs { one, other }) => {
                        return Err(NotGiven::Yet(format!(
                            "waiting for output {name:?}: clusters {one} and {other} report different values, and they have to agree"
                        )));
                    }
                    None => {
                        return Err(NotGiven::Yet(format!(
                            "waiting for output {name:?}: no cluster has reported"
                        )));
                    }
                },
            };
            values.insert(name.clone(), value);
        }
        Ok(values)
    }

    /// Stores what a step gives and what others name of its output; `false` if all values of the run together weigh too
    /// much, and then the step has failed.
    pub(super) fn keep(&mut self, at: At, values: BTreeMap<String, Value>, output: Option<Value>) -> bool {
        let Some(state) = self.state(at) else { return true };
        state.values = values;
        state.output = output;
        let weigh = |value: &Value| hash::weight(value);
        let weights = self.workflow.all_steps().map(|state| {
            let own = state.values.values().chain(&state.output).map(weigh);
            (own.sum::<usize>(), state.name.clone())
        });
        let mut weights: Vec<(usize, String)> = weights.filter(|(weight, _)| *weight > 0).collect();
        let sum: usize = weights.iter().map(|(weight, _)| weight).sum();
        if sum <= MAX_VALUES {
            return true;
        }
        weights.sort_by(|a, b| b.cmp(a));
        let named = weights.iter().take(3);
        let named: Vec<String> = named
            .map(|(weight, step)| format!("{weight} of step {step}"))
            .collect();
        if let Some(state) = self.state(at) {
            state.values = BTreeMap::new();
            state.output = None;
        }
        let message = format!(
            "the values of this run weigh {sum} bytes, more than {MAX_VALUES}: {}; give only what other steps need",
            named.join(", ")
        );
        self.fail(at, StepReason::Output, message);
        false
    }
}

/// What of an output is named by others: these paths of it, or all for an empty one.
pub(super) fn referenced(output: &Value, paths: &[String]) -> Option<Value> {
    if paths.is_empty() {
        return None;
    }
    let mut kept = Value::Object(Map::new());
    for path in paths {
        if path.is_empty() {
            return Some(output.clone());
        }
        copy(output, &mut kept, path);
    }
    Some(kept)
}

fn copy(from: &Value, to: &mut Value, path: &str) {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    let (Some(value), Some(map)) = (from.get(first), to.as_object_mut()) else {
        return;
    };
    match rest {
        Some(rest) if value.is_object() => {
            // What is there whole stays whole.
            let below = map.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if below != value {
                copy(value, below, rest);
            }
        }
        _ => {
            map.insert(first.to_owned(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_named_is_kept() {
        let output =
            json!({"statusCode": 200, "body": {"a": {"b": 1, "c": 2}, "d": 3}, "headers": {"x": "y"}});
        for (paths, expected) in [
            (&[][..], None),
            (&["statusCode"][..], Some(json!({"statusCode": 200}))),
            (
                &["body.a.b", "body.d"][..],
                Some(json!({"body": {"a": {"b": 1}, "d": 3}})),
            ),
            (
                &["body.a", "body.a.b"][..],
                Some(json!({"body": {"a": {"b": 1, "c": 2}}})),
            ),
            (&["", "body"][..], Some(output.clone())),
            (
                &["missing.x", "statusCode.x"][..],
                Some(json!({"statusCode": 200})),
            ),
        ] {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(referenced(&output, &paths), expected, "{paths:?}");
        }
    }
}
