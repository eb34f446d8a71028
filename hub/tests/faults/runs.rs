//! Runs from many seeds. With `ROUNDHOUSE_TRACE=east-5` everything that happened in and about that cluster is printed of a run that is
//! bad.

use roundhouse_hub::simulate::{
    fault::{Dice, Kind},
    run::{LOOKED, Missed, Outcome, Script, Until, agreement, run},
    trace::Object,
};
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Everything is delivered so soon after the last fault, and stays so for a minute.
pub(crate) fn delivered_within(converges: Duration) -> Until {
    Until::Delivered {
        within: converges,
        quiet: SECOND * 60,
    }
}

/// Whatever is delivered and whatever waits by then, nothing more is written for a minute.
pub(crate) fn at_rest() -> Until {
    Until::Done {
        within: SETTLES,
        idle: SECOND * 60,
        quiet: SECOND * 60,
    }
}

/// Whether there is time for everything.
pub(crate) fn is_long() -> bool {
    std::env::var("ROUNDHOUSE_LONG").is_ok_and(|value| value == "1")
}

/// Whether one seed was asked for: then others show what only some runs do.
pub(crate) fn is_one() -> bool {
    std::env::var_os("ROUNDHOUSE_SEED").is_some()
}

/// The seeds of a test.
pub(crate) fn seeds() -> Vec<u64> {
    match std::env::var("ROUNDHOUSE_SEED") {
        Ok(seed) => {
            let seed = seed.parse();
            vec![seed.unwrap_or_else(|error| panic!("ROUNDHOUSE_SEED has to be a number: {error}"))]
        }
        Err(_) if is_long() => (0..100).collect(),
        Err(_) => (0..3).collect(),
    }
}

/// One of these, as the seed has it.
pub(crate) fn one<T: Clone>(dice: &mut Dice, of: &[T]) -> T {
    dice.pick(of).unwrap().clone()
}

/// A time in milliseconds, as the seed has it.
pub(crate) fn after(dice: &mut Dice, from: u64, to: u64) -> Duration {
    dice.between(&(Duration::from_millis(from)..=Duration::from_millis(to)))
}

/// The clusters of a region.
pub(crate) fn of_region(script: &Script, region: &str) -> Vec<String> {
    let names = script.names().into_iter();
    names.filter(|name| name.starts_with(region)).collect()
}

/// So soon after the last fault at the latest everything is delivered, and in the clusters as it should be: a watch that is dead in
/// silence is given up after 295 s, and every agent looks at everything every five minutes.
pub(crate) const SETTLES: Duration = Duration::from_secs(15 * 60);

/// Runs a script from every seed, and checks that all is as promised and as the script expects, and that every cluster has at the end
/// what was decided. Where it rests when all is delivered, one in ten of a long run rests for so long that everybody has looked at
/// everything once more.
pub(crate) fn good(script: impl Fn(u64) -> Script) -> Vec<Outcome> {
    good_with_drift(|seed| {
        let mut script = script(seed);
        script.finally.push(agreement(&script.cues));
        script
    })
}

/// The same where something in the clusters stays as others have it.
pub(crate) fn good_with_drift(script: impl Fn(u64) -> Script) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = seeds()
        .into_iter()
        .map(|seed| {
            let mut script = script(seed);
            let looks = is_long() && seed.is_multiple_of(10);
            if let (true, Until::Delivered { quiet, .. }) = (looks, &mut script.until) {
                *quiet = LOOKED;
            }
            let outcome = run(&script, seed);
            assert!(outcome.is_good(), "{outcome}{}", traced(&outcome));
            let settled = outcome.settled_after();
            assert!(
                settled.is_none_or(|after| after <= SETTLES),
                "{settled:?}\n{outcome}"
            );
            outcome
        })
        .collect();
    // What strikes now and then may spare a run, and not all of them.
    let spares = |outcome: &Outcome| outcome.missed.iter().any(|one| matches!(one, Missed::Fault(_)));
    assert!(
        is_one() || !outcomes.iter().all(spares),
        "a fault of the network befell nobody: {:?}",
        outcomes.iter().map(|outcome| &outcome.missed).collect::<Vec<_>>()
    );
    outcomes
}

/// What happened in and about the cluster that is asked for.
pub(crate) fn traced(outcome: &Outcome) -> String {
    let cluster = std::env::var("ROUNDHOUSE_TRACE").ok();
    let objects = cluster.map(|cluster| vec![Object::party(&cluster, "agent")]);
    objects.map_or(String::new(), |objects| {
        outcome.trace.of(&objects, Duration::MAX, usize::MAX)
    })
}

/// The faults happened in every run: one that is not struck shows nothing.
pub(crate) fn struck(outcomes: &[Outcome], kinds: &[Kind]) {
    for outcome in outcomes {
        for kind in kinds {
            assert!(
                outcome.seen.contains_key(kind),
                "{kind} did not happen\n{outcome}"
            );
        }
    }
}
