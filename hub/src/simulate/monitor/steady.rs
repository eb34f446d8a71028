//! P11: the steady state writes nothing but heartbeats, and lets old Events go. Nor does anybody read the same thing again and again.

use super::{
    commit::Commit,
    model::{CLUSTERS, LEASES, Model, REPORTS},
    promise::{Check, Found, Note, Promise},
    who::{Asked, Target, Who},
};
use crate::simulate::{HUB, trace::Object};
use http::{Method, StatusCode};
use roundhouse_api::names::HUB_LEASE;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What a hub has lost with its backup of what agents told of their clusters, they tell again when they look at it next, every five
/// minutes; and it says so in their Clusters.
const TOLD_AGAIN: Duration = Duration::from_secs(330);

/// So often a hub or an agent may read the same thing while nothing happens, and once more in each [`AGAIN`].
const READS: u64 = 6;
const AGAIN: Duration = Duration::from_secs(30);
/// A hub that waits for its turn to lead reads the Lease when it has not heard of it for as long as that holds: so often, where its
/// watch has died and does not say so.
const UNHEARD: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(super) struct Steady {
    /// Since when nothing happens.
    quiet: Option<Duration>,
    /// Who has read what since then, and how often.
    reads: BTreeMap<(Who, Arc<str>, String), u64>,
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
        if self.quiet.is_some() && table != LEASES && !expires && !is_told {
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

    fn answered(&mut self, asked: &Asked, code: StatusCode, found: &mut Found<'_>) {
        let is_ours = asked.who.is_hub() || asked.who.agent().is_some();
        // Whoever is refused, as who has left, tries on.
        let reads = is_ours && asked.method == Method::GET && code.is_success();
        let Some(since) = self.quiet.filter(|_| reads) else {
            return;
        };
        let what = (asked.who.clone(), asked.server.clone(), asked.path.clone());
        let reads = self.reads.entry(what).or_default();
        *reads += 1;
        let lasts = found.at.saturating_sub(since);
        let of_leaders = |target: &Target| target.table == LEASES && target.name == HUB_LEASE;
        let again = match asked.target.as_ref().is_some_and(of_leaders) {
            true => UNHEARD,
            false => AGAIN,
        };
        let most = READS + lasts.as_secs() / again.as_secs();
        if *reads == most + 1 {
            let object = Object::party(&asked.server, &asked.who.to_string());
            let expected = format!(
                "at most {most} reads of {} in {} s in which nothing happens",
                asked.path,
                lasts.as_secs()
            );
            found.broke(Promise::P11, object, expected, "one more");
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, found: &mut Found<'_>) {
        match note {
            Note::Quiet => {
                found.judges(Promise::P11);
                self.quiet = Some(found.at);
                self.reads.clear();
            }
            Note::Busy => self.quiet = None,
            Note::Restored(server) if **server == *HUB => self.restored = Some(found.at),
            _ => {}
        }
    }
}
