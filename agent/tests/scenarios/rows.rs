//! Which rows of the behaviour table have a scenario. A scenario names its rows at the start of its doc comment
//! (`/// A02, C04: given …`) or its row at the start of its name (`a02_…`); the table is the comparison with OCM and
//! KubeFleet: A applying, B ownership and drift, C deletion, D status and completion.

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

fn required() -> BTreeSet<String> {
    let rows = ROWS.into_iter();
    rows.flat_map(|(letter, last)| (1..=last).map(move |number| format!("{letter}{number:02}")))
        .collect()
}

/// A letter of the table and two digits.
fn is_row(word: &str) -> bool {
    let mut characters = word.chars();
    let letter = characters.next();
    let known = ROWS.iter().any(|(row, _)| Some(*row) == letter);
    known && word.len() == 3 && characters.all(|digit| digit.is_ascii_digit())
}

/// The rows that the scenarios of a source name, with the names of the scenarios.
fn rows_of(source: &str) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut docs = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push_str(doc);
            continue;
        }
        if line.starts_with("#[tokio::test") {
            let signature = lines.next().unwrap_or_default();
            let name = signature.strip_prefix("async fn ").unwrap_or_default();
            let name = name.split('(').next().unwrap_or_default();
            let by_docs = docs.split(':').next().unwrap_or_default().split([',', ' ']);
            let by_name = name.split('_').next().map(str::to_uppercase);
            let words = by_docs.map(str::to_owned).chain(by_name);
            rows.extend(words.filter(|word| is_row(word)).map(|id| (id, name.to_owned())));
        }
        docs.clear();
    }
    rows
}

/// The sources of the scenarios, those in folders too.
fn sources(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources(&path),
            false => vec![std::fs::read_to_string(&path).unwrap()],
        })
        .collect()
}

#[test]
fn the_rows_of_a_scenario_are_read_from_its_doc_comment_and_its_name() {
    let source = "/// A02, C04: given A09, when so, then so.\n#[tokio::test(start_paused = true)]\nasync fn one() {\n}\n\n\
        /// B01: not a scenario.\nfn other() {}\n#[tokio::test]\nasync fn d07_two() {}\n";
    let expected = [("A02", "one"), ("C04", "one"), ("D07", "d07_two")];
    let expected = expected.map(|(id, name)| (id.to_owned(), name.to_owned()));
    assert_eq!(rows_of(source), expected);
}

#[test]
fn every_row_has_a_scenario_or_a_reason_why_not() {
    // The hub removes bundles after their TTL, so that row has its scenarios there.
    let directories = ["tests/scenarios", "../hub/tests/delivery"];
    let agent = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = directories
        .iter()
        .flat_map(|directory| sources(&agent.join(directory)));
    let mut covered: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, name) in sources.flat_map(|source| rows_of(&source)) {
        covered.entry(id).or_default().push(name);
    }
    let required = required();
    let excused: Vec<&str> = OTHERWISE.iter().map(|(id, _)| *id).collect();
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
