//! Which rows of the behaviour table have a scenario. A scenario names its rows at the start of its doc comment
//! (`/// A02, C04: given …`); the table is the comparison with OCM and KubeFleet: A applying, B ownership and drift,
//! C deletion, D status and completion.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rows, by letter and last number.
const ROWS: [(char, u32); 4] = [('A', 29), ('B', 17), ('C', 7), ('D', 10)];

/// Rows where this agent decides otherwise, so that no scenario can show the row; with the reason.
const OTHERWISE: [(&str, &str); 1] = [(
    "A11",
    "labels of a Bundle are not copied to its AppliedBundle: the ledger names its hub and Bundle in its spec, and the \
     objects carry the application's own labels",
)];

/// Rows whose scenarios come with a feature that is not there yet.
const LATER: [(&str, &[&str]); 4] = [
    (
        "update strategies, field paths and server-side apply",
        &[
            "A12", "A13", "A14", "A15", "A16", "A17", "A18", "A19", "A20", "B16",
        ],
    ),
    ("delete options", &["C01", "C05"]),
    (
        "drift modes",
        &[
            "A08", "A09", "B07", "B08", "B09", "B10", "B11", "B12", "B13", "B14",
        ],
    ),
    (
        "completion, conditions and feedback",
        &[
            "C07", "D01", "D02", "D03", "D04", "D05", "D06", "D07", "D08", "D09", "D10",
        ],
    ),
];

fn required() -> BTreeSet<String> {
    let rows = ROWS.into_iter();
    rows.flat_map(|(letter, last)| (1..=last).map(move |number| format!("{letter}{number:02}")))
        .collect()
}

/// The rows that the scenarios of a source name, with the names of the scenarios.
fn rows_of(source: &str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut docs = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push_str(doc);
        } else if line.starts_with("#[tokio::test") {
            let signature = lines.next().unwrap_or_default();
            let name = signature
                .trim_start_matches("async fn ")
                .split('(')
                .next()
                .unwrap_or_default();
            let listed = docs.split(':').next().unwrap_or_default();
            let is_row = |word: &&str| word.len() == 3 && word.starts_with(['A', 'B', 'C', 'D']);
            let ids = listed.split([',', ' ']).filter(is_row);
            rows.extend(ids.map(|id| (id.to_owned(), name.to_owned())));
            docs.clear();
        } else {
            docs.clear();
        }
    }
    rows
}

/// The sources of all scenarios.
fn sources(directory: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            sources.extend(self::sources(&path));
        } else {
            sources.push(std::fs::read_to_string(&path).unwrap());
        }
    }
    sources
}

#[test]
fn the_rows_of_a_scenario_are_read_from_its_doc_comment() {
    let source = "/// A02, C04: given A09, when so, then so.\n#[tokio::test(start_paused = true)]\nasync fn one() {\n}\n\n\
        /// B01: not a scenario.\nfn other() {}\n#[tokio::test]\nasync fn two() {}\n";
    let expected = [("A02", "one"), ("C04", "one")].map(|(id, name)| (id.to_owned(), name.to_owned()));
    assert_eq!(rows_of(source), expected);
}

#[test]
fn every_row_has_a_scenario_or_a_reason_why_not() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut covered: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources(&directory) {
        for (id, name) in rows_of(&source) {
            covered.entry(id).or_default().push(name);
        }
    }
    let required = required();
    let excused: Vec<&str> = (OTHERWISE.iter().map(|(id, _)| *id))
        .chain(LATER.iter().flat_map(|(_, ids)| ids.iter().copied()))
        .collect();
    let missing: Vec<&String> = required
        .iter()
        .filter(|id| !covered.contains_key(*id) && !excused.contains(&id.as_str()))
        .collect();
    assert!(missing.is_empty(), "no scenario names {missing:?}");
    let unknown: Vec<_> = covered.iter().filter(|(id, _)| !required.contains(*id)).collect();
    assert!(unknown.is_empty(), "no such rows: {unknown:?}");
    let stale: Vec<_> = excused
        .iter()
        .filter(|id| covered.contains_key(**id) || !required.contains(**id))
        .collect();
    assert!(stale.is_empty(), "excused, but there is a scenario: {stale:?}");
}
