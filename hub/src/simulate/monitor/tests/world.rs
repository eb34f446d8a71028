//! A fleet that is written by hand, object by object, so that it can be written wrongly.

use super::super::{
    Monitor, Note,
    promise::Promise,
    who::{Asked, Who, on_behalf_of},
};
use crate::simulate::{HUB, Stores, raw::everywhere};
use bytes::Bytes;
use http::{Method, StatusCode};
use roundhouse_api::{application::validate, names::annotation};
use roundhouse_apiserver::{
    Change, Expect, Key, MemoryStore, Record, Store, StoreLayer, StoreLimits, WriteError,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Servers without anybody.
pub(super) struct World {
    pub(super) monitor: Monitor,
    pub(super) hub: Who,
    /// Whether requests arrive when nobody waits for them any more, a minute after they were sent.
    pub(super) overdue: AtomicBool,
    stores: BTreeMap<String, Arc<dyn Store>>,
}

/// A store that heeds no expectation.
struct Heedless(MemoryStore);

impl StoreLayer for Heedless {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    fn write(&self, key: &Key, _: Expect, change: Change<'_>) -> Result<Record, WriteError> {
        let present = self.0.get(key);
        let present = present.map_or(Expect::Absent, |record| Expect::Revision(record.revision));
        self.0.write(key, present, change)
    }
}

/// An object by server, table, namespace and name.
pub(super) type At<'a> = (&'a str, &'a str, &'a str, &'a str);

pub(super) const C1: &str = "c1";
pub(super) const APPLICATION: At<'_> = (HUB, "applications.core.oam.dev", "default", "web");
pub(super) const REVISION: At<'_> = (HUB, "applicationrevisions.core.oam.dev", "default", "web-v1");
pub(super) const DECISION: At<'_> = (HUB, "decisions.roundhouse.dev", "default", "web-step-0");
pub(super) const BUNDLE: At<'_> = (HUB, "bundles.roundhouse.dev", "cluster-c1", "default.web");
pub(super) const LEASE: At<'_> = (
    HUB,
    "leases.coordination.k8s.io",
    "roundhouse-system",
    "roundhouse-hub",
);
pub(super) const MARK: At<'_> = (HUB, "configmaps", "kube-system", "roundhouse-restored");
pub(super) const LEDGER: At<'_> = (C1, "appliedbundles.roundhouse.dev", "", "h.default.web");
pub(super) const DEPLOYMENT: At<'_> = (C1, "deployments.apps", "default", "web");

pub(super) fn agent() -> Who {
    Who::Agent(C1.into())
}

pub(super) fn other() -> Who {
    Who::Other("scaler".into())
}

impl World {
    pub(super) fn new() -> World {
        World::on(Stores::new(|_| {
            Arc::new(MemoryStore::new(StoreLimits::default()))
        }))
    }

    /// The same on stores that write over whatever is there.
    pub(super) fn heedless() -> World {
        World::on(Stores::new(|_| {
            Arc::new(Heedless(MemoryStore::new(StoreLimits::default())))
        }))
    }

    fn on(stores: Stores) -> World {
        let monitor = Monitor::new();
        let stores = monitor.stores(stores);
        let stores = [HUB, C1, "c2", "c3"].map(|name| (name.to_owned(), stores.open(name)));
        let hub = monitor.hub(HUB);
        World {
            overdue: AtomicBool::new(false),
            monitor,
            hub,
            stores: stores.into(),
        }
    }

    /// One application, delivered to c1: everything as it should be.
    pub(super) fn delivered() -> World {
        let world = World::new();
        let hub = &world.hub;
        world.put(Some(hub), LEASE, &lease(1));
        for cluster in [C1, "c2", "c3"] {
            world.put(
                None,
                (HUB, "clusters.roundhouse.dev", "", cluster),
                &cluster_available(),
            );
        }
        world.put(None, APPLICATION, &application(&running()));
        world.put(Some(hub), REVISION, &revision());
        world.put(Some(hub), DECISION, &decision(&[C1], 2));
        world.put(Some(hub), BUNDLE, &bundle(1));
        world.put(Some(&agent()), LEDGER, &ledger(1));
        world.put(Some(&agent()), DEPLOYMENT, &deployment("nginx:1"));
        world.put(Some(&agent()), BUNDLE, &with_report(bundle(1), 1, "Ready"));
        world.put(Some(hub), APPLICATION, &application(&passed()));
        world
    }

    /// Creates or replaces an object for somebody, and acknowledges it. A hub names the version that it replaces.
    pub(super) fn put(&self, by: Option<&Who>, at: At<'_>, value: &Value) -> u64 {
        let names = by.filter(|who| who.is_hub()).and_then(|_| self.version(at));
        self.put_naming(by, at, value, names)
    }

    /// The version of an object that is there.
    pub(super) fn version(&self, (server, table, namespace, name): At<'_>) -> Option<u64> {
        let key = Key::new(&table.into(), namespace, name);
        self.stores[server].get(&key).map(|record| record.revision)
    }

    /// The same, where the request names the version that it replaces.
    pub(super) fn put_naming(&self, by: Option<&Who>, at: At<'_>, value: &Value, names: Option<u64>) -> u64 {
        let mut body = value.clone();
        if let Some(names) = names {
            body["metadata"]["resourceVersion"] = json!(names.to_string());
        }
        let value = value.clone();
        self.write(by, (at, Method::PUT), &body, |store, key, expect| {
            let mut render = |revision: u64| {
                let mut value = value.clone();
                value["metadata"]["resourceVersion"] = json!(revision.to_string());
                Bytes::from(serde_json::to_vec(&value).unwrap())
            };
            store
                .write(key, expect, Change::Put(&mut render))
                .unwrap()
                .revision
        })
    }

    /// Removes an object for somebody.
    pub(super) fn remove(&self, by: Option<&Who>, at: At<'_>) {
        let version = self.version(at).unwrap_or_default().to_string();
        let body = json!({"preconditions": {"resourceVersion": version}});
        self.write(by, (at, Method::DELETE), &body, |store, key, expect| {
            let mut render = |_| Bytes::from_static(b"{}");
            store
                .write(key, expect, Change::Remove(&mut render))
                .unwrap()
                .revision
        });
    }

    /// Creates or replaces an object for somebody whose request deletes another one.
    pub(super) fn put_with(&self, by: &Who, (of, at): (At<'_>, At<'_>), value: &Value) {
        let asked = self.asked(by, of.0, &Method::DELETE, &path(of), &json!({}));
        on_behalf_of(&asked, || self.put(None, at, value));
        self.monitor.answered(&asked, StatusCode::OK);
    }

    fn write(
        &self,
        by: Option<&Who>,
        ((server, table, namespace, name), method): (At<'_>, Method),
        body: &Value,
        write: impl Fn(&dyn Store, &Key, Expect) -> u64,
    ) -> u64 {
        let store = &self.stores[server];
        let key = Key::new(&table.into(), namespace, name);
        let expect = store
            .get(&key)
            .map_or(Expect::Absent, |r| Expect::Revision(r.revision));
        let Some(by) = by else {
            return write(&**store, &key, expect);
        };
        let asked = self.asked(by, server, &method, &path((server, table, namespace, name)), body);
        let revision = on_behalf_of(&asked, || write(&**store, &key, expect));
        self.monitor.answered(&asked, StatusCode::OK);
        revision
    }

    /// A request that arrives.
    pub(super) fn asked(
        &self,
        by: &Who,
        server: &str,
        method: &Method,
        path: &str,
        body: &Value,
    ) -> Arc<Asked> {
        let uri = path.parse().unwrap();
        let body = Bytes::from(serde_json::to_vec(body).unwrap());
        let mut asked = Asked::new(by.clone(), &server.into(), method, &uri, body);
        asked.overdue = self
            .overdue
            .load(Ordering::Relaxed)
            .then_some(Duration::from_secs(60));
        asked.under_way = asked.overdue.unwrap_or_default();
        let asked = Arc::new(asked);
        self.monitor.asked(&asked);
        asked
    }

    /// The store of a server, behind the monitor.
    pub(super) fn store(&self, server: &str) -> &Arc<dyn Store> {
        &self.stores[server]
    }

    pub(super) fn note(&self, note: &Note) {
        self.monitor.note(note);
    }

    /// Nothing is broken.
    #[track_caller]
    pub(super) fn holds(&self) {
        assert_eq!(self.monitor.report(50), None);
    }

    /// This promise is broken about this object, and nothing else; what was expected and found has these words.
    #[track_caller]
    pub(super) fn breaks(&self, promise: Promise, (server, table, namespace, name): At<'_>, words: &str) {
        let broken = self.monitor.broken();
        let report = self.monitor.report(10).unwrap_or_default();
        assert_eq!(broken.len(), 1, "{report}");
        let object = crate::simulate::trace::Object::new(server, table, namespace, name);
        assert_eq!(
            (broken[0].promise, &broken[0].object),
            (promise, &object),
            "{report}"
        );
        let text = broken[0].to_string();
        assert!(text.contains(words), "{words:?} is not in {text}");
        assert!(
            report.contains(&object.to_string()),
            "the trace has what became of it: {report}"
        );
    }
}

fn path((_, table, namespace, name): At<'_>) -> String {
    let (plural, group) = table.split_once('.').unwrap_or((table, ""));
    let root = match group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/v1"),
    };
    match namespace {
        "" => format!("{root}/{plural}/{name}"),
        namespace => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
    }
}

pub(super) fn lease(epoch: i64) -> Value {
    json!({"metadata": {"name": "roundhouse-hub", "uid": "l", "annotations": {annotation::EPOCH: epoch.to_string()}},
        "spec": {"holderIdentity": "(hub)"}})
}

pub(super) fn cluster_available() -> Value {
    json!({"metadata": {"name": "c"}, "spec": {"accepted": true}, "status": {"conditions": [
        {"type": "Available", "status": "True", "reason": "Heard", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

/// The application with this workflow in its status.
pub(super) fn application(workflow: &Value) -> Value {
    json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "default", "uid": "a", "generation": 1},
        "spec": {"components": []}, "status": {"workflow": workflow}})
}

pub(super) fn workflow(phase: &str) -> Value {
    json!({"appRevision": "web-v1", "generation": 1, "epoch": 1, "run": 1, "steps": [
        {"name": "step-0", "type": "deploy", "phase": phase}]})
}

pub(super) fn running() -> Value {
    workflow("running")
}

pub(super) fn passed() -> Value {
    workflow("succeeded")
}

/// Its revision; the step goes to one cluster at a time.
pub(super) fn revision() -> Value {
    let image = json!({"name": "web", "type": "worker", "properties": {"image": "nginx:1", "replicas": 2}});
    let step =
        json!({"type": "deploy", "properties": {"placement": [{"replicas": "100%"}], "maxParallel": 1}});
    json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "ApplicationRevision",
        "metadata": {"name": "web-v1", "namespace": "default", "uid": "r"},
        "spec": {"applicationName": "web", "revision": 1, "generation": 1, "hash": "h",
            "application": {"components": [image], "workflow": {"steps": [step]}},
            "resourcesConfigMap": {"name": "web-v1"}}})
}

/// A decision that places 2 replicas on these clusters, and gives them to the others beside that.
pub(super) fn decision(clusters: &[&str], placed: u32) -> Value {
    let divided = clusters
        .iter()
        .map(|name| json!({"name": name, "rule": "rule-0", "replicas": 2, "quota": "2"}));
    let others = [C1, "c2", "c3"]
        .into_iter()
        .filter(|name| !clusters.contains(name));
    let others = others.map(|name| json!({"name": name, "rule": "rule-0", "replicas": 2, "duplicate": true}));
    let assigned: Vec<Value> = divided.chain(others).collect();
    json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Decision",
        "metadata": {"name": "web-step-0", "namespace": "default", "uid": "d"},
        "spec": {"applicationRef": {"namespace": "default", "name": "web", "uid": "a"}, "step": "step-0",
            "revision": "web-v1", "epoch": 1, "hash": "h", "satisfied": true, "replicas": 2, "placed": placed,
            "unplaced": 0, "clusterCount": 1, "clusters": clusters, "workloads": [{
                "workload": {"kind": "Deployment", "namespace": "default", "name": "web"}, "replicas": 2,
                "placed": placed, "unplaced": [], "rules": [
                    {"rule": "rule-0", "share": "100%", "quota": "2", "seats": 2, "total": 2}],
                "clusters": assigned}]}})
}

/// The Bundle of c1 at this generation.
pub(super) fn bundle(generation: i64) -> Value {
    json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "default.web", "namespace": "cluster-c1", "uid": "b", "generation": generation,
            "finalizers": ["roundhouse.dev/dispatch"], "labels": {"roundhouse.dev/step": "step-0"}},
        "spec": {"applicationRef": {"namespace": "default", "name": "web", "uid": "a"}, "revision": "web-v1",
            "hash": format!("h{generation}"), "epoch": 1, "workload": {"manifests": rendered()}}})
}

/// A Bundle of another revision, which has nothing.
pub(super) fn emptied_bundle(generation: i64) -> Value {
    let mut bundle = bundle(generation);
    bundle["spec"]["revision"] = json!("web-v0");
    bundle["spec"]["workload"]["manifests"] = json!([]);
    bundle
}

/// What the revision comes to.
fn rendered() -> Vec<Value> {
    let valid = validate(&revision()["spec"]["application"]).unwrap();
    let all = everywhere("default", "web", &valid).into_iter();
    all.map(|one| one.manifest).collect()
}

pub(super) fn with_report(mut bundle: Value, generation: i64, phase: &str) -> Value {
    bundle["status"] =
        json!({"hash": format!("h{generation}"), "observedGeneration": generation, "phase": phase});
    bundle
}

pub(super) fn with_deletion(mut bundle: Value, by: &str) -> Value {
    bundle["spec"]["deletion"] = json!({"revision": "web-v1", "confirmedBy": by});
    bundle
}

pub(super) fn deleting(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    object
}

pub(super) fn ledger(generation: i64) -> Value {
    json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "AppliedBundle",
        "metadata": {"name": "h.default.web", "uid": "ledger"},
        "spec": {"hubId": "h", "bundle": "default.web", "bundleUid": "b", "generation": generation, "epoch": 1,
            "dispatched": true, "state": "Applying", "objects": [{"group": "apps", "version": "v1",
                "kind": "Deployment", "namespace": "default", "name": "web", "outcome": "Intended"}]}})
}

pub(super) fn deployment(image: &str) -> Value {
    json!({"metadata": {"name": "web", "namespace": "default", "uid": "w", "generation": 1,
            "annotations": {annotation::GENERATION: "1"}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "image": image}]}}},
        "status": {"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2}})
}
