use serde_json::{Value, json};

use super::*;
use crate::schema;

fn path(text: &str) -> FieldPath {
    FieldPath::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn pod() -> Value {
    json!({
        "metadata": {"annotations": {"a.b/c": "1", "x~y": "2"}, "finalizers": ["f.io/one", "f.io/two"]},
        "spec": {"replicas": 3, "containers": [
            {"name": "main", "image": "i", "port": 80, "on": true, "env": [{"name": "A", "value": "1"}, {"name": "B"}]},
            {"name": "log", "image": "l", "port": 90}
        ]}
    })
}

#[test]
fn every_spelling_selects() {
    let document = pod();
    for (spelled, expected) in [
        (".spec.replicas", &["/spec/replicas"][..]),
        ("$.spec.replicas", &["/spec/replicas"]),
        ("{.spec.replicas}", &["/spec/replicas"]),
        ("{ $.spec.replicas }", &["/spec/replicas"]),
        ("$['spec'][\"replicas\"]", &["/spec/replicas"]),
        ("/spec/replicas", &["/spec/replicas"]),
        ("spec.replicas", &["/spec/replicas"]),
        (
            ".metadata.annotations['a.b/c']",
            &["/metadata/annotations/a.b~1c"],
        ),
        (".metadata.annotations.a\\.b/c", &["/metadata/annotations/a.b~1c"]),
        ("metadata.annotations[a.b/c]", &["/metadata/annotations/a.b~1c"]),
        ("/metadata/annotations/a.b~1c", &["/metadata/annotations/a.b~1c"]),
        ("/metadata/annotations/x~0y", &["/metadata/annotations/x~0y"]),
        (
            ".metadata.annotations.*",
            &["/metadata/annotations/a.b~1c", "/metadata/annotations/x~0y"],
        ),
        (
            ".metadata.finalizers[?(@==\"f.io/two\")]",
            &["/metadata/finalizers/1"],
        ),
        (".spec.containers[0].image", &["/spec/containers/0/image"]),
        (".spec.containers[-1].image", &["/spec/containers/1/image"]),
        (".spec.containers[-3].image", &[]),
        ("/spec/containers/1/image", &["/spec/containers/1/image"]),
        (
            ".spec.containers[*].image",
            &["/spec/containers/0/image", "/spec/containers/1/image"],
        ),
        (
            ".spec.containers[?(@.name==\"main\")].env[?(@.name=='A')].value",
            &["/spec/containers/0/env/0/value"],
        ),
        ("spec.containers[name=log].image", &["/spec/containers/1/image"]),
        ("spec.containers[port=80].image", &["/spec/containers/0/image"]),
        (
            ".spec.containers[?(@.name!=\"main\")].port",
            &["/spec/containers/1/port"],
        ),
        (
            ".spec.containers[?( @.port < 90 )].name",
            &["/spec/containers/0/name"],
        ),
        (
            ".spec.containers[?(@.port<=90)].name",
            &["/spec/containers/0/name", "/spec/containers/1/name"],
        ),
        (
            ".spec.containers[?(@.port>80.5)].name",
            &["/spec/containers/1/name"],
        ),
        (
            ".spec.containers[?(@.port>=90)].name",
            &["/spec/containers/1/name"],
        ),
        (
            ".spec.containers[?(@.on==true)].name",
            &["/spec/containers/0/name"],
        ),
        // One that lacks the field passes no comparison.
        (
            ".spec.containers[?(@.on!=false)].name",
            &["/spec/containers/0/name"],
        ),
        (".spec.containers[?(@.env)].name", &["/spec/containers/0/name"]),
        (".spec.containers[?(@['env'])].name", &["/spec/containers/0/name"]),
        (".spec.absent.deeper", &[]),
        (".spec.replicas[0]", &[]),
        ("*", &[""]),
        ("{*}", &[""]),
        ("$", &[""]),
        (".", &[""]),
        ("{.}", &[""]),
    ] {
        let found: Vec<String> = path(spelled)
            .select(&document)
            .into_iter()
            .map(|(at, _)| at)
            .collect();
        assert_eq!(found, expected, "{spelled}");
        for at in &found {
            assert!(document.pointer(at).is_some(), "{spelled}: {at}");
        }
        assert_eq!(path(spelled).to_string(), spelled);
    }
    assert!(path("*").is_whole() && !path(".*").is_whole());
}

#[test]
fn errors_name_the_path_the_position_and_what_is_expected() {
    for (spelled, position, expected) in [
        ("", 1, "`*` is the whole object"),
        ("{}", 2, "`*` is the whole object"),
        ("spec..replicas", 6, "recursive descent"),
        ("$..replicas", 3, "recursive descent"),
        ("spec.", 6, "a field name"),
        (".spec replicas", 7, "`.` or `[`"),
        (".spec[", 7, "a number"),
        (".spec[]", 7, "a number"),
        (".spec[0", 8, "`]`"),
        (".spec[0:2]", 7, "slices"),
        (".spec[0,1]", 8, "unions"),
        (".spec['a','b']", 10, "unions"),
        (".spec['a", 9, "closing '"),
        (".spec[=x]", 7, "[name=main]"),
        (".a[?@.name]", 5, "`(`"),
        (".a[?(name)]", 6, "`@`"),
        (".a[?(@.name=\"x\")]", 12, "=="),
        (".a[?(@.name=~\"x\")]", 12, "=="),
        (".a[?(@.name==x)]", 14, "a quoted text"),
        (".a[?(@.x==1 && @.y==2)]", 13, "one comparison"),
        (".a[?(@[0])]", 8, "quoted field name"),
        ("{.a}{.b}", 5, "one pair of braces"),
        ("{.a", 4, "`}`"),
        (".a}", 3, "`.` or `[`"),
        (".a(b)", 3, "no part of a field name"),
        ("a*", 2, "no part of a field name"),
        ("/a~2b", 4, "~0 stands for ~"),
        ("/a//b", 4, "a field name"),
        ("/a/-", 5, "`-`"),
        ("/", 2, "a field name"),
        (".a\\", 4, "backslash"),
        ("üü..x", 4, "recursive descent"),
    ] {
        let error = FieldPath::parse(spelled).expect_err(spelled);
        assert_eq!(
            (error.path.as_str(), error.position),
            (spelled, position),
            "{error}"
        );
        assert!(error.expected.contains(expected), "{spelled}: {error}");
        assert!(
            error.to_string().contains(&format!("character {position}")),
            "{error}"
        );
    }
    assert!(
        FieldPath::parse(&".a".repeat(200)).is_err(),
        "deeper than any object"
    );
}

#[test]
fn what_is_covered() {
    let document = pod();
    for (spelled, location, expected) in [
        (".spec", "/spec/replicas", true),
        (".spec.replicas", "/spec/replicas", true),
        (".spec.replicas", "/spec", false),
        (".spec.rep", "/spec/replicas", false),
        ("*", "/spec/replicas", true),
        (
            "spec.containers[name=main]",
            "/spec/containers/0/env/0/value",
            true,
        ),
        ("spec.containers[name=main]", "/spec/containers/1", false),
        ("spec.containers[0]", "/spec/containers/01", false),
    ] {
        assert_eq!(
            path(spelled).covers(&document, location),
            expected,
            "{spelled} {location}"
        );
    }
}

/// A Deployment with these containers.
fn deployment(replicas: Value, containers: &Value) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"containers": containers}}}});
    if !replicas.is_null() {
        object["spec"]["replicas"] = replicas;
    }
    object
}

fn laid(spelled: &str, desired: &Value, live: &Value) -> (Value, Kept) {
    let text = |field: &str| desired[field].as_str().unwrap_or_default();
    let mut laid = desired.clone();
    let kept = keep(
        &path(spelled),
        &mut laid,
        live,
        schema::lookup(text("apiVersion"), text("kind")),
    );
    (laid, kept)
}

#[test]
fn the_live_value_is_kept_and_an_absent_one_is_not() {
    let web = |replicas: Value| deployment(replicas, &json!([{"name": "main"}]));
    let (set, unset) = (web(json!(2)), web(Value::Null));
    for (desired, live, expected, overlaid, added) in [
        (&set, &web(json!(7)), &web(json!(7)), 1, 0),
        (&set, &unset, &set, 0, 0),
        (&unset, &web(json!(7)), &web(json!(7)), 0, 1),
        (&unset, &unset, &unset, 0, 0),
    ] {
        let (laid, kept) = laid(".spec.replicas", desired, live);
        assert_eq!(
            (&laid, kept.overlaid.len(), kept.added.len()),
            (expected, overlaid, added),
            "{live}"
        );
        assert_eq!(kept.is_empty(), overlaid + added == 0);
    }
}

#[test]
fn a_sidecar_in_front_does_not_shift_what_is_meant() {
    let ours = json!([{"name": "main", "image": "i:2"}, {"name": "log", "image": "l:2"}]);
    let desired = deployment(json!(1), &ours);
    let theirs = json!([{"name": "sidecar", "image": "s"}, {"name": "log", "image": "l:1"}, {"name": "main", "image": "i:1"}]);
    let live = deployment(json!(1), &theirs);
    let with =
        |main: &str, log: &str| json!([{"name": "main", "image": main}, {"name": "log", "image": log}]);
    let base = "spec.template.spec.containers";
    for (step, expected) in [
        ("[0].image", with("i:1", "l:2")),
        ("[-1].image", with("i:2", "l:1")),
        ("[name=main].image", with("i:1", "l:2")),
        ("[?(@.name==\"main\")]", with("i:1", "l:2")),
        ("[?(@.image==\"l:1\")].image", with("i:2", "l:1")),
        ("[*].image", with("i:1", "l:1")),
        ("[name=sidecar].image", ours.clone()),
        ("[2].image", ours),
    ] {
        let (laid, _) = laid(&format!("{base}{step}"), &desired, &live);
        assert_eq!(laid["spec"]["template"]["spec"]["containers"], expected, "{step}");
    }
    // The sidecar itself may be what is kept.
    for step in ["[name=sidecar]", "[*]"] {
        let (laid, kept) = laid(&format!("{base}{step}"), &desired, &live);
        let containers = laid["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 3, "{step}");
        assert_eq!(kept.added, ["/spec/template/spec/containers/2"], "{step}");
    }
}

#[test]
fn lists_pair_by_merge_key_by_name_by_value_or_by_place() {
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": ports}});
    let ports = |tcp: Value, udp: Value| {
        service(
            json!([{"port": 53, "protocol": "TCP", "nodePort": tcp}, {"port": 53, "protocol": "UDP", "nodePort": udp}]),
        )
    };
    // Two of one number pair in their order.
    let (laid_ports, _) = laid(
        "spec.ports[*].nodePort",
        &ports(json!(1), json!(2)),
        &ports(json!(31), json!(32)),
    );
    assert_eq!(laid_ports, ports(json!(31), json!(32)));
    let custom = |items: Value| json!({"apiVersion": "x.io/v1", "kind": "Thing", "items": items});
    for (desired, live, spelled, expected) in [
        // Below a custom kind names tell elements apart.
        (
            json!([{"name": "a", "v": 1}]),
            json!([{"name": "b", "v": 8}, {"name": "a", "v": 9}]),
            "items[0].v",
            json!([{"name": "a", "v": 9}]),
        ),
        // Names that are not unique do not.
        (
            json!([{"name": "a", "v": 1}]),
            json!([{"name": "a", "v": 8}, {"name": "a", "v": 9}]),
            "items[0].v",
            json!([{"name": "a", "v": 8}]),
        ),
        (json!([1, 2]), json!([8, 9, 10]), "items[1]", json!([1, 9])),
        (json!([1]), json!([8, 9]), "items[1]", json!([1, 9])),
        (json!([1, 2]), json!([8]), "/items/1", json!([1, 2])),
    ] {
        let (laid, _) = laid(spelled, &custom(desired), &custom(live.clone()));
        assert_eq!(laid["items"], expected, "{spelled} {live}");
    }
    let finalizers =
        |names: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": names}});
    let (laid, _) = laid(
        "metadata.finalizers[*]",
        &finalizers(json!(["a"])),
        &finalizers(json!(["b", "a"])),
    );
    assert_eq!(laid, finalizers(json!(["a", "b"])));
}

#[test]
fn objects_on_the_way_are_made_and_elements_are_not() {
    let desired = deployment(json!(1), &json!([{"name": "main"}]));
    let mut live = deployment(
        json!(1),
        &json!([{"name": "main", "env": [{"name": "A", "value": "1"}]}]),
    );
    live["metadata"]["annotations"] = json!({"kept": "1", "other": "2"});
    let (got, kept) = laid("/metadata/annotations/kept", &desired, &live);
    assert_eq!(
        got["metadata"],
        json!({"name": "a", "annotations": {"kept": "1"}})
    );
    assert_eq!(kept.added, ["/metadata/annotations/kept"]);
    assert_eq!(laid("/metadata/annotations/absent", &desired, &live).0, desired);
    assert_eq!(
        laid(".spec.template.spec.containers[*].env[0].value", &desired, &live).0,
        desired
    );
}

#[test]
fn identity_and_what_the_server_writes_are_never_touched() {
    let desired = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x", "labels": {"l": "1"}},
        "data": {"k": "ours"}, "binaryData": {"only": "ours"}});
    let live = json!({"apiVersion": "v2", "kind": "Other", "metadata": {"name": "b", "namespace": "y", "uid": "u",
        "resourceVersion": "7", "annotations": {"theirs": "1"}}, "data": {"k": "theirs"}, "status": {"s": 1}});
    let (whole, kept) = laid("*", &desired, &live);
    assert_eq!(
        whole,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x",
            "annotations": {"theirs": "1"}}, "data": {"k": "theirs"}})
    );
    assert_eq!(kept.overlaid, ["/data"]);
    for spelled in [
        ".metadata.name",
        "/apiVersion",
        ".kind",
        ".metadata.uid",
        ".status",
        "/metadata/resourceVersion",
    ] {
        let (laid, kept) = laid(spelled, &desired, &live);
        assert_eq!((&laid, kept.is_empty()), (&desired, true), "{spelled}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[-.\\[\\]{}$@?()*=<>!'\"~/\\\\a-c0-2 ,:ü]{0,24}") {
        if let Ok(path) = FieldPath::parse(&text) {
            let live = pod();
            let mut once = json!({"spec": {"containers": [{"name": "main"}]}, "a": {"b": [1, {"c": 2}]}});
            keep(&path, &mut once, &live, None);
            let mut twice = once.clone();
            keep(&path, &mut twice, &live, None);
            proptest::prop_assert_eq!(&once, &twice);
            for (at, value) in path.select(&live) {
                proptest::prop_assert_eq!(live.pointer(&at), Some(value));
                proptest::prop_assert!(path.covers(&live, &at));
            }
        }
    }
}
