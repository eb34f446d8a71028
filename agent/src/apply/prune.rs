//! Prune: which objects of the ledger go, and how each of them goes. Absence is never evidence by itself: a manifest
//! must be missing from a bundle that was read whole.

use crate::apply::busy::Busy;
use crate::apply::decode::PartialIdentity;
use crate::apply::strategy::identifies;
use crate::kinds::Kind;
use crate::object::{self, ObjectKey};
use roundhouse_api::bundle::{BundleSpec, DeleteOption, Deletion, PropagationPolicy};
use roundhouse_api::ledger::{AppliedBundleSpec, LedgerEntry, LedgerOutcome};
use roundhouse_api::names::annotation;
use serde_json::Value;
use std::collections::BTreeSet;

/// What a bundle that was read whole says about the objects in the ledger.
#[derive(Debug, Default)]
pub(crate) struct Inventory<'a> {
    /// Objects that the bundle has.
    pub(crate) wanted: BTreeSet<&'a ObjectKey>,
    /// Manifests that do not decode: what they may have been meant as stays.
    pub(crate) undecodable: Vec<&'a PartialIdentity>,
    /// Group and kind of manifests whose kind the member does not know: their scope is unknown, so the kind stays.
    pub(crate) unknown_kinds: BTreeSet<(&'a str, &'a str)>,
    /// Objects that another part of the same application has now.
    pub(crate) moved: BTreeSet<ObjectKey>,
}

/// What is to happen with one object of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The bundle has it.
    Wanted,
    /// It is no longer wanted, but may be what an unreadable manifest means.
    Held,
    /// Another part has it: this ledger forgets it.
    Moved,
    /// It goes.
    Surplus,
}

/// Decides the fate of one object.
pub(crate) fn fate(key: &ObjectKey, inventory: &Inventory<'_>) -> Fate {
    if inventory.wanted.contains(key) {
        Fate::Wanted
    } else if inventory.moved.contains(key) {
        Fate::Moved
    } else if inventory.undecodable.iter().any(|identity| identity.may_be(key))
        || inventory
            .unknown_kinds
            .contains(&(key.group.as_str(), key.kind.as_str()))
    {
        Fate::Held
    } else {
        Fate::Surplus
    }
}

/// How one surplus object goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is gone: the ledger forgets it.
    Gone,
    /// It is not the object that was applied, or somebody else's by now: it survives, the ledger forgets it.
    NotOurs,
    /// It stays, without our marker.
    Release,
    /// It is deleted, if it is still as it was read.
    Delete,
    /// It is being deleted and something holds it.
    Waiting { finalizers: String },
    /// It still runs something, and nobody confirmed its removal: it stays for now.
    Refused(Busy),
}

/// What the bundle's `deleteOption` says about one object; `None` where it names no policy.
pub(crate) fn policy(
    option: Option<&DeleteOption>,
    kind: &Kind,
    key: &ObjectKey,
) -> Option<PropagationPolicy> {
    let option = option?;
    let policy = option.propagation_policy?;
    if policy != PropagationPolicy::SelectivelyOrphan {
        return Some(policy);
    }
    let rules = option
        .selectively_orphans
        .iter()
        .flat_map(|orphans| &orphans.orphaning_rules);
    let orphaned = rules.into_iter().any(|rule| identifies(rule, kind, key));
    Some(if orphaned {
        PropagationPolicy::Orphan
    } else {
        PropagationPolicy::Foreground
    })
}

/// Whether somebody confirmed the removal of a whole bundle, so that it goes although apply-once is on and workloads of it
/// still have replicas: the application was deleted, or a person approved this very removal by its hash. A placement that
/// moved away (`garbage-collection`) is no confirmation; the deletion of a hand-written bundle is one by itself.
pub(crate) fn is_confirmed(dispatched: bool, deletion: Option<&Deletion>) -> bool {
    match deletion {
        Some(deletion) => deletion.confirmed_by != Deletion::GARBAGE_COLLECTION,
        None => !dispatched,
    }
}

/// Whether what was refused under apply-once stays refused although the bundle does not say apply-once any more. A bundle that
/// dispatch emptied because the placement moved away may have lost its mode with its manifests: nobody has switched it off, and
/// nobody has confirmed anything. One that carries manifests says what its mode is.
pub(crate) fn stays_guarded(spec: &BundleSpec, ledger: &AppliedBundleSpec) -> bool {
    let refused = |entry: &LedgerEntry| entry.outcome == LedgerOutcome::Unconfirmed;
    let is_emptied = spec.workload.manifests.is_empty();
    let confirmed = is_confirmed(spec.application_ref.is_some(), spec.deletion.as_ref());
    is_emptied && !confirmed && ledger.objects.iter().any(refused)
}

/// Decides how an object goes, on the live object as just read. `guarded`: apply-once is on for it and its removal is not
/// confirmed; then the annotation `roundhouse.dev/prune: "true"` on the object confirms it, or that it runs nothing any more.
pub(crate) fn removal(
    entry: &LedgerEntry,
    live: Option<&Value>,
    marker: &str,
    policy: Option<PropagationPolicy>,
    guarded: bool,
) -> Removal {
    let Some(live) = live else { return Removal::Gone };
    let Some(uid) = object::uid(live) else {
        return Removal::NotOurs;
    };
    let owner = object::annotation(live, annotation::OWNED_BY);
    let ours = match (&entry.uid, owner) {
        (_, Some(owner)) if owner != marker => false,
        (Some(known), _) => known == uid,
        // Killed between the write and its record: only the marker tells.
        (None, owner) => owner.is_some(),
    };
    if !ours {
        return Removal::NotOurs;
    }
    if object::is_deleting(live) {
        let finalizers = live.pointer("/metadata/finalizers").and_then(Value::as_array);
        let names = finalizers
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>();
        return Removal::Waiting {
            finalizers: names.join(", "),
        };
    }
    if policy == Some(PropagationPolicy::Orphan) {
        return Removal::Release;
    }
    let precious = matches!(
        (entry.group.as_str(), entry.kind.as_str()),
        ("", "Namespace" | "PersistentVolumeClaim") | ("apiextensions.k8s.io", "CustomResourceDefinition")
    );
    let told = object::annotation(live, annotation::PRUNE) == Some("true");
    let busy = Busy::of(&entry.group, &entry.kind, live).filter(|_| guarded && !told);
    match busy {
        _ if precious && policy.is_none() && !told => Removal::Release,
        Some(busy) => Removal::Refused(busy),
        None => Removal::Delete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::testing::key;
    use serde_json::json;

    #[test]
    fn only_what_is_surely_missing_from_the_bundle_is_surplus() {
        let (wanted, moved) = (key("ConfigMap", "a"), key("ConfigMap", "m"));
        let broken = PartialIdentity {
            kind: Some("Secret".into()),
            ..PartialIdentity::default()
        };
        let inventory = Inventory {
            wanted: BTreeSet::from([&wanted]),
            undecodable: vec![&broken],
            unknown_kinds: BTreeSet::from([("", "Widget")]),
            moved: BTreeSet::from([moved.clone()]),
        };
        for (key, expected) in [
            (&wanted, Fate::Wanted),
            (&moved, Fate::Moved),
            (&key("Secret", "any"), Fate::Held),
            (&key("Widget", "w"), Fate::Held),
            (&key("ConfigMap", "b"), Fate::Surplus),
        ] {
            assert_eq!(fate(key, &inventory), expected, "{key}");
        }
        let anything = PartialIdentity::default();
        let inventory = Inventory {
            undecodable: vec![&anything],
            ..Inventory::default()
        };
        assert_eq!(fate(&key("ConfigMap", "b"), &inventory), Fate::Held);
    }

    #[test]
    fn how_an_object_goes() {
        let entry = |kind: &str, uid: Option<&str>| LedgerEntry {
            kind: kind.into(),
            uid: uid.map(str::to_owned),
            ..LedgerEntry::default()
        };
        let live = |uid: &str, owner: Option<&str>| {
            json!({"metadata": {"uid": uid, "annotations": owner.map_or(
            json!({}), |owner| json!({"roundhouse.dev/owned-by": owner}))}})
        };
        let delete = Removal::Delete;
        let (orphan, foreground) = (PropagationPolicy::Orphan, PropagationPolicy::Foreground);
        let mut going = live("1", Some("h/b"));
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        going["metadata"]["finalizers"] = json!(["x/y"]);
        let mut told = live("1", Some("h/b"));
        told["metadata"]["annotations"]["roundhouse.dev/prune"] = json!("true");
        for (kind, known, live, option, expected) in [
            ("ConfigMap", Some("1"), None, None, Removal::Gone),
            (
                "ConfigMap",
                Some("1"),
                Some(&live("1", Some("h/b"))),
                None,
                delete.clone(),
            ),
            (
                "ConfigMap",
                Some("1"),
                Some(&live("1", None)),
                None,
                delete.clone(),
            ),
            (
                "ConfigMap",
                Some("1"),
                Some(&live("2", None)),
                None,
                Removal::NotOurs,
            ),
            (
                "ConfigMap",
                Some("1"),
                Some(&live("2", Some("h/b"))),
                None,
                Removal::NotOurs,
            ),
            (
                "ConfigMap",
                Some("1"),
                Some(&live("1", Some("h/other"))),
                None,
                Removal::NotOurs,
            ),
            (
                "ConfigMap",
                None,
                Some(&live("1", Some("h/b"))),
                None,
                delete.clone(),
            ),
            ("ConfigMap", None, Some(&live("1", None)), None, Removal::NotOurs),
            (
                "ConfigMap",
                Some("1"),
                Some(&going),
                None,
                Removal::Waiting {
                    finalizers: "x/y".into(),
                },
            ),
            (
                "ConfigMap",
                Some("1"),
                Some(&live("1", None)),
                Some(orphan),
                Removal::Release,
            ),
            (
                "Namespace",
                Some("1"),
                Some(&live("1", None)),
                None,
                Removal::Release,
            ),
            (
                "PersistentVolumeClaim",
                Some("1"),
                Some(&live("1", None)),
                None,
                Removal::Release,
            ),
            (
                "Namespace",
                Some("1"),
                Some(&live("1", None)),
                Some(foreground),
                delete.clone(),
            ),
            ("Namespace", Some("1"), Some(&told), None, delete),
        ] {
            let got = removal(&entry(kind, known), live, "h/b", option, false);
            assert_eq!(got, expected, "{kind} {known:?} {live:?}");
        }
    }

    #[test]
    fn under_apply_once_an_object_with_replicas_goes_only_when_that_is_confirmed() {
        let live = |replicas: Value, annotations: Value| {
            let mut annotations = annotations;
            annotations["roundhouse.dev/owned-by"] = json!("h/b");
            json!({"metadata": {"uid": "1", "annotations": annotations}, "spec": {"replicas": replicas}})
        };
        let entry = LedgerEntry {
            group: "apps".into(),
            kind: "Deployment".into(),
            uid: Some("1".into()),
            ..LedgerEntry::default()
        };
        let delete = Removal::Delete;
        let orphan = Some(PropagationPolicy::Orphan);
        let prune = json!({"roundhouse.dev/prune": "true"});
        for (guarded, replicas, annotations, policy, expected) in [
            (
                true,
                json!(3),
                json!({}),
                None,
                Removal::Refused(Busy::Replicas(3)),
            ),
            (
                true,
                json!(3),
                json!({}),
                Some(PropagationPolicy::Foreground),
                Removal::Refused(Busy::Replicas(3)),
            ),
            (true, json!(3), json!({}), orphan, Removal::Release),
            (true, json!(3), prune, None, delete.clone()),
            (true, json!(0), json!({}), None, delete.clone()),
            (
                true,
                Value::Null,
                json!({}),
                None,
                Removal::Refused(Busy::Replicas(1)),
            ),
            (false, json!(3), json!({}), None, delete),
        ] {
            let live = live(replicas, annotations);
            let got = removal(&entry, Some(&live), "h/b", policy, guarded);
            assert_eq!(got, expected, "{guarded} {live}");
        }
    }

    #[test]
    fn what_confirms_the_removal_of_a_bundle() {
        let by = |confirmed_by: &str| Deletion {
            revision: "app-v1".into(),
            confirmed_by: confirmed_by.into(),
        };
        for (dispatched, deletion, expected) in [
            (true, Some(by("application-deleted")), true),
            (true, Some(by("0123456789abcdef")), true),
            (true, Some(by("garbage-collection")), false),
            (true, None, false),
            (false, None, true),
        ] {
            assert_eq!(
                is_confirmed(dispatched, deletion.as_ref()),
                expected,
                "{deletion:?}"
            );
        }
    }

    #[test]
    fn what_was_refused_stays_so_where_a_bundle_was_emptied_and_nobody_confirmed_it() {
        use LedgerOutcome::{Applied, Removing, Unconfirmed};
        let (collected, approved) = (Some("garbage-collection"), Some("0123456789abcdef"));
        for (dispatched, by, manifests, outcomes, expected) in [
            (true, collected, false, &[Unconfirmed, Applied][..], true),
            (true, None, false, &[Unconfirmed], true),
            // Nothing was refused.
            (true, collected, false, &[Applied, Removing], false),
            // Somebody confirmed it, or wrote it.
            (true, approved, false, &[Unconfirmed], false),
            (true, Some("application-deleted"), false, &[Unconfirmed], false),
            (true, Some("step flags"), false, &[Unconfirmed], false),
            (false, None, false, &[Unconfirmed], false),
            // The mode is the one of the bundle that carries manifests.
            (true, None, true, &[Unconfirmed], false),
            (true, collected, true, &[Unconfirmed], false),
        ] {
            let mut spec = BundleSpec {
                application_ref: dispatched.then(Default::default),
                deletion: by.map(|by| Deletion {
                    revision: "app-v2".into(),
                    confirmed_by: by.into(),
                }),
                ..BundleSpec::default()
            };
            if manifests {
                spec.workload.manifests.push(json!({"kind": "ConfigMap"}));
            }
            let entry = |outcome: &LedgerOutcome| LedgerEntry {
                outcome: *outcome,
                ..LedgerEntry::default()
            };
            let ledger = AppliedBundleSpec {
                objects: outcomes.iter().map(entry).collect(),
                ..AppliedBundleSpec::default()
            };
            let case = (dispatched, by, manifests, outcomes);
            assert_eq!(stays_guarded(&spec, &ledger), expected, "{case:?}");
        }
    }

    #[test]
    fn selective_orphans_are_named_by_rules() {
        use kube::core::{ApiResource, GroupVersionKind};
        use roundhouse_api::bundle::{ResourceIdentifier, SelectivelyOrphan};
        let kind = Kind {
            resource: ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk("", "v1", "ConfigMap"),
                "configmaps",
            ),
            namespaced: true,
        };
        let rule = ResourceIdentifier {
            resource: "configmaps".into(),
            namespace: "*".into(),
            name: "kept".into(),
            ..ResourceIdentifier::default()
        };
        let selective = DeleteOption {
            propagation_policy: Some(PropagationPolicy::SelectivelyOrphan),
            selectively_orphans: Some(SelectivelyOrphan {
                orphaning_rules: vec![rule],
            }),
            ..DeleteOption::default()
        };
        let whole = DeleteOption {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteOption::default()
        };
        let timed = DeleteOption {
            ttl_seconds_after_finished: Some(3600),
            ..DeleteOption::default()
        };
        for (option, name, expected) in [
            (None, "kept", None),
            (Some(&timed), "kept", None),
            (Some(&whole), "other", Some(PropagationPolicy::Orphan)),
            (Some(&selective), "kept", Some(PropagationPolicy::Orphan)),
            (Some(&selective), "other", Some(PropagationPolicy::Foreground)),
        ] {
            assert_eq!(policy(option, &kind, &key("ConfigMap", name)), expected, "{name}");
        }
    }
}
