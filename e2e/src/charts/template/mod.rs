//! The subset of Helm's templates that the charts keep to, so that what they make is plain to see and to test.
//!
//! Objects `.Values`, `.Release`, `.Chart`; `if`, `with` and `range` with `else`; `define` and `include`; the functions
//! `default`, `quote`, `toYaml` and `nindent`; pipelines, parentheses, comments and trimming. No variables, no comparisons,
//! no lookups. It is stricter than Helm: what Helm prints as `<no value>`, `map[…]` or `2.592e+06` is refused.

mod evaluate;
mod expression;
mod lex;
mod parse;

use anyhow::{Result, ensure};
use parse::Node;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A place in a template, `file:line`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    file: String,
    line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The templates of a chart.
#[derive(Debug, Default)]
pub struct Templates {
    files: BTreeMap<String, Vec<Node>>,
    definitions: BTreeMap<String, Vec<Node>>,
    used: BTreeSet<String>,
}

impl Templates {
    /// Parses a file.
    ///
    /// # Errors
    /// What is not of the subset, with file and line; a name that is defined twice.
    pub fn add(&mut self, file: &str, text: &str) -> Result<()> {
        let parsed = parse::parse(file, text)?;
        for (name, body) in parsed.definitions {
            let twice = self.definitions.insert(name.clone(), body).is_some();
            ensure!(!twice, "{file}: {name:?} is defined twice");
        }
        self.used.extend(parsed.fields);
        self.files.insert(file.to_owned(), parsed.nodes);
        Ok(())
    }

    /// Every path of `.Values` that is used, such as `image.tag`.
    pub fn values(&self) -> BTreeSet<&str> {
        let paths = self.used.iter().filter_map(|path| path.strip_prefix("Values."));
        paths.collect()
    }

    /// Renders every file; those that begin with `_` only define.
    ///
    /// # Errors
    /// What cannot be rendered, with file and line.
    pub fn render(&self, root: &Value) -> Result<BTreeMap<String, String>> {
        let is_file = |file: &str| !file.rsplit('/').next().unwrap_or_default().starts_with('_');
        let files = self.files.iter().filter(|(file, _)| is_file(file));
        files
            .map(|(file, nodes)| Ok((file.clone(), evaluate::text(&self.definitions, nodes, root)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests;
