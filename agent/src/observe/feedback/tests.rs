use super::*;
use crate::observe::expression::{Allowance, subject, with_stack};
use roundhouse_api::bundle::{FeedbackExpression, FeedbackPath};
use serde_json::json;

fn key(group: &str, kind: &str) -> ObjectKey {
    ObjectKey {
        group: group.into(),
        kind: kind.into(),
        ..ObjectKey::default()
    }
}

fn paths(wanted: &[(&str, &str)]) -> bundle::FeedbackRule {
    let path = |(name, path): &(&str, &str)| FeedbackPath {
        name: (*name).into(),
        path: (*path).into(),
        version: String::new(),
    };
    bundle::FeedbackRule {
        type_: FeedbackType::JSONPaths,
        json_paths: wanted.iter().map(path).collect(),
        ..bundle::FeedbackRule::default()
    }
}

/// The values as `name=value`, and what is wrong.
fn read(rules: &[bundle::FeedbackRule], key: &ObjectKey, live: &Value) -> (Vec<String>, Option<String>) {
    let work = || {
        let mut left = 20;
        let rules: Vec<_> = rules
            .iter()
            .map(|rule| FeedbackRule::compile(rule, &mut left))
            .collect();
        collect(
            &rules,
            key,
            "v1",
            live,
            Some(&subject(live, &Allowance::default())),
        )
    };
    let (values, synced) = with_stack(work).unwrap();
    let show = |value: &FeedbackValue| {
        let field = &value.field_value;
        let text = match field.type_ {
            FieldValueType::Integer => field.integer.unwrap().to_string(),
            FieldValueType::String => field.string.clone().unwrap(),
            FieldValueType::Boolean => field.boolean.unwrap().to_string(),
            FieldValueType::JsonRaw => format!("raw {}", field.json_raw.clone().unwrap()),
        };
        format!("{}={text}", value.name)
    };
    (values.iter().map(show).collect(), synced.unwrap().0.err())
}

#[test]
fn d01_well_known_values_per_kind() {
    let well_known = [bundle::FeedbackRule::default()];
    let job = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1, "failed": 2}});
    let pod = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}], "phase": "Running"}});
    let workload = json!({"status": {"readyReplicas": 1, "replicas": 3, "availableReplicas": 2}});
    let daemons = json!({"status": {"numberReady": 1, "desiredNumberScheduled": 3, "numberAvailable": 2}});
    let replicas = vec!["ReadyReplicas=1", "Replicas=3", "AvailableReplicas=2"];
    for (group, kind, live, expected) in [
        ("apps", "Deployment", &workload, replicas.clone()),
        ("apps", "StatefulSet", &workload, replicas),
        ("apps", "Deployment", &json!({}), vec![]),
        (
            "apps",
            "DaemonSet",
            &daemons,
            vec!["NumberReady=1", "DesiredNumberScheduled=3", "NumberAvailable=2"],
        ),
        (
            "batch",
            "Job",
            &job,
            vec!["JobComplete=True", "JobSucceeded=1", "JobFailed=2"],
        ),
        ("", "Pod", &pod, vec!["PodReady=False", "PodPhase=Running"]),
    ] {
        let (values, fault) = read(&well_known, &key(group, kind), live);
        assert_eq!(values, expected, "{kind}");
        assert_eq!(fault, None, "{kind}");
    }
    let (values, fault) = read(&well_known, &key("", "ConfigMap"), &json!({}));
    assert!(values.is_empty());
    assert_eq!(fault.unwrap(), "WellKnownStatus: nothing is known of a ConfigMap");
}

#[test]
fn d02_paths_are_read_one_by_one() {
    let live = json!({"spec": {"replicas": 2, "paused": false}, "status": {"phase": "Up", "absent": null,
        "conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]}});
    let rule = paths(&[
        ("number", ".spec.replicas"),
        ("text", "{.status.phase}"),
        ("truth", ".spec.paused"),
        ("wrong", ".spec["),
        ("missing", ".status.none.at.all"),
        ("null", ".status.absent"),
        ("first", ".status.conditions[*].type"),
        ("filtered", ".status.conditions[?(@.type==\"B\")].status"),
    ]);
    let (values, fault) = read(&[rule], &key("", "Thing"), &live);
    assert_eq!(
        values,
        ["number=2", "text=Up", "truth=false", "first=A", "filtered=False"]
    );
    let fault = fault.unwrap();
    assert!(fault.starts_with("wrong: \".spec[\" is no JSONPath"), "{fault}");

    let mut versioned = paths(&[("old", ".spec.replicas"), ("now", ".spec.replicas")]);
    versioned.json_paths[0].version = "v1beta1".into();
    versioned.json_paths[1].version = "v1".into();
    let (values, fault) = read(&[versioned], &key("", "Thing"), &live);
    assert_eq!(values, ["now=2"]);
    assert_eq!(
        fault.unwrap(),
        "old: the object is of version v1, the path is for v1beta1"
    );
}

#[test]
fn d03_structures_are_reported_as_json_up_to_a_size() {
    let live = json!({"status": {"small": {"a": [1]}, "large": vec!["x".repeat(1024)], "text": "x".repeat(1025),
        "ratio": 0.5}});
    let rule = paths(&[
        ("small", ".status.small"),
        ("large", ".status.large"),
        ("text", ".status.text"),
        ("ratio", ".status.ratio"),
    ]);
    let (values, fault) = read(&[rule], &key("", "Thing"), &live);
    assert_eq!(values, [r#"small=raw {"a":[1]}"#, "ratio=raw 0.5"]);
    let fault = fault.unwrap();
    assert!(
        fault.contains("large: the value has 1028 bytes") && fault.contains("text: the text has 1025"),
        "{fault}"
    );
}

#[test]
fn values_by_expression() {
    let live = json!({"spec": {"replicas": 4}, "status": {"ready": 1}});
    let expression = |name: &str, text: &str| FeedbackExpression {
        name: name.into(),
        expression: text.into(),
    };
    let rule = bundle::FeedbackRule {
        type_: FeedbackType::CEL,
        cel_expressions: vec![
            expression("share", "object.status.ready * 100 / object.spec.replicas"),
            expression("list", "[object.status.ready]"),
            expression("broken", "object.none"),
            expression("invalid", "self"),
        ],
        ..bundle::FeedbackRule::default()
    };
    let (values, fault) = read(&[rule], &key("", "Thing"), &live);
    assert_eq!(values, ["share=25", "list=raw [1]"]);
    let fault = fault.unwrap();
    assert!(
        fault.contains("broken: No such key") && fault.contains("invalid: undeclared"),
        "{fault}"
    );
}

#[test]
fn a_secret_keeps_what_it_keeps() {
    let secret = json!({"metadata": {"name": "s", "annotations": {"a": "b",
        "kubectl.kubernetes.io/last-applied-configuration": "{}"}}, "type": "Opaque", "data": {"k": "dg=="}});
    let rule = paths(&[
        ("type", ".type"),
        ("data", ".data.k"),
        ("annotations", ".metadata.annotations"),
    ]);
    let (values, fault) = read(&[rule], &key("", "Secret"), &secret);
    assert_eq!(values, ["type=Opaque", r#"annotations=raw {"a":"b"}"#]);
    assert_eq!(fault, None);
}

#[test]
fn faults_are_bounded() {
    let wanted: Vec<(String, String)> = (0..50).map(|n| (format!("n{n}"), ".[".to_owned())).collect();
    let wanted: Vec<(&str, &str)> = wanted
        .iter()
        .map(|(name, path)| (name.as_str(), path.as_str()))
        .collect();
    let fault = read(&[paths(&wanted)], &key("", "Thing"), &json!({})).1.unwrap();
    assert!(fault.ends_with("; and 47 more"), "{fault}");
    let nameless = read(&[paths(&[("", ".a")])], &key("", "Thing"), &json!({}))
        .1
        .unwrap();
    assert!(nameless.contains("1 to 128 bytes"), "{nameless}");
}
