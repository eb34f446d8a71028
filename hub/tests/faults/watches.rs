//! Watches that are dead, and reports that are old: F17, F18.

use crate::{
    applications::runs,
    runs::{SECOND, delivered_within, good, struck},
};
use roundhouse_hub::simulate::{
    HUB,
    fault::{Asks, Effect, Ending, Kind, On, Parties, Rule, Side},
    monitor::Promise,
    run::{Act, Fault, Script, application, with_image},
};
use std::time::Duration;

/// An agent finds its watches dead by the next renewal of its Lease, after 10 s, that does not come back within 16 s; that it
/// hears again the hub learns with the renewal after that.
const HEALS: Duration = Duration::from_secs(45);
/// One that hears its Lease finds a dead watch of Bundles by the bookmarks that stay away for two and a half minutes.
const HEALS_ALONE: Duration = Duration::from_secs(180);
/// A connection on which nothing comes is given up after 330 s; what is late then follows at once.
const HUB_HEALS: Duration = Duration::from_secs(360);

fn fleet() -> Script {
    Script::of_regions(2, &["east", "west"]).with(web())
}

fn web() -> serde_json::Value {
    application("web", 8, &[("east", "50%"), ("west", "50%")])
}

#[test]
fn f17_an_agent_whose_watches_are_dead_in_silence_finds_out_and_heals_by_itself() {
    let dead = On::all_of(Parties::these(["east-1"])).to(Side::Hub);
    good(|_| {
        fleet()
            .then(Act::wait("it is delivered", runs("web")))
            .then(Act::EndWatches(dead.clone(), Ending::Silent))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .until(delivered_within(HEALS))
    });
}

#[test]
fn f17_an_agent_hears_its_lease_and_finds_that_its_watch_of_bundles_is_dead() {
    let dead = On::all_of(Parties::these(["east-1"]))
        .to(Side::Hub)
        .at("/bundles");
    good(|_| {
        fleet()
            .then(Act::wait("it is delivered", runs("web")))
            // A bookmark has come by then.
            .at(SECOND * 100, Act::EndWatches(dead.clone(), Ending::Silent))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .until(delivered_within(HEALS_ALONE))
    });
}

#[test]
fn f17_a_hub_whose_watches_are_dead_in_silence_heals_by_itself() {
    let dead = On::all_of(Parties::these([HUB]));
    good(|_| {
        fleet()
            .then(Act::wait("it is delivered", runs("web")))
            .then(Act::EndWatches(dead.clone(), Ending::Silent))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .until(delivered_within(HUB_HEALS))
    });
}

#[test]
fn f18_reports_about_an_earlier_revision_that_come_late_let_no_step_pass() {
    // That a step passes on its own evidence only is watched in every run (P7); here the old evidence is there in plenty.
    let reports = On::all_of(Parties::Agents)
        .to(Side::Hub)
        .that(Asks::Write)
        .at("/bundles/");
    let outcomes = good(|_| {
        let late = Rule::sometimes(reports.clone(), Effect::Late(SECOND * 60), 700);
        let mut script = fleet().then(Act::for_a_while(Fault::Network(late), SECOND * 40));
        for n in 2..6 {
            script = script.at(
                SECOND * 8 * n,
                Act::Apply(with_image(&web(), &format!("web:{n}"))),
            );
        }
        script.until(delivered_within(SECOND * 300))
    });
    struck(&outcomes, &[Kind::Late]);
    for outcome in outcomes {
        assert!(outcome.judged.contains(&Promise::P7), "{outcome}");
    }
}
