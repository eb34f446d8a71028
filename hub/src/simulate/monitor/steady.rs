//! P11: the steady state writes nothing but heartbeats, and lets old Events go.

use super::{
    commit::Commit,
    model::{CLUSTERS, LEASES, Model, REPORTS},
    promise::{Check, Found, Note, Promise},
};
use crate::simulate::HUB;
use std::time::Duration;

/// What a hub has lost with its backup of what agents told of their clusters, they tell again when they look at it next, every five
/// minutes; and it says so in their Clusters.
const TOLD_AGAIN: Duration = Duration::from_secs(330);

#[derive(Debug, Default)]
pub(super) struct Steady {
    quiet: bool,
    /// When the hub was put back to an earlier state.
    restored: Option<Duration>,
}

impl Check for Steady {
    fn committed(&mut self, commit: &Commit, _: &Model, found: &mut Found<'_>) {
        let table = &*commit.key.table;
        let expires = commit.after.is_none() && ["events", "events.events.k8s.io"].contains(&table);
        let is_told = [REPORTS, CLUSTERS].contains(&table)
            && self
                .restored
                .is_some_and(|at| commit.at.saturating_sub(at) <= TOLD_AGAIN);
        if self.quiet && table != LEASES && !expires && !is_told {
            let by = commit.by().map_or("the server".to_owned(), ToString::to_string);
            let expected = "no write of anything but Leases";
            found.broke(
                Promise::P11,
                commit.object(),
                expected,
                format!("a write by {by}"),
            );
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, found: &mut Found<'_>) {
        match note {
            Note::Quiet => {
                found.judges(Promise::P11);
                self.quiet = true;
            }
            Note::Busy => self.quiet = false,
            Note::Restored(server) if **server == *HUB => self.restored = Some(found.at),
            _ => {}
        }
    }
}
