//! Random faults over whole fleets. `ROUNDHOUSE_SEEDS=0..10000` runs so many, on all cores:
//!
//! `ROUNDHOUSE_SEEDS=0..10000 cargo test --release -p roundhouse-hub --test faults -- --nocapture soak`

use crate::runs::seeds;
use parking_lot::Mutex;
use roundhouse_hub::simulate::{
    fault::Kind,
    run::{Outcome, random, run},
};
use std::{collections::BTreeMap, thread};

fn range() -> Vec<u64> {
    let asked = std::env::var("ROUNDHOUSE_SEEDS").ok();
    let range = asked.as_deref().and_then(|range| {
        let (from, to) = range.split_once("..")?;
        Some((from.parse::<u64>().ok()?..to.parse().ok()?).collect())
    });
    range.unwrap_or_else(seeds)
}

#[expect(
    clippy::disallowed_methods,
    reason = "what it takes in real time is told, and decides nothing"
)]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn a_soak_of_random_faults_keeps_every_promise_and_converges() {
    let (began, seeds) = (clock(), range());
    let left = Mutex::new(seeds.clone().into_iter());
    let bad: Mutex<Vec<String>> = Mutex::default();
    let seen: Mutex<BTreeMap<Kind, u64>> = Mutex::default();
    let work = || {
        loop {
            let Some(seed) = left.lock().next() else { return };
            let at = clock();
            let outcome = run(&random(seed), seed);
            note(&outcome, at.elapsed().as_secs_f64(), &seen, &bad);
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|threads| {
        for _ in 0..cores.min(seeds.len()) {
            threads.spawn(work);
        }
    });
    println!(
        "{} runs of 20 clusters and 3 applications in {:.1} s; faults seen:",
        seeds.len(),
        began.elapsed().as_secs_f64()
    );
    for (kind, count) in seen.lock().iter() {
        println!("{count:8}  {kind}");
    }
    let bad = bad.into_inner();
    assert!(
        bad.is_empty(),
        "{} of {} runs:\n{}",
        bad.len(),
        seeds.len(),
        bad.join("\n")
    );
}

fn note(outcome: &Outcome, took: f64, seen: &Mutex<BTreeMap<Kind, u64>>, bad: &Mutex<Vec<String>>) {
    for (kind, count) in &outcome.seen {
        *seen.lock().entry(*kind).or_default() += count;
    }
    println!(
        "seed {}: {} in {took:.1} s, {} virtual s, {} writes, converged after {:?}",
        outcome.seed,
        if outcome.is_good() { "good" } else { "BAD" },
        outcome.took.as_secs(),
        outcome.writes,
        outcome.converged_after
    );
    if !outcome.is_good() {
        let mut bad = bad.lock();
        if bad.len() < 20 {
            bad.push(outcome.to_string());
        }
    }
}
