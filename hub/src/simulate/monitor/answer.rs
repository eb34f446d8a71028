//! What answers name.

use serde::Deserialize;
use std::borrow::Cow;

/// An object that an answer names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// Its namespace; empty if it has none.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
    /// The version of it that is handed out.
    pub(super) version: Option<u64>,
}

/// All objects that a part of an answer names: an object, a list of some, or events of a watch. A part that is no whole document, or
/// no whole lines, names none.
pub(super) fn named(bytes: &[u8]) -> Vec<Named> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let said = lines.filter_map(|line| serde_json::from_slice::<Said<'_>>(line).ok());
    let mut all = Vec::new();
    for said in said {
        let inner = said.object.as_deref().into_iter().chain(&said.items);
        all.extend(std::iter::once(&said).chain(inner).filter_map(Said::names));
    }
    all
}

/// What an answer says of objects, as far as it names them.
#[derive(Debug, Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    metadata: Option<Metadata<'a>>,
    #[serde(borrow, default)]
    items: Vec<Said<'a>>,
    /// Of an event of a watch.
    #[serde(borrow)]
    object: Option<Box<Said<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
}

impl Said<'_> {
    fn names(&self) -> Option<Named> {
        let metadata = self.metadata.as_ref()?;
        let version = metadata.resource_version.as_ref();
        Some(Named {
            namespace: metadata.namespace.as_deref().unwrap_or_default().to_owned(),
            name: metadata.name.as_deref()?.to_owned(),
            version: version.and_then(|version| version.parse().ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_lists_and_events_name_what_they_hand_out() {
        let name = |namespace: &str, name: &str, version| Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version,
        };
        let object = r#"{"metadata": {"name": "a", "namespace": "n", "resourceVersion": "7"}}"#;
        let list = r#"{"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "b"}}]}"#;
        let event = format!(r#"{{"type": "ADDED", "object": {object}}}"#);
        for (bytes, all) in [
            (object.to_owned(), vec![name("n", "a", Some(7))]),
            (list.to_owned(), vec![name("", "b", None)]),
            (
                format!("{event}\n{event}\n"),
                vec![name("n", "a", Some(7)), name("n", "a", Some(7))],
            ),
            (event[..20].to_owned(), vec![]),
            (String::new(), vec![]),
        ] {
            assert_eq!(named(bytes.as_bytes()), all, "{bytes}");
        }
    }
}
