//! Agents of a later version than their hub, and a hub of a later one than its agents: they write what the others do not know, and an
//! API server drops it, or keeps it where it has the definitions of the later version. What hub and agents of 0.1.0 write is `fleet/versions`, read once by each side there.

use crate::{
    looks::{because, generations, images},
    runs::{SECOND, after, good, one},
};
use bytes::Bytes;
use http::Request;
use parking_lot::Mutex;
use roundhouse_api::{crds, names::annotation};
use roundhouse_hub::simulate::{
    Ends, HUB, Wire, Wires,
    fault::Dice,
    run::{Act, Fault, Look, Script, application, with_image},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Who is of a later version, by name, and how often each wrote more for it.
#[derive(Debug, Default)]
struct Later(Mutex<BTreeMap<String, usize>>);

impl Later {
    /// What somebody of a later version would send.
    fn send(&self, ends: &Ends, request: Request<Bytes>) -> Request<Bytes> {
        let is_ours = request.uri().path().starts_with("/apis/roundhouse.dev/");
        let mut all = self.0.lock();
        let Some(count) = all.get_mut(&ends.who).filter(|_| ends.server == HUB && is_ours) else {
            return request;
        };
        let Ok(mut body) = serde_json::from_slice::<Value>(request.body()) else {
            return request;
        };
        for part in ["spec", "status"] {
            if let Some(part) = body.get_mut(part).and_then(Value::as_object_mut) {
                part.insert("ofALaterVersion".to_owned(), json!({"some": ["thing"]}));
                *count += 1;
            }
        }
        request.map(|_| body.to_string().into())
    }

    fn all_wrote(&self) -> bool {
        let wrote = self.0.lock();
        !wrote.is_empty() && wrote.values().all(|count| *count > 0)
    }

    fn wires(self: &Arc<Self>) -> Wires {
        let later = self.clone();
        Wires::new(move |ends, wire| {
            let (later, ends) = (later.clone(), ends.clone());
            Wire::new(move |request: Request<Bytes>| wire.send(later.send(&ends, request)))
        })
    }
}

/// The definitions of a later version, which name what it writes beside. Hub and agents leave them as they are.
fn later_definitions() -> Vec<Value> {
    let own = crds::hub().into_iter().map(|definition| json!(definition));
    let own = own.filter(|definition| definition["spec"]["group"] == "roundhouse.dev");
    own.map(|mut definition| {
        let version = (crds::SCHEMA_VERSION + 1).to_string();
        definition["metadata"]["annotations"][annotation::SCHEMA_VERSION] = version.into();
        for part in ["spec", "status"] {
            let at = format!("/spec/versions/0/schema/openAPIV3Schema/properties/{part}/properties");
            if let Some(fields) = definition.pointer_mut(&at).and_then(Value::as_object_mut) {
                let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                fields.insert("ofALaterVersion".to_owned(), anything);
            }
        }
        definition
    })
    .collect()
}

/// Whether a Bundle says what only a later version knows.
fn has_more() -> Look {
    Look::new(|fleet| {
        Box::pin(async move {
            let asked = Request::get("/apis/roundhouse.dev/v1alpha1/bundles").body(Vec::new());
            let list = fleet.hub_client().request_text(asked.unwrap()).await;
            let list = list.map_err(|error| error.to_string())?;
            because(list.contains("ofALaterVersion"), || "no Bundle has it".to_owned())
        })
    })
}

#[test]
fn hubs_and_agents_that_are_a_version_apart_deliver_and_come_to_rest() {
    let fleets: Mutex<Vec<Arc<Later>>> = Mutex::default();
    good(|seed| {
        let mut dice = Dice::new(seed, "versions");
        let web = application("web", 12, &[("east", "50%"), ("west", "50%")]);
        let mut script = Script::of_regions(3, &["east", "west"]).with(web.clone());
        script.lenient = true;
        let names = script.names();
        // Some agents, the hub, or both.
        let agents = names.iter().filter(|name| seed % 3 != 1 && name.ends_with("-2"));
        let hub = (seed % 3 != 0).then(|| HUB.to_owned());
        let later = agents.cloned().chain(hub).map(|name| (name, 0));
        let later = Arc::new(Later(Mutex::new(later.collect())));
        fleets.lock().push(later.clone());
        script.wires = Some(later.wires());
        // Where the definitions are of the later version others meet what they do not know.
        if seed % 2 == 0 {
            for definition in later_definitions() {
                script = script.at(Duration::ZERO, Act::Apply(definition));
            }
            script = script.finally("what is of a later version is kept", has_more());
        }
        // An upgrade ends agents and hubs.
        let (hub, agent) = (after(&mut dice, 0, 30_000), after(&mut dice, 0, 30_000));
        let upgraded = one(&mut dice, &names);
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
    for later in fleets.into_inner() {
        assert!(later.all_wrote(), "who is later wrote nothing that is: {later:?}");
    }
}
