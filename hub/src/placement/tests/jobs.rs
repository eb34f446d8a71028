//! Jobs are divided once per revision.

use super::fixture::{Case, cluster, counts, numbers, unplaced, workload};
use crate::{
    dispatch::{Layer, shares},
    placement::{Previous, StepDecision, decision_hash},
    render::{ReplicaPaths, set_share},
};
use roundhouse_api::decision::DecisionSpec;
use serde_json::{Value, json};

fn job(replicas: u32, names: &[&str]) -> Case {
    let spec = json!({"placement": [{"name": "r", "replicas": "90%"}]});
    let mut case = Case::new(spec, replicas, names.iter().map(|name| cluster(name, "")));
    case.workloads[0].key.kind = "Job".to_owned();
    case.workloads[0].once = true;
    case
}

fn stored(case: &Case) -> Vec<DecisionSpec> {
    stored_of(case.place())
}

fn stored_of(decisions: Vec<StepDecision>) -> Vec<DecisionSpec> {
    let specs = decisions.into_iter().map(|decision| DecisionSpec {
        step: decision.step,
        revision: "app-v1".to_owned(),
        workloads: decision.workloads,
        clusters: decision.clusters.iter().map(ToString::to_string).collect(),
        ..DecisionSpec::default()
    });
    specs.collect()
}

#[test]
fn a_job_is_divided_once_per_revision() {
    let first = job(10, &["a", "b"]);
    let stored = stored(&first);
    let mut grown = job(10, &["a", "b", "c"]);
    grown.previous = Previous::from_decisions_at("app-v1", &stored);
    let again = grown.place();
    let before = numbers(&first.place());
    assert_eq!(numbers(&again), before, "a cluster that joins gets nothing of it");
    assert_eq!(again[0].clusters, ["a", "b"]);
    assert_eq!(unplaced(&again), [(None, 1, "Unclaimed")]);
    assert!(again[0].satisfied);
    // Deciding again writes nothing.
    let mut same = job(10, &["a", "b"]);
    same.previous = Previous::from_decisions_at("app-v1", &stored);
    assert_eq!(decision_hash(&same.place()[0]), decision_hash(&first.place()[0]));
    // The next revision is divided anew.
    grown.previous = Previous::from_decisions_at("app-v2", &stored);
    assert_eq!(numbers(&grown.place()), [3, 3, 3]);
    // So is anything that is no Job.
    let mut deployment = Case::new(
        json!({"placement": [{"name": "r", "replicas": "90%"}]}),
        10,
        grown.clusters,
    );
    deployment.previous = Previous::from_decisions_at("app-v1", &stored);
    assert_eq!(numbers(&deployment.place()), [3, 3, 3]);
}

/// A decision names no group: what the workload is says the workload.
#[test]
fn a_kind_of_that_name_in_another_group_is_divided_anew() {
    let mut first = job(10, &["a", "b"]);
    first.workloads[0].once = false;
    let stored = stored(&first);
    assert!(
        stored[0].workloads[0]
            .clusters
            .iter()
            .all(|row| row.before.is_none())
    );
    let mut grown = job(10, &["a", "b", "c"]);
    grown.workloads[0].once = false;
    grown.previous = Previous::from_decisions_at("app-v1", &stored);
    assert_eq!(numbers(&grown.place()), [3, 3, 3]);
    // It stands like anything else while the run that has passed it lasts.
    grown.previous = grown.previous.passing(&stored);
    assert_eq!(numbers(&grown.place()), numbers(&first.place()));
}

#[test]
fn what_a_lost_cluster_had_of_a_job_is_unplaced_and_named() {
    let stored = stored(&job(10, &["a", "b", "c"]));
    let mut lost = job(10, &["a", "c"]);
    lost.previous = Previous::from_decisions_at("app-v1", &stored);
    let decisions = lost.place();
    assert_eq!(numbers(&decisions), [3, 3]);
    assert_eq!(
        unplaced(&decisions),
        [(Some("r"), 3, "DividedOnce"), (None, 1, "Unclaimed")]
    );
    assert_eq!(decisions[0].workloads[0].placed, 6);
    assert!(!decisions[0].satisfied);
    assert_eq!(
        decisions[0].reasons,
        [
            "3 replicas of Job default/web lost the clusters that rule r gave them to, and a Job is divided once per revision: \
          change the Job to divide it anew",
            "1 of 10 replicas of Job default/web is not placed: no rule claims it (percentages sum to 90%; remainder: Hold); set \
          remainder: Spread in every placing step, or raise a percentage"
        ]
    );
    // It stays lost, and told.
    let again = Previous::from_decisions_at("app-v1", &stored_of(decisions.clone()));
    lost.previous = again;
    let later = lost.place();
    assert_eq!(
        (&later[0].reasons, later[0].satisfied),
        (&decisions[0].reasons, false)
    );
    assert_eq!(decision_hash(&later[0]), decision_hash(&decisions[0]));
}

#[test]
fn a_job_that_lost_all_its_clusters_is_not_divided_again() {
    let stored = stored(&job(10, &["a"]));
    let mut lost = job(10, &["b"]);
    lost.previous = Previous::from_decisions_at("app-v1", &stored);
    for _ in 0..3 {
        let decisions = lost.place();
        assert_eq!(numbers(&decisions), [0; 0]);
        assert_eq!(
            unplaced(&decisions),
            [(Some("r"), 9, "DividedOnce"), (None, 1, "Unclaimed")]
        );
        lost.previous = Previous::from_decisions_at("app-v1", &stored_of(decisions));
    }
}

#[test]
fn a_job_in_full_that_a_cluster_has_no_room_for_stays_unsatisfied() {
    let mut job = job(3, &["a", "b"]);
    job.steps[0].1 = serde_json::from_value(json!({"placement": [{"name": "r"}]})).unwrap();
    job.clusters[1].capacity = Some(1);
    for _ in 0..3 {
        let decisions = job.place();
        assert_eq!(numbers(&decisions), [3, 1]);
        assert_eq!(
            (decisions[0].satisfied, decisions[0].reasons.as_slice()),
            (
                false,
                &[
                    "rule r does not give every cluster all 3 replicas of Job default/web (b: Capacity 1)"
                        .to_owned()
                ][..]
            )
        );
        job.previous = Previous::from_decisions_at("app-v1", &stored_of(decisions));
    }
}

#[test]
fn what_a_job_could_not_place_is_told_as_long_as_it_is_so() {
    let mut job = job(10, &["a", "b"]);
    job.steps[0].1 = serde_json::from_value(
        json!({"placement": [{"name": "r", "replicas": "100%", "perCluster": {"max": 2}}]}),
    )
    .unwrap();
    let first = job.place();
    job.previous = Previous::from_decisions_at("app-v1", &stored_of(first.clone()));
    let second = job.place();
    assert_eq!(
        second[0].reasons,
        [
            "6 replicas of Job default/web could not be placed when rule r was divided (AtMaximum), and a Job is divided once per \
          revision: change the Job to divide it anew"
        ]
    );
    assert!(!second[0].satisfied);
    assert_eq!(unplaced(&second), unplaced(&first));
}

/// East on `a`, west on `b`, ten replicas in all.
fn two_steps(kind: &str, east: &str, west: &str) -> Case {
    let rule = |name: &str, cluster: &str, share: &str| {
        let share = share.parse::<u32>().map_or(json!(share), |count| json!(count));
        json!({"placement": [{"name": name, "replicas": share, "clusters": [cluster]}]})
    };
    let mut case = Case::default()
        .step("first", rule("east", "a", east))
        .step("second", rule("west", "b", west))
        .clusters(["a", "b"].map(|name| cluster(name, "")))
        .web(10);
    case.workloads[0].key.kind = kind.to_owned();
    case.workloads[0].once = kind == "Job";
    case
}

#[test]
fn a_job_that_one_step_has_divided_leaves_the_rest_to_the_others() {
    for (before, after, expected, left, told) in [
        (
            ("70%", "30%"),
            ("30%", "70%"),
            [7, 3],
            None,
            vec![
                "step first was divided before the placement changed and holds 7 of the 10 replicas of Job default/web: rule west \
              gets 3 of 7; a Job is divided once per revision: change the Job to divide it anew",
            ],
        ),
        (
            ("30%", "70%"),
            ("70%", "20%"),
            [3, 2],
            Some(5),
            vec![
                "4 replicas of Job default/web are not placed: step first was divided before the placement changed and holds 3 of \
              the 10 replicas of Job default/web, where its rules would give 7 now; a Job is divided once per revision: change \
              the Job to divide it anew",
                "1 of 10 replicas of Job default/web is not placed: no rule claims it (percentages sum to 90%; remainder: Hold); \
              set remainder: Spread in every placing step, or raise a percentage",
            ],
        ),
        (("70%", "30%"), ("70%", "30%"), [7, 3], None, vec![]),
        // More than there is, whatever is divided already.
        (
            ("4", "30%"),
            ("4", "100%"),
            [4, 6],
            None,
            vec![
                "Overcommitted: the rules claim more than the 10 replicas of Job default/web: rule west gets 6 of 10; lower counts \
              or percentages",
            ],
        ),
    ] {
        let mut stored = stored(&two_steps("Job", before.0, before.1));
        stored.truncate(1);
        let mut case = two_steps("Job", after.0, after.1);
        case.previous = Previous::from_decisions_at("app-v1", &stored);
        let decisions = case.place();
        assert_eq!(numbers(&decisions), expected, "{before:?} {after:?}");
        let unclaimed = left.map(|count| (None, count, "Unclaimed"));
        assert_eq!(unplaced(&decisions), unclaimed.into_iter().collect::<Vec<_>>());
        assert_eq!(decisions[1].reasons, told);
        // Once both are divided nothing changes any more.
        case.previous = Previous::from_decisions_at("app-v1", &stored_of(decisions.clone()));
        assert_eq!(numbers(&case.place()), expected);
        let hashes: Vec<String> = decisions.iter().map(decision_hash).collect();
        assert_eq!(case.place().iter().map(decision_hash).collect::<Vec<_>>(), hashes);
    }
}

#[test]
fn a_step_that_the_run_has_passed_leaves_the_rest_to_the_others() {
    let before = stored(&two_steps("Deployment", "70%", "30%"));
    let mut case = two_steps("Deployment", "30%", "70%");
    case.previous = Previous::from_decisions(&before).passing(&before[..1]);
    let decisions = case.place();
    assert_eq!(numbers(&decisions), [7, 3]);
    assert_eq!(
        decisions[1].reasons,
        [
            "step first was divided before the placement changed and holds 7 of the 10 replicas of Deployment default/web: rule \
          west gets 3 of 7; all steps are divided anew when the run has succeeded"
        ]
    );
    // It has.
    case.previous = Previous::from_decisions(&stored_of(decisions));
    assert_eq!(numbers(&case.place()), [3, 7]);
    // Other replicas are another division.
    case.previous = Previous::from_decisions(&before).passing(&before[..1]);
    case.workloads[0].replicas = 20;
    assert_eq!(numbers(&case.place()), [6, 14]);
}

#[test]
fn a_job_that_no_cluster_got_is_divided_when_one_comes() {
    let stored = stored(&job(10, &[]));
    assert_eq!(stored[0].workloads.len(), 1);
    let mut joined = job(10, &["a", "b", "c"]);
    joined.previous = Previous::from_decisions_at("app-v1", &stored);
    assert_eq!(numbers(&joined.place()), [3, 3, 3]);
}

/// Cluster -> completions, of `of` in all, as they are dispatched.
fn completions(decisions: &[DecisionSpec], parallelism: u32, of: u32) -> Vec<(String, u64)> {
    let layers: Vec<_> = decisions.iter().map(|spec| Layer::of(true, spec)).collect();
    let shares = shares(&layers).into_iter();
    let parts = shares.flat_map(|(cluster, share)| {
        share
            .replicas
            .into_values()
            .map(move |part| (cluster.clone(), part))
    });
    let completed = |(cluster, part)| {
        let spec = json!({"parallelism": parallelism, "completions": of});
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec});
        set_share(&mut job, &part, &ReplicaPaths::default());
        (
            cluster,
            job.pointer("/spec/completions").and_then(Value::as_u64).unwrap(),
        )
    };
    parts
        .filter(|(_, part)| part.replicas > 0)
        .map(completed)
        .collect()
}

/// What is stored after these clusters have gone.
fn stored_without(case: &mut Case, stored: &[DecisionSpec], gone: &[&str]) -> Vec<DecisionSpec> {
    case.clusters
        .retain(|cluster| !gone.contains(&cluster.name.as_str()));
    case.previous = Previous::from_decisions_at("app-v1", stored);
    stored_of(case.place())
}

#[test]
fn completions_stay_when_another_cluster_goes() {
    let mut case = job(3, &["a", "b", "c"]);
    case.steps[0].1 = serde_json::from_value(json!({"placement": [{"replicas": "100%"}]})).unwrap();
    let first = stored(&case);
    let part = |cluster: &str, completions: u64| (cluster.to_owned(), completions);
    assert_eq!(
        completions(&first, 3, 10),
        [part("a", 3), part("b", 3), part("c", 4)]
    );
    let second = stored_without(&mut case, &first, &["a"]);
    assert_eq!(completions(&second, 3, 10), [part("b", 3), part("c", 4)]);
    let third = stored_without(&mut case, &second, &["b"]);
    assert_eq!(completions(&third, 3, 10), [part("c", 4)]);
    // One that was stored before this was remembered is what it was.
    let mut old = first;
    let rows = old
        .iter_mut()
        .flat_map(|spec| &mut spec.workloads)
        .flat_map(|w| &mut w.clusters);
    rows.for_each(|row| row.before = None);
    assert_eq!(
        completions(&old, 3, 10),
        [part("a", 3), part("b", 3), part("c", 4)]
    );
}

#[test]
fn completions_of_a_later_step_stay_and_no_step_does_again_what_was_lost() {
    let mut case = two_steps("Job", "7", "3");
    let first = stored(&case);
    let part = |cluster: &str, completions: u64| (cluster.to_owned(), completions);
    // 3.5 each would be 70 % and 30 % of 5.
    assert_eq!(completions(&first, 10, 5), [part("a", 3), part("b", 2)]);
    let second = stored_without(&mut case, &first, &["a"]);
    assert_eq!(completions(&second, 10, 5), [part("b", 2)]);
    // The second step is divided when the first has lost everything: it gets its own part, not the lost one.
    let mut case = two_steps("Job", "7", "3");
    let late = stored_without(&mut case, &first[..1], &["a"]);
    assert_eq!(completions(&late, 10, 5), [part("b", 2)]);
    // And the first when the second is divided already: what is left.
    let mut case = two_steps("Job", "7", "3");
    case.previous = Previous::from_decisions_at("app-v1", &first[1..]);
    let early = stored_of(case.place());
    assert_eq!(completions(&early, 10, 5), [part("a", 3), part("b", 2)]);
    let mut alone = two_steps("Job", "7", "3");
    alone.clusters.remove(0);
    let only = stored(&alone);
    assert_eq!(completions(&only, 10, 5), [part("b", 1)]);
    let mut joined = two_steps("Job", "7", "3");
    joined.previous = Previous::from_decisions_at("app-v1", &only);
    let both = stored_of(joined.place());
    assert_eq!(completions(&both, 10, 5), [part("a", 4), part("b", 1)]);
}

#[test]
fn what_stands_takes_its_room_before_anything_is_divided() {
    let spec = json!({"placement": [{"name": "r", "replicas": "100%"}]});
    let mut case = Case::new(spec, 8, ["a", "b"].map(|name| cluster(name, "")));
    case.clusters
        .iter_mut()
        .for_each(|cluster| cluster.capacity = Some(10));
    case.workloads.push(workload("j", 12));
    case.workloads[1].key.kind = "Job".to_owned();
    case.workloads[1].once = true;
    let first = stored(&case);
    let on_a = |decisions: &[DecisionSpec]| -> Vec<u32> {
        let rows = decisions[0].workloads.iter().flat_map(|w| &w.clusters);
        rows.filter(|row| row.name == "a")
            .map(|row| row.replicas)
            .collect()
    };
    assert_eq!(on_a(&first), [4, 6]);
    let second = stored_without(&mut case, &first, &["b"]);
    assert_eq!(on_a(&second), [4, 6], "10 of 10");
    let decisions = case.place();
    assert_eq!(counts(&decisions), [("a".to_owned(), 4)]);
    assert_eq!(unplaced(&decisions), [(Some("r"), 4, "AtCapacity")]);
}
