//! Objects that steps have in clusters, in plans.

use super::*;

const FLEET: &str = "- metadata: {name: e1, labels: {region: east}}\n- metadata: {name: e2, labels: {region: east}}\n\
    - metadata: {name: w1, labels: {region: west}}\n";

/// The flags of every cluster in the east, with more steps behind that.
fn shop(flags: &str, steps: &[&str]) -> String {
    let mut text = format!(
        "apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {{name: shop, namespace: default}}
spec:
  components:
  - {{name: shop, type: webservice, properties: {{image: nginx:1, replicas: 4}}}}
  workflow:
    steps:
    - {{name: look, type: read-object, outputs: [{{name: zone, valueFrom: output.data.zone}}],
        properties: {{clusters: [e1], apiVersion: v1, kind: ConfigMap, name: site}}}}
    - {flags}
"
    );
    for step in steps {
        text.push_str(&format!("    - {step}\n"));
    }
    text.push_str(
        "    - {name: all, type: deploy, properties: {placement: [{clusterSelector: {region: east}}]}}\n",
    );
    text
}

fn flags(theme: &str, more: &str) -> String {
    format!(
        "{{name: flags, type: apply-object, {more}properties: {{clusters: {{region: east}}, value: {{apiVersion: v1, \
         kind: ConfigMap, metadata: {{name: flags}}, data: {{theme: {theme}}}}}}}}}"
    )
}

const TAKEN: &str = "{name: away, type: delete-object, properties: {clusters: [e1], apiVersion: v1, kind: ConfigMap, name: flags}}";
const ZONE: &str = "inputs: [{from: zone, parameterKey: value.data.zone}], ";

fn bundles(drawn: &Drawn) -> Vec<String> {
    let bundles = drawn.applications[0]
        .bundles
        .iter()
        .filter(|bundle| bundle.is_of_step());
    let line = |bundle: &crate::plan::BundlePlan| {
        format!("{} {} by {:?}", bundle.action.word(), bundle.cluster, bundle.step)
    };
    bundles.map(line).collect()
}

#[test]
fn they_are_listed_with_what_is_known_of_them_and_when_the_rest_will_be() {
    let files = shop(&flags("dark", ZONE), &[TAKEN]);
    let drawn = planned(&files, FLEET);
    assert_eq!(
        bundles(&drawn),
        ["add e2 by \"flags\""],
        "it is taken away from the other one"
    );
    insta::assert_snapshot!("objects_table", table::draw(&drawn, &SCREEN));
    insta::assert_snapshot!("objects_tree", tree::draw(&drawn, &SCREEN));
    let json: Value = serde_json::from_slice(&structured::bytes(&drawn)).unwrap();
    assert_eq!(
        json["objects"],
        json!([
            {"step": "look", "clusters": ["e1"]},
            {"step": "flags", "clusters": ["e2"], "untilTakenAway": ["e1"],
                "unknown": ["data.zone: known when step look is over"]},
            {"step": "away", "clusters": ["e1"]},
        ])
    );
    let own = json["bundles"]
        .as_array()
        .unwrap()
        .iter()
        .find(|bundle| bundle["step"] == "flags");
    assert_eq!(
        own.unwrap()["manifests"][0]["data"],
        json!({"theme": "dark", "zone": "(known when step look is over)"})
    );
}

#[test]
fn a_name_that_is_not_known_is_no_object() {
    let input = "inputs: [{from: zone, parameterKey: value.metadata.name}], ";
    let drawn = planned(&shop(&flags("dark", input), &[]), FLEET);
    assert_eq!(bundles(&drawn), [""; 0]);
    let object = &drawn.applications[0].objects[1];
    assert_eq!(object.clusters, ["e1", "e2"]);
    assert_eq!(object.unknown, ["metadata.name: known when step look is over"]);
}

#[test]
fn they_are_compared_with_what_was_dispatched() {
    let seen = delivered(&shop(&flags("dark", ""), &[]), FLEET);
    let of = |files: &str| drawn(files, &seen, Against::Bundles);
    assert_eq!(
        bundles(&of(&shop(&flags("dark", ""), &[]))),
        ["keep e1 by \"flags\"", "keep e2 by \"flags\""]
    );
    let changed = of(&shop(&flags("light", ""), &[TAKEN]));
    assert_eq!(
        bundles(&changed),
        ["destroy e1 by \"away\"", "change e2 by \"flags\""]
    );
    let plan = &changed.applications[0];
    assert!(
        plan.risk.losing.is_empty() && plan.held.is_none(),
        "{:?} {:?}",
        plan.risk,
        plan.held
    );
    insta::assert_snapshot!("objects_changed_table", table::draw(&changed, &SCREEN));
    // One that runs only if something holds takes nothing away for sure.
    let perhaps = TAKEN.replace("properties", "if: status.flags.failed, properties");
    assert_eq!(
        bundles(&of(&shop(&flags("dark", ""), &[&perhaps]))),
        ["keep e1 by \"flags\"", "keep e2 by \"flags\""]
    );
}

#[test]
fn without_their_step_they_go_within_the_delete_budget() {
    let seen = delivered(&shop(&flags("dark", ""), &[]), FLEET);
    let other = flags("dark", "")
        .replace("name: flags", "name: other")
        .replace("region: east", "region: west");
    let drawn = drawn(&shop(&other, &[]), &seen, Against::Bundles);
    assert_eq!(
        bundles(&drawn),
        ["destroy e1 by \"\"", "destroy e2 by \"\"", "add w1 by \"other\""]
    );
    let plan = &drawn.applications[0];
    assert!(plan.risk.losing.is_empty(), "they keep the application");
    let held = plan.held.as_deref().unwrap_or_default();
    assert!(
        held.contains("2 clusters would lose default/shop: e1, e2"),
        "{held}"
    );
}

#[test]
fn one_that_is_too_big_stops_its_step() {
    let big = flags(&"x".repeat(1 << 20), "");
    let drawn = planned(&shop(&big, &[]), FLEET);
    let faults = faults(&drawn);
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].to_string().contains("step flags is stopped"),
        "{}",
        faults[0]
    );
}
