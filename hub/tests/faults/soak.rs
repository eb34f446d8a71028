//! Random faults over whole fleets: from 10,000 seeds with `ROUNDHOUSE_LONG=1`, on all cores; `ROUNDHOUSE_SEEDS=0..500` runs others.
//!
//! `ROUNDHOUSE_LONG=1 cargo test --release -p roundhouse-hub --test faults -- --nocapture soak`

use crate::runs::{SETTLES, is_long, is_one, seeds, traced};
use parking_lot::Mutex;
use roundhouse_hub::simulate::{
    fault::Kind,
    monitor::Promise,
    run::{Outcome, random, run},
};
use std::{collections::BTreeMap, thread};

/// Seeds of a long run.
const LONG: u64 = 10_000;

fn range() -> Vec<u64> {
    let Ok(asked) = std::env::var("ROUNDHOUSE_SEEDS") else {
        return match is_long() && !is_one() {
            true => (0..LONG).collect(),
            false => seeds(),
        };
    };
    let range = || {
        let (from, to) = asked.split_once("..")?;
        Some(from.parse::<u64>().ok()?..to.parse().ok()?)
    };
    let range =
        range().unwrap_or_else(|| panic!("ROUNDHOUSE_SEEDS is {asked:?}: give a range such as 0..100"));
    assert!(
        !range.is_empty(),
        "ROUNDHOUSE_SEEDS is {asked:?}: there is no seed in it"
    );
    range.collect()
}

/// A soak is one of at least so many faults …
const FAULTS: u64 = 10;
/// … with an end of the hub among them.
const ENDS: [Kind; 4] = [
    Kind::HubKilled,
    Kind::HubStopped,
    Kind::PowerCut,
    // With its store.
    Kind::HubEnded,
];

/// Among so many runs there is something of everything, and of every promise something to judge among the three quick ones …
const MANY: usize = 100;
/// … that the seed may draw.
const DRAWN: [Kind; 28] = [
    Kind::RequestLost,
    Kind::AnswerLost,
    Kind::Reset,
    Kind::Delayed,
    Kind::Duplicated,
    Kind::Late,
    Kind::Refused,
    Kind::Stalled,
    Kind::Stale,
    Kind::WatchEnded,
    Kind::WatchSilenced,
    Kind::FrameDelayed,
    Kind::CutOff,
    Kind::Partition,
    Kind::ClockJump,
    Kind::DiskFull,
    Kind::SyncFailed,
    Kind::DiskSlow,
    Kind::BitFlipped,
    Kind::PowerCut,
    Kind::Unsynced,
    Kind::HubKilled,
    Kind::HubStopped,
    Kind::HubEnded,
    Kind::HubPaused,
    Kind::AgentKilled,
    Kind::AgentStopped,
    Kind::KilledAtMoment,
];

/// The same of the parts of promises.
const PARTS: [(Promise, &str); 26] = [
    (Promise::P1, "what agents read"),
    (Promise::P5, "agents remove"),
    (Promise::P5, "agents let go"),
    (Promise::P5, "the hub removes"),
    (Promise::P5, "nothing falls out of a Bundle"),
    (Promise::P5, "what people have made stays"),
    (Promise::P5, "who is out of reach keeps its place"),
    (Promise::P6, "Bundles have what was decided"),
    (Promise::P7, "steps begin"),
    (Promise::P7, "steps that place pass"),
    (Promise::P7, "statuses are of their run"),
    (Promise::P7, "steps of objects pass"),
    (Promise::P7, "steps that wait pass"),
    (Promise::P7, "steps that suspend pass"),
    (Promise::P7, "what agents report"),
    (Promise::P7, "what agents report to be gone"),
    (Promise::P8, "maxParallel"),
    (Promise::P8, "the budget of removals"),
    (Promise::P8, "nothing goes on that has stopped"),
    (Promise::P9, "keeps what it has"),
    (Promise::P9, "deletes what it was told"),
    (Promise::P9, "puts right what others change"),
    (Promise::P10, "what agents write"),
    (Promise::P10, "what agents write in Deployments"),
    (Promise::P10, "what agents write in Services"),
    (Promise::P10, "what people have made"),
];

/// Of these not even three runs need have something.
const RARE: [(Promise, &str); 11] = [
    (Promise::P5, "what people have made stays"),
    (Promise::P10, "what agents write in Deployments"),
    (Promise::P10, "what agents write in Services"),
    (Promise::P5, "agents let go"),
    (Promise::P7, "steps of objects pass"),
    (Promise::P7, "steps that wait pass"),
    (Promise::P7, "steps that suspend pass"),
    (Promise::P8, "the budget of removals"),
    (Promise::P8, "nothing goes on that has stopped"),
    (Promise::P9, "deletes what it was told"),
    (Promise::P9, "puts right what others change"),
];

/// What a run did not do that makes it a good soak.
fn lacks(outcome: &Outcome) -> Option<&'static str> {
    match outcome.faults {
        _ if !ENDS.iter().any(|end| outcome.seen.contains_key(end)) => Some("no hub ended"),
        ..FAULTS => Some("fewer than ten faults happened"),
        _ if outcome.is_good() && outcome.settled_after().is_none_or(|after| after > SETTLES) => {
            Some("it took longer than 15 minutes")
        }
        _ => None,
    }
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
    let judged: Mutex<BTreeMap<(Promise, &str), usize>> = Mutex::default();
    let work = || {
        loop {
            let Some(seed) = left.lock().next() else { return };
            let at = clock();
            let outcome = run(&random(seed), seed);
            note(&outcome, at.elapsed().as_secs_f64(), &seen, &bad);
            for part in &outcome.parts {
                *judged.lock().entry(*part).or_default() += 1;
            }
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
    println!("runs in which there was something to judge:");
    for ((promise, part), count) in judged.lock().iter() {
        println!("{count:8}  {promise:?} {part}");
    }
    let is_whole = seeds.len() >= MANY;
    if is_whole || seeds == [0, 1, 2] {
        // A kind of fault that befalls nobody any more, or a promise that nothing is judged by, shows nothing.
        let (seen, judged) = (seen.lock(), judged.lock());
        let drawn = DRAWN.iter().filter(|_| is_whole);
        let unseen: Vec<&Kind> = drawn.filter(|kind| !seen.contains_key(kind)).collect();
        let is_judged = |promise: &Promise| judged.keys().any(|(of, _)| of == promise);
        let unjudged: Vec<Promise> = Promise::ALL.into_iter().filter(|of| !is_judged(of)).collect();
        let parts = PARTS.iter().filter(|part| is_whole || !RARE.contains(part));
        let without: Vec<_> = parts.filter(|part| !judged.contains_key(part)).collect();
        assert!(
            unseen.is_empty() && unjudged.is_empty() && without.is_empty(),
            "{unseen:?} {unjudged:?} {without:?}"
        );
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
        "seed {}: {} in {took:.1} s, {} virtual s, {} writes, settled after {:?}",
        outcome.seed,
        if outcome.is_good() { "good" } else { "BAD" },
        outcome.took.as_secs(),
        outcome.writes,
        outcome.settled_after()
    );
    let lacks = lacks(outcome).map(|lacks| format!("seed {} is no good soak: {lacks}\n", outcome.seed));
    if !outcome.is_good() || lacks.is_some() {
        let mut bad = bad.lock();
        if bad.len() < 20 {
            bad.push(lacks.unwrap_or_default() + &outcome.to_string() + &traced(outcome));
        }
    }
}
