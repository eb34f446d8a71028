//! Objects on the hub as steps name them.

use serde_json::Value;
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

/// An object that is written on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyObject {
    /// Which one.
    pub object: HubObject,
    /// All that is written of it.
    pub value: Value,
}
