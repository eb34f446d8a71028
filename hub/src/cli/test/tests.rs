//! Cases from files to reports.

use super::{Args, Format, Outcome, Verdict, case, files, judge, report, run};
use std::{path::Path, process::ExitCode};

const APP: &str = "
applications:
- apiVersion: core.oam.dev/v1beta1
  kind: Application
  metadata: {name: w}
  spec:
    components: [{name: w, type: worker, properties: {image: a, replicas: 4}}]
    workflow: {steps: [{name: s, type: deploy, properties: {placement: [{replicas: \"50%\"}]}}]}
inventory:
- metadata: {name: a}
- metadata: {name: b}
";

fn outcome(expect: &str) -> Result<Option<String>, String> {
    outcome_of(&format!("name: case{APP}{expect}"))
}

fn outcome_of(text: &str) -> Result<Option<String>, String> {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("a.test.yaml");
    std::fs::write(&file, text).unwrap();
    let hide =
        |failure: crate::cli::Failure| failure.to_string().replace(home.path().to_str().unwrap(), "DIR");
    let cases = case::read(&file, None).map_err(hide)?;
    let actual = judge::actual(&cases[0]).map_err(hide)?;
    Ok(judge::compare(&cases[0], &actual).map(|text| text.replace(home.path().to_str().unwrap(), "DIR")))
}

#[test]
fn what_is_expected_is_compared_line_by_line() {
    for (expect, difference) in [
        (
            "expect: {placements: [{step: s, workload: Deployment default/w, clusters: {a: 1, b: 1}}]}",
            None,
        ),
        (
            "expect: {placements: [{step: s, workload: Deployment default/w, clusters: {a: 1, b: 1, c: 0}}]}",
            None,
        ),
        (
            "expect: {placements: [{step: s, workload: Deployment default/w, clusters: {a: 2}}]}",
            Some("step s, Deployment default/w\n  - a  2\n  + a  1\n  + b  1\n"),
        ),
        (
            "expect: {placements: []}",
            Some("step s, Deployment default/w\n  + a  1\n  + b  1\n"),
        ),
        (
            "expect: {placements: [{step: s, workload: Deployment default/w, clusters: {a: 1, b: 1}}, {step: s, workload: Job default/w, clusters: {}}]}",
            Some("step s, Job default/w\n  - no cluster\n"),
        ),
        (
            "expect: {unplaced: []}",
            Some("step s, Deployment default/w\n  + unplaced  2 of no rule: Unclaimed\n"),
        ),
        (
            "expect: {bundles: {a: [Deployment default/w]}}",
            Some("bundles\n  + b  Deployment default/w\n"),
        ),
        (
            "expect: {errors: [\"110%\"]}",
            Some("- refused: 110%\n+ the plan was not refused\n"),
        ),
    ] {
        assert_eq!(outcome(expect).unwrap().as_deref(), difference, "{expect}");
    }
}

/// By the words of the hub; and what a Namespace among the files allows is allowed.
#[test]
fn a_case_is_judged_by_its_tenancy() {
    let app = APP.replace(
        "{name: w, type: worker, properties: {image: a, replicas: 4}}",
        "{name: w, type: worker, properties: {image: a, replicas: 4}}, {name: ns, type: k8s-objects, \
         properties: {objects: [{apiVersion: v1, kind: Namespace, metadata: {name: other}}]}}",
    );
    let of = |tenancy: &str, namespace: &str, expect: &str| {
        let app = app.replace("applications:\n", &format!("applications:\n{namespace}"));
        outcome_of(&format!("name: case\n{tenancy}{app}expect: {expect}")).unwrap()
    };
    let refused = "{errors: ['spec.components[1].properties.objects[0].kind: Namespace other is not known to have a \
                   namespace, and the tenancy of this hub admits objects in namespace \"default\" only; an administrator \
                   may add Namespace to the annotation roundhouse.dev/allow-kinds of Namespace default']}";
    let placed = "{placements: [{step: s, workload: Deployment default/w, clusters: {a: 1, b: 1}}]}";
    assert_eq!(of("", "", placed), None, "everything, if nothing is said");
    assert_eq!(of("tenancy: open", "", placed), None);
    assert_eq!(of("tenancy: namespace", "", refused), None);
    let allows = "- {apiVersion: v1, kind: Namespace, metadata: {name: default, annotations: {roundhouse.dev/allow-kinds: Namespace}}}\n";
    assert_eq!(of("tenancy: namespace", allows, placed), None);
}

#[test]
fn a_refusal_is_compared_with_its_message() {
    let refused = format!("name: case{}", APP.replace("50%", "110%"));
    let of = |expect: &str| outcome_of(&format!("{refused}{expect}")).unwrap();
    assert_eq!(of("expect: {errors: [\"110%\", not accepted]}"), None);
    let other = of("expect: {errors: [\"120%\"]}").unwrap();
    assert!(
        other.starts_with("- 120%\nthe plan was refused with:\nerror: "),
        "{other}"
    );
    // What else is expected cannot be: of a plan that is refused nothing is there.
    assert_eq!(
        of("expect: {errors: [\"110%\"], placements: [], unplaced: [], bundles: {}}"),
        None
    );
    for (expect, difference) in [
        (
            "placements: [{step: s, workload: Deployment default/w, clusters: {a: 1, b: 1}}]",
            "step s, Deployment default/w\n  - a  1\n  - b  1\n",
        ),
        (
            "unplaced: [{step: s, workload: Deployment default/w, count: 2, reason: Unclaimed}]",
            "step s, Deployment default/w\n  - unplaced  2 of no rule: Unclaimed\n",
        ),
        (
            "bundles: {a: [Deployment default/w]}",
            "bundles\n  - a  Deployment default/w\n",
        ),
    ] {
        let text = of(&format!("expect: {{errors: [\"110%\"], {expect}}}"));
        let text = text.unwrap_or_else(|| panic!("{expect} passed"));
        assert!(
            text.starts_with("the plan was refused with:\nerror: ") && text.ends_with(difference),
            "{text}"
        );
    }
    let unexpected = of("expect: {unplaced: []}").unwrap();
    assert!(
        unexpected.starts_with("the plan was refused:\nerror: "),
        "{unexpected}"
    );
}

/// What stops a step is a failure of the case, unless it is expected.
#[test]
fn a_step_that_its_overrides_stop_is_an_error_of_the_plan() {
    let faulty = APP.replace(
        "placement: [{replicas: \"50%\"}]",
        "placement: [{replicas: \"50%\"}], overrides: [{clusters: [zz], target: {kind: Deployment, name: w}, patch: {spec: {paused: true}}}]",
    );
    let of = |expect: &str| outcome_of(&format!("name: case{faulty}{expect}")).unwrap();
    assert_eq!(of("expect: {errors: [\"step s: overrides[0]\"]}"), None);
    assert_eq!(of("expect: {errors: [\"overrides[0]\"], placements: []}"), None);
    let other = of("expect: {errors: [\"overrides[1]\"]}").unwrap();
    let start = "- overrides[1]\nthe plan is stopped:\n+ default/w: step s: overrides[0] of ";
    assert!(other.starts_with(start), "{other}");
    for expect in [
        "expect: {placements: []}",
        "expect: {unplaced: []}",
        "expect: {bundles: {}}",
    ] {
        let text = of(expect).unwrap_or_else(|| panic!("{expect} passed"));
        assert!(
            text.starts_with("the plan is stopped:\n+ default/w: step s: "),
            "{text}"
        );
    }
}

/// A duplicate rule beside a share: the cluster runs the full count, not both together.
#[test]
fn what_is_expected_is_what_runs() {
    let twice = APP.replace(
        "placement: [{replicas: \"50%\"}]",
        "placement: [{clusters: [a], replicas: \"100%\"}, {}]",
    );
    assert_ne!(twice, APP);
    let expect = "expect: {placements: [{step: s, workload: Deployment default/w, clusters: {a: 4, b: 4}}]}";
    assert_eq!(outcome_of(&format!("name: case{twice}{expect}")).unwrap(), None);
}

#[test]
fn a_case_that_cannot_be_understood_is_an_error() {
    for (text, cause) in [
        (format!("name: case{APP}expects: {{}}"), "unknown field `expects`"),
        (
            format!("name: case{APP}expect: {{placement: []}}"),
            "unknown field `placement`",
        ),
        (
            format!("name: case{APP}expect: {{}}"),
            "it expects nothing, so that it could not fail",
        ),
        (
            format!("name: case{APP}expect: {{errors: []}}"),
            "expect.errors is empty, so that any refusal would pass: give parts of the message, or leave it out\n",
        ),
        (
            format!("name: case{APP}expect: {{errors: [\"110%\", \" \"]}}"),
            "expect.errors[1] is empty, so that any message would pass: give a part of the message\n",
        ),
        (
            "name: case\ninventory: []\nexpect: {errors: [a]}".to_owned(),
            "it has neither files nor applications",
        ),
        (
            format!(
                "name: case{APP}previous: [{{step: s, workload: w, clusters: {{}}}}]\nexpect: {{unplaced: []}}"
            ),
            "workload \"w\" is not of the form `Deployment default/web`",
        ),
        (
            format!(
                "name: case{APP}previous: [{{application: default/v, step: s, workload: Deployment default/w, clusters: {{}}}}]\nexpect: {{unplaced: []}}"
            ),
            "there is no Application default/v: use one of default/w",
        ),
        (
            format!(
                "name: case{APP}previous: [{{step: t, workload: Deployment default/w, clusters: {{a: 1}}}}]\nexpect: {{unplaced: []}}"
            ),
            "default/w has no placing step t (known: s)",
        ),
        (
            format!(
                "name: case{APP}previous: [{{step: s, workload: Deployment default/v, clusters: {{a: 1}}}}]\nexpect: {{unplaced: []}}"
            ),
            "default/w has no workload Deployment default/v (known: Deployment default/w)",
        ),
        (
            format!(
                "name: case{APP}previous: [{{step: s, workload: Deployment default/w, rule: east, clusters: {{a: 1}}}}]\nexpect: {{unplaced: []}}"
            ),
            "default/w has no rule east in step s (known: rule-0)",
        ),
    ] {
        let failure = outcome_of(&text).unwrap_err();
        assert!(
            failure.starts_with("error: DIR/a.test.yaml, document 1 (line 1)"),
            "{failure}"
        );
        assert!(
            failure.contains(&format!("[E-TEST]\ncause: {cause}")),
            "{failure}"
        );
    }
}

#[test]
fn what_was_there_before_stays_where_it_can() {
    let text = format!("name: case{}", APP.replace("50%", "75%"));
    let of = |previous: &str, clusters: &str| {
        outcome_of(&format!(
            "{text}previous: [{{step: s, workload: Deployment default/w, clusters: {previous}}}]\nexpect: {{placements: [{{step: s, workload: Deployment default/w, clusters: {clusters}}}]}}"
        ))
    };
    assert_eq!(of("{a: 2, b: 1}", "{a: 2, b: 1}").unwrap(), None);
    assert_eq!(of("{a: 1, b: 2}", "{a: 1, b: 2}").unwrap(), None);
}

#[test]
fn expectations_are_written_anew_and_pass_then() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("a.test.yaml");
    let first = format!("# why\nname: first{APP}expect:\n  placements: []\n  bundles: {{}}\n");
    let second = format!(
        "name: second{}# stays\nexpect: {{errors: [no such words]}}\n",
        APP.replace("50%", "110%")
    );
    std::fs::write(&file, format!("{first}---\n{second}")).unwrap();
    let args = |update| Args {
        tenancy: None,
        path: home.path().to_owned(),
        update,
        output: Format::Tap,
    };
    assert_eq!(run(&args(false)).unwrap(), ExitCode::FAILURE);
    assert_eq!(run(&args(true)).unwrap(), ExitCode::SUCCESS);
    assert_eq!(run(&args(false)).unwrap(), ExitCode::SUCCESS);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# why\nname: first\n") && text.contains("# stays\nexpect:\n"),
        "{text}"
    );
    assert!(
        !text.contains("unplaced"),
        "only what the case looked at is written: {text}"
    );
    insta::assert_snapshot!("updated", text);
}

#[test]
fn a_directory_without_a_case_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.yaml"), "a: 1").unwrap();
    let failure = files(home.path()).unwrap_err().to_string();
    assert!(failure.contains("has no test [E-NOTESTS]"), "{failure}");
    let failure = files(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(
        failure.contains("/nonexistent has no test [E-NOTESTS]"),
        "{failure}"
    );
    std::fs::create_dir(home.path().join("inner")).unwrap();
    std::fs::write(home.path().join("inner/b.test.yml"), "").unwrap();
    assert_eq!(
        files(home.path()).unwrap(),
        [home.path().join("inner/b.test.yml")]
    );
}

#[test]
fn the_samples_pass() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/samples/policies");
    let mut cases = 0;
    for file in files(&samples).unwrap() {
        for case in case::read(&file, None).unwrap() {
            let actual = judge::actual(&case).unwrap();
            assert_eq!(judge::compare(&case, &actual), None, "{}", case.name);
            cases += 1;
        }
    }
    assert_eq!(cases, 4);
}

#[test]
fn reports_say_the_same_to_people_and_machines() {
    let outcome = |name: &str, verdict| Outcome {
        name: name.to_owned(),
        file: "a.test.yaml".to_owned(),
        verdict,
    };
    let outcomes = [
        outcome("passes", Verdict::Passed),
        outcome(
            "fails # <&\"> \u{1}",
            Verdict::Failed("step s\n  - a  2 <&>\n  + a  1\n".to_owned()),
        ),
        outcome("is new", Verdict::Updated),
    ];
    insta::assert_snapshot!("text", report::text(&outcomes));
    insta::assert_snapshot!("tap", report::tap(&outcomes));
    insta::assert_snapshot!("junit", report::junit("policies", &outcomes));
}
