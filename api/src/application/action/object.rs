//! Objects on the hub, and in clusters, as steps name them.

use serde_json::{Value, json};
use std::fmt;

/// An object on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubObject {
    /// `apiVersion`
    pub api_version: String,
    /// `kind`
    pub kind: String,
    /// `metadata.namespace` as written; absent: the application's.
    pub namespace: Option<String>,
    /// `metadata.name`
    pub name: String,
}

impl HubObject {
    /// Group of its kind; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Version of its kind.
    pub fn version(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or(self.api_version.as_str(), |(_, version)| version)
    }
}

impl fmt::Display for HubObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// What a step does with an object in clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterVerb {
    /// `apply-object`: it is applied, and stays.
    Apply,
    /// `read-object`: it is looked at during the run.
    Read,
    /// `delete-object`: it is taken away, where an earlier step applied it.
    Delete,
}

/// An object that is written on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyObject {
    /// Which one.
    pub object: HubObject,
    /// All that is written of it.
    pub value: Value,
}

/// The manifest of which nothing is known but what names it: `apiVersion`, `kind`, `namespace` and `name` of `properties`.
pub(crate) fn identity(properties: &Value) -> Value {
    let mut manifest = json!({"metadata": {}});
    for field in ["apiVersion", "kind"] {
        if let Some(value) = properties.get(field) {
            manifest[field] = value.clone();
        }
    }
    for field in ["name", "namespace"] {
        if let Some(value) = properties.get(field).filter(|value| !value.is_null()) {
            manifest["metadata"][field] = value.clone();
        }
    }
    manifest
}
