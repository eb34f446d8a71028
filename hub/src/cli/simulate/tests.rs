//! What is asked for, the script of it, and what is printed.

use super::{
    Args,
    asked::{Fail, SetLabel, Span, Until},
    beside::Files,
    ended, fleet, never, script, structured, timeline,
};
use crate::{
    application::{Decided, Said, Witness},
    cli::{documents, inventory, plan, proposals},
    simulate::{
        Ends, WORKLOADS, Wires,
        fault::Kind,
        monitor::Promise,
        run::{self, Act, Event, Fault},
        workloads::Model,
    },
};
use clap::{CommandFactory, Parser};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const SEED: &str = include_str!("../../../../e2e/samples/01-seed.yaml");
const REGIONS: &str = include_str!("../../../../e2e/samples/03-regions.yaml");
const FLAGS: &str = include_str!("../../../../e2e/samples/workflows/flags.yaml");
const DATABASE: &str = include_str!("../../../../e2e/samples/workflows/database.yaml");
const TOGETHER: &str = include_str!("../../../../e2e/samples/workflows/regions-together.yaml");

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
    made_of(SEED, words)
}

fn made_of(text: &str, words: &[&str]) -> Result<script::Made, String> {
    made_with(text, &[], words)
}

/// With what `--then` finds in its files, one after the other.
fn made_with(text: &str, changes: &[&str], words: &[&str]) -> Result<script::Made, String> {
    let read = |text: &str| Files::of(documents::split("app.yaml", text).unwrap(), None).unwrap();
    let changes: Vec<Files> = changes.iter().map(|text| read(text)).collect();
    let args = args(words)?;
    let made = fleet::of(&args).and_then(|fleet| script::of(&args, &fleet.clusters, &read(text), &changes));
    made.map_err(|failure| failure.to_string())
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
    let long = format!("c1:tier={}", "x".repeat(64));
    for wrong in [
        "c1",
        "c1:tier",
        ":tier=gold",
        "c1:=gold",
        "c1:tier=gold@soon",
        "c1:tier=a b",
        "c1:tier=a,b=c",
        "c1:-tier=a",
        &long,
    ] {
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
fn what_would_happen_after_the_end_is_refused_or_told() {
    let until = ["--until", "5m"];
    for (option, what, why) in [
        (
            "--lose",
            "region=west@10m",
            "--lose: region=west has its time at 10m, and it is over by then",
        ),
        (
            "--set-label",
            "c1:tier=gold@5m",
            "--set-label: c1 has its time at 5m, and it is over by then",
        ),
        (
            "--resume",
            "step-0@5m",
            "--resume: step-0 has its time at 5m, and it is over by then",
        ),
    ] {
        let error = made(&[until[0], until[1], option, what]).unwrap_err();
        let expected = format!(
            "error: {why} [E-TIME]\ncause: --until says 5m\ntry:   an earlier time, or a later --until"
        );
        assert_eq!(error.trim_end(), expected);
    }
    made(&["--until", "5m", "--lose", "region=west@4m"]).unwrap();

    // When nothing further happens it is over.
    let made = made(&["--clusters", "1", "--until", "5m", "--set-label", "c1:tier=gold"]).unwrap();
    let outcome = run::run(&made.script, 1);
    let told: Vec<&str> = outcome.timeline.iter().map(|event| event.what.as_str()).collect();
    assert!(told.contains(&"never: c1 is labelled tier=gold"), "{told:?}");
    let never = never::of(&made, &outcome);
    assert_eq!(
        never,
        ["--set-label c1:tier=gold never came: the run was over before"]
    );
    assert_eq!(status(&made, &outcome), 3);
}

#[test]
fn times_in_which_nothing_can_happen_are_refused() {
    for (words, why) in [
        (
            ["--patience", "0s"],
            "error: invalid value '0s' for '--patience <TIME>': 0s is too short, by then nobody would have missed a cluster that \
             is lost: write 1m or more",
        ),
        (
            ["--patience", "59s"],
            "error: invalid value '59s' for '--patience <TIME>': ",
        ),
        (
            ["--within", "0s"],
            "error: invalid value '0s' for '--within <TIME>': 0s is too short, by then nothing would have happened: write 1s or more",
        ),
        (
            ["--until", "0s"],
            "error: invalid value '0s' for '--until <done|delivered|TIME>': 0s is too short, by then nothing would have happened: \
             write 1s or more; or done, or delivered",
        ),
        (
            ["--within", "soon"],
            "error: invalid value 'soon' for '--within <TIME>': \"soon\" is no time: write it like 30s, 5m or 1h, at most a year",
        ),
    ] {
        let refused = args(&words).unwrap_err();
        assert!(refused.starts_with(why), "{refused}");
    }
    let least = args(&["--patience", "1m", "--within", "1s", "--until", "1s"]).unwrap();
    assert_eq!((least.patience.0.as_secs(), least.within.0.as_secs()), (60, 1));
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
fn an_outage_ends_after_its_time() {
    let words = ["--clusters", "5", "--lose", "region=west@10s+20m"];
    let made = made(&words).unwrap();
    let acts: Vec<String> = made.script.cues.iter().map(|cue| cue.act.to_string()).collect();
    assert_eq!(acts, ["cut off from the hub: c4, c5, for 20m"]);
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.delivered_at.is_some(), "{outcome}");
    let back = outcome
        .timeline
        .iter()
        .find(|event| event.what == "connected again: c4, c5");
    assert_eq!(back.map(|event| event.at.as_secs()), Some(1210), "{outcome}");
    for (wrong, why) in [
        (
            "region=west@+5m",
            "it is not said when that begins: write region=west@30s+10m",
        ),
        ("region=west@5s+0s", "0s is too short"),
        ("region=west@5s+soon", "\"soon\" is no time"),
    ] {
        let refused = args(&["--lose", wrong]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn what_could_not_come_to_its_end_is_refused() {
    let patience = "error: --within 5m is over before nothing further happens [E-TIME]\ncause: nothing further happens when nothing \
        has been written for 15m, by --patience: only then comes back what was lost or fails\ntry:   a longer --within, or a shorter \
        --patience";
    let of_loss = format!("{patience}, or --lose with @TIME+DURATION");
    for (words, why) in [
        (&["--within", "5m", "--lose", "region=west"][..], &*of_loss),
        (&["--within", "5m", "--fail", "step-0:20%"], patience),
        (
            &["--within", "5m", "--lose", "region=west", "--forever"],
            patience,
        ),
        (
            &["--within", "5m", "--lose", "region=west@0s+5m"],
            "error: --lose: region=west is lost for 5m [E-TIME]\ncause: --within says that nothing takes 5m\n\
             try:   a shorter loss, or a longer --within",
        ),
        (
            &["--forever"],
            "error: --forever: nothing is there that could stay so [E-FOREVER]\ncause: there is no --lose and no --fail\n\
             try:   --lose or --fail with it, or the run without --forever",
        ),
        (
            &["--forever", "--lose", "region=west@0s+5m"],
            "error: --forever: nothing is there that could stay so [E-FOREVER]\ncause: every --lose says how long it lasts\n\
             try:   --lose without +DURATION, or the run without --forever",
        ),
    ] {
        assert_eq!(made(words).unwrap_err(), why, "{words:?}");
    }
    for words in [
        &["--within", "5m"][..],
        &["--within", "5m", "--lose", "region=west@0s+4m"],
        &["--within", "5m", "--patience", "2m", "--lose", "region=west"],
        &[
            "--within",
            "5m",
            "--until",
            "delivered",
            "--lose",
            "region=west",
            "--forever",
        ],
    ] {
        assert!(made(words).is_ok(), "{words:?}");
    }
}

#[test]
fn the_help_says_which_images_are_never_pulled() {
    let helps = ["simulate", "apiserver"].map(|verb| {
        let mut all = crate::cli::Cli::command();
        all.find_subcommand_mut(verb)
            .unwrap()
            .render_long_help()
            .to_string()
    });
    for help in &helps {
        for image in &Model::default().failing_images {
            assert!(
                help.contains(&format!("contain {image} are never pulled")),
                "{help}"
            );
        }
    }
}

#[test]
fn a_second_version_is_applied_when_the_first_is_delivered_or_at_its_time() {
    let second = REGIONS.replace("busybox:1.37", "busybox:1.38");
    let words = ["--clusters", "4", "--resume", "look-first", "--then", "v2.yaml"];
    let made = made_with(REGIONS, &[&second], &words).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.delivered_at.is_some(), "{outcome}");
    let text = timeline::draw(&made, &outcome, true);
    let at = |what: &str| -> Vec<usize> {
        let lines = text.lines().enumerate();
        lines
            .filter(|(_, line)| line.ends_with(what))
            .map(|(at, _)| at)
            .collect()
    };
    let (applied, delivered) = (
        at("Application checkout is applied"),
        at("  everything is delivered"),
    );
    let resumed = at("step look-first is resumed");
    // Whoever lets runs go on does so with each of them.
    let ([first, second], [opened, again], [former, .., last]) = (&applied[..], &resumed[..], &delivered[..])
    else {
        panic!("{text}");
    };
    let order = [first, opened, former, second, again, last];
    assert!(order.is_sorted(), "{text}");

    let acts = |words: &[&str]| -> Result<Vec<String>, String> {
        let shop = SEED.replace("namespace: default", "namespace: shop");
        let made = made_with(&shop, &[&shop], words)?;
        let cues = made.script.cues.iter();
        Ok(cues
            .map(|cue| format!("{} {}", cue.at.as_secs(), cue.act))
            .collect())
    };
    assert_eq!(
        acts(&["--then", "a@b.yaml@2m"]),
        Ok(vec!["120 Application shop/web is applied".to_owned()])
    );
    let late = acts(&["--then", "v2.yaml@2m", "--until", "1m"]).unwrap_err();
    assert!(
        late.starts_with("error: --then: v2.yaml has its time at 2m, and it is over by then [E-TIME]"),
        "{late}"
    );
    let kind =
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.b}\n";
    let refused = made_with(SEED, &[kind], &["--then", "kinds.yaml"]).unwrap_err();
    assert!(
        refused.starts_with("error: --then kinds.yaml: as.b is a kind of the clusters [E-INPUT]"),
        "{refused}"
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

/// One step, and nothing in a namespace.
const ROLE: &str = "
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: reader, namespace: default}
spec:
  components:
  - name: reader
    type: k8s-objects
    properties:
      objects:
      - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: reader}, rules: []}
  workflow: {steps: [{name: all, type: deploy, properties: {placement: [{replicas: \"100%\"}]}}]}
";

/// Its clusters refuse it until all faults end, and that is said once.
fn refused_until_the_end(text: &str, changes: &[&str], words: &[&str]) -> String {
    let made = made_with(text, changes, words).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(never::of(&made, &outcome), [""; 0]);
    assert!(outcome.seen.contains_key(&Kind::Refused), "{:?}", outcome.seen);
    assert!(outcome.delivered_at.is_some(), "{outcome}");
    assert_eq!(status(&made, &outcome), 0);
    let text = timeline::draw(&made, &outcome, true);
    let begins =
        "once step all begins, writes of c1, c2 to clusters are answered with 403, and nothing is done";
    let lines = text.lines().filter(|line| line.ends_with(begins));
    assert_eq!(lines.count(), 1, "{text}");
    let order = [
        line(&text, &[begins]),
        line(&text, &["2 clusters: bundle ", " failed"]),
        line(&text, &["all faults end"]),
        line(&text, &["step all is Succeeded"]),
    ];
    assert!(order.is_sorted(), "{order:?}\n{text}");
    text
}

#[test]
fn what_is_in_no_namespace_is_refused_too() {
    let words = ["--clusters", "2", "--fail", "all:100%"];
    refused_until_the_end(ROLE, &[], &words);
    // Of a kind that only its definition says so of.
    let shield = ROLE.replace(
        "rbac.authorization.k8s.io/v1, kind: ClusterRole",
        "games.io/v1, kind: Shield",
    );
    let definition = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shields.games.io}
spec:
  group: games.io
  scope: Cluster
  names: {kind: Shield, listKind: ShieldList, plural: shields, singular: shield}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
    refused_until_the_end(&format!("{shield}---{definition}"), &[], &words);
    // The namespace of the application, and what is in it.
    let shop = SEED.replace("namespace: default", "namespace: shop");
    let made = made_of(&shop, &["--clusters", "2", "--fail", "step-0:100%"]).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good() && outcome.delivered_at.is_some(), "{outcome}");
    assert_eq!(never::of(&made, &outcome), [""; 0]);
}

#[test]
fn a_step_of_a_second_version_fails_from_when_that_is_applied() {
    let first = ROLE.replace("name: all", "name: before");
    let second = ROLE.replace("name: reader}, rules", "name: writer}, rules");
    let words = ["--clusters", "2", "--fail", "all:100%", "--then", "v2.yaml"];
    let text = refused_until_the_end(&first, &[&second], &words);
    let order = [
        line(&text, &["step before is Succeeded"]),
        line(&text, &["are answered with 403"]),
    ];
    assert!(order.is_sorted(), "{order:?}\n{text}");
    let timed = ["--clusters", "2", "--fail", "all:100%", "--then", "v2.yaml@10m"];
    let cues = made_with(&first, &[ROLE], &timed).unwrap().script.cues;
    assert!(
        cues[0].at == Duration::from_secs(600) && matches!(cues[0].act, Act::Begin(..)),
        "{cues:?}"
    );
    let refused = made_with(&first, &[ROLE], &["--fail", "none:1%", "--then", "v2.yaml"]).unwrap_err();
    assert_eq!(
        refused,
        "error: --fail: no placing step is named \"none\" [E-STEP]\ncause: the placing steps are all, before\n\
         try:   one of these names"
    );
}

/// One step in each region, west first; or the canaries first, and then all.
fn two_steps(first: &str, second: &str) -> String {
    let mut application: Value = serde_saphyr::from_str(SEED).unwrap();
    let step = |name: &str, selector: &str| {
        let rules = json!([{"replicas": "50%", "clusterSelector": serde_saphyr::from_str::<Value>(selector).unwrap()}]);
        json!({"name": name, "type": "deploy", "properties": {"placement": rules}})
    };
    application["spec"]["workflow"] = json!({"steps": [step("step1", first), step("step2", second)]});
    application.to_string()
}

#[test]
fn a_step_that_waits_for_a_lost_region_meets_its_own_fault_when_that_is_back() {
    let text = two_steps("{region: west}", "{region: east}");
    let asked = [
        "--clusters",
        "10",
        "--lose",
        "region=west",
        "--set-label",
        "c1:tier=gold",
        "--fail",
        "step2:20%",
        "--seed",
        "7",
        "--until",
        "done",
        "--patience",
        "2m",
    ];
    let made = made_of(&text, &asked).unwrap();
    let outcome = run::run(&made.script, 7);
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(never::of(&made, &outcome), [""; 0]);
    assert_eq!(status(&made, &outcome), 0);
    let drawn = timeline::draw(&made, &outcome, true);
    let order = [
        line(&drawn, &["cut off from the hub: c7, c8, c9, c10"]),
        line(&drawn, &["nothing further happens; what waits: "]),
        line(&drawn, &["all faults end that have begun"]),
        line(&drawn, &["step step1 is Succeeded"]),
        line(&drawn, &["step step2 is Running"]),
        line(&drawn, &["bundle ", " failed"]),
        drawn
            .lines()
            .position(|line| line.ends_with("  all faults end"))
            .unwrap(),
        line(&drawn, &["step step2 is Succeeded"]),
    ];
    assert!(order.is_sorted(), "{order:?}\n{drawn}");
    assert!(outcome.delivered_at.is_some(), "{drawn}");
    assert_eq!(run::run(&made.script, 7).digest(), outcome.digest());

    // What stays lost lets the step never begin.
    let made = made_of(&text, &[&asked[..], &["--forever"]].concat()).unwrap();
    let outcome = run::run(&made.script, 7);
    assert!(outcome.is_good(), "{outcome}");
    let never = ["--fail step2:20% never struck: step step2 never began"];
    assert_eq!(never::of(&made, &outcome), never);
    assert_eq!(status(&made, &outcome), 3);
}

#[test]
fn the_step_before_is_not_struck_by_the_fault_of_one_that_comes_to_the_same_clusters() {
    let text = two_steps("{tier: canary}", "{}");
    let words = ["--clusters", "10", "--fail", "step2:100%", "--patience", "2m"];
    let made = made_of(&text, &words).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(
        (status(&made, &outcome), outcome.delivered_at.is_some()),
        (0, true)
    );
    let drawn = timeline::draw(&made, &outcome, true);
    let order = [
        line(&drawn, &["step step1 is Succeeded"]),
        line(&drawn, &["bundle ", " failed"]),
        line(&drawn, &["all faults end"]),
        line(&drawn, &["step step2 is Succeeded"]),
    ];
    assert!(order.is_sorted(), "{order:?}\n{drawn}");
    let twice = made_of(&text, &["--fail", "step2:10%", "--fail", "step2:20%"]).unwrap_err();
    assert_eq!(
        twice,
        "error: --fail: step \"step2\" is there twice [E-STEP]\ntry:   one --fail for each step"
    );
}

#[test]
fn what_an_application_says_draws_no_line_of_its_own() {
    let made = made(&["--clusters", "1"]).unwrap();
    let mut outcome = run::run(&made.script, 1);
    let forged = "look\u{1b}[31m\n     9.999 s  everything is lost".to_owned();
    outcome.timeline.push(Event {
        at: Duration::from_secs(9),
        who: None,
        what: forged.clone(),
    });
    outcome.waits.push(forged);
    let drawn = timeline::draw(&made, &outcome, true);
    assert!(!drawn.contains('\u{1b}'), "{drawn}");
    assert!(
        !drawn.lines().any(|line| line.starts_with("     9.999 s")),
        "{drawn}"
    );
    assert_eq!(drawn.matches("everything is lost").count(), 2, "{drawn}");

    // All that waits is there, and ten of it are drawn where not everything is asked for.
    outcome.waits = (1..=12).map(|n| format!("thing {n}")).collect();
    let drawn = timeline::draw(&made, &outcome, false);
    line(&drawn, &["  thing 10"]);
    line(&drawn, &["  … and 2 more (-o wide shows them)"]);
    assert!(!drawn.contains("thing 11"), "{drawn}");
    line(&timeline::draw(&made, &outcome, true), &["  thing 12"]);
    let told = structured::of(&made, &outcome);
    assert_eq!(told["waits"].as_array().unwrap().len(), 12);
    // What somebody says of a step is no step that is to come.
    outcome.timeline.push(Event {
        at: Duration::from_secs(9),
        who: None,
        what: "default/web: step look is Running: ask whether db is Pending".to_owned(),
    });
    let drawn = timeline::draw(&made, &outcome, false);
    line(&drawn, &["ask whether db is Pending"]);
}

#[test]
fn a_pause_that_ends_after_all_that_is_waited_for_is_told() {
    let text = REGIONS.replace("message: look at region east, then resume", "duration: 24h");
    let made = made_of(&text, &["--clusters", "2", "--patience", "2m"]).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    let drawn = timeline::draw(&made, &outcome, true);
    line(
        &drawn,
        &["nothing further happens in what is left of 6h, and something does after 23h"],
    );
    // The minute after it, in which nothing may be written, is none of the run's.
    let known = outcome.known_at.unwrap();
    line(
        &drawn,
        &[&format!(
            "not everything is delivered after {:.1} virtual s",
            known.as_secs_f64()
        )],
    );
    assert_eq!(outcome.took, known + Duration::from_secs(60));
}

/// The exit status of a run that ended so, where it is not 0.
fn status(made: &script::Made, outcome: &run::Outcome) -> u8 {
    ended(made, outcome).err().map_or(0, |failure| failure.status())
}

#[test]
fn a_fault_of_a_step_that_never_began_is_told() {
    let made = made_of(REGIONS, &["--fail", "west:100%", "--patience", "2m"]).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    let never = "--fail west:100% never struck: step west never began";
    assert_eq!(never::of(&made, &outcome), [never]);
    assert_eq!(structured::of(&made, &outcome)["never"], json!([never]));
    assert!(
        timeline::draw(&made, &outcome, false).contains(&format!("\n{never}\n")),
        "{outcome}"
    );
    let failure = ended(&made, &outcome).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "error: not everything that was asked for came about [E-NEVER]\n\
         cause: --fail west:100% never struck: step west never began\n\
         try:   the timeline above, to see what happened before; or --resume with the step that waits for a person, if one does"
    );
    assert_eq!(failure.status(), 3);
}

#[test]
fn a_gate_is_opened_and_what_comes_after_it_meets_its_fault() {
    let words = ["--fail", "west:100%", "--resume", "look-first"];
    let made = made_of(REGIONS, &words).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.delivered_at.is_some(), "{outcome}");
    assert!(outcome.seen.contains_key(&Kind::Refused), "{:?}", outcome.seen);
    assert_eq!(status(&made, &outcome), 0);
    let text = timeline::draw(&made, &outcome, true);
    let order = [
        line(&text, &["step look-first is Suspending"]),
        line(&text, &["default/checkout: step look-first is resumed"]),
        line(&text, &["step look-first is Succeeded"]),
        line(&text, &["step west is Running"]),
        line(&text, &["all faults end"]),
        line(&text, &["step west is Succeeded"]),
    ];
    assert!(order.is_sorted(), "{order:?}\n{text}");
    assert_eq!(run::run(&made.script, 1).digest(), outcome.digest());
}

#[test]
fn a_gate_is_not_opened_before_its_time() {
    let words = [
        "--clusters",
        "2",
        "--resume",
        "look-first@20m",
        "--patience",
        "2m",
    ];
    let made = made_of(REGIONS, &words).unwrap();
    let outcome = run::run(&made.script, 1);
    assert_eq!(
        (outcome.is_good(), status(&made, &outcome)),
        (true, 0),
        "{outcome}"
    );
    let resumed = outcome
        .timeline
        .iter()
        .find(|event| event.what.contains("is resumed"));
    let minute = Duration::from_secs(60);
    assert!(
        resumed.is_some_and(|event| (20 * minute..21 * minute).contains(&event.at)),
        "{outcome}"
    );

    // Nothing waits there when the time has come.
    let text = REGIONS.replace("message: look at region east, then resume", "duration: 1m");
    let made = made_of(&text, &words).unwrap();
    let outcome = run::run(&made.script, 1);
    assert_eq!(
        never::of(&made, &outcome),
        ["--resume look-first never came: it made no run wait then"]
    );
    assert_eq!(status(&made, &outcome), 3);
    let advice = ["the run without this --resume, or with an earlier @TIME"];
    assert_eq!(never::advice(&made, &outcome), advice);

    let twice = ["--resume", "look-first", "--resume", "look-first@5m"];
    assert_eq!(
        made_of(REGIONS, &twice).unwrap_err().trim_end(),
        "error: --resume: step look-first is there twice [E-STEP]\ncause: one lets runs go on whenever the step makes them wait\n\
         try:   it once, with the earlier time"
    );
}

#[test]
fn a_run_that_ends_before_it_is_seen_that_nothing_happens_says_which_option_does_that() {
    let made = made_of(
        REGIONS,
        &["--clusters", "2", "--patience", "2m", "--within", "90s"],
    )
    .unwrap();
    let outcome = run::run(&made.script, 1);
    let failure = ended(&made, &outcome).unwrap_err().to_string();
    assert!(failure.contains("not delivered after 1m30s"), "{failure}");
    assert!(
        failure.contains("or a --patience that is shorter than --within: then it is told what waits"),
        "{failure}"
    );
}

#[test]
fn a_step_that_nobody_can_resume_is_refused_with_those_that_wait() {
    for (text, step, why) in [
        (
            REGIONS,
            "look",
            "error: --resume: no step is named \"look\" [E-STEP]\ncause: the steps that wait for a person are look-first\ntry:   one of these names",
        ),
        (
            REGIONS,
            "west",
            "error: --resume: step \"west\" waits for no person [E-STEP]\ncause: the steps that wait for a person are look-first\ntry:   one of these names",
        ),
        (
            SEED,
            "look",
            "error: --resume: no step is named \"look\" [E-STEP]\ncause: no application has a step of type suspend, or one with \
             auto: false\ntry:   the run without --resume",
        ),
    ] {
        assert_eq!(made_of(text, &["--resume", step]).unwrap_err(), why);
    }
    let asks = SEED
        .replace("placement:", "auto: false\n        placement:")
        .replace("open-cluster-management", "deploy");
    let made = made_of(&asks, &["--resume", "step-0"]).unwrap();
    assert_eq!(made.script.resumes[0].applications, [["default", "web"]]);
}

#[test]
fn a_step_sees_what_the_hub_has_beside_the_application() {
    let gate = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: release-gate}\ndata: {open: 'true'}\n";
    let words = ["--clusters", "2", "--patience", "2m"];
    let made = made_of(&format!("{FLAGS}---\n{gate}"), &words).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    let text = timeline::draw(&made, &outcome, true);
    let order = [
        line(&text, &["ConfigMap release-gate is applied"]),
        line(&text, &["step gate is Succeeded"]),
    ];
    assert!(order.is_sorted(), "{text}");
    let made = made_of(FLAGS, &words).unwrap();
    let outcome = run::run(&made.script, 1);
    let waits = outcome.waits.join(" ");
    assert!(waits.contains("gate Running"), "{waits}");
}

#[test]
fn a_kind_that_every_cluster_has_is_applied_there() {
    let kind = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: mysqlinstances.database.example.org}
spec:
  group: database.example.org
  scope: Namespaced
  names: {plural: mysqlinstances, singular: mysqlinstance, kind: MySQLInstance, listKind: MySQLInstanceList}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"#;
    let words = ["--clusters", "2", "--patience", "2m"];
    let failed = |text: &str| {
        let outcome = run::run(&made_of(text, &words).unwrap().script, 1);
        assert!(outcome.is_good(), "{outcome}");
        let mut told = outcome.timeline.iter();
        told.any(|event| event.what.starts_with("bundle ") && event.what.ends_with(" failed"))
    };
    assert!(failed(DATABASE));
    assert!(!failed(&format!("{DATABASE}---{kind}")));
}

#[test]
fn what_is_not_there_is_said_with_what_is() {
    let refused = made(&["--lose", "region=nord"]).unwrap_err();
    let expected = "error: --lose: no cluster is \"region=nord\" [E-CLUSTERS]\ncause: the clusters are c1, c2, c3, c4, c5, … and 5 more; \
        their labels are region=east, region=west, tier=canary, tier=production\ntry:   one of these names or labels, as they are at the start";
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

/// Where the first line is that has all of these parts.
fn line(text: &str, parts: &[&str]) -> usize {
    let is = |line: &str| parts.iter().all(|part| line.contains(part));
    let at = text.lines().position(is);
    at.unwrap_or_else(|| panic!("no line has {parts:?}:\n{text}"))
}

#[test]
fn a_label_that_changes_moves_replicas_before_the_run_ends() {
    let words = ["--clusters", "8", "--set-label", "c1:region=west", "--seed", "3"];
    let made = made(&words).unwrap();
    let outcome = run::run(&made.script, 3);
    assert!(outcome.is_good(), "{outcome}");
    let text = timeline::draw(&made, &outcome, true);
    let labelled = line(&text, &["c1 is labelled region=west"]);
    let moved = line(&text, &["step step-0 places web: c1 2→"]);
    let delivered = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.ends_with("everything is delivered"));
    let last = delivered.map(|(at, _)| at).last();
    assert!(labelled < moved && Some(moved) < last, "{text}");
    let told = structured::of(&made, &outcome);
    let of_c1 = told["decisions"][0]["clusters"].as_array().unwrap().iter();
    let of_c1: Vec<_> = of_c1.filter(|cluster| cluster["name"] == "c1").collect();
    assert_eq!(
        of_c1,
        [&json!({"name": "c1", "replicas": 0, "rule": "rule-1", "duplicate": false})]
    );
    let placed = &told["placed"][0];
    assert_eq!(
        (&placed["application"], &placed["step"], &placed["satisfied"]),
        (&json!("default/web"), &json!("step-0"), &json!(true))
    );
    assert_eq!(placed["clusters"][0], "c1", "{placed}");
    let why = placed["reasons"][0].as_str().unwrap_or_default();
    assert!(
        why.starts_with("1 of 10 replicas of Deployment default/web is not placed"),
        "{placed}"
    );
    assert!(outcome.judged.contains(&Promise::P11), "{:?}", outcome.judged);
}

#[test]
fn a_region_that_is_lost_late_is_missed_and_comes_back() {
    let words = [
        "--clusters",
        "8",
        "--lose",
        "region=west@1m",
        "--patience",
        "5m",
        "--seed",
        "3",
    ];
    let made = made(&words).unwrap();
    let outcome = run::run(&made.script, 3);
    assert!(outcome.is_good(), "{outcome}");
    let text = timeline::draw(&made, &outcome, true);
    let order = [
        line(&text, &["cut off from the hub: c6, c7, c8"]),
        line(&text, &["3 clusters: not available"]),
        line(
            &text,
            &["nothing further happens; what waits: c6, c7, c8 are cut off"],
        ),
        line(&text, &["all faults end"]),
        line(&text, &["3 clusters: available (c6, c7, c8)"]),
    ];
    assert!(order.is_sorted(), "{order:?}\n{text}");
    assert!(!text.contains("note: P9"), "{text}");
}

/// Three of eight clusters would lose what they have.
const NORTH: [&str; 6] = [
    "--set-label",
    "c1:region=north",
    "--set-label",
    "c2:region=north",
    "--set-label",
    "c3:region=north",
];

#[test]
fn removals_that_wait_for_a_person_are_not_delivered() {
    let done = made(&NORTH).unwrap();
    let outcome = run::run(&done.script, 1);
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(outcome.delivered_at, None, "{outcome}");
    let told = structured::of(&done, &outcome);
    assert_eq!(told["delivered"], false);
    let waits = told["waits"].as_array().unwrap();
    let why = "application default/web is Running [step-0 Succeeded] DeletesHeld ConfirmationNeeded: 3 clusters would lose default/web";
    assert!(
        matches!(&waits[..], [one] if one.as_str().unwrap().starts_with(why)),
        "{waits:?}"
    );
    let text = timeline::draw(&done, &outcome, true);
    line(&text, &["not everything is delivered after"]);
    line(&text, &["nothing further happens; what waits: ", why]);

    let delivered = [&NORTH[..], &["--until", "delivered", "--within", "10m"]].concat();
    let outcome = run::run(&made(&delivered).unwrap().script, 1);
    let failures: Vec<&str> = outcome.failures.iter().map(|one| one.what.as_str()).collect();
    let expected = format!("not delivered after 10m: {why}");
    assert!(
        matches!(failures[..], [one] if one.starts_with(&expected)),
        "{failures:?}"
    );
}

#[test]
fn what_time_alone_moves_on_is_waited_for() {
    let text = include_str!("../../../../e2e/samples/workflows/regions-together.yaml");
    let words = [
        "--clusters",
        "8",
        "--lose",
        "region=west",
        "--forever",
        "--patience",
        "5m",
    ];
    let made = made_of(text, &words).unwrap();
    let outcome = run::run(&made.script, 7);
    assert!(outcome.is_good(), "{outcome}");
    let text = timeline::draw(&made, &outcome, true);
    // The group has an hour; whatever happens, somebody is told then.
    let order = [
        line(&text, &["step regions is Failed"]),
        line(&text, &["step tell is Succeeded"]),
        line(&text, &["nothing further happens; what waits:"]),
    ];
    assert!(order.is_sorted(), "{order:?}\n{text}");
    assert!(
        outcome.took >= Duration::from_secs(3600 + 300),
        "{:?}",
        outcome.took
    );
}

#[test]
fn what_is_lost_for_good_is_never_delivered_and_breaks_no_promise() {
    let words = [
        "--clusters",
        "8",
        "--lose",
        "region=west@1m",
        "--forever",
        "--seed",
        "3",
    ];
    let done = made(&[&words[..], &["--patience", "5m"]].concat()).unwrap();
    let outcome = run::run(&done.script, 3);
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(outcome.delivered_at, None);
    let text = timeline::draw(&done, &outcome, true);
    line(&text, &["not everything is delivered after"]);
    line(&text, &["  c6, c7, c8 are cut off"]);

    let delivered = made(&[&words[..], &["--until", "delivered"]].concat()).unwrap();
    let outcome = run::run(&delivered.script, 3);
    assert!(outcome.broken.is_empty(), "{outcome}");
    let failures: Vec<&str> = outcome
        .failures
        .iter()
        .map(|failure| failure.what.as_str())
        .collect();
    assert!(
        matches!(failures[..], [one] if one.starts_with("not delivered: c6, c7, c8 are cut off; ")),
        "{failures:?}"
    );
}

#[test]
fn a_run_of_some_time_ends_then_whatever_is_left() {
    let words = [
        "--clusters",
        "5",
        "--lose",
        "region=west@1m",
        "--patience",
        "5m",
        "--until",
        "10m",
    ];
    let made = made(&words).unwrap();
    let outcome = run::run(&made.script, 3);
    assert!(outcome.is_good(), "{outcome}");
    // The clusters take half a second to join.
    assert_eq!(outcome.took.as_secs(), 600);
    let text = timeline::draw(&made, &outcome, true);
    assert!(
        line(&text, &["all faults end"]) < line(&text, &["2 clusters: available (c4, c5)"]),
        "{text}"
    );
    // It is told when that was, not when the run ended.
    let at = outcome.delivered_at.unwrap();
    assert!(
        (Duration::from_secs(60)..Duration::from_secs(600)).contains(&at),
        "{at:?}"
    );
    let end = format!("everything is delivered after {:.1} virtual s", at.as_secs_f64());
    line(&text, &[&end]);
}

#[test]
fn promises_are_named_in_runs() {
    let named = |names: &[Promise]| timeline::named(names.iter());
    use Promise::{P1, P2, P3, P4, P9, P10};
    assert_eq!(named(&[P1, P2, P3, P4, P9, P10]), "P1 to P4, P9, P10");
    assert_eq!(named(&[]), "none");
}

#[test]
fn what_a_promise_is_can_be_looked_up_by_its_number() {
    let made = made(&["--clusters", "2"]).unwrap();
    let outcome = run::run(&made.script, 1);
    assert!(!outcome.judged.contains(&Promise::P9), "{:?}", outcome.judged);
    let help = Cli::command().render_long_help().to_string();
    let (wide, short) = (
        timeline::draw(&made, &outcome, true),
        timeline::draw(&made, &outcome, false),
    );
    line(&wide, &["  P4   one hub writes"]);
    line(
        &wide,
        &["  P9   a disconnected agent keeps what it has (nothing to check)"],
    );
    assert!(!short.contains("one hub writes"), "{short}");
    line(&short, &["promises: ", " (-o wide says what each is)"]);
    let told = structured::of(&made, &outcome);
    for promise in Promise::ALL {
        let (number, says) = (format!("{promise:?}"), promise.says());
        line(&help, &[&format!("  {number:<3}  {says}")]);
        assert_eq!(told["says"][&number], says);
    }
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
        "none broken; P1, ",
        " had nothing to check",
    ] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    line(
        &text,
        &["note: P9 had nothing to check, since the clusters were lost before they had anything"],
    );
    assert_eq!(run::run(&made.script, 7).digest(), outcome.digest());
}

/// Labels change while decisions are on their way, and half of the clusters are lost. The hub tells every decision a second
/// time, as `again` makes it.
fn labels_and_a_loss(again: fn(Decided) -> Decided) -> run::Outcome {
    let words = [
        "--clusters",
        "16",
        "--patience",
        "2m",
        "--lose",
        "region=west@1s",
        "--set-label",
        "c1:region=west@2s",
        "--set-label",
        "c15:region-@1500ms",
    ];
    let mut script = made_of(TOGETHER, &words).unwrap().script;
    script.hub = Some(Arc::new(move |options| {
        let told = options.application.witness.take().unwrap();
        let twice = move |said: Said| {
            told.hears(said.clone());
            if let Said::Decided(decided) = said {
                told.hears(Said::Decided(again(decided)));
            }
        };
        options.application.witness = Some(Witness::new(twice));
    }));
    run::run(&script, 19)
}

/// The monitor once took what was stored when a decision arrived for what it followed from, and said P14 here.
#[test]
fn labels_that_change_while_decisions_are_on_their_way_break_no_promise() {
    let outcome = labels_and_a_loss(|decided| decided);
    assert!(outcome.is_good(), "{outcome}");
    assert!(outcome.judged.contains(&Promise::P14), "{:?}", outcome.judged);
}

#[test]
fn a_hub_that_decides_otherwise_on_the_same_inputs_is_told_in_the_same_run() {
    let outcome = labels_and_a_loss(|decided| Decided {
        decision: format!("another than {}", decided.decision),
        ..decided
    });
    let promises: Vec<Promise> = outcome.broken.iter().map(|broken| broken.promise).collect();
    assert!(!promises.is_empty(), "{outcome}");
    assert!(
        promises.iter().all(|promise| *promise == Promise::P14),
        "{outcome}"
    );
    // And by the exit status, with how to see it again.
    let made = made_of(TOGETHER, &["--clusters", "16"]).unwrap();
    let failure = ended(&made, &outcome).unwrap_err();
    assert_eq!(failure.status(), 2);
    let told = failure.to_string();
    assert!(
        told.contains("[E-BROKEN]") && told.contains("--seed 19"),
        "{told}"
    );
}

/// Two thirds of the room are on c2, which takes only five; what is not there, and what does not answer, has the most.
const INVENTORY: &str = r#"
- metadata: {name: c1, labels: {region: east}}
  status: {capacity: {replicas: 40}, allocatable: {cpu: 2500m, memory: 16Gi}}
- metadata: {name: c2, labels: {region: east}}
  status: {capacity: {replicas: "5.9"}, allocatable: {cpu: 12, memory: 8Gi}}
- metadata: {name: c3, labels: {region: west}}
  status: {allocatable: {cpu: "3.5", memory: 0.5Ti}}
- metadata: {name: c4, labels: {region: west}}
  spec: {accepted: false}
  status: {allocatable: {cpu: 50}}
- metadata: {name: c5, labels: {region: west}}
  spec: {accepted: true}
  status:
    allocatable: {cpu: 60}
    conditions:
    - {type: Joined, status: "True", reason: r, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
    - {type: Available, status: Unknown, reason: r, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
- metadata: {name: c6, labels: {region: west}}
"#;

/// The sample, within each region by what can be allocated.
fn weighed(resource: &str) -> String {
    let mut application: Value = serde_saphyr::from_str(SEED).unwrap();
    let placement = application.pointer_mut("/spec/workflow/steps/0/properties/placement");
    for rule in placement.unwrap().as_array_mut().unwrap() {
        rule["weightBy"] = json!({"allocatable": resource});
    }
    application.to_string()
}

#[test]
fn a_run_over_an_inventory_places_as_the_plan_for_it() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("fleet.yaml");
    std::fs::write(&file, INVENTORY).unwrap();
    let words = ["--inventory", file.to_str().unwrap(), "--seed", "5"];
    for resource in ["cpu", "memory"] {
        let text = weighed(resource);
        let proposed = proposals::of_documents(documents::split("app.yaml", &text).unwrap(), None).unwrap();
        let clusters = inventory::read(&file).unwrap();
        let plans =
            plan::plan_all(&plan::offline(&clusters), &proposed, plan::last_taint(&clusters)).unwrap();
        let decisions = plans.iter().flat_map(|plan| &plan.decisions);
        let planned: Vec<Value> = decisions
            .flat_map(|decision| {
                let workloads = decision.spec.workloads.iter();
                workloads.map(|workload| plan::of_workload("default/web", &decision.spec.step, workload))
            })
            .collect();
        let made = made_of(&text, &words).unwrap();
        let outcome = run::run(&made.script, 5);
        assert!(outcome.is_good(), "{outcome}");
        assert!(outcome.delivered_at.is_some(), "{outcome}");
        let told = structured::of(&made, &outcome);
        assert_eq!(told["decisions"], Value::from(planned), "{resource}");
        let placed = told["decisions"][0]["clusters"].as_array().unwrap();
        let on = |name: &str| placed.iter().find(|one| one["name"] == name)?["replicas"].as_u64();
        assert!(on("c1") > Some(0) && on("c2") > Some(0), "{placed:?}");
    }
}

/// The second of them is tainted.
const TAINTED: &str = "
- {metadata: {name: c1, labels: {region: east}}}
- metadata: {name: c2, labels: {region: east}}
  spec: {taints: [{key: gpu, value: a100, effect: NoSchedule}]}
- {metadata: {name: c3, labels: {region: west}}}
";

/// Three clusters that have joined a real hub, the second of them cordoned, as `kubectl get clusters -o yaml` prints them.
fn listed() -> String {
    let cluster = |name: &str, region: &str, serial: u32, taints: &str| {
        format!(
            r#"
- apiVersion: roundhouse.dev/v1alpha1
  kind: Cluster
  metadata:
    creationTimestamp: "2026-01-01T00:00:00Z"
    finalizers:
    - roundhouse.dev/cluster
    generation: 3
    labels:
      region: {region}
    managedFields:
    - apiVersion: roundhouse.dev/v1alpha1
      fieldsType: FieldsV1
      fieldsV1: {{"f:spec": {{"f:accepted": {{}}}}}}
      manager: roundhouse
      operation: Update
      time: "2026-01-01T00:00:00Z"
    name: {name}
    resourceVersion: "4711"
    uid: 6f1c2a64-3f0e-4b0a-9a53-0c3a3c0a7d11
  spec:
    accepted: true
    acceptedKey: sha256:{key}
    autoAccept: true
    joinUntil: "2026-01-01T01:00:00Z"
    leave: Orphan
    serial: {serial}{taints}
  status:
    agentVersion: 0.1.0
    allocatable: {{cpu: "4", memory: 8Gi}}
    capacity: {{cpu: "4", memory: 8Gi}}
    conditions:
    - {{lastTransitionTime: "2026-01-01T00:00:09Z", message: the agent has reported, observedGeneration: 3, reason: AgentReported, status: "True", type: Joined}}
    - {{lastTransitionTime: "2026-01-01T00:00:09Z", message: the agent renews its Lease, observedGeneration: 3, reason: LeaseRenewed, status: "True", type: Available}}
    identity:
      key: sha256:{key}
      method: Certificate
      observedSerial: {serial}
      serial: {serial}
      since: "2026-01-01T00:00:05Z"
      user: roundhouse:agent:{name}:{serial}
    kubernetesVersion: v1.36.0
    lastSeen: "2026-01-01T00:00:09Z"
    nodes: 1"#,
            key = "ab".repeat(32),
        )
    };
    let cordoned = "\n    taints: [{key: roundhouse.dev/cordoned, effect: NoSchedule}]";
    format!(
        "apiVersion: v1\nitems:{}{}{}\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
        cluster("c1", "east", 1_767_225_600, ""),
        cluster("c2", "east", 1_767_225_700, cordoned),
        cluster("c3", "west", 1_767_225_800, ""),
    )
}

#[test]
fn clusters_of_an_inventory_are_simulated_with_their_taints_and_without_their_identities() {
    for (what, inventory) in [("by hand", TAINTED.to_owned()), ("listed", listed())] {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("fleet.yaml");
        std::fs::write(&file, inventory).unwrap();
        let made = made(&["--inventory", file.to_str().unwrap()]).unwrap();
        let outcome = run::run(&made.script, 1);
        assert_eq!(status(&made, &outcome), 0, "{what}: {outcome}");
        assert!(outcome.delivered_at.is_some(), "{what}: {outcome}");
        let told = structured::of(&made, &outcome);
        let placed = told["decisions"][0]["clusters"].as_array().unwrap();
        let names: Vec<_> = placed.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["c1", "c3"], "{what}");
    }
}

#[test]
fn what_of_an_inventory_is_not_simulated_is_said() {
    let of = |text: &str| {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("fleet.yaml");
        std::fs::write(&file, text).unwrap();
        let args = args(&["--inventory", file.to_str().unwrap()]).unwrap();
        let fleet = fleet::of(&args).map_err(|failure| failure.to_string())?;
        let nodes = fleet::nodes(&fleet.clusters).map_err(|failure| failure.to_string())?;
        Ok::<_, String>((fleet, nodes))
    };
    let (fleet, nodes) = of(INVENTORY).unwrap();
    assert_eq!(
        fleet.notes,
        [
            "not simulated, since nothing is placed there: c5: condition Available of status.conditions is not True",
            "not simulated, since nothing is placed there: c4: spec.accepted is not true",
        ]
    );
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["c1", "c2", "c3"]);
    // Half a replica is none.
    let of_c2 = nodes["c2"].capacity.as_ref().unwrap();
    assert_eq!(of_c2["replicas"].0, "5");

    let tainted = "- {metadata: {name: a}, status: {taints: [{key: k, effect: NoSchedule}]}}";
    let (fleet, nodes) = of(tainted).unwrap();
    assert_eq!(
        fleet.notes,
        ["not simulated, since the hub sets it itself: status.taints of a: spec.taints is where yours are"]
    );
    assert!(nodes.is_empty());

    for (text, why) in [
        ("[]", "the inventory has no cluster [E-INVENTORY]"),
        (
            "- {metadata: {name: a}, spec: {accepted: false}}",
            "no cluster of the inventory can be simulated [E-INVENTORY]\ncause: not simulated, since nothing is placed there: a: \
             spec.accepted is not true\ntry:   Cluster objects that are accepted",
        ),
        (
            "- {metadata: {name: a}, status: {allocatable: {cpu: 4, memory: 20Pi}}}",
            "cluster a cannot be simulated [E-INVENTORY]\ncause: status.allocatable.memory of 20Pi: it is more than an agent reports",
        ),
        (
            "- {metadata: {name: a}, status: {capacity: {a b: 4}}}",
            "cluster a cannot be simulated [E-INVENTORY]\ncause: status.capacity[a b]: a hub takes that from no agent",
        ),
    ] {
        let refused = of(text).map(|(fleet, _)| fleet.notes).unwrap_err();
        assert!(refused.starts_with(&format!("error: {why}")), "{refused}");
    }
}

#[test]
fn a_namespace_that_is_there_stays_as_it_is() {
    let text = SEED.replace("namespace: default", "namespace: cluster-c1");
    let made = made_of(&text, &["--clusters", "5", "--until", "delivered"]).unwrap();
    assert_eq!(made.applications, ["cluster-c1/web"]);
    let outcome = run::run(&made.script, 1);
    assert!(outcome.is_good(), "{outcome}");
}

/// Five clusters of which two are lost for good, where somebody stamps the namespace of c1 anew so often.
fn stamped(words: &[&str], every: Duration) -> run::Outcome {
    let all = [&["--clusters", "5", "--lose", "region=west", "--forever"], words].concat();
    let mut script = made(&all).unwrap().script;
    script.wires = Some(Wires::new(move |ends, wire| {
        if *ends == Ends::new(WORKLOADS, "c1") {
            let api: Api<Namespace> = Api::all(wire.client("default"));
            tokio::spawn(async move {
                for seconds in 1.. {
                    tokio::time::sleep(every).await;
                    let seen = Timestamp::from_second(seconds).unwrap().to_string();
                    let patch = Patch::Merge(json!({"metadata": {"annotations": {"seen": seen}}}));
                    api.patch("default", &PatchParams::default(), &patch)
                        .await
                        .unwrap();
                }
            });
        }
        wire
    }));
    run::run(&script, 3)
}

#[test]
fn who_waits_is_idle_when_nothing_but_leases_is_written() {
    let minute = Duration::from_secs(60);
    let waits = stamped(&[], 600 * minute);
    assert!(waits.is_good(), "{waits}");
    assert!(waits.judged.contains(&Promise::P11), "{:?}", waits.judged);
    assert!(waits.took < 20 * minute, "{waits}");

    let restless = stamped(&[], 5 * minute);
    let broken: Vec<_> = restless
        .broken
        .iter()
        .map(|broken| (broken.promise, &*broken.object.server))
        .collect();
    assert_eq!(broken[..1], [(Promise::P11, "c1")], "{restless}");
    assert!(broken.iter().all(|one| *one == broken[0]), "{restless}");
    let why = &restless.failures[0].what;
    assert!(
        why.starts_with("nothing further happens, and it is not quiet: 6 writes of nothing but times; what waits: c4, c5 are cut off"),
        "{why}"
    );
    assert!(restless.took < 55 * minute, "{restless}");

    // Sooner than others look again nobody can tell.
    let restless = stamped(&["--patience", "5m", "--within", "30m"], minute);
    assert!(restless.broken.is_empty(), "{restless}");
    let why = &restless.failures[0].what;
    let end = " writes of nothing but times";
    assert!(
        why.starts_with("not delivered after 30m: c4, c5 are cut off; ") && why.ends_with(end),
        "{why}"
    );
}

#[test]
fn a_run_that_could_not_begin_says_what_the_server_said_and_nothing_else() {
    let mut made = made(&["--clusters", "2"]).unwrap();
    made.script.members[0]
        .labels
        .insert("tier".to_owned(), "not valid!".to_owned());
    let failure = super::ended(&made, &run::run(&made.script, 1))
        .unwrap_err()
        .to_string();
    let start = "error: the run could not begin [E-SIMULATION]\ncause: creating Cluster c1 failed: Cluster.roundhouse.dev \"c1\" is \
                 invalid: metadata.labels: Invalid value: \"not valid!\": a valid label must be ";
    assert!(failure.starts_with(start), "{failure}");
    assert!(
        !failure.contains("Status {") && !failure.contains("timeline"),
        "{failure}"
    );
}

#[test]
fn more_replicas_than_are_simulated_are_refused_with_their_field() {
    let of = |replicas: u32, clusters: u32| {
        let text = SEED.replace("replicas: 10\n", &format!("replicas: {replicas}\n"));
        made_of(&text, &["--clusters", &clusters.to_string()]).map(|_| ())
    };
    // Seven tenths are divided among six clusters in the east.
    assert_eq!(of(85_000, 10), Ok(()));
    assert_eq!(
        of(2_000_000_000, 10).unwrap_err(),
        "error: Application default/web cannot be simulated [E-REPLICAS]\n\
         cause: spec.replicas of Deployment default/web is 233,333,334 on cluster c1, and a simulated cluster runs at most 10,000 \
         replicas of one workload\n\
         try:   a smaller number, or more clusters to divide it among"
    );
    // Nine tenths of it have a place.
    assert_eq!(of(1_100_000, 1000), Ok(()));
    let refused = of(1_200_000, 1000).unwrap_err();
    assert!(
        refused.contains(
            "the most of what makes 1,080,000 on all clusters together; a simulation runs at most 1,000,000"
        ),
        "{refused}"
    );

    let job = "
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: batch, namespace: default}
spec:
  components:
  - name: batch
    type: k8s-objects
    properties:
      objects:
      - apiVersion: batch/v1
        kind: Job
        metadata: {name: batch}
        spec:
          completions: 20000
          template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}
  policies:
  - {name: one, type: topology, properties: {clusters: [c1]}}
";
    let refused = made_of(job, &[]).unwrap_err();
    assert!(
        refused.contains("cause: spec.completions of Job default/batch is 20,000 on cluster c1, and "),
        "{refused}"
    );
}

#[test]
fn load_balancers_and_budgets_become_ready() {
    let text = "
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: web, namespace: default}
spec:
  components:
  - name: web
    type: k8s-objects
    properties:
      objects:
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web}
        spec:
          replicas: 4
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: web, image: 'nginx:1.28'}]}
      - apiVersion: v1
        kind: Service
        metadata: {name: web}
        spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}
      - apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: web}
        spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}
  policies:
  - {name: all, type: topology, properties: {clusterLabelSelector: {}}}
";
    let outcome_of = |text: &str| run::run(&made_of(text, &["--clusters", "2"]).unwrap().script, 1);
    let outcome = outcome_of(text);
    assert!(outcome.is_good() && outcome.delivered_at.is_some(), "{outcome}");
    // Four pods are too few for one that asks for five.
    let outcome = outcome_of(&text.replace("minAvailable: 3", "minAvailable: 5"));
    let waits = outcome.waits.join("; ");
    assert!(
        outcome.delivered_at.is_none() && waits.contains("2/3 objects ready"),
        "{waits}"
    );
}
