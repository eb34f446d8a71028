use super::*;
use crate::apply::decide::Terms;
use crate::apply::decode::decode;
use crate::drift::Differences;
use crate::observe::{Readiness, Rules};
use kube::core::{ApiResource, GroupVersionKind};
use roundhouse_api::bundle::{ApplyOnce, BundleSpec, ResourceMeta};
use serde_json::json;
use std::sync::Arc;

/// A Deployment (or another kind) that was found unchanged, with what is known of it.
struct Known {
    manifest: Manifest,
    kind: Kind,
    target: ObjectKey,
    entry: Option<LedgerEntry>,
    observation: Option<Observation>,
    anew: bool,
}

fn known(api_version: &str, kind: &str) -> Known {
    let object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", "namespace": "x"}});
    let manifest = decode(vec![object]).manifests.remove(0);
    let gvk = GroupVersionKind::gvk(&manifest.key.group, &manifest.version, kind);
    let kind = Kind {
        resource: ApiResource::from_gvk(&gvk),
        namespaced: true,
    };
    let observation = Observation {
        meta: ResourceMeta::default(),
        target: Some(manifest.key.clone()),
        kind: Some(Arc::new(kind.clone())),
        labelled: false,
        outcome: Outcome::Applied(Applied::Unchanged),
        readiness: Readiness::Ready,
        workload: None,
        examined: None,
        seen: Some("7".to_owned()),
        differences: Differences::default(),
        quiet: None,
    };
    let entry = LedgerEntry {
        uid: Some("u".to_owned()),
        digest: Some(manifest.digest.clone()),
        outcome: LedgerOutcome::Applied,
        ..LedgerEntry::default()
    };
    Known {
        target: manifest.key.clone(),
        manifest,
        kind,
        entry: Some(entry),
        observation: Some(observation),
        anew: false,
    }
}

/// The version for which the last look holds.
fn holds_for(known: &Known) -> Option<(String, String)> {
    let task = Task {
        manifest: &known.manifest,
        entry: known.entry.as_ref(),
        known: known.observation.as_ref(),
        examined: None,
        differences: None,
        quiet: None,
        refused: None,
    };
    let terms = Terms::of(&BundleSpec::default(), "b", "h", ApplyOnce::Never);
    let order = Order {
        terms: &terms,
        configs: &[],
        rules: &Rules::default(),
        app_namespace: None,
        anew: known.anew,
    };
    unchanged(&task, &order, &known.kind, &known.target)
        .map(|(_, version)| (version.uid.into_owned(), version.resource_version.into_owned()))
}

#[test]
fn an_object_found_as_wanted_is_not_judged_twice() {
    let version = Some(("u".to_owned(), "7".to_owned()));
    assert_eq!(holds_for(&known("apps/v1", "Deployment")), version);
    assert_eq!(holds_for(&known("v1", "ConfigMap")), version);
}

/// What is changed about what is known.
type Change = fn(&mut Known);

#[test]
fn whatever_else_may_have_changed_is_judged_again() {
    let cases: [(&str, Change); 11] = [
        ("another content of the bundle", |known| known.anew = true),
        ("never looked at", |known| known.observation = None),
        ("without an entry", |known| known.entry = None),
        ("another content of the manifest", |known| {
            known.entry.as_mut().unwrap().digest = Some("other".to_owned());
        }),
        ("an entry that is intended again", |known| {
            known.entry.as_mut().unwrap().outcome = LedgerOutcome::Intended;
        }),
        ("an entry without a uid", |known| {
            known.entry.as_mut().unwrap().uid = None;
        }),
        ("written by us", |known| {
            known.observation.as_mut().unwrap().outcome = Outcome::Applied(Applied::Changed);
        }),
        ("left alone", |known| {
            known.observation.as_mut().unwrap().outcome = Outcome::Applied(Applied::Left);
        }),
        ("a difference that is reported", |known| {
            let differences = &mut known.observation.as_mut().unwrap().differences;
            differences.drifted = vec!["spec.replicas".to_owned()];
        }),
        ("another scope", |known| known.kind.namespaced = false),
        ("not seen", |known| {
            known.observation.as_mut().unwrap().seen = None
        }),
    ];
    for (what, change) in cases {
        let mut known = known("apps/v1", "Deployment");
        change(&mut known);
        assert_eq!(holds_for(&known), None, "{what}");
    }
}

#[test]
fn custom_resources_are_judged_each_time() {
    assert_eq!(holds_for(&known("shop.example/v1", "Widget")), None);
}

#[test]
fn versions_are_read_from_the_text() {
    let text = r#"{"kind":"X","metadata":{"name":"\u00e4","uid":"u","resourceVersion":"7","managedFields":[{"a":{}}]},
        "data":{"metadata":{"uid":"w","resourceVersion":"8"}}}"#;
    let version = Version::of(text).unwrap();
    assert_eq!((&*version.uid, &*version.resource_version), ("u", "7"));
    for none in [
        "",
        "[]",
        "{}",
        r#"{"metadata":{"uid":"u"}}"#,
        r#"{"metadata":{"uid":"u","resourceVersion":"7"}"#,
    ] {
        assert_eq!(Version::of(none), None, "{none}");
    }
}
