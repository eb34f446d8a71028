use super::*;
use proptest::prelude::*;
use roundhouse_expression::{Allowance, with_stack};
use serde_json::json;

fn names() -> StepNames {
    let mut names = StepNames::default();
    for (name, has_output) in [
        ("request", true),
        ("deploy-app", false),
        ("deploy", false),
        ("ask-it", true),
        ("2-x", true),
        ("in", true),
        ("output", true),
    ] {
        names.insert(name, has_output);
    }
    names
}

const ALL: [&str; 5] = ["status", "inputs", "context", "output", "fleet"];

fn parse(text: &str) -> Result<StepExpression, String> {
    StepExpression::parse(
        text,
        &names(),
        &ALL,
        &["conn-secret", "url"],
        &Compiled::default(),
    )
    .map_err(|error| error.to_string())
}

#[test]
fn names_are_put_into_brackets() {
    for (text, expected, references) in [
        (
            "request.output.responseCode == 200",
            "status[\"request\"].output.responseCode == 200",
            "request responseCode",
        ),
        ("status.deploy-app.failed", "status[\"deploy-app\"].failed", ""),
        ("status.deploy.failed", "status[\"deploy\"].failed", ""),
        ("status['deploy-app'].failed", "status[\"deploy-app\"].failed", ""),
        (
            "!status.deploy-app.failed && status . deploy . succeeded",
            "!status[\"deploy-app\"].failed && status[\"deploy\"] . succeeded",
            "",
        ),
        (
            "ask-it.output.body.url.startsWith('x')",
            "status[\"ask-it\"].output.body.url.startsWith('x')",
            "ask-it body.url",
        ),
        (
            "status.ask-it.output.items[0].a",
            "status[\"ask-it\"].output.items[0].a",
            "ask-it items",
        ),
        (
            "ask-it.output == request.output",
            "status[\"ask-it\"].output == status[\"request\"].output",
            "ask-it ,request ",
        ),
        ("2-x.output.a == 1", "status[\"2-x\"].output.a == 1", "2-x a"),
        ("status.in.failed", "status[\"in\"].failed", ""),
        (
            "inputs.conn-secret + inputs.url",
            "inputs[\"conn-secret\"] + inputs[\"url\"]",
            "",
        ),
        // The variable wins over a step of its name.
        ("output.status.connSecret", "output.status.connSecret", ""),
        (
            "status.output.output.a",
            "status[\"output\"].output.a",
            "output a",
        ),
        // Not in texts and comments, nor fields of other things.
        (
            "'request.output.a' == \"status.x\" // status.y",
            "'request.output.a' == \"status.x\" // status.y",
            "",
        ),
        (
            "context.request.output == 'it\\'s status.x'",
            "context.request.output == 'it\\'s status.x'",
            "",
        ),
        ("r'\\' == '''status.x''' ", "r'\\' == '''status.x''' ", ""),
        ("1 - 2 == fleet.ready-3", "1 - 2 == fleet.ready-3", ""),
    ] {
        let read = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read.cel(), expected);
        let named: Vec<String> = read
            .references()
            .iter()
            .map(|r| format!("{} {}", r.step, r.path))
            .collect();
        assert_eq!(named.join(","), references, "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, expected) in [
        (
            "status.deploy-ap.failed",
            "line 1, column 8: there is no step named \"deploy-ap\": did you mean \"deploy-app\"? known here: 2-x, ask-it, deploy, deploy-app, in, output, request (a difference needs spaces around its '-', and a name is also written status[\"deploy-ap\"])",
        ),
        (
            "true &&\n status['x'].failed",
            "line 2, column 9: there is no step named \"x\"",
        ),
        (
            "ask-at.output.x == 1",
            "line 1, column 1: there is no step named \"ask-at\": did you mean \"ask-it\"?",
        ),
        (
            "inputs.other",
            "line 1, column 8: the step has no input from \"other\": known here: conn-secret, url",
        ),
        (
            "deploy-app.output.x",
            "line 1, column 11: step \"deploy-app\" has no output",
        ),
        (
            "status.deploy-app.output",
            "line 1, column 18: step \"deploy-app\" has no output",
        ),
        (
            "request.responseCode == 200",
            "line 1, column 1: there is no \"request\" here, but status, inputs, context, output, fleet: of step \"request\" write request.output.…",
        ),
        ("nothing > 1", "line 1, column 1: there is no \"nothing\" here"),
        (
            "status.deploy-app.failed &&& true",
            "line 1, column 28: Syntax error",
        ),
        ("status.deploy-app.failed &&\n (1", "line 2, column"),
        ("", "Syntax error"),
        (&"(".repeat(100), "nests too deeply"),
        (&"x".repeat(5000), "more than the limit"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text:.60}: {error}");
    }
}

#[test]
fn a_variable_is_replaced_where_it_is_one() {
    let text = "output.status.output == 'output' && has(output.a) && output2 == output";
    let read =
        StepExpression::parse(text, &names(), &["output", "output2"], &[], &Compiled::default()).unwrap();
    assert_eq!(
        read.with_variable("output", "object"),
        "object.status.output == 'output' && has(object.a) && output2 == object"
    );
}

#[test]
fn the_seeds_forms_are_evaluated() {
    let status = json!({"request": {"phase": "succeeded", "failed": false, "output": {"responseCode": 200}},
        "deploy-app": {"failed": true}});
    let allowance = Allowance::default();
    let (inputs, context) = (json!({"url": "u"}), json!({"appName": "a"}));
    let variables = [("status", &status), ("inputs", &inputs), ("context", &context)];
    for (text, expected) in [
        ("request.output.responseCode == 200", Ok(true)),
        ("request.output.responseCode == 400", Ok(false)),
        (
            "status.deploy-app.failed && inputs.url == 'u' && context.appName == 'a'",
            Ok(true),
        ),
        ("request.output.body == 1", Err(())),
        ("1", Err(())),
    ] {
        let read = parse(text).unwrap();
        let subject = || read.holds(&Subject::over(&variables, &allowance)).map_err(|_| ());
        assert_eq!(with_stack(subject).unwrap(), expected, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,40}|(status|inputs|request|ask-it|output|\\.|-|\\[|\\]|'|\"|a| |\n|//|r'|\\\\|1){0,14}") {
        if let Err(error) = StepExpression::parse(&text, &names(), &ALL, &["url"], &Compiled::default()) {
            let lines = text.matches('\n').count() + 1;
            prop_assert!(error.line <= lines && error.column <= text.chars().count() + 2, "{error}");
        }
    }
}

#[test]
fn what_was_compiled_before_is_not_compiled_again_and_says_the_same() {
    let known = Compiled::default();
    for text in [
        "status.deploy-app.failed",
        "inputs.url == 'x'",
        "status.deploy-app.failed &&",
        "status.deploy-ap.failed",
        "\n  nothing.x",
        "[1, 2",
    ] {
        let parse = |known: &Compiled| {
            let read = StepExpression::parse(text, &names(), &ALL, &["url"], known);
            read.map(|read| (read.cel().to_owned(), read.compiled))
                .map_err(|misread| misread.to_string())
        };
        let (first, again, alone) = (parse(&known), parse(&known), parse(&Compiled::default()));
        match (first, again, alone) {
            (Ok(first), Ok(again), Ok(alone)) => {
                assert!(Arc::ptr_eq(&first.1, &again.1), "{text}");
                assert_eq!(first.0, alone.0);
            }
            (Err(first), Err(again), Err(alone)) => assert_eq!((&first, &first), (&again, &alone)),
            other => panic!("{text}: {other:?}"),
        }
    }
    // A name that is not there is refused before anything is compiled.
    assert_eq!(known.len(), 5);
}
