use super::*;
use roundhouse_api::{
    bundle::{BundlePhase, BundleStatus},
    names::BUNDLE_FINALIZER,
};
use std::sync::Arc;

fn application() -> ApplicationRef {
    ApplicationRef {
        namespace: "default".to_owned(),
        name: "app".to_owned(),
        uid: "u".to_owned(),
    }
}

/// How far the Bundle of a cluster is.
#[derive(Debug, Clone, Copy)]
enum Is {
    Applied,
    Confirmed,
    Deleting,
    Left,
    Cleaned,
    /// By garbage collection, which asks for less than a step does.
    Collected,
    /// What an agent said of an earlier generation.
    CleanedBefore,
    Failed,
}

fn bundle(cluster: &str, is: Is) -> Observed {
    let by = match is {
        Is::Applied => None,
        Is::Collected => Some(Deletion::GARBAGE_COLLECTION.to_owned()),
        _ => Some(Deletion::by_step("away")),
    };
    let phase = match is {
        Is::Cleaned | Is::CleanedBefore => Some(BundlePhase::Cleaned),
        Is::Left => Some(BundlePhase::Progressing),
        Is::Failed => Some(BundlePhase::Failed),
        _ => None,
    };
    Observed {
        namespace: format!("cluster-{cluster}"),
        name: step_bundle_name("default", "app", "flags"),
        cluster: cluster.to_owned(),
        generation: 3,
        deleting: !matches!(is, Is::Applied | Is::Confirmed | Is::Collected),
        finalizers: vec![BUNDLE_FINALIZER.to_owned()],
        spec: Arc::new(BundleSpec {
            application_ref: Some(application()),
            deletion: by.map(|by| removal::evidence("app-v1", &by)),
            ..BundleSpec::default()
        }),
        status: phase.map(|phase| {
            Arc::new(BundleStatus {
                phase: Some(phase),
                observed_generation: Some(if matches!(is, Is::CleanedBefore) { 2 } else { 3 }),
                ..BundleStatus::default()
            })
        }),
        ..Observed::default()
    }
}

/// What is next on clusters whose Bundles are so far; `None`: there is none.
fn taken(clusters: &[(&str, Option<Is>)], most: Option<u32>, away: &[&str]) -> Taken {
    let targets = clusters
        .iter()
        .map(|(cluster, _)| ((*cluster).to_owned(), BTreeSet::from(["flags"])));
    let held = clusters.iter().filter_map(|(cluster, is)| {
        let bundle = bundle(cluster, (*is)?);
        Some(((*cluster).to_owned(), vec![Arc::new(bundle)]))
    });
    take_away(
        &Taking {
            application: &application(),
            step: "away",
            revision: "app-v1",
            epoch: 7,
            targets: &targets.collect(),
            observed: &BTreeMap::from([("flags".to_owned(), held.collect())]),
            most,
        },
        |cluster| away.contains(&cluster).then(|| "out of reach".to_owned()),
    )
}

/// `c1 Ready, c2 Waiting: why`, then what is made and what goes.
fn said(taken: &Taken) -> String {
    let clusters = taken.clusters.iter().map(|shown| match shown.message.as_str() {
        "" => format!("{} {}", shown.cluster, shown.state.as_str()),
        message => format!("{} {}: {message}", shown.cluster, shown.state.as_str()),
    });
    let made: Vec<&str> = taken.asked.targets.keys().map(String::as_str).collect();
    let due: Vec<&str> = taken
        .due
        .iter()
        .map(|(bundle, _)| bundle.cluster.as_str())
        .collect();
    format!(
        "{} | made {} | due {}",
        clusters.collect::<Vec<_>>().join(", "),
        made.join(" "),
        due.join(" ")
    )
}

#[test]
fn a_cluster_is_ready_once_its_agent_says_of_this_very_removal_that_all_is_gone() {
    for (is, expected) in [
        (
            Some(Is::Applied),
            "c1 Dispatching: the removal is not written yet | made  | due c1",
        ),
        (
            Some(Is::Confirmed),
            "c1 Dispatching: the removal is not written yet | made  | due c1",
        ),
        (
            Some(Is::Collected),
            "c1 Dispatching: the removal is not written yet | made  | due c1",
        ),
        (
            Some(Is::Deleting),
            "c1 Waiting: its agent has not reported that the object is gone | made  | due ",
        ),
        (
            Some(Is::Left),
            "c1 Waiting: its agent has not reported that the object is gone | made  | due ",
        ),
        (
            Some(Is::CleanedBefore),
            "c1 Waiting: its agent has not reported that the object is gone | made  | due ",
        ),
        (
            Some(Is::Failed),
            "c1 Failed: the agent says that it failed, not why | made  | due ",
        ),
        (Some(Is::Cleaned), "c1 Ready | made  | due "),
        // Nobody has said anything.
        (
            None,
            "c1 Dispatching: its bundle is not there: it is asked for a report | made c1 | due ",
        ),
    ] {
        assert_eq!(said(&taken(&[("c1", is)], None, &[])), expected, "{is:?}");
    }
}

#[test]
fn what_was_reported_stands_when_the_cluster_is_out_of_reach_and_nothing_else_does() {
    let clusters = [
        ("c1", Some(Is::Cleaned)),
        ("c2", Some(Is::Deleting)),
        ("c3", Some(Is::Applied)),
    ];
    assert_eq!(
        said(&taken(&clusters, None, &["c1", "c2", "c3"])),
        "c1 Ready, c2 Unreachable: out of reach, c3 Dispatching: the removal is not written yet | made  | due c3"
    );
}

#[test]
fn few_are_under_way_at_a_time_and_who_is_out_of_reach_takes_no_place() {
    let clusters = [
        ("c1", Some(Is::Applied)),
        ("c2", None),
        ("c3", Some(Is::Deleting)),
        ("c4", Some(Is::Applied)),
        ("c5", Some(Is::Cleaned)),
    ];
    let next = |most, away: &[&str]| {
        let taken = taken(&clusters, Some(most), away);
        let late = taken.clusters.iter().filter(|c| c.message == AWAITS_TURN);
        let late: Vec<&str> = late.map(|c| c.cluster.as_str()).collect();
        let begun = said(&taken).split(" | ").skip(1).collect::<Vec<_>>().join(", ");
        format!("{begun}, late {}", late.join(" "))
    };
    assert_eq!(next(1, &[]), "made , due , late c1 c2 c4");
    assert_eq!(next(2, &[]), "made , due c1, late c2 c4");
    assert_eq!(next(3, &[]), "made c2, due c1, late c4");
    assert_eq!(next(1, &["c3"]), "made , due c1, late c2 c4");
    assert_eq!(next(1, &["c4"]), "made , due c4, late c1 c2");
    assert_eq!(next(9, &[]), "made c2, due c1 c4, late ");
}

#[test]
fn a_bundle_that_is_asked_for_a_report_carries_the_evidence_and_no_manifest() {
    let taken = taken(&[("c1", None)], None, &[]);
    let Some(Target::Bundles(wanted)) = taken.asked.targets.get("c1") else {
        panic!("{taken:?}");
    };
    let bundle = wanted[0].bundle(None);
    assert_eq!(bundle.metadata.name.as_deref(), Some("default.app.step.flags"));
    assert_eq!(
        bundle.metadata.finalizers,
        Some(vec![BUNDLE_FINALIZER.to_owned()])
    );
    assert!(bundle.spec.workload.manifests.is_empty());
    assert_eq!(
        bundle
            .spec
            .deletion
            .and_then(|d| d.step().map(str::to_owned))
            .as_deref(),
        Some("away")
    );
    assert_eq!(bundle.spec.epoch, Some(7));
}
