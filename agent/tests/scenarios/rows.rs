//! Which rows of the behaviour table have a scenario. A scenario names its rows at the start of its doc comment
//! (`/// A02, C04: given …`) or its row at the start of its name (`a02_…`); the table is the comparison with OCM and
//! KubeFleet: A applying, B ownership and drift, C deletion, D status and completion.

use std::collections::BTreeSet;
use std::path::Path;

/// The rows, by letter and last number.
const ROWS: [(char, u32); 4] = [('A', 29), ('B', 17), ('C', 7), ('D', 10)];

/// Rows where this agent decides otherwise, so that no scenario can show the row; with the reason.
const OTHERWISE: [(&str, &str); 1] = [(
    "A11",
    "labels of a Bundle are not copied to its AppliedBundle: the ledger names its hub and Bundle in its spec, and the \
     objects carry the application's own labels",
)];

/// Rows that no scenario shows on real servers; with the reason.
const EMBEDDED_ONLY: [(&str, &str); 3] = [
    (
        "A29",
        "the delays of the back-off are measured exactly, which takes paused time",
    ),
    (
        "B11",
        "tries that change nothing are counted, and a real server does not count requests",
    ),
    (
        "C07",
        "the hub removes bundles after their TTL: its scenarios have no member",
    ),
];

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

/// Functions of a source that take an embedded server: they ask for one, or call one that does.
fn embedded(source: &str) -> BTreeSet<String> {
    let functions: Vec<(String, &str)> = source
        .split("\n}\n")
        .filter_map(|text| {
            let (_, function) = text
                .rsplit_once("\nasync fn ")
                .or_else(|| text.split_once("async fn "))?;
            let (name, rest) = function.split_once(['(', '<'])?;
            Some((name.to_owned(), rest))
        })
        .collect();
    let mut found: BTreeSet<String> = BTreeSet::new();
    loop {
        let takes = |text: &str| {
            text.contains("World::embedded()") || found.iter().any(|name| text.contains(&format!(" {name}(")))
        };
        let now: BTreeSet<String> = functions
            .iter()
            .filter(|(_, text)| takes(text))
            .map(|(name, _)| name.clone())
            .collect();
        if now == found {
            return found;
        }
        found = now;
    }
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
fn a_scenario_takes_an_embedded_server_also_by_what_it_calls() {
    let source = "async fn begin() {\n    World::embedded().await\n}\n\nasync fn both() {\n    World::new().await\n}\n\n\
        /// A01: so.\n#[tokio::test]\nasync fn one() {\n    let world = begin().await;\n}\n\nasync fn two() {\n    \
        let world = both().await;\n}\n";
    assert_eq!(embedded(source), ["begin", "one"].map(str::to_owned).into());
}

#[test]
fn every_row_has_a_scenario_or_a_reason_why_not() {
    let agent = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = sources(&agent.join("tests/scenarios"));
    // The hub removes bundles after their TTL, so that row has its scenarios there.
    let theirs = sources(&agent.join("../hub/tests/delivery"));
    let mut covered: BTreeSet<String> = BTreeSet::new();
    let mut on_both: BTreeSet<String> = BTreeSet::new();
    for source in &ours {
        let embedded = embedded(source);
        for (id, name) in rows_of(source) {
            if !embedded.contains(&name) {
                on_both.insert(id.clone());
            }
            covered.insert(id);
        }
    }
    covered.extend(theirs.iter().flat_map(|source| rows_of(source)).map(|(id, _)| id));
    let required = required();
    let unknown: Vec<_> = covered.difference(&required).collect();
    assert!(unknown.is_empty(), "no such rows: {unknown:?}");
    let otherwise = OTHERWISE.iter().map(|(id, _)| (*id).to_owned()).collect();
    check(&required, &covered, &otherwise, "no scenario names");
    let alone: BTreeSet<String> = EMBEDDED_ONLY.iter().map(|(id, _)| (*id).to_owned()).collect();
    let shown = required.difference(&otherwise).cloned().collect();
    check(&shown, &on_both, &alone, "no scenario on real servers names");
}

/// Every required row is there or excused, and none is excused for nothing.
fn check(required: &BTreeSet<String>, there: &BTreeSet<String>, excused: &BTreeSet<String>, what: &str) {
    let missing: Vec<_> = required
        .difference(there)
        .filter(|id| !excused.contains(*id))
        .collect();
    assert!(missing.is_empty(), "{what} {missing:?}");
    let stale: Vec<_> = excused
        .iter()
        .filter(|id| there.contains(*id) || !required.contains(*id))
        .collect();
    assert!(stale.is_empty(), "{what}: excused for nothing: {stale:?}");
}
