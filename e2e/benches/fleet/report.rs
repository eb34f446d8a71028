//! All figures of one run, as a table and as JSON.

use crate::{Size, machine};
use roundhouse_e2e::figure::Figure;
use serde::Serialize;

/// All figures of one run, and where they were measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    size: String,
    machine: machine::Machine,
    pub(crate) figures: Vec<Figure>,
    /// The scenarios that have none, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failed: Vec<String>,
    /// The scenarios that were not measured, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
}

impl Report {
    pub(crate) fn new(size: Size) -> Report {
        Report {
            size: format!("{size:?}").to_lowercase(),
            machine: machine::Machine::this(),
            figures: Vec::new(),
            failed: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Notes that a scenario could not be measured.
    pub(crate) fn failed(&mut self, scenario: &str, error: &anyhow::Error) {
        let why = format!("scenario {scenario} failed: {error:#}");
        eprintln!("  {why}");
        self.failed.push(why);
    }

    /// Notes that a scenario was not to be measured here.
    pub(crate) fn skipped(&mut self, scenario: &str, why: &str) {
        let why = format!("scenario {scenario} is not measured: {why}");
        eprintln!("  {why}");
        self.skipped.push(why);
    }

    /// A table on stdout.
    pub(crate) fn print(&self) {
        println!("{}; size {}", self.machine, self.size);
        let mut rows = vec![["SCENARIO", "FIGURE", "TARGET", "MEASURED", ""].map(str::to_owned)];
        rows.extend(self.figures.iter().map(Figure::row));
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths = [0, 1, 2, 3].map(width);
        for (n, row) in rows.iter().enumerate() {
            let cells = row
                .iter()
                .enumerate()
                .map(|(column, cell)| match widths.get(column) {
                    Some(&width) => format!("{cell:<width$}"),
                    None => cell.clone(),
                });
            println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
            let note = n.checked_sub(1).map(|n| self.figures[n].note.as_str());
            if let Some(note) = note.filter(|note| !note.is_empty()) {
                println!("{:<width$}  {note}", "", width = widths[0]);
            }
        }
        for line in self.failed.iter().chain(&self.skipped) {
            println!("{line}");
        }
    }
}
