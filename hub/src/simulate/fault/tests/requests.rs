//! What becomes of requests.

use super::line::{Line, SECOND, WHO, all, send};
use crate::simulate::fault::{Asks, Effect, Kind, Moment, On, Parties, Rule, Side, When};
use http::Method;
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, sleep, timeout};

const TIMED_OUT: &str = "a simulated fault: the connection timed out";
const RESET: &str = "a simulated fault: the connection was reset";

/// Without the fault the same request goes through at once, and nothing is counted.
async fn goes_through(sound: &Line) {
    assert_eq!(sound.create("a").await, (Ok(201), Duration::ZERO));
    assert!(sound.has("a").await);
    sound.is_sound();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_lost_has_no_effect_and_times_out() {
    let (line, sound) = Line::with_and_without(Effect::LoseRequest);
    assert_eq!(line.create("a").await, (Err(TIMED_OUT.to_owned()), SECOND * 60));
    assert!(!line.has("a").await);
    assert_eq!(line.count(Kind::RequestLost), 1);
    goes_through(&sound).await;
}

#[tokio::test(start_paused = true)]
async fn of_two_faults_that_end_a_request_otherwise_one_befalls_it() {
    let line = Line::new();
    line.network.add(Rule::always(all(), Effect::LoseRequest));
    line.network.add(Rule::always(all(), Effect::Reset));
    assert_eq!(line.create("a").await, (Err(TIMED_OUT.to_owned()), SECOND * 60));
    assert_eq!((line.count(Kind::RequestLost), line.count(Kind::Reset)), (1, 0));
    assert_eq!(line.network.struck(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_which_no_earlier_state_is_known_is_not_stale() {
    let (line, _) = Line::with_and_without(Effect::Stale(SECOND));
    let maps = "/api/v1/namespaces/default/configmaps";
    assert!(send(&line.wire, Method::GET, maps, &json!({})).await.is_ok());
    assert_eq!((line.count(Kind::Stale), line.network.struck()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_is_lost_has_its_effect_and_times_out() {
    let (line, sound) = Line::with_and_without(Effect::LoseAnswer);
    assert_eq!(line.create("a").await, (Err(TIMED_OUT.to_owned()), SECOND * 60));
    assert!(line.has("a").await);
    assert_eq!(line.count(Kind::AnswerLost), 1);
    goes_through(&sound).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_breaks_before_the_request_arrives_or_after_its_answer() {
    for (effect, has) in [(Effect::Reset, false), (Effect::ResetAnswer, true)] {
        let (line, sound) = Line::with_and_without(effect);
        assert_eq!(line.create("a").await, (Err(RESET.to_owned()), Duration::ZERO));
        assert_eq!(line.has("a").await, has);
        assert_eq!(line.count(Kind::Reset), 1);
        goes_through(&sound).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_delayed_arrives_in_its_time() {
    let (line, sound) = Line::with_and_without(Effect::Delay(SECOND * 2..=SECOND * 3));
    let (code, took) = line.create("a").await;
    assert_eq!(code, Ok(201));
    assert!((SECOND * 2..=SECOND * 3).contains(&took), "{took:?}");
    assert_eq!(line.count(Kind::Delayed), 1);
    goes_through(&sound).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_duplicated_arrives_twice() {
    let (line, sound) = Line::with_and_without(Effect::Duplicate(SECOND * 5));
    for line in [&line, &sound] {
        assert_eq!(line.create("a").await, (Ok(201), Duration::ZERO));
        let map = "/api/v1/namespaces/default/configmaps/a";
        // Whoever deletes it is surprised to find it again.
        assert!(send(&line.direct, Method::DELETE, map, &json!({})).await.is_ok());
        assert!(!line.has("a").await);
        sleep(SECOND * 5).await;
    }
    assert!(line.has("a").await);
    assert_eq!(line.count(Kind::Duplicated), 1);
    assert!(!sound.has("a").await);
    sound.is_sound();
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_late_are_overtaken_by_others() {
    let (line, sound) = Line::with_and_without(Effect::Late(SECOND * 600));
    for (line, last) in [(&line, "first"), (&sound, "second")] {
        let made = json!({"metadata": {"name": "a"}});
        let maps = "/api/v1/namespaces/default/configmaps";
        assert!(send(&line.direct, Method::POST, maps, &made).await.is_ok());
        let (first, second) = tokio::join!(line.set("a", "first"), async {
            sleep(Duration::from_millis(1)).await;
            let body = json!({"data": {"value": "second"}});
            send(&line.direct, Method::PATCH, &format!("{maps}/a"), &body).await
        });
        assert!(second.is_ok());
        assert!(
            first == Ok(200) || first == Err(TIMED_OUT.to_owned()),
            "{first:?}"
        );
        if let Some(arrives) = line.network.last_arrival() {
            tokio::time::sleep_until(arrives + SECOND).await;
        }
        assert_eq!(line.stored().await["a"], last);
    }
    assert_eq!(line.count(Kind::Late), 1);
    sound.is_sound();
}

#[tokio::test(start_paused = true)]
async fn an_error_is_answered_and_nothing_is_done() {
    for code in [409, 410, 429, 500, 503] {
        let retry_after = (code == 429).then_some(3);
        let (line, sound) = Line::with_and_without(Effect::Answer { code, retry_after });
        let maps = "/api/v1/namespaces/default/configmaps";
        let body = json!({"metadata": {"name": "a"}});
        let answer = send(&line.wire, Method::POST, maps, &body).await.unwrap();
        let after = answer
            .headers()
            .get("retry-after")
            .map(|after| after.to_str().unwrap());
        assert_eq!(
            (answer.status().as_u16(), after),
            (code, retry_after.map(|_| "3"))
        );
        assert!(!line.has("a").await);
        assert_eq!(line.count(Kind::Refused), 1);
        goes_through(&sound).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_stalls_goes_on_when_the_fault_is_over() {
    let line = Line::new();
    let rule = line.network.add(Rule::always(all(), Effect::Stall));
    let lifts = async {
        sleep(SECOND * 500).await;
        assert!(!line.has("a").await);
        line.network.lift(rule);
    };
    let (created, ()) = tokio::join!(line.create("a"), lifts);
    assert_eq!(created, (Ok(201), SECOND * 500));
    assert_eq!(line.count(Kind::Stalled), 1);
    goes_through(&Line::new()).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_off_is_sent_again_for_a_minute() {
    for (heals, expected) in [(59, Ok(201)), (61, Err(TIMED_OUT.to_owned()))] {
        let line = Line::new();
        line.network.cut_off([WHO]);
        let rejoins = async {
            sleep(SECOND * heals).await;
            line.network.rejoin([WHO]);
        };
        let ((created, _), ()) = tokio::join!(line.create("a"), rejoins);
        assert_eq!(created, expected);
        assert_eq!(line.has("a").await, expected.is_ok());
        assert_eq!((line.count(Kind::Partition), line.count(Kind::CutOff)), (1, 1));
    }
    let other = Line::new();
    other.network.cut_off(["c2"]);
    assert_eq!(other.create("a").await, (Ok(201), Duration::ZERO));
    assert_eq!(other.count(Kind::CutOff), 0);
}

#[tokio::test(start_paused = true)]
async fn who_is_held_still_sends_when_it_goes_on() {
    let line = Line::new();
    line.network.hold(WHO, true);
    let goes_on = async {
        sleep(SECOND * 500).await;
        assert!(!line.has("a").await);
        line.network.hold(WHO, false);
    };
    let (created, ()) = tokio::join!(line.create("a"), goes_on);
    assert_eq!(created, (Ok(201), SECOND * 500));
    let other = Line::new();
    other.network.hold("c2", true);
    goes_through(&other).await;
}

#[tokio::test(start_paused = true)]
async fn who_is_doomed_dies_at_that_moment_and_not_before() {
    for (when, has) in [(When::BeforeRequest, false), (When::BeforeAnswer, true)] {
        let mut line = Line::new();
        let moment = Moment {
            nth: 3,
            when,
            writes_only: true,
        };
        line.network.doom(WHO, moment);
        assert_eq!(line.network.doomed(), [WHO]);
        for name in ["a", "b"] {
            assert_eq!(line.create(name).await.0, Ok(201));
        }
        assert!(line.deaths.try_recv().is_err());
        // Nobody is there to read an answer.
        assert!(timeout(SECOND * 1000, line.create("c")).await.is_err());
        assert_eq!(line.deaths.try_recv().as_deref(), Ok(WHO));
        assert_eq!(line.has("c").await, has);
        assert!(timeout(SECOND * 1000, line.create("d")).await.is_err());
        assert!(!line.has("d").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_befalls_those_whom_it_is_about_and_so_often_as_it_is_to() {
    let lost = |on: On| Rule::always(on, Effect::Reset);
    for on in [
        On::all_of(Parties::these(["c2"])),
        all().to(Side::Member),
        all().that(Asks::Read),
        all().that(Asks::Watch),
        all().at("/secrets"),
    ] {
        let line = Line::new();
        line.network.add(lost(on));
        goes_through(&line).await;
    }
    for on in [
        On::all_of(Parties::Agents),
        On::all_of(Parties::All).to(Side::Hub),
        all().that(Asks::Write).at("/configmaps"),
    ] {
        let line = Line::new();
        line.network.add(lost(on).so_often(2));
        let mut codes = Vec::new();
        for _ in 0..3 {
            codes.push(line.create("a").await.0.is_ok());
        }
        assert_eq!(codes, [false, false, true]);
    }
    let sometimes = Line::new();
    sometimes.network.add(Rule::sometimes(all(), Effect::Reset, 300));
    let mut lost = 0;
    for n in 0..200 {
        lost += u32::from(sometimes.create(&format!("m{n}")).await.0.is_err());
    }
    assert!((30..90).contains(&lost), "{lost} of 200");
}

#[tokio::test(start_paused = true)]
async fn latency_is_no_fault_and_no_end_of_faults_ends_it() {
    let line = Line::new();
    line.network.set_latency(SECOND..=SECOND);
    line.network.heal(&BTreeMap::new());
    let began = Instant::now();
    assert_eq!(line.create("a").await.0, Ok(201));
    assert_eq!(began.elapsed(), SECOND);
    line.is_sound();
}
