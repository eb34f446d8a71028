//! Events go an hour after they were written last, as with Kubernetes' `--event-ttl`.
//!
//! Only a write of an Event looks, and at most once a minute: a server on which nothing happens keeps its last Events, and no
//! task runs for it.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    kinds::Resource,
    object,
    server::Core,
    verbs::{self, DeleteOptions},
};

/// How long an Event stays after it was last written.
const LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Time between two looks.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// Where Events of both groups are stored.
const TABLE: &str = "events";

/// When old Events were looked for last.
#[derive(Debug, Default)]
pub(super) struct Sweep(Mutex<Option<Timestamp>>);

impl Sweep {
    /// Whether it is time for another look; if so, it counts as made.
    pub(super) fn due(&self, now: Timestamp) -> bool {
        let mut last = self.0.lock();
        // A clock that was set back is no reason to stop looking.
        let due = last.is_none_or(|last| now.duration_since(last).abs() >= PAUSE);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// Whether a table is one of Events.
pub(super) fn holds_events(table: &str) -> bool {
    table == TABLE
}

impl Core {
    /// Removes the Events that are over their time.
    pub(super) fn expire_events(&self) {
        let now = (self.clock)();
        if !self.notes.sweep.due(now) {
            return;
        }
        if let Some(resource) = self.resource_of(TABLE) {
            self.expire(&resource, now);
        }
    }

    fn expire(&self, resource: &Resource, now: Timestamp) {
        self.remove_those(resource, |event| {
            last_written(event).is_some_and(|last| now.duration_since(last) >= LIFETIME)
        });
    }

    /// Removes the objects of a kind that are over their time. One that is written in between stays until the next look.
    pub(super) fn remove_those(&self, resource: &Resource, over: impl Fn(&Value) -> bool) {
        for (key, record) in self.records(&resource.table, None) {
            let value = object::decode(&record.bytes);
            if !over(&value) {
                continue;
            }
            let options = DeleteOptions {
                revision: Some(object::meta(&value, "resourceVersion").to_owned()),
                ..DeleteOptions::default()
            };
            if let Err(error) = verbs::remove(self, resource, &key, &options) {
                tracing::debug!(%error, table = %key.table, name = %key.name, "an object over its time was not deleted");
            }
        }
    }
}

/// The latest of the times in an Event; `None` if it has none that reads.
fn last_written(event: &Value) -> Option<Timestamp> {
    let paths: [&[&str]; 5] = [
        &["metadata", "creationTimestamp"],
        &["lastTimestamp"],
        &["eventTime"],
        &["series", "lastObservedTime"],
        &["firstTimestamp"],
    ];
    let times = paths
        .iter()
        .filter_map(|path| object::at(event, path)?.as_str()?.parse().ok());
    times.max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_latest_time_counts() {
        let event = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": "2026-01-01T00:30:00Z",
            "eventTime": null, "series": {"lastObservedTime": "2026-01-01T00:10:00.000000Z"}});
        assert_eq!(
            last_written(&event),
            Some("2026-01-01T00:30:00Z".parse().unwrap())
        );
        assert_eq!(last_written(&json!({})), None);
    }
}
