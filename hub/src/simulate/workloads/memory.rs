//! The replicas that a simulated workload has.

use super::{
    MOST_REPLICAS,
    model::{Model, Template, TemplateHash},
};
use jiff::{SignedDuration, Timestamp};

/// What is remembered of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its replicas, oldest first.
    pub replicas: Vec<Replica>,
    /// Ordinal of the next replica.
    pub next_ordinal: u32,
    /// Template that a StatefulSet comes from.
    pub current_template: TemplateHash,
    /// Pods of a Job that succeeded.
    pub succeeded: u32,
    /// Pods of a Job that failed.
    pub failed: u32,
}

/// One replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Number that it keeps.
    pub ordinal: u32,
    /// Hash of its pod template; not known after a restart.
    pub template: TemplateHash,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It becomes ready (in a Job: succeeds).
    ReadyAt(Timestamp),
    /// It crashes and never becomes ready (in a Job: fails).
    CrashesAt(Timestamp),
    /// Its image cannot be pulled.
    NotPulled,
}

impl Replica {
    /// Since when it is ready, if it is.
    pub(super) fn ready_since(&self, now: Timestamp) -> Option<Timestamp> {
        match self.fate {
            Fate::ReadyAt(at) if at <= now => Some(at),
            _ => None,
        }
    }

    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.ready_since(now).is_some()
    }

    /// Ready for at least `min_ready`.
    pub(super) fn is_available(&self, min_ready: SignedDuration, now: Timestamp) -> bool {
        self.ready_since(now)
            .is_some_and(|since| min_ready.is_zero() || now.duration_since(since) >= min_ready)
    }

    /// When it changes next.
    fn changes_at(&self, min_ready: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let (Fate::ReadyAt(at) | Fate::CrashesAt(at)) = self.fate else {
            return None;
        };
        let available = at.checked_add(min_ready).unwrap_or(Timestamp::MAX);
        [at, available].into_iter().find(|change| *change > now)
    }
}

impl Memory {
    /// Starts one more replica.
    pub(super) fn start(&mut self, object: &str, template: &Template, model: &Model, now: Timestamp) {
        let ordinal = self.next_ordinal;
        self.next_ordinal = ordinal.saturating_add(1);
        self.replicas.push(Replica {
            ordinal,
            template: template.hash,
            fate: model.fate(object, template, ordinal, now),
        });
    }

    /// Rebuilds what a status tells: `ready` of `updated` and of the other replicas run since long ago.
    pub(super) fn recall(
        counts: Counts,
        object: &str,
        template: &Template,
        model: &Model,
        now: Timestamp,
    ) -> Memory {
        let mut memory = Memory::default();
        let before = Template::default();
        // Those of the template before and new ones: whoever wrote more into the status, there are no more.
        let replicas = counts.replicas.min(2 * MOST_REPLICAS);
        for index in 0..replicas {
            // The oldest replicas are those of the template before, and the ones that were ready first.
            let is_updated = index >= replicas.saturating_sub(counts.updated);
            memory.start(object, if is_updated { template } else { &before }, model, now);
            if index < counts.ready
                && let Some(replica) = memory.replicas.last_mut()
            {
                replica.fate = Fate::ReadyAt(Timestamp::UNIX_EPOCH);
            }
        }
        memory
    }

    pub(super) fn count(&self, is: impl Fn(&Replica) -> bool) -> i32 {
        let count = self.replicas.iter().filter(|replica| is(replica)).count();
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    /// When a replica changes next.
    pub(super) fn wake_at(&self, min_ready: SignedDuration, now: Timestamp) -> Option<Timestamp> {
        let changes = self.replicas.iter().filter_map(|r| r.changes_at(min_ready, now));
        changes.min()
    }
}

/// The counts of a status that [`Memory::recall`] starts from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) replicas: u32,
    pub(super) updated: u32,
    pub(super) ready: u32,
}

/// `<kind>/<namespace>/<name>`: what the dice of an object are named after.
pub(super) fn object_key<K: kube::Resource<DynamicType = ()>>(object: &K) -> String {
    let meta = object.meta();
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}/{}", K::kind(&()), part(&meta.namespace), part(&meta.name))
}

pub(super) fn seconds(seconds: Option<i32>) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds.unwrap_or(0).max(0)))
}

pub(super) fn count(number: Option<i32>) -> u32 {
    u32::try_from(number.unwrap_or(0)).unwrap_or(0)
}

/// Counts of zero are absent in a status, as Go's `omitempty` has it.
pub(super) fn nonzero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}
