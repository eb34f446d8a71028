use super::*;
use crate::render::JobShare;
use serde_json::json;

fn web() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app.oam.dev/name": "app"}},
        "spec": {"replicas": 3, "paused": true, "template": {"spec": {"containers": [{"name": "web", "image": "nginx:1"}]}}}})
}

fn decided(change: &Value) -> DecidedOverride {
    let mut whole =
        json!({"index": 2, "clusters": ["c1", "c2"], "target": {"kind": "Deployment", "name": "web"}});
    whole
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn applied(change: &Value) -> Result<Value, String> {
    let decided = decided(change);
    let labels = BTreeMap::from([("db".to_owned(), "one".to_owned())]);
    let mut filler = Filler::default();
    let change = filler.fill("deploy", &decided, "c1", Some(&labels));
    let mut manifest = web();
    apply(&mut manifest, &[change], &ReplicaPaths::default()).map_err(|fault| fault.to_string())?;
    Ok(manifest)
}

#[test]
fn a_merge_patch_changes_what_it_names() {
    let patch = json!({"spec": {"paused": false, "minReadySeconds": 0, "template": {"metadata": {"annotations": {"at": "${cluster.name}-${cluster.labels.db}-$${cluster.x}"}}}}});
    let manifest = applied(&json!({"patch": patch})).unwrap();
    assert_eq!(
        manifest["spec"]["paused"], false,
        "an explicit zero value does override"
    );
    assert_eq!(manifest["spec"]["minReadySeconds"], 0);
    assert_eq!(
        manifest["spec"]["template"]["metadata"]["annotations"]["at"],
        "c1-one-${cluster.x}"
    );
    assert_eq!(
        manifest["spec"]["template"]["spec"],
        web()["spec"]["template"]["spec"]
    );
    let removed = applied(&json!({"patch": {"spec": {"paused": null}}})).unwrap();
    assert_eq!(removed["spec"].get("paused"), None);
}

#[test]
fn a_json_patch_is_applied_operation_by_operation() {
    let manifest = applied(&json!({"jsonPatch": [
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.${cluster.labels.db}/nginx:1"},
        {"op": "add", "path": "/spec/template/spec/containers/0/args", "value": []},
        {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "-v"}]}))
    .unwrap();
    assert_eq!(
        manifest["spec"]["template"]["spec"]["containers"],
        json!([{"name": "web", "image": "registry.one/nginx:1", "args": ["-v"]}])
    );
}

#[test]
fn what_cannot_be_applied_names_override_object_and_path() {
    let path = "/spec/template/spec/containers/0/env/0/value";
    for (change, expected) in [
        (
            json!({"jsonPatch": [{"op": "remove", "path": "/spec/paused"}, {"op": "replace", "path": path, "value": "x"}]}),
            "overrides[2] of Deployment shop/web at /spec/template/spec/containers/0/env/0/value: operation 1 does not apply: \
             the object has no such field: use add to make it, or correct the path",
        ),
        (
            json!({"jsonPatch": [{"op": "remove", "path": "/spec/strategy"}]}),
            "overrides[2] of Deployment shop/web at /spec/strategy: operation 0 does not apply: path is invalid",
        ),
        (
            json!({"jsonPatch": [{"op": "test", "path": "/spec/paused", "value": false}]}),
            "overrides[2] of Deployment shop/web at /spec/paused: operation 0 does not apply: value did not match",
        ),
        (
            json!({"patch": {"kind": "StatefulSet"}}),
            "overrides[2] of Deployment shop/web at /kind: an override may not change it: it would be another object",
        ),
        (
            json!({"jsonPatch": [{"op": "replace", "path": "/metadata", "value": {"name": "web"}}]}),
            "overrides[2] of Deployment shop/web at /metadata/namespace: an override may not change it: it would be another object",
        ),
        (
            json!({"patch": {"spec": {"replicas": 0}}}),
            "overrides[2] of Deployment shop/web at /spec/replicas: an override may not change what placement divides: say in \
             a rule how many a cluster gets",
        ),
        (
            json!({"patch": {"metadata": {"labels": {"app.oam.dev/name": "other"}}}}),
            "overrides[2] of Deployment shop/web at /metadata/labels: an override may not change the labels by which the hub \
             knows its objects (app.oam.dev/, workload.oam.dev/, trait.oam.dev/): leave them out",
        ),
    ] {
        assert_eq!(applied(&change), Err(expected.to_owned()), "{change}");
    }
}

#[test]
fn the_count_of_a_defined_kind_is_protected_too() {
    let definition = json!({"workload": {"definition": {"apiVersion": "games.io/v1", "kind": "Deployment"}}, "replicasPath": "spec.size"});
    let key = ("shop".to_owned(), "server".to_owned());
    let paths = ReplicaPaths::of("shop", [(&key, &serde_json::from_value(definition).unwrap())]);
    let mut manifest = web();
    manifest["apiVersion"] = json!("games.io/v1");
    let decided = decided(&json!({"patch": {"spec": {"size": 4, "replicas": 9}}}));
    let change = Filler::default().fill("deploy", &decided, "c1", None);
    let fault = apply(&mut manifest, &[change], &paths).unwrap_err();
    assert_eq!(fault.path.as_deref(), Some("/spec/size"));
}

#[test]
fn another_object_is_left_alone_and_a_target_that_is_none_is_named() {
    let decided = decided(&json!({"patch": {"data": {"a": "b"}}}));
    let change = Filler::default().fill("deploy", &decided, "c1", None);
    let mut other = web();
    other["metadata"]["name"] = json!("api");
    let before = other.clone();
    apply(&mut other, &[change], &ReplicaPaths::default()).unwrap();
    assert_eq!(other, before);

    let narrowed = |api_version: &str, namespace: &str| OverrideTarget {
        kind: "Deployment".to_owned(),
        name: "web".to_owned(),
        api_version: Some(api_version.to_owned()),
        namespace: Some(namespace.to_owned()),
    };
    assert!(names(&narrowed("apps/v1", "shop"), &web()));
    assert!(!names(&narrowed("apps/v1", "other"), &web()));
    assert!(!names(&narrowed("games.io/v1", "shop"), &web()));

    let overrides: Vec<Override> = serde_json::from_value(json!([
        {"target": {"kind": "Deployment", "name": "web"}, "patch": {"a": 1}},
        {"target": {"kind": "Deployment", "name": "wbe"}, "patch": {"a": 1}}]))
    .unwrap();
    let errors = without_target(&overrides, [&web()].into_iter());
    let lines: Vec<String> = errors.iter().map(crate::placement::error_line).collect();
    assert_eq!(
        lines,
        [
            "overrides[1] of Deployment wbe: the application has no such object: correct target.kind and target.name, or remove \
          the override"
        ]
    );
}

#[test]
fn clusters_with_equal_values_share_one_override() {
    let plain = decided(&json!({"patch": {"a": "x"}}));
    let named = decided(&json!({"patch": {"a": "${cluster.labels.db}"}}));
    let labels = |value: &str| BTreeMap::from([("db".to_owned(), value.to_owned())]);
    let (one, same, two) = (labels("one"), labels("one"), labels("two"));
    let mut filler = Filler::default();
    assert!(Arc::ptr_eq(
        &filler.fill("s", &plain, "c1", None),
        &filler.fill("s", &plain, "c2", Some(&one))
    ));
    let mut filler = Filler::default();
    let first = filler.fill("s", &named, "c1", Some(&one));
    assert!(Arc::ptr_eq(&first, &filler.fill("s", &named, "c2", Some(&same))));
    assert_ne!(first.hash, filler.fill("s", &named, "c3", Some(&two)).hash);
}

/// The desired hash, which the agent takes, and the hash of the Bundle cover the manifest as divided and overridden.
#[test]
fn the_bundles_hash_covers_overrides() {
    use crate::dispatch::content::{Content, Divider};
    use crate::render::{Rendered, RenderedComponent};
    let content = Content {
        variants: BTreeMap::new(),
        namespace: "shop".to_owned(),
        application: "app".to_owned(),
        revision: "app-v1".to_owned(),
        generation: 1,
        components: BTreeMap::new(),
        rendered: Rendered {
            components: vec![RenderedComponent {
                name: "web".to_owned(),
                manifests: vec![web()],
            }],
            ..Rendered::default()
        },
    };
    let key = render::workload_ref(&web()).unwrap();
    let shares = BTreeMap::from([(
        key,
        JobShare {
            before: 0,
            replicas: 2,
            of_total: 3,
        },
    )]);
    let one = decided(
        &json!({"jsonPatch": [{"op": "test", "path": "/spec/replicas", "value": 2}, {"op": "add", "path": "/spec/paused", "value": false}]}),
    );
    let wrong = decided(&json!({"jsonPatch": [{"op": "remove", "path": "/spec/strategy"}]}));
    let mut filler = Filler::default();
    let (one, mut divider) = (filler.fill("a", &one, "c1", None), Divider::new(&content));
    let plain = divider.divide("step", &shares, &[]).unwrap();
    let changed = divider.divide("step", &shares, &[one]).unwrap();
    assert_ne!(plain.parts[0].hash, changed.parts[0].hash);
    let manifest = &changed.parts[0].manifests[0];
    assert_eq!(
        (&manifest["spec"]["replicas"], &manifest["spec"]["paused"]),
        (&json!(2), &json!(false))
    );
    assert_eq!(
        hash::of_manifests(&changed.parts[0].manifests),
        changed.parts[0].hash
    );
    let refusal = divider
        .divide("step", &shares, &[filler.fill("b", &wrong, "c1", None)])
        .unwrap_err();
    assert!(
        refusal
            .to_string()
            .starts_with("overrides[2] of Deployment shop/web at /spec/strategy: "),
        "{refusal}"
    );
}
