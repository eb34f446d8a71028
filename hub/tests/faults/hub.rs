//! Faults of the hub and its disk: F1, F3 to F8.

use crate::{
    flood::{Codes, FLOOD, creates, flood, tenant, tenants_come},
    line::Line,
    looks::{all_available, because, generations, images, leads, one_epoch, transitions},
    runs::{SECOND, after, good, is_one, seeds, struck},
    watches::warnings,
};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use parking_lot::Mutex;
use roundhouse_api::names::cluster_namespace;
use roundhouse_hub::simulate::{
    HUB,
    fault::{Asks, Dice, DiskFault, Effect, Ending, Kind, Moment, On, Parties, Rule, Side, When},
    monitor::Promise,
    run::{Act, Fault, Look, Outcome, Script, application, run, with_image},
    trace::Object,
};
use serde_json::{Value, json};
use std::time::Duration;

/// After the last fault a fleet of this size has what it is to have.
const CONVERGES: Duration = Duration::from_secs(60);

fn web() -> Value {
    application("web", 16, &[("east", "50%"), ("west", "50%")])
}

fn fleet() -> Script {
    Script::of_regions(4, &["east", "west"]).with(web())
}

#[test]
fn f01_a_hub_that_is_killed_in_the_middle_of_a_delivery_goes_on_and_each_agent_applies_once() {
    let outcomes = good(|seed| {
        let moment = Moment {
            // In the middle of it for small seeds, too.
            nth: 5 + u32::try_from(seed * 11 % 20).unwrap(),
            when: if seed % 2 == 0 {
                When::BeforeRequest
            } else {
                When::BeforeAnswer
            },
            writes_only: true,
        };
        let (who, away) = (HUB.to_owned(), SECOND * 3);
        let script = fleet();
        let names = script.names();
        script
            .at(Duration::ZERO, Act::KillAt { who, moment, away })
            .at(SECOND * 10, Act::check("it leads again", leads(HUB, true)))
            .finally("nothing was applied twice", generations("web", 1, names))
    });
    struck(&outcomes, &[Kind::HubKilled, Kind::KilledAtMoment]);
    assert!(
        is_one() || outcomes.iter().any(has_bundles_on_both_sides),
        "none was killed between two Bundles"
    );
    for outcome in outcomes {
        assert!(outcome.settled_after().unwrap() < CONVERGES, "{outcome}");
    }
}

/// Whether the hub was killed after it had made a Bundle, and made another one after that.
fn has_bundles_on_both_sides(outcome: &Outcome) -> bool {
    let killed = outcome
        .timeline
        .iter()
        .find(|event| event.what.contains("is killed in the middle of it"));
    let bundles = fleet().names().into_iter().map(|name| {
        Object::new(
            HUB,
            "bundles.roundhouse.dev",
            &cluster_namespace(&name),
            "default.web",
        )
    });
    let text = outcome
        .trace
        .of(&bundles.collect::<Vec<_>>(), Duration::MAX, usize::MAX);
    let made = text.lines().filter(|line| line.contains("  created by"));
    let made: Vec<f64> = made
        .filter_map(|line| line.trim().split(' ').next()?.parse().ok())
        .collect();
    killed.is_some_and(|killed| {
        let at = killed.at.as_secs_f64();
        made.iter().any(|made| *made <= at) && made.iter().any(|made| *made > at)
    })
}

/// A ConfigMap that takes room on the disk.
fn large(n: usize) -> Act {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("large-{n}"), "namespace": "default"},
        "data": {"text": "x".repeat(60_000)}});
    Act::Apply(map)
}

/// New objects are refused, in words that name what to check, and reading goes on.
fn refuses_writes_and_reads() -> Look {
    Look::new(|fleet| {
        Box::pin(async move {
            let maps: Api<ConfigMap> = Api::namespaced(fleet.hub_client(), "default");
            let read = maps.list(&Default::default()).await;
            read.map_err(|error| format!("reading: {error}"))?;
            let mut map = ConfigMap::default();
            map.metadata.name = Some("one-more".to_owned());
            match maps.create(&PostParams::default(), &map).await {
                Ok(_) => Err("a write was taken".to_owned()),
                Err(error) => because(error.to_string().contains("no room"), || error.to_string()),
            }
        })
    })
}

#[test]
fn f03_a_full_disk_refuses_writes_and_takes_heartbeats_and_goes_on_when_there_is_room() {
    let outcomes = good(|seed| {
        // In the middle of the first delivery, or after it.
        let mut dice = Dice::new(seed, "f03");
        let full = after(&mut dice, 0, 6_000);
        let mut script = fleet().at(full, Act::for_a_while(Fault::Disk(DiskFault::Full), SECOND * 100));
        let names = script.names();
        for n in 0..12 {
            script = script.at(full + after(&mut dice, 100, 5_000), large(n));
        }
        let changed = full + after(&mut dice, 0, 80_000);
        script
            .at(changed, Act::Apply(with_image(&web(), "web:2")))
            .at(
                full + SECOND * 90,
                Act::check("writes are refused", refuses_writes_and_reads()),
            )
            .at(
                full + SECOND * 90,
                Act::check("heartbeats go on", all_available()),
            )
            .finally("the newest runs everywhere", images("web", "web:2", names))
    });
    struck(&outcomes, &[Kind::DiskFull]);
    for outcome in outcomes {
        assert!(outcome.settled_after().unwrap() < CONVERGES, "{outcome}");
        let ended = outcome.seen.contains_key(&Kind::HubEnded);
        assert!(!ended, "the hub is to go on where it is: {outcome}");
    }
}

#[test]
fn f04_a_failed_sync_ends_the_process_and_a_restart_goes_on() {
    let outcomes = good(|seed| {
        // Anywhere in the first delivery, and a little after it.
        let at = after(&mut Dice::new(seed, "f04"), 0, 6_000);
        let script = fleet();
        let names = script.names();
        script
            .at(at, Act::Begin(Fault::Disk(DiskFault::FailedSync), None))
            .finally("it leads again", leads(HUB, true))
            .finally("nothing was applied twice", generations("web", 1, names))
    });
    struck(&outcomes, &[Kind::SyncFailed]);
    for outcome in outcomes {
        // What was acknowledged was looked for after the restart.
        assert!(outcome.judged.contains(&Promise::P1), "{outcome}");
        assert!(outcome.settled_after().unwrap() < CONVERGES, "{outcome}");
        let ended = |event: &&str| event.contains("the hub's process ends: cannot sync");
        let events: Vec<&str> = outcome.timeline.iter().map(|event| event.what.as_str()).collect();
        assert_eq!(
            events.iter().copied().filter(|event| ended(event)).count(),
            1,
            "{events:?}"
        );
    }
}

#[test]
fn f05_a_power_cut_loses_nothing_that_was_acknowledged() {
    let outcomes = good(|seed| {
        let takes = 50 + 10 * (seed % 10);
        let slow = DiskFault::Slow(Duration::from_millis(takes));
        let change = Duration::from_millis(280 + 70 * (seed % 30));
        // When the change is synced it is answered, and what the hub makes of it takes several syncs, one after the other.
        let cut = change + Duration::from_millis(takes + 20 + takes * (seed % 9) / 3);
        let script = fleet();
        let names = script.names();
        script
            .at(Duration::ZERO, Act::for_a_while(Fault::Disk(slow), SECOND * 20))
            .at(change, Act::Apply(with_image(&web(), "web:2")))
            .at(cut, Act::for_a_while(Fault::PowerCut, SECOND * 5))
            .finally("it runs everywhere", images("web", "web:2", names))
    });
    // Mostly something was on its way to the disk, and what was acknowledged was looked for afterwards. Where the last record was torn
    // (F2), its tail is cut to the last whole one.
    let runs_with = |kind| {
        outcomes
            .iter()
            .filter(|outcome| outcome.seen.contains_key(&kind))
            .count()
    };
    let (unsynced, torn) = (runs_with(Kind::Unsynced), runs_with(Kind::Torn));
    assert!(
        is_one() || (unsynced * 4 >= outcomes.len() * 3 && torn * 2 >= outcomes.len()),
        "{unsynced} runs with something to lose, {torn} records torn"
    );
    for outcome in outcomes {
        assert!(outcome.judged.contains(&Promise::P1), "{outcome}");
        assert!(outcome.settled_after().unwrap() < CONVERGES, "{outcome}");
    }
}

/// Agents are started just before, and ask for everything: what they are shown they act on, so that it may not be lost either.
#[test]
fn f05_a_power_cut_loses_nothing_that_agents_were_shown() {
    let all: Mutex<Vec<Line>> = Mutex::default();
    let outcomes = good(|seed| {
        let slow = DiskFault::Slow(Duration::from_millis(200));
        let change = SECOND * 3;
        // Four syncs after the change the hub writes Bundles, and they are on their way to the disk.
        let millis = |millis: u64| change + Duration::from_millis(millis);
        let cut = millis(900 + 20 * (seed % 6));
        let mut script = fleet();
        let names = script.names();
        let line = Line::default();
        script.wires = Some(line.wires());
        all.lock().push(line);
        script = script
            .at(Duration::ZERO, Act::for_a_while(Fault::Disk(slow), SECOND * 20))
            .at(change, Act::Apply(with_image(&web(), "web:2")))
            .at(cut, Act::for_a_while(Fault::PowerCut, SECOND * 5));
        for (n, agent) in (0..).zip(["east-1", "east-2", "east-3", "east-4"]) {
            let begins = millis(820 + 20 * n) - SECOND;
            script = script.at(begins, Act::for_a_while(Fault::Killed(agent.to_owned()), SECOND));
        }
        script.finally("it runs everywhere", images("web", "web:2", names))
    });
    struck(&outcomes, &[Kind::PowerCut, Kind::AgentKilled]);
    for outcome in outcomes {
        assert!(
            outcome.parts.contains(&(Promise::P1, "what agents read")),
            "{outcome}"
        );
    }
    // What they asked for was still to be synced when the power went, so that they were not answered.
    let waits = |line: &&Line| {
        let sent = line.sent();
        let mut reads = sent
            .iter()
            .filter(|sent| sent.method == Method::GET && sent.ends.who != HUB);
        reads.any(|sent| sent.code == 0 && !sent.took.is_zero())
    };
    let all = all.lock();
    let waited = all.iter().filter(waits).count();
    assert!(
        is_one() || waited * 4 >= all.len() * 3,
        "only in {waited} of {} runs somebody was about to be answered",
        all.len()
    );
}

#[test]
fn f06_a_slow_disk_delays_a_delivery_and_the_leader_keeps_its_lease() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f06");
        let slow = Fault::Disk(DiskFault::Slow(after(&mut dice, 100, 500)));
        let begins = after(&mut dice, 0, 5_000);
        fleet()
            .with_two_hubs()
            .at(begins, Act::for_a_while(slow, SECOND * 60))
            .at(
                after(&mut dice, 0, 50_000),
                Act::Apply(with_image(&web(), "web:2")),
            )
            .at(
                begins + SECOND * 59,
                Act::check("the first one leads", leads(HUB, true)),
            )
            .at(
                begins + SECOND * 59,
                Act::check("everybody is heard of", all_available()),
            )
            .finally("the lease did not change hands", transitions(0))
    });
    struck(&outcomes, &[Kind::DiskSlow]);
}

/// Writes that may wait for the disk.
const QUEUE: usize = 40;
/// Floods, one every two seconds.
const FLOODS: u32 = 20;

#[test]
fn f06_a_slow_disk_fills_a_bounded_queue_and_the_leader_keeps_its_lease() {
    good(|seed| {
        let changed = after(&mut Dice::new(seed, "f06"), 1_000, 55_000);
        let (codes, tenant) = (Codes::default(), tenant());
        let slow = Fault::Disk(DiskFault::Slow(Duration::from_millis(500)));
        let mut script = fleet().with_two_hubs();
        script.queue = Some(QUEUE);
        let names = script.names();
        script = script
            .then(tenants_come())
            .at(Duration::ZERO, Act::for_a_while(slow, SECOND * 60));
        for n in 0..FLOODS {
            let flood = flood(tenant.clone(), &codes, move |each| creates(n, each, 20));
            script = script.at(SECOND * (10 + 2 * n), Act::check("a tenant floods", flood));
        }
        let refused = Look::new(move |_| {
            let (taken, refused) = (codes.of(201), codes.of(429));
            let floods = usize::try_from(FLOODS).unwrap();
            // Of each flood what there is room for: a user may have a hundred under way.
            let is_so = taken >= floods && taken <= floods * QUEUE && taken + refused == floods * FLOOD;
            let looked = because(is_so, || format!("{taken} taken, {refused} refused: {codes:?}"));
            Box::pin(async { looked })
        });
        script
            .at(changed, Act::Apply(with_image(&web(), "web:2")))
            .at(SECOND * 59, Act::check("the first one leads", leads(HUB, true)))
            .at(SECOND * 59, Act::check("everybody is heard of", all_available()))
            .at(SECOND * 59, Act::check("what is too much is refused", refused))
            .finally("the newest runs everywhere", images("web", "web:2", names))
            .finally("the lease did not change hands", transitions(0))
    });
}

#[test]
fn f07_what_a_leader_writes_that_was_held_still_past_its_lease_is_rejected() {
    let all: Mutex<Vec<Line>> = Mutex::default();
    good(|seed| {
        let at = Duration::from_millis(20 + 25 * (seed % 20));
        let mut script = fleet().with_two_hubs();
        let names = script.names();
        let line = Line::default();
        script.wires = Some(line.wires());
        all.lock().push(line);
        script
            .at(at, Act::for_a_while(Fault::Pause(HUB.to_owned()), SECOND * 45))
            .at(SECOND * 40, Act::check("the other one leads", leads("b", true)))
            .at(SECOND * 40, Act::Apply(with_image(&web(), "web:2")))
            .finally("the first one follows", leads(HUB, false))
            .finally("it changed hands once", transitions(1))
            .finally("the newest runs everywhere", images("web", "web:2", names))
            .finally("the new one is obeyed", one_epoch())
    });
    // It was held still in the middle: it has made some of the Bundles, and the other one the rest. And when it goes on it writes
    // nothing: it knows what time it is before it does.
    for line in &*all.lock() {
        let sent = line.sent();
        let began = sent.iter().map(|sent| sent.at).min().unwrap();
        let made = |by: &str| {
            let own = sent
                .iter()
                .filter(|sent| sent.ends.who == by && sent.method == Method::POST);
            own.filter(|sent| sent.path.ends_with("/bundles") && sent.code == 201)
                .count()
        };
        let (first, second) = (made(HUB), made("b"));
        assert!(
            first > 0 && second > 0,
            "{first} of the one and {second} of the other"
        );
        let late = sent
            .iter()
            .filter(|sent| sent.ends.who == HUB && sent.at >= began + SECOND * 40);
        let wrote: Vec<&str> = late
            .filter(|sent| sent.writes() && sent.code < 400)
            .map(|sent| sent.path.as_str())
            .collect();
        assert!(wrote.is_empty(), "{wrote:?}");
    }
}

/// What a hub has sent is long on its way, and comes when another one leads that has not touched some of the objects.
fn sent_before(seed: u64) -> Script {
    let script = fleet().with_two_hubs();
    let names = script.names();
    let sent = On::all_of(Parties::these([HUB])).to(Side::Hub).that(Asks::Write);
    let late = Rule::sometimes(sent, Effect::Late(SECOND * 90), 400);
    let at = Duration::from_millis(20 + 25 * (seed % 20));
    script
        .at(Duration::ZERO, Act::for_a_while(Fault::Network(late), SECOND * 2))
        .at(at, Act::for_a_while(Fault::Pause(HUB.to_owned()), SECOND * 45))
        .at(SECOND * 40, Act::check("the other one leads", leads("b", true)))
        .at(SECOND * 40, Act::Apply(with_image(&web(), "web:2")))
        .finally("the newest runs everywhere", images("web", "web:2", names))
        .finally("the new one is obeyed", one_epoch())
}

#[test]
fn f07_what_a_former_leader_sent_is_rejected_whenever_it_arrives() {
    good(sent_before);
}

#[test]
fn f07_an_api_server_that_knows_no_terms_takes_what_comes_late_and_the_new_leader_puts_it_right() {
    let foreign = |seed| {
        let mut script = sent_before(seed);
        script.foreign_server = true;
        script
    };
    let taken = |seed| {
        let outcome = run(&foreign(seed), seed);
        let broken = outcome.broken.iter();
        broken.filter(|broken| broken.promise == Promise::P4).count()
    };
    // So the test above has something to reject.
    assert!((0..30).any(|seed| taken(seed) > 0), "nothing came late");
    good(|seed| {
        let mut script = foreign(seed);
        script.not_made.push(Promise::P4);
        script
    });
}

/// Two hubs that do not stand for election, which is a mistake: the one that was started last has the Lease. The first one, which
/// leads while the other one is away, does not hear that it is back, as its watch of the Lease is dead in silence: both lead, and
/// both decide what becomes of a change.
fn two_that_do_not_ask(seed: u64) -> Script {
    let mut dice = Dice::new(seed, "f08");
    let mut script = fleet();
    script.hubs.push("b".to_owned());
    script.server_apart = true;
    let names = script.names();
    let lease = On::all_of(Parties::these([HUB]))
        .to(Side::Hub)
        .at("/namespaces/roundhouse-system/leases");
    let away = after(&mut dice, 15_000, 25_000);
    let back = SECOND * 5 + away;
    script
        .at(SECOND * 5, Act::for_a_while(Fault::Stopped("b".to_owned()), away))
        .at(
            back - SECOND * 2,
            Act::check("the first one leads meanwhile", leads(HUB, true)),
        )
        .at(back - SECOND, Act::EndWatches(lease, Ending::Silent))
        .at(
            back + after(&mut dice, 1_000, 5_000),
            Act::Apply(with_image(&web(), "web:2")),
        )
        .finally("the newest runs everywhere", images("web", "web:2", names))
        .finally("the last one leads", leads("b", true))
        .finally("the first one has learned it", leads(HUB, false))
        .finally("it changed hands three times", transitions(3))
}

#[test]
fn f08_of_two_that_lead_the_one_with_the_higher_epoch_is_obeyed() {
    let outcomes = good(|seed| two_that_do_not_ask(seed).finally("one of them is obeyed", one_epoch()));
    struck(&outcomes, &[Kind::WatchSilenced, Kind::HubStopped]);
}

/// A kube-apiserver does not know of terms: until the first one is told that the Lease is another's, both write. All else is
/// as promised.
#[test]
fn f08_the_same_with_an_api_server_that_takes_what_both_write_ends_well() {
    let foreign = |seed| {
        let mut script = two_that_do_not_ask(seed);
        script.foreign_server = true;
        script
    };
    // So the test above has something to reject.
    let outcome = run(&foreign(0), 0);
    let broken: Vec<Promise> = outcome.broken.iter().map(|broken| broken.promise).collect();
    assert!(broken.contains(&Promise::P4), "only one of them wrote: {outcome}");
    good(|seed| {
        let mut script = foreign(seed);
        // What the first one wrote, and the other one had not touched before, is right as it is.
        script.not_made.push(Promise::P4);
        script
    });
}

/// A hub that is alone and does not hear the answers to what it writes into its Lease knows it for its own.
#[test]
fn f08_a_hub_that_is_alone_takes_its_own_term_for_nobody_elses() {
    let run_one = |seed: u64| {
        let mut dice = Dice::new(seed, "f08");
        let lease = On::all_of(Parties::these([HUB])).to(Side::Hub).that(Asks::Write);
        let lease = lease.at("/namespaces/roundhouse-system/leases");
        let unheard = Rule::sometimes(lease, Effect::ResetAnswer, 600);
        let at = after(&mut dice, 15_000, 25_000);
        let script = fleet()
            .at(at, Act::for_a_while(Fault::Stopped(HUB.to_owned()), SECOND * 3))
            .at(
                at + SECOND,
                Act::for_a_while(Fault::Network(unheard), SECOND * 30),
            )
            .at(at + SECOND * 2, Act::Apply(with_image(&web(), "web:2")));
        let names = script.names();
        let script = script.finally("the newest runs everywhere", images("web", "web:2", names));
        let (outcome, said) = warnings(|| run(&script, seed));
        assert!(outcome.is_good(), "{outcome}");
        assert!(!said.contains("is another's"), "{said}");
        outcome
    };
    let outcomes: Vec<Outcome> = seeds().into_iter().map(run_one).collect();
    struck(&outcomes, &[Kind::HubStopped]);
    let unheard = |outcome: &Outcome| outcome.seen.contains_key(&Kind::Reset);
    assert!(is_one() || outcomes.iter().any(unheard), "every answer was heard");
}

#[test]
fn f08_one_that_had_to_give_way_leads_again_when_the_other_one_ends() {
    good(|seed| {
        let gone = Act::Begin(Fault::Stopped("b".to_owned()), None);
        let mut script = fleet();
        script.hubs.push("b".to_owned());
        script.server_apart = true;
        let names = script.names();
        let later = SECOND * 20 + Duration::from_millis(70 * (seed % 10));
        script
            .at(SECOND * 10, Act::check("the last one leads", leads("b", true)))
            .at(later, gone)
            .at(SECOND * 25, Act::Apply(with_image(&web(), "web:2")))
            .finally("the newest runs everywhere", images("web", "web:2", names))
            .finally("the first one leads", leads(HUB, true))
    });
}
