//! Known values: those of the design, and vectors of other dispatchers (Karmada's `assignment_test.go`,
//! `webstermethod_test.go` and `generic_scheduler_test.go`, KubeAdmiral's `planner_test.go`) as far as the rules are
//! the same. Where our answer differs, a comment says why.

use super::fixture::{Case, cluster, numbers, unplaced};
use crate::placement::webster::{Party, divide};
use roundhouse_api::placement::Rebalance;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One rule of 100 % over clusters a, b, c, … with these weights.
fn weighted(weights: &[u32], replicas: u32) -> Case {
    let names: Vec<String> = (b'a'..)
        .take(weights.len())
        .map(|b| char::from(b).to_string())
        .collect();
    let map: BTreeMap<&String, u32> = names.iter().zip(weights.iter().copied()).collect();
    let spec = json!({"placement": [{"replicas": "100%", "weights": map}]});
    Case::new(spec, replicas, names.iter().map(|name| cluster(name, "")))
}

fn check(weights: &[u32], replicas: u32, expected: &[u32]) {
    assert_eq!(
        numbers(&weighted(weights, replicas).place()),
        expected,
        "{weights:?}, N={replicas}"
    );
}

/// The same, where a hash decides which of equal clusters come first.
fn check_sorted(weights: &[u32], replicas: u32, expected: &[u32]) {
    let mut counts = numbers(&weighted(weights, replicas).place());
    counts.sort_unstable();
    assert_eq!(counts, expected, "{weights:?}, N={replicas}");
}

fn given(case: Case, previous: &[u32]) -> Case {
    let names = ["a", "b", "c", "d", "e"];
    let counts: Vec<(&str, u32)> = names.into_iter().zip(previous.iter().copied()).collect();
    case.after(&counts)
}

fn never(mut case: Case) -> Case {
    case.steps[0].1.rebalance = Rebalance::Never;
    case
}

/// Parties with (weight, min, max): bounds of single clusters, which a rule cannot say.
fn bounded(total: u32, parties: &[(u32, u32, u32)]) -> (Vec<u32>, u32) {
    let party = |(weight, min, max): &(u32, u32, u32)| Party {
        weight: u64::from(*weight),
        min: *min,
        max: *max,
        previous: 0,
        hash: 0,
    };
    let division = divide(total, &parties.iter().map(party).collect::<Vec<_>>());
    (division.seats, division.unplaced)
}

const NO_MAX: u32 = u32::MAX;

#[test]
fn the_seeds_example() {
    let fleet = [
        cluster("c1", "region=east"),
        cluster("c2", "region=east"),
        cluster("c3", "region=east"),
        cluster("c4", "region=west"),
        cluster("c5", "region=west"),
    ];
    let spec = json!({"placement": [
        {"clusterSelector": {"region": "east"}, "replicas": "70%"},
        {"clusterSelector": {"region": "west"}, "replicas": "20%"}]});
    let decisions = Case::new(spec.clone(), 10, fleet.clone()).place();
    let mut east = numbers(&decisions)[..3].to_vec();
    east.sort_unstable();
    assert_eq!(east, [2, 2, 3]);
    assert_eq!(numbers(&decisions)[3..], [1, 1]);
    assert_eq!(unplaced(&decisions), [(None, 1, "Unclaimed")]);
    assert_eq!(decisions[0].clusters, ["c1", "c2", "c3", "c4", "c5"]);
    assert!(decisions[0].satisfied);

    let decisions = Case::new(spec, 3, fleet).place();
    let totals: Vec<u32> = decisions[0].workloads[0]
        .rules
        .iter()
        .map(|rule| rule.total)
        .collect();
    assert_eq!(totals, [2, 1, 0]);
}

#[test]
fn the_designs_values() {
    check(&[3, 2, 1], 12, &[6, 4, 2]);
    check(&[3, 2, 1], 13, &[7, 4, 2]);
    check(&[3, 2, 1], 14, &[7, 5, 2]);
    check(&[170, 110, 60], 5, &[2, 2, 1]);
    check(&[170, 110, 60], 6, &[3, 2, 1]);
    // Outside the quota of the first, 11: allowed, and the price of the other properties.
    check(&[55, 7, 31, 7], 20, &[12, 1, 6, 1]);
}

#[test]
fn a_tie_is_settled_once() {
    let first = weighted(&[5, 1], 3).place();
    let counts = numbers(&first);
    assert!(counts == [2, 1] || counts == [3, 0], "{counts:?}");
    let ties: Vec<_> = first[0].workloads[0]
        .clusters
        .iter()
        .map(|row| row.tie.as_deref())
        .collect();
    assert_eq!(ties, [Some("FewerSeats"); 2]);
    for held in [[2, 1], [3, 0]] {
        let again = given(weighted(&[5, 1], 3), &held).place();
        assert_eq!(numbers(&again), held);
        assert_eq!(
            again[0].workloads[0].clusters[0].tie.as_deref(),
            Some("AlreadyHeld")
        );
    }
}

#[test]
fn equal_clusters_move_as_little_as_possible() {
    let grown = given(weighted(&[1, 1, 1], 5), &[1, 1, 1]).place();
    let mut counts = numbers(&grown);
    let joined = weighted(&[1, 1, 1, 1], 5).following(&grown).place();
    let after = numbers(&joined);
    let moved: u32 = counts
        .iter()
        .zip(&after)
        .map(|(before, after)| before - after)
        .sum();
    assert_eq!(moved, 1);
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 2]);
    let mut sorted = after.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 1, 1, 2]);
    assert_eq!(after[3], 1);
}

#[test]
fn karmada_webster() {
    // Seats 1 to 8 go to a, b, a, c, b, d, a, b; the tie of d and a at the sixth goes to fewer seats.
    let mut before = vec![0; 4];
    for (seats, expected) in (1..).zip([0, 1, 0, 2, 1, 3, 0, 1]) {
        let after = numbers(&weighted(&[100_000, 80_000, 30_000, 20_000], seats).place());
        let winner = (0..4).find(|i| after[*i] > before[*i]);
        assert_eq!(winner, Some(expected), "seat {seats}");
        before = after;
    }
    // Seats that were there before count as minimums; those without votes stay and never grow.
    assert_eq!(bounded(2, &[(3, 1, NO_MAX), (1, 0, NO_MAX)]).0, [1, 1]);
    assert_eq!(bounded(5, &[(1, 0, NO_MAX), (0, 3, NO_MAX)]).0, [2, 3]);
    // Karmada gives Old 1, New 2 by name; with the same tie we ask who held more first, so Old gets it.
    let old_and_new = given(weighted(&[1, 1], 3), &[1, 0]).place();
    assert_eq!(numbers(&old_and_new), [2, 1]);
    assert_eq!(bounded(3, &[]), (vec![], 3));
}

#[test]
fn karmada_weights() {
    check(&[1, 1], 0, &[0, 0]);
    check(&[18, 12, 6], 12, &[6, 4, 2]);
    check(&[20, 12, 6], 12, &[6, 4, 2]);
    check(&[6, 12, 6], 12, &[3, 6, 3]);
    check(&[6, 8, 10], 12, &[3, 4, 5]);
    check(&[8, 8, 10], 12, &[4, 4, 4]);
    // An error there: not everything fits. Here what fits is placed and the rest is reported.
    assert_eq!(bounded(12, &[(3, 0, 3); 3]), (vec![3, 3, 3], 3));
    // There a change in N is divided by itself (1/2/3 and 6/8/10 from 2/4/6); here the whole moves towards the weights.
    assert_eq!(
        numbers(&never(given(weighted(&[1, 1, 1], 6), &[2, 4, 6])).place()),
        [2, 2, 2]
    );
    assert_eq!(
        numbers(&never(given(weighted(&[1, 1, 1], 24), &[2, 4, 6])).place()),
        [8, 8, 8]
    );
    // There 9/3, by the same rule.
    assert_eq!(
        numbers(&never(given(weighted(&[1, 1], 12), &[6, 0])).place()),
        [6, 6]
    );
}

#[test]
fn karmada_stability() {
    check_sorted(&[1, 1], 3, &[1, 2]);
    check_sorted(&[1, 1, 1, 1], 6, &[1, 1, 2, 2]);
    check_sorted(&[1, 1, 1], 6, &[2, 2, 2]);
    let grown = numbers(&given(weighted(&[2, 1, 1, 1], 8), &[3, 2, 1, 1]).place());
    assert_eq!(grown[..2], [3, 2]);
    assert_eq!(grown[2] + grown[3], 3);
    let shrunk = numbers(&given(weighted(&[2, 1, 1, 1], 8), &[3, 2, 2, 2]).place());
    assert_eq!((shrunk[0], shrunk[1] + shrunk[2] + shrunk[3]), (3, 5));
    assert!(shrunk[1..].iter().all(|count| *count >= 1));
    assert_eq!(
        numbers(&given(weighted(&[2, 1, 1, 1], 6), &[2, 2, 1, 1]).place()),
        [3, 1, 1, 1]
    );
}

#[test]
fn kubeadmiral_bounds() {
    check_sorted(&[1, 1, 1], 50, &[16, 17, 17]);
    assert_eq!(bounded(50, &[(0, 2, NO_MAX); 3]), (vec![2, 2, 2], 44));
    // There 10/20/20, served in order; here minimums shrink evenly.
    assert_eq!(bounded(50, &[(0, 20, NO_MAX); 3]), (vec![17, 17, 16], 0));
    // There 30/20, the minimum comes on top; here it is a bound.
    assert_eq!(bounded(50, &[(1, 10, NO_MAX), (1, 0, NO_MAX)]).0, [25, 25]);
    assert_eq!(
        bounded(10, &[(2, 3, NO_MAX), (3, 3, NO_MAX), (5, 3, NO_MAX)]).0,
        [3, 3, 4]
    );
    assert_eq!(bounded(50, &[(1, 10, 12); 3]), (vec![12, 12, 12], 14));
    let four = [(10_000, 0, 10), (1, 0, NO_MAX), (1, 0, 21), (1, 0, 10)];
    assert_eq!(bounded(71, &four).0, [10, 30, 21, 10]);
    let five = [four[0], four[1], four[2], four[3], (1, 0, NO_MAX)];
    assert_eq!(bounded(91, &five).0, [10, 25, 21, 10, 25]);
    assert_eq!(
        bounded(50, &[(1, 20, NO_MAX), (1, 20, 10), (1, 20, NO_MAX)]),
        (vec![20, 10, 20], 0)
    );
    // There the 40 overflow to the same clusters, which cannot hold them.
    assert_eq!(bounded(60, &[(1, 0, 10); 2]), (vec![10, 10], 40));
}

#[test]
fn kubeadmiral_avoiding_disruption() {
    // There 9/11/30: rounded up one after the other.
    let kept = |weights: &[u32], replicas, previous: &[u32]| {
        numbers(&never(given(weighted(weights, replicas), previous)).place())
    };
    assert_eq!(kept(&[1, 1, 1], 50, &[0, 0, 30]), [10, 10, 30]);
    assert_eq!(kept(&[1, 1], 50, &[10, 70]), [10, 40]);
    assert_eq!(
        numbers(&given(weighted(&[1, 1], 50), &[10, 70]).place()),
        [25, 25]
    );
    assert_eq!(kept(&[1, 1, 1], 18, &[10, 1, 1]), [10, 4, 4]);
    assert_eq!(
        numbers(&given(weighted(&[1, 1, 1], 18), &[10, 1, 1]).place()),
        [6, 6, 6]
    );
    let limited = |index: usize, capacity, mut case: Case| {
        case.clusters[index].capacity = Some(capacity);
        case
    };
    let case = given(weighted(&[1, 1], 50), &[30]);
    assert_eq!(numbers(&limited(0, 0, case).place()), [0, 50]);
    let case = given(weighted(&[1, 1, 1], 50), &[30, 20]);
    assert_eq!(numbers(&limited(2, 10, case.clone()).place()), [20, 20, 10]);
    assert_eq!(numbers(&limited(2, 10, never(case)).place()), [30, 20, 0]);
}

#[test]
fn the_number_of_replicas_costs_nothing() {
    // By seats this would run for hours.
    let counts = numbers(&weighted(&[3, 2, 1], u32::MAX).place());
    // Shares of x.5, y and z.5: the tie goes to fewer seats.
    assert_eq!(counts, [2_147_483_647, 1_431_655_765, 715_827_883]);
}

#[test]
fn quotas_are_reduced_fractions() {
    let rows = |case: Case| -> Vec<Value> {
        let decisions = case.place();
        decisions[0].workloads[0]
            .clusters
            .iter()
            .map(|row| json!(row.quota))
            .collect()
    };
    assert_eq!(
        rows(weighted(&[3, 2, 1], 14)),
        [json!("7"), json!("14/3"), json!("7/3")]
    );
    assert_eq!(rows(weighted(&[0, 4], 6)), [json!("0"), json!("6")]);
}
