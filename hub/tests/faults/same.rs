//! P14 of whole runs: the same script and the same seed give the same run. And every run ends.

use crate::runs::{SECOND, is_long, seeds};
use roundhouse_hub::simulate::run::{Act, Script, Target, random, run};
use serde_json::json;
use std::thread;

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let mut seeds = seeds();
    if !is_long() {
        // Each run takes as long as a fault test.
        seeds.truncate(1);
    }
    // One that another is compared with.
    let other = seeds.iter().max().unwrap() + 1;
    let mut digests: Vec<String> = seeds
        .into_iter()
        .map(|seed| {
            // On threads of their own: what a run draws from its thread is another's.
            let [one, two] = [(); 2].map(|()| thread::spawn(move || run(&random(seed), seed)));
            let (one, two) = (one.join().unwrap(), two.join().unwrap());
            assert_eq!(
                String::from_utf8(one.trace.canonical()),
                String::from_utf8(two.trace.canonical()),
                "seed {seed}"
            );
            assert_eq!(one.timeline, two.timeline, "seed {seed}");
            assert_eq!(one.revisions, two.revisions, "seed {seed}");
            assert_eq!(one.digest(), two.digest());
            one.digest()
        })
        .collect();
    digests.push(run(&random(other), other).digest());
    let mut different = digests.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), digests.len());
}

#[test]
fn what_never_goes_through_ends_a_run_as_a_failure() {
    let nowhere = Target {
        member: Some("east-1".to_owned()),
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: "default".to_owned(),
        name: "nowhere".to_owned(),
    };
    let patch = Act::Patch(nowhere, json!({"data": {"a": "b"}}));
    let script = Script::of_regions(1, &["east"]).at(SECOND, patch);
    let outcome = run(&script, 7);
    let [failure] = &outcome.failures[..] else {
        panic!("{outcome}");
    };
    assert_eq!(
        failure.what,
        "still to be done after 900s: ConfigMap default/nowhere in east-1 is changed is tried again: configmaps \
         \"nowhere\" not found"
    );
    assert!(!outcome.is_good());
}
