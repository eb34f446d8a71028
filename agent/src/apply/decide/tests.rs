use super::*;
use crate::apply::decode::decode;

fn terms() -> Terms {
    Terms {
        marker: "h/b".into(),
        adopt: Adopt::IfNoDiff,
        allow_co_ownership: false,
        apply_once: ApplyOnce::Never,
        rules: Rules::default(),
        drift: Drift::Correct,
    }
}

fn deployment(image: &str, extra: Value) -> Manifest {
    let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "x"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    if let (Some(spec), Value::Object(extra)) = (value["spec"].as_object_mut(), extra) {
        spec.extend(extra);
    }
    decode(vec![value]).manifests.remove(0)
}

/// The object as the server has it after `manifest` was applied.
fn applied(manifest: &Manifest) -> Value {
    let Step::Create { mut object, .. } = decide(manifest, None, None, Treatment::default(), &terms()) else {
        panic!("not created")
    };
    object["metadata"]["uid"] = json!("u1");
    object
}

fn with(type_: UpdateStrategyType) -> Treatment<'static> {
    Treatment { config: None, type_ }
}

fn update(manifest: &Manifest, live: &Value, terms: &Terms) -> Step {
    decide(manifest, Some(live), None, Treatment::default(), terms)
}

#[test]
fn what_was_just_applied_sends_nothing() {
    let manifest = deployment("i:1", json!({"replicas": 2}));
    let live = applied(&manifest);
    assert_eq!(
        update(&manifest, &live, &terms()),
        Step::Done(Outcome::Applied(Applied::Unchanged))
    );
}

#[test]
fn base64_in_several_lines_is_what_the_server_has_in_one() {
    let manifest = |data: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "x"},
            "data": {"tls.crt": data}});
        decode(vec![object]).manifests.remove(0)
    };
    let wrapped = manifest("aGVs\nbG8=\n");
    let mut live = applied(&wrapped);
    live["data"]["tls.crt"] = json!("aGVsbG8=");
    assert_eq!(
        update(&wrapped, &live, &terms()),
        Step::Done(Outcome::Applied(Applied::Unchanged))
    );
    live["data"]["tls.crt"] = json!("b3RoZXI=");
    assert!(matches!(update(&wrapped, &live, &terms()), Step::Patch { .. }));
}

#[test]
fn seed_a_field_left_out_is_removed_and_what_others_added_stays() {
    let before = deployment("i:1", json!({"replicas": 2, "minReadySeconds": 60}));
    let mut live = applied(&before);
    live["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "sidecar"}));
    live["metadata"]["annotations"]["by-hand"] = json!("kept");
    let after = deployment("i:2", json!({"replicas": 2}));
    let Step::Patch {
        patch, patch_type, ..
    } = update(&after, &live, &terms())
    else {
        panic!("no patch")
    };
    assert_eq!(patch_type, PatchType::Strategic);
    assert_eq!(patch["spec"]["minReadySeconds"], Value::Null);
    assert!(patch["spec"].as_object().unwrap().contains_key("minReadySeconds"));
    let result = roundhouse_patch::three_way_merge(
        None,
        &json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a"}}),
        &live,
    )
    .unwrap()
    .result;
    assert_eq!(result["metadata"]["annotations"]["by-hand"], "kept");
    assert!(!patch.to_string().contains("by-hand") && !patch.to_string().contains("\"sidecar\",\"image\""));
}

#[test]
fn drift_is_corrected_reported_or_ignored() {
    let manifest = deployment("i:1", json!({"replicas": 2}));
    let mut live = applied(&manifest);
    live["spec"]["replicas"] = json!(5);
    let with = |drift| Terms { drift, ..terms() };
    assert!(matches!(
        update(&manifest, &live, &with(Drift::Correct)),
        Step::Patch { .. }
    ));
    let patch = json!({"spec": {"replicas": 2}});
    let left = Step::Done(Outcome::Applied(Applied::Left));
    for (drift, expected) in [(Drift::Report, Step::Drifted { patch }), (Drift::Ignore, left)] {
        assert_eq!(update(&manifest, &live, &with(drift)), expected);
        // A new revision is no drift.
        let next = deployment("i:2", json!({"replicas": 2}));
        assert!(
            matches!(update(&next, &live, &with(drift)), Step::Patch { .. }),
            "{drift:?}"
        );
    }
}

#[test]
fn scaled_by_hand_is_undone_in_never_and_kept_in_once() {
    let manifest = deployment("i:1", json!({"replicas": 2}));
    let mut live = applied(&manifest);
    live["spec"]["replicas"] = json!(5);
    let Step::Patch { patch, .. } = update(&manifest, &live, &terms()) else {
        panic!("no patch")
    };
    assert_eq!(patch, json!({"spec": {"replicas": 2}}));
    let once = Terms {
        apply_once: ApplyOnce::Once,
        ..terms()
    };
    assert_eq!(
        update(&manifest, &live, &once),
        Step::Done(Outcome::Applied(Applied::Left))
    );
}

#[test]
fn adoption_without_difference_and_refusal_with_the_paths() {
    let manifest = deployment("i:1", json!({"replicas": 2}));
    let mut live = manifest.object.clone();
    live["metadata"]["uid"] = json!("u1");
    live["spec"]["paused"] = json!(true);
    assert!(
        matches!(update(&manifest, &live, &terms()), Step::Patch { .. }),
        "adopted by a patch of stamps"
    );
    live["spec"]["replicas"] = json!(7);
    let Step::Done(Outcome::Refused(refused)) = update(&manifest, &live, &terms()) else {
        panic!("adopted")
    };
    assert!(refused.to_string().contains("spec.replicas"), "{refused}");
    let always = Terms {
        adopt: Adopt::Always,
        ..terms()
    };
    assert!(matches!(update(&manifest, &live, &always), Step::Patch { .. }));
}

#[test]
fn our_bookkeeping_alone_is_no_difference_to_an_object_without_labels() {
    let mut manifest = deployment("i:1", json!({"replicas": 2}));
    let mut live = manifest.object.clone();
    live["metadata"]["uid"] = json!("u1");
    manifest.object["metadata"]["labels"] =
        json!({"app.oam.dev/name": "app", "workload.oam.dev/type": "webservice"});
    manifest.object["metadata"]["annotations"] = json!({"roundhouse.dev/prune": "true"});
    let step = update(&manifest, &live, &terms());
    assert!(matches!(step, Step::Patch { .. }), "{step:?}");
}

#[test]
fn strategies() {
    let manifest = deployment("i:2", json!({}));
    let live = applied(&deployment("i:1", json!({})));
    let foreign = json!({"metadata": {"uid": "x"}, "kind": "Deployment"});
    use UpdateStrategyType::{CreateOnly, ReadOnly};
    for (strategy, live, expected) in [
        (CreateOnly, Some(&live), Outcome::Applied(Applied::Left)),
        (CreateOnly, Some(&foreign), Outcome::Applied(Applied::Observed)),
        (ReadOnly, Some(&foreign), Outcome::Applied(Applied::Observed)),
    ] {
        assert_eq!(
            decide(&manifest, live, None, with(strategy), &terms()),
            Step::Done(expected),
            "{strategy:?}"
        );
    }
    assert!(matches!(
        decide(&manifest, None, None, with(CreateOnly), &terms()),
        Step::Create { .. }
    ));
    assert!(matches!(
        decide(&manifest, None, None, with(ReadOnly), &terms()),
        Step::Done(Outcome::Delayed {
            reason: "NotFound",
            ..
        })
    ));
}

#[test]
fn an_object_that_is_going_is_waited_for() {
    let manifest = deployment("i:1", json!({}));
    let mut live = applied(&manifest);
    live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(matches!(
        update(&manifest, &live, &terms()),
        Step::Done(Outcome::Delayed {
            reason: "BeingDeleted",
            ..
        })
    ));
}

#[test]
fn a_key_removed_from_a_secret_is_removed_live() {
    let secret = |data: Value| {
        decode(vec![
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}),
        ])
        .manifests
        .remove(0)
    };
    let before = secret(json!({"a": "YQ==", "b": "Yg=="}));
    let Step::Create {
        object,
        copy: Copy::Ledger(outline),
    } = decide(&before, None, None, Treatment::default(), &terms())
    else {
        panic!("not created")
    };
    let entry = LedgerEntry {
        last_applied: Some(outline),
        ..LedgerEntry::default()
    };
    let after = secret(json!({"a": "YQ=="}));
    let step = decide(
        &after,
        Some(&object),
        Some(&entry),
        Treatment::default(),
        &terms(),
    );
    let Step::Patch { patch, .. } = step else {
        panic!("no patch")
    };
    assert_eq!(patch["data"], json!({"b": null}));
}

#[test]
fn a_copy_that_no_longer_fits_leaves_the_annotation() {
    let config = |text: &str| {
        decode(vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
            "data": {"x": text}}),
        ])
        .manifests
        .remove(0)
    };
    let live = applied(&config("small"));
    let Step::Patch { patch, copy, .. } = update(&config(&"y".repeat(300_000)), &live, &terms()) else {
        panic!("no patch")
    };
    assert!(matches!(copy, Copy::Ledger(_)));
    let annotations = patch["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.get(annotation::LAST_APPLIED), Some(&Value::Null));
}

#[test]
fn d09_what_its_rule_called_complete_is_not_made_again_as_long_as_the_same_is_wanted() {
    let manifest = deployment("i:1", json!({}));
    let entry = |outcome, digest: &str| LedgerEntry {
        outcome,
        digest: Some(digest.to_owned()),
        ..LedgerEntry::default()
    };
    let config = |rules: Vec<ConditionRule>| roundhouse_api::bundle::ManifestConfig {
        condition_rules: rules,
        ..roundhouse_api::bundle::ManifestConfig::default()
    };
    let by_cel = |condition: &str| ConditionRule {
        condition: condition.into(),
        type_: ConditionRuleType::CEL,
        ..ConditionRule::default()
    };
    let digest = manifest.digest.as_str();
    for (rules, outcome, digest, expected) in [
        (vec![by_cel(COMPLETE)], LedgerOutcome::Completed, digest, true),
        (
            vec![ConditionRule::default()],
            LedgerOutcome::Completed,
            digest,
            true,
        ),
        (
            vec![by_cel("Ready"), by_cel(COMPLETE)],
            LedgerOutcome::Completed,
            digest,
            true,
        ),
        (vec![by_cel("Ready")], LedgerOutcome::Completed, digest, false),
        (vec![by_cel("")], LedgerOutcome::Completed, digest, false),
        (vec![], LedgerOutcome::Completed, digest, false),
        (vec![by_cel(COMPLETE)], LedgerOutcome::Applied, digest, false),
        (vec![by_cel(COMPLETE)], LedgerOutcome::Completed, "another", false),
    ] {
        let config = config(rules);
        let treatment = Treatment {
            config: Some(&config),
            ..Treatment::default()
        };
        let step = decide(
            &manifest,
            None,
            Some(&entry(outcome, digest)),
            treatment,
            &terms(),
        );
        let finished = step == Step::Done(Outcome::Applied(Applied::Finished));
        assert_eq!(finished, expected, "{config:?} {outcome:?}");
    }
}
