//! Who gets a place: clusters × `maxParallel` × `maxFailedClusters`.

use super::*;
use crate::{
    dispatch::{Divided, Part},
    workflow::{Action, Deploy, Effect, Evidence, Limits, Spec, Status, Step, StepEvidence, advance},
};
use jiff::Timestamp;
use roundhouse_api::{application::StepPhase, bundle::BundleSpec};
use serde_json::{Value, json};
use std::sync::Arc;

/// A Bundle that asks for so many replicas.
fn wanted(cluster: &str, part: usize, replicas: u64, todo: Todo) -> Wanted {
    let manifests: Vec<Value> = vec![json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": replicas}})];
    let part_of = Part {
        manifests,
        hash: "h".to_owned(),
    };
    Wanted {
        namespace: format!("cluster-{cluster}"),
        name: format!("default.app.{part}"),
        step: "x".to_owned(),
        steps: None,
        part: 0,
        divided: Arc::new(Divided { parts: vec![part_of] }),
        spec: BundleSpec::default(),
        todo,
    }
}

/// A cluster by a letter: what it shows, and whether its Bundle is still to be written.
fn cluster(letter: char) -> (ClusterState, bool) {
    match letter {
        'r' => (ClusterState::Ready, false),
        'a' => (ClusterState::Applied, false),
        'w' => (ClusterState::Waiting, false),
        'f' => (ClusterState::Failed, false),
        'u' => (ClusterState::Unreachable, false),
        // Still to be written, and this one cannot be reached.
        'U' => (ClusterState::Unreachable, true),
        '.' => (ClusterState::Dispatching, true),
        other => panic!("no cluster {other:?}"),
    }
}

/// The places of the clusters, from 1, whose Bundles are written now; and what each cluster shows after that.
fn written(letters: &str, most: usize, wait: WaitFor) -> (String, Vec<ClusterEvidence>) {
    let names: Vec<String> = (1..=letters.len()).map(|n| n.to_string()).collect();
    let mut plan = Plan::default();
    let mut shown = BTreeMap::new();
    for (name, letter) in names.iter().zip(letters.chars()) {
        let (state, due) = cluster(letter);
        let todo = if due { Todo::Create } else { Todo::Nothing };
        let target = Target::Bundles(vec![wanted(name, 1, 1, todo)]);
        plan.targets.insert(name.clone(), target);
        let evidence = ClusterEvidence {
            cluster: name.clone(),
            // Before its Bundle is written it shows nothing else, wherever it is.
            state: if due { ClusterState::Dispatching } else { state },
            message: String::new(),
        };
        shown.insert(name.clone(), Ok(evidence));
    }
    let wave = Wave {
        clusters: &names,
        most,
        wait,
    };
    let away = |name: &str| {
        let at = names.iter().position(|other| other == name).unwrap();
        cluster(letters.chars().nth(at).unwrap()).0 == ClusterState::Unreachable
    };
    hold_back(&mut plan, &[wave], &BTreeMap::new(), &shown, away);
    let is_written = |name: &&String| match &plan.targets[*name] {
        Target::Bundles(wanted) => wanted.iter().any(|wanted| wanted.todo.is_write()),
        _ => false,
    };
    let written = names.iter().filter(is_written).cloned().collect();
    for name in &names {
        let (_, due) = cluster(letters.chars().nth(name.parse::<usize>().unwrap() - 1).unwrap());
        assert!(
            due || !plan.awaits_turn(name),
            "{letters}: {name} has had its turn"
        );
    }
    (written, shown.into_values().map(Result::unwrap).collect())
}

/// What a cluster holds of a revision at its second generation, and has reported at this one.
fn given(cluster: &str, revision: &str, reported: Option<i64>) -> Observed {
    let status = reported.map(|generation| {
        let status = json!({"hash": "h", "observedGeneration": generation, "phase": "Ready"});
        Arc::new(serde_json::from_value(status).unwrap())
    });
    Observed {
        name: "default.app.1".to_owned(),
        cluster: cluster.to_owned(),
        generation: 2,
        spec: Arc::new(BundleSpec {
            revision: Some(revision.to_owned()),
            hash: Some("h".to_owned()),
            ..BundleSpec::default()
        }),
        status,
        ..Observed::default()
    }
}

fn three() -> Vec<String> {
    ["1", "2", "3"].map(str::to_owned).into()
}

/// Of three clusters the third is to get something else of v2, and this is to be done about the others.
fn third_is_replaced(others: Todo) -> Plan {
    let mut plan = Plan::default();
    for name in three() {
        let todo = if name == "3" { Todo::Replace } else { others };
        let mut wanted = wanted(&name, 1, 0, todo);
        wanted.spec.revision = Some("v2".to_owned());
        plan.targets.insert(name, Target::Bundles(vec![wanted]));
    }
    plan
}

#[test]
fn a_cluster_whose_share_changes_before_it_has_shown_the_last_one_keeps_its_place() {
    for (held, most, expected) in [
        // Not shown: the place is its own, and others wait for it.
        (given("3", "v2", None), 1, "3"),
        (given("3", "v2", Some(1)), 1, "3"),
        (given("3", "v2", None), 2, "13"),
        // Shown, or of the revision before: it waits for a turn as the others do.
        (given("3", "v2", Some(2)), 1, "1"),
        (given("3", "v1", None), 1, "1"),
        (given("3", "v1", None), 2, "12"),
    ] {
        let names = three();
        let mut plan = third_is_replaced(Todo::Create);
        let wave = Wave {
            clusters: &names,
            most,
            wait: WaitFor::Ready,
        };
        let what = format!("{held:?} at {most}");
        let observed = BTreeMap::from([("3".to_owned(), vec![Arc::new(held)])]);
        hold_back(&mut plan, &[wave], &observed, &BTreeMap::new(), |_| false);
        let written: String = names.into_iter().filter(|name| !plan.awaits_turn(name)).collect();
        assert_eq!(written, expected, "{what}");
    }
}

/// Cluster 3 had shown what is waited for, so that another one got its place; it shows that no more, and is to get something else.
#[test]
fn a_cluster_that_has_lost_its_place_waits_for_a_free_one() {
    for (others, most, expected) in [
        (ClusterState::Waiting, 2, false),
        (ClusterState::Waiting, 3, true),
        (ClusterState::Ready, 1, true),
        (ClusterState::Unreachable, 1, true),
    ] {
        let names = three();
        let mut plan = third_is_replaced(Todo::Nothing);
        let mut shown = BTreeMap::new();
        for name in &names {
            let evidence = ClusterEvidence {
                cluster: name.clone(),
                state: others,
                message: String::new(),
            };
            shown.insert(name.clone(), Ok(evidence));
        }
        let wave = Wave {
            clusters: &names,
            most,
            wait: WaitFor::Ready,
        };
        let observed = BTreeMap::from([("3".to_owned(), vec![Arc::new(given("3", "v2", None))])]);
        hold_back(&mut plan, &[wave], &observed, &shown, |_| false);
        assert_eq!(!plan.awaits_turn("3"), expected, "{others:?} at {most}");
    }
}

/// Whether a step with these clusters goes on dispatching.
fn dispatches(clusters: Vec<ClusterEvidence>, max_failed_clusters: Option<u32>) -> bool {
    let deploy = Deploy {
        max_failed_clusters,
        ..Deploy::default()
    };
    let step = Step {
        name: "x".to_owned(),
        type_: "deploy".to_owned(),
        action: Action::Deploy(Box::new(deploy)),
        condition: None,
        timeout: None,
        after: Vec::new(),
        strict: false,
        inputs: Vec::new(),
        outputs: Vec::new(),
        referenced: Vec::new(),
    };
    let spec = Spec {
        revision: "app-v1".to_owned(),
        generation: 1,
        steps: vec![step],
        limits: Limits::default(),
        ..Spec::default()
    };
    let now = Timestamp::UNIX_EPOCH;
    let (started, _) = advance(&spec, &Status::default(), &Evidence::default(), now);
    let placed = StepEvidence::Placed {
        unsatisfied: vec![],
        clusters,
    };
    let evidence = Evidence {
        steps: BTreeMap::from([("x".to_owned(), placed)]),
        ..Evidence::default()
    };
    let (status, effects) = advance(&spec, &started, &evidence, now);
    let failed = status.workflow.unwrap().steps[0].phase == StepPhase::Failed;
    let asked = effects.contains(&Effect::Dispatch { step: "x".to_owned() });
    assert_ne!(failed, asked, "a step that failed asks for nothing more");
    asked
}

/// For each cluster list: who is written at `maxParallel` 1, 2, 3 and 4, and which `maxFailedClusters` stop the step
/// before that (absent, 0, 1, 2).
type Row = (&'static str, [&'static str; 4], [bool; 4]);

const NEVER: [bool; 4] = [false, false, false, false];
const ONE: [bool; 4] = [false, true, false, false];
const TWO: [bool; 4] = [false, true, true, false];
const THREE: [bool; 4] = [false, true, true, true];

const READY: [Row; 26] = [
    // At the beginning.
    ("....", ["1", "12", "123", "1234"], NEVER),
    // One has had its turn: done, under way, failed, out of reach.
    ("r...", ["2", "23", "234", "234"], NEVER),
    ("w...", ["", "2", "23", "234"], NEVER),
    ("a...", ["", "2", "23", "234"], NEVER),
    ("f...", ["", "2", "23", "234"], ONE),
    ("u...", ["2", "23", "234", "234"], NEVER),
    // Two have.
    ("rr..", ["3", "34", "34", "34"], NEVER),
    ("rw..", ["", "3", "34", "34"], NEVER),
    ("rf..", ["", "3", "34", "34"], ONE),
    ("ru..", ["3", "34", "34", "34"], NEVER),
    ("ww..", ["", "", "3", "34"], NEVER),
    ("wf..", ["", "", "3", "34"], ONE),
    ("wu..", ["", "3", "34", "34"], NEVER),
    ("ff..", ["", "", "3", "34"], TWO),
    ("fu..", ["", "3", "34", "34"], ONE),
    ("uu..", ["3", "34", "34", "34"], NEVER),
    // Three have.
    ("rrw.", ["", "4", "4", "4"], NEVER),
    ("fff.", ["", "", "", "4"], THREE),
    ("rfu.", ["", "4", "4", "4"], ONE),
    ("uuu.", ["4", "4", "4", "4"], NEVER),
    // Out of reach before it has had its turn: it takes no place, and nobody's.
    ("U...", ["12", "123", "1234", "1234"], NEVER),
    ("wU..", ["2", "23", "234", "234"], NEVER),
    ("fU.U", ["24", "234", "234", "234"], ONE),
    ("UUUU", ["1234", "1234", "1234", "1234"], NEVER),
    // Nobody waits.
    ("rrfw", ["", "", "", ""], ONE),
    // The order of the names does not matter to who is under way.
    ("..fr", ["", "1", "12", "12"], ONE),
];

#[test]
fn who_gets_a_place_and_when_nobody_does() {
    for (letters, by_parallel, stops) in READY {
        for (most, expected) in (1..).zip(by_parallel) {
            let (got, clusters) = written(letters, most, WaitFor::Ready);
            assert_eq!(got, expected, "{letters}, maxParallel {most}");
            for (budget, stops) in [None, Some(0), Some(1), Some(2)].into_iter().zip(stops) {
                assert_eq!(
                    !dispatches(clusters.clone(), budget),
                    stops,
                    "{letters}, maxParallel {most}, maxFailedClusters {budget:?}"
                );
            }
        }
    }
}

#[test]
fn a_step_that_waits_for_less_has_its_places_back_sooner() {
    for (letters, ready, applied) in [
        ("a...", "", "2"),
        ("w...", "", ""),
        ("f...", "", ""),
        ("aa..", "", "3"),
        ("ra..", "", "3"),
    ] {
        assert_eq!(written(letters, 1, WaitFor::Ready).0, ready, "{letters}");
        assert_eq!(written(letters, 1, WaitFor::Applied).0, applied, "{letters}");
    }
}

fn held(cluster: &str, part: usize, replicas: u64) -> Observed {
    Observed {
        namespace: format!("cluster-{cluster}"),
        name: format!("default.app.{part}"),
        cluster: cluster.to_owned(),
        replicas,
        ..Observed::default()
    }
}

#[test]
fn what_is_begun_is_finished_first_and_then_what_gives_replicas_up() {
    // (parts that are wanted, by what there is to do), (replicas wanted, replicas held)
    let clusters = [
        ("1", &[Todo::Replace][..], (5, 3)),
        ("2", &[Todo::Replace], (2, 4)),
        ("3", &[Todo::Create, Todo::Nothing], (5, 5)),
        ("4", &[Todo::Replace], (1, 2)),
    ];
    let names: Vec<String> = clusters.iter().map(|(name, ..)| (*name).to_owned()).collect();
    for (most, expected) in [(1, "3"), (2, "23"), (3, "234"), (4, "1234")] {
        let mut plan = Plan::default();
        let mut observed = BTreeMap::new();
        for (name, todos, (asked, has)) in clusters {
            let parts = todos.iter().enumerate();
            let parts = parts.map(|(part, todo)| wanted(name, part, asked, *todo));
            plan.targets
                .insert(name.to_owned(), Target::Bundles(parts.collect()));
            let all = (0..todos.len()).map(|part| Arc::new(held(name, part, has)));
            observed.insert(name.to_owned(), all.collect::<Vec<_>>());
        }
        let wave = Wave {
            clusters: &names,
            most,
            wait: WaitFor::Ready,
        };
        hold_back(&mut plan, &[wave], &observed, &BTreeMap::new(), |_| false);
        let got: String = names
            .iter()
            .filter(|name| !plan.awaits_turn(name))
            .cloned()
            .collect();
        assert_eq!(got, expected, "maxParallel {most}");
    }
}

#[test]
fn what_is_not_a_bundle_takes_no_place_and_a_cluster_of_two_steps_keeps_to_both() {
    let names: Vec<String> = ["1", "2", "3"].map(str::to_owned).into();
    let mut plan = Plan::default();
    plan.targets.insert("1".to_owned(), Target::Untouched);
    for name in ["2", "3"] {
        let target = Target::Bundles(vec![wanted(name, 1, 1, Todo::Create)]);
        plan.targets.insert(name.to_owned(), target);
    }
    let wave = |clusters, most| Wave {
        clusters,
        most,
        wait: WaitFor::Ready,
    };
    let waves = [wave(&names[..], 1), wave(&names[1..2], 5)];
    hold_back(&mut plan, &waves, &BTreeMap::new(), &BTreeMap::new(), |_| false);
    assert!(!plan.awaits_turn("2") && plan.awaits_turn("3"));
    assert_eq!(plan.targets["1"], Target::Untouched);
    let reversed = [wave(&names[2..], 5), wave(&names[..], 1)];
    let mut again = plan.clone();
    hold_back(&mut again, &reversed, &BTreeMap::new(), &BTreeMap::new(), |_| {
        false
    });
    assert_eq!(again, plan, "once more changes nothing");
}
