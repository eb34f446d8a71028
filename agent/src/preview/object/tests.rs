use super::*;
use crate::apply::decode::decode;
use crate::apply::keep::Rules;
use crate::preview::difference::Shown;
use roundhouse_api::bundle::{Adopt, ApplyOnce, ManifestConfig};
use serde_json::json;

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

fn manifest(value: Value) -> Manifest {
    decode(vec![value]).manifests.remove(0)
}

fn deployment(image: &str, spec: Value) -> Manifest {
    let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "x"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
    if let (Some(fields), Value::Object(more)) = (value["spec"].as_object_mut(), spec) {
        fields.extend(more);
    }
    manifest(value)
}

/// The object as a server has it after `manifest` was applied: with defaults that the agent owns.
fn applied(manifest: &Manifest) -> Value {
    let Step::Create { mut object, .. } = decide(manifest, None, None, Treatment::default(), &terms()) else {
        panic!("not created")
    };
    object["metadata"]["uid"] = json!("u1");
    object["metadata"]["generation"] = json!(1);
    object["status"] = json!({"replicas": 2});
    let mut fields = json!({"f:spec": {"f:replicas": {}, "f:strategy": {"f:type": {}},
        "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}}}}}}});
    if manifest.key.kind == "Deployment" {
        object["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    } else {
        fields = json!({"f:data": {}});
    }
    object["metadata"]["managedFields"] =
        json!([{"manager": "roundhouse-agent", "operation": "Update", "fieldsV1": fields}]);
    object
}

fn owned_by(live: &mut Value, manager: &str, fields: &Value) {
    let entry = json!({"manager": manager, "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields});
    live["metadata"]["managedFields"]
        .as_array_mut()
        .unwrap()
        .push(entry);
}

fn look(manifest: &Manifest, live: Option<&Value>, terms: &Terms) -> Forecast {
    forecast(Sight {
        manifest,
        live,
        entry: None,
        treatment: Treatment::default(),
        terms,
        salt: b"salt",
    })
}

/// A forecast as one line for the object and one for each difference.
fn text(forecast: &Forecast) -> Vec<String> {
    let show = |shown: &Option<Shown>| match shown {
        None => "-".to_owned(),
        Some(Shown::Value(value)) => value.to_string(),
        Some(Shown::Digest(_)) => "<digest>".to_owned(),
        Some(Shown::NotKept) => "<not kept>".to_owned(),
    };
    let mut lines = vec![
        format!("{} {}", forecast.action.word(), forecast.reason)
            .trim()
            .to_owned(),
    ];
    lines.extend(forecast.differences.iter().map(|d| {
        let owners: Vec<&str> = d.owners.iter().map(|owner| owner.manager.as_str()).collect();
        let (last, live, desired) = (show(&d.last_applied), show(&d.live), show(&d.desired));
        format!(
            "{} {} {last} {live} {desired} {}",
            d.verdict.word(),
            d.path,
            owners.join(" ")
        )
        .trim()
        .to_owned()
    }));
    lines
}

fn check(manifest: &Manifest, live: &Value, terms: &Terms, expected: &[&str]) {
    assert_eq!(text(&look(manifest, Some(live), terms)), expected, "{live:#}");
}

#[test]
fn an_object_as_wanted_has_nothing_to_say_and_a_missing_one_is_made() {
    let web = deployment("i:1", json!({}));
    check(&web, &applied(&web), &terms(), &["Nothing"]);
    assert_eq!(text(&look(&web, None, &terms())), ["Create"]);
}

#[test]
fn an_image_changed_by_hand_is_a_conflict_with_the_name_of_its_owner() {
    let web = deployment("i:1", json!({}));
    let mut live = applied(&web);
    live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:hand");
    let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}}}}});
    live["metadata"]["managedFields"] = json!([]);
    owned_by(&mut live, "kubectl-edit", &fields);
    let line = "spec.template.spec.containers[name=main].image \"i:1\" \"i:hand\" \"i:1\" kubectl-edit";
    check(&web, &live, &terms(), &["Change", &format!("CONFLICT {line}")]);
    let once = Terms {
        apply_once: ApplyOnce::Once,
        ..terms()
    };
    check(
        &web,
        &live,
        &once,
        &["Nothing ApplyOnce", &format!("ONCE {line}")],
    );
    let report = Terms {
        drift: Drift::Report,
        ..terms()
    };
    check(
        &web,
        &live,
        &report,
        &["Nothing Drifted", &format!("ONCE {line}")],
    );
    // A new revision overwrites it in each mode.
    let next = deployment("i:2", json!({}));
    let line =
        "CONFLICT spec.template.spec.containers[name=main].image \"i:1\" \"i:hand\" \"i:2\" kubectl-edit";
    for terms in [once, report] {
        check(&next, &live, &terms, &["Change", line]);
    }
}

/// `ignoreFields` of a treatment.
fn ignoring(paths: &Value) -> ManifestConfig {
    let config = json!({"resourceIdentifier": {"resource": "*", "name": "*"},
        "updateStrategy": {"type": "Update", "ignoreFields": paths}});
    serde_json::from_value(config).unwrap()
}

#[test]
fn what_ignore_fields_or_an_apply_once_rule_keep_is_once_and_the_rest_is_not() {
    let before = deployment("i:1", json!({}));
    let next = deployment("i:2", json!({}));
    let mut live = applied(&before);
    live["spec"]["replicas"] = json!(9);
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
        .as_object_mut()
        .unwrap()
        .remove("f:replicas");
    owned_by(&mut live, "hpa", &json!({"f:spec": {"f:replicas": {}}}));
    let image =
        "CHANGE spec.template.spec.containers[name=main].image \"i:1\" \"i:1\" \"i:2\" roundhouse-agent";
    let kept = "ONCE spec.replicas 2 9 2 hpa";
    let ignored = ignoring(&json!(["spec.replicas"]));
    let until_change = ignoring(&json!([{"condition": "OnSpokeChange", "jsonPaths": [".spec.replicas"]}]));
    let rule = |affect: &str| {
        let rules = json!([{"selector": {"resourceTypes": ["Deployment"]},
            "strategy": {"path": ["spec.replicas"], "affect": affect}}]);
        let rules: Vec<_> = serde_json::from_value(rules).unwrap();
        Terms {
            rules: Rules::new(&rules),
            ..terms()
        }
    };
    let undone = "CONFLICT spec.replicas 2 9 2 hpa";
    for (name, config, terms, manifest, expected) in [
        ("none", None, terms(), &before, &["Change", undone][..]),
        ("ignored", Some(&ignored), terms(), &before, &["Nothing", kept]),
        (
            "ignored",
            Some(&ignored),
            terms(),
            &next,
            &["Change", kept, image],
        ),
        (
            "until change",
            Some(&until_change),
            terms(),
            &before,
            &["Nothing", kept],
        ),
        (
            "until change",
            Some(&until_change),
            terms(),
            &next,
            &["Change", undone, image],
        ),
        ("always", None, rule("always"), &before, &["Nothing", kept]),
        ("always", None, rule("always"), &next, &["Change", kept, image]),
        (
            "onStateKeep",
            None,
            rule("onStateKeep"),
            &before,
            &["Nothing", kept],
        ),
        (
            "onStateKeep",
            None,
            rule("onStateKeep"),
            &next,
            &["Change", undone, image],
        ),
        (
            "onUpdate",
            None,
            rule("onUpdate"),
            &next,
            &["Change", kept, image],
        ),
    ] {
        let forecast = forecast(Sight {
            manifest,
            live: Some(&live),
            entry: None,
            treatment: Treatment {
                config,
                ..Treatment::default()
            },
            terms: &terms,
            salt: b"salt",
        });
        assert_eq!(text(&forecast), expected, "{name}");
    }
}

#[test]
fn what_only_we_change_is_a_change() {
    let before = deployment("i:1", json!({"minReadySeconds": 60}));
    let live = applied(&before);
    check(
        &deployment("i:2", json!({"paused": true})),
        &live,
        &terms(),
        &[
            "Change",
            "CHANGE spec.minReadySeconds 60 60 -",
            "CHANGE spec.paused - - true",
            "CHANGE spec.template.spec.containers[name=main].image \"i:1\" \"i:1\" \"i:2\" roundhouse-agent",
        ],
    );
}

#[test]
fn what_others_add_is_kept_and_shown_as_a_whole_and_defaults_are_not_shown() {
    let web = deployment("i:1", json!({}));
    let mut live = applied(&web);
    let sidecar = json!({"name": "log", "image": "log:1"});
    live["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .push(sidecar);
    live["metadata"]["annotations"]["team"] = json!("payments");
    live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("3");
    let fields = json!({"f:metadata": {"f:annotations": {"f:team": {}}}, "f:spec": {"f:template": {"f:spec":
        {"f:containers": {"k:{\"name\":\"log\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}});
    owned_by(&mut live, "kubectl-patch", &fields);
    let status = json!({"f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}}});
    owned_by(&mut live, "kube-controller-manager", &status);
    live["metadata"]["managedFields"][2]["subresource"] = json!("status");
    check(
        &web,
        &live,
        &terms(),
        &[
            "Nothing",
            "KEEP metadata.annotations.team - \"payments\" - kubectl-patch",
            "KEEP spec.template.spec.containers[name=log] - {\"image\":\"log:1\",\"name\":\"log\"} - kubectl-patch",
        ],
    );
}

#[test]
fn what_was_removed_by_hand_is_a_conflict_and_what_we_drop_with_it_too() {
    let web = deployment("i:1", json!({}));
    let mut live = applied(&web);
    live["spec"].as_object_mut().unwrap().remove("replicas");
    check(&web, &live, &terms(), &["Change", "CONFLICT spec.replicas 2 - 2"]);
    let before = deployment("i:1", json!({"paused": true}));
    let mut live = applied(&before);
    live["spec"]["paused"] = json!(false);
    check(
        &web,
        &live,
        &terms(),
        &["Change", "CONFLICT spec.paused true false -"],
    );
}

#[test]
fn another_spelling_of_the_member_is_no_difference() {
    let web = deployment("i:1", json!({"progressDeadlineSeconds": "600"}));
    let mut live = applied(&web);
    live["spec"]["progressDeadlineSeconds"] = json!(600);
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:progressDeadlineSeconds"] = json!({});
    check(&web, &live, &terms(), &["Nothing"]);
}

#[test]
fn a_refused_object_shows_what_stands_against_it() {
    let web = deployment("i:1", json!({}));
    let mut live = web.object.clone();
    live["metadata"]["uid"] = json!("u1");
    live["spec"]["replicas"] = json!(7);
    check(
        &web,
        &live,
        &terms(),
        &["Refuse AdoptionDiffers", "CONFLICT spec.replicas - 7 2"],
    );
    live["metadata"]["annotations"] = json!({"roundhouse.dev/owned-by": "h/other"});
    check(&web, &live, &terms(), &["Refuse OwnedByAnotherBundle"]);
}

#[test]
fn a_new_revision_of_the_same_content_changes_stamps_only() {
    let stamped = |generation: &str| {
        manifest(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "annotations": {"app.oam.dev/generation": generation}}, "data": {"a": "b"}}))
    };
    check(
        &stamped("2"),
        &applied(&stamped("1")),
        &terms(),
        &["Change Stamps"],
    );
}

#[test]
fn values_of_secrets_are_digests_and_what_was_applied_last_is_told_by_the_ledger() {
    let secret = |password: &str| {
        manifest(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": {"a": "b"}},
            "stringData": {"password": password, "same": "same"}}),
        )
    };
    let (before, after) = (secret("hunter2"), secret("correct horse"));
    let entry = |applied: &Manifest| {
        let (_, copy) = desired(applied, "h/b", 0);
        let crate::apply::desired::Copy::Ledger(copy) = copy else {
            panic!("not in the ledger")
        };
        LedgerEntry {
            last_applied: Some(copy),
            digest: Some(applied.digest.clone()),
            ..LedgerEntry::default()
        }
    };
    let look = |manifest: &Manifest, live: &Value, entry: &LedgerEntry| {
        forecast(Sight {
            manifest,
            live: Some(live),
            entry: Some(entry),
            treatment: Treatment::default(),
            terms: &terms(),
            salt: b"salt",
        })
    };
    let mut live = applied(&before);
    assert_eq!(text(&look(&before, &live, &entry(&before))), ["Nothing"]);
    let ours = "CHANGE data.password <not kept> <digest> <digest> roundhouse-agent";
    assert_eq!(text(&look(&after, &live, &entry(&before))), ["Change", ours]);
    live["data"]["password"] = json!("Ynk=");
    live["metadata"]["managedFields"] = json!([]);
    owned_by(&mut live, "kubectl-edit", &json!({"f:data": {"f:password": {}}}));
    let forecast = look(&before, &live, &entry(&before));
    let theirs = "CONFLICT data.password <not kept> <digest> <digest> kubectl-edit";
    assert_eq!(text(&forecast), ["Change", theirs]);
    let printed = format!("{forecast:?}");
    for value in ["hunter2", "aHVudGVyMg", "Ynk"] {
        assert!(!printed.contains(value), "{value} in {printed}");
    }
    assert_ne!(forecast.differences[0].live, forecast.differences[0].desired);
}

#[test]
fn custom_kinds_and_sets() {
    let ours = manifest(
        json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"},
        "spec": {"list": [1, 2], "deep": {"a": 1}}}),
    );
    let mut live = applied(&ours);
    live["spec"]["list"] = json!([1]);
    live["spec"]["more"] = json!({"a": {"b": 1}});
    live["metadata"]["finalizers"] = json!(["x.io/hold"]);
    let fields = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"x.io/hold\"": {}}},
        "f:spec": {"f:more": {"f:a": {"f:b": {}}}, "f:list": {}}});
    owned_by(&mut live, "operator", &fields);
    check(
        &ours,
        &live,
        &terms(),
        &[
            "Change",
            "KEEP metadata.finalizers - [\"x.io/hold\"] - operator",
            "CONFLICT spec.list [1,2] [1] [1,2] operator",
            "KEEP spec.more - {\"a\":{\"b\":1}} - operator",
        ],
    );
}
