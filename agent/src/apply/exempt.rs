//! Exempt: the fields of one object that a merge leaves as they are live, whatever asks for it: `ignoreFields` of the
//! bundle, and rules of the policy `apply-once`. What was applied last stays the manifest as rendered: what is exempt
//! today may be set again tomorrow.

use crate::apply::decode::Manifest;
use crate::apply::ignore::keep_live;
use crate::apply::keep::{BadRule, Keeping};
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::is_bookkeeping;
use roundhouse_patch::field::FieldPath;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What is exempt of one object.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exempt<'a> {
    /// Paths of `ignoreFields` that count now.
    pub(crate) ignored: &'a [&'a FieldPath],
    /// The apply-once rule that matches.
    pub(crate) keeping: Option<Keeping<'a>>,
}

impl Exempt<'_> {
    /// Whether nothing is exempt.
    pub(crate) fn is_none(&self) -> bool {
        self.ignored.is_empty() && self.keeping.is_none()
    }

    /// Lays the exempt live values over `wanted`, the object as it would be sent, and answers where it has live values
    /// now, as JSON pointers. Its stamps stay: a path may select all labels or annotations, and bookkeeping must go on.
    pub(crate) fn lay(
        &self,
        manifest: &Manifest,
        live: &Value,
        entry: Option<&LedgerEntry>,
        wanted: &mut Value,
    ) -> BTreeSet<String> {
        if self.is_none() {
            return BTreeSet::new();
        }
        let before = wanted.get("metadata").cloned().unwrap_or_default();
        let mut laid = BTreeSet::new();
        if let Some(keeping) = self.keeping {
            laid.extend(keeping.lay(manifest, live, entry, wanted));
        }
        laid.extend(keep_live(wanted, live, self.ignored));
        restamp(&before, wanted);
        laid
    }

    /// Whether what a rule keeps can be recorded.
    ///
    /// # Errors
    /// [`BadRule`].
    pub(crate) fn check(
        &self,
        manifest: &Manifest,
        live: &Value,
        entry: Option<&LedgerEntry>,
    ) -> Result<(), BadRule> {
        match self.keeping {
            Some(keeping) => keeping.record(manifest, live, entry).map(drop),
            None => Ok(()),
        }
    }
}

/// The bookkeeping of `before`, the metadata as it was, in the object that live values were laid over.
fn restamp(before: &Value, wanted: &mut Value) {
    for field in ["labels", "annotations"] {
        let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) else {
            return;
        };
        if metadata.get(field) == before.get(field) {
            continue;
        }
        let stamps = before.get(field).and_then(Value::as_object);
        let map = metadata.entry(field).or_insert_with(|| json!({}));
        if let Some(map) = map.as_object_mut() {
            map.retain(|key, _| !is_bookkeeping(key));
            let stamps = stamps
                .into_iter()
                .flatten()
                .filter(|(key, _)| is_bookkeeping(key));
            map.extend(stamps.map(|(key, value)| (key.clone(), value.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::decode::decode;

    #[test]
    fn a_path_over_all_annotations_leaves_the_stamps_as_they_are_wanted() {
        let manifest = decode(vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
            "annotations": {"app.oam.dev/generation": "2"}}, "data": {"k": "ours"}}),
        ])
        .manifests
        .remove(0);
        let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"theirs": "1"},
            "annotations": {"app.oam.dev/generation": "1", "app.oam.dev/last-applied-configuration": "{}",
                "roundhouse.dev/owned-by": "h/old", "theirs": "2"}}, "data": {"k": "theirs"}});
        let laid = |spelled: &str| {
            let path = FieldPath::parse(spelled).unwrap();
            let exempt = Exempt {
                ignored: &[&path],
                keeping: None,
            };
            let mut wanted = manifest.object.clone();
            exempt.lay(&manifest, &live, None, &mut wanted);
            wanted
        };
        for spelled in ["*", ".metadata.annotations", "$.metadata"] {
            assert_eq!(
                laid(spelled)["metadata"]["annotations"],
                json!({"app.oam.dev/generation": "2", "theirs": "2"}),
                "{spelled}"
            );
        }
        let value = laid("data.k");
        assert_eq!(
            (&value["data"]["k"], &value["metadata"]),
            (&json!("theirs"), &manifest.object["metadata"])
        );
    }
}
