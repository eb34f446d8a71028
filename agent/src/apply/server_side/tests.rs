use super::*;
use crate::apply::decode::decode;
use roundhouse_api::bundle::{ManifestConfig, UpdateStrategyType};
use roundhouse_patch::field::FieldPath;
use roundhouse_patch::managed::{Applied, Apply, ApplyError, Scope, Write, apply, built_in};

/// An API server's answer to a write, by the functions that the embedded one uses.
fn server(live: Option<&Value>, config: &Value, manager: &str, force: bool) -> Result<Value, ApplyError> {
    let mut config = config.clone();
    config["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let entries = live.map_or(Value::Null, |live| live["metadata"]["managedFields"].clone());
    let mut base = live.cloned();
    if let Some(base) = &mut base {
        base["metadata"].as_object_mut().unwrap().remove("managedFields");
    }
    let write = Write {
        manager,
        api_version: "apps/v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    };
    let Applied { mut object, entries } = apply(
        base.as_ref(),
        &config,
        read_entries(&entries).unwrap(),
        &Apply { write, force },
        built_in("apps/v1", "Deployment").unwrap(),
        &Scope::all(),
    )?;
    object["metadata"]["managedFields"] = write_entries(entries);
    Ok(object)
}

/// The live object after somebody who is not an applier set its replicas.
fn scaled(live: &Value, manager: &str, replicas: u32) -> Value {
    let mut live = live.clone();
    live["spec"]["replicas"] = json!(replicas);
    let entries = live["metadata"]["managedFields"].as_array_mut().unwrap();
    for entry in entries.iter_mut() {
        if let Some(spec) = entry
            .pointer_mut("/fieldsV1/f:spec")
            .and_then(Value::as_object_mut)
        {
            spec.remove("f:replicas");
        }
    }
    entries.push(
        json!({"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "time": "2026-01-02T00:00:00Z", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}),
    );
    live
}

fn web(replicas: u32, image: &str) -> Manifest {
    decode(vec![json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "x"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "main", "image": image, "args": ["a", "b"], "ports": [{"containerPort": 80}]}]}}}})])
    .manifests
    .remove(0)
}

const US: &str = AGENT_FIELD_MANAGER;

fn config(manifest: &Manifest, live: Option<&Value>, kept: &[&FieldPath]) -> Value {
    let exempt = Exempt {
        ignored: kept,
        keeping: None,
    };
    let over = live.map(|live| Over {
        live,
        entry: None,
        exempt,
    });
    configuration(manifest, "h/b", over, US)
}

#[test]
fn what_was_applied_holds_until_something_of_ours_differs() {
    let first = config(&web(2, "i:1"), None, &[]);
    let live = server(None, &first, US, false).unwrap();
    assert!(holds(&first, &live, US));
    let edited = |pointer: &str, value: Value| {
        let mut live = live.clone();
        *live.pointer_mut(pointer).unwrap() = value;
        live
    };
    let mut beside = live.clone();
    beside["spec"]["paused"] = json!(true);
    beside["spec"]["template"]["spec"]["containers"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({"name": "sidecar"}));
    beside["spec"]["template"]["spec"]["volumes"][0]["emptyDir"]["medium"] = json!("Memory");
    beside["spec"]["template"]["spec"]["containers"][1]["ports"][0]["protocol"] = json!("TCP");
    let mut stripped = live.clone();
    stripped["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    let more = config(&web(2, "i:1"), Some(&live), &[]);
    let mut fewer = more.clone();
    fewer["spec"].as_object_mut().unwrap().remove("replicas");
    let main = "/spec/template/spec/containers/0";
    for (what, config, live, expected) in [
        ("what others added", &first, &beside, true),
        ("a resource version in the configuration", &more, &live, true),
        ("a value", &first, &edited("/spec/replicas", json!(3)), false),
        (
            "a value in a list",
            &first,
            &edited(&format!("{main}/image"), json!("i:9")),
            false,
        ),
        (
            "an atomic list",
            &first,
            &edited(&format!("{main}/args"), json!(["a"])),
            false,
        ),
        (
            "an element that is gone",
            &first,
            &edited("/spec/template/spec/containers", json!([])),
            false,
        ),
        (
            "our stamp",
            &first,
            &edited("/metadata/annotations", json!({})),
            false,
        ),
        (
            "another content",
            &config(&web(2, "i:2"), None, &[]),
            &live,
            false,
        ),
        ("a field left out", &fewer, &live, false),
        ("no managed fields", &first, &stripped, false),
    ] {
        assert_eq!(holds(config, live, US), expected, "{what}");
    }
    assert!(!holds(&first, &live, "another"));
}

#[test]
fn an_ignored_field_stays_with_whoever_owns_it() {
    let replicas = FieldPath::parse(".spec.replicas").unwrap();
    let kept = [&replicas];
    let live = server(None, &config(&web(2, "i:1"), None, &kept), US, false).unwrap();
    // Nobody else touched it: it is ours, and a later change must not lose it.
    let second = config(&web(2, "i:2"), Some(&live), &kept);
    assert_eq!(second["spec"]["replicas"], 2);
    let applied = server(Some(&live), &second, US, false).unwrap();
    assert_eq!(applied["spec"]["replicas"], 2);
    // An autoscaler has it: it is left out, nothing is to be sent, and a later change does not touch it.
    let scaled = scaled(&live, "hpa", 7);
    let same = config(&web(2, "i:1"), Some(&scaled), &kept);
    assert_eq!(same["spec"].get("replicas"), None);
    assert!(holds(&same, &scaled, US));
    let second = config(&web(3, "i:2"), Some(&scaled), &kept);
    assert!(!holds(&second, &scaled, US));
    let applied = server(Some(&scaled), &second, US, false).unwrap();
    assert_eq!(applied["spec"]["replicas"], 7);
    assert!(holds(
        &config(&web(3, "i:2"), Some(&applied), &kept),
        &applied,
        US
    ));
    // Not ignored, it is in conflict.
    let plain = config(&web(3, "i:2"), Some(&scaled), &[]);
    assert!(matches!(
        server(Some(&scaled), &plain, US, false),
        Err(ApplyError::Conflicts(_))
    ));
    assert_eq!(
        server(Some(&scaled), &plain, US, true).unwrap()["spec"]["replicas"],
        3
    );
}

#[test]
fn what_others_set_at_an_ignored_path_that_the_manifest_lacks_stays_theirs() {
    let note = FieldPath::parse("/spec/template/metadata/annotations/note").unwrap();
    let mut live = server(None, &config(&web(2, "i:1"), None, &[]), US, false).unwrap();
    live["spec"]["template"]["metadata"] = json!({"annotations": {"note": "theirs"}});
    live["metadata"]["managedFields"].as_array_mut().unwrap().push(json!({"manager": "kubectl",
        "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:template":
            {"f:metadata": {"f:annotations": {".": {}, "f:note": {}}}}}}}));
    let again = config(&web(2, "i:1"), Some(&live), &[&note]);
    assert_eq!(again["spec"]["template"].get("metadata"), None);
    assert!(holds(&again, &live, US));
}

#[test]
fn ignored_elements_of_a_long_list_are_left_out_each_by_its_own_place() {
    let names: Vec<String> = (0..12).map(|at| format!("E{at}")).collect();
    let mut manifest = web(2, "i:1");
    let env = names.iter().map(|name| json!({"name": name, "value": "1"}));
    manifest.object["spec"]["template"]["spec"]["containers"][0]["env"] = env.collect();
    let live = server(None, &config(&manifest, None, &[]), "another", false).unwrap();
    let ignored = ["E2", "E10"].map(|name| {
        FieldPath::parse(&format!(
            "spec.template.spec.containers[name=main].env[name={name}]"
        ))
        .unwrap()
    });
    let again = config(&manifest, Some(&live), &[&ignored[0], &ignored[1]]);
    let left = again["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap();
    let left: Vec<&str> = left.iter().filter_map(|entry| entry["name"].as_str()).collect();
    let expected = names
        .iter()
        .filter(|name| !["E2", "E10"].contains(&name.as_str()));
    assert_eq!(left, expected.collect::<Vec<_>>());
}

#[test]
fn b16_what_we_wrote_before_is_handed_to_the_field_manager() {
    let mut live = web(2, "i:1").object;
    let written = json!({"f:spec": {"f:replicas": {}, "f:minReadySeconds": {}}});
    live["spec"]["minReadySeconds"] = json!(5);
    let entry = |manager: &str, operation: &str, fields: &Value| {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    };
    let other = entry("kubectl", "Update", &json!({"f:spec": {"f:paused": {}}}));
    live["metadata"]["managedFields"] = json!([entry(US, "Update", &written), other]);
    // Without it we would be in conflict with ourselves.
    let next = config(&web(3, "i:1"), None, &[]);
    assert!(server(Some(&live), &next, "mine", false).is_err());
    for manager in [US, "mine"] {
        let fields = taken_over(&live, manager).unwrap();
        let mut handed = live.clone();
        handed["metadata"]["managedFields"] = fields;
        assert_eq!(taken_over(&handed, manager), None, "once is enough");
        let applied = server(Some(&handed), &next, manager, false).unwrap();
        assert_eq!(applied["spec"]["replicas"], 3);
        assert_eq!(
            applied["spec"].get("minReadySeconds"),
            None,
            "left out, and ours alone: removed"
        );
        let managers = applied["metadata"]["managedFields"].as_array().unwrap();
        assert!(managers.iter().any(|entry| entry["manager"] == "kubectl"));
    }
    // Another field manager than before.
    let applied = server(None, &next, US, false).unwrap();
    assert_eq!(taken_over(&applied, US), None);
    let fields = taken_over(&applied, "mine").unwrap();
    assert_eq!(
        (fields.as_array().unwrap().len(), &fields[0]["manager"]),
        (1, &json!("mine"))
    );
    live["metadata"]["managedFields"] = json!([other]);
    assert_eq!(taken_over(&live, US), None);
}

#[test]
fn the_manner_of_a_treatment() {
    for (strategy, manager, force) in [
        (json!({"type": "ServerSideApply"}), US, false),
        (
            json!({"type": "ServerSideApply", "serverSideApply": {"force": true}}),
            US,
            true,
        ),
        (
            json!({"type": "ServerSideApply", "serverSideApply": {"fieldManager": "mine"}}),
            "mine",
            false,
        ),
    ] {
        let config = json!({"resourceIdentifier": {}, "updateStrategy": strategy});
        let config: ManifestConfig = serde_json::from_value(config).unwrap();
        let treatment = Treatment {
            config: Some(&config),
            type_: UpdateStrategyType::ServerSideApply,
        };
        let manager = manager.to_owned();
        assert_eq!(manner(treatment), Manner { manager, force });
    }
}

#[test]
fn conflicts_name_managers_and_fields() {
    let cause = |message: &str, field: &str| json!({"reason": "FieldManagerConflict", "message": message, "field": field});
    let status = |code: u16, causes: &[Value]| -> Status {
        serde_json::from_value(json!({"code": code, "details": {"causes": causes}})).unwrap()
    };
    let hpa = cause(
        "conflict with \"hpa\" with subresource \"scale\" using apps/v1",
        ".spec.replicas",
    );
    let nobody = cause(
        "conflict with \"before-first-apply\" using apps/v1",
        ".spec.paused",
    );
    let found = conflicts(&status(409, &[hpa.clone(), nobody.clone()]));
    let text = conflict_message(&ObjectKey::default(), &found);
    assert!(
        text.contains(".spec.replicas (of hpa), .spec.paused (of before-first-apply)"),
        "{text}"
    );
    assert!(text.contains("force") && text.contains("ignoreFields"), "{text}");
    assert!(!are_nobodys(&found) && !are_nobodys(&[]));
    assert!(are_nobodys(&conflicts(&status(409, &[nobody]))));
    assert_eq!(conflicts(&status(409, &[])), []);
    assert_eq!(conflicts(&status(422, std::slice::from_ref(&hpa))), []);
    let many = conflict_message(&ObjectKey::default(), &conflicts(&status(409, &vec![hpa; 8])));
    assert!(many.contains("and 3 more"), "{many}");
}
