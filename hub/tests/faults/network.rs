//! Faults of the network: F12, F14, F16.

use crate::{
    applications::{application as is_application, bundles, gone, runs, step},
    looks::{because, deployment, generations, images},
    runs::{SECOND, good, struck},
};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{DELIVERED, StepPhase},
    condition,
};
use roundhouse_hub::simulate::{
    HUB, MemberSpec,
    fault::{Asks, Effect, Ending, Kind, On, Parties, Rule, Side},
    run::{Act, Fault, Look, Script, Target, agreement, application, with_image, without_config},
};
use serde_json::Value;
use std::sync::Arc;

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
        assert!(outcome.settled_after().unwrap() < SECOND * 60, "{outcome}");
    }
}

#[test]
fn f14_duplicated_reordered_and_late_messages_end_as_messages_in_order_do() {
    let outcomes = good(|_| {
        // What agents and hub write on the hub, and what agents write in their clusters.
        let all = || On::all_of(Parties::All).to(Side::Both);
        let script = fleet();
        let names = script.names();
        let twice = Rule::sometimes(all(), Effect::Duplicate(SECOND * 120), 500);
        let late = Rule::sometimes(all(), Effect::Late(SECOND * 600), 100);
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
            .at(
                SECOND * 45,
                Act::Apply(with_image(&without_config(&web()), "web:3")),
            )
            .at(SECOND * 60, Act::Apply(with_image(&web(), "web:4")))
            // The last of them arrive after ten minutes.
            .at(
                SECOND * 700,
                Act::check("the newest runs everywhere", images("web", "web:4", names)),
            )
            .at(SECOND * 700, Act::Check(agreement(Vec::new(), Vec::new())))
    });
    struck(&outcomes, &[Kind::Duplicated, Kind::Late, Kind::FrameDelayed]);
}

/// The Application says that it waits for a Bundle that nobody has answered.
fn waits_for_what_was_sent() -> Look {
    is_application("web", |status| {
        let delivered = condition::get(&status.conditions, DELIVERED);
        delivered.is_some_and(|delivered| delivered.message.contains("nobody has answered"))
    })
}

#[test]
fn f14_an_application_that_is_deleted_waits_for_bundles_that_may_yet_be_made() {
    let deleted = |script: Script| script.at(SECOND * 3, Act::Delete(Target::application("web")));
    good(|_| deleted(fleet()).at(SECOND * 10, Act::check("nothing keeps it", gone("web"))));
    let outcomes = good(|_| {
        let made = On::all_of(Parties::these([HUB])).to(Side::Hub).that(Asks::Write);
        let late = Rule::always(made.at("/bundles"), Effect::Late(SECOND * 300));
        let script = fleet().at(SECOND / 4, Act::for_a_while(Fault::Network(late), SECOND * 2));
        deleted(script)
            .at(SECOND * 400, Act::check("it waits", waits_for_what_was_sent()))
            .at(SECOND * 700, Act::check("it is gone", gone("web")))
            .at(SECOND * 700, Act::check("so are its bundles", bundles("web", 0)))
    });
    struck(&outcomes, &[Kind::Late]);
}

type Noted = Arc<Mutex<Option<Vec<(String, Option<i64>)>>>>;

/// The Deployments are the same ones in these members, and were not changed, since this looked first.
fn untouched(name: &'static str, members: &[String], noted: &Noted) -> Look {
    let (members, noted) = (members.to_vec(), noted.clone());
    Look::new(move |fleet| {
        let (members, noted) = (members.clone(), noted.clone());
        Box::pin(async move {
            let mut found = Vec::new();
            for member in &members {
                let metadata = deployment(fleet, member, name).await?.metadata;
                found.push((metadata.uid.unwrap_or_default(), metadata.generation));
            }
            let mut noted = noted.lock();
            let before = noted.get_or_insert_with(|| found.clone());
            because(*before == found, || {
                format!("{found:?}, not {before:?}, of {members:?}")
            })
        })
    })
}

/// Everybody lists anew, and is shown what there was before a cluster joined, another one changed its region, and something new
/// was delivered.
fn stale(who: Parties) -> Script {
    let noted = Noted::default();
    let mut script = fleet();
    let mut names = script.names();
    names.push("west-9".to_owned());
    let joins = MemberSpec::labelled("west-9", &[("region", "west")]).unwrap();
    let lists = On::all_of(who).to(Side::Hub).that(Asks::Read);
    let stale = Fault::Network(Rule::always(lists.clone(), Effect::Stale(SECOND * 60)));
    script = script
        .then(Act::wait("it is delivered", runs("web")))
        .at(SECOND * 60, Act::Join(joins))
        .at(
            SECOND * 60,
            Act::Label {
                cluster: "east-3".to_owned(),
                key: "region".to_owned(),
                value: Some("west".to_owned()),
            },
        )
        .at(SECOND * 60, Act::Apply(with_image(&web(), "web:2")))
        .at(SECOND * 61, Act::wait("the newest is delivered", runs("web")))
        .at(
            SECOND * 20,
            Act::check("it is noted", untouched("web", &names, &noted)),
        )
        .at(SECOND * 20, Act::for_a_while(stale, SECOND * 20))
        .at(SECOND * 21, Act::EndWatches(lists, Ending::Gone))
        .at(SECOND * 40, Act::check("nothing is deleted", bundles("web", 7)));
    script
        .finally("it runs everywhere", images("web", "web:2", names.clone()))
        .finally("nothing was changed", untouched("web", &names, &noted))
}

#[test]
fn f16_lists_that_are_older_than_what_was_seen_let_nobody_decide_or_delete() {
    for who in [Parties::these([HUB]), Parties::Agents, Parties::All] {
        for outcome in good(|_| stale(who.clone())) {
            let seen = outcome.seen.get(&Kind::Stale).copied().unwrap_or(0);
            assert!(seen > 2, "{seen} lists were stale\n{outcome}");
        }
    }
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
