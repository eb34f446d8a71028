//! What a placement can see of a cluster's change, and the inventory that is kept change by change.

use super::{
    fixture::{cluster, workload},
    generate::{ALL, any_case, fleets},
    runs,
};
use crate::placement::{ClusterFacts, Inventory, PlacingStep, Previous, Request, Sight, matched, place};
use proptest::prelude::*;
use roundhouse_api::placement::{PlacementSpec, Taint, TaintEffect};
use serde_json::{Value, json};

proptest! {
    #![proptest_config(runs())]

    /// Sound: a change that is not seen changes nothing of the decisions.
    #[test]
    fn what_is_not_seen_changes_nothing(
        mut case in any_case(ALL),
        other in fleets(ALL),
        index: prop::sample::Index,
        kind in 0..9u8,
        overridden: bool,
    ) {
        if overridden {
            let change = json!([{"clusterSelector": {"rack": "1"}, "target": {"kind": "Deployment", "name": "w0"},
                "patch": {"metadata": {"annotations": {"at": "${cluster.name}/${cluster.labels.zone}"}}}}]);
            case.steps[0].1.overrides = serde_json::from_value(change).unwrap();
        }
        if case.clusters.is_empty() || other.is_empty() {
            return Ok(());
        }
        let place = index.index(case.clusters.len());
        let donor = &other[index.index(other.len())];
        let before = case.clusters[place].clone();
        let mut after = before.clone();
        match kind {
            0 => after.labels = donor.labels.clone(),
            1 => drop(after.labels.insert("zone".to_owned(), "a".to_owned())),
            2 => drop(after.labels.insert("rack".to_owned(), "1".to_owned())),
            3 => after.taints = donor.taints.clone(),
            4 => after.capacity = donor.capacity,
            5 => after.allocatable = donor.allocatable.clone(),
            6 => (after.joined, after.accepted, after.reachable) = (donor.joined, donor.accepted, donor.reachable),
            _ => {}
        }
        let (joins, leaves) = (kind == 7, kind == 8);
        let steps: Vec<_> = case.steps.iter().map(|(name, spec)| PlacingStep { name, spec }).collect();
        let name = before.name.clone();
        let held = case.previous.enrolled().values().any(|names| names.contains(&name))
            || case.previous.assigned().values().any(|counts| counts.contains_key(&name))
            || case.previous.frozen.values().any(|frozen| frozen.weights.contains_key(&name));
        let sight = Sight::of(&steps);
        let mut others = case.clusters.clone();
        others.remove(place);
        let fleet = |facts: Option<&ClusterFacts>| {
            let mut clusters = others.clone();
            clusters.extend(facts.cloned());
            clusters
        };
        let (before, after) = ((!joins).then_some(&before), (!leaves).then_some(&after));
        let sees = sight.sees(held, before, after, &fleet(after).into_iter().collect());
        let decided = [before, after].map(|facts| {
            case.clusters = fleet(facts);
            let mut decisions = case.place();
            for decision in &mut decisions {
                decision.excluded = matched(&decision.excluded).cloned().collect();
            }
            decisions
        });
        prop_assert!(sees || decided[0] == decided[1], "{:#?}", decided);
    }

    #[test]
    fn an_inventory_kept_change_by_change_is_the_one_built_at_once(changes in prop::collection::vec((fleets(ALL), any::<bool>()), 0..12)) {
        let mut kept = Inventory::default();
        let mut all: std::collections::BTreeMap<String, ClusterFacts> = std::collections::BTreeMap::new();
        for (fleet, remove) in changes {
            for facts in fleet {
                if remove {
                    prop_assert_eq!(kept.remove(&facts.name).is_some(), all.remove(&facts.name).is_some());
                } else {
                    let before = all.insert(facts.name.clone(), facts.clone());
                    prop_assert_eq!(kept.put(facts).map(|f| ClusterFacts::clone(&f)), before);
                }
            }
            let built: Inventory = all.values().cloned().collect();
            prop_assert_eq!(&kept, &built);
        }
    }
}

/// Whether a change of `c1` is seen, in a fleet where both regions have another cluster.
fn sees(spec: Value, held: bool, change: impl Fn(&mut ClusterFacts)) -> bool {
    let spec: PlacementSpec = serde_json::from_value(spec).unwrap();
    let steps = [PlacingStep {
        name: "deploy",
        spec: &spec,
    }];
    let before = cluster("c1", "region=east,zone=a");
    let mut after = before.clone();
    change(&mut after);
    Sight::of(&steps).sees(held, Some(&before), Some(&after), &fleet([after.clone()]))
}

fn fleet(more: impl IntoIterator<Item = ClusterFacts>) -> Inventory {
    let others = [cluster("c8", "region=east"), cluster("c9", "region=west")];
    others.into_iter().chain(more).collect()
}

/// Narrow: what a placement cannot see does not wake its application.
#[test]
fn what_is_looked_at_and_what_is_not() {
    let east = || json!({"placement": [{"clusterSelector": {"region": "east"}, "replicas": "100%"}]});
    let west = || json!({"placement": [{"clusterSelector": {"region": "west"}, "replicas": "100%"}]});
    let label = |key: &'static str| {
        move |facts: &mut ClusterFacts| drop(facts.labels.insert(key.to_owned(), "x".to_owned()))
    };
    let tainted = |facts: &mut ClusterFacts| {
        facts.taints.push(Taint {
            key: "a".to_owned(),
            value: None,
            effect: TaintEffect::NoSchedule,
            time_added: None,
        });
    };
    let cpu = |facts: &mut ClusterFacts| drop(facts.allocatable.insert("cpu".to_owned(), "4".to_owned()));
    let capacity = |facts: &mut ClusterFacts| facts.capacity = Some(3);
    let weighed = || json!({"placement": [{"clusterSelector": {"region": "east"}, "replicas": "100%", "weightBy": {"allocatable": "cpu"}}]});

    assert!(!sees(east(), false, |_| {}) && !sees(east(), true, |_| {}));
    // A label that no rule names, on a cluster that holds nothing.
    assert!(!sees(east(), false, label("team")) && !sees(west(), false, label("team")));
    // Nor on one that holds something: who holds it is most of the fleet.
    assert!(!sees(east(), true, label("team")) && !sees(west(), true, label("team")));
    assert!(sees(east(), true, label("region")) && !sees(west(), true, label("region")));
    assert!(sees(east(), false, label("region")) && !sees(west(), false, label("region")));
    let none = || json!({"placement": [{"clusterSelector": {"region": "south"}, "replicas": "100%"}]});
    assert!(
        sees(none(), false, label("region")) && !sees(none(), false, label("team")),
        "who finds no cluster is told which regions there are"
    );
    // Taints, capacity and contact matter where a rule matches.
    assert!(sees(east(), false, tainted) && !sees(west(), false, tainted) && sees(west(), true, tainted));
    assert!(sees(east(), false, capacity) && !sees(west(), false, capacity));
    assert!(sees(east(), false, |f| f.reachable = false) && !sees(west(), false, |f| f.reachable = false));
    // Allocatable resources matter to rules that weigh by them, whoever holds something.
    assert!(!sees(east(), false, cpu) && !sees(east(), true, cpu) && sees(weighed(), false, cpu));
    let by = |field: &str, value: Value| {
        let mut spec = east();
        spec[field] = value;
        spec
    };
    let by_label =
        json!([{"clusterSelector": {"region": "east"}, "replicas": "100%", "weightBy": {"label": "team"}}]);
    assert!(sees(by("placement", by_label), false, label("team")));
    assert!(sees(
        by("spread", json!({"topologyKey": "team", "maxSkew": 1})),
        false,
        label("team")
    ));
    let named = json!([{"target": {"kind": "ConfigMap", "name": "a"}, "patch": {"data": {"a": "${cluster.labels.team}"}}}]);
    assert!(sees(by("overrides", named), false, label("team")));
}

/// A cluster that joins or leaves is seen by rules that match it or name it, and by who has something of it.
#[test]
fn who_sees_a_cluster_come_and_go() {
    let comes_and_goes = |spec: Value, held: bool, facts: &ClusterFacts| {
        let spec: PlacementSpec = serde_json::from_value(spec).unwrap();
        let sight = Sight::of(&[PlacingStep {
            name: "deploy",
            spec: &spec,
        }]);
        let comes = sight.sees(held, None, Some(facts), &fleet([facts.clone()]));
        let goes = sight.sees(held, Some(facts), None, &fleet([]));
        assert_eq!(comes, goes);
        comes
    };
    let region =
        |name: &str| json!({"placement": [{"clusterSelector": {"region": name}, "replicas": "100%"}]});
    let east = cluster("c1", "region=east,zone=a");
    assert!(comes_and_goes(region("east"), false, &east));
    assert!(!comes_and_goes(region("west"), false, &east) && comes_and_goes(region("west"), true, &east));
    assert!(comes_and_goes(
        json!({"placement": [{"replicas": "100%"}]}),
        false,
        &east
    ));
    // It was named as one that is not in the fleet.
    let named = |name: &str| json!({"placement": [{"clusters": [name, "c9"], "clusterSelector": {"region": "west"}}]});
    assert!(comes_and_goes(named("c1"), false, &east) && !comes_and_goes(named("c2"), false, &east));
    assert!(
        comes_and_goes(region("south"), false, &east),
        "who finds no cluster is told which regions there are"
    );
    assert!(!comes_and_goes(region("south"), false, &cluster("c1", "zone=a")));
    let seeks: PlacementSpec = serde_json::from_value(region("south")).unwrap();
    let seeks = Sight::of(&[PlacingStep {
        name: "deploy",
        spec: &seeks,
    }]);
    let plain = cluster("c1", "");
    let (none, first) = (Inventory::default(), [plain.clone()].into_iter().collect());
    assert!(
        seeks.sees(false, None, Some(&plain), &first),
        "the fleet was empty"
    );
    assert!(seeks.sees(false, Some(&plain), None, &none), "the fleet is empty");
    assert!(!seeks.sees(false, None, None, &none) && !Sight::of(&[]).sees(false, None, Some(&east), &first));
}

/// A label of one cluster of 1,000 changes under 1,000 applications: those whose rules match it, before or after, are
/// decided anew, and for all others the decision is what it was.
#[test]
fn of_a_thousand_applications_those_who_see_a_label_are_decided_anew() {
    const COUNT: usize = 1000;
    let label = |n: usize| format!("team=t{},rack=r{n}", n % 100);
    let inventory = |changed: &ClusterFacts| -> Inventory {
        let others = (1..COUNT).map(|n| cluster(&format!("c{n}"), &label(n)));
        others.chain([changed.clone()]).collect()
    };
    let specs: Vec<PlacementSpec> = (0..COUNT)
        .map(|n| {
            let selector = json!({"team": format!("t{}", n % 100)});
            let rule =
                json!({"clusterSelector": selector, "replicas": "100%", "weightBy": {"label": "weight"}});
            serde_json::from_value(json!({"placement": [rule]})).unwrap()
        })
        .collect();
    let steps: Vec<_> = specs
        .iter()
        .map(|spec| [PlacingStep { name: "deploy", spec }])
        .collect();
    let sights: Vec<Sight> = steps.iter().map(|steps| Sight::of(steps)).collect();
    let workloads = [workload("web", 100)];
    let previous = Previous::default();
    let decided = |inventory: &Inventory, application: usize| {
        let mut decisions = place(&Request {
            application: &format!("default/app-{application}"),
            steps: &steps[application],
            workloads: &workloads,
            inventory,
            previous: &previous,
            now: jiff::Timestamp::UNIX_EPOCH,
        });
        decisions[0].excluded = matched(&decisions[0].excluded).cloned().collect();
        decisions
    };
    let before = cluster("c0", "team=t7,weight=3");
    let was = inventory(&before);
    // Who holds the cluster sees no more of its labels than who does not.
    for (held, after, expected) in [
        (false, cluster("c0", "team=t7,weight=3,owner=me"), 0),
        (true, cluster("c0", "team=t7,weight=3,owner=me"), 0),
        (false, cluster("c0", "team=t7,weight=4"), 10),
        (false, cluster("c0", "team=t8,weight=3"), 20),
        (false, cluster("c0", "team=none,weight=3"), 10),
        (true, cluster("c0", "team=t7,weight=4"), 10),
        (true, cluster("c0", "team=t8,weight=3"), 20),
    ] {
        let is = inventory(&after);
        let seen: Vec<bool> = sights
            .iter()
            .map(|sight| sight.sees(held, Some(&before), Some(&after), &is))
            .collect();
        assert_eq!(seen.iter().filter(|seen| **seen).count(), expected, "{after:?}");
        let differ = |application: &usize| decided(&was, *application) != decided(&is, *application);
        // Every hundredth has the same spec: the first hundred stand for all.
        let differing = (0..100).filter(differ);
        let unseen: Vec<usize> = differing.filter(|application| !seen[*application]).collect();
        assert!(unseen.is_empty(), "{after:?}: {unseen:?}");
    }
    let mut silent = before.clone();
    silent.reachable = false;
    let is = inventory(&silent);
    let seen = sights
        .iter()
        .filter(|sight| sight.sees(false, Some(&before), Some(&silent), &is));
    assert_eq!(seen.count(), 10, "the placements whose rule matches it");
}
