//! `labelSelector`: the grammar of `k8s.io/apimachinery/pkg/labels`.

use super::Labels;
use crate::names;

/// Why a selector cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse selector {text:?}: {why}")]
pub struct SelectorError {
    pub(crate) text: String,
    pub(crate) why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Greater(i64),
    Less(i64),
}

/// A conjunction of requirements on labels; the empty one selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector(Vec<(String, Test)>);

impl LabelSelector {
    /// Reads a selector such as `env in (prod, dev), !canary, tier != web`.
    ///
    /// # Errors
    /// If the text does not follow the grammar, or a key or value is no valid label.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        parser.selector().map(Self).map_err(|why| SelectorError {
            text: text.to_owned(),
            why,
        })
    }

    /// Reads a selector in object form (`matchLabels`, `matchExpressions`).
    ///
    /// # Errors
    /// If an expression has an unknown operator.
    pub(crate) fn of_object(selector: &serde_json::Value) -> Result<Self, SelectorError> {
        use serde_json::Value;
        let word = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let mut out = vec![];
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            out.push((key.clone(), Test::In(vec![word(value)])));
        }
        let list = |v: &Value, key: &str| v.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        for expression in list(selector, "matchExpressions") {
            let values = || list(&expression, "values").iter().map(word).collect();
            let test = match expression.get("operator").map(word).unwrap_or_default().as_str() {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                other => {
                    return Err(SelectorError {
                        text: selector.to_string(),
                        why: format!("{other:?} is not a valid label selector operator"),
                    });
                }
            };
            out.push((expression.get("key").map(word).unwrap_or_default(), test));
        }
        Ok(Self(out))
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, test)| {
            let value = labels.get(key);
            match test {
                Test::In(list) => value.is_some_and(|v| list.iter().any(|x| x == v)),
                Test::NotIn(list) => value.is_none_or(|v| list.iter().all(|x| x != v)),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
                Test::Greater(than) => value
                    .and_then(|v| v.parse::<i64>().ok())
                    .is_some_and(|v| v > *than),
                Test::Less(than) => value
                    .and_then(|v| v.parse::<i64>().ok())
                    .is_some_and(|v| v < *than),
            }
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = vec![];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        let symbols = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"];
        if let Some(symbol) = symbols.into_iter().find(|s| rest.starts_with(s)) {
            out.push(Token::Symbol(symbol));
            rest = rest.get(symbol.len()..).unwrap_or_default();
            continue;
        }
        let end = rest
            .find(|c: char| c.is_whitespace() || "=!,()><".contains(c))
            .unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        out.push(Token::Word(word.to_owned()));
        rest = tail;
    }
    out
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// What is there instead of what is expected.
    fn found(&self) -> String {
        match self.peek() {
            Some(Token::Word(word)) => format!("'{word}'"),
            Some(Token::Symbol(symbol)) => format!("'{symbol}'"),
            None => "the end".to_owned(),
        }
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let hit = matches!(self.peek(), Some(Token::Symbol(s)) if *s == symbol);
        self.at += usize::from(hit);
        hit
    }

    fn word(&mut self) -> Option<String> {
        let Some(Token::Word(word)) = self.peek() else {
            return None;
        };
        let word = word.clone();
        self.at += 1;
        Some(word)
    }

    fn selector(&mut self) -> Result<Vec<(String, Test)>, String> {
        let mut out = vec![];
        if self.tokens.is_empty() {
            return Ok(out);
        }
        loop {
            out.push(self.requirement()?);
            if self.peek().is_none() {
                return Ok(out);
            }
            if !self.eat(",") {
                return Err(format!("found {}, expected: ',' or the end", self.found()));
            }
        }
    }

    fn requirement(&mut self) -> Result<(String, Test), String> {
        let negated = self.eat("!");
        let key = self
            .word()
            .ok_or_else(|| format!("found {}, expected: a label key", self.found()))?;
        if let Some(why) = names::qualified_name(&key).into_iter().next() {
            return Err(format!("{key:?} is no label key: {why}"));
        }
        if negated {
            return Ok((key, Test::Absent));
        }
        let test = match self.peek() {
            None | Some(Token::Symbol(",")) => Test::Exists,
            Some(Token::Symbol("=" | "==")) => {
                self.at += 1;
                Test::In(vec![self.value()?])
            }
            Some(Token::Symbol("!=")) => {
                self.at += 1;
                Test::NotIn(vec![self.value()?])
            }
            Some(Token::Symbol(">")) => {
                self.at += 1;
                Test::Greater(self.number()?)
            }
            Some(Token::Symbol("<")) => {
                self.at += 1;
                Test::Less(self.number()?)
            }
            Some(Token::Word(word)) if word == "in" => {
                self.at += 1;
                Test::In(self.set()?)
            }
            Some(Token::Word(word)) if word == "notin" => {
                self.at += 1;
                Test::NotIn(self.set()?)
            }
            _ => {
                let found = self.found();
                return Err(format!("found {found}, expected: in, notin, =, ==, !=, >, <"));
            }
        };
        Ok((key, test))
    }

    /// A value may be empty: `a=` selects the label with the empty value.
    fn value(&mut self) -> Result<String, String> {
        let value = self.word().unwrap_or_default();
        match names::label_value(&value).into_iter().next() {
            Some(why) => Err(format!("{value:?} is no label value: {why}")),
            None => Ok(value),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| format!("{value:?} is no integer"))
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        if !self.eat("(") {
            return Err(format!("found {}, expected: '('", self.found()));
        }
        let mut out = vec![];
        loop {
            out.push(self.value()?);
            if self.eat(")") {
                return Ok(out);
            }
            if !self.eat(",") {
                return Err(format!("found {}, expected: ',' or ')'", self.found()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn operators() {
        let prod = labels(&[("env", "prod"), ("n", "5")]);
        let none = labels(&[]);
        let table = [
            ("", true, true),
            ("env", true, false),
            ("!env", false, true),
            ("env=prod", true, false),
            ("env == prod", true, false),
            ("env!=prod", false, true),
            ("env in (dev,prod)", true, false),
            ("env notin (prod)", false, true),
            ("env in ()", false, false),
            ("env,n>4", true, false),
            ("n<5", false, false),
            ("env=", false, false),
        ];
        for (text, on_prod, on_none) in table {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.matches(&prod), on_prod, "{text}");
            assert_eq!(selector.matches(&none), on_none, "{text}");
        }
    }

    #[test]
    fn malformed() {
        for text in [
            "env in (",
            "env in prod",
            "=x",
            "a b",
            "a=b c",
            "a,,b",
            "a,",
            "!",
            "a>x",
            "a in (b",
            "-a",
            "a=b/c",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}|[a-z=!,() <>]{0,30}") {
            let _ = LabelSelector::parse(&text);
        }

        #[test]
        fn equality_is_membership_of_one(key in "[a-z]{1,8}", value in "[a-z0-9]{0,8}", have in "[a-z0-9]{0,8}") {
            let object = labels(&[(&key, &have)]);
            let equal = LabelSelector::parse(&format!("{key}={value}")).unwrap();
            let member = LabelSelector::parse(&format!("{key} in ({value})")).unwrap();
            let other = LabelSelector::parse(&format!("{key}!={value}")).unwrap();
            prop_assert_eq!(equal.matches(&object), have == value);
            prop_assert_eq!(member.matches(&object), have == value);
            prop_assert_eq!(other.matches(&object), have != value);
        }
    }
}
