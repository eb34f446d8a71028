//! Expressions of steps: `if`, `valueFrom`, `from`, `until`; CEL over the variables that each place offers.
//!
//! | variable | what it is |
//! | --- | --- |
//! | `status` | step -> `phase`, `reason`, `message`, `succeeded`, `failed`, `skipped`, `timeout`, `output` |
//! | `inputs` | the inputs of the step, by what they come from |
//! | `context` | `name`, `appName`, `namespace`, `appRevision`, `generation`, `stepName` |
//! | `output` | in `valueFrom`: what the step itself has got |
//! | `fleet` | in `until`: `clusters`, `ready`, `applied`, `failed`, `unreachable`, `waiting` |
//! | `object` | in `until` over an object: the live object |
//!
//! `<step>.output.…` is short for `status.<step>.output.…` (the seed's form). Names of steps may have a `-` in them, which
//! CEL reads as minus; so the known names are put into brackets and quotes before the text is parsed.

use super::validate::choice;
use roundhouse_expression::{Compiled, Expression, Failure, Invalid, Subject};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The variables that are never names of steps.
const RESERVED: [&str; 5] = ["status", "inputs", "context", "output", "fleet"];

/// The steps of a workflow that expressions may name.
#[derive(Debug, Clone, Default)]
pub struct StepNames {
    /// Step -> whether it has an output.
    steps: BTreeMap<String, bool>,
}

impl StepNames {
    /// Adds a step.
    pub fn insert(&mut self, name: &str, has_output: bool) {
        self.steps.insert(name.to_owned(), has_output);
    }

    /// Whether there is a step of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.steps.contains_key(name)
    }

    /// All names, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.steps.keys().map(String::as_str)
    }
}

/// A part of a step's output that an expression names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The step.
    pub step: String,
    /// The part, such as `body.url`; empty for all of it.
    pub path: String,
}

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct Misread {
    /// Line in the text, from 1.
    pub line: usize,
    /// Column in the line, in characters from 1.
    pub column: usize,
    /// What is wrong and what to do.
    pub reason: String,
}

/// An expression that was understood.
#[derive(Clone)]
pub struct StepExpression {
    text: String,
    /// As CEL reads it.
    rewritten: String,
    compiled: Arc<Expression>,
    references: Vec<Reference>,
}

impl PartialEq for StepExpression {
    fn eq(&self, other: &Self) -> bool {
        // Compiled from it, and nothing else.
        self.rewritten == other.rewritten
    }
}

impl fmt::Debug for StepExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StepExpression").field(&self.text).finish()
    }
}

impl fmt::Display for StepExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StepExpression {
    /// Understands an expression over `variables`, some of the module's; `inputs` are those that its step has. What is
    /// among `known` is not compiled again.
    ///
    /// # Errors
    /// [`Misread`] says where and why.
    pub fn parse(
        text: &str,
        names: &StepNames,
        variables: &[&str],
        inputs: &[&str],
        known: &Compiled,
    ) -> Result<StepExpression, Misread> {
        let rewritten = Rewriter::new(text, names, variables, inputs).run()?;
        let compiled = known.compile(&rewritten.text, variables);
        let at_start = |reason: String| Misread {
            line: 1,
            column: 1,
            reason,
        };
        let compiled = match compiled {
            Err(why) => return Err(at_start(why.to_string())),
            Ok(Ok(compiled)) => compiled,
            Ok(Err(Invalid::Syntax { line, column, reason })) => {
                let at = rewritten.origin(place(&rewritten.text, line, column));
                let (line, column) = line_and_column(text, at);
                return Err(Misread { line, column, reason });
            }
            Ok(Err(Invalid::Undeclared { name, available })) => {
                let at = text.find(&name).unwrap_or(0);
                let (line, column) = line_and_column(text, at);
                let hint = match names.contains(&name) {
                    true => format!(": of step {name:?} write {name}.output.… or status.{name}.…"),
                    false => String::new(),
                };
                return Err(Misread {
                    line,
                    column,
                    reason: format!("there is no {name:?} here, but {available}{hint}"),
                });
            }
            Ok(Err(other)) => return Err(at_start(other.to_string())),
        };
        Ok(StepExpression {
            text: text.to_owned(),
            rewritten: rewritten.text,
            compiled,
            references: rewritten.references,
        })
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// As CEL reads it.
    pub fn cel(&self) -> &str {
        &self.rewritten
    }

    /// The same, with another variable in place of `variable`.
    pub fn with_variable(&self, variable: &str, other: &str) -> String {
        let mut out = String::with_capacity(self.rewritten.len());
        let (mut rest, mut after_point) = (self.rewritten.as_str(), false);
        while let Some(c) = rest.chars().next() {
            let (length, replaced) = match literal(rest) {
                Some(length) => (length, false),
                None if c.is_ascii_alphanumeric() || c == '_' => {
                    let word = identifier(rest);
                    (word.len(), word == variable && !after_point)
                }
                None => (c.len_utf8(), false),
            };
            let (piece, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
            out.push_str(if replaced { other } else { piece });
            after_point = c == '.' || (after_point && c.is_whitespace());
            rest = behind;
        }
        out
    }

    /// The outputs of steps that it names.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// Evaluates to true or false; needs the stack of [`with_stack`](roundhouse_expression::with_stack).
    ///
    /// # Errors
    /// [`Failure`] says why it has no result.
    pub fn holds(&self, subject: &Subject<'_>) -> Result<bool, Failure> {
        subject.holds(&self.compiled)
    }

    /// Evaluates to JSON; needs the stack of [`with_stack`](roundhouse_expression::with_stack).
    ///
    /// # Errors
    /// [`Failure`] says why it has no result.
    pub fn json(&self, subject: &Subject<'_>) -> Result<Value, Failure> {
        subject.json(&self.compiled)
    }
}

/// The place of line and column, both from 1, in bytes.
fn place(text: &str, line: u32, column: u32) -> usize {
    let (line, column) = (
        usize::try_from(line).unwrap_or(1).max(1),
        usize::try_from(column).unwrap_or(1).max(1),
    );
    let before: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let rest = text.get(before..).unwrap_or_default();
    before
        + rest
            .char_indices()
            .nth(column - 1)
            .map_or(rest.len(), |(at, _)| at)
}

fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (line, column)
}

struct Rewritten {
    text: String,
    /// Places in the new text, each with its origin, ascending.
    places: Vec<(usize, usize)>,
    references: Vec<Reference>,
}

impl Rewritten {
    fn origin(&self, at: usize) -> usize {
        let last = self.places.iter().rev().find(|(new, _)| *new <= at);
        last.map_or(at, |(new, old)| old + (at - new))
    }
}

/// Puts known names into brackets and quotes.
struct Rewriter<'a> {
    text: &'a str,
    names: &'a StepNames,
    /// What the place offers.
    variables: &'a [&'a str],
    inputs: &'a [&'a str],
    /// Where it stands.
    at: usize,
    out: Rewritten,
}

impl<'a> Rewriter<'a> {
    fn new(text: &'a str, names: &'a StepNames, variables: &'a [&'a str], inputs: &'a [&'a str]) -> Self {
        Rewriter {
            text,
            names,
            variables,
            inputs,
            at: 0,
            out: Rewritten {
                text: String::with_capacity(text.len() + 16),
                places: Vec::new(),
                references: Vec::new(),
            },
        }
    }

    fn run(mut self) -> Result<Rewritten, Misread> {
        // What was before a token decides whether it is a variable or a field.
        let mut after_point = false;
        while let Some(c) = self.rest().chars().next() {
            if let Some(length) = literal(self.rest()) {
                self.copy(length);
                after_point = false;
            } else if c.is_ascii_alphanumeric() || c == '_' {
                self.token(after_point)?;
                after_point = false;
            } else {
                after_point = c == '.' || (after_point && c.is_whitespace());
                self.copy(c.len_utf8());
            }
        }
        Ok(self.out)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn copy(&mut self, length: usize) {
        self.out.places.push((self.out.text.len(), self.at));
        self.out
            .text
            .push_str(self.text.get(self.at..self.at + length).unwrap_or_default());
        self.at += length;
    }

    fn write(&mut self, text: &str, instead_of: usize) {
        self.out.places.push((self.out.text.len(), self.at));
        self.out.text.push_str(text);
        self.at += instead_of;
    }

    fn refuse<T>(&self, at: usize, reason: String) -> Result<T, Misread> {
        let (line, column) = line_and_column(self.text, at);
        Err(Misread { line, column, reason })
    }

    /// A word at the present place, with all that may belong to a name.
    fn token(&mut self, after_point: bool) -> Result<(), Misread> {
        let word = word(self.rest());
        if after_point {
            self.copy(identifier(self.rest()).len().max(1));
            return Ok(());
        }
        let plain = identifier(self.rest());
        if (plain == "status" || plain == "inputs") && self.member(plain)? {
            return Ok(());
        }
        let is_output = |name: &&str| {
            self.rest()
                .get(name.len()..)
                .is_some_and(|rest| field(rest) == Some("output"))
        };
        let known = prefixes(word).filter(is_output).find(|name| {
            let variable = RESERVED.contains(name) || self.variables.contains(name);
            self.names.contains(name) && !variable
        });
        if let Some(name) = known {
            self.write(&format!("status[{name:?}]"), name.len());
            return self.output(name);
        }
        // `deploy-ap.output`: nobody subtracts from a field of that name.
        if let Some(name) = prefixes(word).filter(is_output).find(|name| name.contains('-')) {
            let known = choice(name, self.names.iter());
            return self.refuse(self.at, format!("there is no step named {name:?}{known}"));
        }
        self.copy(plain.len().max(1));
        Ok(())
    }

    /// `status.<step>` and `inputs.<name>`, in either form.
    fn member(&mut self, variable: &'a str) -> Result<bool, Misread> {
        let rest = self.rest().get(variable.len()..).unwrap_or_default();
        let spaces = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        let known = |name: &str| match variable {
            "status" => self.names.contains(name),
            _ => self.inputs.contains(&name),
        };
        let (name, length, start) = if let Some(after) = rest.strip_prefix('.') {
            let inner = after.len() - after.trim_start().len();
            let word = word(after.trim_start());
            if word.is_empty() {
                return Ok(false);
            }
            // Inputs may be numbers that something is taken from; nobody calculates with steps.
            let shorter = prefixes(word).find(|name| variable == "inputs" && known(name));
            let name = shorter.unwrap_or(word);
            (name, 1 + inner + name.len(), 1 + inner)
        } else if let Some(after) = rest.strip_prefix('[') {
            let Some((name, length)) = quoted(after) else {
                return Ok(false);
            };
            (name, 1 + length, 1)
        } else {
            return Ok(false);
        };
        let at = self.at + variable.len() + spaces + start;
        if !known(name) {
            let reason = match variable {
                "status" => {
                    let hint = match name.contains('-') {
                        true => format!(
                            " (a difference needs spaces around its '-', and a name is also written status[{name:?}])"
                        ),
                        false => String::new(),
                    };
                    format!(
                        "there is no step named {name:?}{}{hint}",
                        choice(name, self.names.iter())
                    )
                }
                _ => format!(
                    "the step has no input from {name:?}{}",
                    choice(name, self.inputs.iter().copied())
                ),
            };
            return self.refuse(at, reason);
        }
        self.write(&format!("{variable}[{name:?}]"), variable.len() + spaces + length);
        if variable == "status" && field(self.rest()) == Some("output") {
            self.output(name)?;
        }
        Ok(true)
    }

    /// `.output.a.b` behind a step's name: notes what of the output is named.
    fn output(&mut self, name: &str) -> Result<(), Misread> {
        if self.names.steps.get(name) == Some(&false) {
            return self.refuse(
                self.at,
                format!(
                    "step {name:?} has no output: only steps that request, read or export something have; of what a placing \
                     step delivers name values under its outputs"
                ),
            );
        }
        let mut rest = self.rest();
        let mut path: Vec<&str> = Vec::new();
        while let Some(name) = field(rest) {
            let Some((_, after)) = rest.split_once('.') else {
                break;
            };
            let after = after.trim_start().get(name.len()..).unwrap_or_default();
            // A method is no field.
            if after.trim_start().starts_with('(') {
                break;
            }
            path.push(name);
            rest = after;
        }
        self.out.references.push(Reference {
            step: name.to_owned(),
            path: path.get(1..).unwrap_or_default().join("."),
        });
        Ok(())
    }
}

/// The longest word that could be a name of a step.
fn word(text: &str) -> &str {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default().trim_end_matches('-')
}

fn identifier(text: &str) -> &str {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// A word and its beginnings up to a `-`, the longest first.
fn prefixes(word: &str) -> impl Iterator<Item = &str> {
    let cuts = word.match_indices('-').map(|(at, _)| at).rev();
    std::iter::once(word.len())
        .chain(cuts)
        .filter_map(|end| word.get(..end))
        .filter(|name| !name.is_empty())
}

/// The field that is selected next: `.name`.
fn field(text: &str) -> Option<&str> {
    let name = identifier(text.trim_start().strip_prefix('.')?.trim_start());
    (!name.is_empty()).then_some(name)
}

/// A quoted text that ends in `]`: what is in it, and the length of both.
fn quoted(text: &str) -> Option<(&str, usize)> {
    let trimmed = text.trim_start();
    let length = literal(trimmed)?;
    let inner = trimmed.get(1..length.checked_sub(1)?)?;
    let rest = trimmed.get(length..)?.trim_start();
    let after = rest.strip_prefix(']')?;
    (!inner.contains('\\')).then_some((inner, text.len() - after.len()))
}

/// The length of the text literal or comment that begins here.
fn literal(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let letters = text.len() - text.trim_start_matches(['r', 'R', 'b', 'B']).len();
    let (prefix, body) = text.split_at_checked(letters)?;
    if letters > 2 {
        return None;
    }
    let raw = prefix.contains(['r', 'R']);
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let end = if body.starts_with(&triple) {
        triple
    } else {
        quote.to_string()
    };
    let mut at = end.len();
    while let Some(rest) = body.get(at..) {
        if rest.starts_with(&end) {
            return Some(letters + at + end.len());
        }
        let mut chars = rest.chars();
        match chars.next() {
            None => break,
            Some('\\') if !raw => at += 1 + chars.next().map_or(0, char::len_utf8),
            Some(c) => at += c.len_utf8(),
        }
    }
    // Not closed: the parser says so.
    Some(text.len())
}

#[cfg(test)]
mod tests;
