//! One figure: its target, what was measured, and what bounds it where it is missed.

use crate::{Size, machine};
use serde::Serialize;

/// What has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Target {
    /// It takes time or memory: at most this much, on the machine that the targets are of.
    AtMost(f64),
    /// A ratio: at least this much.
    AtLeast(f64),
    /// It is counted, and has to be exactly this on any machine.
    Exactly(f64),
}

/// A figure.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figure {
    pub(crate) scenario: &'static str,
    pub(crate) what: String,
    pub(crate) target: Target,
    pub(crate) measured: f64,
    pub(crate) unit: &'static str,
    /// What bounds it, or what else was seen.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
}

impl Figure {
    pub(crate) fn new(
        scenario: &'static str,
        what: impl Into<String>,
        target: Target,
        measured: f64,
        unit: &'static str,
    ) -> Figure {
        Figure {
            scenario,
            what: what.into(),
            target,
            measured,
            unit,
            note: String::new(),
        }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Figure {
        self.note = note.into();
        self
    }

    pub(crate) fn is_met(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.measured <= most,
            Target::AtLeast(least) => self.measured >= least,
            Target::Exactly(exact) => (self.measured - exact).abs() < f64::EPSILON,
        }
    }

    /// Whether it is missed on whatever machine.
    pub(crate) fn is_wrong(&self) -> bool {
        matches!(self.target, Target::Exactly(_)) && !self.is_met()
    }

    fn verdict(&self) -> &'static str {
        match self.is_met() {
            true => "met",
            false => "MISSED",
        }
    }
}

/// A number with as many digits as say something.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

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
}

impl Report {
    pub(crate) fn new(size: Size) -> Report {
        Report {
            size: format!("{size:?}").to_lowercase(),
            machine: machine::Machine::this(),
            figures: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Notes that a scenario could not be measured.
    pub(crate) fn failed(&mut self, scenario: &str, error: &anyhow::Error) {
        let why = format!("scenario {scenario} failed: {error:#}");
        eprintln!("  {why}");
        self.failed.push(why);
    }

    /// A table on stdout.
    pub(crate) fn print(&self) {
        println!("{}; size {}", self.machine, self.size);
        let mut rows = vec![["SCENARIO", "FIGURE", "TARGET", "MEASURED", ""].map(str::to_owned)];
        for figure in &self.figures {
            let bound = |sign: &str, value: f64| format!("{sign} {} {}", number(value), figure.unit);
            rows.push([
                figure.scenario.to_owned(),
                figure.what.clone(),
                match figure.target {
                    Target::AtMost(value) => bound("≤", value),
                    Target::AtLeast(value) => bound("≥", value),
                    Target::Exactly(value) => bound("=", value),
                },
                format!("{} {}", number(figure.measured), figure.unit),
                figure.verdict().to_owned(),
            ]);
        }
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
        for failed in &self.failed {
            println!("{failed}");
        }
    }
}
