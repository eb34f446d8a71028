use super::*;
use crate::apply::decide::{Step, Terms, decide};
use crate::apply::decode::decode;
use crate::apply::outcome::Outcome;
use crate::apply::strategy::Treatment;
use roundhouse_api::bundle::{Adopt, ApplyOnceStrategy, Drift};
use roundhouse_api::ledger::LedgerOutcome;
use roundhouse_api::names::annotation;
use serde_json::json;

fn rule(path: &str, affect: Affect) -> ApplyOnceRule {
    ApplyOnceRule {
        selector: None,
        strategy: ApplyOnceStrategy {
            path: vec![path.to_owned()],
            affect,
        },
    }
}

fn manifest(image: &str, replicas: u32) -> Manifest {
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "x", "labels": {"app.oam.dev/component": "web",
            "workload.oam.dev/type": "webservice"}},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    decode(vec![object]).manifests.remove(0)
}

fn terms(mode: ApplyOnce, rules: &[ApplyOnceRule]) -> Terms {
    Terms {
        marker: "h/b".into(),
        adopt: Adopt::IfNoDiff,
        allow_co_ownership: false,
        apply_once: mode,
        rules: Rules::new(rules),
        drift: Drift::Correct,
    }
}

/// The object as the server has it after `manifest` was made, and what the ledger says of it.
fn applied(manifest: &Manifest) -> (Value, LedgerEntry) {
    let terms = terms(ApplyOnce::Never, &[]);
    let Step::Create { mut object, .. } = decide(manifest, None, None, Treatment::default(), &terms) else {
        panic!("not created")
    };
    object["metadata"]["uid"] = json!("u");
    let entry = LedgerEntry {
        uid: Some("u".into()),
        digest: Some(manifest.digest.clone()),
        outcome: LedgerOutcome::Applied,
        ..LedgerEntry::default()
    };
    (object, entry)
}

/// `made`, `Left`, `Unchanged`, or the replicas that a patch sets, `kept` if it leaves them.
fn word(step: &Step) -> String {
    match step {
        Step::Create { .. } => "made".to_owned(),
        Step::Done(Outcome::Applied(applied)) => format!("{applied:?}"),
        Step::Patch { patch, .. } => match patch.pointer("/spec/replicas") {
            Some(replicas) => replicas.to_string(),
            None => "kept".to_owned(),
        },
        other => format!("{other:?}"),
    }
}

#[test]
fn mode_affect_live_value_and_stamps() {
    use Affect::{Always, OnStateKeep, OnUpdate};
    use ApplyOnce::{Force, Never, Once};
    let (before, after) = (manifest("i:1", 2), manifest("i:2", 2));
    // Live replicas 2 as applied, 7 by hand, or missing; the live stamps are those of the content wanted, or older.
    for (affect, missing_same, same_repair, by_hand_repair, by_hand_update, missing_update) in [
        (None, "2", "Unchanged", "2", "2", "2"),
        (Some(Always), "2", "Unchanged", "Unchanged", "kept", "2"),
        (Some(OnUpdate), "2", "Unchanged", "2", "kept", "2"),
        (Some(OnStateKeep), "2", "Unchanged", "Unchanged", "2", "2"),
    ] {
        for mode in [Never, Once, Force] {
            // The whole object missing: a rule keeps nothing of it, and under Force it stays deleted.
            let rules: Vec<ApplyOnceRule> = affect
                .map(|affect| rule("spec.replicas", affect))
                .into_iter()
                .collect();
            let terms = terms(mode, &rules);
            let before_missing = if mode == Force { "KeptDeleted" } else { "made" };
            for (wanted, expected) in [(&before, before_missing), (&after, "made")] {
                let (_, entry) = applied(&before);
                let step = decide(wanted, None, Some(&entry), Treatment::default(), &terms);
                assert_eq!(word(&step), expected, "{affect:?} {mode:?} missing");
            }
            let left = |expected: &'static str| if mode == Never { expected } else { "Left" };
            for (wanted, replicas, expected) in [
                (&before, Some(2), left(same_repair)),
                (&before, Some(7), left(by_hand_repair)),
                (&before, None, left(missing_same)),
                (&after, Some(2), "kept"),
                (&after, Some(7), by_hand_update),
                (&after, None, missing_update),
            ] {
                let (mut live, entry) = applied(&before);
                match replicas {
                    Some(replicas) => live["spec"]["replicas"] = json!(replicas),
                    None => {
                        live["spec"].as_object_mut().unwrap().remove("replicas");
                    }
                }
                let step = decide(wanted, Some(&live), Some(&entry), Treatment::default(), &terms);
                let image = wanted.object["spec"]["template"]["spec"]["containers"][0]["image"].clone();
                assert_eq!(word(&step), expected, "{affect:?} {mode:?} {replicas:?} {image}");
            }
        }
    }
}

#[test]
fn what_on_update_kept_is_what_the_repair_restores() {
    let (first, second) = (manifest("i:1", 2), manifest("i:2", 2));
    let rules = [rule("spec.replicas", Affect::OnUpdate)];
    let rules = Rules::new(&rules);
    let (mut live, mut entry) = applied(&first);
    live["spec"]["replicas"] = json!(7);
    let keeping = rules.of(&second.object).unwrap().unwrap();
    let kept = keeping.record(&second, &live, Some(&entry)).unwrap().unwrap();
    assert_eq!(kept, BTreeMap::from([("/spec/replicas".to_owned(), json!(7))]));

    // Applied: 7 are there. Killed before the record: still an update, 7 stay.
    let (mut live, recorded) = applied(&second);
    live["spec"]["replicas"] = json!(7);
    let mut wanted = second.object.clone();
    keeping.lay(&second, &live, Some(&entry), &mut wanted);
    assert_eq!(wanted["spec"]["replicas"], 7);
    // Recorded: somebody scales to 9, the repair goes back to 7.
    entry.clone_from(&recorded);
    entry.kept = kept;
    live["spec"]["replicas"] = json!(9);
    assert_eq!(keeping.record(&second, &live, Some(&entry)).unwrap(), None);
    let mut wanted = second.object.clone();
    keeping.lay(&second, &live, Some(&entry), &mut wanted);
    assert_eq!(wanted["spec"]["replicas"], 7);
}

#[test]
fn what_on_update_kept_of_a_long_list_is_restored_in_its_places() {
    let items = |count: usize| -> Value { (0..count).map(|at| json!({"id": at})).collect() };
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "x"},
        "spec": {"items": items(9)}});
    let manifest = decode(vec![widget]).manifests.remove(0);
    let rules = Rules::new(&[rule("spec.items[*]", Affect::OnUpdate)]);
    let keeping = rules.of(&manifest.object).unwrap().unwrap();
    let (mut live, mut entry) = applied(&manifest);
    live["spec"]["items"] = items(12);
    entry.kept = keeping.record(&manifest, &live, None).unwrap().unwrap();
    live["spec"]["items"] = items(9);
    let mut wanted = manifest.object.clone();
    keeping.lay(&manifest, &live, Some(&entry), &mut wanted);
    assert_eq!(wanted["spec"]["items"], items(12));
}

#[test]
fn the_whole_object_is_applied_once() {
    let wanted = manifest("i:1", 2);
    let (mut live, entry) = applied(&wanted);
    live["spec"]["replicas"] = json!(7);
    for (rules, expected) in [
        (vec![rule("*", Affect::Always)], "Left"),
        (vec![rule("*", Affect::OnStateKeep)], "Left"),
        (vec![], "2"),
    ] {
        let terms = terms(ApplyOnce::Never, &rules);
        let step = decide(&wanted, Some(&live), Some(&entry), Treatment::default(), &terms);
        assert_eq!(word(&step), expected, "{rules:?}");
        let next = manifest("i:2", 2);
        let step = decide(&next, Some(&live), Some(&entry), Treatment::default(), &terms);
        assert_eq!(word(&step), "2", "{rules:?}");
    }
}

#[test]
fn selectors_are_anded_and_the_first_match_wins() {
    let object = manifest("i:1", 2).object;
    let list = |entries: &[&str]| entries.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>();
    let fits = ApplyOnceSelector {
        component_names: list(&["db", "web"]),
        component_types: list(&["webservice"]),
        resource_types: list(&["Deployment"]),
        resource_names: list(&["web"]),
        trait_types: Vec::new(),
    };
    for (selector, expected) in [
        (ApplyOnceSelector::default(), true),
        (fits.clone(), true),
        (
            ApplyOnceSelector {
                component_names: list(&["db"]),
                ..fits.clone()
            },
            false,
        ),
        (
            ApplyOnceSelector {
                component_types: list(&["worker"]),
                ..fits.clone()
            },
            false,
        ),
        (
            ApplyOnceSelector {
                resource_types: list(&["Service"]),
                ..fits.clone()
            },
            false,
        ),
        (
            ApplyOnceSelector {
                resource_names: list(&["other"]),
                ..fits.clone()
            },
            false,
        ),
        (
            ApplyOnceSelector {
                trait_types: list(&["scaler"]),
                ..fits
            },
            false,
        ),
    ] {
        let mut first = rule("spec.replicas", Affect::OnUpdate);
        first.selector = Some(selector.clone());
        let rules = Rules::new(&[first, rule("*", Affect::Always)]);
        let keeping = rules.of(&object).unwrap().unwrap();
        assert_eq!(keeping.affect == Affect::OnUpdate, expected, "{selector:?}");
    }
}

#[test]
fn a_path_that_does_not_read_fails_the_objects_of_its_rule_alone() {
    let mut bad = rule("spec..replicas", Affect::Always);
    bad.selector = Some(ApplyOnceSelector {
        resource_types: vec!["Deployment".into()],
        ..ApplyOnceSelector::default()
    });
    let terms = terms(ApplyOnce::Never, &[bad]);
    let wanted = manifest("i:1", 2);
    let Step::Done(outcome) = decide(&wanted, None, None, Treatment::default(), &terms) else {
        panic!("applied")
    };
    assert_eq!(outcome.reason(), "InvalidApplyOnceRule");
    let message = outcome.message();
    assert!(
        message.contains("x/web") && message.contains("spec..replicas"),
        "{message}"
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x"}});
    let map = decode(vec![map]).manifests.remove(0);
    assert!(matches!(
        decide(&map, None, None, Treatment::default(), &terms),
        Step::Create { .. }
    ));
}

#[test]
fn a_rule_about_annotations_keeps_no_old_stamps() {
    let (before, after) = (manifest("i:1", 2), manifest("i:2", 2));
    let (mut live, entry) = applied(&before);
    live["metadata"]["annotations"]["by-hand"] = json!("kept");
    let terms = terms(ApplyOnce::Never, &[rule("metadata.annotations", Affect::Always)]);
    let Step::Patch { patch, .. } = decide(&after, Some(&live), Some(&entry), Treatment::default(), &terms)
    else {
        panic!("no patch")
    };
    let annotations = &patch["metadata"]["annotations"];
    assert_eq!(annotations[annotation::DESIRED_HASH], json!(after.digest));
    assert!(annotations.get("by-hand").is_none(), "{patch}");
    // What was applied last is the manifest, not what was kept.
    let last = annotations[annotation::LAST_APPLIED].as_str().unwrap();
    assert!(last.contains("i:2") && !last.contains("by-hand"), "{last}");
}

#[test]
fn adoption_without_difference_leaves_out_what_a_rule_keeps() {
    let wanted = manifest("i:1", 2);
    let mut live = wanted.object.clone();
    live["metadata"]["uid"] = json!("u");
    live["spec"]["replicas"] = json!(7);
    for (affect, adopted) in [
        (Affect::Always, true),
        (Affect::OnUpdate, true),
        (Affect::OnStateKeep, false),
    ] {
        let terms = terms(ApplyOnce::Never, &[rule("spec.replicas", affect)]);
        let step = decide(&wanted, Some(&live), None, Treatment::default(), &terms);
        assert_eq!(matches!(step, Step::Patch { .. }), adopted, "{affect:?} {step:?}");
    }
}

#[test]
fn values_of_a_secret_are_kept_but_never_recorded() {
    let secret = |value: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "x"},
            "data": {"a": value}});
        decode(vec![object]).manifests.remove(0)
    };
    let (before, after) = (secret("b25l"), secret("dHdv"));
    let (mut live, entry) = applied(&before);
    live["data"]["a"] = json!("aGFuZA==");
    let rules = Rules::new(&[rule("data", Affect::OnUpdate)]);
    let keeping = rules.of(&after.object).unwrap().unwrap();
    for wanted in [&before, &after] {
        assert_eq!(
            keeping.record(wanted, &live, Some(&entry)).unwrap(),
            Some(BTreeMap::new())
        );
        let mut object = wanted.object.clone();
        keeping.lay(wanted, &live, Some(&entry), &mut object);
        assert_eq!(object["data"]["a"], "aGFuZA==");
    }
}

#[test]
fn kept_values_are_bounded() {
    let (before, after) = (manifest("i:1", 2), manifest("i:2", 2));
    let (mut live, entry) = applied(&before);
    live["spec"]["big"] = json!("x".repeat(MAX_KEPT + 1));
    let terms = terms(ApplyOnce::Never, &[rule("spec", Affect::OnUpdate)]);
    let Step::Done(outcome) = decide(&after, Some(&live), Some(&entry), Treatment::default(), &terms) else {
        panic!("applied")
    };
    assert!(outcome.message().contains("use affect always"), "{outcome:?}");
}

#[test]
fn pointers_are_set_where_they_have_a_place() {
    let object = json!({"a": {"b": 1}, "list": [1]});
    for (pointer, expected) in [
        ("/a/b", json!({"a": {"b": 9}, "list": [1]})),
        ("/a/c~1d/e", json!({"a": {"b": 1, "c/d": {"e": 9}}, "list": [1]})),
        ("/list/0", json!({"a": {"b": 1}, "list": [9]})),
        ("/list/1", json!({"a": {"b": 1}, "list": [1, 9]})),
    ] {
        let mut got = object.clone();
        assert!(set(&mut got, pointer, &json!(9)), "{pointer}");
        assert_eq!(got, expected, "{pointer}");
    }
    for pointer in ["", "a", "/list/7", "/list/x", "/a/b/c"] {
        assert!(!set(&mut object.clone(), pointer, &json!(9)), "{pointer}");
    }
}
