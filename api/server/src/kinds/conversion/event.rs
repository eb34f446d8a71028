//! `events.k8s.io/v1` over the Events of the core group (`pkg/apis/events/v1/conversion.go`): the same object under two
//! groups, with other names for some fields.

use serde_json::Value;

use super::Conversion;

pub(in crate::kinds) const EVENT: Conversion = Conversion {
    stored_group: "",
    table: "events",
    stored_field: |field| {
        let (head, rest) = field.split_once('.').unwrap_or((field, ""));
        let stored = NAMES.iter().find(|(own, _)| *own == head);
        match (stored, rest) {
            (Some((_, stored)), "") => (*stored).to_owned(),
            (Some((_, stored)), rest) => format!("{stored}.{rest}"),
            (None, _) => field.to_owned(),
        }
    },
    hides: |_| false,
    to_stored: |event| rename(event, |(own, core)| (own, core)),
    from_stored: |event| rename(event, |(own, core)| (core, own)),
};

/// Names in `events.k8s.io/v1` and in `v1`.
const NAMES: [(&str, &str); 7] = [
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(event: &mut Value, direction: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    let Some(map) = event.as_object_mut() else { return };
    for (from, to) in NAMES.map(direction) {
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_and_back() {
        let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"}, "note": "hello",
            "reason": "Because", "type": "Normal", "reportingController": "me", "reportingInstance": "me-0",
            "eventTime": "2026-01-01T00:00:00.000000Z", "deprecatedCount": 2, "series": {"count": 2}});
        let stored = EVENT.stored(&event);
        assert_eq!(stored["involvedObject"]["name"], "p");
        assert_eq!(
            (&stored["message"], &stored["count"]),
            (&json!("hello"), &json!(2))
        );
        assert_eq!(stored["reportingComponent"], "me");
        let mut back = stored;
        EVENT.serve(&mut back);
        assert_eq!(back, event);
        assert_eq!((EVENT.stored_field)("regarding.name"), "involvedObject.name");
        assert_eq!((EVENT.stored_field)("reason"), "reason");
    }
}
