//! What is asked for, the script of it, and what is printed.

use super::{
    Args,
    asked::{Fail, SetLabel, Span, Until},
    script, timeline,
};
use crate::{
    cli::{documents, proposals},
    simulate::run::{self, Act, Event, Fault},
};
use clap::Parser;
use std::time::Duration;

const SEED: &str = include_str!("../../../../e2e/samples/01-seed.yaml");

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn args(words: &[&str]) -> Result<Args, String> {
    let all = ["simulate", "-f", "app.yaml"].iter().chain(words);
    Cli::try_parse_from(all)
        .map(|cli| cli.args)
        .map_err(|error| error.to_string())
}

fn made(words: &[&str]) -> Result<script::Made, String> {
    let proposed = proposals::of_documents(documents::split("app.yaml", SEED).unwrap(), None).unwrap();
    script::of(&args(words)?, &proposed).map_err(|failure| failure.to_string())
}

fn lost(made: &script::Made) -> Vec<String> {
    let cut = made.script.cues.iter().find_map(|cue| match &cue.act {
        Act::Begin(Fault::Partition(clusters), None) => Some(clusters.clone()),
        _ => None,
    });
    cut.unwrap()
}

#[test]
fn what_is_written_is_read() {
    let second = Duration::from_secs(1);
    assert_eq!("90s".parse(), Ok(Span(90 * second)));
    assert_eq!("1h 30m".parse(), Ok(Span(5400 * second)));
    assert_eq!("done".parse(), Ok(Until::Done));
    assert_eq!("10m".parse(), Ok(Until::Time(600 * second)));
    let set = |value: Option<&str>, at| SetLabel {
        cluster: "c1".to_owned(),
        key: "tier".to_owned(),
        value: value.map(str::to_owned),
        at,
    };
    assert_eq!("c1:tier=gold".parse(), Ok(set(Some("gold"), None)));
    assert_eq!("c1:tier-@30s".parse(), Ok(set(None, Some(30 * second))));
    let fail = Fail {
        step: "a:b".to_owned(),
        percent: 20,
    };
    assert_eq!("a:b:20%".parse(), Ok(fail));
    for wrong in ["step2", "step2:20", "step2:0%", "step2:101%", ":5%", "step2:-1%"] {
        assert!(
            wrong.parse::<Fail>().unwrap_err().contains("step2:20%"),
            "{wrong}"
        );
    }
    for wrong in ["c1", "c1:tier", ":tier=gold", "c1:=gold", "c1:tier=gold@soon"] {
        assert!(wrong.parse::<SetLabel>().is_err(), "{wrong}");
    }
    for wrong in ["", "-5s", "soon", "2000000h"] {
        assert!(wrong.parse::<Span>().unwrap_err().contains("30s"), "{wrong}");
    }
    for words in [
        ["--lose", "@5s"],
        ["--lose", "a in b"],
        ["--until", "never"],
        ["--clusters", "0"],
    ] {
        assert!(args(&words).is_err(), "{words:?}");
    }
}

#[test]
fn a_loss_heals_at_the_end_unless_it_is_forever() {
    let acts = |words: &[&str]| -> Vec<String> {
        let cues = made(words).unwrap().script.cues;
        cues.iter()
            .map(|cue| format!("{} {}", cue.at.as_secs(), cue.act))
            .collect()
    };
    let words = [
        "--lose",
        "region=west",
        "--set-label",
        "c1:tier=gold",
        "--clusters",
        "5",
    ];
    assert_eq!(
        acts(&words),
        [
            "0 cut off from the hub: c4, c5",
            "0 waited until nothing more happens",
            "0 c1 is labelled tier=gold",
            "0 waited until nothing more happens",
            "0 all faults end",
        ]
    );
    let words = ["--lose", "c2@7s", "--forever", "--set-label", "c1:tier-@3s"];
    assert_eq!(
        acts(&words),
        ["3 c1 loses its label tier", "7 cut off from the hub: c2"]
    );
    let words = ["--lose", "region=west", "--until", "5m", "--clusters", "2"];
    assert_eq!(
        acts(&words),
        [
            "0 cut off from the hub: c2",
            "0 waited until nothing more happens",
            "0 all faults end",
        ],
        "if there is time enough"
    );
}

#[test]
fn some_clusters_of_a_step_refuse_what_is_written() {
    let who = |words: &[&str]| {
        let made = made(words).unwrap();
        let chosen = made.script.cues.iter().find_map(|cue| match &cue.act {
            Act::Begin(Fault::Network(rule), None) => Some(format!("{:?}", rule.on.who)),
            _ => None,
        });
        chosen.unwrap()
    };
    let words = ["--clusters", "20", "--fail", "step-0:20%", "--seed", "7"];
    let chosen = who(&words);
    assert_eq!(
        chosen.matches('"').count() / 2,
        2,
        "a fifth of the nine that have replicas, rounded up: {chosen}"
    );
    assert_eq!(who(&words), chosen);
    let refused = made(&["--fail", "step-9:20%"]).unwrap_err();
    assert!(
        refused.contains("no placing step is named \"step-9\"") && refused.contains("step-0"),
        "{refused}"
    );
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let refused = made(&["--lose", "region=nord"]).unwrap_err();
    let expected = "error: --lose: no cluster is \"region=nord\" [E-CLUSTERS]\ncause: the clusters are c1, c2, c3, c4, c5, … and 5 more; \
        their labels are region=east, region=west, tier=canary, tier=production\ntry:   one of these names or labels";
    assert_eq!(refused, expected);
    assert!(made(&["--set-label", "c11:tier=gold"]).is_err());
    assert_eq!(
        lost(&made(&["--lose", "tier in (canary)"]).unwrap()),
        ["c1", "c7"]
    );
}

#[test]
fn what_happens_to_many_is_one_line() {
    let event = |at: u64, who: Option<&str>, what: &str| Event {
        at: Duration::from_secs(at),
        who: who.map(str::to_owned),
        what: what.to_owned(),
    };
    let lines = timeline::lines(&[
        event(1, Some("c1"), "available"),
        event(2, None, "web is applied"),
        event(3, Some("c2"), "available"),
        event(30, Some("c1"), "available"),
    ]);
    let told: Vec<(u64, usize)> = lines
        .iter()
        .map(|line| (line.at.as_secs(), line.who.len()))
        .collect();
    assert_eq!(told, [(1, 2), (2, 0), (30, 1)]);
}

#[test]
fn the_seed_outlives_the_loss_of_a_region_and_is_the_same_twice() {
    let words = [
        "--clusters",
        "5",
        "--lose",
        "region=west",
        "--seed",
        "7",
        "--patience",
        "2m",
    ];
    let made = made(&words).unwrap();
    let outcome = run::run(&made.script, 7);
    assert!(outcome.is_good(), "{outcome}");
    let text = timeline::draw(&made, &outcome, true);
    for part in [
        "5 clusters, default/web, seed 7",
        "cut off from the hub: c4, c5",
        "2 clusters: not available (c4, c5)",
        "nothing further happens; what waits: ",
        "all faults end",
        "2 clusters: available (c4, c5)",
        "default/web: step step-0 is Succeeded",
        "everything is delivered after",
        "none broken; P1, P9, P10 had nothing to check",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    assert_eq!(run::run(&made.script, 7).digest(), outcome.digest());
}
