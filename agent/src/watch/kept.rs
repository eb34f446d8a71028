//! The Bundles as the hub delivered them last, in a directory: an agent that starts while its hub is away, or no longer lets
//! it in, heals what they say. What is kept is no evidence of anything: it is used for ledgers that agree with it, and until
//! the hub has answered.

use crate::bundle::{Held, Presence};
use crate::file::{self, Durable};
use crate::ledger::is_leaving;
use crate::watch::delivered::Delivered;
use roundhouse_api::ledger::{AppliedBundle, LedgerState};
use roundhouse_api::names::ClusterName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that says which hub the Bundles are of.
const HUB: &str = "hub-id";

/// What is kept for one cluster; nothing at all without a directory.
#[derive(Debug)]
pub(crate) struct Kept {
    directory: Option<PathBuf>,
    /// What the files are known to hold.
    written: BTreeMap<String, crate::bundle::Content>,
}

impl Kept {
    /// What is kept below `directory` for a cluster.
    pub(crate) fn new(directory: Option<&Path>, cluster: &ClusterName) -> Self {
        Kept {
            directory: directory.map(|directory| directory.join(cluster.as_str())),
            written: BTreeMap::new(),
        }
    }

    /// The hub that the agent worked for last.
    pub(crate) fn hub_id(&self) -> Option<String> {
        let path = self.directory.as_ref()?.join(HUB);
        let bytes = self.tried(file::read(&path))??;
        String::from_utf8(bytes).ok().filter(|id| !id.is_empty())
    }

    /// Keeps which hub it is.
    pub(crate) fn remember_hub(&self, hub_id: &str) {
        if let Some(directory) = &self.directory
            && self.hub_id().as_deref() != Some(hub_id)
        {
            self.tried(file::replace(directory, HUB, hub_id.as_bytes(), Durable::Yes));
        }
    }

    /// It is another hub now: nothing of this is true any more.
    pub(crate) fn forget(&self) {
        if let Some(directory) = &self.directory {
            self.tried(std::fs::remove_dir_all(directory));
        }
    }

    /// Takes in what the hub says of a Bundle.
    pub(crate) fn note(&mut self, name: &str, presence: &Presence) {
        let Some(directory) = self.directory.clone() else {
            return;
        };
        match presence {
            Presence::Present(held) if !held.deleting => {
                let content = held.content();
                if self.written.get(name) == Some(&content) {
                    return;
                }
                let written = file::replace(&directory, &file_name(name), &held.document(), Durable::No);
                if self.tried(written).is_some() {
                    self.written.insert(name.to_owned(), content);
                }
            }
            Presence::Present(_) | Presence::Deleted(_) | Presence::Missing => {
                self.written.remove(name);
                self.tried(file::remove(&directory.join(file_name(name))));
            }
        }
    }

    /// Keeps only what a complete list has.
    pub(crate) fn retain(&self, listed: &BTreeSet<String>) {
        for (name, path) in self.files() {
            if !listed.contains(&name) {
                self.tried(file::remove(&path));
            }
        }
    }

    /// The Bundles that are kept and whose ledgers say the same.
    pub(crate) fn load(&self, ledgers: &BTreeMap<String, AppliedBundle>) -> Vec<Arc<Held>> {
        let read = |(name, path): (String, PathBuf)| {
            let ledger = ledgers.get(&name)?;
            let bytes = self.tried(file::read(&path))??;
            // A torn file is none.
            let Delivered(bundle) = serde_json::from_slice(&bytes).ok()?;
            let held = Held::of(bundle);
            (held.name == name && agrees(ledger, &held)).then(|| Arc::new(held))
        };
        self.files().into_iter().filter_map(read).collect()
    }

    /// Names of Bundles, and their files.
    fn files(&self) -> Vec<(String, PathBuf)> {
        let Some(directory) = self.directory.as_ref().filter(|directory| directory.exists()) else {
            return Vec::new();
        };
        let entries = self
            .tried(std::fs::read_dir(directory))
            .into_iter()
            .flatten()
            .flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let name = name.strip_suffix(".json").filter(|name| !name.starts_with('.'))?;
                Some((name.to_owned(), entry.path()))
            })
            .collect();
        files.sort();
        files
    }

    /// What cannot be kept is missed at the next start without a hub, and at no other time.
    fn tried<T>(&self, result: Result<T, std::io::Error>) -> Option<T> {
        result
            .inspect_err(|error| {
                let directory = self.directory.as_deref().unwrap_or(Path::new("")).display();
                tracing::warn!(%directory, %error, "the Bundles that this agent keeps for a start without its hub");
            })
            .ok()
    }
}

/// Names of Bundles are DNS subdomains.
fn file_name(name: &str) -> String {
    format!("{name}.json")
}

/// Whether what was applied is what is kept, and nothing of it is on its way out: a removal that was begun on the hub's word is
/// not turned round without it.
fn agrees(ledger: &AppliedBundle, held: &Held) -> bool {
    let spec = &ledger.spec;
    spec.bundle_uid == held.uid
        && spec.generation == held.generation
        && spec.state != LedgerState::Orphaned
        && !spec.objects.iter().any(|entry| is_leaving(entry.outcome))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry, LedgerOutcome};
    use serde_json::json;

    fn held(name: &str, generation: i64) -> Presence {
        let bundle = json!({"metadata": {"name": name, "uid": format!("uid-{name}"), "generation": generation,
            "resourceVersion": "77"}, "spec": {"epoch": 3, "workload": {"manifests": [{"kind": name}]}}});
        let Delivered(bundle) = serde_json::from_value(bundle).unwrap();
        Presence::Present(Arc::new(Held::of(bundle)))
    }

    fn ledger(
        name: &str,
        generation: i64,
        state: LedgerState,
        outcome: LedgerOutcome,
    ) -> (String, AppliedBundle) {
        let spec = AppliedBundleSpec {
            bundle: name.to_owned(),
            bundle_uid: format!("uid-{name}"),
            generation,
            state,
            objects: vec![LedgerEntry {
                outcome,
                ..LedgerEntry::default()
            }],
            ..AppliedBundleSpec::default()
        };
        (name.to_owned(), AppliedBundle::new(name, spec))
    }

    #[test]
    fn what_is_kept_is_used_where_the_ledger_says_the_same() {
        let home = tempfile::tempdir().unwrap();
        let cluster = ClusterName::new("c1").unwrap();
        let mut kept = Kept::new(Some(home.path()), &cluster);
        assert_eq!(kept.hub_id(), None);
        kept.remember_hub("0123456789");
        for name in ["a.app", "leaving", "newer", "orphan", "unknown", "gone", "torn"] {
            kept.note(name, &held(name, 2));
        }
        kept.note("gone", &Presence::Missing);
        std::fs::write(home.path().join("c1/torn.json"), "{\"metadata\"").unwrap();
        let (applied, state) = (LedgerOutcome::Applied, LedgerState::Applied);
        let ledgers = BTreeMap::from([
            ledger("a.app", 2, state, applied),
            ledger("leaving", 2, state, LedgerOutcome::Removing),
            ledger("newer", 3, state, applied),
            ledger("orphan", 2, LedgerState::Orphaned, applied),
            ledger("gone", 2, state, applied),
            ledger("torn", 2, state, applied),
        ]);
        let again = Kept::new(Some(home.path()), &cluster);
        assert_eq!(again.hub_id().as_deref(), Some("0123456789"));
        let loaded = again.load(&ledgers);
        let Presence::Present(expected) = held("a.app", 2) else {
            panic!("present");
        };
        assert_eq!(loaded.len(), 1);
        assert_eq!(
            (loaded[0].content(), loaded[0].epoch),
            (expected.content(), Some(3))
        );
        again.retain(&BTreeSet::from(["newer".to_owned()]));
        assert_eq!(again.files().len(), 1);
        assert!(
            Kept::new(Some(home.path()), &ClusterName::new("c2").unwrap())
                .hub_id()
                .is_none()
        );
        again.forget();
        assert_eq!(again.hub_id(), None);
    }

    #[test]
    fn without_a_directory_nothing_is_kept() {
        let mut kept = Kept::new(None, &ClusterName::new("c1").unwrap());
        kept.remember_hub("0123456789");
        kept.note("a", &held("a", 1));
        assert!(kept.hub_id().is_none() && kept.files().is_empty());
    }
}
