use super::*;
use crate::observe::expression::{Allowance, subject, with_stack};
use serde_json::json;

fn key(group: &str, kind: &str) -> ObjectKey {
    ObjectKey {
        group: group.into(),
        kind: kind.into(),
        ..ObjectKey::default()
    }
}

fn cel(condition: &str, expressions: &[&str]) -> bundle::ConditionRule {
    bundle::ConditionRule {
        condition: condition.into(),
        type_: ConditionRuleType::CEL,
        cel_expressions: expressions.iter().map(|text| (*text).to_owned()).collect(),
        ..bundle::ConditionRule::default()
    }
}

fn conditions(rules: &[bundle::ConditionRule], key: &ObjectKey, live: &Value) -> Vec<RuleCondition> {
    let work = || {
        let mut left = 20;
        let rules: Vec<_> = rules
            .iter()
            .map(|rule| ConditionRule::compile(rule, &mut left))
            .collect();
        evaluate(&rules, key, live, Some(&subject(live, &Allowance::default())))
    };
    with_stack(work).unwrap()
}

/// `True`, `False` with the reason after it, and the message.
fn says(rule: &bundle::ConditionRule, live: &Value) -> (String, String) {
    let condition = conditions(std::slice::from_ref(rule), &key("example.com", "Widget"), live).remove(0);
    let reason = condition.reason.trim_start_matches("ConditionRule");
    (
        format!("{} {reason}", condition.status.as_str()),
        condition.message,
    )
}

#[test]
fn d06_well_known_completion() {
    let job =
        |type_: &str, status: &str| json!({"status": {"conditions": [{"type": type_, "status": status}]}});
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let rule = bundle::ConditionRule::default();
    for (group, kind, live, status, message) in [
        ("batch", "Job", job("Complete", "True"), "True", "Job is finished"),
        ("batch", "Job", job("Failed", "True"), "True", "Job is finished"),
        (
            "batch",
            "Job",
            job("Complete", "False"),
            "False",
            "Job is not finished",
        ),
        ("batch", "Job", json!({}), "False", "Job is not finished"),
        ("", "Pod", phase("Succeeded"), "True", "Pod is finished"),
        ("", "Pod", phase("Failed"), "True", "Pod is finished"),
        ("", "Pod", phase("Running"), "False", "Pod is not finished"),
        ("", "Pod", json!({}), "False", "Pod is not finished"),
    ] {
        let found = conditions(std::slice::from_ref(&rule), &key(group, kind), &live).remove(0);
        assert_eq!(
            (found.type_.as_str(), found.status.as_str()),
            (COMPLETE, status),
            "{kind} {live}"
        );
        assert_eq!(
            (found.reason, found.message.as_str()),
            (EVALUATED, message),
            "{kind} {live}"
        );
    }
    let unknown = conditions(&[rule], &key("", "ConfigMap"), &json!({})).remove(0);
    assert_eq!((unknown.status, unknown.reason), (Status::False, INVALID));
}

#[test]
fn d07_conditions_by_cel_and_what_is_wrong_with_them() {
    let live = json!({"spec": {"replicas": 2}, "status": {"phase": "Up"}});
    let message = bundle::ConditionRule {
        message: "fixed".into(),
        ..cel("Ready", &["true"])
    };
    let by_expression = bundle::ConditionRule {
        message: "fixed".into(),
        message_expression: "object.status.phase + (result ? ' and well' : ' but not')".into(),
        ..cel("Ready", &["object.spec.replicas == 3"])
    };
    let bad_message = bundle::ConditionRule {
        message_expression: "object.none".into(),
        ..cel("Ready", &["true"])
    };
    let untyped_message = bundle::ConditionRule {
        message_expression: "1".into(),
        ..cel("Ready", &["true"])
    };
    for (rule, status, text) in [
        (
            cel("Ready", &["object.status.phase == 'Up'"]),
            "True Evaluated",
            "Manifest is Ready",
        ),
        (
            cel("Ready", &["object.status.phase == 'Down'"]),
            "False Evaluated",
            "Manifest is not Ready",
        ),
        (cel("Ready", &["true", "true"]), "True Evaluated", ""),
        (cel("Ready", &["true", "false"]), "False Evaluated", ""),
        // The first that does not hold ends it.
        (
            cel("Ready", &["false", "object.none.at.all"]),
            "False Evaluated",
            "",
        ),
        (message, "True Evaluated", "fixed"),
        (by_expression, "False Evaluated", "Up but not"),
        (bad_message, "False EvaluationFailed", "No such key"),
        (untyped_message, "False EvaluationFailed", "expected a string"),
        (
            cel("Ready", &["object.none"]),
            "False EvaluationFailed",
            "No such key",
        ),
        (
            cel("Ready", &["object.spec.replicas"]),
            "False EvaluationFailed",
            "expected a bool",
        ),
        (cel("Ready", &["object.("]), "False Invalid", "Syntax error"),
        (cel("Ready", &["self.x"]), "False Invalid", "undeclared"),
        (cel("Ready", &[]), "False Invalid", "at least one"),
        (cel("", &["true"]), "False Invalid", "no condition type"),
        (cel("no spaces", &["true"]), "False Invalid", "no condition type"),
        (cel("Applied", &["true"]), "False Invalid", "set by the agent"),
        (cel("Ready", &["true"; 21]), "False Invalid", "more than"),
    ] {
        let (found, said) = says(&rule, &live);
        assert_eq!(found, status, "{rule:?}: {said}");
        assert!(said.contains(text), "{rule:?}: {said}");
    }
}

#[test]
fn a_poison_expression_leaves_the_others_alone() {
    let live = json!({"spec": {"items": (0..500).collect::<Vec<_>>(), "text": "t".repeat(2000)}});
    let poison = "object.spec.items.all(a, object.spec.items.all(b, object.spec.text != ''))";
    let rules = [
        cel("A", &[poison]),
        cel("B", &["true"]),
        cel("C", &["object.("]),
        cel("D", &["true"]),
    ];
    let found = conditions(&rules, &key("", "ConfigMap"), &live);
    let found: Vec<_> = found
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason))
        .collect();
    assert_eq!(
        found,
        [
            ("A", "False", EVALUATION_FAILED),
            ("B", "True", EVALUATED),
            ("C", "False", INVALID),
            ("D", "True", EVALUATED)
        ]
    );
}

#[test]
fn of_two_rules_with_one_type_the_later_counts() {
    let found = conditions(
        &[cel("A", &["true"]), cel("A", &["false"])],
        &key("", "Pod"),
        &json!({}),
    );
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].status, Status::False);
}

#[test]
fn rules_decide_the_readiness_instead_of_the_table() {
    let condition = |type_: &str, status: Status, reason: &'static str| RuleCondition {
        type_: type_.into(),
        status,
        reason,
        message: "m".into(),
    };
    let verdict = |conditions: &[RuleCondition], table| match decide(conditions, table) {
        Readiness::Ready => "ready".to_owned(),
        Readiness::Progressing(_) => "progressing".to_owned(),
        Readiness::Failed { reason, .. } => reason,
    };
    use Status::{False, True};
    let (ready, waiting) = (Readiness::Ready, Readiness::progressing("w"));
    for (conditions, table, expected) in [
        (vec![], &ready, "ready"),
        (vec![], &waiting, "progressing"),
        (vec![condition("Complete", False, EVALUATED)], &ready, "ready"),
        (vec![condition("Ready", True, EVALUATED)], &waiting, "ready"),
        (vec![condition("Ready", False, EVALUATED)], &ready, "progressing"),
        (
            vec![condition("Available", False, EVALUATED)],
            &ready,
            "progressing",
        ),
        (
            vec![
                condition("Ready", True, EVALUATED),
                condition("Available", False, EVALUATED),
            ],
            &ready,
            "progressing",
        ),
        (
            vec![condition("Ready", False, EVALUATION_FAILED)],
            &ready,
            "progressing",
        ),
        (vec![condition("Ready", False, INVALID)], &ready, INVALID),
        (
            vec![
                condition("Ready", True, EVALUATED),
                condition("Progressing", True, EVALUATED),
            ],
            &ready,
            "progressing",
        ),
        (vec![condition("Progressing", False, EVALUATED)], &ready, "ready"),
        (
            vec![
                condition("Ready", True, EVALUATED),
                condition("Degraded", True, EVALUATED),
            ],
            &ready,
            "Degraded",
        ),
        (vec![condition("Failed", True, EVALUATED)], &waiting, "Failed"),
        (vec![condition("Failed", False, EVALUATED)], &ready, "ready"),
    ] {
        assert_eq!(verdict(&conditions, table.clone()), expected, "{conditions:?}");
    }
}
