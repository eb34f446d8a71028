//! Fight: a field that somebody else rewrites each time we repair it. It is reported, and repaired ever more rarely, so
//! that two writers never make a storm; pure, the clock is a parameter.
//!
//! A field is fought over when it differs again after [`REPAIRS`] repairs within [`WINDOW`]. From then on the delay
//! before the next repair doubles from [`FIRST`] to [`LONGEST`]. The fight is over when the field has been as the bundle
//! wants it for [`QUIET`], when the object's content changes, or when the bundle no longer minds the field.
//!
//! So against a writer that never gives up, an object is written at most `REPAIRS + 5` times in the first hour
//! (1, 2, 4, 8 and 16 minutes after one another) and twice an hour after that. A patch that also repairs a field that is
//! not fought over is sent at once; each field earns that at most [`REPAIRS`] times in [`WINDOW`].

use crate::path::FieldPath;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// How many repairs of one field within [`WINDOW`] are an accident. A person who edits twice and then asks why is not a
/// fight; a controller that syncs is one after its third round.
pub(crate) const REPAIRS: usize = 3;
/// How long repairs are remembered. Three within a quarter of an hour catch every writer that comes back within five
/// minutes: the HPA (15 s), Argo CD (3 min), Flux and operators at their usual intervals. A slower one costs at most
/// twelve writes an hour, which is no storm.
pub(crate) const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Delay between the last repair and the first one after the fight was noticed.
pub(crate) const FIRST: Duration = Duration::from_secs(60);
/// Longest delay between two repairs: still soon enough to heal by itself within a change of shift.
pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 60);
/// How long a field must have been as the bundle wants it before the fight counts as over: as long as repairs are
/// remembered, so that a slow opponent does not start it anew each time.
pub(crate) const QUIET: Duration = WINDOW;
/// Above this many fields, fields are told apart by their first two steps only: what is remembered stays small.
const MAX_FIELDS: usize = 64;

/// What to do about fields that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// They are repaired now.
    Repair,
    /// They are fought over; the next repair is due then.
    BackOff { until: Instant },
}

/// What is remembered of the repairs of one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    /// Digest of the content that was repaired; with another one, everything begins anew.
    content: String,
    fields: BTreeMap<FieldPath, Repairs>,
    /// Who was seen to own fields that are fought over, or what else is known of them.
    rivals: BTreeSet<String>,
}

/// The repairs of one field.
#[derive(Debug, Clone, Default, PartialEq)]
struct Repairs {
    /// The last [`REPAIRS`], oldest first.
    at: Vec<Instant>,
    fight: Option<Fight>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Fight {
    /// Repairs since it was noticed.
    round: u32,
    /// When the next repair is due.
    next: Instant,
    /// Since when the field is as the bundle wants it; `None` while it is not.
    ours_since: Option<Instant>,
}

impl Repairs {
    fn is_accident(&self, now: Instant) -> bool {
        self.recent(now) < REPAIRS
    }

    fn recent(&self, now: Instant) -> usize {
        let recent = |at: &&Instant| now.saturating_duration_since(**at) < WINDOW;
        self.at.iter().filter(recent).count()
    }
}

/// At most this many names of rivals are remembered.
const MAX_RIVALS: usize = 3;

fn delay(round: u32) -> Duration {
    crate::delay::backoff(round, FIRST, LONGEST)
}

impl History {
    /// Nothing was repaired, or not for long.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Whether some field is fought over.
    pub(crate) fn is_fought(&self) -> bool {
        self.fields.values().any(|repairs| repairs.fight.is_some())
    }

    /// The fields that are fought over.
    pub(crate) fn fought(&self) -> impl Iterator<Item = &FieldPath> {
        let fought = self.fields.iter().filter(|(_, repairs)| repairs.fight.is_some());
        fought.map(|(path, _)| path)
    }

    /// Who was seen on the other side.
    pub(crate) fn rivals(&self) -> impl Iterator<Item = &str> {
        self.rivals.iter().map(String::as_str)
    }

    /// When to look at the object again without any event: a repair is due, or a fight may be over.
    pub(crate) fn due(&self) -> Option<Instant> {
        let fights = self.fields.values().filter_map(|repairs| repairs.fight);
        fights
            .map(|fight| fight.ours_since.map_or(fight.next, |since| since + QUIET))
            .min()
    }

    /// The object was looked at, and `differing` are not as the bundle wants them. With another content than before, or
    /// where a bundle that was written anew no longer minds a field, there is nothing left to fight over.
    pub(crate) fn look(&mut self, content: &str, anew: bool, differing: &[FieldPath], now: Instant) {
        if self.content != content {
            *self = History {
                content: content.to_owned(),
                ..History::default()
            };
        }
        let differing = distinct(differing);
        self.fields.retain(|path, repairs| {
            let differs = differing.contains(path);
            if let Some(fight) = &mut repairs.fight {
                let since = fight.ours_since.filter(|_| !differs);
                fight.ours_since = (!differs).then(|| since.unwrap_or(now));
                let over = |since: Instant| now.saturating_duration_since(since) >= QUIET;
                let over = fight.ours_since.is_some_and(over) || (anew && !differs);
                return !over;
            }
            if differs && !repairs.is_accident(now) {
                let last = repairs.at.last().copied().unwrap_or(now);
                repairs.fight = Some(Fight {
                    round: 0,
                    next: last + delay(0),
                    ours_since: None,
                });
            }
            repairs.fight.is_some() || repairs.recent(now) > 0
        });
        if !self.is_fought() {
            self.rivals.clear();
        }
    }

    /// Whether fields that differ are repaired now. To be asked after [`History::look`].
    pub(crate) fn verdict(&self, differing: &[FieldPath], now: Instant) -> Verdict {
        let mut until: Option<Instant> = None;
        for path in distinct(differing) {
            match self.fields.get(&path).and_then(|repairs| repairs.fight) {
                Some(fight) if fight.next > now => {
                    until = Some(until.map_or(fight.next, |until| until.min(fight.next)));
                }
                _ => return Verdict::Repair,
            }
        }
        until.map_or(Verdict::Repair, |until| Verdict::BackOff { until })
    }

    /// Fields were repaired.
    pub(crate) fn repaired(&mut self, paths: &[FieldPath], now: Instant) {
        for path in distinct(paths) {
            let repairs = self.fields.entry(path).or_default();
            repairs.at.push(now);
            if repairs.at.len() > REPAIRS {
                repairs.at.remove(0);
            }
            if let Some(fight) = &mut repairs.fight {
                fight.round = fight.round.saturating_add(1);
                fight.next = now + delay(fight.round);
                fight.ours_since = Some(now);
            }
        }
    }

    /// The server answered a write of these fields with other values: that is a fight at once, no second proof is needed.
    pub(crate) fn overruled(&mut self, paths: &[FieldPath], now: Instant) {
        for path in distinct(paths) {
            let repairs = self.fields.entry(path).or_default();
            let round = repairs.fight.map_or(0, |fight| fight.round);
            repairs.fight = Some(Fight {
                round,
                next: now + delay(round),
                ours_since: None,
            });
        }
    }

    /// Somebody was seen on the other side.
    pub(crate) fn seen_rival(&mut self, name: String) {
        if self.rivals.len() < MAX_RIVALS {
            self.rivals.insert(name);
        }
    }
}

fn distinct(paths: &[FieldPath]) -> BTreeSet<FieldPath> {
    if paths.len() <= MAX_FIELDS {
        return paths.iter().cloned().collect();
    }
    paths.iter().map(|path| path.cut(2)).collect()
}

#[cfg(test)]
mod tests;
