//! P12: memory and queues are bounded: what stores hold beside the objects, lists inside objects that grow with a fleet, and the
//! hub's queue of applications. What agents and the hub's other controllers queue is not gauged.

use super::{
    commit::Commit,
    model::{APPLICATIONS, BUNDLES, Model},
    promise::{Check, Found, Note, Promise},
};
use crate::{
    application::Said,
    simulate::{HUB, trace::Object},
};
use roundhouse_api::{
    application::{MAX_LET_GO, MAX_NOT_READY, MAX_OBJECTS, MAX_REGIONS, MAX_REMOVALS},
    bundle::{MAX_FAILURES, MAX_WORKLOADS},
};
use serde_json::Value;

/// Most bytes of an object: what etcd takes of one.
const MAX_OBJECT: usize = 3 << 19;

/// Lists in objects of the hub that are cut: table, path, most.
const LISTS: [(&str, &str, usize); 8] = [
    (BUNDLES, "/status/workloads", MAX_WORKLOADS),
    (BUNDLES, "/status/resourceStatus/manifests", MAX_FAILURES),
    (APPLICATIONS, "/status/delivery/notReady", MAX_NOT_READY),
    (APPLICATIONS, "/status/delivery/regions", MAX_REGIONS + 1),
    (APPLICATIONS, "/status/delivery/objects", MAX_OBJECTS),
    (APPLICATIONS, "/status/removals/moments", MAX_REMOVALS),
    (APPLICATIONS, "/status/letGo", MAX_LET_GO),
    (APPLICATIONS, "/status/heldDeletes/clusters", MAX_NOT_READY),
];

#[derive(Debug, Default)]
pub(super) struct Bounded;

impl Check for Bounded {
    fn committed(&mut self, commit: &Commit, _: &Model, found: &mut Found<'_>) {
        let bytes = commit.after.as_ref().map_or(0, |bytes| bytes.len());
        if bytes > MAX_OBJECT {
            let expected = format!("at most {MAX_OBJECT} bytes");
            found.broke(Promise::P12, commit.object(), expected, bytes.to_string());
        }
        let own = LISTS
            .iter()
            .filter(|(table, ..)| *table == &*commit.key.table && &*commit.server == HUB);
        for (_, pointer, most) in own {
            let list = commit.after().pointer(pointer).and_then(Value::as_array);
            let Some(length) = list.map(Vec::len) else {
                continue;
            };
            found.judges(Promise::P12);
            if length > *most {
                let expected = format!("at most {most} in {pointer}");
                found.broke(Promise::P12, commit.object(), expected, length.to_string());
            }
        }
    }

    fn said(&mut self, said: &Said, found: &mut Found<'_>) {
        if let Said::Holds { what, value, most } = said {
            found.judges(Promise::P12);
            if value > most {
                let hub = Object::party(HUB, "hub");
                found.broke(
                    Promise::P12,
                    hub,
                    format!("at most {most} {what}"),
                    value.to_string(),
                );
            }
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, found: &mut Found<'_>) {
        let Note::Gauge {
            server,
            name,
            value,
            most,
        } = note
        else {
            return;
        };
        found.judges(Promise::P12);
        if value > most {
            let expected = format!("at most {most} {name}");
            found.broke(
                Promise::P12,
                Object::party(server, "server"),
                expected,
                value.to_string(),
            );
        }
    }
}
