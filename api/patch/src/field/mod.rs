//! Field paths, as users write them: which fields of an object are meant.
//!
//! Three spellings are understood, and may be mixed:
//! - JSONPath in kubectl's dialect: `.spec.replicas`, `$.spec.replicas`, `{.spec.replicas}`,
//!   `.metadata.annotations['a.b/c']`, `.spec.containers[0]`, `[-1]` for the last element, `[*]` for every element or
//!   field, filters `[?(@.name=="main")]` with `==`, `!=`, `<`, `<=`, `>`, `>=`, or existence alone `[?(@.name)]`;
//! - a JSON pointer (RFC 6901): `/metadata/annotations/a.b~1c`;
//! - a dotted path as KubeVela's users write it: `spec.containers[0].image`, `metadata.annotations[a.b/c]`,
//!   `spec.containers[name=main].image`; `*` alone is the whole object.
//!
//! A path selects nothing, one or several locations of a document: [`FieldPath::select`], [`FieldPath::covers`].
//! [`keep`] lays the live values of what it selects over a desired object.

mod filter;
mod keep;
mod locate;
mod pairs;
mod parse;
mod pointer;

use std::{fmt, str::FromStr};

use filter::Filter;

pub use keep::{Kept, keep};

/// A path that was parsed; [`fmt::Display`] gives it back as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPath {
    text: String,
    steps: Vec<Step>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// A field of an object; of a list the element, if the name is a number.
    Field(String),
    /// An element of a list; negative ones count from the end.
    Index(i64),
    /// Every element of a list, every field of an object.
    Every,
    /// The elements of a list that pass the filter.
    Where(Filter),
}

/// What is wrong with a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field path {path:?}, character {position}: {expected}")]
pub struct FieldPathError {
    /// The path as it was written.
    pub path: String,
    /// The character that does not fit, counted from 1.
    pub position: usize,
    /// What belongs there, and what to do.
    pub expected: String,
}

impl FieldPath {
    /// Parses a path.
    ///
    /// ```
    /// use roundhouse_patch::field::FieldPath;
    /// let web = serde_json::json!({"spec": {"replicas": 3}});
    /// for spelled in [".spec.replicas", "{$.spec.replicas}", "/spec/replicas", "spec.replicas", "spec['replicas']"] {
    ///     let path = FieldPath::parse(spelled)?;
    ///     assert_eq!(path.select(&web), [("/spec/replicas".to_owned(), &web["spec"]["replicas"])]);
    /// }
    /// assert!(FieldPath::parse("..replicas").is_err());
    /// # Ok::<(), roundhouse_patch::field::FieldPathError>(())
    /// ```
    ///
    /// # Errors
    /// [`FieldPathError`] names the path, the position and what is expected there.
    pub fn parse(text: &str) -> Result<Self, FieldPathError> {
        parse::parse(text).map(|steps| FieldPath {
            text: text.to_owned(),
            steps,
        })
    }

    /// Whether the path means the whole object (`*`, `$`).
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }
}

impl FromStr for FieldPath {
    type Err = FieldPathError;

    fn from_str(text: &str) -> Result<Self, FieldPathError> {
        FieldPath::parse(text)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
