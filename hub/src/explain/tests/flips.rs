//! For every reason for which a cluster has nothing: the reason is named, and a change that does flip it.

use super::fixture::{
    answer, check, cluster, facing, flips, has_replicas, setting, settled, taint, web, with,
};
use crate::{
    explain::{Aim, Change, Consequence, Moved, Reason, Setting, search},
    placement::{ClusterFacts, NotChosen, Previous},
};
use roundhouse_api::{
    cluster::{TAINT_UNAVAILABLE, TAINT_UNREACHABLE},
    placement::{Taint, TaintEffect},
};
use serde_json::{Value, json};

fn everywhere() -> Value {
    json!({"placement": [{"name": "all", "replicas": "100%"}]})
}

/// `c1` as given, among three others.
fn fleet(c1: ClusterFacts) -> Vec<ClusterFacts> {
    let others = ["c2", "c3", "c4"].map(|name| cluster(name, "region=east"));
    [c1].into_iter().chain(others).collect()
}

fn one(spec: Value, replicas: u32, c1: ClusterFacts) -> Setting {
    setting(&[("deploy", spec)], replicas, fleet(c1))
}

fn label(key: &str, value: &str) -> Change {
    Change::SetLabel {
        key: key.to_owned(),
        value: value.to_owned(),
    }
}

fn not_chosen(reason: NotChosen) -> Reason {
    Reason::NotChosen(reason)
}

#[test]
fn not_matched() {
    let reason = not_chosen(NotChosen::NotMatched);
    let select = |selector: Value| json!({"placement": [{"replicas": "100%", "clusterSelector": selector}]});
    let expressions = |list: Value| select(json!({"matchExpressions": list}));
    for (spec, labels, smallest) in [
        (
            select(json!({"region": "east"})),
            "",
            vec![label("region", "east")],
        ),
        (
            select(json!({"region": "east"})),
            "region=west",
            vec![label("region", "east")],
        ),
        (
            expressions(json!([{"key": "region", "operator": "In", "values": ["west", "east"]}])),
            "",
            vec![label("region", "east")],
        ),
        (
            expressions(json!([{"key": "tier", "operator": "NotIn", "values": ["lab"]}])),
            "tier=lab",
            vec![Change::RemoveLabel {
                key: "tier".to_owned(),
            }],
        ),
        (
            expressions(json!([{"key": "tier", "operator": "DoesNotExist"}])),
            "tier=lab",
            vec![Change::RemoveLabel {
                key: "tier".to_owned(),
            }],
        ),
        (
            expressions(json!([{"key": "region", "operator": "Exists"}])),
            "",
            vec![label("region", "east")],
        ),
        // One value has to do for two requirements on one label.
        (
            expressions(json!([
                {"key": "region", "operator": "In", "values": ["east", "west"]},
                {"key": "region", "operator": "NotIn", "values": ["east"]}])),
            "region=south",
            vec![label("region", "west")],
        ),
        (
            select(json!({"region": "east", "tier": "gold"})),
            "",
            vec![label("region", "east"), label("tier", "gold")],
        ),
        (
            json!({"placement": [{"replicas": "100%", "clusters": ["c2", "c3"]}]}),
            "",
            vec![Change::AddName { rule: (0, 0) }],
        ),
    ] {
        check(
            &one(spec, 12, cluster("c1", labels)),
            "c1",
            reason,
            about(&smallest),
            &smallest,
        );
    }
}

fn about(changes: &[Change]) -> &'static str {
    match changes
        .iter()
        .any(|change| matches!(change, Change::AddName { .. }))
    {
        true => "clusters",
        false => "clusterSelector",
    }
}

#[test]
fn not_accepted_not_joined_out_of_reach() {
    let facts = cluster("c1", "");
    let contact = |key: &str| taint(key, "", TaintEffect::NoSchedule);
    for (c1, reason, about, change) in [
        (
            ClusterFacts {
                accepted: false,
                ..facts.clone()
            },
            NotChosen::NotAccepted,
            "accepted",
            Change::Accept,
        ),
        (
            ClusterFacts {
                joined: false,
                reachable: false,
                taints: vec![contact(TAINT_UNAVAILABLE)],
                ..facts.clone()
            },
            NotChosen::NotJoined,
            "joined",
            Change::Join,
        ),
        (
            ClusterFacts {
                reachable: false,
                taints: vec![contact(TAINT_UNREACHABLE)],
                ..facts
            },
            NotChosen::Unreachable,
            "reachable",
            Change::Reconnect,
        ),
    ] {
        check(
            &one(everywhere(), 12, c1),
            "c1",
            not_chosen(reason),
            about,
            &[change],
        );
    }
}

#[test]
fn tainted() {
    let gpu = taint("gpu", "a100", TaintEffect::NoSchedule);
    let flood = taint("flood", "", TaintEffect::NoExecute);
    let tainted = |taints: &[&Taint]| ClusterFacts {
        taints: taints.iter().map(|taint| (*taint).clone()).collect(),
        ..cluster("c1", "")
    };
    let reason = not_chosen(NotChosen::Tainted);
    let remove = |taint: &Taint| Change::RemoveTaint(taint.clone());
    check(
        &one(everywhere(), 12, tainted(&[&gpu])),
        "c1",
        reason,
        "taint",
        &[remove(&gpu)],
    );
    let both = [remove(&flood), remove(&gpu)];
    check(
        &one(everywhere(), 12, tainted(&[&gpu, &flood])),
        "c1",
        reason,
        "taint",
        &both,
    );
    let mut tolerant = everywhere();
    tolerant["tolerations"] = json!([{"key": "gpu", "operator": "Exists"}]);
    check(
        &one(tolerant, 12, tainted(&[&gpu, &flood])),
        "c1",
        reason,
        "taint",
        &[remove(&flood)],
    );
}

#[test]
fn a_second_way_is_to_tolerate_the_taint() {
    let gpu = taint("gpu", "", TaintEffect::NoSchedule);
    let c1 = ClusterFacts {
        taints: vec![gpu.clone()],
        ..cluster("c1", "")
    };
    let found = flips(&one(everywhere(), 12, c1), "c1");
    let changes: Vec<_> = found.flips.iter().map(|flip| flip.changes.as_slice()).collect();
    assert_eq!(
        changes,
        [
            [Change::RemoveTaint(gpu.clone())],
            [Change::Tolerate { step: 0, taint: gpu }]
        ]
    );
}

#[test]
fn others_come_first() {
    let mut spec = everywhere();
    spec["maxClusters"] = json!(2);
    spec["placement"][0]["weights"] = json!({"c2": 3, "c3": 3, "c4": 3});
    let setting = one(spec, 12, cluster("c1", ""));
    let reason = not_chosen(NotChosen::MaxClusters);
    // As heavy as the others it wins the tie with one of them, whose place it takes.
    let weight = Change::Weight {
        rule: (0, 0),
        weight: 3,
    };
    check(&setting, "c1", reason, "maxClusters", &[weight]);
    let found = flips(&setting, "c1");
    assert_eq!(found.flips[0].consequence.leaving.len(), 1, "{found:?}");
    let longer = [Change::MaxClusters { step: 0, clusters: 4 }];
    let longer = found.flips.iter().find(|flip| flip.changes == longer).unwrap();
    assert!(longer.consequence.leaving.is_empty(), "{longer:?}");
}

#[test]
fn a_spread_keeps_it_out() {
    let mut spec = everywhere();
    spec["maxClusters"] = json!(3);
    spec["spread"] = json!({"topologyKey": "region", "maxSkew": 1});
    spec["placement"][0]["weights"] = json!({"c2": 3, "c3": 3, "c4": 3});
    // Three in the east, none in the west: the west has the fewest, so one of the east has to wait.
    let mut unlabelled = one(spec.clone(), 12, cluster("c1", ""));
    unlabelled.inventory.put(cluster("w1", "region=west"));
    let reason = not_chosen(NotChosen::NoTopologyLabel);
    let answer = super::fixture::answer(&unlabelled, "c1");
    assert_eq!(answer.reason, reason, "{answer:#?}");
    assert_eq!(super::fixture::decisive(&answer)[0], "spread");

    spec["maxClusters"] = json!(4);
    let skewed = one(spec, 12, cluster("c1", "region=east"));
    let mut skewed = skewed;
    skewed.inventory.put(cluster("w1", "region=west"));
    let answer = super::fixture::answer(&skewed, "c1");
    assert_eq!(answer.reason, not_chosen(NotChosen::Skewed), "{answer:#?}");
    assert_eq!(super::fixture::decisive(&answer)[0], "spread");
    let found = flips(&skewed, "c1");
    assert!(
        found
            .flips
            .iter()
            .any(|flip| flip.changes == [label("region", "west")]),
        "{found:#?}"
    );
    for flip in &found.flips {
        assert!(
            has_replicas(&with(&skewed, "c1", &flip.changes), "c1", 0),
            "{flip:?}"
        );
    }
}

#[test]
fn several_reasons_are_answered_together() {
    let c1 = ClusterFacts {
        accepted: false,
        taints: vec![taint("gpu", "", TaintEffect::NoSchedule)],
        ..cluster("c1", "")
    };
    let spec = json!({"placement": [{"replicas": "100%", "clusterSelector": {"region": "east"}}]});
    let smallest = [
        label("region", "east"),
        Change::Accept,
        Change::RemoveTaint(taint("gpu", "", TaintEffect::NoSchedule)),
    ];
    check(
        &one(spec, 12, c1),
        "c1",
        not_chosen(NotChosen::NotMatched),
        "clusterSelector",
        &smallest,
    );
}

#[test]
fn a_share_of_zero_by_arithmetic() {
    // 1/10 of 5 is half a seat short of one.
    let mut spec = everywhere();
    spec["placement"][0]["weights"] = json!({"c2": 10, "c3": 10, "c4": 10});
    let setting = one(spec, 6, cluster("c1", ""));
    let reason = Reason::ZeroShare("Arithmetic");
    check(
        &setting,
        "c1",
        reason,
        "share",
        &[Change::Weight {
            rule: (0, 0),
            weight: 4,
        }],
    );
    let found = flips(&setting, "c1");
    for expected in [
        Change::Min { rule: (0, 0), min: 1 },
        Change::Replicas {
            workload: web(),
            replicas: 16,
        },
    ] {
        assert!(
            found.flips.iter().any(|flip| flip.changes == [expected.clone()]),
            "{expected:?}: {found:#?}"
        );
    }
    // Nothing smaller does.
    for too_little in [
        Change::Weight {
            rule: (0, 0),
            weight: 3,
        },
        Change::Replicas {
            workload: web(),
            replicas: 15,
        },
    ] {
        assert!(!has_replicas(&with(&setting, "c1", &[too_little]), "c1", 0));
    }
}

#[test]
fn a_share_of_zero_by_a_bound() {
    let mut spec = everywhere();
    spec["placement"][0]["weights"] = json!({"c1": 0});
    let weight = Change::Weight {
        rule: (0, 0),
        weight: 1,
    };
    let unweighted = one(spec, 12, cluster("c1", ""));
    // It takes fewer replicas from others than a weight of 1, which asks for a quarter of them.
    check(
        &unweighted,
        "c1",
        Reason::ZeroShare("ZeroWeight"),
        "share",
        &[Change::Min { rule: (0, 0), min: 1 }],
    );
    let found = flips(&unweighted, "c1");
    assert!(
        found.flips.iter().any(|flip| flip.changes == [weight.clone()]),
        "{found:?}"
    );

    let full = ClusterFacts {
        capacity: Some(0),
        ..cluster("c1", "")
    };
    check(
        &one(everywhere(), 12, full),
        "c1",
        Reason::ZeroShare("Capacity"),
        "capacity",
        &[Change::Capacity(1)],
    );

    let spec = json!({"placement": [
        {"name": "c1", "replicas": "50%", "clusters": ["c1"], "perCluster": {"max": 0}},
        {"name": "rest", "replicas": "50%", "clusters": ["c2", "c3", "c4"]}]});
    let max = Change::Max { rule: (0, 0), max: 1 };
    check(
        &one(spec, 12, cluster("c1", "")),
        "c1",
        Reason::ZeroShare("Max"),
        "share",
        &[max],
    );
}

#[test]
fn a_share_of_zero_because_there_is_nothing_to_share() {
    let spec = json!({"placement": [
        {"name": "c1", "replicas": "0%", "clusters": ["c1"]},
        {"name": "rest", "replicas": "50%", "clusters": ["c2", "c3", "c4"]}]});
    let setting = one(spec, 10, cluster("c1", ""));
    let found = flips(&setting, "c1");
    let share = Change::Share {
        rule: (0, 0),
        share: serde_json::from_value(json!("5%")).unwrap(),
    };
    check(
        &setting,
        "c1",
        Reason::ZeroShare("RuleGetsNothing"),
        "share",
        &[share],
    );
    assert_eq!(found.flips[0].consequence.unplaced, -1);

    let nothing = one(everywhere(), 0, cluster("c1", ""));
    let found = flips(&nothing, "c1");
    assert!(
        matches!(
            &found.flips[0].changes[..],
            [Change::Replicas { replicas: 1..=4, .. }]
        ),
        "{found:?}"
    );
}

#[test]
fn a_cluster_that_keeps_nothing_gets_nothing_more() {
    // It holds the objects with no replica, and is cordoned.
    let cordon = taint(
        roundhouse_api::cluster::TAINT_CORDONED,
        "",
        TaintEffect::NoSchedule,
    );
    let mut setting = one(everywhere(), 12, cluster("c1", ""));
    setting.previous = Previous::default().enrolling("deploy", &["c1"]);
    let reason = Reason::ZeroShare("NoAdditional");
    let cordoned = facing(setting.clone(), "c1", |facts| facts.taints = vec![cordon.clone()]);
    check(&cordoned, "c1", reason, "taint", &[Change::RemoveTaint(cordon)]);
    let silent = facing(setting, "c1", |facts| facts.reachable = false);
    check(&silent, "c1", reason, "reachable", &[Change::Reconnect]);
}

#[test]
fn the_consequence_is_what_moves() {
    let gold = |name: &str| cluster(name, "tier=gold");
    let spec = json!({"placement": [{"replicas": "100%", "clusterSelector": {"tier": "gold"}}]});
    let clusters = [cluster("c117", ""), gold("c118"), gold("c119")];
    let setting = settled(setting(&[("deploy", spec)], 21, clusters));
    let found = flips(&setting, "c117");
    assert_eq!(found.flips[0].changes, [label("tier", "gold")]);
    let Consequence {
        here,
        others,
        unplaced,
        leaving,
    } = &found.flips[0].consequence;
    assert_eq!((*here, *unplaced, leaving.len()), (7, 0, 0));
    let mut deltas: Vec<i64> = others.iter().map(|Moved { delta, .. }| *delta).collect();
    deltas.sort_unstable();
    assert_eq!(deltas, [-4, -3]);
}

#[test]
fn where_nothing_flips_it_nothing_is_named() {
    // No label satisfies both, and reserved labels are nobody's to set.
    for selector in [
        json!({"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x"]}, {"key": "a", "operator": "NotIn", "values": ["x"]}]}),
        json!({"roundhouse.dev/x": "y"}),
    ] {
        let spec = json!({"placement": [{"replicas": "100%", "clusterSelector": selector}]});
        let found = flips(&one(spec, 12, cluster("c1", "")), "c1");
        assert_eq!((found.flips.len(), found.complete), (0, true));
    }
}

#[test]
fn what_takes_a_placed_cluster_out() {
    let spec = json!({"placement": [{"replicas": "100%", "clusterSelector": {"region": "east"}}]});
    let setting = settled(one(spec, 12, cluster("c1", "region=east")));
    assert!(has_replicas(&setting, "c1", 0));
    let found = search(&setting, "c1", 0, Aim::Exclude).unwrap();
    let kinds: Vec<_> = found.flips.iter().map(|flip| flip.changes[0].kind()).collect();
    assert_eq!(kinds, ["addTaint", "removeLabel", "weight"]);
    for flip in &found.flips {
        assert!(
            !has_replicas(&with(&setting, "c1", &flip.changes), "c1", 0),
            "{flip:?}"
        );
    }
}

#[test]
fn a_list_that_is_cut_is_no_complete_search() {
    let idle = (0..8).map(|n| json!({"replicas": "0%", "clusterSelector": {format!("l{n}"): "x"}}));
    let good = json!({"replicas": "100%", "clusterSelector": {"good": "x"}});
    let spec = json!({"placement": idle.chain([good]).collect::<Vec<_>>()});
    let setting = one(spec, 12, cluster("c1", ""));
    assert!(!has_replicas(&setting, "c1", 0));
    let found = flips(&setting, "c1");
    assert_eq!(found.flips[0].changes, [label("good", "x")]);
    assert!(!found.complete, "one of nine ways was not tried");

    // Nine ways, and none of them does.
    let idle = (0..9).map(|n| json!({"replicas": "0%", "clusterSelector": {format!("l{n}"): "x"}}));
    let rest = json!({"replicas": "100%", "clusters": ["c2"], "clusterSelector": {"roundhouse.dev/x": "y"}});
    let spec = json!({"placement": idle.chain([rest]).collect::<Vec<_>>()});
    let found = flips(&one(spec, 0, cluster("c1", "")), "c1");
    assert!(!found.complete, "{found:#?}");

    // The values of one label too.
    let values: Vec<String> = (0..9).map(|n| format!("v{n}")).collect();
    let selector = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]});
    let spec = json!({"placement": [{"replicas": "100%", "clusterSelector": selector}]});
    let found = flips(&one(spec, 12, cluster("c1", "")), "c1");
    assert_eq!((found.flips.len(), found.complete), (8, false));
}

#[test]
fn a_cluster_in_trouble_that_ranks_too_low_gets_in_by_rank_alone() {
    let mut spec = everywhere();
    spec["maxClusters"] = json!(1);
    let held = |members: &[&str]| Previous::default().enrolling("deploy", members);
    let mut setting = one(spec, 1, cluster("c1", ""));
    let before = ("deploy", &web(), "all");
    setting.previous = held(&["c1", "c2"]).assigning(before, [("c1", 1), ("c2", 5)]);
    for (reason, setting) in [
        (
            NotChosen::Unreachable,
            facing(setting.clone(), "c1", |facts| facts.reachable = false),
        ),
        (
            NotChosen::Tainted,
            facing(setting, "c1", |facts| {
                facts.taints = vec![taint("gpu", "", TaintEffect::NoSchedule)];
            }),
        ),
    ] {
        let weight = Change::Weight {
            rule: (0, 0),
            weight: 2,
        };
        let found = flips(&setting, "c1");
        assert_eq!(super::fixture::answer(&setting, "c1").reason, not_chosen(reason));
        assert!(
            found.flips.iter().any(|flip| flip.changes == [weight.clone()]),
            "{found:#?}"
        );
        assert!(
            found.flips.iter().all(|flip| flip.changes.len() == 1),
            "{found:#?}"
        );
        assert!(has_replicas(&with(&setting, "c1", &[weight]), "c1", 0));
    }
}

/// A duplicate rule beside a share: dispatch gives the cluster the full count, not both together.
#[test]
fn what_would_move_is_what_runs() {
    let spec = json!({"placement": [{"clusters": ["c1"], "replicas": "100%"}, {"clusters": ["c1", "c2"]}]});
    let setting = one(spec, 10, cluster("c1", ""));
    assert_eq!(answer(&setting, "c1").replicas(), 10);
    let found = search(&setting, "c1", 0, Aim::Exclude).unwrap();
    let taint = found
        .flips
        .iter()
        .find(|flip| matches!(flip.changes[..], [Change::AddTaint(_)]));
    let consequence = &taint.unwrap().consequence;
    assert_eq!((consequence.here, consequence.unplaced), (-10, 10));
}
