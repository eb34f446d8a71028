//! The beginning of an agent's work: which hub it is, and what there is until the hub has told which Bundles there are.

use crate::bundle::Held;
use crate::watch::kept::Kept;
use roundhouse_api::ledger::AppliedBundle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Whose agent this is.
pub(crate) struct Origin {
    pub(crate) hub_id: String,
    /// Done when the hub itself has said so: until then it may be another one, and its Bundles are none of ours.
    pub(crate) confirmed: CancellationToken,
    pub(crate) kept: Kept,
}

/// What is there when an agent begins, until the hub has told which Bundles there are.
pub(crate) struct Beginning {
    /// Those that no worker has yet.
    pub(crate) ledgers: BTreeMap<String, AppliedBundle>,
    pub(crate) kept: Kept,
    /// Bundles that are worked on by what was kept of them, and those of which a ledger was found meanwhile.
    untold: BTreeSet<String>,
    listed: bool,
}

impl Beginning {
    pub(crate) fn new(ledgers: BTreeMap<String, AppliedBundle>, kept: Kept) -> Self {
        Beginning {
            ledgers,
            kept,
            untold: BTreeSet::new(),
            listed: false,
        }
    }

    /// The hub is away: the Bundles to go on with.
    pub(crate) fn without_hub(&mut self) -> Vec<Arc<Held>> {
        if self.listed {
            return Vec::new();
        }
        let kept = self.kept.load(&self.ledgers);
        if !kept.is_empty() {
            let bundles = kept.len();
            tracing::warn!(
                bundles,
                "the hub does not answer: what it sent last is healed until it does"
            );
        }
        self.untold.extend(kept.iter().map(|held| held.name.clone()));
        kept
    }

    /// The hub has told all Bundles; whether it is the first time.
    pub(crate) fn end(&mut self, listed: impl Iterator<Item = String>) -> bool {
        if std::mem::replace(&mut self.listed, true) {
            return false;
        }
        let listed: BTreeSet<String> = listed.collect();
        self.kept.retain(&listed);
        self.untold.retain(|name| !listed.contains(name));
        true
    }

    /// A ledger is there that nobody works on. Whether that is to change now: until the hub has told which Bundles there
    /// are, it is not known to have none.
    pub(crate) fn find(&mut self, name: &str) -> bool {
        if !self.listed {
            self.untold.insert(name.to_owned());
        }
        self.listed
    }

    /// What the hub's list does not have.
    pub(crate) fn unlisted(&mut self) -> Vec<(String, Option<AppliedBundle>)> {
        let ledgers = std::mem::take(&mut self.ledgers).into_iter();
        let ledgers = ledgers.map(|(name, stored)| (name, Some(stored)));
        let untold = std::mem::take(&mut self.untold).into_iter();
        ledgers.chain(untold.map(|name| (name, None))).collect()
    }
}
