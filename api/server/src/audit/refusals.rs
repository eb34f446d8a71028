//! Which refusals are recorded: of each source the first ones, and then a few, with how many were left out.
//!
//! Anybody can be refused as often as they like. Recorded one by one, refusals would push what was written, and by whom, out of
//! a log of bounded size.

use std::collections::HashMap;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Refusals of one source that are recorded at once.
const BURST: u64 = 30;
/// Seconds until one more is.
const REFILL: i64 = 10;
/// The same of all sources together.
const BURST_OF_ALL: u64 = 600;
const REFILL_OF_ALL: i64 = 1;
/// Most sources that are told apart.
const SOURCES: usize = 4_096;
/// Seconds without a refusal after which it is told how many were left out.
const QUIET: i64 = 60;

/// Who was refused: from where, and as whom. Either may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Refused {
    pub(super) place: String,
    pub(super) user: String,
}

/// How many refusals were left out, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) who: Refused,
    pub(super) count: u64,
    pub(super) since: Timestamp,
}

/// What is known of past refusals.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    sources: HashMap<Refused, Source>,
    all: Bucket,
    looked: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// How many were recorded that no time has made up for.
    spent: u64,
    /// Up to when time has been counted.
    counted: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Source {
    bucket: Bucket,
    last: Timestamp,
    left_out: u64,
    since: Timestamp,
}

impl Bucket {
    fn refill(&mut self, seconds: i64, now: Timestamp) {
        let counted = *self.counted.get_or_insert(now);
        let passed = now.as_second().saturating_sub(counted.as_second());
        // A clock that was set back makes up for nothing, and is gone on from.
        let made_up = passed.max(0) / seconds;
        if passed < 0 {
            self.counted = Some(now);
        } else if made_up > 0 {
            self.spent = self.spent.saturating_sub(made_up.unsigned_abs());
            self.counted = Some(now);
        }
    }
}

impl Refusals {
    /// Whether a refusal is recorded, and then how many of this source were not since the last one that was.
    pub(super) fn record(&self, who: Refused, now: Timestamp) -> Option<u64> {
        let mut known = self.0.lock();
        let known = &mut *known;
        let who = if known.sources.len() >= SOURCES && !known.sources.contains_key(&who) {
            Refused {
                place: String::new(),
                user: String::new(),
            }
        } else {
            who
        };
        known.all.refill(REFILL_OF_ALL, now);
        let source = known.sources.entry(who).or_default();
        source.bucket.refill(REFILL, now);
        source.last = now;
        if source.bucket.spent >= BURST || known.all.spent >= BURST_OF_ALL {
            if source.left_out == 0 {
                source.since = now;
            }
            source.left_out += 1;
            return None;
        }
        source.bucket.spent += 1;
        known.all.spent += 1;
        Some(std::mem::take(&mut source.left_out))
    }

    /// What was left out of sources that have been quiet since, and has not been told; once. Looks at most once a minute.
    pub(super) fn untold(&self, now: Timestamp) -> Vec<LeftOut> {
        let mut known = self.0.lock();
        let since = |then: Timestamp| now.as_second().saturating_sub(then.as_second());
        if known.sources.is_empty() || known.looked.is_some_and(|then| (0..QUIET).contains(&since(then))) {
            return vec![];
        }
        known.looked = Some(now);
        let mut untold = vec![];
        known.sources.retain(|who, source| {
            source.bucket.refill(REFILL, now);
            if (0..QUIET).contains(&since(source.last)) {
                return true;
            }
            if source.left_out > 0 {
                untold.push(LeftOut {
                    who: who.clone(),
                    count: std::mem::take(&mut source.left_out),
                    since: source.since,
                });
            }
            source.bucket.spent > 0
        });
        untold.sort_by(|a, b| a.who.cmp(&b.who));
        untold
    }
}

/// The event that tells of what was left out.
pub(super) fn event(left_out: &LeftOut, id: &str, now: &str) -> Value {
    let LeftOut { who, count, since } = left_out;
    let message = format!("{count} more requests of this source were refused since {since} and not recorded");
    let user = if who.user.is_empty() {
        json!({})
    } else {
        json!({"username": who.user})
    };
    json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": id,
        "stage": "ResponseComplete", "requestURI": "", "verb": "refused", "user": user, "sourceIPs": [who.place],
        "requestReceivedTimestamp": now, "stageTimestamp": now,
        "responseStatus": {"metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden", "message": message},
        "annotations": {super::LEFT_OUT: count.to_string()},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(place: &str) -> Refused {
        Refused {
            place: place.to_owned(),
            user: "jane".to_owned(),
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn the_first_are_recorded_and_then_a_few_with_the_number_of_the_others() {
        let refusals = Refusals::default();
        let recorded = (0..1_000).filter(|_| refusals.record(who("a"), at(0)).is_some());
        assert_eq!(recorded.count() as u64, BURST);
        assert_eq!(refusals.record(who("b"), at(1)), Some(0), "others are");
        assert_eq!(refusals.record(who("a"), at(9)), None);
        assert_eq!(refusals.record(who("a"), at(10)), Some(971));
        assert_eq!(refusals.record(who("a"), at(19)), None);
        assert_eq!(refusals.record(who("a"), at(20)), Some(1));
        // A clock that is set back gives nothing, and takes nothing for ever.
        assert_eq!(refusals.record(who("a"), at(-3_600)), None);
        assert_eq!(refusals.record(who("a"), at(-3_590)), Some(1));
    }

    #[test]
    fn what_was_left_out_is_told_when_it_is_quiet_again_and_once() {
        let refusals = Refusals::default();
        for _ in 0..100 {
            refusals.record(who("b"), at(0));
            refusals.record(who("a"), at(5));
        }
        assert_eq!(refusals.untold(at(59)), []);
        assert_eq!(refusals.untold(at(70)), [], "it has looked a moment ago");
        let left_out = |place: &str, since: i64| LeftOut {
            who: who(place),
            count: 70,
            since: at(since),
        };
        assert_eq!(refusals.untold(at(120)), [left_out("a", 5), left_out("b", 0)]);
        assert_eq!(refusals.untold(at(240)), []);
        assert_eq!(refusals.untold(at(3_600)), []);
        assert!(
            refusals.0.lock().sources.is_empty(),
            "nothing is kept of who is gone"
        );
    }

    #[test]
    fn many_sources_are_bounded_together() {
        let refusals = Refusals::default();
        let recorded = (0..10_000).filter(|i| refusals.record(who(&i.to_string()), at(0)).is_some());
        assert_eq!(recorded.count() as u64, BURST_OF_ALL);
        assert!(refusals.0.lock().sources.len() <= SOURCES + 1);
        let told: u64 = refusals
            .untold(at(60))
            .iter()
            .map(|left_out| left_out.count)
            .sum();
        assert_eq!(told, 10_000 - BURST_OF_ALL);
    }
}
