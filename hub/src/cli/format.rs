//! The output formats of verbs that print data.

use super::Failure;
use clap::ValueEnum;
use serde_json::Value;

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns; long lists say how many more there are
    Table,
    /// Columns, with every row and more of them
    Wide,
    /// A tree
    Tree,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Format {
    /// A value as JSON or YAML; `None` for the formats that people read.
    ///
    /// # Errors
    /// It does not print.
    pub(super) fn structured(self, value: impl FnOnce() -> Value) -> Result<Option<String>, Failure> {
        let text = match self {
            Format::Json => serde_json::to_string_pretty(&value()).map_err(not_printable)?,
            Format::Yaml => serde_saphyr::to_string(&value()).map_err(not_printable)?,
            Format::Table | Format::Wide | Format::Tree => return Ok(None),
        };
        Ok(Some(text.trim_end().to_owned() + "\n"))
    }
}

/// The formats of verbs whose data is no tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// Columns; long lists say how many more there are
    Table,
    /// Columns, with every row and more of them
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

impl Output {
    pub(super) fn format(self) -> Format {
        match self {
            Output::Table => Format::Table,
            Output::Wide => Format::Wide,
            Output::Json => Format::Json,
            Output::Yaml => Format::Yaml,
        }
    }
}

fn not_printable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new("E-OUTPUT", "the answer could not be printed")
        .because(error)
        .advise("another output format, such as -o table")
}
