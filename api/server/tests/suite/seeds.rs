//! The seeds of the fuzz targets, as they are and changed at random, without a nightly compiler.

#[path = "../../../../fuzz/fuzz_targets/served/mod.rs"]
mod served;

use proptest::{prelude::*, sample::Index};
use std::{path::Path, sync::LazyLock};

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

static REQUESTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| seeds("http_request"));
static QUERIES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| seeds("watch_list_parameters"));

/// Text that changes what a request means.
const WORDS: [&str; 24] = [
    "null",
    "{}",
    "[]",
    "\"\"",
    "-1",
    "1e400",
    "9223372036854775808",
    "\\u0000",
    "%00",
    "%zz",
    "metadata",
    "name",
    "a",
    "b",
    "$patch",
    "finalizers",
    "labels",
    "status",
    "spec",
    "resourceVersion",
    "&",
    "=",
    "watch=1",
    "\u{e9}",
];

/// One change: at a place some bytes go and others come.
type Edit = (Index, usize, Option<Index>, Vec<u8>);

fn changed(seed: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut out = seed.to_vec();
    for (place, gone, word, bytes) in edits {
        let at = place.index(out.len() + 1);
        let end = out.len().min(at + gone);
        let come = word
            .as_ref()
            .map_or(bytes.as_slice(), |word| word.get(&WORDS).as_bytes());
        out.splice(at..end, come.iter().copied());
    }
    out
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (
        any::<Index>(),
        0_usize..6,
        prop::option::of(any::<Index>()),
        prop::collection::vec(any::<u8>(), 0..4),
    );
    prop::collection::vec(edit, 0..6)
}

#[test]
fn seeds_are_answered() {
    assert!(REQUESTS.len() > 10 && QUERIES.len() > 4);
    REQUESTS.iter().for_each(|bytes| served::answers(bytes));
    for query in QUERIES.iter() {
        served::lists(std::str::from_utf8(query).unwrap());
    }
}

fn cases() -> u32 {
    let long = std::env::var_os("ROUNDHOUSE_LONG").is_some();
    if long { 20_000 } else { 300 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn changed_requests_are_answered(seed in any::<Index>(), edits in edits()) {
        served::answers(&changed(seed.get::<Vec<u8>>(&REQUESTS), &edits));
    }

    #[test]
    fn changed_queries_are_answered(seed in any::<Index>(), edits in edits()) {
        let query = changed(seed.get::<Vec<u8>>(&QUERIES), &edits);
        if let Ok(query) = std::str::from_utf8(&query) {
            served::lists(query);
        }
    }
}
