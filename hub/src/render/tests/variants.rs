//! Override policies: what the clusters of a step get instead, and what is recorded of it.

use super::labels;
use crate::render::{part_variants, render, variants, with_variants, workloads};
use roundhouse_api::application::validate;
use serde_json::{Value, json};

/// A webservice with the traits `scaler` and `env`, and this override of it in the first of two steps.
fn rendered(change: &Value) -> (super::Rendered, crate::render::Variants) {
    let at = |name: &str, cluster: &str| json!({"name": name, "type": "topology", "properties": {"clusters": [cluster]}});
    let step = |name: &str, policies: &[&str]| json!({"name": name, "type": "deploy", "properties": {"policies": policies}});
    let spec = json!({
        "components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}, "traits": [
            {"type": "scaler", "properties": {"replicas": 4}},
            {"type": "env", "properties": {"env": {"LEVEL": "info"}}}]}],
        "policies": [at("one", "c1"), at("two", "c2"),
            {"name": "o", "type": "override", "properties": {"components": [change]}}],
        "workflow": {"steps": [step("first", &["one", "o"]), step("second", &["two"])]}
    });
    let application = validate(&spec).unwrap_or_else(|violations| panic!("{violations:#?}"));
    (
        render("shop", "app", &application),
        variants("shop", "app", &application),
    )
}

#[test]
fn traits_of_an_override_are_merged_into_the_workload_of_its_step_only() {
    let traits = json!([
        {"type": "env", "properties": {"env": {"MODE": "debug"}}},
        {"type": "sidecar", "properties": {"name": "log", "image": "fluentd"}},
        {"type": "expose", "properties": {"port": [80]}}]);
    let (base, variants) = rendered(&json!({"name": "web", "traits": traits}));
    assert_eq!(base.components[0].manifests.len(), 1);
    assert_eq!(variants.keys().collect::<Vec<_>>(), ["first"]);
    let changed = &variants["first"];
    let [deployment, service] = changed.components[0].manifests.as_slice() else {
        panic!("{changed:?}")
    };
    let mut expected = base.components[0].manifests[0].clone();
    let containers = &mut expected["spec"]["template"]["spec"]["containers"];
    containers[0]["env"] = json!([{"name": "LEVEL", "value": "info"}, {"name": "MODE", "value": "debug"}]);
    containers
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "log", "image": "fluentd"}));
    assert_eq!(deployment, &expected);
    let mut of_trait = labels("TRAIT", "web", "webservice");
    of_trait["trait.oam.dev/type"] = json!("expose");
    assert_eq!(service["metadata"]["labels"], of_trait);
    assert_eq!(
        workloads(changed),
        workloads(&base),
        "how many there are is divided once"
    );
    let recorded = with_variants(&base, &variants);
    assert_eq!(part_variants(recorded), (base, variants));
}

#[test]
fn a_trait_that_is_taken_out_leaves_what_was_there_before() {
    let (base, variants) = rendered(&json!({"traits": [{"type": "env", "disable": true}]}));
    let container = |rendered: &super::Rendered| {
        rendered.components[0].manifests[0]["spec"]["template"]["spec"]["containers"][0].clone()
    };
    let env = json!([{"name": "LEVEL", "value": "info"}]);
    assert_eq!(
        container(&base),
        json!({"name": "web", "image": "nginx", "env": env})
    );
    assert_eq!(
        container(&variants["first"]),
        json!({"name": "web", "image": "nginx"})
    );
    assert_eq!(
        variants["first"].components[0].manifests[0]["spec"]["replicas"],
        4
    );
}
