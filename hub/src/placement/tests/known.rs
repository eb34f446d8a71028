//! Known values: those of the design, and vectors of other dispatchers as far as the rules are the same.

use super::fixture::{Case, cluster, counts, numbers, unplaced};
use serde_json::json;

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
    let decisions = Case::new(spec, 10, fleet).place();
    let mut east = numbers(&decisions)[..3].to_vec();
    east.sort_unstable();
    assert_eq!(east, [2, 2, 3]);
    assert_eq!(numbers(&decisions)[3..], [1, 1]);
    assert_eq!(unplaced(&decisions), [(None, 1, "Unclaimed")]);
    assert_eq!(decisions[0].clusters, ["c1", "c2", "c3", "c4", "c5"]);
    assert!(decisions[0].satisfied);
    assert_eq!(
        decisions[0].reasons,
        [
            "1 of 10 replicas of Deployment default/web is not placed: no rule claims it (percentages sum to 90%; \
          remainder: Hold); set remainder: Spread in every placing step, or raise a percentage"
        ]
    );
    assert_eq!(counts(&decisions).len(), 5);
}
