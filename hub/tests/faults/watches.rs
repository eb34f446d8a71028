//! Watches that are dead, and reports that are old: F17, F18.

use crate::{
    applications::{object, runs},
    line::{Line, Sent},
    looks::because,
    runs::{SECOND, after, delivered_within, good, one, seeds, struck},
};
use parking_lot::Mutex;
use roundhouse_hub::{
    metrics::Metrics,
    simulate::{
        HUB,
        fault::{Asks, Dice, Effect, Ending, Kind, On, Parties, Rule, Side},
        monitor::Promise,
        run::{Act, Fault, Look, Outcome, Script, Target, agreement, application, run, with_image},
    },
};
use serde_json::Value;
use std::{
    io::{self, Write},
    sync::Arc,
    time::Duration,
};

/// The same application with another content of its ConfigMap alone.
fn with_config(application: &Value, image: &str) -> Value {
    let mut changed = application.clone();
    let place = "/spec/components/0/properties/objects/0/data/image";
    *changed.pointer_mut(place).unwrap() = image.into();
    changed
}

/// An agent finds its watches dead by the next renewal of its Lease, after 10 s, that does not come back within 16 s; that it
/// hears again the hub learns with the renewal after that.
const HEALS: Duration = Duration::from_secs(45);
/// One that hears its Lease finds a dead watch of Bundles by the bookmarks that stay away for two and a half minutes.
const HEALS_ALONE: Duration = Duration::from_secs(180);
/// A watch on which nothing comes is given up after 295 s; what is late then follows at once. So it is for those of an agent's
/// member, too.
const GIVEN_UP: Duration = Duration::from_secs(360);

fn fleet() -> Script {
    Script::of_regions(2, &["east", "west"]).with(web())
}

fn web() -> Value {
    application("web", 8, &[("east", "50%"), ("west", "50%")])
}

/// What is delivered, one of its agents, and a time in which anything may have happened.
fn drawn(seed: u64) -> (Script, String, Duration) {
    let mut dice = Dice::new(seed, "f17");
    let script = fleet().then(Act::wait("it is delivered", runs("web")));
    let who = one(&mut dice, &script.names());
    (script, who, after(&mut dice, 0, 60_000))
}

/// The hub counts that a watch of each of its controllers was given up.
fn alarmed(metrics: &Metrics) -> Look {
    let metrics = metrics.clone();
    Look::new(move |_| {
        let text = metrics.render();
        let broke = |kind: &str| {
            let series = format!("roundhouse_watches_broken_total{{kind=\"{kind}\"}}");
            text.lines()
                .any(|line| line.starts_with(&series) && !line.ends_with(" 0"))
        };
        let looked = because(["Bundle", "Lease"].into_iter().all(broke), || text.clone());
        Box::pin(async { looked })
    })
}

/// Runs of a script, in each of which this is logged as a warning, what an agent tells whoever runs it, and at the end of which every
/// cluster has what was decided.
fn warned(words: &str, script: impl Fn(u64) -> Script) -> Vec<Outcome> {
    let run_one = |seed| {
        let mut script = script(seed);
        script.finally.push(agreement(&script.cues));
        let (outcome, said) = warnings(|| run(&script, seed));
        assert!(outcome.is_good(), "{outcome}");
        assert!(said.contains(words), "seed {seed}: {said:?}");
        outcome
    };
    seeds().into_iter().map(run_one).collect()
}

/// What is logged as a warning meanwhile.
pub(crate) fn warnings<T>(of: impl FnOnce() -> T) -> (T, String) {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    // Beside a second one, a test that comes to a place first and listens to nobody does not decide that nobody does.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let done = tracing::subscriber::with_default(subscriber, of);
    let said = String::from_utf8_lossy(&lines.0.lock()).into_owned();
    (done, said)
}

#[test]
fn f17_an_agent_whose_watches_are_dead_in_silence_finds_out_and_heals_by_itself() {
    let outcomes = warned("the watches of the hub are dead", |seed| {
        let (script, who, at) = drawn(seed);
        let dead = On::all_of(Parties::these([who.as_str()])).to(Side::Hub);
        script
            .at(at, Act::EndWatches(dead, Ending::Silent))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .until(delivered_within(HEALS))
    });
    struck(&outcomes, &[Kind::WatchSilenced]);
}

#[test]
fn f17_an_agent_hears_its_lease_and_finds_that_its_watch_of_bundles_is_dead() {
    let outcomes = warned("the watch of Bundles was quiet for long", |seed| {
        let (script, who, at) = drawn(seed);
        let dead = On::all_of(Parties::these([who.as_str()]))
            .to(Side::Hub)
            .at("/bundles");
        script
            // A bookmark has come by then.
            .at(SECOND * 80 + at, Act::EndWatches(dead, Ending::Silent))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .until(delivered_within(HEALS_ALONE))
    });
    struck(&outcomes, &[Kind::WatchSilenced]);
}

#[test]
fn f17_an_agent_whose_watches_of_its_member_are_dead_in_silence_finds_out_and_heals() {
    let outcomes = warned("this watch of the member was silent", |seed| {
        let (script, who, at) = drawn(seed);
        let dead = On::all_of(Parties::these([who.as_str()])).to(Side::Member);
        let map = Target::on_hub("v1", "ConfigMap", "default", "web").in_member(&who);
        let there = object(&who, ("v1", "ConfigMap", "web"), Value::is_object);
        script
            .at(at, Act::EndWatches(dead, Ending::Silent))
            .then(Act::Delete(map))
            .at(at + GIVEN_UP, Act::check("it is there again", there))
    });
    struck(&outcomes, &[Kind::WatchSilenced]);
}

#[test]
fn f17_a_hub_whose_watches_are_dead_in_silence_heals_by_itself() {
    let outcomes = good(|seed| {
        let (mut script, _, at) = drawn(seed);
        let metrics = Metrics::default();
        let told = metrics.clone();
        script.hub = Some(Arc::new(move |options| {
            options.application.metrics = metrics.clone();
        }));
        let dead = On::all_of(Parties::these([HUB]));
        script
            .at(at, Act::EndWatches(dead, Ending::Silent))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .until(delivered_within(GIVEN_UP))
            .finally("it told of it", alarmed(&told))
    });
    struck(&outcomes, &[Kind::WatchSilenced]);
}

#[test]
fn f18_reports_about_an_earlier_revision_that_come_late_let_no_step_pass() {
    // That a step passes on its own evidence only is watched in every run (P7); here the old evidence is there in plenty.
    let reports = On::all_of(Parties::Agents)
        .to(Side::Hub)
        .that(Asks::Write)
        .at("/bundles/");
    let lines: Mutex<Vec<Line>> = Mutex::default();
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f18");
        let late = Rule::sometimes(reports.clone(), Effect::Late(SECOND * 60), 700);
        let mut script = fleet().then(Act::for_a_while(Fault::Network(late), SECOND * 40));
        let line = Line::with_answers();
        script.wires = Some(line.wires());
        lines.lock().push(line);
        for n in 2..6 {
            let image = format!("web:{n}");
            // Everything is another one, or the ConfigMap alone.
            let changed = match dice.happens(500) {
                true => with_image(&web(), &image),
                false => with_config(&web(), &image),
            };
            let at = SECOND * 8 * n + after(&mut dice, 0, 7_000);
            script = script.at(at, Act::Apply(changed));
        }
        script.until(delivered_within(SECOND * 300))
    });
    struck(&outcomes, &[Kind::Late]);
    for outcome in outcomes {
        assert!(outcome.judged.contains(&Promise::P7), "{outcome}");
    }
    // It was stored where a later content was already.
    let is_old = |sent: &&Sent| {
        let stored: Value = serde_json::from_str(&sent.answer()).unwrap_or_default();
        let number = |at| stored.pointer(at).and_then(Value::as_i64);
        let reported = number("/status/observedGeneration").is_some();
        reported && number("/status/observedGeneration") < number("/metadata/generation")
    };
    let is_report = |sent: &&Sent| {
        let of_bundle = sent.path.contains("/bundles/") && sent.path.ends_with("/status");
        of_bundle && sent.code == 200 && sent.ends.who != HUB
    };
    let old = |line: &Line| line.sent().iter().filter(is_report).filter(is_old).count();
    let old: usize = lines.into_inner().iter().map(old).sum();
    assert!(old > 0, "no report of an earlier content came to a later one");
}

/// The hub does not hear that the application is deleted, and hears that one of its Bundles is: it looks before it lets go of it.
#[test]
fn f17_a_bundle_that_goes_with_an_application_of_which_nothing_is_heard_leaves_nothing_behind() {
    let outcomes = good(|seed| {
        let (script, who, at) = drawn(seed);
        let applications = On::all_of(Parties::these([HUB]))
            .to(Side::Hub)
            .at("/applications");
        let bundle = Target {
            member: None,
            api_version: "roundhouse.dev/v1alpha1".to_owned(),
            kind: "Bundle".to_owned(),
            namespace: format!("cluster-{who}"),
            name: "default.web".to_owned(),
        };
        script
            .at(at, Act::EndWatches(applications, Ending::Silent))
            // Whose report would be another reason to look.
            .then(Act::for_a_while(Fault::Partition(vec![who]), SECOND * 30))
            .then(Act::Delete(Target::application("web")))
            .then(Act::Delete(bundle))
            .until(delivered_within(GIVEN_UP))
    });
    struck(&outcomes, &[Kind::WatchSilenced]);
}
