//! Plans as people and programs read them.

mod objects;
mod order;
mod outputs;

use super::{
    Against, Args, Drawn, Format, faults, last_taint, offline, plan_all, planned as all_planned, proposal,
    run, screen::Screen, structured, table, tree, until,
};
use crate::{
    application::{Proposal, foresee},
    cli::{
        documents, inventory,
        proposals::{self, Kind},
        snapshot::Seen,
    },
    fleet,
    plan::{Action, Counts, risk::Level},
};
use jiff::Timestamp;
use roundhouse_api::decision::Decision;
use serde_json::{Value, json};
use std::{collections::BTreeSet, process::ExitCode};

const SEED: &str = include_str!("../../../../e2e/samples/01-seed.yaml");
const REGIONS: &str = include_str!("../../../../e2e/samples/03-regions.yaml");
const TRAITS: &str = include_str!("../../../../e2e/samples/04-traits.yaml");
const FLEET: &str = include_str!("../../../../e2e/samples/policies/fleet.yaml");

const SCREEN: Screen = Screen {
    width: Some(110),
    color: false,
};

fn clusters(text: &str) -> Vec<roundhouse_api::cluster::Cluster> {
    inventory::clusters(documents::split("fleet.yaml", text).unwrap()).unwrap()
}

fn drawn(files: &str, seen: &Seen, against: Against) -> Drawn {
    let proposed = proposals::of_documents(documents::split("app.yaml", files).unwrap(), None).unwrap();
    let now = Timestamp::UNIX_EPOCH;
    Drawn {
        applications: plan_all(seen, &proposed, now).unwrap(),
        clusters: seen.snapshot.fleet().len(),
        against,
        later: fleet::ahead(&seen.snapshot, all_planned(seen, &proposed).map(proposal), now),
    }
}

fn planned(files: &str, fleet: &str) -> Drawn {
    drawn(files, &offline(&clusters(fleet)), Against::Nothing)
}

/// Clusters in three regions of different sizes.
fn thousand() -> String {
    let region = |n: usize| match n % 10 {
        0..=5 => "east",
        6..=8 => "west",
        _ => "north",
    };
    let line = |n| {
        format!(
            "- metadata: {{name: c{n:03}, labels: {{region: {}}}}}\n",
            region(n)
        )
    };
    (0..1000).map(line).collect()
}

/// What a hub has after these files were delivered to this fleet.
fn delivered(files: &str, fleet: &str) -> Seen {
    let fleet = clusters(fleet);
    let (before, mut after) = (offline(&fleet), offline(&fleet));
    let proposed = proposals::of_documents(documents::split("app.yaml", files).unwrap(), None).unwrap();
    for one in proposed.iter().filter(|one| one.kind == Kind::Application) {
        let mut object = one.object.clone();
        for (field, value) in [
            ("uid", json!("u1")),
            ("resourceVersion", json!("1")),
            ("generation", json!(1)),
        ] {
            object["metadata"][field] = value;
        }
        let revision = format!("{}-v1", one.name);
        object["status"] = json!({"latestRevision": {"name": revision, "revision": 1, "revisionHash": ""}});
        for seen in [&before, &after] {
            seen.snapshot
                .put_application(serde_json::from_value(object.clone()).unwrap());
        }
        let proposal = Proposal {
            namespace: &one.namespace,
            name: &one.name,
            spec: one.spec(),
        };
        let foreseen = foresee(&before.snapshot, &proposal, Timestamp::UNIX_EPOCH).unwrap();
        for decision in &foreseen.decisions {
            let name = roundhouse_api::names::decision_name(&one.name, &decision.spec.step);
            let mut stored = Decision::new(&name, decision.spec.clone());
            stored.metadata.namespace = Some(one.namespace.clone());
            after.snapshot.put_decision(stored);
        }
        let of_steps = foreseen
            .objects
            .iter()
            .flat_map(|object| object.plan.targets.values());
        for target in foreseen.plan.targets.values().chain(of_steps) {
            let crate::dispatch::Target::Bundles(wanted) = target else {
                continue;
            };
            for wanted in wanted {
                let mut bundle = wanted.bundle(None);
                bundle.metadata.uid = Some(format!(
                    "uid of {}",
                    bundle.metadata.namespace.as_deref().unwrap()
                ));
                bundle.metadata.generation = Some(1);
                after.dispatched.put(&bundle);
                after.snapshot.put_bundle(bundle);
            }
        }
    }
    after
}

#[test]
fn a_plan_says_on_whose_behalf_objects_are_written() {
    let app = "{apiVersion: core.oam.dev/v1beta1, kind: Application, metadata: {name: web, namespace: team-a}, spec: {
        components: [{name: web, type: webservice, properties: {image: nginx}}],
        policies: [{name: all, type: placement, properties: {placement: [{}]}}EXECUTOR]}}";
    let fleet = "- metadata: {name: c1}\n";
    let with = app.replace(
        "EXECUTOR",
        ", {name: who, type: executor, properties: {serviceAccount: deployer}}",
    );
    let (named, own) = (
        planned(&with, fleet),
        planned(&app.replace("EXECUTOR", ""), fleet),
    );
    let said = "executor  written on behalf of service account team-a/deployer";
    assert!(table::draw(&named, &SCREEN).contains(said));
    assert!(!table::draw(&own, &SCREEN).contains("executor"));
    let bundle =
        |drawn: &Drawn| serde_json::to_value(structured::Document(drawn)).unwrap()["bundles"][0].clone();
    assert_eq!(bundle(&named)["executor"], "team-a/deployer");
    assert_eq!(bundle(&own).get("executor"), None);
    assert_eq!(bundle(&named)["hash"], bundle(&own)["hash"]);
}

#[test]
fn the_seed_on_five_clusters() {
    let drawn = planned(SEED, FLEET);
    insta::assert_snapshot!("seed_table", table::draw(&drawn, &SCREEN));
    insta::assert_snapshot!("seed_wide", table::draw(&drawn, &SCREEN.whole()));
    insta::assert_snapshot!("seed_tree", tree::draw(&drawn, &SCREEN));
    let two =
        "- metadata: {name: e, labels: {region: east}}\n- metadata: {name: w, labels: {region: west}}\n";
    let json = String::from_utf8(structured::bytes(&planned(SEED, two))).unwrap();
    insta::assert_snapshot!("seed_json", json);
}

#[test]
fn a_thousand_clusters_are_read_by_their_numbers() {
    let seed = SEED.replace("replicas: 10", "replicas: 10000");
    let drawn = planned(&seed, &thousand());
    insta::assert_snapshot!("thousand_table", table::draw(&drawn, &SCREEN));
    insta::assert_snapshot!("thousand_tree", tree::draw(&drawn, &SCREEN));
    let json: Value = serde_json::from_slice(&structured::bytes(&drawn)).unwrap();
    let decision = &json["decisions"][0];
    let rows = decision["clusters"].as_array().unwrap();
    let sum: u64 = rows.iter().map(|row| row["replicas"].as_u64().unwrap()).sum();
    assert_eq!((rows.len(), sum), (900, 9000));
    assert_eq!(
        (&decision["placed"], &decision["unplaced"][0]["count"]),
        (&json!(9000), &json!(1000))
    );
    assert_eq!(json["bundles"].as_array().unwrap().len(), 900);
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["bundles", "decisions"]);
}

/// An application whose override names a cluster that the fleet does not have.
const FAULTY: &str = "
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: web}
spec:
  components: [{name: web, type: worker, properties: {image: a, replicas: 4}}]
  workflow:
    steps:
    - name: everywhere
      type: deploy
      properties:
        placement: [{replicas: \"100%\"}]
        overrides: [{clusters: [zz], target: {kind: Deployment, name: web}, patch: {spec: {paused: true}}}]
";

#[test]
fn a_step_that_its_overrides_stop_is_said_everywhere() {
    let drawn = planned(FAULTY, FLEET);
    let document: Value = serde_json::from_slice(&structured::bytes(&drawn)).unwrap();
    let stopped = document["stopped"].as_array().unwrap();
    assert_eq!(stopped.len(), 1, "{document}");
    assert_eq!(
        (&stopped[0]["application"], &stopped[0]["step"]),
        (&json!("default/web"), &json!("everywhere"))
    );
    let errors = stopped[0]["errors"].as_array().unwrap();
    assert!(!errors.is_empty(), "{document}");
    assert!(
        errors.iter().all(|error| error["index"] == 0
            && error["object"].is_string()
            && error["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty())),
        "{document}"
    );
    let said: Vec<String> = faults(&drawn).iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), errors.len());
    for fault in &said {
        let start = "error: default/web: step everywhere is stopped by its overrides [E-OVERRIDE]\ncause: overrides[0]";
        assert!(fault.starts_with(start), "{fault}");
    }
    let text = table::draw(&drawn, &SCREEN);
    insta::assert_snapshot!("stopped_table", text);
    assert_eq!(
        text.matches("    ! ").count(),
        errors.len(),
        "each is said once: {text}"
    );
    let sound = planned(SEED, FLEET);
    let document: Value = serde_json::from_slice(&structured::bytes(&sound)).unwrap();
    assert!(document.get("stopped").is_none() && faults(&sound).is_empty());
}

#[tokio::test]
async fn a_step_that_its_overrides_stop_is_an_error_to_scripts() {
    let home = tempfile::tempdir().unwrap();
    let (file, fleet) = (home.path().join("app.yaml"), home.path().join("fleet.yaml"));
    std::fs::write(&fleet, FLEET).unwrap();
    for (text, detailed_exitcode, expected) in [
        (FAULTY.to_owned(), false, ExitCode::FAILURE),
        (
            format!("{FAULTY}---\n{SEED}").replacen("name: web}", "name: other}", 1),
            true,
            ExitCode::FAILURE,
        ),
        (SEED.to_owned(), false, ExitCode::SUCCESS),
        (SEED.to_owned(), true, ExitCode::from(2)),
    ] {
        std::fs::write(&file, &text).unwrap();
        let args = Args {
            tenancy: None,
            files: vec![file.clone()],
            inventory: Some(fleet.clone()),
            kubeconfig: None,
            namespace: None,
            out: None,
            at: None,
            detailed_exitcode,
            output: Format::Json,
        };
        assert_eq!(run(args).await.unwrap(), expected, "{text}");
    }
}

#[tokio::test]
async fn stdin_is_read_once() {
    for (files, inventory) in [(["-", "app.yaml"], Some("-")), (["-", "-"], None)] {
        let args = Args {
            tenancy: None,
            files: files.map(Into::into).to_vec(),
            inventory: inventory.map(Into::into),
            kubeconfig: None,
            namespace: None,
            out: None,
            at: None,
            detailed_exitcode: false,
            output: Format::Json,
        };
        let failure = run(args).await.unwrap_err().to_string();
        assert!(
            failure.contains("[E-USAGE]\ncause: - can be read once"),
            "{failure}"
        );
    }
}

/// The rules that get nothing are in the order of their names, not of their places.
#[test]
fn rules_without_a_cluster_in_another_order_are_the_same_bytes() {
    let of = |first: &str, second: &str| {
        let rule =
            |name: &str| format!("{{name: {name}, replicas: \"40%\", clusterSelector: {{region: nowhere}}}}");
        let text = format!(
            "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {{name: w}}\nspec:\n  components: [{{name: w, type: worker, properties: {{image: a, replicas: 10}}}}]\n  workflow: {{steps: [{{name: s, type: deploy, properties: {{placement: [{}, {}]}}}}]}}\n",
            rule(first),
            rule(second)
        );
        String::from_utf8(structured::bytes(&planned(&text, FLEET))).unwrap()
    };
    let one = of("b", "a");
    assert_eq!(one, of("a", "b"));
    let document: Value = serde_json::from_str(&one).unwrap();
    let unplaced = document["decisions"][0]["unplaced"].as_array().unwrap();
    let rules: Vec<&Value> = unplaced.iter().map(|none| &none["rule"]).collect();
    assert_eq!(rules, [&json!("a"), &json!("b"), &Value::Null]);
}

#[test]
fn a_rule_whose_clusters_get_nothing_says_how_many_they_are() {
    let text = "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {name: w}\nspec:\n  components: [{name: w, type: worker, properties: {image: a, replicas: 10}}]\n  workflow: {steps: [{name: s, type: deploy, properties: {placement: [{replicas: \"0%\"}]}}]}\n";
    let fleet: String = (0..3).map(|n| format!("- metadata: {{name: c{n}}}\n")).collect();
    let text = table::draw(&planned(text, &fleet), &SCREEN);
    assert!(text.contains("3 clusters, 0 each"), "{text}");
    assert!(!text.contains("no cluster\n"), "{text}");
}

#[test]
fn steps_are_shown_in_their_order() {
    insta::assert_snapshot!("steps_table", table::draw(&planned(REGIONS, FLEET), &SCREEN));
}

#[test]
fn against_a_hub_the_same_again_changes_nothing() {
    let drawn = drawn(SEED, &delivered(SEED, FLEET), Against::Bundles);
    assert_eq!(drawn.counts(), Counts::default());
    let plan = &drawn.applications[0];
    assert_eq!(plan.risk.level, Level::None);
    assert!(plan.changes.is_empty() && plan.bundles.iter().all(|bundle| bundle.action == Action::Keep));
    let text = table::draw(&drawn, &SCREEN);
    assert!(
        text.contains("no cluster changes") && text.ends_with("Plan: 0 to add, 0 to change, 0 to destroy.\n"),
        "{text}"
    );
}

/// What the Bundles say of who has brought them is nothing that changes on a cluster.
#[test]
fn against_a_hub_a_step_of_another_name_changes_nothing() {
    let renamed = SEED.replace(
        "- type: open-cluster-management",
        "- name: other\n      type: open-cluster-management",
    );
    let drawn = drawn(&renamed, &delivered(SEED, FLEET), Against::Bundles);
    let steps: BTreeSet<&str> = drawn.applications[0]
        .bundles
        .iter()
        .map(|bundle| &*bundle.step)
        .collect();
    assert!(steps.iter().eq(&["other"]), "{steps:?}");
    assert_eq!(drawn.counts(), Counts::default());
    assert_eq!(drawn.applications[0].risk.level, Level::None);
}

/// Applying it again starts nothing: what would move waits for somebody.
#[test]
fn a_run_that_ended_without_success_awaits_its_restart() {
    for (status, awaits) in [("failed", Some("roundhouse restart web")), ("succeeded", None)] {
        let hub = delivered(SEED, FLEET);
        let revision = &drawn(SEED, &hub, Against::Bundles).applications[0].revision;
        let proposed = proposals::of_documents(documents::split("app.yaml", SEED).unwrap(), None).unwrap();
        let mut object = proposed[0].object.clone();
        object["metadata"]["resourceVersion"] = json!("2");
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["uid"] = json!("u1");
        object["status"] = json!({"latestRevision": {"name": "web-v1", "revision": 1, "revisionHash": ""},
            "workflow": {"appRevision": revision, "generation": 1, "status": status, "finished": true,
                "steps": [{"name": "step-0", "type": "open-cluster-management", "phase": status, "firstExecuteTime": "1970-01-01T00:00:00Z"}]}});
        hub.snapshot
            .put_application(serde_json::from_value(object).unwrap());
        let same = drawn(SEED, &hub, Against::Bundles);
        assert_eq!(
            (same.counts(), same.applications[0].awaits()),
            (Counts::default(), None)
        );
        let more = clusters("- metadata: {name: c9, labels: {region: east}}\n");
        hub.snapshot.put_cluster(&more[0]);
        let moves = drawn(SEED, &hub, Against::Bundles);
        assert!(!moves.counts().is_empty());
        assert_eq!(moves.applications[0].awaits().as_deref(), awaits);
        let document: Value = serde_json::from_slice(&structured::bytes(&moves)).unwrap();
        assert_eq!(document["changes"][0]["awaits"], json!(awaits));
        for text in [table::draw(&moves, &SCREEN), tree::draw(&moves, &SCREEN)] {
            let said =
                "its run has ended without success: nothing of this moves before roundhouse restart web\n";
            assert_eq!(text.contains(said), awaits.is_some(), "{text}");
        }
    }
}

#[test]
fn traits_are_planned_as_what_they_make_of_the_workload() {
    let hub = delivered(TRAITS, FLEET);
    let plan = |changed: &str| table::draw(&drawn(changed, &hub, Against::Bundles), &SCREEN);
    let scaled = plan(&TRAITS.replace("replicas: 6", "replicas: 10"));
    insta::assert_snapshot!("traits_scaled_table", scaled);
    assert!(scaled.contains("0 restarted"), "{scaled}");
    let changed = TRAITS
        .replace("team: orders", "team: shop")
        .replace("LEVEL: info", "LEVEL: debug")
        .replace("name: tail", "name: follow");
    insta::assert_snapshot!("traits_changed_table", plan(&changed));
}

const SECRET: &str = "      - apiVersion: v1
        kind: Secret
        metadata:
          name: login
        stringData:
          password: hunter2
";

#[test]
fn against_a_hub_what_differs_is_shown_in_groups() {
    let with_secret = SEED.replace("      objects:\n", &format!("      objects:\n{SECRET}"));
    let hub = delivered(&with_secret, FLEET);
    let changed = with_secret
        .replace("nginx:1.28", "nginx:1.29")
        .replace("hunter2", "correct horse")
        .replace("region: west", "region: nowhere")
        .replace("\"70%\"", "\"80%\"");
    let drawn = drawn(&changed, &hub, Against::Bundles);
    assert_eq!(
        drawn.counts(),
        Counts {
            add: 0,
            change: 3,
            destroy: 2
        }
    );
    let text = table::draw(&drawn, &SCREEN);
    assert!(!text.contains("hunter2") && !text.contains("horse"), "{text}");
    insta::assert_snapshot!("changes_table", without_digests(&text));
    insta::assert_snapshot!("changes_tree", tree::draw(&drawn, &SCREEN));
    let json = String::from_utf8(structured::bytes(&drawn)).unwrap();
    assert!(!json.contains("hunter2") && !json.contains("horse"), "{json}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["summary"], json!({"add": 0, "change": 3, "destroy": 2}));
    assert_eq!(json["comparedWith"], "dispatchedBundles");
    insta::assert_snapshot!(
        "changes_json",
        without_digests(&serde_json::to_string_pretty(&json["changes"]).unwrap())
    );
}

/// Digests follow from the whole spec: one word for all of them.
fn without_digests(text: &str) -> String {
    let hide = |text: String, mark: &&str| {
        let mut pieces = text.split(mark);
        let first = pieces.next().unwrap().to_owned();
        pieces.fold(first, |out, piece| {
            let rest = piece.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            format!("{out}{mark}DIGEST{rest}")
        })
    };
    ["sha256:", "\"sha256\": \""].iter().fold(text.to_owned(), hide)
}

#[test]
fn overrides_make_variants() {
    let seed = SEED.replace(
        "        placement:\n",
        "        overrides:\n        - clusters: [east-1]\n          target: {kind: Deployment, name: web}\n          patch: {spec: {template: {spec: {priorityClassName: low}}}}\n        placement:\n",
    );
    let drawn = drawn(&seed, &delivered(SEED, FLEET), Against::Bundles);
    let changes = &drawn.applications[0].changes;
    assert_eq!(changes.len(), 1);
    let clusters: Vec<_> = changes[0]
        .variants
        .iter()
        .flat_map(|v| &v.clusters)
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(clusters, ["east-1"]);
    let paths: Vec<_> = changes[0].variants[0]
        .fields
        .iter()
        .map(|f| f.path.as_str())
        .collect();
    assert_eq!(paths, ["spec.template.spec.priorityClassName"]);
}

/// Offline and against a hub: what an override policy makes of traits shows on the clusters of its step.
#[test]
fn traits_of_override_policies_are_planned_for_their_clusters() {
    let of = |traits: &str| {
        let steps = ["east", "west"].map(|region| {
            let policies = if region == "east" { "[east, log]" } else { "[west]" };
            format!("    - {{name: {region}, type: deploy, properties: {{policies: {policies}}}}}\n")
        });
        let places = ["east", "west"].map(|region| {
            format!(
                "  - {{name: {region}, type: topology, properties: {{clusterLabelSelector: {{region: {region}}}}}}}\n"
            )
        });
        format!(
            "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {{name: shop}}\nspec:\n  components:\n  - {{name: \
             web, type: webservice, properties: {{image: nginx}}}}\n  policies:\n{}  - {{name: log, type: override, \
             properties: {{components: [{{name: web, traits: [{traits}]}}]}}}}\n  workflow:\n    steps:\n{}",
            places.concat(),
            steps.concat()
        )
    };
    let (first, second) = (
        of(
            "{type: sidecar, properties: {name: log, image: \"fluentd:1\"}}, {type: expose, properties: {port: [80]}}",
        ),
        of("{type: sidecar, properties: {name: log, image: \"fluentd:2\"}}"),
    );
    let offline = planned(&first, FLEET);
    let json: Value = serde_json::from_slice(&structured::bytes(&offline)).unwrap();
    for bundle in json["bundles"].as_array().unwrap() {
        let is_east = bundle["cluster"].as_str().unwrap().starts_with("east");
        let manifests = bundle["manifests"].as_array().unwrap();
        assert_eq!(manifests.len(), if is_east { 2 } else { 1 }, "{bundle}");
        assert_eq!(bundle.to_string().contains("fluentd:1"), is_east);
    }
    let changed = drawn(&second, &delivered(&first, FLEET), Against::Bundles);
    insta::assert_snapshot!("override_traits_table", table::draw(&changed, &SCREEN));
}

#[test]
fn colours_change_nothing_but_colours() {
    let drawn = drawn(
        &SEED.replace("1.28", "1.29"),
        &delivered(SEED, FLEET),
        Against::Bundles,
    );
    let colored = Screen {
        color: true,
        ..SCREEN
    };
    for (plain, colored) in [
        (table::draw(&drawn, &SCREEN), table::draw(&drawn, &colored)),
        (tree::draw(&drawn, &SCREEN), tree::draw(&drawn, &colored)),
    ] {
        assert!(colored.contains('\u{1b}') && !plain.contains('\u{1b}'));
        let mut stripped = String::new();
        let mut pieces = colored.split('\u{1b}');
        stripped.push_str(pieces.next().unwrap());
        pieces.for_each(|piece| stripped.push_str(piece.split_once('m').unwrap().1));
        assert_eq!(stripped, plain);
    }
}

#[test]
fn rules_that_claim_too_much_are_marked() {
    let marks = |count: u32| {
        let app = format!(
            "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {{name: w}}\nspec:\n  \
             components: [{{name: w, type: worker, properties: {{image: a, replicas: 4}}}}]\n  \
             workflow: {{steps: [{{type: deploy, properties: {{placement: [{{replicas: {count}}}]}}}}]}}\n"
        );
        let drawn = planned(&app, "- metadata: {name: a}\n");
        let document = serde_json::to_value(structured::Document(&drawn)).unwrap();
        document["decisions"][0]["overcommitted"].clone()
    };
    assert_eq!((marks(5), marks(4)), (json!(true), Value::Null));
}

#[test]
fn a_missing_placement_is_named() {
    let text = SEED.split("    - type:").next().unwrap().to_owned()
        + "    - {type: deploy, properties: {placementRef: {name: halves}}}\n";
    let proposed = proposals::of_documents(documents::split("app.yaml", &text).unwrap(), None).unwrap();
    let failure = plan_all(&offline(&clusters(FLEET)), &proposed, Timestamp::UNIX_EPOCH).unwrap_err();
    let failure = failure.to_string();
    assert!(
        failure.contains("Application default/web cannot be placed [E-PLACEMENT]"),
        "{failure}"
    );
    assert!(failure.contains("there is no Placement \"halves\""), "{failure}");
    let placement = "---\napiVersion: roundhouse.dev/v1alpha1\nkind: Placement\nmetadata: {name: halves}\nspec: {placement: [{replicas: \"50%\"}]}\n";
    let drawn = planned(&format!("{text}{placement}"), FLEET);
    assert_eq!(drawn.applications[0].decisions[0].spec.placed, 5);
}

#[test]
fn the_moment_of_an_inventory_is_its_last_taint() {
    let text = "- metadata: {name: a}\n  spec: {taints: [{key: k, effect: NoExecute, timeAdded: '2026-01-02T00:00:00Z'}, {key: l, effect: NoExecute, timeAdded: '2026-01-01T00:00:00Z'}]}\n";
    assert_eq!(last_taint(&clusters(text)).to_string(), "2026-01-02T00:00:00Z");
    assert_eq!(last_taint(&clusters(FLEET)), Timestamp::UNIX_EPOCH);
}

/// A taint that is tolerated for a time yet: the screen says what becomes of it, and a plan holds until then.
#[test]
fn a_toleration_that_ends_is_seen_before() {
    let fleet = "- metadata: {name: e1, labels: {region: east}}
  spec: {taints: [{key: flood, effect: NoExecute, timeAdded: \"1970-01-01T00:00:00Z\"}]}
- metadata: {name: e2, labels: {region: east}}
";
    let app = |seconds: &str| {
        format!(
            "apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {{name: web}}
spec:
  components: [{{name: web, type: worker, properties: {{image: a, replicas: 6}}}}]
  workflow:
    steps:
    - type: deploy
      properties:
        placement: [{{clusterSelector: {{region: east}}, replicas: \"100%\"}}]
        tolerations: [{{key: flood, operator: Exists{seconds}}}]
"
        )
    };
    let seen = offline(&clusters(fleet));
    let drawn_of = |seconds| drawn(&app(seconds), &seen, Against::Nothing);
    let ends = drawn_of(", effect: NoExecute, tolerationSeconds: 300");
    let text = table::draw(&ends, &SCREEN);
    let line = "    later     in 300 s, as a taint is not tolerated any more: e1 3 → 0, e2 3 → 6\n";
    assert!(text.contains(line), "{text}");
    let text = tree::draw(&ends, &SCREEN);
    assert!(text.contains(line), "{text}");
    let document: Value = serde_json::from_slice(&structured::bytes(&ends)).unwrap();
    assert_eq!(document["later"][0]["seconds"], 300);
    assert_eq!(
        document["later"][0]["applications"][0]["moved"][0],
        serde_json::json!({"cluster": "e1", "before": 3, "otherwise": 3, "after": 0, "delta": -3})
    );
    let now = Timestamp::UNIX_EPOCH;
    assert_eq!(
        until(&seen, &ends.applications, now),
        Timestamp::from_second(300).ok()
    );
    let seen = offline(&clusters(fleet));
    let stays = drawn(&app(""), &seen, Against::Nothing);
    assert!(stays.later.is_empty());
    let document: Value = serde_json::from_slice(&structured::bytes(&stays)).unwrap();
    assert_eq!(document.get("later"), None);
    assert_eq!(until(&seen, &stays.applications, now), None);
}

/// What a run puts into components without asking anybody is in the plan.
#[test]
fn patches_whose_value_is_written_are_planned() {
    let app = |field: &str| {
        format!(
            "apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {{name: web}}
spec:
  components: [{{name: web, type: worker, properties: {{image: a, replicas: 6}}}}]
  workflow:
    steps:
    - {{type: export, properties: {{type: patch, component: web, value: {{metadata: {{annotations: {{team: shop}}}}}}}}}}
    - type: apply-component
      properties:
        name: web
        placement: [{{replicas: \"100%\"}}]
        patch: {{to: {{field: \"{field}\"}}, value: b}}
"
        )
    };
    let seen = offline(&clusters(FLEET));
    let drawn = drawn(&app("spec.containers[0].image"), &seen, Against::Nothing);
    let document: Value = serde_json::from_slice(&structured::bytes(&drawn)).unwrap();
    let manifest = &document["bundles"][0]["manifests"][0];
    assert_eq!(manifest["metadata"]["annotations"]["team"], "shop", "{document}");
    assert_eq!(
        manifest["spec"]["template"]["spec"]["containers"][0]["image"],
        "b"
    );
}

/// A plan for another moment than now cannot be saved: when it is applied, that moment is not.
#[test]
fn a_plan_that_is_saved_is_made_for_now() {
    use clap::Parser;
    let words = "roundhouse plan -f a.yaml --out p --at 2026-01-01T00:00:00Z";
    let refused = crate::cli::Cli::try_parse_from(words.split(' '))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("'--at <TIME>' cannot be used with '--out <P>'")
            || refused.contains("'--out <P>' cannot be used with '--at <TIME>'"),
        "{refused}"
    );
}

/// What is restarted region by region, and how much of it at a time.
#[test]
fn a_region_that_is_restarted_cluster_by_cluster_is_not_restarted_at_once() {
    let app = |image: &str, more: &str| {
        format!(
            "apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {{name: web}}
spec:
  components: [{{name: web, type: worker, properties: {{image: {image}, replicas: 10}}}}]
  workflow:
    steps: [{{name: all, type: deploy, properties: {{{more}placement: [{{clusterSelector: {{region: east}}, replicas: 100%}}]}}}}]
"
        )
    };
    let hub = delivered(&app("nginx:1", ""), FLEET);
    for (more, level, reason, at_once) in [
        ("", "high", "restarts pods on every cluster of region east (3)", 3),
        (
            "maxParallel: 1, ",
            "medium",
            "restarts pods on every cluster of region east (3), at most 1 at a time",
            1,
        ),
    ] {
        let drawn = drawn(&app("nginx:2", more), &hub, Against::Bundles);
        let risk = &drawn.applications[0].risk;
        assert_eq!(
            (risk.level.word(), &risk.reasons[..]),
            (level, &[reason.to_owned()][..])
        );
        assert_eq!(risk.at_once.as_ref().map(|most| most.clusters), Some(at_once));
    }
}
