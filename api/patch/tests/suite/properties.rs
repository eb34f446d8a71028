//! Rules that hold for any three documents. 1,000 triples each; 1,000,000 with `ROUNDHOUSE_LONG=1`.

use crate::keys::unique_keys;
use crate::model;
use proptest::{prelude::*, test_runner::Config};
use roundhouse_patch::{
    json_merge, json_patch,
    schema::{self, Node},
    strategic_merge, three_way_merge,
};
use serde_json::{Value, json};

fn config() -> Config {
    let cases = if std::env::var_os("ROUNDHOUSE_LONG").is_some() {
        1_000_000
    } else {
        1_000
    };
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Some of these, each once, in any order.
fn some_of<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = Vec<T>> {
    prop::sample::subsequence(all, 0..=all.len()).prop_shuffle()
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| prop::option::of(value.prop_map(move |value| (name, value))))
        .collect();
    fields
        .prop_map(|fields| {
            fields
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()
        })
        .boxed()
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(json!("x")),
        Just(json!("y")),
        Just(json!(1)),
        Just(json!(true))
    ]
    .boxed()
}

fn map() -> BoxedStrategy<Value> {
    object(["a", "b", "c"].map(|name| (name, scalar())).to_vec())
}

/// A list that merges by `key`: distinct keys, each element with some of the fields.
fn keyed(
    key: &'static str,
    keys: &'static [&'static str],
    element: impl Fn() -> BoxedStrategy<Value>,
) -> BoxedStrategy<Value> {
    let elements: Vec<_> = keys.iter().map(|_| element()).collect();
    (some_of(keys), elements)
        .prop_map(move |(keys, elements)| {
            let named = keys.into_iter().zip(elements).map(|(name, mut element)| {
                element[key] = Value::from(name);
                element
            });
            named.collect()
        })
        .boxed()
}

fn atomic_list() -> BoxedStrategy<Value> {
    some_of(&["-a", "-b", "-c"]).prop_map(Value::from).boxed()
}

fn set() -> BoxedStrategy<Value> {
    some_of(&["x.dev/a", "x.dev/b", "x.dev/c", "x.dev/d"])
        .prop_map(Value::from)
        .boxed()
}

fn metadata() -> BoxedStrategy<Value> {
    object(vec![
        ("labels", map()),
        ("annotations", map()),
        ("finalizers", set()),
        (
            "ownerReferences",
            keyed("uid", &["u1", "u2"], || object(vec![("controller", scalar())])),
        ),
    ])
}

fn container() -> BoxedStrategy<Value> {
    object(vec![
        ("image", scalar()),
        ("command", atomic_list()),
        (
            "env",
            keyed("name", &["A", "B", "C"], || {
                object(vec![("value", scalar()), ("valueFrom", map())])
            }),
        ),
        ("resources", object(vec![("limits", map()), ("requests", map())])),
        (
            "volumeMounts",
            keyed("mountPath", &["/a", "/b"], || object(vec![("name", scalar())])),
        ),
    ])
}

fn deployment() -> BoxedStrategy<Value> {
    let pod = object(vec![
        ("containers", keyed("name", &["web", "log", "proxy"], container)),
        (
            "volumes",
            keyed("name", &["v1", "v2"], || {
                object(vec![("emptyDir", map()), ("configMap", map())])
            }),
        ),
        ("tolerations", atomic_list()),
        ("nodeSelector", map()),
    ]);
    let template = object(vec![("metadata", metadata()), ("spec", pod)]);
    let strategy = object(vec![("type", scalar()), ("rollingUpdate", map())]);
    let spec = object(vec![
        ("replicas", scalar()),
        ("strategy", strategy),
        ("template", template),
    ]);
    (metadata(), spec)
        .prop_map(|(metadata, spec)| {
            let mut object =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
            object["metadata"]["name"] = json!("web");
            object
        })
        .boxed()
}

fn widget() -> BoxedStrategy<Value> {
    let spec = object(vec![
        ("size", scalar()),
        ("parts", atomic_list()),
        ("nested", object(vec![("a", map()), ("b", map())])),
    ]);
    (map(), spec)
        .prop_map(|(labels, spec)| json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w", "labels": labels}, "spec": spec}))
        .boxed()
}

/// Last applied, desired, live: of one kind, otherwise independent of each other.
fn triple() -> impl Strategy<Value = (Option<Value>, Value, Value)> {
    let of = |kind: fn() -> BoxedStrategy<Value>| (prop::option::weighted(0.9, kind()), kind(), kind());
    prop_oneof![4 => of(deployment), 1 => of(widget)]
}

fn node(document: &Value) -> Option<&'static Node> {
    schema::lookup(document["apiVersion"].as_str()?, document["kind"].as_str()?)
}

/// Any JSON, with the words that mean something to a merge among its names.
fn any_json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "spec",
        "template",
        "containers",
        "name",
        "ports",
        "containerPort",
        "env",
        "metadata",
        "finalizers",
        "strategy",
        "volumes",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$setElementOrder",
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/containers",
        "type",
    ]);
    let words = prop::sample::select(vec!["a", "b", "delete", "replace", "merge", "name", "type", ""]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        (-1.0..1.0f64).prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 48, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((names.clone(), inner), 0..5)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// Any JSON that says it is a Deployment, or a custom kind.
fn any_document() -> impl Strategy<Value = Value> {
    (any_json(), any::<bool>()).prop_map(|(mut document, built_in)| {
        if let Value::Object(fields) = &mut document {
            let (api_version, kind) = if built_in {
                ("apps/v1", "Deployment")
            } else {
                ("example.dev/v1", "Widget")
            };
            fields.insert("apiVersion".to_owned(), api_version.into());
            fields.insert("kind".to_owned(), kind.into());
        }
        document
    })
}

/// An operation of a JSON patch, on paths that may exist.
fn operation() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "sing"]);
    let steps = prop::sample::select(vec!["spec", "metadata", "name", "0", "1", "-", "-1", "~1", ""]);
    let path = prop::collection::vec(steps, 0..4)
        .prop_map(|steps| steps.iter().map(|step| format!("/{step}")).collect::<String>());
    (names, path.clone(), path, any_json())
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #![proptest_config(config())]

    /// The content is what an independent statement of the rules says: rendered fields as desired, dropped fields
    /// gone, fields of others kept. Lists that merge hold our elements in our order.
    #[test]
    fn the_result_is_what_the_rules_say((last, desired, live) in triple()) {
        let merged = three_way_merge(last.as_ref(), &desired, &live).unwrap();
        let expected = model::result(last.as_ref(), &desired, Some(&live), node(&desired));
        prop_assert_eq!(model::unordered(&merged.result, node(&desired)), model::unordered(&expected, node(&desired)));
        prop_assert!(model::in_our_order(&merged.result, &desired, node(&desired)));
        prop_assert_eq!(merged.is_empty(), merged.result == live);
    }

    #[test]
    fn applying_twice_is_applying_once((last, desired, live) in triple()) {
        let first = three_way_merge(last.as_ref(), &desired, &live).unwrap();
        prop_assert!(node(&desired).is_none_or(|node| unique_keys(&first.result, node)));
        let mut again = first.result.clone();
        match node(&desired) {
            Some(node) => strategic_merge(&mut again, &first.patch, node).unwrap(),
            None => json_merge(&mut again, &first.patch),
        }
        prop_assert_eq!(&again, &first.result);

        let second = three_way_merge(Some(&desired), &desired, &first.result).unwrap();
        prop_assert_eq!(&second.result, &first.result);
        prop_assert!(second.is_empty(), "{}", second.patch);
    }

    /// merge(x, x, live) = live, for a live object that has what x renders.
    #[test]
    fn nothing_to_do_is_nothing_done((_, desired, live) in triple()) {
        let live = three_way_merge(None, &desired, &live).unwrap().result;
        let merged = three_way_merge(Some(&desired), &desired, &live).unwrap();
        prop_assert_eq!(&merged.result, &live);
        prop_assert!(merged.is_empty(), "{}", merged.patch);
        let itself = three_way_merge(Some(&desired), &desired, &desired).unwrap();
        prop_assert!(itself.is_empty(), "{}", itself.patch);
    }

    /// Creating from nothing gives the desired object.
    #[test]
    fn an_empty_live_object_becomes_the_desired_one((_, desired, _) in triple()) {
        let merged = three_way_merge(None, &desired, &json!({})).unwrap();
        prop_assert_eq!(merged.result, desired);
    }

    #[test]
    fn no_json_panics(last in prop::option::of(any_document()), desired in any_document(), live in any_document()) {
        if let Ok(merged) = three_way_merge(last.as_ref(), &desired, &live) {
            prop_assert_eq!(merged.is_empty(), merged.result == live);
        }
        let node = schema::lookup("apps/v1", "Deployment").unwrap();
        let mut target = live.clone();
        if strategic_merge(&mut target, &desired, node).is_err() {
            prop_assert_eq!(&target, &live);
        }
        json_merge(&mut target, &desired);
    }

    #[test]
    fn no_json_patch_panics(
        target in any_json(),
        operations in prop::collection::vec(operation(), 0..6),
        other in any_json(),
    ) {
        let mut patched = target.clone();
        if json_patch(&mut patched, &Value::from(operations)).is_err() {
            prop_assert_eq!(&patched, &target);
        }
        if !other.is_array() {
            prop_assert!(json_patch(&mut patched, &other).is_err());
        }
    }

    /// RFC 7386: a patch merged twice is a patch merged once.
    #[test]
    fn json_merge_is_idempotent(mut target in any_json(), patch in any_json()) {
        json_merge(&mut target, &patch);
        let once = target.clone();
        json_merge(&mut target, &patch);
        prop_assert_eq!(target, once);
    }
}
