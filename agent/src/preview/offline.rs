//! The same without a member: against objects that are given.

use crate::apply::target::target;
use crate::kinds::Kind;
use crate::object::{ObjectKey, split_api_version, text};
use crate::preview::part::{Look, Looked, open};
use crate::preview::{Part, Preview, Setting};
use kube::core::ApiResource;
use roundhouse_api::ledger::AppliedBundleSpec;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the next pass would do in a cluster that has exactly these objects, and this ledger of the bundle.
///
/// Pure. The plurals of kinds, by which `manifestConfigs` name objects, are formed by rule; an object with a namespace
/// is taken for one of a kind that has namespaces.
pub fn offline(part: Part, ledger: &AppliedBundleSpec, setting: &Setting, objects: &[Value]) -> Preview {
    let there: BTreeMap<ObjectKey, &Value> = objects
        .iter()
        .filter_map(|object| Some((key(object)?, object)))
        .collect();
    let part = open(part, ledger, setting);
    let manifests = part.decoded.manifests.iter();
    let looked: Vec<Looked> = manifests
        .map(|manifest| {
            let kind = kind(&manifest.key, &manifest.version);
            match target(manifest, &kind) {
                Ok(target) => {
                    let live = there.get(&target).map(|live| (*live).clone());
                    Ok(Look {
                        kind: Arc::new(kind),
                        target,
                        live,
                    })
                }
                Err(outcome) => Err((manifest.key.clone(), outcome)),
            }
        })
        .collect();
    let surplus = part.surplus(BTreeSet::new(), &looked);
    let mut objects = part.manifests(looked, &setting.salt);
    let leaving = surplus.into_iter();
    objects.extend(leaving.map(|(key, entry)| {
        let look = Look {
            kind: Arc::new(kind(key, &entry.version)),
            target: key.clone(),
            live: there.get(key).map(|live| (*live).clone()),
        };
        part.leaving(key, entry, Ok(Some(look)))
    }));
    Preview {
        objects,
        held: part.held.into_iter().collect(),
    }
}

fn kind(key: &ObjectKey, version: &str) -> Kind {
    Kind {
        resource: ApiResource::from_gvk(&key.gvk(version)),
        namespaced: !key.namespace.is_empty(),
    }
}

fn key(object: &Value) -> Option<ObjectKey> {
    let (group, _) = split_api_version(text(object, "/apiVersion")?)?;
    Some(ObjectKey {
        group: group.to_owned(),
        kind: text(object, "/kind")?.to_owned(),
        namespace: text(object, "/metadata/namespace").unwrap_or_default().to_owned(),
        name: text(object, "/metadata/name")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preview::Action;
    use roundhouse_api::bundle::{ApplyOnce, BundleSpec, ManifestsTemplate};
    use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};
    use serde_json::json;

    fn config_map(name: &str, value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "x"}, "data": {"k": value}})
    }

    fn part(manifests: Vec<Value>) -> Part {
        Part {
            name: "b".into(),
            uid: "u".into(),
            generation: 1,
            deleting: false,
            applied: false,
            spec: BundleSpec {
                workload: ManifestsTemplate { manifests },
                ..BundleSpec::default()
            },
        }
    }

    fn setting() -> Setting {
        Setting {
            hub_id: "h".into(),
            apply_once: ApplyOnce::Never,
            salt: [0; 16],
        }
    }

    fn marked(mut object: Value, uid: &str) -> Value {
        object["metadata"]["uid"] = json!(uid);
        object["metadata"]["annotations"] = json!({"roundhouse.dev/owned-by": "h/b"});
        object
    }

    fn ledger(names: &[(&str, &str)]) -> AppliedBundleSpec {
        let entry = |(name, uid): &(&str, &str)| LedgerEntry {
            kind: "ConfigMap".into(),
            namespace: "x".into(),
            name: (*name).into(),
            uid: Some((*uid).into()),
            outcome: LedgerOutcome::Applied,
            ..LedgerEntry::default()
        };
        AppliedBundleSpec {
            objects: names.iter().map(entry).collect(),
            ..AppliedBundleSpec::default()
        }
    }

    fn actions(preview: &Preview) -> Vec<(&str, Action, &str)> {
        let objects = preview.objects.iter();
        objects
            .map(|object| (object.name.as_str(), object.action, object.reason.as_str()))
            .collect()
    }

    #[test]
    fn one_of_each() {
        let mut bundle = part(vec![
            config_map("a", "1"),
            json!(7),
            config_map("b", "1"),
            config_map("foreign", "1"),
        ]);
        let mut foreign = config_map("foreign", "1");
        foreign["metadata"]["annotations"] = json!({"roundhouse.dev/owned-by": "h/other"});
        let objects = [
            marked(config_map("a", "2"), "1"),
            foreign,
            marked(config_map("old", "1"), "2"),
            marked(config_map("again", "1"), "9"),
        ];
        let ledger = ledger(&[("a", "1"), ("old", "2"), ("again", "3"), ("gone", "4")]);
        let preview = offline(bundle.clone(), &ledger, &setting(), &objects);
        // The manifest that does not decode may have been meant as any of the others: nothing is pruned.
        let expected = [
            ("a", Action::Change, ""),
            ("", Action::Fail, "DecodingFailed"),
            ("b", Action::Create, ""),
            ("foreign", Action::Refuse, "OwnedByAnotherBundle"),
        ];
        assert_eq!(actions(&preview), expected);
        assert_eq!(preview.objects[0].differences[0].path, "data.k");
        bundle.spec.workload.manifests.remove(1);
        let preview = offline(bundle.clone(), &ledger, &setting(), &objects);
        let pruned = [
            ("again", Action::Forget, "NotOurs"),
            ("gone", Action::Forget, "Gone"),
            ("old", Action::Delete, "Pruned"),
        ];
        assert_eq!(actions(&preview)[3..], pruned);
        assert!(preview.held.is_empty());

        bundle.spec.paused = Some(true);
        assert_eq!(
            offline(bundle.clone(), &ledger, &setting(), &objects).held[0].reason,
            "Paused"
        );
        bundle.spec.paused = None;
        bundle.spec.hash = Some("0".into());
        assert_eq!(
            offline(bundle.clone(), &ledger, &setting(), &objects).held[0].reason,
            "HashMismatch"
        );
        bundle.spec.hash = None;
        bundle.deleting = true;
        let preview = offline(bundle, &ledger, &setting(), &objects);
        let leaving: Vec<_> = preview
            .objects
            .iter()
            .map(|object| object.name.as_str())
            .collect();
        assert_eq!(
            leaving,
            ["a", "again", "gone", "old"],
            "a bundle that goes takes its objects along"
        );
    }
}
