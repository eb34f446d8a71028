//! P14 of whole runs: the same script and the same seed give the same run.

use crate::runs::seeds;
use roundhouse_hub::simulate::run::{random, run};
use std::thread;

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let digests: Vec<String> = seeds()
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
    let mut different = digests.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), digests.len());
}
