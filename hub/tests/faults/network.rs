//! Faults of the network: F12, F14, F16.

use crate::{
    looks::{generations, images, step},
    runs::{SECOND, good},
};
use roundhouse_api::application::StepPhase;
use roundhouse_hub::simulate::{
    HUB,
    fault::{Asks, Effect, Ending, On, Parties, Rule, Side},
    run::{Act, Fault, Script, application, with_image},
};
use serde_json::Value;

fn web() -> Value {
    application("web", 16, &[("east", "50%"), ("west", "50%")])
}

fn fleet() -> Script {
    Script::of_regions(3, &["east", "west"]).with(web())
}

#[test]
fn f12_a_step_waits_for_clusters_that_are_cut_off_and_goes_on_by_itself() {
    let outcomes = good(|_| {
        let script = fleet();
        let (names, cut_off) = (script.names(), vec!["west-1".to_owned(), "west-3".to_owned()]);
        script
            .at(SECOND * 20, Act::Apply(with_image(&web(), "web:2")))
            .then(Act::for_a_while(Fault::Partition(cut_off.clone()), SECOND * 200))
            .at(
                SECOND * 60,
                Act::check("the east is done", step("web", "east", &[StepPhase::Succeeded])),
            )
            .at(
                SECOND * 215,
                Act::check("the west waits", step("web", "west", &[StepPhase::Running])),
            )
            .at(
                SECOND * 215,
                Act::check("what is there stays", images("web", "web:1", cut_off)),
            )
            .finally("the newest runs everywhere", images("web", "web:2", names))
    });
    for outcome in outcomes {
        // A watch that died meanwhile without a word is found out by the next renewal of the Lease.
        assert!(outcome.converged_after.unwrap() < SECOND * 60, "{outcome}");
    }
}

#[test]
fn f14_duplicated_reordered_and_late_messages_end_as_messages_in_order_do() {
    good(|_| {
        let hub = || On::all_of(Parties::Agents).to(Side::Hub);
        let script = fleet();
        let names = script.names();
        let twice = Rule::sometimes(hub(), Effect::Duplicate(SECOND * 120), 500);
        let late = Rule::sometimes(hub(), Effect::Late(SECOND * 600), 100);
        let slow = Rule::sometimes(
            On::all_of(Parties::All),
            Effect::DelayFrames(std::time::Duration::ZERO..=SECOND * 5),
            300,
        );
        let mut script = script;
        for rule in [twice, late, slow] {
            script = script.at(SECOND, Act::for_a_while(Fault::Network(rule), SECOND * 90));
        }
        script
            .at(SECOND * 30, Act::Apply(with_image(&web(), "web:2")))
            .at(SECOND * 60, Act::Apply(with_image(&web(), "web:3")))
            // The last of them arrive after ten minutes.
            .at(
                SECOND * 700,
                Act::check("the newest runs everywhere", images("web", "web:3", names)),
            )
    });
}

#[test]
fn f16_watches_that_are_too_old_are_begun_anew_and_nothing_older_is_decided_on() {
    good(|_| {
        let mut script = fleet();
        // Little is kept for those that resume.
        script.history = 40;
        let names = script.names();
        let gone = Effect::Answer {
            code: 410,
            retry_after: None,
        };
        let gone = Rule::sometimes(On::all_of(Parties::All).that(Asks::Watch), gone, 400);
        script
            .at(SECOND, Act::for_a_while(Fault::Network(gone), SECOND * 60))
            .at(
                SECOND * 2,
                Act::EndWatches(On::all_of(Parties::All), Ending::Gone),
            )
            .at(SECOND * 20, Act::Apply(with_image(&web(), "web:2")))
            .at(
                SECOND * 21,
                Act::EndWatches(On::all_of(Parties::All), Ending::Broken),
            )
            .at(
                SECOND * 22,
                Act::EndWatches(On::all_of(Parties::These([HUB.to_owned()].into())), Ending::Gone),
            )
            .finally(
                "the newest runs everywhere",
                images("web", "web:2", names.clone()),
            )
            .finally("it was changed once", generations("web", 2, names))
    });
}
