//! Volumes and where they are mounted, in three forms that mean the same:
//! Kubernetes' own (`volumes` with `volumeMounts` as a list), KubeVela's (`volumeMounts` as a map by type), and
//! KubeVela's older one (`volumes` whose entries have a `mountPath` and a `type`).

use super::{
    container::checked,
    kubernetes,
    node::{Node, Object, Shape},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const BY_TYPE: Shape = Shape {
    known: &[&["pvc", "configMap", "secret", "emptyDir", "hostPath"]],
    refused: &[],
};
const PVC: Shape = shape(&[&["name", "mountPath", "subPath", "type", "claimName"]]);
const CONFIG_MAP: Shape = shape(&[&[
    "name",
    "mountPath",
    "subPath",
    "type",
    "cmName",
    "defaultMode",
    "items",
]]);
const SECRET: Shape = shape(&[&[
    "name",
    "mountPath",
    "subPath",
    "type",
    "secretName",
    "defaultMode",
    "items",
]]);
const EMPTY_DIR: Shape = shape(&[&["name", "mountPath", "subPath", "type", "medium"]]);
const HOST_PATH: Shape = shape(&[&["name", "mountPath", "subPath", "type", "path"]]);
const ITEM: Shape = shape(&[&["key", "path", "mode"]]);

const fn shape(known: &'static [&'static [&'static str]]) -> Shape {
    Shape { known, refused: &[] }
}

/// KubeVela's volume types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VolumeType {
    Pvc,
    ConfigMap,
    Secret,
    EmptyDir,
    HostPath,
}

const TYPES: [(&str, VolumeType); 5] = [
    ("pvc", VolumeType::Pvc),
    ("configMap", VolumeType::ConfigMap),
    ("secret", VolumeType::Secret),
    ("emptyDir", VolumeType::EmptyDir),
    ("hostPath", VolumeType::HostPath),
];

/// Reads `volumes` and `volumeMounts` into Kubernetes' `Volume`s and `VolumeMount`s.
pub(super) fn read(object: &Object<'_>) -> (Vec<Value>, Vec<Value>) {
    let mounts = object.optional("volumeMounts");
    let volumes = object.list("volumes");
    let is_old = |node: &Node<'_>| node.value.get("mountPath").is_some();
    let (volumes, mounts) = match &mounts {
        Some(by_type) if by_type.value.is_object() => {
            if let Some(node) = object.optional("volumes") {
                node.refuse("cannot be used beside volumeMounts by type: move its entries there");
            }
            mounts_by_type(by_type)
        }
        None if volumes.iter().any(is_old) => collect(volumes.iter().filter_map(|node| {
            let type_ = node.value.get("type").map(|value| node.child("type", value));
            match type_ {
                None => volume(node, VolumeType::EmptyDir),
                Some(type_) => volume(node, type_.word(&TYPES)?),
            }
        })),
        _ => (
            checked(&volumes, &kubernetes::VOLUME),
            checked(&object.list("volumeMounts"), &kubernetes::VOLUME_MOUNT),
        ),
    };
    check_names(object, &volumes, &mounts);
    (volumes, mounts)
}

fn mounts_by_type(node: &Node<'_>) -> (Vec<Value>, Vec<Value>) {
    let Some(object) = node.object(&BY_TYPE) else {
        return (Vec::new(), Vec::new());
    };
    let entries = TYPES
        .iter()
        .flat_map(|(name, type_)| object.list(name).into_iter().map(|entry| (entry, *type_)));
    collect(entries.filter_map(|(entry, type_)| volume(&entry, type_)))
}

/// A volume that is mounted in several places is listed with each of them: it becomes one volume.
fn collect(pairs: impl Iterator<Item = (Value, Value)>) -> (Vec<Value>, Vec<Value>) {
    let (mut volumes, mut mounts) = (Vec::<Value>::new(), Vec::new());
    for (volume, mount) in pairs {
        if !volumes.contains(&volume) {
            volumes.push(volume);
        }
        mounts.push(mount);
    }
    (volumes, mounts)
}

/// One entry of KubeVela's forms: the volume and its mount.
fn volume(node: &Node<'_>, type_: VolumeType) -> Option<(Value, Value)> {
    let object = node.object(match type_ {
        VolumeType::Pvc => &PVC,
        VolumeType::ConfigMap => &CONFIG_MAP,
        VolumeType::Secret => &SECRET,
        VolumeType::EmptyDir => &EMPTY_DIR,
        VolumeType::HostPath => &HOST_PATH,
    })?;
    let text = |name: &str| object.required(name, "set it").and_then(|node| node.text());
    let source = match type_ {
        VolumeType::Pvc => {
            text("claimName").map(|name| json!({"persistentVolumeClaim": {"claimName": name}}))
        }
        VolumeType::ConfigMap => {
            text("cmName").map(|name| json!({"configMap": keyed(&object, "name", name)}))
        }
        VolumeType::Secret => {
            text("secretName").map(|name| json!({"secret": keyed(&object, "secretName", name)}))
        }
        VolumeType::EmptyDir => {
            let medium = object
                .optional("medium")
                .and_then(|node| node.word(&[("", ""), ("Memory", "Memory")]));
            Some(match medium {
                Some("Memory") => json!({"emptyDir": {"medium": "Memory"}}),
                _ => json!({"emptyDir": {}}),
            })
        }
        VolumeType::HostPath => text("path").map(|path| json!({"hostPath": {"path": path}})),
    };
    let (name, mount_path) = (text("name"), text("mountPath"));
    let sub_path = object.optional("subPath").and_then(|node| node.string());
    let (mut volume, name, mount_path) = (source?, name?, mount_path?);
    volume.as_object_mut()?.insert("name".to_owned(), json!(name));
    let mut mount = json!({"name": name, "mountPath": mount_path});
    if let Some(sub_path) = sub_path {
        mount
            .as_object_mut()?
            .insert("subPath".to_owned(), json!(sub_path));
    }
    Some((volume, mount))
}

/// A ConfigMap or Secret as a volume; the modes default to KubeVela's 420 (0644) and 511 (0777).
fn keyed(object: &Object<'_>, name_field: &str, name: &str) -> Value {
    let mode = |object: &Object<'_>, field: &str, default: u32| {
        object
            .optional(field)
            .and_then(|node| node.integer(0, 0o777))
            .unwrap_or(default)
    };
    let mut source = Map::new();
    source.insert(name_field.to_owned(), json!(name));
    source.insert("defaultMode".to_owned(), json!(mode(object, "defaultMode", 420)));
    let items: Vec<Value> = object
        .list("items")
        .iter()
        .filter_map(|node| {
            let item = node.object(&ITEM)?;
            let text = |name: &str| item.required(name, "set it").and_then(|node| node.text());
            let (key, path) = (text("key"), text("path"));
            Some(json!({"key": key?, "path": path?, "mode": mode(&item, "mode", 511)}))
        })
        .collect();
    if !items.is_empty() {
        source.insert("items".to_owned(), Value::Array(items));
    }
    Value::Object(source)
}

fn check_names(object: &Object<'_>, volumes: &[Value], mounts: &[Value]) {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut names = BTreeSet::new();
    for volume in volumes.iter().filter_map(name) {
        if names.contains(&volume) {
            object.refuse(format!(
                "volume {volume:?} is defined twice, differently: give each its own name"
            ));
        }
        names.insert(volume);
    }
    for mount in mounts.iter().filter_map(name) {
        if !names.contains(&mount) {
            object.refuse(format!(
                "volumeMounts names volume {mount:?}, which is not in volumes"
            ));
        }
    }
}
