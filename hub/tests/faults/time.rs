//! Clocks: F15.

use crate::{
    looks::{generations, images, step},
    runs::{SECOND, good},
};
use jiff::SignedDuration;
use roundhouse_api::application::StepPhase;
use roundhouse_hub::simulate::{
    HUB,
    run::{Act, Fault, Script, application, with_image},
};

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
