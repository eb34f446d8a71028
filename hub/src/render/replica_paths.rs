//! Where the count of kinds lives that are not built in, from ComponentDefinitions.

use roundhouse_api::definition::{ComponentDefinitionSpec, SYSTEM_NAMESPACE};
use std::collections::BTreeMap;

/// (group, kind) -> fields that lead to the count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicaPaths(BTreeMap<(String, String), Vec<String>>);

impl ReplicaPaths {
    /// What definitions, given with namespace and name, say for the applications of a namespace: its own go before those
    /// of `vela-system`, and of two for one kind the first by name counts. A path that is none is passed over: the kind
    /// is then not divided.
    pub fn of<'a>(
        namespace: &str,
        definitions: impl IntoIterator<Item = (&'a (String, String), &'a ComponentDefinitionSpec)>,
    ) -> Self {
        let mut of: Vec<_> = definitions
            .into_iter()
            .filter(|((of, _), _)| of == namespace || of == SYSTEM_NAMESPACE)
            .collect();
        of.sort_by_key(|((of, name), _)| (of != namespace, name));
        let mut paths = BTreeMap::new();
        for (_, spec) in of {
            let (Some(kind), Some(path)) = (&spec.workload.definition, &spec.replicas_path) else {
                continue;
            };
            let fields: Vec<String> = path.split('.').map(str::to_owned).collect();
            if fields.iter().any(String::is_empty) {
                continue;
            }
            let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
            let key = (group.to_owned(), kind.kind.clone());
            paths.entry(key).or_insert(fields);
        }
        ReplicaPaths(paths)
    }

    /// The fields that lead to the count of a kind.
    pub fn get(&self, group: &str, kind: &str) -> Option<&[String]> {
        if self.0.is_empty() {
            return None;
        }
        let fields = self.0.get(&(group.to_owned(), kind.to_owned()))?;
        Some(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definitions_of_the_namespace_go_before_those_of_all() {
        let definition = |namespace: &str, name: &str, kind: &str, path: serde_json::Value| {
            let spec = json!({"workload": {"definition": {"apiVersion": "games.io/v1", "kind": kind}}, "replicasPath": path});
            (
                (namespace.to_owned(), name.to_owned()),
                serde_json::from_value::<ComponentDefinitionSpec>(spec).unwrap(),
            )
        };
        let all = [
            definition("vela-system", "a", "Server", json!("spec.count")),
            definition("vela-system", "b", "Lobby", json!("spec.size")),
            definition("shop", "b", "Server", json!("spec.replicas")),
            definition("shop", "c", "Server", json!("spec.other")),
            definition("other", "a", "Lobby", json!("spec.wrong")),
            definition("shop", "d", "Broken", json!("spec..replicas")),
            definition("shop", "e", "Whole", json!(null)),
        ];
        let paths = ReplicaPaths::of("shop", all.iter().map(|(key, spec)| (key, spec)));
        let shown = |kind: &str| paths.get("games.io", kind).map(|fields| fields.join("."));
        assert_eq!(shown("Server").as_deref(), Some("spec.replicas"));
        assert_eq!(shown("Lobby").as_deref(), Some("spec.size"));
        assert_eq!(
            (shown("Broken"), shown("Whole"), paths.get("", "Server")),
            (None, None, None)
        );
    }

    #[test]
    fn a_definition_without_a_kind_says_nothing() {
        let spec = json!({"workload": {"type": "autodetects.core.oam.dev"}, "schematic": {"cue": {"template": ""}}, "replicasPath": "spec.replicas"});
        let spec: ComponentDefinitionSpec = serde_json::from_value(spec).unwrap();
        let key = ("shop".to_owned(), "a".to_owned());
        assert_eq!(ReplicaPaths::of("shop", [(&key, &spec)]), ReplicaPaths::default());
    }
}
