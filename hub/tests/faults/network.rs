//! Faults of the network: F12, F14, F16.

use crate::{
    applications::{bundles, gone, runs, step, step_is},
    looks::{because, deployment, generations, image, images},
    runs::{SECOND, after, good, is_one, of_region, one, struck},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use parking_lot::Mutex;
use roundhouse_api::{
    application::{Application, DELIVERED, StepPhase},
    condition,
};
use roundhouse_hub::simulate::{
    HUB, MemberSpec,
    fault::{Asks, Dice, Effect, Ending, Kind, On, Parties, Rule, Side},
    run::{Act, Fault, Look, Script, Target, agreement, application, with_image, without_config},
};
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn web() -> Value {
    application("web", 16, &[("east", "50%"), ("west", "50%")])
}

fn fleet() -> Script {
    Script::of_regions(3, &["east", "west"]).with(web())
}

#[test]
fn f12_a_step_waits_for_clusters_that_are_cut_off_and_goes_on_by_itself() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f12");
        let script = fleet();
        let names = script.names();
        let west = of_region(&script, "west");
        let many = usize::try_from(1 + dice.below(3)).unwrap();
        let cut_off = dice.sample(&west, many);
        let changed = after(&mut dice, 10_000, 20_000);
        script
            .at(changed, Act::Apply(with_image(&web(), "web:2")))
            .then(Act::for_a_while(Fault::Partition(cut_off.clone()), SECOND * 200))
            .at(
                changed + SECOND * 40,
                Act::check("the east is done", step("web", "east", &[StepPhase::Succeeded])),
            )
            .at(
                changed + SECOND * 195,
                Act::check("the west waits", step("web", "west", &[StepPhase::Running])),
            )
            .at(
                changed + SECOND * 195,
                Act::check("what is there stays", images("web", "web:1", cut_off)),
            )
            .finally("the newest runs everywhere", images("web", "web:2", names))
    });
    for outcome in outcomes {
        // A watch that died meanwhile without a word is found out by the next renewal of the Lease.
        assert!(outcome.settled_after().unwrap() < SECOND * 60, "{outcome}");
    }
}

/// As long as anybody of them has not the newest, the step of the west waits; what is told then is noted.
fn waits_for_each(of: &[String], waited: &Arc<Mutex<usize>>) -> Look {
    let (of, waited) = (of.to_vec(), waited.clone());
    Look::new(move |fleet| {
        let (of, waited) = (of.clone(), waited.clone());
        Box::pin(async move {
            let mut lack = Vec::new();
            for member in of {
                let found = image(&deployment(fleet, &member, "web").await?);
                if found.as_deref() != Some("web:2") {
                    lack.push(member);
                }
            }
            if lack.is_empty() {
                return Ok(());
            }
            *waited.lock() += 1;
            let applications: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
            let web = applications.get("web").await;
            let status = web.map_err(|error| error.to_string())?.status;
            let is_waiting = status.is_some_and(|status| step_is(&status, "west", StepPhase::Running));
            because(is_waiting, || {
                format!("{lack:?} have not the newest, and the west has passed")
            })
        })
    })
}

#[test]
fn f12_a_region_that_is_cut_off_in_the_middle_of_its_step_is_waited_for_cluster_by_cluster() {
    let waited = Arc::new(Mutex::new(0));
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f12");
        let mut script = Script::of_regions(5, &["east", "west"]).with(web());
        // The Bundles go out and the pods come up one after the other.
        script.latency = Duration::ZERO..=Duration::from_millis(200);
        let names = script.names();
        let west = of_region(&script, "west");
        let lasting = SECOND * 200;
        script
            .at(SECOND * 20, Act::Apply(with_image(&web(), "web:2")))
            .then(Act::wait(
                "the west begins",
                step("web", "west", &[StepPhase::Running]),
            ))
            .at(
                after(&mut dice, 0, 700),
                Act::for_a_while(Fault::Partition(west.clone()), lasting),
            )
            .at(
                SECOND * 190,
                Act::check("each of them is waited for", waits_for_each(&west, &waited)),
            )
            .finally("the newest runs everywhere", images("web", "web:2", names))
    });
    let waited = *waited.lock();
    assert!(waited > 0 || is_one(), "none was cut off before everybody had it");
    for outcome in outcomes {
        assert!(outcome.settled_after().unwrap() < SECOND * 60, "{outcome}");
    }
}

/// Whether a ConfigMap is there.
fn has_config(member: &str, wanted: bool) -> Look {
    let member = member.to_owned();
    Look::new(move |fleet| {
        let client = fleet.member_client(&member);
        Box::pin(async move {
            let configs: Api<ConfigMap> =
                Api::namespaced(client.map_err(|error| error.to_string())?, "default");
            let found = configs.get_opt("web").await.map_err(|error| error.to_string())?;
            because(found.is_some() == wanted, || {
                format!("the ConfigMap is {found:?}")
            })
        })
    })
}

/// That the hub does not run.
fn no_hub() -> Look {
    Look::new(|fleet| {
        let standing = fleet.standing(HUB);
        Box::pin(async move { because(standing.is_none(), || format!("it stands as {standing:?}")) })
    })
}

/// It was told before, and does as it was told though nobody is there whom it could ask.
#[test]
fn f12_what_was_sent_to_a_cluster_that_was_cut_off_arrives_after_the_end_of_the_hub() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f12");
        let killed = after(&mut dice, 15_000, 35_000);
        Script::of_regions(1, &["east", "west"])
            .with(web())
            .at(
                SECOND * 10,
                Act::for_a_while(Fault::Partition(vec!["east-1".to_owned()]), SECOND * 30),
            )
            .at(SECOND * 12, Act::Apply(without_config(&web())))
            .at(
                killed,
                Act::for_a_while(Fault::Killed(HUB.to_owned()), SECOND * 60),
            )
            .at(
                SECOND * 39,
                Act::check("the east was not told", has_config("east-1", true)),
            )
            .at(
                SECOND * 60,
                Act::check("the east has done it", has_config("east-1", false)),
            )
            .at(SECOND * 60, Act::check("there is no hub", no_hub()))
            .finally("the west has, too", has_config("west-1", false))
    });
    struck(&outcomes, &[Kind::Partition, Kind::HubKilled]);
}

#[test]
fn f14_duplicated_reordered_and_late_messages_end_as_messages_in_order_do() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f14");
        // What agents and hub write on the hub, and what agents write in their clusters.
        let all = || On::all_of(Parties::All).to(Side::Both);
        let script = fleet();
        let names = script.names();
        let twice = Rule::sometimes(all(), Effect::Duplicate(SECOND * 120), 500);
        let late = Rule::sometimes(all(), Effect::Late(SECOND * 600), 100);
        let slow = Rule::sometimes(
            On::all_of(Parties::All),
            Effect::DelayFrames(Duration::ZERO..=SECOND * 5),
            300,
        );
        let mut script = script;
        for rule in [twice, late, slow] {
            script = script.at(SECOND, Act::for_a_while(Fault::Network(rule), SECOND * 90));
        }
        script
            .at(
                after(&mut dice, 2_000, 30_000),
                Act::Apply(with_image(&web(), "web:2")),
            )
            .at(
                after(&mut dice, 31_000, 55_000),
                Act::Apply(with_image(&without_config(&web()), "web:3")),
            )
            .at(
                after(&mut dice, 56_000, 80_000),
                Act::Apply(with_image(&web(), "web:4")),
            )
            // The last of them arrive after ten minutes.
            .at(
                SECOND * 700,
                Act::check("the newest runs everywhere", images("web", "web:4", names)),
            )
            .at(SECOND * 700, Act::Check(agreement(&[])))
    });
    struck(&outcomes, &[Kind::Duplicated, Kind::Late, Kind::FrameDelayed]);
}

/// The Application says that it waits for a Bundle that nobody has answered, which is counted; or it is gone: what was sent may have
/// arrived before.
fn waits_for_what_was_sent(waiting: &Arc<AtomicUsize>) -> Look {
    let waiting = waiting.clone();
    Look::new(move |fleet| {
        let waiting = waiting.clone();
        Box::pin(async move {
            let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
            let found = api.get_opt("web").await.map_err(|error| error.to_string())?;
            let Some(found) = found else {
                return Ok(());
            };
            let status = found.status.unwrap_or_default();
            let delivered = condition::get(&status.conditions, DELIVERED);
            let message = delivered
                .map(|delivered| delivered.message.clone())
                .unwrap_or_default();
            waiting.fetch_add(1, Ordering::Relaxed);
            because(message.contains("nobody has answered"), || message.clone())
        })
    })
}

#[test]
fn f14_an_application_that_is_deleted_waits_for_bundles_that_may_yet_be_made() {
    // When the west has begun.
    let deleted = |script: Script, seed| {
        let at = after(&mut Dice::new(seed, "f14"), 2_300, 4_000);
        script.at(at, Act::Delete(Target::application("web")))
    };
    good(|seed| deleted(fleet(), seed).at(SECOND * 10, Act::check("nothing keeps it", gone("web"))));
    let waiting = Arc::default();
    let outcomes = good(|seed| {
        let made = On::all_of(Parties::these([HUB])).to(Side::Hub).that(Asks::Write);
        let late = Rule::always(made.at("/bundles"), Effect::Late(SECOND * 300));
        let script = fleet().at(SECOND / 4, Act::for_a_while(Fault::Network(late), SECOND * 2));
        deleted(script, seed)
            .at(
                SECOND * 400,
                Act::check("it waits", waits_for_what_was_sent(&waiting)),
            )
            .at(SECOND * 700, Act::check("it is gone", gone("web")))
            .at(SECOND * 700, Act::check("so are its bundles", bundles("web", 0)))
    });
    struck(&outcomes, &[Kind::Late]);
    assert!(
        waiting.load(Ordering::Relaxed) * 2 > outcomes.len(),
        "{waiting:?}"
    );
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
fn stale(who: Parties, seed: u64) -> Script {
    let mut dice = Dice::new(seed, "f16");
    let moves = one(&mut dice, &["east-1", "east-2", "east-3"]);
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
            SECOND * 60 + after(&mut dice, 0, 800),
            Act::Label {
                cluster: moves.to_owned(),
                key: "region".to_owned(),
                value: Some("west".to_owned()),
            },
        )
        .at(
            SECOND * 60 + after(&mut dice, 0, 800),
            Act::Apply(with_image(&web(), "web:2")),
        )
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
        for outcome in good(|seed| stale(who.clone(), seed)) {
            let seen = outcome.seen.get(&Kind::Stale).copied().unwrap_or(0);
            assert!(seen > 2, "{seen} lists were stale\n{outcome}");
        }
    }
}

#[test]
fn f16_a_bundle_that_was_there_before_and_how_it_went_say_nothing_of_the_present_one() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f16");
        let script = fleet().then(Act::wait("it is delivered", runs("web")));
        let names = script.names();
        let who = one(&mut dice, &names);
        let region = if who.starts_with("east") { "east" } else { "west" };
        let label = |value: Option<&str>| Act::Label {
            cluster: who.clone(),
            key: "region".to_owned(),
            value: value.map(str::to_owned),
        };
        // The agent has just been started then, and is shown the Bundle that went, and told of its end.
        let lists = On::all_of(Parties::these([who.as_str()])).to(Side::Hub);
        let stale = Effect::Stale(after(&mut dice, 65_000, 90_000));
        let lists = lists.at("/bundles");
        let slow = Effect::DelayFrames(SECOND..=SECOND * 3);
        let slow = Fault::Network(Rule::always(lists.clone().that(Asks::Watch), slow));
        let stale = Fault::Network(Rule::always(lists.that(Asks::Read), stale));
        let noted = Noted::default();
        let still = untouched("web", std::slice::from_ref(&who), &noted);
        script
            .at(SECOND * 30, label(None))
            .then(Act::wait("its Bundle is gone", bundles("web", 5)))
            .then(label(Some(region)))
            .then(Act::wait("it is there again", bundles("web", 6)))
            .then(Act::wait("it is delivered again", runs("web")))
            .at(SECOND * 50, Act::check("it is noted", still.clone()))
            .at(SECOND * 50, Act::for_a_while(stale, SECOND * 20))
            .at(SECOND * 50, Act::for_a_while(slow, SECOND * 30))
            .at(
                SECOND * 50,
                Act::for_a_while(Fault::Stopped(who.clone()), SECOND * 10),
            )
            .finally("it runs everywhere", images("web", "web:1", names))
            .finally("nothing was changed", still)
    });
    struck(&outcomes, &[Kind::Stale, Kind::FrameDelayed]);
}

#[test]
fn f16_watches_that_are_too_old_are_begun_anew_and_nothing_older_is_decided_on() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f16");
        let changed = after(&mut dice, 20_000, 21_500);
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
            .at(changed, Act::Apply(with_image(&web(), "web:2")))
            .at(
                after(&mut dice, 20_000, 22_000),
                Act::EndWatches(On::all_of(Parties::All), Ending::Broken),
            )
            .at(
                after(&mut dice, 21_000, 24_000),
                Act::EndWatches(On::all_of(Parties::These([HUB.to_owned()].into())), Ending::Gone),
            )
            .finally(
                "the newest runs everywhere",
                images("web", "web:2", names.clone()),
            )
            .finally("it was changed once", generations("web", 2, names))
    });
    struck(&outcomes, &[Kind::Refused, Kind::WatchEnded]);
}
