//! What all steps have in common: `if`, `timeout`, `inputs`, `outputs`.

use super::{
    duration,
    node::{Node, Object, Shape, choice},
};
use crate::application::{
    Condition, Feedback, InputSource, OutputSource, ParameterKey, ReadyShare, StepExpression, StepInput,
    StepNames, StepOutput, Until,
};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// Longest name of an output.
const MAX_NAME: usize = 63;

const INPUT: Shape = Shape {
    known: &[&["from", "parameterKey"]],
    refused: &[(
        "name",
        "name is not known here: an input is called as what it is from",
    )],
};
const OUTPUT: Shape = Shape {
    known: &[&["name", "valueFrom"]],
    refused: &[],
};
const META: Shape = Shape {
    known: &[&["alias"]],
    refused: &[],
};
const UNTIL: Shape = Shape {
    known: &[&["ready"]],
    refused: &[],
};
/// What `until` is told.
pub(super) const UNTIL_HINT: &str =
    "write {ready: \"90%\"}, {ready: 3}, or an expression such as \"fleet.ready >= 3\"";

/// What the expressions of a step may name, and what its inputs fill in.
#[derive(Debug, Default)]
pub(super) struct Scope<'s> {
    /// The steps of the workflow.
    pub(super) names: StepNames,
    /// What the step's inputs are from.
    pub(super) inputs: Vec<&'s str>,
    /// Where they go.
    pub(super) keys: Vec<ParameterKey>,
}

impl Scope<'_> {
    /// Understands an expression.
    pub(super) fn expression(&self, node: &Node<'_>, variables: &[&str]) -> Option<StepExpression> {
        match StepExpression::parse(
            node.text()?,
            &self.names,
            variables,
            &self.inputs,
            node.compiled(),
        ) {
            Ok(expression) => Some(expression),
            Err(misread) => {
                node.refuse(misread.to_string());
                None
            }
        }
    }
}

/// The variables that every expression may name.
pub(super) const COMMON: [&str; 3] = ["status", "inputs", "context"];

/// `meta.alias`.
pub(super) fn alias(step: &Object<'_>) -> Option<String> {
    let alias = step
        .optional("meta")?
        .object(&META)?
        .optional("alias")?
        .string()?;
    Some(alias.to_owned())
}

/// `if`.
pub(super) fn condition(step: &Object<'_>, scope: &Scope<'_>) -> Option<Condition> {
    let node = step.optional("if")?;
    match node.string()?.trim() {
        "always" => Some(Condition::Always),
        _ => scope.expression(&node, &COMMON).map(Condition::When),
    }
}

/// A duration.
pub(super) fn duration(node: &Node<'_>) -> Option<Duration> {
    let text = node.text()?;
    let duration = duration::parse(text);
    if duration.is_none() {
        node.refuse(format!(
            "{text:?} is no duration above zero: write one such as 30s, 10m or 1h30m"
        ));
    }
    duration
}

/// A path into properties.
pub(super) fn key(node: &Node<'_>) -> Option<ParameterKey> {
    match ParameterKey::parse(node.text()?) {
        Ok(key) => Some(key),
        Err(error) => {
            node.refuse(error.to_string());
            None
        }
    }
}

/// `until`, of a `wait` step and of what a placing step waits for.
pub(super) fn until(node: &Node<'_>, scope: &Scope<'_>) -> Option<Until> {
    if node.value.is_string() {
        let [status, inputs, context] = COMMON;
        return scope
            .expression(node, &["fleet", status, inputs, context])
            .map(Until::Holds);
    }
    let ready = node.object(&UNTIL)?.required("ready", UNTIL_HINT)?;
    let share = match ready.value {
        Value::String(text) => match text.parse() {
            Ok(percent) => Some(ReadyShare::Percent(percent)),
            Err(error) => {
                ready.refuse(format!("{error}"));
                None
            }
        },
        _ => ready.integer(0, u32::MAX).map(ReadyShare::Count),
    };
    share.map(Until::Ready)
}

/// `inputs`; `outputs` are those of the whole workflow.
pub(super) fn inputs<'a>(
    step: &Object<'a>,
    names: &StepNames,
    outputs: &BTreeSet<String>,
) -> Vec<(StepInput, Option<Node<'a>>)> {
    let read = |node: &Node<'a>| {
        let object = node.object(&INPUT)?;
        let from = object.required("from", "name an output of another step, or write an expression")?;
        let text = from.text()?;
        let source = if outputs.contains(text) {
            InputSource::Output(text.to_owned())
        } else {
            // A bare word can be nothing but an output.
            let bare = text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
            if bare && text != "context" {
                let known = choice(text, outputs.iter().map(String::as_str));
                from.refuse(format!("there is no output named {text:?}{known}"));
                return None;
            }
            match StepExpression::parse(text, names, &["status", "context"], &[], from.compiled()) {
                Ok(expression) => InputSource::Expression(expression),
                Err(misread) => {
                    from.refuse(format!("is no output of a step, and no expression: {misread}"));
                    return None;
                }
            }
        };
        let key_node = object.optional("parameterKey");
        let key = match &key_node {
            Some(node) => Some(key(node)?),
            None => None,
        };
        let name = text.to_owned();
        Some((StepInput { name, source, key }, key_node))
    };
    step.list("inputs").iter().filter_map(read).collect()
}

/// What the outputs of a step are made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Origin<'c> {
    /// What its clusters report of this component; without one it cannot be told which.
    Clusters(Option<&'c str>),
    /// What its clusters report of its own object.
    Object,
    /// What the step itself has got.
    Itself,
    /// Nothing of its own.
    Nothing,
}

/// `outputs`; names that were seen are refused.
pub(super) fn outputs(
    step: &Object<'_>,
    scope: &Scope<'_>,
    origin: Origin<'_>,
    seen: &mut BTreeSet<String>,
) -> Vec<StepOutput> {
    let mut read = |node: &Node<'_>| {
        let object = node.object(&OUTPUT)?;
        let name = object.required("name", "name the output")?;
        let text = name.text()?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        if text.len() > MAX_NAME || !text.bytes().all(plain) {
            name.refuse(format!(
                "{text:?} cannot be the name of an output: use at most {MAX_NAME} letters, digits, '-' and '_'"
            ));
            return None;
        }
        if !seen.insert(text.to_owned()) {
            name.refuse(format!("output {text:?} is given twice: give each its own name"));
            return None;
        }
        let value = object.required("valueFrom", "say where the value is, such as output.status.url")?;
        Some(StepOutput {
            name: text.to_owned(),
            value: source(&value, scope, origin)?,
        })
    };
    step.list("outputs").iter().filter_map(&mut read).collect()
}

fn source(node: &Node<'_>, scope: &Scope<'_>, origin: Origin<'_>) -> Option<OutputSource> {
    let [status, inputs, context] = COMMON;
    match origin {
        Origin::Nothing => scope.expression(node, &COMMON).map(OutputSource::Expression),
        Origin::Itself => scope
            .expression(node, &["output", status, inputs, context])
            .map(OutputSource::Expression),
        Origin::Clusters(_) | Origin::Object => {
            let text = node.text()?;
            if let Ok(expression) =
                StepExpression::parse(text, &scope.names, &COMMON, &scope.inputs, node.compiled())
            {
                return Some(OutputSource::Expression(expression));
            }
            let expression = scope.expression(node, &["output"])?;
            let component = match origin {
                Origin::Clusters(Some(component)) => Some(component.to_owned()),
                Origin::Clusters(None) => {
                    node.refuse(
                        "which component is meant? The step dispatches several: use a step of type apply-component",
                    );
                    return None;
                }
                _ => None,
            };
            let path = text.trim().strip_prefix("output").filter(|path| {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.[]".contains(&b);
                path.bytes().all(plain) && (path.is_empty() || ParameterKey::parse(text.trim()).is_ok())
            });
            if path == Some("") {
                node.refuse("is the whole object: name a field of it, such as output.status.url");
                return None;
            }
            let read = match path {
                Some(path) => Feedback::Path(path.to_owned()),
                None => Feedback::Expression(expression.with_variable("output", "object")),
            };
            Some(OutputSource::Feedback { component, read })
        }
    }
}
