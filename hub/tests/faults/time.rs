//! Clocks: F15.

use crate::{
    applications::step,
    looks::{all_available, generations, images, none_unavailable_but, transitions, unavailable},
    runs::{SECOND, after, good, one, struck},
};
use jiff::SignedDuration;
use roundhouse_api::application::StepPhase;
use roundhouse_hub::simulate::{
    HUB, OTHER_HUB,
    fault::{Dice, Kind},
    run::{Act, Cue, Fault, Script, application, with_image},
};
use serde_json::{Value, json};
use std::time::Duration;

/// An hour, in milliseconds.
const HOUR: u64 = 3_600_000;

/// The clock of the hub or of an agent is wrong for so many milliseconds, by up to an hour.
fn jump(dice: &mut Dice, agents: &[String], (shortest, longest): (u64, u64)) -> Act {
    let agent = one(dice, agents);
    let who = one(dice, &[HUB.to_owned(), agent]);
    let fast = i64::try_from(dice.below(2 * HOUR + 1)).unwrap() - i64::try_from(HOUR).unwrap();
    let lasting = after(dice, shortest, longest);
    Act::for_a_while(Fault::Clock(who, SignedDuration::from_millis(fast)), lasting)
}

/// So often a clock jumps in a delivery, there and back.
const JUMPS: u64 = 6;

/// A delivery that waits for a cluster for three minutes, while clocks jump.
fn waits_while_clocks_jump(seed: u64) -> Script {
    let mut dice = Dice::new(seed, "f15");
    let web = application("web", 12, &[("east", "50%"), ("west", "50%")]);
    let mut script = Script::of_regions(3, &["east", "west"]).with(web.clone());
    let names = script.names();
    let cut_off = vec!["west-2".to_owned()];
    script = script
        .at(SECOND * 20, Act::Apply(with_image(&web, "web:2")))
        .then(Act::for_a_while(Fault::Partition(cut_off), SECOND * 200));
    for _ in 0..JUMPS {
        let at = after(&mut dice, 21_000, 150_000);
        script = script.at(at, jump(&mut dice, &names, (1_000, 60_000)));
    }
    for n in 16..44 {
        let waits = step("web", "west", &[StepPhase::Running]);
        script = script.at(SECOND * 5 * n, Act::check("the west waits", waits));
    }
    script
        .finally(
            "the newest runs everywhere",
            images("web", "web:2", names.clone()),
        )
        .finally("it was changed once", generations("web", 2, names))
}

/// The same script with clocks that are right.
fn with_right_clocks(mut script: Script) -> Script {
    let jumps = |cue: &Cue| matches!(cue.act, Act::Begin(Fault::Clock(..), _));
    script.cues.retain(|cue| !jumps(cue));
    script
}

#[test]
fn f15_clocks_that_jump_by_an_hour_make_no_loop_and_let_nothing_pass_early() {
    let jumped = good(waits_while_clocks_jump);
    let right = good(|seed| with_right_clocks(waits_while_clocks_jump(seed)));
    struck(&jumped, &[Kind::ClockJump]);
    for (jumped, right) in jumped.iter().zip(&right) {
        // Every write counts here, those of Leases, too, and those that change nothing but a time.
        for (server, written) in &jumped.revisions {
            let usual = right.revisions[server];
            assert!(
                *written <= usual + 2 * JUMPS,
                "{server}: {written} writes, and {usual} where the clocks are right\n{jumped}"
            );
        }
    }
}

/// The east, a pause of 100 seconds, and the west.
fn with_a_pause() -> Value {
    let mut web = application("web", 12, &[("east", "50%"), ("west", "50%")]);
    let steps = web.pointer_mut("/spec/workflow/steps").unwrap();
    let pause = json!({"name": "pause", "type": "suspend", "properties": {"duration": "100s"}});
    steps.as_array_mut().unwrap().insert(1, pause);
    web
}

#[test]
fn f15_a_pause_lasts_as_long_as_it_is_to_whatever_the_clock_of_the_hub_says() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f15");
        let script = Script::of_regions(3, &["east", "west"]).with(with_a_pause());
        let names = script.names();
        let mut script = script.then(Act::wait(
            "the pause begins",
            step("web", "pause", &[StepPhase::Suspending]),
        ));
        for _ in 0..4 {
            let at = after(&mut dice, 0, 95_000);
            script = script.at(at, jump(&mut dice, &names, (1_000, 60_000)));
        }
        for n in 1..20 {
            let goes_on = step("web", "pause", &[StepPhase::Suspending]);
            script = script.at(SECOND * 5 * n, Act::check("the pause goes on", goes_on));
        }
        let over = step("web", "pause", &[StepPhase::Succeeded]);
        script.at(SECOND * 110, Act::check("it is over in time", over))
    });
    struck(&outcomes, &[Kind::ClockJump]);
    for outcome in outcomes {
        assert!(outcome.settled_after().unwrap() < SECOND * 30, "{outcome}");
    }
}

#[test]
fn f15_a_pause_lasts_as_long_under_the_hub_that_takes_over_whatever_its_clock_says() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f15");
        let fast =
            SignedDuration::from_millis(i64::try_from(after(&mut dice, 60_000, HOUR).as_millis()).unwrap());
        let fast = one(&mut dice, &[fast, -fast]);
        // It is started with that: what jumps while it runs, it knows by itself.
        let wrong = Fault::Clock(OTHER_HUB.to_owned(), fast);
        let stopped = Fault::Stopped(OTHER_HUB.to_owned());
        let script = Script::of_regions(3, &["east", "west"])
            .with(with_a_pause())
            .with_two_hubs();
        let mut script = script.then(Act::wait(
            "the pause begins",
            step("web", "pause", &[StepPhase::Suspending]),
        ));
        script = script
            .at(Duration::ZERO, Act::for_a_while(stopped, SECOND * 5))
            .at(SECOND, Act::for_a_while(wrong, SECOND * 300));
        let killed = Fault::Killed(HUB.to_owned());
        let killed = Act::for_a_while(killed, SECOND * 200);
        let at = after(&mut dice, 30_000, 35_000);
        // A cluster that is lost with the hub is not heard of any more by the next one, and the others are.
        let lost = Fault::Partition(vec!["west-2".to_owned()]);
        script = script.at(at, killed).at(at, Act::for_a_while(lost, SECOND * 75));
        for n in 0..10 {
            let others = Act::check("no other one is given up", none_unavailable_but("west-2"));
            script = script.at(SECOND * (60 + 3 * n), others);
        }
        script = script.at(
            at + SECOND * 70,
            Act::check("it is given up", unavailable(&["west-2"])),
        );
        for n in 1..20 {
            let goes_on = step("web", "pause", &[StepPhase::Suspending]);
            script = script.at(SECOND * 5 * n, Act::check("the pause goes on", goes_on));
        }
        let over = step("web", "pause", &[StepPhase::Succeeded]);
        script
            .at(SECOND * 115, Act::check("it is over in time", over))
            .finally("the other one has led", transitions(1))
    });
    struck(&outcomes, &[Kind::ClockJump, Kind::HubKilled]);
}

#[test]
fn f15_a_pause_takes_no_longer_than_its_time_under_a_hub_that_is_started_with_a_slow_clock() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f15");
        let slow = i64::try_from(after(&mut dice, 60_000, HOUR).as_millis()).unwrap();
        let slow = Fault::Clock(HUB.to_owned(), SignedDuration::from_millis(-slow));
        let script = Script::of_regions(3, &["east", "west"]).with(with_a_pause());
        let mut script = script.then(Act::wait(
            "the pause begins",
            step("web", "pause", &[StepPhase::Suspending]),
        ));
        let at = after(&mut dice, 5_000, 30_000);
        let killed = Fault::Killed(HUB.to_owned());
        let lasting = after(&mut dice, 15_000, 60_000);
        script = script
            .at(at, Act::for_a_while(killed, SECOND * 10))
            .at(at + SECOND, Act::for_a_while(slow, lasting));
        // Nobody answers while it is away.
        let away = at..at + SECOND * 12;
        for look in (1..20)
            .map(|n| SECOND * 5 * n)
            .filter(|look| !away.contains(look))
        {
            let goes_on = step("web", "pause", &[StepPhase::Suspending]);
            script = script.at(look, Act::check("the pause goes on", goes_on));
        }
        let over = step("web", "pause", &[StepPhase::Succeeded]);
        script.at(at + SECOND * 120, Act::check("it is over in time", over))
    });
    struck(&outcomes, &[Kind::ClockJump, Kind::HubKilled]);
}

#[test]
fn f15_agents_that_renew_are_heard_of_whatever_the_clock_of_the_hub_says() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f15");
        let mut script = Script::of_regions(3, &["east"]);
        let names = script.names();
        for n in 0..20 {
            let at = SECOND * 5 * n + after(&mut dice, 0, 4_000);
            script = script.at(at, jump(&mut dice, &names, (500, 6_000)));
        }
        for n in 0..100 {
            let there = Act::check("everybody is heard of", all_available());
            script = script.at(SECOND * n, there);
        }
        script
    });
    struck(&outcomes, &[Kind::ClockJump]);
}
