//! What the model knows of a Bundle.

use super::world::{BUNDLE, bundle, with_report};
use crate::simulate::monitor::{commit::Commit, model::Model};
use bytes::Bytes;
use roundhouse_apiserver::Key;
use serde_json::json;
use std::time::Duration;

/// A hub that was restored writes a generation for the second time: what was reported of the first one is evidence of nothing.
#[test]
fn a_generation_that_is_written_again_begins_anew() {
    let mut model = Model::default();
    let (server, table, namespace, name) = BUNDLE;
    let key = Key::new(&table.into(), namespace, name);
    let mut other = bundle(2);
    other["spec"]["hash"] = json!("other");
    let mut seen = Vec::new();
    for value in [bundle(1), with_report(bundle(2), 2, "Ready"), bundle(1), other] {
        let bytes = Bytes::from(serde_json::to_vec(&value).unwrap());
        let commit = Commit::new(
            (&server.into(), &key),
            None,
            Duration::ZERO,
            None,
            (1, Some(bytes)),
        );
        model.take(&commit);
        let held = model.by_uid("b").unwrap();
        let reports = held.contents.values().map(|content| content.reports.len());
        seen.push((held.generation, reports.collect::<Vec<_>>()));
    }
    assert_eq!(
        seen,
        [(1, vec![0]), (2, vec![0, 1]), (1, vec![0]), (2, vec![0, 0])]
    );
}
