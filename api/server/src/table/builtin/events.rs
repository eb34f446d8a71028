//! Events, by when they were last seen.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Column, NAME, age, column,
    read::{get, integer, string},
    wide,
};
use crate::object::at;

pub(super) const EVENT: &[Column] = &[
    column("Last Seen", last_seen),
    column("Type", |v, _| string(v, &["type"])),
    column("Reason", |v, _| string(v, &["reason"])),
    column("Object", |v, _| {
        let kind = get(v, &["involvedObject", "kind"]).to_lowercase();
        match get(v, &["involvedObject", "name"]) {
            "" => kind.into(),
            name => format!("{kind}/{name}").into(),
        }
    }),
    wide("Subobject", |v, _| string(v, &["involvedObject", "fieldPath"])),
    wide("Source", |v, _| {
        let or = |a: &'static [&'static str], b: &'static [&'static str]| match get(v, a) {
            "" => get(v, b),
            found => found,
        };
        let component = or(&["source", "component"], &["reportingComponent"]);
        match or(&["source", "host"], &["reportingInstance"]) {
            "" => component.into(),
            host => format!("{component}, {host}").into(),
        }
    }),
    column("Message", |v, _| get(v, &["message"]).trim().into()),
    wide("First Seen", |v, now| first_seen(v, now).into()),
    wide("Count", |v, _| {
        let own = at(v, &["series", "count"]).and_then(Value::as_i64);
        own.unwrap_or_else(|| integer(v, &["count"]).max(1))
            .to_string()
            .into()
    }),
    {
        let mut name = NAME;
        name.priority = 1;
        name
    },
];

fn first_seen(event: &Value, now: Timestamp) -> String {
    match get(event, &["firstTimestamp"]) {
        "" => age::age(get(event, &["eventTime"]), now),
        then => age::age(then, now),
    }
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    match (
        get(event, &["series", "lastObservedTime"]),
        get(event, &["lastTimestamp"]),
    ) {
        ("", "") => first_seen(event, now).into(),
        ("", then) | (then, _) => age::age(then, now).into(),
    }
}
