//! Clocks: F15.

use crate::{
    applications::step,
    looks::{all_available, generations, images},
    runs::{SECOND, good},
};
use jiff::SignedDuration;
use roundhouse_api::application::StepPhase;
use roundhouse_hub::simulate::{
    HUB,
    run::{Act, Fault, Script, application, with_image},
};
use serde_json::{Value, json};

#[test]
fn f15_clocks_that_jump_by_an_hour_make_no_loop_and_let_nothing_pass_early() {
    let outcomes = good(|seed| {
        let web = application("web", 12, &[("east", "50%"), ("west", "50%")]);
        let script = Script::of_regions(3, &["east", "west"]).with(web.clone());
        let names = script.names();
        let hour = |hours| SignedDuration::from_hours(hours);
        let sign = if seed % 2 == 0 { 1 } else { -1 };
        let jump =
            |who: &str, hours| Act::for_a_while(Fault::Clock(who.to_owned(), hour(hours)), SECOND * 60);
        let cut_off = vec!["west-2".to_owned()];
        script
            .at(SECOND * 20, Act::Apply(with_image(&web, "web:2")))
            .then(Act::for_a_while(Fault::Partition(cut_off), SECOND * 200))
            .at(SECOND * 30, jump(HUB, sign))
            .at(SECOND * 31, jump("east-1", -sign))
            .at(SECOND * 32, jump("west-1", sign))
            .at(
                SECOND * 80,
                Act::check("the west waits", step("web", "west", &[StepPhase::Running])),
            )
            .at(SECOND * 120, jump(HUB, -sign))
            .at(
                SECOND * 170,
                Act::check("the west waits yet", step("web", "west", &[StepPhase::Running])),
            )
            .finally(
                "the newest runs everywhere",
                images("web", "web:2", names.clone()),
            )
            .finally("it was changed once", generations("web", 2, names))
    });
    for outcome in outcomes {
        assert!(outcome.writes < 900, "{} writes: {outcome}", outcome.writes);
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
        let fast = SignedDuration::from_hours(if seed % 2 == 0 { 1 } else { -1 });
        let jump = Act::for_a_while(Fault::Clock(HUB.to_owned(), fast), SECOND * 40);
        let pauses = |what: &str| Act::check(what, step("web", "pause", &[StepPhase::Suspending]));
        let over = step("web", "pause", &[StepPhase::Succeeded]);
        Script::of_regions(3, &["east", "west"])
            .with(with_a_pause())
            .then(Act::wait(
                "the pause begins",
                step("web", "pause", &[StepPhase::Suspending]),
            ))
            .at(SECOND * 20, jump)
            .at(SECOND * 55, pauses("it goes on while the clock is wrong"))
            .at(SECOND * 95, pauses("and when it is right again"))
            .at(SECOND * 110, Act::check("it is over in time", over))
    });
    for outcome in outcomes {
        assert!(outcome.settled_after().unwrap() < SECOND * 30, "{outcome}");
    }
}

#[test]
fn f15_agents_that_renew_are_heard_of_whatever_the_clock_of_the_hub_says() {
    good(|seed| {
        let fast = SignedDuration::from_hours(if seed % 2 == 0 { 1 } else { -1 });
        let mut script = Script::of_regions(3, &["east"]);
        for n in 0..20 {
            let jump = Act::for_a_while(Fault::Clock(HUB.to_owned(), fast), SECOND * 3);
            script = script.at(SECOND * 5 * n, jump);
        }
        for n in 0..50 {
            let there = Act::check("everybody is heard of", all_available());
            script = script.at(SECOND * 2 * n, there);
        }
        script
    });
}
