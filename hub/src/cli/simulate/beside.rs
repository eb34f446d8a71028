//! What the files of a simulation may hold beside what can be planned: objects of the hub that steps look at, and kinds of the
//! clusters.

use crate::cli::{
    Failure,
    documents::{Document, Place},
    metadata,
    proposals::{self, Proposed},
};
use roundhouse_api::names::check_dns_label;
use serde_json::Value;
use std::collections::BTreeMap;

/// Most characters of a DNS label, and of any name (RFC 1123).
const MAX_LABEL: usize = 63;
const MAX_NAME: usize = 253;

/// What an object is, in the order in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Namespace,
    ConfigMap,
    Secret,
    /// Every cluster gets it.
    CustomResourceDefinition,
}

impl Kind {
    fn of(api_version: &str, kind: &str) -> Option<Kind> {
        match (api_version, kind) {
            ("v1", "Namespace") => Some(Kind::Namespace),
            ("v1", "ConfigMap") => Some(Kind::ConfigMap),
            ("v1", "Secret") => Some(Kind::Secret),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => Some(Kind::CustomResourceDefinition),
            _ => None,
        }
    }

    fn has_namespace(self) -> bool {
        matches!(self, Kind::ConfigMap | Kind::Secret)
    }

    /// Whether an object of this kind can have the name: a DNS label (RFC 1123) for a namespace, or several with dots between them,
    /// of any length, as Kubernetes takes them.
    fn names(self, name: &str) -> Result<(), String> {
        let check = |label: &str, most| check_dns_label("metadata.name", label, most);
        let checked = match self {
            Kind::Namespace => check(name, MAX_LABEL),
            _ if name.len() > MAX_NAME => {
                return Err(format!("its metadata.name has more than {MAX_NAME} characters"));
            }
            _ => name.split('.').try_for_each(|label| check(label, MAX_NAME)),
        };
        checked.map_err(|error| error.to_string())
    }
}

/// An object as it was written.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) kind: Kind,
    /// Empty if it has none.
    pub(super) namespace: String,
    pub(super) name: String,
    /// The whole object, with its namespace, without status.
    pub(super) object: Value,
}

/// What files of a simulation hold.
#[derive(Debug)]
pub(super) struct Files {
    /// What can be planned.
    pub(super) proposed: Vec<Proposed>,
    /// The others, in the order in which they are made.
    pub(super) others: Vec<Other>,
}

impl Files {
    /// From their documents.
    ///
    /// # Errors
    /// As [`proposals::of_documents`]; one of the others has no name, is there twice, or is in another namespace than is asked for.
    pub(super) fn of(documents: Vec<Document>, namespace: Option<&str>) -> Result<Files, Failure> {
        let (planned, others) = split(documents, namespace)?;
        let proposed = proposals::of_documents(planned, namespace)?;
        Ok(Files { proposed, others })
    }
}

/// What files may hold.
const TAKEN: &str = "Application or ComponentDefinition of core.oam.dev/v1beta1, Placement of roundhouse.dev/v1alpha1, \
     ConfigMap, Secret or Namespace of v1, CustomResourceDefinition of apiextensions.k8s.io/v1; what clusters \
     are to have, an Application brings";

/// The documents that can be planned, and the others, in the order in which they are made. What else is wrong with these their API
/// servers say.
///
/// # Errors
/// A document is neither; one of the others has no name, is there twice, or is in another namespace than is asked for.
fn split(documents: Vec<Document>, namespace: Option<&str>) -> Result<(Vec<Document>, Vec<Other>), Failure> {
    let mut planned = Vec::new();
    let mut others: BTreeMap<(Kind, String, String), (Place, Other)> = BTreeMap::new();
    for document in documents {
        let text = |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str);
        let (Some(version), Some(word)) = (text("/apiVersion"), text("/kind")) else {
            let what = format!("{} is nothing that can be simulated", document.place);
            return Err(Failure::new("E-INPUT", what)
                .because("it has no apiVersion, or no kind")
                .advise(TAKEN));
        };
        let Some(kind) = Kind::of(version, word) else {
            if proposals::Kind::of(version, word).is_none() {
                let what = format!("{} is nothing that can be simulated", document.place);
                let advice = match (version, word) {
                    ("roundhouse.dev/v1alpha1", "Cluster") => {
                        "--inventory with this file: it says which clusters there are"
                    }
                    _ => TAKEN,
                };
                return Err(Failure::new("E-INPUT", what)
                    .because(format!("it is a {word} of {version}"))
                    .advise(advice));
            }
            planned.push(document);
            continue;
        };
        let word = word.to_owned();
        let Document { value, place } = document;
        let other = other(kind, value, namespace).map_err(|why| {
            Failure::new("E-INPUT", format!("{place}: the {word} is not understood"))
                .because(why)
                .advise("mend what is named; nothing was simulated")
        })?;
        let key = (kind, other.namespace.clone(), other.name.clone());
        if let Some((former, _)) = others.get(&key) {
            let what = format!("{place}: {word} {} is there twice", other.name);
            return Err(Failure::new("E-INPUT", what)
                .because(format!("it is at {former} too"))
                .advise("one document for each object"));
        }
        others.insert(key, (place, other));
    }
    Ok((planned, others.into_values().map(|(_, other)| other).collect()))
}

fn other(kind: Kind, mut object: Value, namespace: Option<&str>) -> Result<Other, String> {
    metadata::is_legal(&object)?;
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.ok_or("it has no metadata.name: give it one")?.to_owned();
    kind.names(&name)?;
    let namespace = match kind.has_namespace() {
        true => proposals::namespace_of(&object, namespace).map_err(|misplaced| misplaced.to_string())?,
        false => String::new(),
    };
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata.filter(|_| kind.has_namespace()) {
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
    }
    Ok(Other {
        kind,
        namespace,
        name,
        object,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::documents;

    fn of(text: &str, namespace: Option<&str>) -> Result<(usize, Vec<String>), String> {
        let documents = documents::split("all.yaml", text).unwrap();
        let (planned, others) = split(documents, namespace).map_err(|failure| failure.to_string())?;
        let others = others
            .iter()
            .map(|one| format!("{:?} {}/{} {}", one.kind, one.namespace, one.name, one.object));
        Ok((planned.len(), others.collect()))
    }

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gate}\n";

    #[test]
    fn what_steps_look_at_is_told_from_what_is_planned() {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.b}\nstatus: {}\n";
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
        let application = "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {name: web}\n";
        let text = [crd, MAP, application, namespace].join("---\n");
        assert_eq!(
            of(&text, Some("shop")),
            Ok((
                1,
                vec![
                    r#"Namespace /shop {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}"#.to_owned(),
                    r#"ConfigMap shop/gate {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"gate","namespace":"shop"}}"#.to_owned(),
                    r#"CustomResourceDefinition /as.b {"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"as.b"}}"#.to_owned(),
                ]
            ))
        );
    }

    #[test]
    fn what_is_refused_is_named_with_its_place() {
        for (text, expected) in [
            (
                MAP.replace("{name: gate}", "{}"),
                "error: all.yaml, document 1 (line 1): the ConfigMap is not understood [E-INPUT]\n\
                 cause: it has no metadata.name: give it one\ntry:   mend what is named",
            ),
            (
                MAP.replace("{name: gate}", "{name: 7}"),
                "error: all.yaml, document 1 (line 1): the ConfigMap is not understood [E-INPUT]\n\
                 cause: metadata.name is 7, not a text: put it in quotes\ntry:   mend what is named",
            ),
            (
                MAP.replace("{name: gate}", "{name: gate, labels: {a b: c}}"),
                "error: all.yaml, document 1 (line 1): the ConfigMap is not understood [E-INPUT]\n\
                 cause: metadata.labels: ",
            ),
            (
                MAP.replace("gate", "Gate_1"),
                "error: all.yaml, document 1 (line 1): the ConfigMap is not understood [E-INPUT]\n\
                 cause: metadata.name \"Gate_1\"",
            ),
            (
                MAP.replace("{name: gate}", "{name: gate, namespace: a}"),
                "error: all.yaml, document 1 (line 1): the ConfigMap is not understood [E-INPUT]\n\
                 cause: its metadata.namespace is a, and --namespace says b: leave one of them out",
            ),
            (
                format!("{MAP}---\n{MAP}"),
                "error: all.yaml, document 2 (line 5): ConfigMap gate is there twice [E-INPUT]\n\
                 cause: it is at all.yaml, document 1 (line 1) too",
            ),
            (
                "apiVersion: roundhouse.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c1}\n".to_owned(),
                "error: all.yaml, document 1 (line 1) is nothing that can be simulated [E-INPUT]\n\
                 cause: it is a Cluster of roundhouse.dev/v1alpha1\ntry:   --inventory with this file",
            ),
            (
                "kind: Application\n".to_owned(),
                "error: all.yaml, document 1 (line 1) is nothing that can be simulated [E-INPUT]\n\
                 cause: it has no apiVersion, or no kind\ntry:   Application or ",
            ),
            (
                MAP.replace("ConfigMap", "Service"),
                "error: all.yaml, document 1 (line 1) is nothing that can be simulated [E-INPUT]\ncause: it is a Service of v1\n\
                 try:   Application or ComponentDefinition of core.oam.dev/v1beta1, ",
            ),
        ] {
            let refused = of(&text, Some("b")).unwrap_err();
            assert!(refused.starts_with(expected), "{refused}\n is not\n{expected}");
        }
    }
}
