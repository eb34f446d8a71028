//! Text and actions.

use super::Place;
use anyhow::{Context, Result};

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    /// What is printed as it is.
    Text(String),
    /// What stands between braces, without trimming markers.
    Action(Place, String),
}

/// Divides a template; comments are gone, and white space where markers trim it.
///
/// # Errors
/// An action or a comment that does not end, with its place.
pub(super) fn parts(file: &str, text: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let (mut rest, mut line, mut trim) = (text, 1, false);
    loop {
        let at = rest.find("{{").unwrap_or(rest.len());
        let (before, action) = rest.split_at(at);
        let place = Place {
            file: file.to_owned(),
            line: line + lines(before),
        };
        let trims_before = action
            .strip_prefix("{{-")
            .is_some_and(|rest| rest.starts_with(char::is_whitespace));
        let mut kept = before;
        if trim {
            kept = kept.trim_start();
        }
        if trims_before {
            kept = kept.trim_end();
        }
        if !kept.is_empty() {
            parts.push(Part::Text(kept.to_owned()));
        }
        if action.is_empty() {
            return Ok(parts);
        }
        let inner = &action[if trims_before { 3 } else { 2 }..];
        let length = end(inner).with_context(|| format!("{place}: the action does not end"))?;
        let (inner, after) = inner.split_at(length);
        let without = inner
            .strip_suffix('-')
            .filter(|rest| rest.ends_with(char::is_whitespace));
        trim = without.is_some();
        let content = without.unwrap_or(inner).trim();
        if !content.starts_with("/*") {
            parts.push(Part::Action(place.clone(), content.to_owned()));
        }
        line = place.line + lines(&action[..action.len() - after.len()]);
        rest = &after[2..];
    }
}

fn lines(text: &str) -> usize {
    text.matches('\n').count()
}

/// Where the braces are that end an action: not those in a string or a comment.
fn end(inner: &str) -> Option<usize> {
    if let Some(comment) = inner.trim_start().strip_prefix("/*") {
        let skipped = inner.len() - comment.len() + comment.find("*/")?;
        return Some(skipped + inner[skipped..].find("}}")?);
    }
    let mut quote = None;
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (None, '}') if inner[at..].starts_with("}}") => return Some(at),
            (None, '"' | '`') => quote = Some(character),
            (Some('"'), '\\') => drop(characters.next()),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}
