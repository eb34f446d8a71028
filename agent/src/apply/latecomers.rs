//! Latecomers: an object that was removed minutes after it was made may be made once more, by a request that something on the
//! way has repeated. It is wanted by nobody then. Whether one came is looked at a few times, ever more rarely, for as long as a
//! request may be under way; nothing waits for it, and no report speaks of it.

use crate::apply::unanswered::Sender;
use crate::delay::comes;
use crate::error::CallError;
use crate::kinds::Kind;
use crate::ledger;
use crate::member::Member;
use crate::object::{self, ObjectKey};
use crate::watch::registry::Registry;
use kube::Client;
use parking_lot::Mutex;
use roundhouse_api::late::ARRIVES_WITHIN;
use roundhouse_api::names::annotation;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The first pause before a look; each is twice as long as the one before it.
const FIRST: Duration = Duration::from_secs(15);
/// Objects that are looked for at a time; beyond that those that were removed last are left out.
const MOST: usize = 10_000;

/// An object that may come.
#[derive(Clone)]
struct Expected {
    kind: Arc<Kind>,
    /// Whose it would be, and who would have made it.
    marker: String,
    sender: Sender,
    /// The member with the rights that it was removed with.
    member: Member,
    until: Instant,
    pause: Duration,
    due: Instant,
}

/// Objects that may come although they were removed, as the member names them.
#[derive(Default)]
pub(crate) struct Latecomers {
    expected: Mutex<BTreeMap<ObjectKey, Expected>>,
    more: Notify,
}

impl Latecomers {
    /// An object of the bundle with this marker was removed.
    pub(crate) fn expect(
        &self,
        target: &ObjectKey,
        kind: &Arc<Kind>,
        (marker, sender): (&str, Sender),
        member: &Member,
    ) {
        let mut expected = self.expected.lock();
        if expected.len() >= MOST {
            return;
        }
        let now = Instant::now();
        let one = Expected {
            kind: Arc::clone(kind),
            marker: marker.to_owned(),
            sender,
            member: member.clone(),
            until: now + ARRIVES_WITHIN,
            pause: FIRST,
            due: now + FIRST,
        };
        expected.insert(target.clone(), one);
        self.more.notify_one();
    }

    /// Looks for them, and removes those that came and that nobody wants. Never ends.
    pub(crate) async fn follow(&self, wanted: Wanted<'_>) {
        loop {
            let next = self.expected.lock().values().map(|one| one.due).min();
            tokio::select! {
                biased;
                () = comes(next) => {}
                () = self.more.notified() => continue,
            }
            for (target, one) in self.due(Instant::now()) {
                match remove(&target, &one, &wanted).await {
                    Ok(false) => {}
                    Ok(true) => tracing::info!(
                        object = %target,
                        "was made once more by a request that something on the way repeated, and is removed once more"
                    ),
                    Err(error) => {
                        tracing::debug!(object = %target, error = error.message(), "is looked at later")
                    }
                }
            }
        }
    }

    /// Those that are to be looked at now; the next look is noted.
    fn due(&self, now: Instant) -> Vec<(ObjectKey, Expected)> {
        let mut expected = self.expected.lock();
        let due = expected.iter_mut().filter(|(_, one)| one.due <= now);
        let due = due.map(|(target, one)| {
            one.pause *= 2;
            one.due = (now + one.pause).min(one.until.max(now + FIRST));
            (target.clone(), one.clone())
        });
        let due = due.collect();
        expected.retain(|_, one| one.due <= one.until);
        due
    }
}

/// What bundles want of the member.
pub(crate) struct Wanted<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) member: &'a Client,
    pub(crate) hub_id: &'a str,
    /// How long a call may take.
    pub(crate) timeout: Duration,
}

impl Wanted<'_> {
    /// Whether an object is a bundle's of this agent, or in any ledger: whoever makes one has said so there before.
    async fn has(&self, target: &ObjectKey) -> Result<bool, CallError> {
        if self.registry.is_claimed(target) {
            return Ok(true);
        }
        let ledgers = ledger::list(self.member, self.hub_id, self.timeout).await?;
        let mut entries = ledgers.values().flat_map(|ledger| &ledger.spec.objects);
        Ok(entries.any(|entry| target.is_meant_by(&ObjectKey::of_entry(entry))))
    }
}

/// Removes an object, as it was read, if it is there and nobody's; whether it did.
async fn remove(target: &ObjectKey, one: &Expected, wanted: &Wanted<'_>) -> Result<bool, CallError> {
    let Some(live) = one.member.get(&one.kind, target).await? else {
        return Ok(false);
    };
    let is_marked = object::annotation(&live, annotation::OWNED_BY) == Some(&one.marker);
    let ours = is_marked && one.sender.has_written(&live);
    // What is wanted was wanted before it was made.
    if !ours || object::is_deleting(&live) || wanted.has(target).await? {
        return Ok(false);
    }
    one.member.delete(&one.kind, target, &live).await?;
    Ok(true)
}
