use super::*;
use crate::apply::adopt::Refused;
use crate::apply::outcome::{Applied, Outcome};
use crate::kinds::Kind;
use crate::observe::{Examined, Readiness, RuleCondition, Synced};
use roundhouse_api::bundle::{FeedbackValue, FieldValue, FieldValueType, MAX_FAILURES};
use std::sync::Arc;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn observation(ordinal: u32, outcome: Outcome, readiness: Readiness) -> Observation {
    Observation {
        meta: ResourceMeta {
            ordinal,
            kind: "Thing".into(),
            name: format!("n{ordinal}"),
            ..ResourceMeta::default()
        },
        target: None,
        kind: None,
        labelled: false,
        outcome,
        no_kind_since: None,
        readiness,
        workload: None,
        examined: None,
        seen: None,
        differences: Default::default(),
        answer: None,
        quiet: None,
    }
}

fn fine(ordinal: u32) -> Observation {
    observation(ordinal, Outcome::Applied(Applied::Unchanged), Readiness::Ready)
}

fn waiting(ordinal: u32) -> Observation {
    observation(
        ordinal,
        Outcome::Applied(Applied::Created),
        Readiness::Progressing("soon".into()),
    )
}

fn refused(ordinal: u32) -> Observation {
    observation(
        ordinal,
        Outcome::Refused(Refused::NotAdopted),
        Readiness::Progressing(String::new()),
    )
}

fn delayed(ordinal: u32) -> Observation {
    let outcome = Outcome::Delayed {
        reason: "Timeout",
        message: "slow".into(),
    };
    observation(ordinal, outcome, Readiness::Progressing(String::new()))
}

fn broken(ordinal: u32) -> Observation {
    let readiness = Readiness::Failed {
        reason: "Deadline".into(),
        message: "m".repeat(2 * MAX_MESSAGE),
    };
    observation(ordinal, Outcome::Applied(Applied::Unchanged), readiness)
}

const SUBJECT: Subject<'_> = Subject {
    hash: Some("h"),
    generation: 3,
    epoch: Some(7),
};

fn report(observations: &[Observation], before: Option<&BundleStatus>, second: i64) -> BundleStatus {
    applied(SUBJECT, observations.iter(), &[], before, at(second))
}

fn conditions(status: &BundleStatus) -> Vec<String> {
    status
        .conditions
        .iter()
        .map(|c| format!("{}={} {}", c.type_, c.status, c.reason))
        .collect()
}

#[test]
fn phases_and_counts() {
    use BundlePhase::{Failed, Progressing, Ready};
    for (observations, phase, counts) in [
        (vec![], Ready, (0, 0, 0, 0)),
        (vec![fine(0), fine(1)], Ready, (2, 2, 2, 0)),
        (vec![fine(0), waiting(1)], Progressing, (2, 2, 1, 0)),
        (vec![fine(0), delayed(1)], Progressing, (2, 1, 1, 0)),
        (vec![fine(0), waiting(1), refused(2)], Failed, (3, 2, 1, 1)),
        (vec![fine(0), broken(1)], Failed, (2, 2, 1, 1)),
    ] {
        let status = report(&observations, None, 1);
        let (total, applied, ready, failed) = counts;
        assert_eq!(status.phase, Some(phase), "{observations:?}");
        assert_eq!(
            status.counts,
            Some(Counts {
                total,
                applied,
                ready,
                failed
            }),
            "{observations:?}"
        );
        assert_eq!(
            (status.hash.as_deref(), status.observed_generation, status.epoch),
            (Some("h"), Some(3), Some(7))
        );
    }
}

#[test]
fn what_is_not_ready_is_named_behind_the_counts() {
    for (observations, message) in [
        (
            vec![fine(0), waiting(1)],
            "1 of 2 objects are ready: Thing n1: soon",
        ),
        (vec![fine(0), refused(1)], "1 of 2 objects are ready"),
    ] {
        let status = report(&observations, None, 1);
        let available = condition::get(&status.conditions, AVAILABLE).unwrap();
        assert_eq!(available.message, message);
    }
}

#[test]
fn conditions_say_what_and_why() {
    let ready = [
        "Applied=True Applied",
        "Available=True Ready",
        "Progressing=False Ready",
        "Degraded=False NoFailure",
    ];
    assert_eq!(conditions(&report(&[fine(0)], None, 1)), ready);
    let mixed = report(&[fine(0), refused(1), broken(2)], None, 1);
    assert_eq!(
        conditions(&mixed),
        [
            "Applied=False NotAdopted",
            "Available=False NotReady",
            "Progressing=False Failed",
            "Degraded=True ObjectsFailed"
        ]
    );
    assert!(
        condition::get(&mixed.conditions, APPLIED)
            .unwrap()
            .message
            .starts_with("manifest 1: ")
    );
    assert!(
        mixed
            .conditions
            .iter()
            .all(|c| c.observed_generation == Some(3) && c.message.len() <= MAX_MESSAGE)
    );
}

#[test]
fn the_same_again_is_the_same_status_and_a_change_moves_its_own_time_only() {
    let first = report(&[fine(0), refused(1)], None, 1);
    assert_eq!(report(&[fine(0), refused(1)], Some(&first), 99), first);
    let second = report(&[fine(0), fine(1)], Some(&first), 99);
    let time = |status: &BundleStatus, type_: &str| {
        condition::get(&status.conditions, type_)
            .unwrap()
            .last_transition_time
            .0
    };
    assert_eq!(time(&second, APPLIED), at(99));
    assert_eq!(time(&second, PROGRESSING), at(1));
    assert_eq!(second.resource_status, None);
}

#[test]
fn failures_are_listed_by_ordinal_and_bounded() {
    let many: Vec<Observation> = (0..150).rev().map(refused).collect();
    let status = report(&many, None, 1).resource_status.unwrap();
    assert_eq!((status.manifests.len(), status.omitted), (MAX_FAILURES, Some(50)));
    let ordinals: Vec<u32> = status.manifests.iter().map(|m| m.resource_meta.ordinal).collect();
    assert!(ordinals.is_sorted());
    let broken = report(&[broken(0)], None, 1).resource_status.unwrap();
    assert!(broken.manifests[0].conditions[0].message.len() <= MAX_MESSAGE);
}

#[test]
fn a_held_bundle_keeps_its_report() {
    let before = report(&[fine(0)], None, 1);
    let status = held(4, Some(7), "Paused", "paused", Some(&before), at(9));
    assert_eq!(
        (status.hash.as_deref(), status.observed_generation),
        (Some("h"), Some(3))
    );
    assert_eq!(status.phase, Some(BundlePhase::Ready));
    assert!(conditions(&status).contains(&"Progressing=False Paused".to_owned()));
}

#[test]
fn a_bundle_is_cleaned_when_nothing_is_left() {
    let leaving = Leaving {
        meta: ResourceMeta::default(),
        message: "is being deleted".into(),
        refused: false,
    };
    let status = removing(SUBJECT, &[leaving], None, at(1));
    assert_eq!(status.phase, Some(BundlePhase::Progressing));
    let status = removing(SUBJECT, &[], Some(&status), at(2));
    assert_eq!(status.phase, Some(BundlePhase::Cleaned));
    assert_eq!(status.resource_status, None);
}

#[test]
fn what_is_kept_deleted_counts_as_ready_and_is_named() {
    let kept = |ordinal| observation(ordinal, Outcome::Applied(Applied::KeptDeleted), Readiness::Ready);
    let status = report(&[fine(0), kept(1), kept(2)], None, 1);
    assert_eq!(status.phase, Some(BundlePhase::Ready));
    let counts = status.counts.unwrap();
    assert_eq!(
        (counts.total, counts.applied, counts.ready, counts.failed),
        (3, 3, 3, 0)
    );
    assert!(conditions(&status).contains(&"Applied=True KeptDeleted".to_owned()));
    for type_ in [APPLIED, AVAILABLE] {
        let message = &condition::get(&status.conditions, type_).unwrap().message;
        assert!(message.ends_with("Thing n1 and 1 more"), "{type_}: {message}");
    }
    // Made again at a new revision.
    let status = report(&[fine(0), fine(1), fine(2)], Some(&status), 2);
    for type_ in [APPLIED, AVAILABLE] {
        assert_eq!(condition::get(&status.conditions, type_).unwrap().message, "");
    }
}

#[test]
fn a_refused_removal_degrades_and_blocks_nothing() {
    let leaving = |refused| Leaving {
        meta: ResourceMeta {
            kind: "Deployment".into(),
            name: "web".into(),
            ..ResourceMeta::default()
        },
        message: "still asks for 2 replicas".into(),
        refused,
    };
    let present = |leaving: &[Leaving], before| applied(SUBJECT, [fine(0)].iter(), leaving, before, at(1));
    let status = present(&[leaving(false), leaving(true)], None);
    assert_eq!(status.phase, Some(BundlePhase::Ready), "what is wanted is there");
    let words = conditions(&status);
    assert!(
        words.contains(&"Degraded=True RemovalRefused".to_owned()),
        "{words:?}"
    );
    assert!(words.contains(&"Progressing=False Ready".to_owned()), "{words:?}");
    let words = conditions(&present(&[leaving(false)], Some(&status)));
    assert!(
        words.contains(&"Degraded=False NoFailure".to_owned()),
        "{words:?}"
    );
    assert!(
        words.contains(&"Progressing=True Removing".to_owned()),
        "{words:?}"
    );

    let status = removing(SUBJECT, &[leaving(false), leaving(true)], None, at(1));
    assert_eq!(status.phase, Some(BundlePhase::Progressing), "it is not cleaned");
    let words = conditions(&status);
    assert!(
        words.contains(&"Degraded=True RemovalRefused".to_owned()),
        "{words:?}"
    );
    assert!(
        words.contains(&"Progressing=False RemovalRefused".to_owned()),
        "{words:?}"
    );
    let words = conditions(&removing(SUBJECT, &[], Some(&status), at(2)));
    assert!(words.contains(&"Degraded=False Cleaned".to_owned()), "{words:?}");
}

#[test]
fn long_messages_are_cut_at_a_character() {
    let text = "ä".repeat(MAX_MESSAGE);
    assert!(cut(&text).len() <= MAX_MESSAGE);
    assert!(cut(&text).ends_with('…'));
    assert_eq!(cut("short"), "short");
}

fn rule(type_: &str, status: Status) -> RuleCondition {
    RuleCondition {
        type_: type_.into(),
        status,
        reason: "ConditionRuleEvaluated",
        message: format!("{type_} is {}", status.as_str()),
    }
}

/// A manifest that is fine, of a known kind, with what its rules say.
fn examined(ordinal: u32, conditions: &[RuleCondition], values: &[&str]) -> Observation {
    let value = |text: &&str| FeedbackValue {
        name: "v".into(),
        field_value: FieldValue {
            type_: FieldValueType::String,
            string: Some((*text).into()),
            ..FieldValue::default()
        },
    };
    let gvk = kube::core::GroupVersionKind::gvk("", "v1", "Thing");
    Observation {
        kind: Some(Arc::new(Kind {
            resource: kube::core::ApiResource::from_gvk(&gvk),
            namespaced: true,
        })),
        examined: Some(Box::new(Examined {
            conditions: conditions.to_vec(),
            feedback: values.iter().map(value).collect(),
            synced: (!values.is_empty()).then_some(Synced(Ok(()))),
            postponed: false,
        })),
        ..fine(ordinal)
    }
}

fn verdict(status: &BundleStatus, type_: &str) -> Option<String> {
    condition::get(&status.conditions, type_).map(|c| format!("{} {}: {}", c.status, c.reason, c.message))
}

#[test]
fn what_rules_ask_for_is_listed_and_everything_else_is_counted() {
    let observations = [
        fine(0),
        examined(1, &[rule("Ready", Status::True)], &["x"]),
        broken(2),
        waiting(3),
    ];
    let resources = report(&observations, None, 1).resource_status.unwrap();
    let listed: Vec<_> = resources
        .manifests
        .iter()
        .map(|m| m.resource_meta.ordinal)
        .collect();
    assert_eq!(listed, [1, 2]);
    let types: Vec<_> = resources.manifests[0]
        .conditions
        .iter()
        .map(|c| c.type_.as_str())
        .collect();
    assert_eq!(types, ["Applied", "Available", "StatusFeedbackSynced", "Ready"]);
    assert_eq!(
        resources.manifests[0]
            .status_feedback
            .as_ref()
            .unwrap()
            .values
            .len(),
        1
    );
    assert!(!resources.feedback_truncated);
}

#[test]
fn values_are_kept_as_long_as_they_fit() {
    let long = "x".repeat(1000);
    let observations: Vec<_> = (0..20).map(|n| examined(n, &[], &[&long])).collect();
    let resources = report(&observations, None, 1).resource_status.unwrap();
    let with = resources
        .manifests
        .iter()
        .filter(|m| m.status_feedback.is_some())
        .count();
    assert_eq!(
        (resources.manifests.len(), with, resources.feedback_truncated),
        (20, 7, true)
    );
    let many: Vec<_> = (0..150).map(|n| examined(n, &[], &["x"])).collect();
    let resources = report(&many, None, 1).resource_status.unwrap();
    assert_eq!(
        (resources.manifests.len(), resources.feedback_truncated),
        (100, true)
    );
    assert_eq!(resources.omitted, None, "nothing that fails is left out");
}

#[test]
fn a_manifests_times_move_with_its_statuses_only() {
    let at_ = |value: &str, ready: Status, before: Option<&BundleStatus>, second| {
        report(&[examined(0, &[rule("Ready", ready)], &[value])], before, second)
    };
    let first = at_("a", Status::True, None, 1);
    let second = at_("b", Status::True, Some(&first), 2);
    let third = at_("b", Status::False, Some(&second), 3);
    let times = |status: &BundleStatus| {
        let conditions = &status.resource_status.as_ref().unwrap().manifests[0].conditions;
        conditions
            .iter()
            .map(|c| c.last_transition_time.0.as_second())
            .collect::<Vec<_>>()
    };
    assert_eq!(times(&first), [1, 1, 1, 1]);
    assert_eq!(times(&second), [1, 1, 1, 1]);
    assert_eq!(times(&third), [1, 1, 1, 3]);
    assert!(differ_in_texts_only(&first, &second));
    assert!(!differ_in_texts_only(&second, &third));
    assert!(!differ_in_texts_only(&first, &first));
}

#[test]
fn d08_conditions_of_manifests_add_up_to_those_of_the_bundle() {
    use Status::{False, True, Unknown};
    let complete = |statuses: &[Status]| -> Vec<Observation> {
        let rules = statuses.iter().map(|status| [rule("Complete", *status)]);
        (0..)
            .zip(rules)
            .map(|(n, rules)| examined(n, &rules, &[]))
            .collect()
    };
    for (statuses, expected) in [
        (vec![True], "True ConditionRulesAggregated: Complete is True"),
        (
            vec![True, True],
            "True ConditionRulesAggregated: 2 manifests: Complete is True",
        ),
        (
            vec![True, Unknown],
            "Unknown ConditionRulesAggregated: Thing n1: Complete is Unknown",
        ),
        (
            vec![Unknown, True, False],
            "False ConditionRulesAggregated: Thing n2: Complete is False",
        ),
    ] {
        let status = report(&complete(&statuses), None, 1);
        assert_eq!(
            verdict(&status, "Complete").as_deref(),
            Some(expected),
            "{statuses:?}"
        );
    }
    // One without the rule holds nothing up; one of which not even the kind is known may have it.
    let mut with = complete(&[True]);
    with.push(examined(1, &[], &[]));
    assert!(
        verdict(&report(&with, None, 1), "Complete")
            .unwrap()
            .starts_with("True")
    );
    with.push(refused(2));
    assert!(
        verdict(&report(&with, None, 1), "Complete")
            .unwrap()
            .starts_with("False")
    );

    let first = report(&complete(&[True]), None, 1);
    assert_eq!(
        verdict(&report(&[fine(0)], Some(&first), 2), "Complete"),
        None,
        "pruned"
    );
    let later = report(&complete(&[True]), Some(&first), 9);
    let since = |status: &BundleStatus| {
        condition::get(&status.conditions, "Complete")
            .unwrap()
            .last_transition_time
            .0
    };
    assert_eq!(since(&later), at(1));

    // What one manifest says of failing, the bundle says.
    let failed = [
        examined(0, &[rule("Failed", False)], &[]),
        examined(1, &[rule("Failed", True)], &[]),
    ];
    assert!(
        verdict(&report(&failed, None, 1), "Failed")
            .unwrap()
            .starts_with("True")
    );
    // Ours are decided by the readiness of the objects.
    let ours = report(
        &[examined(
            0,
            &[rule("Progressing", True), rule("Applied", False)],
            &[],
        )],
        None,
        1,
    );
    assert_eq!(
        conditions(&ours)[..2],
        ["Applied=True Applied", "Available=True Ready"]
    );
    let many: Vec<_> = (0..40).map(|n| rule(&format!("T{n}"), True)).collect();
    assert_eq!(
        report(&[examined(0, &many, &[])], None, 1).conditions.len(),
        4 + 16
    );
}

#[test]
fn workloads_beyond_the_limit_are_summed_up() {
    let observations: Vec<Observation> = (0..60)
        .map(|ordinal| Observation {
            workload: Some(WorkloadStatus {
                desired: 3,
                // A surge of an older revision is not ready for this one.
                updated: if ordinal == 59 { 1 } else { 3 },
                ready: 4,
                ..WorkloadStatus::default()
            }),
            ..fine(ordinal)
        })
        .collect();
    let status = report(&observations, None, 1);
    assert_eq!(status.workloads.len(), MAX_WORKLOADS);
    let expected = OmittedWorkloads {
        count: 10,
        desired: 30,
        ready: 28,
    };
    assert_eq!(status.omitted_workloads, Some(expected));
    let few = report(&observations[..50], None, 1);
    assert_eq!((few.workloads.len(), few.omitted_workloads), (50, None));
}
