use super::*;
use crate::apply::adopt::Refused;
use crate::apply::outcome::{Applied, Outcome};
use crate::observe::Readiness;
use roundhouse_api::bundle::MAX_FAILURES;

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
        readiness,
        workload: None,
        examined: None,
        seen: None,
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
