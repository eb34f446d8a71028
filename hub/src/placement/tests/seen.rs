//! What a placement can see of a cluster's change, and the inventory that is kept change by change.

use super::{
    fixture::cluster,
    generate::{ALL, any_case, fleets},
    runs,
};
use crate::placement::{ClusterFacts, Inventory, PlacingStep, Sight};
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
        kind in 0..8u8,
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
        let gone = kind == 7;
        let steps: Vec<_> = case.steps.iter().map(|(name, spec)| PlacingStep { name, spec }).collect();
        let name = &before.name;
        let held = case.previous.members.values().any(|names| names.contains(name))
            || case.previous.assignments.values().any(|counts| counts.contains_key(name))
            || case.previous.frozen.values().any(|frozen| frozen.weights.contains_key(name));
        let sees = Sight::of(&steps).sees(held, Some(&before), (!gone).then_some(&after));
        let decisions = case.place();
        if gone {
            case.clusters.remove(place);
        } else {
            case.clusters[place] = after;
        }
        prop_assert!(sees || case.place() == decisions);
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

fn sees(spec: Value, held: bool, change: impl Fn(&mut ClusterFacts)) -> bool {
    let spec: PlacementSpec = serde_json::from_value(spec).unwrap();
    let steps = [PlacingStep {
        name: "deploy",
        spec: &spec,
    }];
    let before = cluster("c1", "region=east,zone=a");
    let mut after = before.clone();
    change(&mut after);
    Sight::of(&steps).sees(held, Some(&before), Some(&after))
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
    assert!(
        sees(east(), true, label("team")),
        "what it runs may name the label"
    );
    assert!(sees(east(), false, label("region")) && sees(west(), false, label("region")));
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
    // Coming and going is counted by everybody.
    let spec: PlacementSpec = serde_json::from_value(west()).unwrap();
    let sight = Sight::of(&[PlacingStep {
        name: "deploy",
        spec: &spec,
    }]);
    let facts = cluster("c1", "region=east");
    assert!(
        sight.sees(false, None, Some(&facts))
            && sight.sees(false, Some(&facts), None)
            && !sight.sees(false, None, None)
    );
    assert!(!Sight::of(&[]).sees(false, None, Some(&facts)));
}

#[test]
fn a_thousand_placements_see_what_is_theirs() {
    let specs: Vec<PlacementSpec> = (0..1000)
        .map(|n| {
            serde_json::from_value(
                json!({"placement": [{"clusterSelector": {"team": format!("t{}", n % 100)}}]}),
            )
            .unwrap()
        })
        .collect();
    let sights: Vec<Sight> = specs
        .iter()
        .map(|spec| Sight::of(&[PlacingStep { name: "deploy", spec }]))
        .collect();
    let seen = |before: &ClusterFacts, after: &ClusterFacts| {
        sights
            .iter()
            .filter(|sight| sight.sees(false, Some(before), Some(after)))
            .count()
    };
    let before = cluster("c1", "team=t7");
    let mut other = before.clone();
    other.labels.insert("owner".to_owned(), "me".to_owned());
    assert_eq!(seen(&before, &other), 0);
    let mut cordoned = before.clone();
    cordoned.reachable = false;
    assert_eq!(
        seen(&before, &cordoned),
        10,
        "the placements whose rule matches it"
    );
    assert_eq!(
        seen(&before, &cluster("c1", "team=t8")),
        1000,
        "every placement looks at the label"
    );
}
