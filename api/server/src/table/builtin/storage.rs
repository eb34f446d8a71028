//! What holds data.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, column, number,
    read::{count, get, is, joined, list, or, string},
    wide,
};
use crate::object;

pub(super) const CONFIG_MAP: &[Column] = &[NAME, column("Data", data_count), AGE];

pub(super) const SECRET: &[Column] = &[
    NAME,
    column("Type", |v, _| string(v, &["type"])),
    column("Data", data_count),
    AGE,
];

const ATTRIBUTES_CLASS: Column = column("VolumeAttributesClass", |v, _| {
    or(v, &["spec", "volumeAttributesClassName"], "<unset>")
});
const MODE: Column = wide("VolumeMode", |v, _| or(v, &["spec", "volumeMode"], "<unset>"));

pub(super) const VOLUME: &[Column] = &[
    NAME,
    column("Capacity", |v, _| string(v, &["spec", "capacity", "storage"])),
    column("Access Modes", |v, _| access_modes(v, &["spec", "accessModes"])),
    column("Reclaim Policy", |v, _| {
        string(v, &["spec", "persistentVolumeReclaimPolicy"])
    }),
    column("Status", phase),
    column("Claim", |v, _| {
        let claim = |key: &str| get(v, &["spec", "claimRef", key]);
        match (claim("namespace"), claim("name")) {
            ("", "") => "".into(),
            (namespace, name) => format!("{namespace}/{name}").into(),
        }
    }),
    column("StorageClass", |v, _| string(v, &["spec", "storageClassName"])),
    ATTRIBUTES_CLASS,
    column("Reason", |v, _| string(v, &["status", "reason"])),
    AGE,
    MODE,
];

pub(super) const CLAIM: &[Column] = &[
    NAME,
    column("Status", phase),
    column("Volume", |v, _| string(v, &["spec", "volumeName"])),
    column("Capacity", |v, _| {
        let bound = !get(v, &["spec", "volumeName"]).is_empty();
        if bound {
            string(v, &["status", "capacity", "storage"])
        } else {
            "".into()
        }
    }),
    column("Access Modes", |v, _| {
        let bound = !get(v, &["spec", "volumeName"]).is_empty();
        if bound {
            access_modes(v, &["status", "accessModes"])
        } else {
            "".into()
        }
    }),
    column("StorageClass", |v, _| string(v, &["spec", "storageClassName"])),
    ATTRIBUTES_CLASS,
    AGE,
    MODE,
];

pub(super) const CLASS: &[Column] = &[
    NAME,
    column("Provisioner", |v, _| string(v, &["provisioner"])),
    column("ReclaimPolicy", |v, _| or(v, &["reclaimPolicy"], "Delete")),
    column("VolumeBindingMode", |v, _| {
        or(v, &["volumeBindingMode"], "Immediate")
    }),
    column("AllowVolumeExpansion", |v, _| {
        is(v, &["allowVolumeExpansion"]).into()
    }),
    AGE,
];

pub(super) const ATTACHMENT: &[Column] = &[
    NAME,
    column("Attacher", |v, _| string(v, &["spec", "attacher"])),
    column("PV", |v, _| {
        string(v, &["spec", "source", "persistentVolumeName"])
    }),
    column("Node", |v, _| string(v, &["spec", "nodeName"])),
    column("Attached", |v, _| is(v, &["status", "attached"]).into()),
    AGE,
];

pub(super) const CSI_NODE: &[Column] = &[
    NAME,
    number("Drivers", |v, _| count(v, &["spec", "drivers"])),
    AGE,
];

fn data_count(value: &Value, _: Timestamp) -> Value {
    let size = |key: &str| {
        let map = value.get(key).and_then(Value::as_object);
        map.map_or(0, serde_json::Map::len)
    };
    (size("data") + size("binaryData")).into()
}

fn phase(value: &Value, _: Timestamp) -> Value {
    if object::is_deleting(value) {
        "Terminating".into()
    } else {
        string(value, &["status", "phase"])
    }
}

fn access_modes(value: &Value, path: &[&str]) -> Value {
    let short = |mode: &Value| match mode.as_str()? {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    };
    joined(list(value, path).iter().filter_map(short), "")
}
