//! Which objects differ on one cluster, against what was dispatched to it last.

use super::{
    Action, Dispatched,
    change::{self, FieldChange},
};
use crate::{
    dispatch::{Divided, Observed, Wanted, plan::Todo},
    render::{self, JobShare, ReplicaPaths},
};
use roundhouse_api::{bundle::BundleSpec, hash};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What differs on a cluster; equal ones are shared.
pub type Comparison = Arc<[ObjectChange]>;

/// Names an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// Kind.
    pub kind: String,
    /// Group; empty for the core group.
    pub group: String,
    /// Namespace; empty for objects without one.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// One object that differs.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectChange {
    /// Which one.
    pub id: ObjectId,
    /// What becomes of it.
    pub action: Action,
    /// The fields that differ, without the count of replicas; of an object that changes.
    pub fields: Vec<FieldChange>,
    /// Replicas before and after, of a workload that is divided.
    pub replicas: Option<(u32, u32)>,
    /// Stands for the content but for the count: clusters where it is equal get the same.
    pub variant: String,
}

impl ObjectChange {
    /// Whether its pods are restarted.
    pub fn restarts(&self) -> bool {
        self.fields.iter().any(|field| field.restarts)
    }
}

/// Compares clusters; those with the same contents before and after share the work.
#[derive(Debug)]
pub struct Differ<'a> {
    dispatched: &'a Dispatched,
    paths: &'a ReplicaPaths,
    salt: &'a str,
    done: HashMap<Contents, Comparison>,
}

/// Hashes of the parts before, and after, and settings that differ.
type Contents = (Vec<String>, Vec<String>, Vec<String>);

impl<'a> Differ<'a> {
    /// Starts with nothing compared.
    pub fn new(dispatched: &'a Dispatched, paths: &'a ReplicaPaths, salt: &'a str) -> Differ<'a> {
        Differ {
            dispatched,
            paths,
            salt,
            done: HashMap::new(),
        }
    }

    /// What differs on a cluster that holds `held` and is to hold `wanted`.
    pub fn compare(&mut self, held: &[Arc<Observed>], wanted: &[Wanted]) -> Comparison {
        let settings = settings(held, wanted, self.salt);
        let hash_of = |bundle: &Arc<Observed>| {
            let hash = self.dispatched.hash_of(&bundle.namespace, &bundle.name);
            hash.unwrap_or_default().to_owned()
        };
        let mut held: Vec<&Arc<Observed>> = held.iter().filter(|bundle| !bundle.deleting).collect();
        held.sort_by_key(|bundle| super::part_of(&bundle.name));
        let before: Vec<String> = held.into_iter().map(hash_of).collect();
        let after = wanted
            .iter()
            .map(|wanted| wanted.hash().unwrap_or_default().to_owned());
        let described = settings.iter().map(|setting| format!("{setting:?}")).collect();
        let contents = (before, after.collect(), described);
        if let Some(done) = self.done.get(&contents) {
            return done.clone();
        }
        let old = contents.0.iter().flat_map(|hash| self.dispatched.manifests(hash));
        let divided: Option<&Arc<Divided>> = wanted.first().map(|wanted| &wanted.divided);
        let new: Vec<Value> = divided
            .into_iter()
            .flat_map(|divided| &divided.parts)
            .flat_map(|part| &part.manifests)
            .map(hash::without_stamps)
            .collect();
        let mut changes = objects(old, new.iter(), self.paths, self.salt);
        changes.extend(settings);
        let comparison: Comparison = changes.into();
        self.done.insert(contents, comparison.clone());
        comparison
    }
}

/// The objects that differ between two lists of manifests.
fn objects<'v>(
    before: impl Iterator<Item = &'v Value>,
    after: impl Iterator<Item = &'v Value>,
    paths: &ReplicaPaths,
    salt: &str,
) -> Vec<ObjectChange> {
    let (before, after) = (by_id(before), by_id(after));
    let mut ids: Vec<&ObjectId> = before.keys().chain(after.keys()).collect();
    ids.sort();
    ids.dedup();
    let changes = ids.into_iter().filter_map(|id| {
        let (old, new) = (before.get(id).copied(), after.get(id).copied());
        if old == new {
            return None;
        }
        let count =
            |manifest: Option<&Value>| manifest.and_then(|manifest| render::replica_count(manifest, paths));
        let replicas = match (count(old), count(new)) {
            (None, None) => None,
            (old, new) => Some((old.unwrap_or(0), new.unwrap_or(0))),
        };
        let (action, fields, variant) = match (old, new) {
            (Some(old), Some(new)) => {
                let mut fields = change::changes(old, new, salt);
                if replicas.is_some() {
                    let counts = render::count_paths(new, paths);
                    fields.retain(|field| !counts.contains(&pointer(&field.path)));
                }
                let variant = format!("{fields:?}");
                (Action::Change, fields, variant)
            }
            (None, Some(new)) => (Action::Add, Vec::new(), without_count(new, paths)),
            _ => (Action::Destroy, Vec::new(), String::new()),
        };
        Some(ObjectChange {
            id: id.clone(),
            action,
            fields,
            replicas,
            variant: hash::sha256(variant.as_bytes()),
        })
    });
    changes.collect()
}

/// Of two manifests of one object the first counts: the second fails at the agent.
fn by_id<'v>(manifests: impl Iterator<Item = &'v Value>) -> BTreeMap<ObjectId, &'v Value> {
    let mut by_id = BTreeMap::new();
    for (index, manifest) in manifests.enumerate() {
        by_id.entry(id_of(manifest, index)).or_insert(manifest);
    }
    by_id
}

fn id_of(manifest: &Value, index: usize) -> ObjectId {
    let text = |pointer: &str| {
        manifest
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let name = match text("/metadata/name") {
        "" => format!("(manifest {})", index + 1),
        name => name.to_owned(),
    };
    ObjectId {
        kind: text("/kind").to_owned(),
        group: group.to_owned(),
        namespace: text("/metadata/namespace").to_owned(),
        name,
    }
}

/// `spec.replicas` → `/spec/replicas`.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// The content of a manifest but for the count.
fn without_count(manifest: &Value, paths: &ReplicaPaths) -> String {
    let mut manifest = manifest.clone();
    let none = JobShare {
        before: 0,
        replicas: 0,
        of_total: 0,
    };
    render::set_share(&mut manifest, &none, paths);
    hash::of_value(&manifest)
}

/// What differs of the Bundles themselves: how they are applied, not what.
fn settings(held: &[Arc<Observed>], wanted: &[Wanted], salt: &str) -> Vec<ObjectChange> {
    let changed = wanted
        .iter()
        .filter(|wanted| wanted.todo == Todo::Replace)
        .filter_map(|wanted| {
            let existing = held.iter().find(|bundle| bundle.name == wanted.name)?;
            let fields = change::changes(&setting(&existing.spec), &setting(&wanted.spec), salt);
            (!fields.is_empty()).then(|| ObjectChange {
                id: ObjectId {
                    kind: "Bundle".to_owned(),
                    group: roundhouse_api::names::GROUP.to_owned(),
                    namespace: String::new(),
                    name: wanted.name.clone(),
                },
                action: Action::Change,
                variant: hash::sha256(format!("{fields:?}").as_bytes()),
                fields,
                replicas: None,
            })
        });
    changed.collect()
}

/// A Bundle's spec without its manifests and without bookkeeping.
fn setting(spec: &BundleSpec) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        for field in ["workload", "hash", "epoch", "revision"] {
            map.remove(field);
        }
    }
    serde_json::json!({ "spec": value })
}
