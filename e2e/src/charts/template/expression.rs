//! What stands in an action: words, and pipelines of them.

use super::Place;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::vec::IntoIter;

/// The functions of the subset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Default,
    Include,
    Nindent,
    Quote,
    ToYaml,
}

impl Function {
    fn of(name: &str) -> Option<Function> {
        Some(match name {
            "default" => Function::Default,
            "include" => Function::Include,
            "nindent" => Function::Nindent,
            "quote" => Function::Quote,
            "toYaml" => Function::ToYaml,
            _ => return None,
        })
    }
}

/// A value in an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    /// A path from the dot; the dot itself has none.
    Field(Vec<String>),
    /// A string, a number or a boolean.
    Literal(Value),
    /// What stands in parentheses.
    Nested(Box<Pipeline>),
}

/// A command of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Command {
    /// A value.
    Value(Operand),
    /// A call; what comes through the pipe is its last argument.
    Call(Function, Vec<Operand>),
}

/// Commands, each of which gets the value of the one before.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pipeline {
    /// Where it stands.
    pub(super) place: Place,
    /// At least one.
    pub(super) commands: Vec<Command>,
}

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Name(String),
    Field(Vec<String>),
    Literal(Value),
    Pipe,
    Open,
    Close,
}

/// Parses a pipeline.
///
/// # Errors
/// What is not of the subset, with its place.
pub(super) fn pipeline(place: &Place, text: &str) -> Result<Pipeline> {
    until(place, &mut words(place, text)?.into_iter(), None)
}

/// A string literal and nothing else: the name of a definition.
pub(super) fn name(place: &Place, text: &str) -> Result<String> {
    match words(place, text)?.as_slice() {
        [Word::Literal(Value::String(name))] => Ok(name.clone()),
        _ => bail!("{place}: define takes one string, not {text:?}"),
    }
}

/// The pipeline up to `end`: a parenthesis, or nothing more.
fn until(place: &Place, words: &mut IntoIter<Word>, end: Option<&Word>) -> Result<Pipeline> {
    let mut commands = Vec::new();
    loop {
        let first = words.next().filter(|word| Some(word) != end);
        let first = first.with_context(|| format!("{place}: a value or a function is missing"))?;
        let function = match first {
            Word::Name(name) => Some(Function::of(&name).with_context(|| {
                format!(
                    "{place}: {name} is not of the subset: if, with, range, include, default, quote, toYaml, nindent"
                )
            })?),
            word => {
                ensure!(commands.is_empty(), "{place}: what stands behind a pipe is a function");
                commands.push(Command::Value(operand(place, word, words)?));
                None
            }
        };
        let mut arguments = Vec::new();
        let piped = loop {
            match words.next() {
                word if word.as_ref() == end => break false,
                Some(Word::Pipe) => break true,
                Some(word) => arguments.push(operand(place, word, words)?),
                None => bail!("{place}: a parenthesis is not closed"),
            }
        };
        match function {
            Some(function) => commands.push(Command::Call(function, arguments)),
            None => ensure!(arguments.is_empty(), "{place}: a value takes no arguments"),
        }
        if !piped {
            return Ok(Pipeline {
                place: place.clone(),
                commands,
            });
        }
    }
}

fn operand(place: &Place, word: Word, words: &mut IntoIter<Word>) -> Result<Operand> {
    Ok(match word {
        Word::Field(path) => Operand::Field(path),
        Word::Literal(value) => Operand::Literal(value),
        Word::Open => Operand::Nested(Box::new(until(place, words, Some(&Word::Close))?)),
        Word::Name(name) => bail!("{place}: {name} is no argument; calls are in parentheses"),
        Word::Pipe | Word::Close => bail!("{place}: a value is missing"),
    })
}

fn words(place: &Place, text: &str) -> Result<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '|' | '(' | ')' => {
                words.push(match first {
                    '|' => Word::Pipe,
                    '(' => Word::Open,
                    _ => Word::Close,
                });
                1
            }
            '"' => {
                // The strings of Go that charts have are those of JSON.
                let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
                let value = values.next().transpose();
                let value = value
                    .ok()
                    .flatten()
                    .with_context(|| format!("{place}: a string does not end"))?;
                words.push(Word::Literal(value));
                values.byte_offset()
            }
            '.' => {
                let length = rest.find(|c| !is_word(c) && c != '.').unwrap_or(rest.len());
                let path = rest[1..length].split('.').map(str::to_owned);
                let path: Vec<String> = if length == 1 { Vec::new() } else { path.collect() };
                ensure!(
                    path.iter().all(|key| !key.is_empty()),
                    "{place}: {:?} is no path",
                    &rest[..length]
                );
                words.push(Word::Field(path));
                length
            }
            _ if is_word(first) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let word = &rest[..length];
                let literal = serde_json::from_str::<Value>(word).ok();
                words.push(match literal {
                    Some(value @ (Value::Bool(_) | Value::Number(_))) => Word::Literal(value),
                    _ => Word::Name(word.to_owned()),
                });
                length
            }
            _ => bail!("{place}: {first:?} is not of the subset: no variables, no operators"),
        };
        let after = &rest[length..];
        rest = after.trim_start();
        let separate = rest.len() < after.len() || rest.is_empty();
        ensure!(
            separate || after.starts_with(['|', ')']) || matches!(first, '|' | '('),
            "{place}: {text:?}: words are separated by spaces"
        );
    }
    Ok(words)
}
