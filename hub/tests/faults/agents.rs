//! Faults of agents: F10, F11, F13, F36.

use crate::{
    looks::{all_available, because, cluster, deployment, generations, images},
    runs::{SECOND, good},
};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use roundhouse_apiserver::Identity;
use roundhouse_hub::simulate::{
    fault::{Asks, Effect, Ending, Moment, On, Parties, Rule, Side, When},
    run::{Act, Fault, Look, Script, application, with_image},
};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tower::{Service, ServiceExt};

fn web() -> Value {
    application("web", 16, &[("east", "50%"), ("west", "50%")])
}

#[test]
fn f10_agents_that_are_killed_in_the_middle_of_a_pass_complete_it() {
    good(|seed| {
        let mut script = Script::of_regions(4, &["east", "west"]).with(web());
        let names = script.names();
        for (n, who) in (0_u64..).zip(&names) {
            let dice = seed * 7 + n;
            let when = [When::BeforeRequest, When::BeforeAnswer][usize::try_from(dice % 2).unwrap()];
            let moment = Moment {
                nth: 1 + u32::try_from(dice / 2 % 12).unwrap(),
                when,
                writes_only: true,
            };
            let (who, away) = (who.clone(), SECOND * 2);
            script = script.at(std::time::Duration::ZERO, Act::KillAt { who, moment, away });
        }
        script
            .at(SECOND * 20, Act::Apply(with_image(&web(), "web:2")))
            .finally(
                "the newest runs everywhere",
                images("web", "web:2", names.clone()),
            )
            .finally("it was made once, and changed once", generations("web", 2, names))
    });
}

#[test]
fn f10_a_ledger_whose_write_was_not_answered_is_not_put_back() {
    good(|_| {
        let ledgers = On::all_of(Parties::Agents).to(Side::Member).that(Asks::Write);
        let unanswered = Rule::sometimes(ledgers.at("/appliedbundles"), Effect::ResetAnswer, 500);
        let script = Script::of_regions(4, &["east", "west"]).with(web());
        let names = script.names();
        script
            .at(
                SECOND * 20,
                Act::for_a_while(Fault::Network(unanswered), SECOND * 20),
            )
            .at(SECOND * 21, Act::Apply(with_image(&web(), "web:2")))
            .finally("it was made once, and changed once", generations("web", 2, names))
    });
}

/// Notes what was written at a member, and looks that it is no more than before.
fn writes(member: &'static str, noted: &Arc<AtomicU64>, first: bool) -> Look {
    let noted = noted.clone();
    Look::new(move |fleet| {
        let noted = noted.clone();
        Box::pin(async move {
            deployment(fleet, member, "web").await?;
            let server = fleet.member_server(member).map_err(|error| error.to_string())?;
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
fn f11_an_agent_that_was_down_for_an_hour_finds_everything_there_and_writes_nothing() {
    good(|_| {
        let noted = Arc::new(AtomicU64::new(0));
        let away = Fault::Stopped("east-1".to_owned());
        Script::of_regions(1, &["east", "west"])
            .with(web())
            .at(SECOND * 30, Act::for_a_while(away, SECOND * 3600))
            .at(
                SECOND * 40,
                Act::check("what it has is noted", writes("east-1", &noted, true)),
            )
            .at(
                SECOND * 3600,
                Act::check("it is missed", cluster("east-1", "Available", "Unknown")),
            )
            .finally("it wrote nothing", writes("east-1", &noted, false))
    });
}

#[test]
fn f13_an_agent_that_can_send_and_not_receive_is_shown_as_deaf_and_hears_soon_after_it_can() {
    let outcomes = good(|_| {
        let on = On::all_of(Parties::these(["east-1"])).to(Side::Hub);
        let lost = Rule::always(on.clone().that(Asks::Read), Effect::LoseRequest);
        Script::of_regions(2, &["east", "west"])
            .with(web())
            .at(SECOND * 20, Act::for_a_while(Fault::Network(lost), SECOND * 200))
            .at(SECOND * 21, Act::EndWatches(on, Ending::Silent))
            .at(
                SECOND * 200,
                Act::check("it is deaf", cluster("east-1", "Deaf", "True")),
            )
            .at(
                SECOND * 200,
                Act::check("it is not available", cluster("east-1", "Available", "False")),
            )
            .at(
                SECOND * 200,
                Act::check("others are", cluster("east-2", "Available", "True")),
            )
    });
    for outcome in outcomes {
        // What it asked for last is given up after a minute.
        assert!(outcome.converged_after.unwrap() < SECOND * 100, "{outcome}");
    }
}

/// Somebody asks for so much at once as they can.
fn flood(who: Identity, request: impl Fn(usize) -> Request<Full<Bytes>> + Send + Sync + 'static) -> Look {
    let request = Arc::new(request);
    Look::new(move |fleet| {
        let (who, request) = (who.clone(), request.clone());
        Box::pin(async move {
            let server = fleet.hub_server().map_err(|error| error.to_string())?;
            for n in 0..300 {
                let mut service = server.service_as(Some(who.clone()));
                let service = ServiceExt::<Request<Full<Bytes>>>::ready(&mut service)
                    .await
                    .unwrap();
                tokio::spawn(service.call(request(n)));
            }
            Ok(())
        })
    })
}

fn json_to(method: Method, path: &str, media: &str, body: &Value) -> Request<Full<Bytes>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    request.body(Full::from(body.to_string())).unwrap()
}

/// An agent reads all its Bundles again and again.
fn reads(cluster: &str) -> impl Fn(usize) -> Request<Full<Bytes>> + use<> {
    let path = format!("/apis/roundhouse.dev/v1alpha1/namespaces/cluster-{cluster}/bundles");
    move |_| json_to(Method::GET, &path, "application/json", &Value::Null)
}

/// An agent renews its Lease again and again.
fn renews(cluster: &str) -> impl Fn(usize) -> Request<Full<Bytes>> + use<> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/cluster-{cluster}/leases/agent");
    move |n| {
        let body = json!({"metadata": {"annotations": {"n": n.to_string()}}});
        json_to(Method::PATCH, &path, "application/merge-patch+json", &body)
    }
}

/// A tenant creates one object after the other.
fn creates(n: usize) -> Request<Full<Bytes>> {
    let map = json!({"metadata": {"name": format!("flood-{n}")}, "data": {"text": "x".repeat(20_000)}});
    json_to(
        Method::POST,
        "/api/v1/namespaces/default/configmaps",
        "application/json",
        &map,
    )
}

#[test]
fn f36_a_slow_reader_and_a_flooder_do_not_hold_up_others() {
    good(|_| {
        let slow = On::all_of(Parties::these(["east-1"])).to(Side::Hub);
        let slow = Fault::Network(Rule::always(slow, Effect::DelayFrames(SECOND * 15..=SECOND * 15)));
        let script = Script::of_regions(4, &["east"]);
        let script = script.with(application("web", 8, &[("east", "100%")]));
        let others = vec!["east-2".to_owned(), "east-3".to_owned(), "east-4".to_owned()];
        script
            .at(SECOND * 20, Act::for_a_while(slow, SECOND * 100))
            .at(
                SECOND * 21,
                Act::check("one floods", flood(Identity::agent("east-2"), reads("east-2"))),
            )
            .at(
                SECOND * 21,
                Act::Apply(with_image(&application("web", 8, &[("east", "100%")]), "web:2")),
            )
            .at(
                SECOND * 24,
                Act::check("others have it", images("web", "web:2", others)),
            )
            .at(
                SECOND * 24,
                Act::check(
                    "the slow one does not",
                    images("web", "web:1", vec!["east-1".to_owned()]),
                ),
            )
    });
}

#[test]
fn f36_floods_of_writes_by_an_agent_and_by_a_tenant_do_not_hold_up_others() {
    let outcomes = good(|_| {
        let web = application("web", 8, &[("east", "100%")]);
        let script = Script::of_regions(4, &["east"]).with(web.clone());
        let (names, agent) = (script.names(), Identity::agent("east-2"));
        let tenant = Identity::new("somebody", ["tenants"]);
        let mut script = script;
        for n in 0..20 {
            let at = SECOND * 20 + SECOND / 10 * n;
            let (agent, tenant) = (agent.clone(), tenant.clone());
            script = script
                .at(at, Act::check("an agent floods", flood(agent, renews("east-2"))))
                .at(at, Act::check("a tenant floods", flood(tenant, creates)));
        }
        script
            .at(SECOND * 21, Act::Apply(with_image(&web, "web:2")))
            .at(
                SECOND * 25,
                Act::check("everybody has it", images("web", "web:2", names)),
            )
            .at(SECOND * 80, Act::check("everybody is heard of", all_available()))
    });
    for outcome in outcomes {
        assert!(outcome.converged_after.unwrap() < SECOND * 30, "{outcome}");
    }
}
