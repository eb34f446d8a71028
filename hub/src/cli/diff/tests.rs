use super::*;
use roundhouse_agent::preview::{Action, Difference, Held, ObjectPreview, Owner, Shown, Verdict};
use serde_json::{Value, json};

fn subject() -> Subject {
    Subject {
        namespace: "default".into(),
        application: "web".into(),
        cluster: ClusterName::new("east-1").unwrap(),
    }
}

fn structured_as(format: Format, preview: &Preview) -> String {
    let text = format.structured(|| structured::value(preview, &subject()));
    text.unwrap().unwrap()
}

fn object(group: &str, kind: &str, name: &str, action: Action) -> ObjectPreview {
    ObjectPreview {
        bundle: "default.web".into(),
        ordinal: Some(0),
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        namespace: "default".into(),
        name: name.into(),
        action,
        reason: String::new(),
        message: String::new(),
        differences: Vec::new(),
    }
}

fn difference(verdict: Verdict, path: &str, states: [Option<Value>; 3], manager: &str) -> Difference {
    let [last_applied, live, desired] = states.map(|state| state.map(Shown::Value));
    let owner = Owner {
        manager: manager.into(),
        operation: "Update".into(),
        subresource: String::new(),
        time: "2026-01-01T00:00:00Z".into(),
        ours: false,
    };
    let owners = if manager.is_empty() {
        Vec::new()
    } else {
        vec![owner]
    };
    Difference {
        path: path.into(),
        verdict,
        last_applied,
        live,
        desired,
        owners,
    }
}

/// One of everything.
fn sample() -> Preview {
    let mut web = object("apps", "Deployment", "web", Action::Change);
    let some = |value: Value| Some(value);
    web.differences = vec![
        difference(
            Verdict::Conflict,
            "spec.template.spec.containers[name=web].image",
            [
                some(json!("nginx:1.28")),
                some(json!("nginx:1.27")),
                some(json!("nginx:1.28")),
            ],
            "kubectl-edit",
        ),
        difference(
            Verdict::Keep,
            "spec.template.spec.containers[name=log]",
            [
                None,
                some(json!({"image": "registry.example/log:1", "name": "log", "tty": true})),
                None,
            ],
            "kubectl-patch",
        ),
        difference(
            Verdict::Change,
            "spec.minReadySeconds",
            [some(json!(60)), some(json!(60)), None],
            "",
        ),
        difference(
            Verdict::Once,
            "spec.replicas",
            [some(json!(2)), some(json!(9)), some(json!(2))],
            "hpa",
        ),
    ];
    let mut token = object("", "Secret", "token", Action::Change);
    let digest = |digest: &str| Some(Shown::Digest(digest.into()));
    token.differences = vec![Difference {
        last_applied: Some(Shown::NotKept),
        live: digest("0123456789ab"),
        desired: digest("ba9876543210"),
        ..difference(
            Verdict::Conflict,
            "data.password",
            [None, None, None],
            "kubectl-edit",
        )
    }];
    let mut foreign = object("", "Service", "web", Action::Refuse);
    foreign.reason = "OwnedByAnotherBundle".into();
    foreign.message = "the object belongs to bundle h/default.shop, not to h/default.web".into();
    let mut broken = object("", "", "", Action::Fail);
    (broken.namespace, broken.ordinal) = (String::new(), Some(3));
    broken.reason = "DecodingFailed".into();
    broken.message = "the manifest is a number, not an object".into();
    let mut old = object("batch", "Job", "old", Action::Delete);
    (old.ordinal, old.reason) = (None, "Pruned".into());
    old.message = "it is no longer in the bundle".into();
    Preview {
        objects: vec![
            web,
            token,
            foreign,
            broken,
            object("", "ConfigMap", "fresh", Action::Create),
            object("", "ConfigMap", "same", Action::Nothing),
            old,
        ],
        held: vec![Held {
            bundle: "default.web".into(),
            reason: "Paused".into(),
            message: "spec.paused is true: nothing is applied, pruned or deleted".into(),
        }],
    }
}

#[test]
fn what_a_reader_sees() {
    let preview = sample();
    insta::assert_snapshot!("table", table::draw(&preview, table::Width::Fitting, false));
    insta::assert_snapshot!("wide", table::draw(&preview, table::Width::Whole, false));
    insta::assert_snapshot!("tree", tree::draw(&preview, &subject(), false));
    insta::assert_snapshot!("yaml", structured_as(Format::Yaml, &preview));
    assert_eq!(
        summary(&preview, &subject()),
        "default/web on east-1: 7 objects, 6 to look at, 5 differences"
    );
}

#[test]
fn colours_change_nothing_but_the_verdicts() {
    let colored = table::draw(&sample(), table::Width::Fitting, true);
    let mut plain = colored.replace("\u{1b}[0m", "");
    for code in ["31", "33", "34", "36"] {
        let start = format!("\u{1b}[{code}m");
        assert!(colored.contains(&start), "{colored}");
        plain = plain.replace(&start, "");
    }
    assert_eq!(plain, table::draw(&sample(), table::Width::Fitting, false));
}

#[test]
fn when_all_is_well_it_is_short() {
    let preview = Preview {
        objects: vec![object("", "ConfigMap", "same", Action::Nothing)],
        held: Vec::new(),
    };
    assert_eq!(table::draw(&preview, table::Width::Fitting, false), "");
    assert_eq!(
        summary(&preview, &subject()),
        "default/web on east-1: 1 object, no difference"
    );
    assert_eq!(exit_code(&preview, true), ExitCode::SUCCESS);
    assert_eq!(exit_code(&sample(), true), ExitCode::from(DIFFERENT));
    assert_eq!(exit_code(&sample(), false), ExitCode::SUCCESS);
}

#[test]
fn yaml_and_json_say_the_same() {
    let json: Value = serde_json::from_str(&structured_as(Format::Json, &sample())).unwrap();
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let yaml = structured_as(Format::Yaml, &sample());
    assert_eq!(
        serde_saphyr::from_str_with_options::<Value>(&yaml, options).unwrap(),
        json
    );
}
