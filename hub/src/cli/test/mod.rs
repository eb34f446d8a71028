//! `roundhouse test`: golden tests of policies, without a hub.

mod case;
mod expect;
mod judge;
mod report;
#[cfg(test)]
mod tests;
mod update;

use super::{Failure, terminal};
use crate::tenancy::Tenancy;
use clap::ValueEnum;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// How files of cases end.
const ENDINGS: [&str; 2] = [".test.yaml", ".test.yml"];
/// Directories deeper than this are not looked into.
const MAX_DEPTH: usize = 16;

/// What a case looks like.
const CASE: &str = "\
A case:
  name: seventy percent in the east
  files: [app.yaml]            # Applications, Placements and ComponentDefinitions, beside the file; or `applications:` with objects
  inventory: fleet.yaml        # a list of Clusters; or the list itself
  previous:                    # optional: what was decided before
  - {step: step-0, workload: Deployment default/web, rule: rule-0, clusters: {east-1: 10}}
  at: 2026-01-01T00:00:00Z     # optional: the moment, for taints that are tolerated for a time
  tenancy: namespace           # optional: what Applications may contain; Namespaces among the files say what they allow
  expect:                      # at least one of these; each is complete: what is not listed must not be there
    placements:
    - {step: step-0, workload: Deployment default/web, clusters: {east-1: 4, east-2: 3}}
    unplaced:
    - {step: step-0, workload: Deployment default/web, count: 1, reason: Unclaimed}
    bundles: {east-1: [Deployment default/web], east-2: [Deployment default/web]}
    errors: [\"110%\"]           # parts of the message with which the plan is refused
With several Applications an entry names its own: `application: default/web`.";

/// Run golden tests of policies: given files and an inventory, what is placed where
///
/// A case is a document of a file that ends in .test.yaml, in DIR or below.
#[derive(Debug, clap::Args)]
#[command(after_long_help = CASE)]
pub(super) struct Args {
    /// A directory, or one file of cases
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Judge cases that name no tenancy by this one: what Applications may contain [default: everything]
    #[arg(long, value_enum, value_name = "T")]
    tenancy: Option<Tenancy>,
    /// Write what is there now as what is expected
    #[arg(long)]
    update: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Tap,
    Junit,
}

/// How a case ended.
#[derive(Debug)]
struct Outcome {
    name: String,
    /// The file, below the directory.
    file: String,
    verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// What was expected and what is there now, line by line.
    Failed(String),
    /// The expectation was written anew.
    Updated,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut outcomes = Vec::new();
    for file in files(&args.path)? {
        let shown = file.strip_prefix(&args.path).unwrap_or(&file);
        let shown = if shown.as_os_str().is_empty() {
            file.as_path()
        } else {
            shown
        };
        let cases = case::read(&file, args.tenancy)?;
        let mut rewrites = Vec::new();
        for case in cases {
            let actual = judge::actual(&case)?;
            let difference = judge::compare(&case, &actual);
            let verdict = match difference {
                None => Verdict::Passed,
                Some(_) if args.update => {
                    rewrites.push((case.line, judge::rewritten(&case, &actual)));
                    Verdict::Updated
                }
                Some(difference) => Verdict::Failed(difference),
            };
            outcomes.push(Outcome {
                name: case.name,
                file: shown.display().to_string(),
                verdict,
            });
        }
        if !rewrites.is_empty() {
            update::write(&file, &rewrites)?;
        }
    }
    let text = match args.output {
        Format::Text => report::text(&outcomes),
        Format::Tap => report::tap(&outcomes),
        Format::Junit => report::junit(&args.path.display().to_string(), &outcomes),
    };
    terminal::print(&text)?;
    let failed = outcomes
        .iter()
        .any(|outcome| matches!(outcome.verdict, Verdict::Failed(_)));
    Ok(match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// The files of cases, by name. None is an error: a test that runs nothing proves nothing.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    if path.is_dir() {
        collect(path, 0, &mut files)?;
    } else if path.exists() {
        files.push(path.to_owned());
    }
    files.sort();
    if files.is_empty() {
        let what = format!("{} has no test", path.display());
        return Err(Failure::new("E-NOTESTS", what)
            .because("no file there, or below, ends in .test.yaml")
            .advise("a directory with cases; roundhouse test --help shows one"));
    }
    Ok(files)
}

fn collect(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| {
        Failure::new("E-INPUT", format!("{} cannot be read", directory.display()))
            .because(error)
            .advise("a directory that you may read")
    })?;
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // No link leads in circles.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && depth < MAX_DEPTH {
            collect(&path, depth + 1, files)?;
        } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            files.push(path);
        }
    }
    Ok(())
}
