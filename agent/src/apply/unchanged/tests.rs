use super::*;
use crate::apply::decide::Terms;
use crate::apply::decode::decode;
use crate::drift::{Differences, Look};
use crate::observe::{Examined, Readiness, Rules};
use kube::core::{ApiResource, GroupVersionKind};
use roundhouse_api::bundle::{ApplyOnce, BundleSpec, ResourceMeta};
use serde_json::json;
use std::sync::Arc;
use tokio::time::Instant;

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
        no_kind_since: None,
        readiness: Readiness::Ready,
        workload: None,
        examined: None,
        seen: Some("7".to_owned()),
        answer: Some(Fingerprint::of("as it is")),
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

/// The answer for which the last look holds.
fn holds_for(known: &Known) -> Option<Fingerprint> {
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
    unchanged(&task, &order, &known.kind, &known.target).map(|(_, answer)| answer)
}

#[test]
fn an_object_found_as_wanted_is_not_judged_twice() {
    let answer = Some(Fingerprint::of("as it is"));
    assert_eq!(holds_for(&known("apps/v1", "Deployment")), answer);
    assert_eq!(holds_for(&known("v1", "ConfigMap")), answer);
    assert_eq!(holds_for(&known("shop.example/v1", "Widget")), answer);
    assert_ne!(Some(Fingerprint::of("as it is not")), answer);
}

#[test]
fn nor_is_one_that_was_made_by_us() {
    let mut known = known("apps/v1", "Deployment");
    let look = Look {
        manifest: &known.manifest,
        anew: true,
        now: Instant::now(),
        applies_as: "roundhouse-agent",
    };
    let mut differences = Differences::default();
    differences.advise_creation(look);
    differences.none(look);
    known.observation.as_mut().unwrap().differences = differences;
    assert_eq!(holds_for(&known), Some(Fingerprint::of("as it is")));
}

/// What is changed about what is known.
type Change = fn(&mut Known);

#[test]
fn whatever_else_may_have_changed_is_judged_again() {
    let cases: [(&str, Change); 15] = [
        ("rules that were put off", |known| {
            known.observation.as_mut().unwrap().examined = Some(Box::new(Examined {
                postponed: true,
                ..Examined::default()
            }));
        }),
        ("an entry of another revision", |known| {
            known.entry.as_mut().unwrap().revision = Some("web-v1".to_owned());
        }),
        ("an entry of another generation of the application", |known| {
            known.entry.as_mut().unwrap().application_generation = Some("3".to_owned());
        }),
        ("another place in the bundle", |known| {
            known.observation.as_mut().unwrap().meta.ordinal = 1;
        }),
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
            known.observation.as_mut().unwrap().answer = None
        }),
    ];
    for (what, change) in cases {
        let mut known = known("apps/v1", "Deployment");
        change(&mut known);
        assert_eq!(holds_for(&known), None, "{what}");
    }
}
