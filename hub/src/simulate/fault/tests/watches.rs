//! What becomes of watches.

use super::line::{Line, SECOND, WHO, all};
use crate::simulate::{
    AnswerBody,
    fault::{Effect, Ending, Kind, Moment, Rule, When},
};
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The next line of a watch: its type and what it is about, or how it ended.
async fn next(body: &mut AnswerBody) -> String {
    match body.frame().await {
        None => "end".to_owned(),
        Some(Err(error)) => error.to_string(),
        Some(Ok(frame)) => {
            let line: Value = serde_json::from_slice(&frame.into_data().unwrap()).unwrap();
            let about = line
                .pointer("/object/metadata/name")
                .or(line.pointer("/object/code"));
            format!(
                "{} {}",
                line["type"].as_str().unwrap(),
                about.unwrap_or(&Value::Null)
            )
        }
    }
}

async fn is_quiet(body: &mut AnswerBody, so_long: Duration) -> bool {
    timeout(so_long, next(body)).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_happens_where_nothing_befalls_it() {
    let line = Line::new();
    let mut body = line.watch().await;
    assert_eq!(line.create("a").await.0, Ok(201));
    assert_eq!(next(&mut body).await, "ADDED \"a\"");
    assert!(is_quiet(&mut body, SECOND * 100).await);
    line.is_sound();
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_ended_as_it_is_asked_for() {
    for (how, last) in [
        (Ending::Ended, "end"),
        (Ending::Broken, "a simulated fault: the connection was reset"),
        (Ending::Gone, "ERROR 410"),
    ] {
        let line = Line::new();
        let mut body = line.watch().await;
        line.network.end_watches(all(), how);
        assert_eq!(next(&mut body).await, last);
        assert_eq!(line.count(Kind::WatchEnded), 1);
        // One that is begun after that goes on.
        let mut body = line.watch().await;
        assert_eq!(line.create("a").await.0, Ok(201));
        assert_eq!(next(&mut body).await, "ADDED \"a\"");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_shows_nothing_until_whoever_reads_gives_it_up() {
    let line = Line::new();
    let mut body = line.watch().await;
    line.network.end_watches(all().at("/configmaps"), Ending::Silent);
    assert_eq!(line.create("a").await.0, Ok(201));
    let began = Instant::now();
    assert_eq!(
        next(&mut body).await,
        "a simulated fault: the connection was reset"
    );
    assert!(began.elapsed() > SECOND * 200, "{:?}", began.elapsed());
    assert_eq!(line.count(Kind::WatchSilenced), 1);
}

#[tokio::test(start_paused = true)]
async fn ends_befall_the_watches_that_they_are_about() {
    let line = Line::new();
    let mut body = line.watch().await;
    line.network.end_watches(all().at("/secrets"), Ending::Ended);
    assert!(is_quiet(&mut body, SECOND).await);
    line.is_sound();
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_delayed_come_late_and_in_their_order() {
    let (line, sound) = Line::with_and_without(Effect::DelayFrames(SECOND * 4..=SECOND * 4));
    for (line, after) in [(&line, SECOND * 4), (&sound, Duration::ZERO)] {
        let mut body = line.watch().await;
        for name in ["a", "b"] {
            assert_eq!(line.create(name).await.0, Ok(201));
        }
        let began = Instant::now();
        assert_eq!(next(&mut body).await, "ADDED \"a\"");
        assert_eq!(began.elapsed(), after);
        assert_eq!(next(&mut body).await, "ADDED \"b\"");
        assert_eq!(began.elapsed(), after * 2);
    }
    assert_eq!(line.count(Kind::FrameDelayed), 2);
    sound.is_sound();
}

#[tokio::test(start_paused = true)]
async fn a_watch_over_a_line_that_is_cut_goes_on_if_it_heals_within_a_minute_and_is_dead_else() {
    for (heals, lives) in [(59, true), (61, false)] {
        let line = Line::new();
        let mut body = line.watch().await;
        line.network.cut_off([WHO]);
        let made = async {
            tokio::time::sleep(SECOND * heals).await;
            line.network.rejoin([WHO]);
            assert_eq!(line.create("a").await.0, Ok(201));
        };
        let (told, ()) = tokio::join!(timeout(SECOND * 100, next(&mut body)), made);
        assert_eq!(told.is_ok(), lives, "{told:?}");
        assert_eq!(line.count(Kind::WatchSilenced), u64::from(!lives));
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_doomed_dies_at_a_line_that_it_does_not_read() {
    let mut line = Line::new();
    let mut body = line.watch().await;
    let moment = Moment {
        nth: 2,
        when: When::AtFrame,
        writes_only: false,
    };
    line.network.doom(WHO, moment);
    for name in ["a", "b"] {
        assert_eq!(line.create(name).await.0, Ok(201));
    }
    assert_eq!(next(&mut body).await, "ADDED \"a\"");
    assert!(is_quiet(&mut body, SECOND * 1000).await);
    assert_eq!(line.deaths.try_recv().as_deref(), Ok(WHO));
}

#[tokio::test(start_paused = true)]
async fn a_rule_about_requests_leaves_open_watches_alone() {
    let line = Line::new();
    let mut body = line.watch().await;
    line.network.add(Rule::always(all(), Effect::Reset).so_often(1));
    assert!(line.create("a").await.0.is_err());
    assert_eq!(line.create("b").await.0, Ok(201));
    assert_eq!(next(&mut body).await, "ADDED \"b\"");
}
