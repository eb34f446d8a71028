//! Rules that may cost more than their text and their values are large: those with loops, and with functions whose work grows
//! faster than what they are given. They are evaluated within a budget, over values as the other rules have them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::{Engine, engine::general_purpose::STANDARD};
use kube_cel::cel::{Context, Program, Value as CelValue, objects};
use roundhouse_expression::{Allowance, Expression, Failure, number};
use serde_json::Value;

/// What all evaluations for one object may touch, in bytes: about what rules may cost that Kubernetes takes.
pub(super) const BUDGET: u64 = 2 * 1024 * 1024 * 1024;

/// A rule, and its message if that is an expression, as they are compiled; absent where they do not compile.
pub(super) struct Parsed<'a> {
    rule: &'a Value,
    expression: Option<Expression>,
    message: Option<Expression>,
}

impl<'a> Parsed<'a> {
    /// Compiles a rule; needs the stack of [`roundhouse_expression::with_stack`].
    pub(super) fn of(rule: &'a Value) -> Self {
        let compiled = |key: &str| {
            let text = rule.get(key)?.as_str()?;
            Expression::of_rule(text).ok()
        };
        Parsed {
            rule,
            expression: compiled("rule"),
            message: compiled("messageExpression"),
        }
    }

    /// How deep the deeper one of both nests.
    pub(super) fn depth(&self) -> usize {
        let both = self.expression.iter().chain(&self.message);
        both.map(Expression::depth).max().unwrap_or_default()
    }
}

/// A rule.
pub(super) struct Metered {
    expression: Expression,
    text: String,
    message: Option<String>,
    message_expression: Option<Expression>,
    /// Whether it looks at the value before.
    is_of_changes: bool,
    /// Whether it does so also where there is none.
    is_of_new: bool,
    pub(super) reason: Option<String>,
    pub(super) field: String,
}

impl Metered {
    /// The rule, if it may cost much; needs the stack of [`roundhouse_expression::with_stack`].
    pub(super) fn of(parsed: Parsed<'_>) -> Option<Self> {
        let Parsed {
            rule,
            expression,
            message,
        } = parsed;
        let expression = expression?;
        let messages_cost = message.as_ref().is_some_and(Expression::is_costly);
        if !expression.is_costly() && !messages_cost {
            return None;
        }
        let word = |key: &str| rule.get(key).and_then(Value::as_str);
        let text = word("rule")?;
        let program = Program::compile(text).ok()?;
        Some(Self {
            is_of_changes: program.references().has_variable("oldSelf"),
            is_of_new: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
            expression,
            text: text.to_owned(),
            message: word("message").map(str::to_owned),
            message_expression: message,
            reason: word("reason").map(str::to_owned),
            field: word("fieldPath").unwrap_or_default().to_owned(),
        })
    }

    /// Why a value is not accepted; `None` if it is.
    pub(super) fn refuses(
        &self,
        value: &CelValue,
        old: Option<&CelValue>,
        allowance: &Allowance,
    ) -> Option<String> {
        let mut variables = vec![("self", value.clone())];
        match old {
            Some(old) => variables.push(("oldSelf", old.clone())),
            None if !self.is_of_changes => {}
            None if self.is_of_new => variables.push(("oldSelf", CelValue::Null)),
            None => return None,
        }
        match self.expression.evaluate(&variables, allowance) {
            Ok(CelValue::Bool(true)) => None,
            Ok(CelValue::Bool(false)) => Some(self.message(&variables, allowance)),
            Ok(_) => Some(format!("rule \"{}\" did not evaluate to bool", self.text)),
            Err(Failure::Budget) => Some(format!(
                "rule \"{}\" costs more than allowed: all rules together may touch {} MiB",
                self.text,
                BUDGET / 1024 / 1024
            )),
            Err(error) => Some(format!("rule evaluation error: {error}")),
        }
    }

    fn message(&self, variables: &[(&str, CelValue)], allowance: &Allowance) -> String {
        let told = self.message_expression.as_ref();
        match told.map(|told| told.evaluate(variables, allowance)) {
            Some(Ok(CelValue::String(text))) => text.to_string(),
            _ => {
                let message = self.message.clone();
                message.unwrap_or_else(|| format!("failed rule: {}", self.text))
            }
        }
    }
}

/// A value as rules see it, read by its schema.
pub(super) fn to_cel(value: &Value, schema: &Value) -> CelValue {
    let nothing = Value::Null;
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(value) => number(value),
        Value::String(text) => {
            special(text, schema).unwrap_or_else(|| CelValue::String(Arc::new(text.clone())))
        }
        Value::Array(list) => {
            let items = schema.get("items").unwrap_or(&nothing);
            let list = list.iter().map(|item| to_cel(item, items));
            CelValue::List(Arc::new(list.collect()))
        }
        Value::Object(object) => {
            let additional = schema.get("additionalProperties");
            let is_map = !matches!(additional, None | Some(Value::Bool(false)));
            let entries = object.iter().map(|(name, value)| {
                let declared = schema.get("properties").and_then(|all| all.get(name));
                let below = declared.or(additional).unwrap_or(&nothing);
                let name = if is_map { name.clone() } else { escaped(name) };
                (key(&name), to_cel(value, below))
            });
            let mut map: HashMap<objects::Key, CelValue> = entries.collect();
            if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
                for name in ["apiVersion", "kind"] {
                    map.entry(key(name))
                        .or_insert_with(|| CelValue::String(Arc::default()));
                }
                let empty = || CelValue::Map(objects::Map { map: Arc::default() });
                map.entry(key("metadata")).or_insert_with(empty);
            }
            CelValue::Map(objects::Map { map: Arc::new(map) })
        }
    }
}

fn key(name: &str) -> objects::Key {
    objects::Key::String(Arc::new(name.to_owned()))
}

/// A text that rules see as something else.
fn special(text: &str, schema: &Value) -> Option<CelValue> {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return None;
    }
    match schema.get("format")?.as_str()? {
        "byte" => STANDARD
            .decode(text)
            .ok()
            .map(|bytes| CelValue::Bytes(Arc::new(bytes))),
        "date-time" => called(&TIMESTAMP, text),
        "duration" => called(&DURATION, text),
        _ => None,
    }
}

/// What the interpreter makes of a text.
static TIMESTAMP: LazyLock<Option<Program>> = LazyLock::new(|| Program::compile("timestamp(text)").ok());
static DURATION: LazyLock<Option<Program>> = LazyLock::new(|| Program::compile("duration(text)").ok());

fn called(call: &Option<Program>, text: &str) -> Option<CelValue> {
    let mut context = Context::default();
    context.add_variable_from_value("text", text.to_owned());
    call.as_ref()?.execute(&context).ok()
}

/// The name of a field as rules write it (`apiserver/schema/cel/model`).
fn escaped(name: &str) -> String {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    name.replace('_', "__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
