//! Requests for certificates go when nobody needs them any longer: an hour after they were decided, a day after they were
//! made, as Kubernetes' `csrcleaner` has it. Only a write of one looks, as with Events.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{csr, object, server::Core};

/// How long a request stays after it was approved, denied or refused by its signer.
const DECIDED: SignedDuration = SignedDuration::from_hours(1);
/// How long it waits for that.
const PENDING: SignedDuration = SignedDuration::from_hours(24);

impl Core {
    /// Removes the requests that are over their time.
    pub(super) fn expire_requests(&self) {
        let now = (self.clock)();
        if !self.notes.requests.due(now) {
            return;
        }
        let Some(resource) = self.resource_of(csr::TABLE) else {
            return;
        };
        self.remove_those(&resource, |request| over(request, now));
    }
}

fn over(request: &Value, now: Timestamp) -> bool {
    let time =
        |value: &Value, path: &[&str]| -> Option<Timestamp> { object::text(value, path)?.parse().ok() };
    let decided = object::conditions(request)
        .iter()
        .filter_map(|c| time(c, &["lastUpdateTime"]))
        .max();
    let (since, stays) = match decided {
        Some(at) => (Some(at), DECIDED),
        None => (time(request, &["metadata", "creationTimestamp"]), PENDING),
    };
    since.is_some_and(|since| now.duration_since(since) > stays)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn when_a_request_is_over() {
        let pending = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
        let mut decided = pending.clone();
        decided["status"] =
            json!({"conditions": [{"type": "Denied", "lastUpdateTime": "2026-01-01T02:00:00Z"}]});
        for (request, at, want) in [
            (&pending, "2026-01-02T00:00:00Z", false),
            (&pending, "2026-01-02T00:00:01Z", true),
            (&decided, "2026-01-01T03:00:00Z", false),
            (&decided, "2026-01-01T03:00:01Z", true),
        ] {
            assert_eq!(over(request, at.parse().unwrap()), want, "{request} {at}");
        }
    }
}
