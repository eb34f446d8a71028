//! What another thread does between a look and the write that follows from it, or between a write and what follows.

mod definitions;
mod owners;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    Server,
    kinds::Resource,
    object::{self, meta},
    request::Propagation,
    server::Core,
    store::{Change, Expect, Key, MemoryStore, Record, Store, StoreLayer, StoreLimits, WriteError},
    verbs::{self, DeleteOptions, Intent, Part},
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
}
use When::{After, Before};

/// What another thread does, once, at a write of an object.
struct Meanwhile {
    when: When,
    key: Key,
    act: Box<dyn FnOnce() + Send>,
}

/// A store in whose writes another thread comes between.
struct Interleaved {
    inner: MemoryStore,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Interleaved {
    fn let_act(&self, when: When, key: &Key) {
        let due = self
            .meanwhile
            .lock()
            .take_if(|meanwhile| meanwhile.when == when && meanwhile.key == *key);
        if let Some(meanwhile) = due {
            (meanwhile.act)();
        }
    }
}

impl StoreLayer for Interleaved {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    fn write(&self, key: &Key, expect: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        self.let_act(Before, key);
        let written = self.inner.write(key, expect, change);
        self.let_act(After, key);
        written
    }
}

struct World {
    core: Arc<Core>,
    store: Arc<Interleaved>,
    seconds: Arc<AtomicI64>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(Interleaved {
            inner: MemoryStore::new(StoreLimits::default()),
            meanwhile: Mutex::default(),
        });
        let seconds = Arc::new(AtomicI64::new(1_767_225_600));
        let clock = seconds.clone();
        let clock = move || jiff::Timestamp::from_second(clock.load(Ordering::Relaxed)).unwrap();
        let server = Server::builder()
            .seed(1)
            .store(store.clone())
            .clock(Arc::new(clock))
            .build();
        let core = server.core;
        Self { core, store, seconds }
    }

    /// At the next write of the object, another thread does this.
    fn meanwhile(&self, when: When, object: &Value, act: impl FnOnce(&Core) + Send + 'static) {
        let core = self.core.clone();
        let key = place(&core, object).1;
        let act = Box::new(move || act(&core));
        *self.store.meanwhile.lock() = Some(Meanwhile { when, key, act });
    }

    /// Everything that follows was done, and the other thread had its turn.
    fn settle(&self) {
        self.core.follow_up();
        assert!(self.store.meanwhile.lock().is_none(), "nobody came between");
    }

    fn there(&self, object: &Value) -> bool {
        self.core.store.get(&place(&self.core, object).1).is_some()
    }
}

fn place(core: &Core, object: &Value) -> (Arc<Resource>, Key) {
    let text = |key: &str| object[key].as_str().unwrap();
    let resource = core.registry.by_kind(text("apiVersion"), text("kind")).unwrap();
    let key = Key::new(&resource.table, meta(object, "namespace"), meta(object, "name"));
    (resource, key)
}

fn create(core: &Core, object: &Value) -> Value {
    let (resource, key) = place(core, object);
    let intent = Intent::of_controller(Part::Main);
    let stored = verbs::store_new(core, &resource, &key.namespace, object, &intent);
    stored.unwrap().value
}

/// Replaces an object, as its state of now with these references to owners and these fields.
fn put(core: &Core, object: &Value, owners: &[&Value], fields: &Value) {
    let (resource, key) = place(core, object);
    let record = core.store.get(&key).unwrap();
    let old = verbs::decode_stored(&resource, &record.bytes);
    let mut new = old.clone();
    new["metadata"]["ownerReferences"] = owners.iter().map(|owner| reference(owner)).collect();
    let fields = fields.as_object().unwrap().clone();
    new.as_object_mut().unwrap().extend(fields);
    let intent = Intent::of_controller(Part::Main);
    verbs::store_update(core, &resource, &key, &record, old, new, &intent).unwrap();
}

fn delete(core: &Core, object: &Value, propagation: Propagation) {
    let (resource, key) = place(core, object);
    let options = DeleteOptions {
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    verbs::remove(core, &resource, &key, &options).unwrap();
}

fn reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta(owner, "name"), "uid": meta(owner, "uid"),
        "blockOwnerDeletion": true})
}

fn map(namespace: &str, name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<Value> = owners.iter().map(|owner| reference(owner)).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners}})
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
}

/// A namespace with something that somebody else holds.
fn held_namespace(world: &World) -> Value {
    create(&world.core, &namespace());
    let mut held = map("n", "held", &[]);
    held["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    create(&world.core, &held)
}

/// A namespace goes between the look at it and the write of an object in it.
fn created_too_late(world: &World) -> Value {
    create(&world.core, &namespace());
    let late = map("n", "late", &[]);
    world.meanwhile(Before, &late, |core| {
        delete(core, &namespace(), Propagation::Background);
        core.follow_up();
    });
    create(&world.core, &late)
}

#[test]
fn what_comes_into_a_namespace_too_late_goes() {
    let world = World::new();
    let late = created_too_late(&world);
    world.settle();
    assert!(!world.there(&namespace()) && !world.there(&late));
}

#[test]
fn what_comes_into_a_terminating_namespace_goes() {
    let world = World::new();
    let held = held_namespace(&world);
    let late = map("n", "late", &[]);
    world.meanwhile(Before, &late, |core| {
        delete(core, &namespace(), Propagation::Background);
        core.follow_up();
    });
    create(&world.core, &late);
    world.settle();
    assert!(world.there(&namespace()) && world.there(&held) && !world.there(&late));
}

#[test]
fn what_came_into_a_namespace_too_late_goes_after_a_restart() {
    let world = World::new();
    let late = created_too_late(&world);
    assert!(world.there(&late), "the process ends before it is followed up");
    let core = Server::builder().store(world.store).build().core;
    assert!(core.store.get(&place(&core, &late).1).is_none());
}

#[test]
fn what_is_in_a_namespace_that_was_made_again_stays() {
    let world = World::new();
    let late = created_too_late(&world);
    create(&world.core, &namespace());
    let new = create(&world.core, &map("n", "new", &[]));
    world.settle();
    assert!(world.there(&late) && world.there(&new));
}

#[test]
fn what_was_made_again_in_a_namespace_that_was_made_again_stays() {
    let world = World::new();
    let late = created_too_late(&world);
    let again = late.clone();
    world.meanwhile(Before, &late, move |core| {
        delete(core, &again, Propagation::Background);
        create(core, &namespace());
        create(core, &map("n", "late", &[]));
    });
    world.settle();
    assert!(world.there(&late));
}

#[test]
fn a_namespace_that_is_made_again_while_it_is_finished_stays_whole() {
    let world = World::new();
    let held = held_namespace(&world);
    delete(&world.core, &namespace(), Propagation::Background);
    world.settle();
    let key = place(&world.core, &held).1;
    world.meanwhile(Before, &namespace(), |core| {
        core.finish_namespace("n");
        create(core, &namespace());
    });
    world.core.drop_finalizer(&key, "x.dev/hold");
    world.settle();
    let key = place(&world.core, &namespace()).1;
    let stored = object::decode(&world.core.store.get(&key).unwrap().bytes);
    assert_eq!(stored["spec"]["finalizers"], json!(["kubernetes"]));
}

#[test]
fn an_event_that_is_written_while_it_expires_stays() {
    let world = World::new();
    let event = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"namespace": "default", "name": name},
            "involvedObject": {"namespace": "default"}, "reason": "R", "type": "Normal"})
    };
    let (old, repeated) = (event("old"), event("repeated"));
    for event in [&old, &repeated] {
        create(&world.core, event);
    }
    world.settle();
    world.seconds.fetch_add(7_200, Ordering::Relaxed);
    let same = repeated.clone();
    world.meanwhile(Before, &repeated, move |core| {
        put(
            core,
            &same,
            &[],
            &json!({"count": 2, "lastTimestamp": "2026-01-01T02:00:00Z"}),
        );
    });
    create(&world.core, &event("new"));
    world.settle();
    assert!(!world.there(&old) && world.there(&repeated));
}
