//! What the clock alone brings: taints that are tolerated for a time.

use super::impact::{ApplicationImpact, Outcome, compare};
use crate::{
    application::{Foreseen, ForeseenDecision, Proposal, Snapshot, foresee, looking, understand},
    placement::{self, Inventory},
};
use jiff::Timestamp;
use roundhouse_api::{application::ValidApplication, decision::Decision, names::decision_name};
use std::collections::BTreeMap;

/// Ends of tolerations that are looked at, for one application.
const MAX_MOMENTS: usize = 8;

/// What changes at one moment though nobody does anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Later {
    /// The moment.
    pub at: Timestamp,
    /// Seconds until then, a part of one counted as one.
    pub seconds: i64,
    /// The applications that something changes for, sorted.
    pub applications: Vec<ApplicationImpact>,
}

/// The next moment after `now` at which the clock alone may change which clusters an application, or an object of it, goes to.
pub fn next_change(inventory: &Inventory, valid: &ValidApplication, now: Timestamp) -> Option<Timestamp> {
    placement::next_change(&looking(valid), inventory, now)
}

/// Says what becomes of these applications as tolerations end, each of them once it is carried out as it is decided now.
/// The snapshot has their decisions afterwards. An application that is not accepted is left out.
pub fn ahead<'a>(
    snapshot: &Snapshot,
    proposals: impl IntoIterator<Item = Proposal<'a>>,
    now: Timestamp,
) -> Vec<Later> {
    let inventory: Inventory = snapshot.fleet().into_iter().collect();
    let mut moments = BTreeMap::new();
    for proposal in proposals {
        let timed =
            understand(snapshot, &proposal).is_ok_and(|valid| next_change(&inventory, &valid, now).is_some());
        let foreseen = timed.then(|| foresee(snapshot, &proposal, now).ok()).flatten();
        // Of a run that has ended without success the clock moves nothing either.
        if let Some(foreseen) = foreseen.filter(|foreseen| !foreseen.stopped) {
            follow(snapshot, &proposal, foreseen, &inventory, now, &mut moments);
        }
    }
    in_order(moments, now)
}

/// What changes at each moment.
pub(super) type Moments = BTreeMap<Timestamp, Vec<ApplicationImpact>>;

/// Follows one application from what is foreseen of it now, as tolerations of the taints of these clusters end. Returns
/// what comes of it now.
pub(super) fn follow(
    snapshot: &Snapshot,
    proposal: &Proposal<'_>,
    mut foreseen: Foreseen,
    inventory: &Inventory,
    mut now: Timestamp,
    moments: &mut Moments,
) -> Outcome {
    let first = Outcome::of(&foreseen);
    let mut before = first.clone();
    for _ in 0..MAX_MOMENTS {
        let Some(at) = next_change(inventory, &foreseen.valid, now) else {
            break;
        };
        carry_out(snapshot, proposal, &foreseen.decisions);
        let Ok(then) = foresee(snapshot, proposal, at) else {
            break;
        };
        let after = Outcome::of(&then);
        let title = format!("{}/{}", proposal.namespace, proposal.name);
        let impact = compare(title, &before, &before, &after);
        if !impact.is_empty() {
            moments.entry(at).or_default().push(impact);
        }
        (foreseen, before, now) = (then, after, at);
    }
    first
}

pub(super) fn in_order(moments: Moments, now: Timestamp) -> Vec<Later> {
    let later = moments.into_iter().map(|(at, applications)| {
        let milliseconds = at.as_millisecond().saturating_sub(now.as_millisecond());
        Later {
            at,
            seconds: milliseconds.saturating_add(999) / 1000,
            applications,
        }
    });
    later.collect()
}

/// Stores the decisions in the snapshot: later ones see them as what was before.
fn carry_out(snapshot: &Snapshot, proposal: &Proposal<'_>, decisions: &[ForeseenDecision]) {
    for decided in decisions {
        let mut decision = match &decided.stored {
            Some(stored) => Decision::clone(stored),
            None => Decision::new(
                &decision_name(proposal.name, &decided.spec.step),
                decided.spec.clone(),
            ),
        };
        decision.metadata.namespace = Some(proposal.namespace.to_owned());
        decision.spec.clone_from(&decided.spec);
        snapshot.put_decision(decision);
    }
}
