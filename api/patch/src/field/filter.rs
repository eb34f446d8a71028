//! The filter of a step: `[?(@.name=="main")]`, and its short form `[name=main]`.

use std::cmp::Ordering;

use serde_json::Value;

/// Tests one element of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filter {
    /// The fields from the element to the value that is looked at; none for the element itself.
    pub(super) left: Vec<String>,
    /// What must hold of the value; without it the value must be there.
    pub(super) test: Option<(Operator, Literal)>,
}

/// The comparisons of kubectl's dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The right side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    /// A quoted text, a number, `true`, `false`, `null`.
    Value(Value),
    /// The bare word of the short form: it fits a text, and a number or boolean that is printed so.
    Word(String),
}

impl Filter {
    /// Whether an element passes. As in kubectl, one that lacks the field never does, not even with `!=`.
    pub(super) fn passes(&self, element: &Value) -> bool {
        let mut value = element;
        for name in &self.left {
            match value.get(name) {
                Some(field) => value = field,
                None => return false,
            }
        }
        match &self.test {
            None => true,
            Some((operator, literal)) => operator.holds(literal.compare(value)),
        }
    }
}

impl Operator {
    /// `None` is the comparison of what has no order: values of different types, objects, lists.
    fn holds(self, ordering: Option<Ordering>) -> bool {
        match self {
            Operator::Equal => ordering == Some(Ordering::Equal),
            Operator::NotEqual => ordering != Some(Ordering::Equal),
            Operator::Less => ordering == Some(Ordering::Less),
            Operator::LessOrEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => ordering == Some(Ordering::Greater),
            Operator::GreaterOrEqual => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

impl Literal {
    /// Compares a value of the document with this.
    fn compare(&self, value: &Value) -> Option<Ordering> {
        match (self, value) {
            (Literal::Word(word), Value::String(text)) => Some(text.as_str().cmp(word)),
            (Literal::Word(word), Value::Number(_) | Value::Bool(_)) => {
                Some(value.to_string().as_str().cmp(word))
            }
            (Literal::Value(Value::String(wanted)), Value::String(text)) => Some(text.cmp(wanted)),
            (Literal::Value(Value::Number(wanted)), Value::Number(number)) => {
                match (number.as_i64(), wanted.as_i64()) {
                    (Some(number), Some(wanted)) => Some(number.cmp(&wanted)),
                    _ => number.as_f64()?.partial_cmp(&wanted.as_f64()?),
                }
            }
            (Literal::Value(wanted), value) if wanted == value => Some(Ordering::Equal),
            _ => None,
        }
    }
}
