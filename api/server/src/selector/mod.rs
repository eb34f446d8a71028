//! Label and field selectors.

mod field;
mod label;

pub(crate) use field::FieldSelector;
pub use label::{LabelSelector, SelectorError};

use std::collections::BTreeMap;

use serde::Deserialize;

/// The labels of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Reads them from stored bytes without decoding the rest of the object.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct View {
            #[serde(default)]
            metadata: Meta,
        }
        #[derive(Deserialize, Default)]
        struct Meta {
            #[serde(default)]
            labels: Option<BTreeMap<String, String>>,
        }
        Self(
            serde_json::from_slice::<View>(bytes)
                .ok()
                .and_then(|v| v.metadata.labels)
                .unwrap_or_default(),
        )
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(iter: T) -> Self {
        Self(iter.into_iter().collect())
    }
}
