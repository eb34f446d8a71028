//! P11: the steady state writes nothing but heartbeats, and lets old Events go. Nor does anybody ask for the same thing again and again,
//! whether it is to be read or to be written and changes nothing, or renew a Lease more often than it has to.

use super::{
    commit::Commit,
    model::{CLUSTERS, LEASES, Model, REPORTS},
    promise::{Check, Found, Note, Promise},
    who::{Asked, Who},
};
use crate::simulate::{HUB, trace::Object};
use http::{Method, StatusCode};
use roundhouse_api::names::HUB_LEASE;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// What a hub has lost with its backup of what agents told of their clusters, they tell again when they look at it next, every five
/// minutes; and it says so in their Clusters.
const TOLD_AGAIN: Duration = Duration::from_secs(330);

/// So often a hub or an agent may ask for the same thing while nothing happens, and once more in each [`AGAIN`].
const ASKS: u64 = 6;
const AGAIN: Duration = Duration::from_secs(30);
/// A hub that waits for its turn to lead reads the Lease when it has not heard of it for as long as that holds: so often, where its
/// watch has died and does not say so.
const UNHEARD: Duration = Duration::from_secs(15);
/// A hub renews its Lease so often, and an agent its own.
const RENEWED: Duration = Duration::from_secs(2);
const RENEWED_BY_AGENTS: Duration = Duration::from_secs(8);

#[derive(Debug, Default)]
pub(super) struct Steady {
    /// Since when nothing happens.
    quiet: Option<Duration>,
    /// Who has asked for what since then, and how often.
    asks: BTreeMap<(Who, Arc<str>, String), u64>,
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
        let reads = asked.method == Method::GET;
        // Whoever may not, as who has left, tries on. What is refused for what it says is not to be said again and again.
        let wrong = [
            StatusCode::CONFLICT,
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::BAD_REQUEST,
        ];
        let counts = is_ours && (code.is_success() || (!reads && wrong.contains(&code)));
        let Some(since) = self.quiet.filter(|_| counts) else {
            return;
        };
        let what = format!("{} {}", asked.method, asked.path);
        let asks = self
            .asks
            .entry((asked.who.clone(), asked.server.clone(), what.clone()))
            .or_default();
        *asks += 1;
        let lasts = found.at.saturating_sub(since);
        let lease = asked.target.as_ref().filter(|target| target.table == LEASES);
        let again = match lease {
            Some(lease) if lease.name == HUB_LEASE && reads => UNHEARD,
            Some(lease) if lease.name == HUB_LEASE => RENEWED,
            Some(_) if !reads => RENEWED_BY_AGENTS,
            _ => AGAIN,
        };
        let most = ASKS + lasts.as_secs() / again.as_secs();
        if *asks == most + 1 {
            let object = Object::party(&asked.server, &asked.who.to_string());
            let expected = format!(
                "at most {most} times {what} in {} s in which nothing happens",
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
                self.asks.clear();
            }
            Note::Busy => self.quiet = None,
            Note::Restored(server) if **server == *HUB => self.restored = Some(found.at),
            _ => {}
        }
    }
}
