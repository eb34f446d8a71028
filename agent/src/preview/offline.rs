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
                Err(outcome) => Err(Box::new((manifest.key.clone(), outcome))),
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

    /// What the fuzz target `bundle_decode` checks, on its seeds with bytes changed at random: without a nightly compiler,
    /// and without the guidance that makes a fuzzer find more.
    #[test]
    fn whatever_hub_and_member_send_is_decided_without_a_panic() {
        let rounds = if std::env::var_os("ROUNDHOUSE_LONG").is_some() {
            200_000
        } else {
            300
        };
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/bundle_decode");
        let mut seeds: Vec<_> = std::fs::read_dir(seeds)
            .unwrap()
            .map(|seed| seed.unwrap().path())
            .collect();
        seeds.sort();
        assert!(seeds.len() > 5, "{seeds:?}");
        let mut dice = 42_u64;
        let mut roll = |sides: usize| {
            dice = dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(dice >> 33).unwrap() % sides.max(1)
        };
        let mut decided = 0;
        for seed in seeds {
            let seed = std::fs::read(seed).unwrap();
            for round in 0..rounds {
                let mut bytes = seed.clone();
                for _ in 0..(if round == 0 { 0 } else { 1 + roll(3) }) {
                    let (from, to, length) = (roll(bytes.len()), roll(bytes.len()), 1 + roll(24));
                    let piece: Vec<u8> = bytes.iter().skip(from).take(length).copied().collect();
                    match roll(3) {
                        0 => bytes[to] = piece[0],
                        1 => drop(bytes.splice(to..to, piece)),
                        _ => drop(bytes.drain(to..bytes.len().min(to + length))),
                    }
                }
                let mut parts = bytes.splitn(3, |byte| *byte == 0xFF);
                let Some(Ok(spec)) = parts.next().map(serde_json::from_slice::<BundleSpec>) else {
                    continue;
                };
                let live: Vec<Value> = parts
                    .next()
                    .and_then(|text| serde_json::from_slice(text).ok())
                    .unwrap_or_default();
                let ledger: AppliedBundleSpec = parts
                    .next()
                    .and_then(|text| serde_json::from_slice(text).ok())
                    .unwrap_or_default();
                let manifests = spec.workload.manifests.len();
                let part = Part { spec, ..part(vec![]) };
                let preview = offline(part, &ledger, &setting(), &live);
                let said = preview
                    .objects
                    .iter()
                    .filter(|object| object.ordinal.is_some())
                    .count();
                assert_eq!(said, manifests, "something is said of every manifest");
                decided += 1;
            }
        }
        assert!(decided > rounds, "{decided} of the documents could be read");
        println!("{decided} bundles decided on");
    }
}
