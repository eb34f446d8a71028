//! When each cluster's Lease was last seen to change, by the hub's clock.

use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeMap, time::Duration};

/// What the hub saw of one Lease since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// When this hub first saw the Lease.
    pub first_seen: Timestamp,
    /// When this hub last saw `renewTime` become another one; absent until that happened.
    pub changed: Option<Timestamp>,
    /// Whether the Lease was ever renewed, by this hub's knowledge or before.
    pub renewed: bool,
    /// Since when, by this hub's clock, the agent says the same of what it received last (annotation `roundhouse.dev/seen`,
    /// which changes with each renewal that arrives at its watch), or is heard again after a silence; absent where it says
    /// nothing of it.
    pub echo: Option<Timestamp>,
    /// Whether this hub has seen that become something else: until then it does not know itself that the agent hears.
    pub heard: bool,
}

impl Heartbeat {
    /// The same by a clock that is ahead by so much.
    #[must_use]
    pub fn ahead(self, by: SignedDuration) -> Heartbeat {
        let later = |at: Timestamp| at.saturating_add(by).unwrap_or(at);
        Heartbeat {
            first_seen: later(self.first_seen),
            changed: self.changed.map(later),
            echo: self.echo.map(later),
            ..self
        }
    }
}

/// The heartbeats of the fleet. Lost at a restart on purpose: a new hub judges by what it sees itself.
#[derive(Debug)]
pub struct Heartbeats {
    lease_duration: SignedDuration,
    seen: BTreeMap<String, Beat>,
}

#[derive(Debug)]
struct Beat {
    /// The uid of the Cluster that it is of.
    of: String,
    heartbeat: Heartbeat,
    renewed_at: Option<Timestamp>,
    echo: Option<String>,
}

impl Heartbeats {
    /// Of agents that are silent when their Lease has not changed for `lease_duration`.
    pub fn new(lease_duration: Duration) -> Self {
        Heartbeats {
            lease_duration: SignedDuration::try_from(lease_duration).unwrap_or(SignedDuration::MAX),
            seen: BTreeMap::new(),
        }
    }

    /// Takes note of a Lease whose `renewTime` is `renewed_at` and whose agent echoes `echo`. True if a verdict may be another
    /// one by it: a renewal in time, of an agent that hears, only puts off when its cluster is looked at again anyway, and a fleet
    /// has hundreds of those each second.
    ///
    /// `renewed_at` is the agent's clock, and `echo` a resourceVersion: both are compared for equality only. `uid` is that of the
    /// Cluster: what was heard of another one of its name says nothing of this one.
    pub fn observe(
        &mut self,
        (cluster, uid): (&str, &str),
        renewed_at: Option<Timestamp>,
        echo: Option<&str>,
        now: Timestamp,
    ) -> bool {
        let known = self.seen.get_mut(cluster).filter(|beat| beat.of == uid);
        let Some(beat) = known else {
            let heartbeat = Heartbeat {
                first_seen: now,
                changed: None,
                renewed: renewed_at.is_some(),
                echo: echo.map(|_| now),
                heard: false,
            };
            let beat = Beat {
                of: uid.to_owned(),
                heartbeat,
                renewed_at,
                echo: echo.map(str::to_owned),
            };
            self.seen.insert(cluster.to_owned(), beat);
            return true;
        };
        let was_long_ago = |at: Timestamp| now.duration_since(at) >= self.lease_duration;
        let mut matters =
            beat.echo.is_some() != echo.is_some() || beat.heartbeat.echo.is_some_and(was_long_ago);
        if beat.echo.as_deref() != echo {
            let heard = beat.echo.is_some() && echo.is_some();
            matters |= heard && !beat.heartbeat.heard;
            beat.heartbeat.heard |= heard;
            beat.echo = echo.map(str::to_owned);
            beat.heartbeat.echo = echo.map(|_| now);
        }
        if beat.renewed_at == renewed_at {
            return matters;
        }
        matters |= beat.renewed_at.is_none() || renewed_at.is_none();
        beat.renewed_at = renewed_at;
        // A Lease made anew has no renewTime yet: that is no sign of life.
        if renewed_at.is_some() {
            let last = beat.heartbeat.changed.unwrap_or(beat.heartbeat.first_seen);
            // What is on the Lease is from before the silence: whoever has just come back cannot have heard anything yet.
            if was_long_ago(last) {
                beat.heartbeat.echo = echo.map(|_| now);
                matters = true;
            }
            matters |= beat.heartbeat.changed.is_none();
            beat.heartbeat.changed = Some(now);
            beat.heartbeat.renewed = true;
        }
        matters
    }

    /// What is known of a cluster's Lease.
    pub fn get(&self, cluster: &str) -> Option<Heartbeat> {
        self.seen.get(cluster).map(|beat| beat.heartbeat)
    }

    /// Forgets a cluster that is gone.
    pub fn forget(&mut self, cluster: &str) {
        self.seen.remove(cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn what_was_heard_of_another_cluster_of_the_name_says_nothing() {
        let mut beats = Heartbeats::new(Duration::from_secs(40));
        beats.observe(("c1", "u"), Some(at(5)), Some("7"), at(100));
        beats.observe(("c1", "u"), Some(at(6)), Some("8"), at(110));
        assert!(beats.get("c1").unwrap().renewed);
        assert!(beats.observe(("c1", "v"), None, None, at(111)));
        let new = Heartbeat {
            first_seen: at(111),
            ..Heartbeat::default()
        };
        assert_eq!(beats.get("c1"), Some(new));
    }

    #[test]
    fn only_a_change_seen_by_this_hub_is_a_sign_of_life() {
        let mut beats = Heartbeats::new(Duration::from_secs(40));
        // An old Lease found at the start proves that the agent once lived, not that it does.
        assert!(beats.observe(("c1", "u"), Some(at(5)), None, at(100)));
        let found = Heartbeat {
            first_seen: at(100),
            changed: None,
            renewed: true,
            echo: None,
            heard: false,
        };
        assert_eq!(beats.get("c1"), Some(found));
        assert!(!beats.observe(("c1", "u"), Some(at(5)), None, at(110)));
        assert_eq!(beats.get("c1"), Some(found));
        // The agent's clock may run backwards: another time is a change.
        assert!(beats.observe(("c1", "u"), Some(at(4)), None, at(120)));
        assert_eq!(beats.get("c1").unwrap().changed, Some(at(120)));
        // A Lease made anew changes nothing until it is renewed.
        assert!(beats.observe(("c1", "u"), None, None, at(130)));
        assert_eq!(beats.get("c1").unwrap().changed, Some(at(120)));
        assert!(beats.observe(("c1", "u"), Some(at(4)), None, at(140)));
        assert_eq!(beats.get("c1").unwrap().changed, Some(at(140)));
        beats.forget("c1");
        assert_eq!(beats.get("c1"), None);
    }

    #[test]
    fn a_renewal_in_time_of_an_agent_that_hears_changes_no_verdict() {
        let mut beats = Heartbeats::new(Duration::from_secs(40));
        // Seconds of the agent's clock, its echo, the hub's clock, and whether the cluster is looked at.
        let table = [
            (Some(1), Some("1"), 100, true, "the Lease is seen first"),
            (Some(2), Some("2"), 110, true, "the first sign of life"),
            (Some(3), Some("3"), 120, false, "in time"),
            (Some(4), Some("4"), 159, false, "in time, if hardly"),
            (Some(4), Some("4"), 160, false, "nothing is new"),
            (
                Some(5),
                Some("5"),
                199,
                true,
                "it was silent for a Lease's duration",
            ),
            (Some(6), Some("5"), 209, false, "it may hear yet"),
            (Some(7), Some("5"), 229, false, "it may hear yet"),
            (Some(8), Some("5"), 240, true, "for too long it has not heard"),
            (Some(9), Some("5"), 250, true, "nor now"),
            (Some(10), Some("6"), 260, true, "it hears again"),
            (Some(11), Some("7"), 270, false, "in time"),
            (Some(12), None, 280, true, "it says nothing of it any more"),
            (Some(13), None, 290, false, "in time"),
            (None, None, 300, true, "the Lease was made anew"),
            (Some(14), None, 310, true, "and is renewed"),
        ];
        for (renewed, echo, now, matters, why) in table {
            assert_eq!(
                beats.observe(("c1", "u"), renewed.map(at), echo, at(now)),
                matters,
                "{now}: {why}"
            );
        }
    }

    #[test]
    fn an_echo_counts_from_when_it_became_what_it_is() {
        let mut beats = Heartbeats::new(Duration::from_secs(40));
        beats.observe(("c1", "u"), Some(at(1)), None, at(100));
        assert_eq!(beats.get("c1").unwrap().echo, None);
        beats.observe(("c1", "u"), Some(at(2)), Some("7"), at(110));
        assert_eq!(beats.get("c1").unwrap().echo, Some(at(110)));
        beats.observe(("c1", "u"), Some(at(3)), Some("7"), at(120));
        assert_eq!(beats.get("c1").unwrap().echo, Some(at(110)));
        beats.observe(("c1", "u"), Some(at(4)), Some("9"), at(130));
        assert_eq!(beats.get("c1").unwrap().echo, Some(at(130)));
    }

    #[test]
    fn an_agent_that_was_silent_is_given_time_to_hear_again() {
        let mut beats = Heartbeats::new(Duration::from_secs(40));
        beats.observe(("c1", "u"), Some(at(1)), Some("7"), at(100));
        // Deaf for as long as it renews and says the same, and not from when it comes back on.
        for (renewed, now, echo) in [(2, 110, 100), (3, 149, 100), (4, 189, 189), (5, 199, 189)] {
            beats.observe(("c1", "u"), Some(at(renewed)), Some("7"), at(now));
            assert_eq!(beats.get("c1").unwrap().echo, Some(at(echo)), "at {now}");
        }
        beats.observe(("c1", "u"), Some(at(6)), None, at(300));
        assert_eq!(beats.get("c1").unwrap().echo, None);
    }
}
