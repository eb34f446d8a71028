//! Faults of agents: F10, F11, F13, F36, and P9 over a restart.

use crate::{
    applications::{object, runs},
    flood::{Codes, FLOOD, creates, flood, json_to, tenant, tenants_come},
    line::{Line, Sent},
    looks::{all_available, because, cluster, deployment, generations, images, is_behind},
    runs::{SECOND, after, good, is_one, one, struck},
};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use parking_lot::Mutex;
use roundhouse_apiserver::Identity;
use roundhouse_hub::simulate::{
    HUB, MemberSpec,
    fault::{Asks, Dice, Effect, Ending, Kind, Moment, On, Parties, Rule, Side, When},
    run::{Act, Fault, Look, Outcome, Script, Target, application, with_image, without_config},
    trace::Object,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

fn web() -> Value {
    application("web", 16, &[("east", "50%"), ("west", "50%")])
}

/// Whether an agent was killed after it had changed the Deployment, and before its ledger says that the ConfigMap is gone.
fn is_killed_while_it_removes(outcome: &Outcome, member: &str) -> bool {
    let agent = Object::party(member, "agent");
    let text = outcome.trace.of(&[agent], Duration::MAX, usize::MAX);
    let after = |line: &str| text.split_once(line).map(|(_, rest)| rest);
    let changed = format!("{member}: deployments.apps default/web  changed by agent");
    let removed = format!("{member}: configmaps default/web  removed by agent");
    let ledger = format!("{member}: appliedbundles.roundhouse.dev ");
    let (Some(since), Some(gone)) = (after(&changed), after(&removed)) else {
        return false;
    };
    let noted = gone.find(&ledger).unwrap_or(gone.len());
    let until = since.len().saturating_sub(gone.len()) + noted;
    since
        .get(..until)
        .is_some_and(|between| between.contains(&format!("{member}: agent  FAULT stopped")))
}

#[test]
fn f10_agents_that_are_killed_in_the_middle_of_a_pass_complete_it() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f10");
        let mut script = Script::of_regions(4, &["east", "west"]).with(web());
        let names = script.names();
        // While it makes everything, and while it changes one object and removes another one.
        for (at, most) in [(Duration::ZERO, 8), (SECOND * 20, 6)] {
            for who in &names {
                let moment = Moment {
                    nth: u32::try_from(1 + dice.below(most)).unwrap(),
                    when: one(&mut dice, &[When::BeforeRequest, When::BeforeAnswer]),
                    writes_only: true,
                };
                let (who, away) = (who.clone(), SECOND * 2);
                script = script.at(at, Act::KillAt { who, moment, away });
            }
        }
        let less = without_config(&with_image(&web(), "web:2"));
        script
            .at(SECOND * 20, Act::Apply(less))
            // Whose moment has not come by then dies where it stands.
            .at(SECOND * 80, Act::check("it is delivered", runs("web")))
            .finally(
                "the newest runs everywhere",
                images("web", "web:2", names.clone()),
            )
            .finally("it was made once, and changed once", generations("web", 2, names))
    });
    struck(&outcomes, &[Kind::AgentKilled, Kind::KilledAtMoment]);
    let members = Script::of_regions(4, &["east", "west"]).names();
    let hit = |outcome: &Outcome| {
        let hit = members
            .iter()
            .filter(|member| is_killed_while_it_removes(outcome, member));
        hit.count()
    };
    let hits: usize = outcomes.iter().map(hit).sum();
    assert!(is_one() || hits > 0, "none was killed while it removed something");
}

#[test]
fn f10_a_ledger_whose_write_was_not_answered_is_not_put_back() {
    let outcomes = good(|seed| {
        let changed = after(&mut Dice::new(seed, "f10"), 20_000, 38_000);
        let ledgers = On::all_of(Parties::Agents).to(Side::Member).that(Asks::Write);
        let unanswered = Rule::sometimes(ledgers.at("/appliedbundles"), Effect::ResetAnswer, 500);
        let script = Script::of_regions(4, &["east", "west"]).with(web());
        let names = script.names();
        script
            .at(
                SECOND * 20,
                Act::for_a_while(Fault::Network(unanswered), SECOND * 20),
            )
            .at(changed, Act::Apply(with_image(&web(), "web:2")))
            .finally("it was made once, and changed once", generations("web", 2, names))
    });
    struck(&outcomes, &[Kind::Reset]);
}

/// Notes what was written at a member, and looks that it is no more than before.
fn writes(member: &str, noted: &Arc<AtomicU64>, first: bool) -> Look {
    let (member, noted) = (member.to_owned(), noted.clone());
    Look::new(move |fleet| {
        let (member, noted) = (member.clone(), noted.clone());
        Box::pin(async move {
            deployment(fleet, &member, "web").await?;
            let server = fleet.member_server(&member).map_err(|error| error.to_string())?;
            let now = server.counter().write_requests();
            match first {
                true => noted.store(now, Ordering::Relaxed),
                false => {
                    let before = noted.load(Ordering::Relaxed);
                    because(now == before, || format!("{} writes more", now - before))?;
                }
            }
            Ok(())
        })
    })
}

#[test]
fn an_agent_whose_member_refuses_its_first_writes_serves_as_soon_as_it_does_not() {
    let outcomes = good(|seed| {
        let joined = after(&mut Dice::new(seed, "joins"), 20_000, 29_000);
        let definitions = On::all_of(Parties::these(["east-3"]))
            .to(Side::Member)
            .that(Asks::Write);
        let (code, retry_after) = (409, None);
        let refused = Rule::always(
            definitions.at("/customresourcedefinitions"),
            Effect::Answer { code, retry_after },
        );
        let joins = MemberSpec::labelled("east-3", &[("region", "east")]).unwrap();
        Script::of_regions(2, &["east", "west"])
            .with(web())
            .at(
                SECOND * 20,
                Act::for_a_while(Fault::Network(refused), SECOND * 10),
            )
            .at(joined, Act::Join(joins))
            .finally(
                "it has its part",
                images("web", "web:1", vec!["east-3".to_owned()]),
            )
    });
    struck(&outcomes, &[Kind::Refused]);
}

#[test]
fn f11_an_agent_that_was_down_for_an_hour_finds_everything_there_and_writes_nothing() {
    good(|seed| {
        let mut dice = Dice::new(seed, "f11");
        let noted = Arc::new(AtomicU64::new(0));
        let script = Script::of_regions(2, &["east", "west"]).with(web());
        let who = one(&mut dice, &script.names());
        let ends = [Fault::Stopped(who.clone()), Fault::Killed(who.clone())];
        let (away, at) = (one(&mut dice, &ends), after(&mut dice, 20_000, 60_000));
        script
            .at(at, Act::for_a_while(away, SECOND * 3600))
            .at(
                at + SECOND * 10,
                Act::check("what it has is noted", writes(&who, &noted, true)),
            )
            .at(
                at + SECOND * 3570,
                Act::check("it is missed", cluster(&who, "Available", "Unknown")),
            )
            .finally("it wrote nothing", writes(&who, &noted, false))
    });
}

/// Two applications, one of which is changed while the agent of `east-1` is not there for an hour.
fn changed_meanwhile(line: &Line, away: Fault, history: usize, seed: u64) -> Script {
    let mut dice = Dice::new(seed, "f11");
    let gone = after(&mut dice, 30_000, 60_000);
    let (changed, back) = (gone + after(&mut dice, 5, 3_500_000), gone + SECOND * 3599);
    let rest = application("rest", 16, &[("east", "50%"), ("west", "50%")]);
    let mut script = Script::of_regions(1, &["east", "west"]).with(web()).with(rest);
    (script.wires, script.history) = (Some(line.wires()), history);
    let names = script.names();
    script
        .then(Act::wait("it is delivered", runs("web")))
        .then(Act::wait("the other one, too", runs("rest")))
        .at(gone, Act::for_a_while(away, SECOND * 3600))
        .at(changed, Act::Apply(with_image(&web(), "web:2")))
        .at(
            back,
            Act::check(
                "it has what it had",
                images("web", "web:1", vec!["east-1".to_owned()]),
            ),
        )
        .at(back, Act::check("from here on it is counted", line.forget()))
        .finally(
            "the newest runs everywhere",
            images("web", "web:2", names.clone()),
        )
        .finally("the other one was not touched", generations("rest", 1, names))
}

/// How often an agent was told what each Bundle contains, by the name of the Bundle.
fn told(sent: &[Sent], who: &str) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    let of_bundles =
        |one: &&Sent| one.ends.who == who && one.ends.server == HUB && one.path.contains("/bundles");
    for answer in sent.iter().filter(of_bundles).map(Sent::answer) {
        let documents = serde_json::Deserializer::from_str(&answer).into_iter::<Value>();
        let objects = documents
            .map_while(Result::ok)
            .flat_map(|document| match document {
                list if list["items"].is_array() => list["items"].as_array().unwrap().clone(),
                event if event["object"].is_object() => vec![event["object"].clone()],
                object => vec![object],
            });
        for object in objects.filter(|object| object.pointer("/spec/workload/manifests").is_some()) {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap();
            *told.entry(name.to_owned()).or_default() += 1;
        }
    }
    told
}

#[test]
fn f11_an_agent_that_was_cut_off_for_an_hour_is_sent_what_has_changed_and_nothing_else() {
    // Its watch goes on where it was; or that is too far back, and it asks what is not as it was.
    for history in [10_000, 40] {
        good(|seed| {
            let line = Line::with_answers();
            let away = Fault::Partition(vec!["east-1".to_owned()]);
            let only_that = |sent: &[Sent]| {
                let told = told(sent, "east-1");
                let is_so = told.contains_key("default.web") && !told.contains_key("default.rest");
                because(is_so, || format!("{told:?}"))
            };
            changed_meanwhile(&line, away, history, seed).finally("only that is sent", line.look(only_that))
        });
    }
}

#[test]
fn f11_an_agent_that_was_down_for_an_hour_applies_what_has_changed_and_nothing_else() {
    good(|seed| {
        let line = Line::with_answers();
        let away = Fault::Stopped("east-1".to_owned());
        let only_that = |sent: &[Sent]| {
            // One that begins knows nothing, and reads everything once.
            let told = told(sent, "east-1");
            because(told.get("default.rest") == Some(&1), || format!("{told:?}"))?;
            let own = sent
                .iter()
                .filter(|one| one.ends.who == "east-1" && one.ends.server == "east-1");
            let other: Vec<&Sent> = own
                .filter(|one| one.writes() && one.path.contains("rest"))
                .collect();
            because(other.is_empty(), || {
                format!("written although it has not changed: {other:?}")
            })
        };
        changed_meanwhile(&line, away, 10_000, seed).finally("only that is applied", line.look(only_that))
    });
}

/// An agent with a directory for what it was told begins anew while it is cut off, and still puts right what others change.
#[test]
fn p9_an_agent_that_is_killed_while_it_is_cut_off_heals_what_it_was_told_before() {
    const MAP: (&str, &str, &str) = ("v1", "ConfigMap", "web");
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "p9");
        let kept = Arc::new(tempfile::tempdir().unwrap());
        let mut script = Script::of_regions(2, &["east", "west"]).with(web());
        script.agents = Some(Arc::new(move |config| {
            config.bundles_dir = Some(kept.path().to_owned());
        }));
        let names = script.names();
        let who = one(&mut dice, &names);
        let map = Target {
            member: Some(who.clone()),
            api_version: MAP.0.to_owned(),
            kind: MAP.1.to_owned(),
            namespace: "default".to_owned(),
            name: MAP.2.to_owned(),
        };
        let killed = SECOND * 2 + after(&mut dice, 0, 20_000);
        let away = after(&mut dice, 1_000, 10_000);
        let changed = killed + after(&mut dice, 0, 30_000);
        let drift = json!({"data": {"image": "mine"}});
        script
            .then(Act::wait("it is delivered", runs("web")))
            .then(Act::for_a_while(
                Fault::Partition(vec![who.clone()]),
                SECOND * 600,
            ))
            // What it is not told of meanwhile.
            .at(SECOND, Act::Apply(with_image(&web(), "web:2")))
            .at(killed, Act::for_a_while(Fault::Killed(who.clone()), away))
            .at(changed, Act::Patch(map, drift))
            .at(
                killed + SECOND * 100,
                Act::check(
                    "it has put right what was changed",
                    object(&who, MAP, |found| found["data"]["image"] == "web:1"),
                ),
            )
            .at(
                killed + SECOND * 100,
                Act::check("it has what it had", images("web", "web:1", vec![who])),
            )
            .finally("the newest runs everywhere", images("web", "web:2", names))
    });
    struck(&outcomes, &[Kind::AgentKilled, Kind::Partition]);
}

#[test]
fn f13_an_agent_that_can_send_and_not_receive_is_shown_as_deaf_and_hears_soon_after_it_can() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f13");
        let script = Script::of_regions(2, &["east", "west"]).with(web());
        let (who, other) = (one(&mut dice, &script.names()), "west-2");
        let who = if who == other { "east-1".to_owned() } else { who };
        let (at, changed) = (after(&mut dice, 5_000, 30_000), after(&mut dice, 35_000, 150_000));
        let on = On::all_of(Parties::these([who.as_str()])).to(Side::Hub);
        let mut script = script;
        // It asks for nothing new, or everything that it sends arrives, and nothing of what is answered.
        let lost = match seed % 2 {
            0 => vec![Rule::always(on.clone().that(Asks::Read), Effect::LoseRequest)],
            _ => vec![Rule::always(on.clone(), Effect::LoseAnswer)],
        };
        for rule in lost {
            script = script.at(at, Act::for_a_while(Fault::Network(rule), SECOND * 200));
        }
        let later = at + SECOND * 190;
        script
            .at(at + SECOND, Act::EndWatches(on, Ending::Silent))
            .at(changed, Act::Apply(with_image(&web(), "web:2")))
            .at(later, Act::check("it is deaf", cluster(&who, "Deaf", "True")))
            .at(
                later,
                Act::check("it is not available", cluster(&who, "Available", "False")),
            )
            .at(
                later,
                Act::check("others are", cluster(other, "Available", "True")),
            )
            .at(
                later,
                Act::check("it has what it had", images("web", "web:1", vec![who])),
            )
    });
    for outcome in outcomes {
        // What it asked for last is given up after a minute.
        assert!(outcome.settled_after().unwrap() < SECOND * 100, "{outcome}");
    }
}

/// An agent renews its Lease again and again.
fn renews(cluster: &str) -> impl Fn(usize) -> Request<Full<Bytes>> + use<> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/cluster-{cluster}/leases/agent");
    move |n| {
        let body = json!({"metadata": {"annotations": {"n": n.to_string()}}});
        json_to(Method::PATCH, &path, "application/merge-patch+json", &body)
    }
}

/// The hub's API server has ended a watch that was further behind than what is kept.
fn cuts_off() -> Look {
    Look::new(|fleet| {
        Box::pin(async move {
            let asked = Request::get("/metrics").body(Vec::new()).unwrap();
            let text = fleet.hub_client().request_text(asked).await;
            let text = text.map_err(|error| error.to_string())?;
            let mut counts = text
                .lines()
                .filter(|line| line.starts_with("apiserver_watch_cut_off_total"));
            let is_so = counts.any(|line| !line.ends_with(" 0"));
            because(is_so, || "no watch was cut off".to_owned())
        })
    })
}

#[test]
fn f36_a_slow_reader_is_cut_off_and_does_not_hold_up_others() {
    good(|seed| {
        let mut dice = Dice::new(seed, "f36");
        let web = application("web", 8, &[("east", "100%")]);
        let mut script = Script::of_regions(4, &["east"]).with(web.clone());
        (script.watch_buffer, script.history) = (Some(8), 40);
        let mut others = script.names();
        let reader = others.remove(usize::try_from(dice.below(4)).unwrap());
        let slow = On::all_of(Parties::these([reader.as_str()])).to(Side::Hub);
        let slow = Fault::Network(Rule::always(slow, Effect::DelayFrames(SECOND * 3..=SECOND * 3)));
        let at = after(&mut dice, 20_000, 30_000);
        script = script.at(SECOND * 15, Act::for_a_while(slow, SECOND * 100));
        // More changes than may wait, while it reads two of them.
        for n in 2..=20 {
            let newer = Act::Apply(with_image(&web, &format!("web:{n}")));
            script = script.at(at + SECOND / 5 * (n - 2), newer);
        }
        let then = at + SECOND * 7;
        script
            .at(
                then,
                Act::check("others have it", images("web", "web:20", others)),
            )
            .at(
                then,
                Act::check("the slow one does not", is_behind("web", "web:20", &reader)),
            )
            .finally("it was cut off", cuts_off())
    });
}

/// What the pace of a user allows in two seconds: 1,000 writes at once and 200 a second, and what has its turn within a second more.
const PACE: usize = 1_000 + 200 * 3;

#[test]
fn f36_floods_of_writes_by_an_agent_and_by_a_tenant_do_not_hold_up_others() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f36");
        let web = application("web", 8, &[("east", "100%")]);
        let script = Script::of_regions(4, &["east"]).with(web.clone());
        let names = script.names();
        let (who, changed) = (one(&mut dice, &names), after(&mut dice, 20_000, 22_500));
        let agent = Identity::agent(&who);
        let tenant = tenant();
        let (renewed, created, line) = (Codes::default(), Codes::default(), Line::default());
        let mut script = script.then(tenants_come());
        script.wires = Some(line.wires());
        // A delivery without a flood, to compare with.
        let before = Arc::new(Mutex::new(Duration::ZERO));
        script = script
            .at(SECOND * 10, Act::check("from here on", line.forget()))
            .then(Act::Apply(with_image(&web, "web:0")))
            .at(
                SECOND * 15,
                Act::check("it is noted", others_wait(&line, (&who, &before), false)),
            )
            .at(SECOND * 19, Act::check("from here on", line.forget()));
        for n in 0..20 {
            let at = SECOND * 20 + SECOND / 10 * n;
            let (agent, tenant) = (agent.clone(), tenant.clone());
            script = script
                .at(
                    at,
                    Act::check("an agent floods", flood(agent, &renewed, renews(&who))),
                )
                .at(
                    at,
                    Act::check(
                        "a tenant floods",
                        flood(tenant, &created, move |each| creates(n, each, 20_000)),
                    ),
                );
        }
        script
            .at(changed, Act::Apply(with_image(&web, "web:2")))
            .at(
                changed + SECOND * 4,
                Act::check("everybody has it", images("web", "web:2", names)),
            )
            .at(
                changed + SECOND * 4,
                Act::check(
                    "others were served as before",
                    others_wait(&line, (&who, &before), true),
                ),
            )
            .at(SECOND * 80, Act::check("everybody is heard of", all_available()))
            .at(
                SECOND * 80,
                Act::check("the agent was served or told to wait", served(200, &renewed, 20)),
            )
            .at(
                SECOND * 80,
                Act::check("the tenant was served or told to wait", served(201, &created, 20)),
            )
    });
    for outcome in outcomes {
        assert!(outcome.settled_after().unwrap() < SECOND * 30, "{outcome}");
    }
}

/// What the slowest of a hundred requests of others took at the hub's API server, watches aside: noted, or compared with what it was.
/// None of them is told to come back later.
fn others_wait(line: &Line, (flooder, before): (&str, &Arc<Mutex<Duration>>), compares: bool) -> Look {
    let (line, flooder, before) = (line.clone(), flooder.to_owned(), before.clone());
    Look::new(move |_| {
        let sent = line.sent();
        let of_others = |sent: &&Sent| sent.ends.server == HUB && sent.ends.who != flooder && !sent.watches();
        let asked: Vec<&Sent> = sent.iter().filter(of_others).collect();
        let refused = asked.iter().filter(|sent| sent.code == 429).count();
        let mut took: Vec<Duration> = asked.iter().map(|sent| sent.took).collect();
        took.sort_unstable();
        let p99 = took.get(took.len() * 99 / 100).copied();
        let looked = match (p99, compares) {
            (None, _) => Err("nobody asked for anything".to_owned()),
            (Some(p99), false) => {
                *before.lock() = p99;
                Ok(())
            }
            (Some(p99), true) => {
                let before = *before.lock();
                because(refused == 0 && p99 <= before + SECOND / 1_000, || {
                    format!("p99 {p99:?}, and {before:?} without the floods; {refused} refused")
                })
            }
        };
        Box::pin(async { looked })
    })
}

/// Every request of so many floods was done or answered with 429; at least one flood's worth was done, and no more than the pace of
/// a user allows.
fn served(done: u16, codes: &Codes, floods: usize) -> Look {
    let codes = codes.clone();
    Look::new(move |_| {
        let (taken, refused) = (codes.of(done), codes.of(429));
        let is_so = (FLOOD..=PACE).contains(&taken) && taken + refused == floods * FLOOD;
        let looked = because(is_so, || format!("{taken} taken, {refused} refused: {codes:?}"));
        Box::pin(async { looked })
    })
}
