//! Conditions: `conditionRules`, by CEL or by what is known of a kind (the shape and the rules of OCM's work agent).

use super::Readiness;
use super::expression::{Expression, Failure, Subject};
use crate::object::{ObjectKey, text};
use roundhouse_api::bundle::{self, COMPLETE, ConditionRuleType};
use roundhouse_api::condition::Status;
use serde_json::Value;

/// Longest condition type.
const MAX_TYPE: usize = 64;
/// Under which type a rule is reported that has no usable one.
const NAMELESS: &str = "ConditionRules";
/// What we say ourselves of every manifest.
const RESERVED: [&str; 2] = ["Applied", "StatusFeedbackSynced"];

/// Reason: the rule was evaluated.
const EVALUATED: &str = "ConditionRuleEvaluated";
/// Reason: the rule can never be evaluated.
const INVALID: &str = "ConditionRuleInvalid";
/// Reason: the rule cannot be evaluated on this object as it is.
const EVALUATION_FAILED: &str = "ConditionRuleEvaluationFailed";

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleCondition {
    pub(crate) type_: String,
    pub(crate) status: Status,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct ConditionRule {
    type_: String,
    test: Test,
    message: String,
    message_expression: Option<Expression>,
}

#[derive(Debug)]
enum Test {
    WellKnown,
    Expressions(Vec<Expression>),
    Invalid(String),
}

impl ConditionRule {
    /// Compiles a rule; `left` is how many expressions there may still be.
    pub(super) fn compile(rule: &bundle::ConditionRule, left: &mut usize) -> Self {
        let (type_, fault) = type_of(rule);
        let mut compile = |text: &String, variables: &[&str]| {
            *left = left.checked_sub(1).ok_or_else(super::too_many)?;
            Expression::compile(text, variables).map_err(|error| format!("{text:.80}: {error}"))
        };
        let mut parts = || -> Result<(Test, Option<Expression>), String> {
            if let Some(fault) = &fault {
                return Err(fault.clone());
            }
            let test = match rule.type_ {
                ConditionRuleType::WellKnownConditions => Test::WellKnown,
                ConditionRuleType::CEL if rule.cel_expressions.is_empty() => {
                    return Err("celExpressions is empty: a rule of type CEL needs at least one".to_owned());
                }
                ConditionRuleType::CEL => {
                    let compiled = rule.cel_expressions.iter().map(|text| compile(text, &["object"]));
                    Test::Expressions(compiled.collect::<Result<_, _>>()?)
                }
            };
            let message = Some(&rule.message_expression).filter(|text| !text.is_empty());
            let message = message
                .map(|text| compile(text, &["object", "result"]))
                .transpose()?;
            Ok((test, message))
        };
        let (test, message_expression) = parts().unwrap_or_else(|fault| (Test::Invalid(fault), None));
        ConditionRule {
            type_,
            test,
            message: rule.message.clone(),
            message_expression,
        }
    }

    /// A rule that is not compiled: it has a type, and nothing is known of whether it holds.
    pub(super) fn uncompiled(rule: &bundle::ConditionRule) -> Self {
        ConditionRule {
            type_: type_of(rule).0,
            test: Test::Invalid("it is not compiled".to_owned()),
            message: String::new(),
            message_expression: None,
        }
    }

    pub(super) fn completes(&self) -> bool {
        self.type_ == COMPLETE
    }

    pub(super) fn needs_expressions(&self) -> bool {
        matches!(self.test, Test::Expressions(_)) || self.message_expression.is_some()
    }

    /// What is said of an object that ran to its end and is gone.
    pub(super) fn finished(&self) -> RuleCondition {
        self.says(
            Status::True,
            EVALUATED,
            "it ran to its end and is gone".to_owned(),
        )
    }

    /// What is said of an object that could not be looked at.
    pub(super) fn unexamined(&self, why: &str) -> RuleCondition {
        self.says(Status::False, EVALUATION_FAILED, why.to_owned())
    }

    fn says(&self, status: Status, reason: &'static str, message: String) -> RuleCondition {
        RuleCondition {
            type_: self.type_.clone(),
            status,
            reason,
            message,
        }
    }

    fn evaluate(&self, key: &ObjectKey, live: &Value, subject: Option<&Subject<'_>>) -> RuleCondition {
        let holds = match &self.test {
            Test::Invalid(fault) => return self.says(Status::False, INVALID, fault.clone()),
            Test::WellKnown => match finished(key, live) {
                Some(finished) => Ok(finished),
                None => {
                    let message = format!(
                        "nothing is known of the completion of a {}: use type CEL",
                        key.kind
                    );
                    return self.says(Status::False, INVALID, message);
                }
            },
            Test::Expressions(all) => all_hold(all, subject),
        };
        match holds.and_then(|holds| Ok((holds, self.message(key, holds, subject)?))) {
            Ok((holds, message)) => self.says(holds.into(), EVALUATED, message),
            Err(failure) => self.says(Status::False, EVALUATION_FAILED, failure.to_string()),
        }
    }

    fn message(
        &self,
        key: &ObjectKey,
        holds: bool,
        subject: Option<&Subject<'_>>,
    ) -> Result<String, Failure> {
        if let (Some(expression), Some(subject)) = (&self.message_expression, subject) {
            let message = subject.text(expression, holds)?;
            if !message.is_empty() {
                return Ok(message);
            }
        }
        let not = if holds { "" } else { "not " };
        Ok(match &self.test {
            _ if !self.message.is_empty() => self.message.clone(),
            Test::WellKnown => format!("{} is {not}finished", key.kind),
            _ => format!("Manifest is {not}{}", self.type_),
        })
    }
}

/// Under which condition type a rule is reported, and what is wrong with the one that it names.
fn type_of(rule: &bundle::ConditionRule) -> (String, Option<String>) {
    let well_known = rule.type_ == ConditionRuleType::WellKnownConditions;
    let type_ = match rule.condition.as_str() {
        "" if well_known => COMPLETE,
        type_ => type_,
    };
    match check_type(type_) {
        Ok(()) => (type_.to_owned(), None),
        Err(fault) => (NAMELESS.to_owned(), Some(fault)),
    }
}

/// Several expressions are ANDed; the first that does not hold ends it.
fn all_hold(expressions: &[Expression], subject: Option<&Subject<'_>>) -> Result<bool, Failure> {
    let Some(subject) = subject else {
        return Ok(false);
    };
    for expression in expressions {
        if !subject.holds(expression)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a Job or a Pod came to its end, well or badly; `None` for kinds without a known end.
fn finished(key: &ObjectKey, live: &Value) -> Option<bool> {
    match (key.group.as_str(), key.kind.as_str()) {
        ("batch", "Job") => Some(
            ["Complete", "Failed"]
                .iter()
                .any(|type_| super::true_condition(live, type_).is_some()),
        ),
        ("", "Pod") => Some(matches!(
            text(live, "/status/phase"),
            Some("Succeeded" | "Failed")
        )),
        _ => None,
    }
}

fn check_type(type_: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let ends_well = type_.ends_with(|c: char| c.is_ascii_alphanumeric());
    if type_.is_empty() || type_.len() > MAX_TYPE || !type_.chars().all(allowed) || !ends_well {
        return Err(format!(
            "{type_:.80?} is no condition type: use letters, digits, `-`, `_`, `.` and `/`, {MAX_TYPE} at most"
        ));
    }
    if RESERVED.contains(&type_) {
        return Err(format!(
            "condition {type_} is set by the agent itself: use another type"
        ));
    }
    Ok(())
}

/// Evaluates the rules for one object. Of two rules with one condition type the later one counts.
pub(super) fn evaluate(
    rules: &[ConditionRule],
    key: &ObjectKey,
    live: &Value,
    subject: Option<&Subject<'_>>,
) -> Vec<RuleCondition> {
    let mut conditions: Vec<RuleCondition> = Vec::new();
    for condition in rules.iter().map(|rule| rule.evaluate(key, live, subject)) {
        match conditions.iter_mut().find(|known| known.type_ == condition.type_) {
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
    }
    conditions
}

/// The readiness of an object with these conditions; `table` is what is known of its kind.
///
/// `Failed` or `Degraded` True: failed. `Progressing` True: progressing. Then `Ready` and `Available` decide instead of
/// the table. One that can never be evaluated is a failure, because waiting does not help.
pub(super) fn decide(conditions: &[RuleCondition], table: Readiness) -> Readiness {
    let of = |types: &'static [&'static str]| {
        conditions
            .iter()
            .filter(move |condition| types.contains(&condition.type_.as_str()))
    };
    if let Some(bad) = of(&["Failed", "Degraded"]).find(|c| c.status == Status::True) {
        return Readiness::failed(&bad.type_, &bad.message);
    }
    if let Some(moving) = of(&["Progressing"]).find(|c| c.status == Status::True) {
        return Readiness::Progressing(moving.message.clone());
    }
    let mut deciding = of(&["Ready", "Available"]).peekable();
    if deciding.peek().is_none() {
        return table;
    }
    match deciding.find(|c| c.status != Status::True) {
        None => Readiness::Ready,
        Some(invalid) if invalid.reason == INVALID => Readiness::failed(INVALID, &invalid.message),
        Some(waiting) => Readiness::Progressing(waiting.message.clone()),
    }
}

#[cfg(test)]
mod tests;
