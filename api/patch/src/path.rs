//! Where in a document we are; rendered only when something is wrong.

use std::fmt;

use serde_json::Value;

use crate::{MAX_DEPTH, PatchError, document::Document};

/// A path kept as a chain of stack frames, so that walking a document costs no allocation.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(crate) const ROOT: Path<'static> = Path {
        parent: None,
        step: Step::Root,
    };

    pub(crate) fn field(&'a self, name: &'a str) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Step::Field(name),
        }
    }

    pub(crate) fn index(&'a self, index: usize) -> Path<'a> {
        Path {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    pub(crate) fn wrong_type(&self, expected: &'static str, found: &Document<'_>) -> PatchError {
        PatchError::WrongType {
            path: self.to_string(),
            expected,
            found: found.type_name(),
        }
    }

    pub(crate) fn missing_key(&self, key: &str) -> PatchError {
        PatchError::MissingMergeKey {
            path: self.to_string(),
            key: key.to_owned(),
        }
    }

    pub(crate) fn impossible(&self, reason: impl Into<String>) -> PatchError {
        PatchError::Impossible {
            path: self.to_string(),
            reason: reason.into(),
        }
    }

    pub(crate) fn bad_directive(&self, reason: impl Into<String>) -> PatchError {
        PatchError::BadDirective {
            path: self.to_string(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(parent) = self.parent else {
            return out.write_str("$");
        };
        let below_root = matches!(parent.step, Step::Root);
        if !below_root {
            parent.fmt(out)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(out, "[{index}]"),
            Step::Field(name) if name.contains(['.', '/', '[']) => write!(out, "[{name:?}]"),
            Step::Field(name) if below_root => out.write_str(name),
            Step::Field(name) => write!(out, ".{name}"),
        }
    }
}

/// Refuses a document that nests deeper than [`MAX_DEPTH`], so that everything after it may recurse.
pub(crate) fn check_depth(value: &Value) -> Result<(), PatchError> {
    descend(value, &Path::ROOT, MAX_DEPTH)
}

/// How many levels of objects and lists a value nests; a scalar has none.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

fn descend(value: &Value, path: &Path<'_>, left: usize) -> Result<(), PatchError> {
    if !value.is_object() && !value.is_array() {
        return Ok(());
    }
    let Some(left) = left.checked_sub(1) else {
        return Err(PatchError::TooDeep {
            path: path.to_string(),
        });
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .try_for_each(|(name, value)| descend(value, &path.field(name), left)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(at, value)| descend(value, &path.index(at), left)),
        _ => Ok(()),
    }
}
