//! Agents and hubs of other versions in one fleet: earlier agents say less, later ones and a later hub write what the others do not
//! know, and an API server drops it. What hub and agents of 0.1.0 write is `fleet/versions`, read once by each side there.

use crate::{
    looks::{generations, images},
    runs::{SECOND, after, good, one},
};
use bytes::Bytes;
use http::Request;
use parking_lot::Mutex;
use roundhouse_hub::simulate::{
    Ends, HUB, Wire, Wires,
    fault::Dice,
    run::{Act, Fault, Script, agreement, application, with_image},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// What a report of 0.1.0 may have.
const FIRST: [&str; 7] = [
    "hash",
    "observedGeneration",
    "epoch",
    "phase",
    "counts",
    "workloads",
    "conditions",
];

/// Who is of another version, by name.
#[derive(Debug, Default)]
struct Versions {
    earlier: BTreeSet<String>,
    later: BTreeSet<String>,
    /// Writes of later ones that say more.
    more: Mutex<usize>,
}

impl Versions {
    /// What somebody of another version would send.
    fn send(&self, ends: &Ends, request: Request<Bytes>) -> Request<Bytes> {
        let is_ours = request.uri().path().starts_with("/apis/roundhouse.dev/");
        let Ok(mut body) = serde_json::from_slice::<Value>(request.body()) else {
            return request;
        };
        let status = body.get_mut("status").and_then(Value::as_object_mut);
        let is_report = request.uri().path().contains("/bundles/") && status.is_some();
        if is_report && self.earlier.contains(&ends.who) {
            if let Some(status) = status {
                status.retain(|key, _| FIRST.contains(&key.as_str()));
            }
        } else if ends.server == HUB && is_ours && self.later.contains(&ends.who) {
            for part in ["spec", "status"] {
                if let Some(part) = body.get_mut(part).and_then(Value::as_object_mut) {
                    part.insert("ofALaterVersion".to_owned(), json!({"some": ["thing"]}));
                    *self.more.lock() += 1;
                }
            }
        }
        request.map(|_| body.to_string().into())
    }

    fn wires(self: &Arc<Self>) -> Wires {
        let versions = self.clone();
        Wires::new(move |ends, wire| {
            let (versions, ends) = (versions.clone(), ends.clone());
            Wire::new(move |request: Request<Bytes>| wire.send(versions.send(&ends, request)))
        })
    }
}

#[test]
fn hubs_and_agents_that_are_a_version_apart_deliver_and_come_to_rest() {
    let fleets: Mutex<Vec<Arc<Versions>>> = Mutex::default();
    good(|seed| {
        let mut dice = Dice::new(seed, "versions");
        let web = application("web", 12, &[("east", "50%"), ("west", "50%")]);
        let mut script = Script::of_regions(3, &["east", "west"]).with(web.clone());
        script.lenient = true;
        let names = script.names();
        // In each region somebody of each.
        let mut versions = Versions::default();
        for name in &names {
            match name.split_once('-') {
                Some((_, "1")) => drop(versions.earlier.insert(name.clone())),
                Some((_, "2")) => drop(versions.later.insert(name.clone())),
                _ => {}
            }
        }
        if dice.happens(500) {
            versions.later.insert(HUB.to_owned());
        }
        let versions = Arc::new(versions);
        fleets.lock().push(versions.clone());
        script.wires = Some(versions.wires());
        // An upgrade ends agents and hubs.
        let (hub, agent) = (after(&mut dice, 0, 30_000), after(&mut dice, 0, 30_000));
        let upgraded = one(&mut dice, &names);
        script.finally.push(agreement(Vec::new(), Vec::new()));
        script
            .at(hub, Act::for_a_while(Fault::Stopped(HUB.to_owned()), SECOND * 5))
            .at(agent, Act::for_a_while(Fault::Stopped(upgraded), SECOND * 5))
            .at(
                after(&mut dice, 20_000, 60_000),
                Act::Apply(with_image(&web, "web:2")),
            )
            .finally(
                "the newest runs everywhere",
                images("web", "web:2", names.clone()),
            )
            .finally("each was changed once", generations("web", 2, names))
    });
    for versions in fleets.into_inner() {
        assert!(
            *versions.more.lock() > 0,
            "nobody of a later version wrote anything: {versions:?}"
        );
    }
}
