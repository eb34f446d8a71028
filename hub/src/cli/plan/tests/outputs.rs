//! Several Applications, definitions, stops and long names: what a reader gets of them, in each format.

use super::{FAULTY, FLEET, SCREEN, SEED, planned};
use crate::{
    cli::plan::{Drawn, faults, not_saved, structured, table, tree},
    plan::{Stop, Stopped},
};
use serde_json::{Value, json};
use std::path::Path;

fn document(drawn: &Drawn) -> Value {
    serde_json::from_slice(&structured::bytes(drawn)).unwrap()
}

/// A second application beside the seed's, with rules whose names differ in length.
const OTHER: &str = "
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: api, namespace: shop}
spec:
  components: [{name: api, type: worker, properties: {image: a, replicas: 12000}}]
  workflow:
    steps:
    - name: everywhere
      type: deploy
      properties:
        placement:
        - {name: e, clusterSelector: {region: east}, replicas: \"50%\"}
        - {name: the-rest-of-it, clusterSelector: {region: west}, replicas: \"50%\"}
";

#[test]
fn several_applications() {
    let drawn = planned(&format!("{SEED}---{OTHER}"), FLEET);
    insta::assert_snapshot!("several_table", table::draw(&drawn, &SCREEN));
    insta::assert_snapshot!("several_wide", table::draw(&drawn, &SCREEN.whole()));
    insta::assert_snapshot!("several_tree", tree::draw(&drawn, &SCREEN));
    let document = document(&drawn);
    for list in ["decisions", "bundles"] {
        let entries = document[list].as_array().unwrap().iter();
        let mut named: Vec<&str> = entries
            .map(|entry| entry["application"].as_str().unwrap())
            .collect();
        named.dedup();
        assert_eq!(named, ["default/web", "shop/api"], "{list}");
    }
    // With one there is no question.
    assert!(
        self::document(&planned(SEED, FLEET))["decisions"][0]
            .get("application")
            .is_none()
    );
}

#[test]
fn yaml_says_what_json_says() {
    for files in [SEED.to_owned(), format!("{SEED}---{OTHER}"), FAULTY.to_owned()] {
        let drawn = planned(&files, FLEET);
        let yaml = String::from_utf8(structured::yaml_bytes(&drawn)).unwrap();
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let read: Value = serde_saphyr::from_str_with_options(&yaml, options).unwrap();
        assert_eq!(read, document(&drawn));
    }
    let mut yaml = String::from_utf8(structured::yaml_bytes(&planned(FAULTY, FLEET))).unwrap();
    yaml.truncate(yaml.trim_end().len());
    insta::assert_snapshot!("stopped_yaml", yaml);
}

/// A kind that only a definition says how to divide.
const POOL: &str = "
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: pool}
spec:
  components:
  - name: pool
    type: k8s-objects
    properties:
      objects:
      - {apiVersion: games.io/v1, kind: Server, metadata: {name: pool}, spec: {pool: {size: 7}}}
  workflow: {steps: [{name: everywhere, type: deploy, properties: {placement: [{replicas: \"100%\"}]}}]}
";
const DEFINITION: &str = "
apiVersion: core.oam.dev/v1beta1
kind: ComponentDefinition
metadata: {name: server}
spec: {workload: {definition: {apiVersion: games.io/v1, kind: Server}}, replicasPath: spec.pool.size}
";

#[test]
fn a_definition_among_the_files_divides_its_kind() {
    let sizes = |files: &str| -> Vec<u64> {
        let document = document(&planned(files, FLEET));
        let bundles = document["bundles"].as_array().unwrap().iter();
        let size = |bundle: &Value| bundle["manifests"][0]["spec"]["pool"]["size"].as_u64().unwrap();
        bundles.map(size).collect()
    };
    assert_eq!(sizes(POOL), [7; 5], "nobody says where its count is");
    assert_eq!(sizes(&format!("{POOL}---{DEFINITION}")).iter().sum::<u64>(), 7);
    let drawn = planned(&format!("{POOL}---{DEFINITION}"), FLEET);
    insta::assert_snapshot!("definition_table", table::draw(&drawn, &SCREEN));
}

#[test]
fn every_stop_is_said_in_every_format() {
    let mut drawn = planned(FAULTY, FLEET);
    drawn.applications[0].refused = vec![
        Stop {
            of: Stopped::Step("go".to_owned()),
            why: "its Decision is another's: rename the step".to_owned(),
        },
        Stop {
            of: Stopped::Cluster("c1".to_owned()),
            why: "its manifests are too large: split them".to_owned(),
        },
    ];
    let stopped = document(&drawn)["stopped"].take();
    let stopped = stopped.as_array().unwrap();
    assert_eq!(stopped[0]["step"], "everywhere");
    assert_eq!(
        stopped[1..],
        [
            json!({"application": "default/web", "step": "go", "why": "its Decision is another's: rename the step"}),
            json!({"application": "default/web", "cluster": "c1", "why": "its manifests are too large: split them"}),
        ]
    );
    let said: Vec<String> = faults(&drawn).iter().map(ToString::to_string).collect();
    assert_eq!(
        said[1..],
        [
            "error: default/web: step go is stopped [E-STOPPED]\n\
             cause: its Decision is another's: rename the step\n\
             try:   what the cause names: until then nothing of the step is carried out",
            "error: default/web: cluster c1 is stopped [E-STOPPED]\n\
             cause: its manifests are too large: split them\n\
             try:   what the cause names: until then the cluster keeps what it has",
        ]
    );
    for text in [table::draw(&drawn, &SCREEN), tree::draw(&drawn, &SCREEN)] {
        for part in [
            "step go: its Decision is another's: rename the step",
            "cluster c1: its manifests are too large: split them",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }
}

#[test]
fn a_name_that_no_cluster_has_stops_nothing() {
    let text = SEED.replace(
        "          replicas: \"70%\"",
        "          replicas: \"70%\"\n          weights: {nowhere: 3}",
    );
    let drawn = planned(&text, FLEET);
    assert!(faults(&drawn).is_empty() && document(&drawn).get("stopped").is_none());
    let table = table::draw(&drawn, &SCREEN);
    assert!(
        table.contains("! rule rule-0 has weights for clusters that it does not match: nowhere"),
        "{table}"
    );
}

#[test]
fn a_plan_that_is_stopped_is_not_saved() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("p.plan");
    let shown = file.display();
    assert_eq!(
        not_saved(&file, 1).to_string(),
        format!(
            "error: the plan was not saved to {shown} [E-STOPPED]\n\
             cause: it would not be carried out in full: 1 error above\n\
             try:   mending what is named there; roundhouse plan without --out, to look at the rest"
        )
    );
    std::fs::write(&file, "earlier").unwrap();
    let again = not_saved(Path::new(&file), 2).to_string();
    assert!(
        again.contains("; what was there before is as it was [E-STOPPED]")
            && again.contains("2 errors above"),
        "{again}"
    );
}

#[test]
fn numbers_are_read_in_groups_everywhere() {
    let text = OTHER.replace("12000", "24000000");
    let drawn = planned(&text, FLEET);
    for text in [
        table::draw(&drawn, &SCREEN),
        table::draw(&drawn, &SCREEN.whole()),
        tree::draw(&drawn, &SCREEN),
    ] {
        let long = |word: &&str| word.bytes().filter(u8::is_ascii_digit).count() > 4 && !word.contains(',');
        let ungrouped: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || "();:/".contains(c))
            .filter(long)
            .collect();
        assert_eq!(ungrouped, [""; 0], "{text}");
    }
}
