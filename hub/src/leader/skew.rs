//! How far this machine's clock is off that of the hub that leads, as its renewals tell: a hub that takes over goes on with the time
//! that the one before it had, or waits of before would end at once where its own clock is fast.

use super::lease::Record;
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;

/// So much is the way of a renewal, and no difference of clocks.
const WAY: SignedDuration = SignedDuration::from_secs(10);
/// So many renewals have to be seen, one of which may have been long on its way …
const ENOUGH: usize = 3;
/// … and so many of the last ones count: a clock may be put right.
const MOST: usize = 6;

/// What is known of it; pure.
#[derive(Debug, Default)]
pub(super) struct Skew {
    holder: String,
    renewed: Option<Timestamp>,
    /// By how much this clock was ahead when the last renewals were seen.
    ahead: VecDeque<SignedDuration>,
}

impl Skew {
    /// The Lease says this, at this time of the own clock. Only what changes while somebody looks is new.
    pub(super) fn told(&mut self, record: Option<&Record>, now: Timestamp) {
        let Some(record) = record.filter(|record| !record.holder.is_empty()) else {
            return;
        };
        if record.holder != self.holder {
            *self = Skew {
                holder: record.holder.clone(),
                renewed: record.renewed,
                ..Skew::default()
            };
            return;
        }
        let Some(renewed) = record.renewed.filter(|_| record.renewed != self.renewed) else {
            return;
        };
        self.renewed = Some(renewed);
        self.ahead.truncate(MOST - 1);
        self.ahead.push_front(now.duration_since(renewed));
    }

    /// By how much this clock is ahead of the leader's, if it is off.
    pub(super) fn ahead(&self) -> Option<SignedDuration> {
        // What was on its way for longer seems older.
        let least = self.ahead.iter().min().copied();
        least.filter(|least| self.ahead.len() >= ENOUGH && least.abs() > WAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn record(holder: &str, renewed: i64) -> Record {
        Record {
            holder: holder.to_owned(),
            duration: Duration::from_secs(15),
            renewed: Some(Timestamp::from_second(renewed).unwrap()),
            acquired: None,
            transitions: 0,
            epoch: None,
        }
    }

    /// Who had renewed when, as seen at what time.
    fn ahead(told: &[(&str, i64, i64)]) -> Option<i64> {
        let mut skew = Skew::default();
        for (holder, renewed, now) in told {
            skew.told(
                Some(&record(holder, *renewed)),
                Timestamp::from_second(*now).unwrap(),
            );
        }
        skew.ahead().map(|ahead| ahead.as_secs())
    }

    #[test]
    fn what_is_seen_of_renewals_tells_the_difference_of_clocks() {
        for (told, expected) in [
            // In step, whatever the first look shows, and however long one of them is on its way.
            (
                &[("a", 0, 900), ("a", 10, 10), ("a", 20, 95), ("a", 30, 31)][..],
                None,
            ),
            (
                &[("a", 0, 3600), ("a", 10, 3610), ("a", 20, 3690), ("a", 30, 3631)],
                Some(3600),
            ),
            (
                &[("a", 3600, 0), ("a", 3610, 10), ("a", 3620, 21), ("a", 3630, 30)],
                Some(-3600),
            ),
            // It was put right since.
            (
                &[
                    ("a", 0, 0),
                    ("a", 10, 10),
                    ("a", 20, 3620),
                    ("a", 30, 3630),
                    ("a", 40, 3640),
                    ("a", 50, 3650),
                    ("a", 60, 3660),
                    ("a", 70, 3670),
                ],
                Some(3600),
            ),
            // Too few, seen twice, of somebody else.
            (&[("a", 0, 3600), ("a", 10, 3610), ("a", 20, 3620)], None),
            (
                &[("a", 0, 3600), ("a", 10, 3610), ("a", 10, 3611), ("a", 10, 3612)],
                None,
            ),
            (
                &[("a", 0, 3600), ("a", 10, 3610), ("b", 20, 3620), ("b", 30, 3630)],
                None,
            ),
            (
                &[("", 0, 3600), ("", 10, 3610), ("", 20, 3620), ("", 30, 3630)],
                None,
            ),
        ] {
            assert_eq!(ahead(told), expected, "{told:?}");
        }
    }
}
