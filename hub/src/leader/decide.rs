//! Whose turn it is; pure. A Lease of another is judged by this hub's own clock, from when it last saw it change: what the
//! other's clock says is only good for telling that something changed.

use super::lease::Record;
use std::time::Duration;
use tokio::time::Instant;

/// What this hub has seen of the Lease.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    /// What it says; `None` if there is none.
    pub(super) record: Option<Record>,
    /// When that was seen first, by this hub's monotonic clock.
    pub(super) since: Instant,
}

impl Observed {
    /// What is seen now; the time counts on from before if nothing changed.
    pub(super) fn next(before: Option<Observed>, record: Option<Record>, now: Instant) -> Observed {
        match before {
            Some(before) if before.record == record => before,
            _ => Observed { record, since: now },
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Me<'a> {
    pub(super) identity: &'a str,
    /// How long this hub waits for a leader at least.
    pub(super) lease_duration: Duration,
    /// Whether it holds the Lease, as far as it knows.
    pub(super) holds: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// There is no Lease: create it.
    Create,
    /// Nobody holds it, or its holder is not heard of: take it.
    Take,
    /// It is ours: renew it.
    Renew,
    /// It was ours and is another's.
    StepDown,
    /// It is another's; nothing to do before then, unless it changes.
    Wait(Instant),
}

/// Decides what a hub does about the Lease that it observes.
pub(super) fn decide(observed: &Observed, me: Me<'_>, now: Instant) -> Decision {
    let Some(record) = &observed.record else {
        return if me.holds {
            Decision::StepDown
        } else {
            Decision::Create
        };
    };
    if me.holds {
        return match record.holder == me.identity {
            true => Decision::Renew,
            false => Decision::StepDown,
        };
    }
    // What a former process of this identity held is taken anew: every term has its own epoch.
    if record.holder.is_empty() || record.holder == me.identity {
        return Decision::Take;
    }
    // Hubs may be set differently, as during an upgrade: the longer time counts.
    let expires = observed.since + record.duration.max(me.lease_duration);
    match now >= expires {
        true => Decision::Take,
        false => Decision::Wait(expires),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn record(holder: &str, duration: u64, renewed: &str) -> Record {
        Record {
            holder: holder.to_owned(),
            duration: Duration::from_secs(duration),
            renewed: Some(renewed.parse::<Timestamp>().unwrap()),
            acquired: None,
            transitions: 3,
            epoch: Some(9),
        }
    }

    #[test]
    fn another_is_waited_for_by_our_own_clock() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let (past, future) = ("1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z");
        let table = [
            ("nothing there", None, 0, false, Decision::Create),
            ("released", Some(record("", 1, past)), 0, false, Decision::Take),
            (
                "ours from before",
                Some(record("me", 15, past)),
                0,
                false,
                Decision::Take,
            ),
            (
                "just seen, its time long past",
                Some(record("a", 15, past)),
                0,
                false,
                Decision::Wait(after(15)),
            ),
            (
                "just seen, its time to come",
                Some(record("a", 15, future)),
                0,
                false,
                Decision::Wait(after(15)),
            ),
            (
                "nearly over",
                Some(record("a", 15, past)),
                14,
                false,
                Decision::Wait(after(15)),
            ),
            ("over", Some(record("a", 15, future)), 15, false, Decision::Take),
            (
                "asks for longer than we do",
                Some(record("a", 30, past)),
                15,
                false,
                Decision::Wait(after(30)),
            ),
            (
                "asks for less than we do",
                Some(record("a", 0, past)),
                14,
                false,
                Decision::Wait(after(15)),
            ),
            (
                "held and ours",
                Some(record("me", 15, past)),
                900,
                true,
                Decision::Renew,
            ),
            (
                "held and another's",
                Some(record("a", 15, past)),
                0,
                true,
                Decision::StepDown,
            ),
            (
                "held and given up",
                Some(record("", 1, past)),
                0,
                true,
                Decision::StepDown,
            ),
            ("held and gone", None, 0, true, Decision::StepDown),
        ];
        for (what, record, seconds, holds, expected) in table {
            let observed = Observed { record, since: start };
            let me = Me {
                identity: "me",
                lease_duration: Duration::from_secs(15),
                holds,
            };
            assert_eq!(decide(&observed, me, after(seconds)), expected, "{what}");
        }
    }

    #[test]
    fn only_a_change_starts_the_time_anew() {
        let start = Instant::now();
        let later = start + Duration::from_secs(9);
        let first = Observed::next(None, Some(record("a", 15, "2026-01-01T00:00:00Z")), start);
        let same = Observed::next(Some(first), Some(record("a", 15, "2026-01-01T00:00:00Z")), later);
        assert_eq!(same.since, start);
        // A clock that went back is a renewal all the same.
        let renewed = Observed::next(Some(same), Some(record("a", 15, "2025-01-01T00:00:00Z")), later);
        assert_eq!(renewed.since, later);
        let gone = Observed::next(Some(renewed), None, later + Duration::from_secs(1));
        assert_eq!(gone.since, later + Duration::from_secs(1));
    }
}
