use super::*;
use proptest::prelude::*;
use serde_json::json;

fn live() -> Value {
    json!({"kind": "Widget", "metadata": {"name": "w", "namespace": "x", "managedFields": [1],
            "annotations": {"a": "b", "app.oam.dev/last-applied-configuration": "{}"}},
        "spec": {"replicas": 2, "ratio": 0.5, "big": 18446744073709551615_u64, "items": (0..200).collect::<Vec<_>>(),
            "text": "t".repeat(3000)},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "message": "m"}]}})
}

fn hidden(_: Option<&str>, path: &[&str]) -> bool {
    matches!(
        path,
        ["metadata", "managedFields"]
            | [
                "metadata",
                "annotations",
                "app.oam.dev/last-applied-configuration"
            ]
    )
}

fn evaluate(text: &str) -> Result<Value, String> {
    with_stack(|| {
        let expression =
            Expression::compile(text, &["object", "result"]).map_err(|error| error.to_string())?;
        let allowance = Allowance::default();
        let subject = Subject::new(&live(), &hidden, &allowance);
        let value = subject
            .evaluate(&expression, Some(true))
            .map_err(|error| error.to_string())?;
        convert::to_json(&value).ok_or_else(|| "no JSON".to_owned())
    })
    .unwrap()
}

#[test]
fn expressions_see_the_object() {
    for (text, expected) in [
        ("object.spec.replicas == 2", json!(true)),
        (
            "object.spec.replicas > 1 && object.status.phase in ['Running', 'Succeeded']",
            json!(true),
        ),
        (
            "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
            json!(true),
        ),
        (
            "object.status.conditions.filter(c, c.type == 'Ready').map(c, c.message)",
            json!(["m"]),
        ),
        ("has(object.status.missing) ? 1 : 2", json!(2)),
        ("object.status.?missing.orValue(7)", json!(null)),
        ("hasConditions(object.status)", json!(true)),
        ("hasConditions(object.spec)", json!(false)),
        ("result ? 'yes' : 'no'", json!("yes")),
        (
            "'%d of %s'.format([object.spec.replicas, 'all'])",
            json!("2 of all"),
        ),
        ("quantity('1Gi').isGreaterThan(quantity('500Mi'))", json!(true)),
        ("math.abs(-3)", json!(3)),
        ("object.metadata.annotations", json!({"a": "b"})),
        ("has(object.metadata.managedFields)", json!(false)),
        (
            "object.spec.items.map(i, i * 2).filter(i, i > 396).size()",
            json!(1),
        ),
        ("object.spec.ratio", json!(0.5)),
        ("object.status.phase.matches('^Run')", json!(true)),
        (
            "object.metadata.name + '/' + object.metadata['namespace']",
            json!("w/x"),
        ),
    ] {
        // The optional syntax is not part of what the parser is asked for.
        if text.contains(".?") {
            assert!(evaluate(text).is_err(), "{text}");
            continue;
        }
        assert_eq!(evaluate(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_can_never_be_evaluated_is_refused_when_it_is_compiled() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    for (text, says) in [
        ("object.(", "Syntax error"),
        ("", "Syntax error"),
        ("self.spec", "undeclared reference to \"self\""),
        ("lists.range(1000000000).size() > 0", "lists.range"),
        ("Message{field: 1}", "message"),
        (&nested(200), ""),
        (&"!".repeat(1000), ""),
        (&"-".repeat(1000), ""),
        (&format!("'{}'", "x".repeat(MAX_TEXT)), "bytes"),
        ("[1].map(a, [1].map(b, [1].map(c, [1].map(d, d))))", "loops"),
    ] {
        let error = with_stack(|| Expression::compile(text, &["object"]))
            .unwrap()
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{text:.60}: {error}");
        assert!(error.len() < 400, "{error}");
    }
}

#[test]
fn an_expression_that_costs_too_much_is_stopped() {
    for text in [
        // Every round copies the object.
        "object.spec.items.all(a, object.spec.items.all(b, object.spec.items.all(c, object.spec.text != '')))",
        "object.spec.items.map(a, object.spec.text).size() > 0 && object.spec.items.all(a, object.spec.items.all(b, \
         object.spec.text.size() > b))",
        // Doubles in each round.
        "[[object.spec.text]].map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, a + a).map(a, \
         object.spec.items.map(i, a + a + a + a))",
        "object.spec.items.all(a, object.spec.items.all(b, 'aaaa'.matches('a{1,100}')))",
    ] {
        assert_eq!(evaluate(text), Err(Failure::Budget.to_string()), "{text}");
    }
    for (text, says) in [
        (
            "object.spec.text.replace('', object.spec.text + object.spec.text)",
            "too many",
        ),
        ("'%.70000f'.format([1.0])", "two digits"),
        (
            "[object.spec.items, object.spec.items].flatten().size() > 0",
            "too many",
        ),
        ("1 / 0", ""),
        ("object.spec.items[5000]", ""),
        ("timestamp('x')", ""),
        ("duration('99999999999999999h')", ""),
        ("9223372036854775807 + 1", ""),
        ("-(-9223372036854775807 - 1)", ""),
        ("nothing(1)", ""),
    ] {
        let error = evaluate(text).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
        assert!(error.len() < 400, "{error}");
    }
}

#[test]
fn a_large_object_is_not_evaluated() {
    let large = json!({"data": {"a": "x".repeat(600 * 1024)}});
    let expression = Expression::compile("true", &["object"]).unwrap();
    assert!(matches!(
        Subject::new(&large, &hidden, &Allowance::default()).holds(&expression),
        Err(Failure::TooLarge(_))
    ));
}

#[test]
fn no_shape_of_an_expression_overflows_the_stack() {
    let nested = |open: &str, close: &str| {
        let (open, close) = (open.to_owned(), close.to_owned());
        move |n: usize| format!("{}'a'{}", open.repeat(n), close.repeat(n))
    };
    let repeated = |first: &str, more: &str| {
        let (first, more) = (first.to_owned(), more.to_owned());
        move |n: usize| format!("{first}{}", more.repeat(n))
    };
    let shapes: [Box<dyn Fn(usize) -> String + Sync>; 12] = [
        Box::new(nested("(", ")")),
        Box::new(nested("('b' + ", ")")),
        Box::new(nested("[", "]")),
        Box::new(nested("size([", "])")),
        Box::new(nested("true ? 1 : ", "")),
        Box::new(nested("!", "")),
        Box::new(repeated("'a'", ".lowerAscii()")),
        Box::new(repeated("1", " + 1")),
        Box::new(repeated("true", " && true")),
        Box::new(repeated("1", "+1")),
        Box::new(repeated("object", ".a")),
        Box::new(repeated("object", "[0]")),
    ];
    for shape in shapes {
        let compiles = |n: usize| Expression::compile(&shape(n), &["object"]).is_ok();
        assert!(with_stack(|| compiles(10)).unwrap(), "{}", shape(2));
        for n in [22, 24, 25, 60, 63, 64, 100, 500, 1000, 4000, 100_000] {
            let text = shape(n);
            with_stack(|| evaluate(&text).is_ok()).expect("the thread ends well");
            with_stack(|| Expression::of_rule(&text).is_ok()).expect("the thread ends well");
        }
    }
}

#[test]
fn rules_are_told_apart_by_what_they_may_cost() {
    for (text, is_costly) in [
        ("self.a > oldSelf.a && has(self.b)", false),
        ("type(self.a) == string ? self.a == 'x' : self.a == 3", false),
        ("self.a.all(x, x > 0)", true),
        ("self.a.replace('', self.b) == ''", true),
        ("self.a.matches('^a+$')", true),
    ] {
        let rule = with_stack(|| Expression::of_rule(text)).unwrap().unwrap();
        assert_eq!(rule.is_costly(), is_costly, "{text}");
    }
    let rule = with_stack(|| Expression::of_rule("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"));
    let rule = rule.unwrap().unwrap();
    let of = |length: i64| CelValue::List(Arc::new((0..length).map(CelValue::Int).collect()));
    let evaluate = |length| rule.evaluate(&[("self", of(length))], &Allowance::of(BUDGET));
    assert_eq!(evaluate(3), Ok(CelValue::Bool(true)));
    assert_eq!(evaluate(1000), Err(Failure::Budget));
}

#[test]
fn results_must_be_of_the_wanted_type() {
    let allowance = Allowance::default();
    let subject = Subject::new(&live(), &hidden, &allowance);
    let number = Expression::compile("object.spec.replicas", &["object"]).unwrap();
    assert!(
        subject
            .holds(&number)
            .unwrap_err()
            .to_string()
            .contains("expected a bool")
    );
    assert!(
        subject
            .text(&number, true)
            .unwrap_err()
            .to_string()
            .contains("expected a string")
    );
    assert_eq!(subject.json(&number), Ok(json!(2)));
}

/// Expressions as somebody might write them, well or badly, small parts put together.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "object",
        "object.spec",
        "object.spec.items",
        "object.spec.text",
        "object.status.conditions",
        "x",
        "1",
        "-1",
        "1u",
        "2.5",
        "'a'",
        "b'a'",
        "null",
        "true",
        "[]",
        "{}",
        "[1, 2]",
        "{'a': 1}",
        "duration('1s')",
        "result",
        "timestamp('2026-01-01T00:00:00Z')",
        "9223372036854775807",
        "quantity('1Gi')",
        "semver('1.2.3')",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", "&&", "||", "in",
        ]);
        let method = prop::sample::select(vec![
            "size()",
            "map(x, x + x)",
            "filter(x, x == x)",
            "all(x, x != x)",
            "exists_one(x, true)",
            "upperAscii()",
            "replace('a', 'b')",
            "split('')",
            "join(',')",
            "substring(1, 0)",
            "charAt(9)",
            "format([1])",
            "matches('(')",
            "find('a*')",
            "sort()",
            "distinct()",
            "first()",
            "slice(0, 9)",
            "getFullYear()",
            "getHours('x')",
            "sum()",
            "indexOf('b', -1)",
            "isSorted()",
            "flatten(9)",
            "lowerAscii()",
            "reverse()",
            "asInteger()",
            "major()",
        ]);
        prop_oneof![
            (two.clone(), operator).prop_map(|((a, b), operator)| format!("({a} {operator} {b})")),
            (inner.clone(), method).prop_map(|(a, method)| format!("{a}.{method}")),
            two.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
            two.prop_map(|(a, b)| format!("[{a}, {b}]")),
            inner.prop_map(|a| format!("(has(object.a) ? {a} : string({a}))")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_expression_is_answered(text in expressions()) {
        let _ = evaluate(&text);
    }

    #[test]
    fn any_text_is_answered(text in "\\PC{0,40}|[a-z(){}\\[\\].,'\"?:!&|+0-9-]{0,60}") {
        let _ = evaluate(&text);
    }
}
