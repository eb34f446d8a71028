//! `plan --inventory F -o json`: the same bytes, whatever the order of what has none.

use super::{planned, structured};
use crate::placement::tests::runs;
use proptest::{prelude::*, sample::subsequence};
use serde_json::{Value, json};

/// A document that says which of its parts have an order.
#[derive(Debug, Clone)]
enum Text {
    Just(Value),
    /// Its fields have none.
    Map(Vec<(String, Text)>),
    /// One that means something.
    List(Vec<Text>),
    /// None.
    Set(Vec<Text>),
    /// Forms of one meaning.
    Forms(Vec<Text>),
}

impl Text {
    /// As JSON, which is YAML too. `turn(n)` is a number below `n` that chooses among orders and forms.
    fn write(&self, turn: &mut dyn FnMut(usize) -> usize, out: &mut String) {
        fn shuffled<'a, T>(entries: &'a [T], turn: &mut dyn FnMut(usize) -> usize) -> Vec<&'a T> {
            let mut entries: Vec<&T> = entries.iter().collect();
            for last in (1..entries.len()).rev() {
                entries.swap(last, last - turn(last + 1));
            }
            entries
        }
        let mut list = |entries: Vec<&Text>, turn: &mut dyn FnMut(usize) -> usize| {
            out.push('[');
            for (index, entry) in entries.into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                entry.write(turn, out);
            }
            out.push(']');
        };
        match self {
            Text::List(entries) => list(entries.iter().collect(), turn),
            Text::Set(entries) => list(shuffled(entries, turn), turn),
            Text::Just(value) => out.push_str(&value.to_string()),
            Text::Forms(forms) => forms[turn(forms.len())].write(turn, out),
            Text::Map(fields) => {
                out.push('{');
                for (index, (name, field)) in shuffled(fields, turn).into_iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    out.push_str(&Value::from(name.as_str()).to_string());
                    out.push(':');
                    field.write(turn, out);
                }
                out.push('}');
            }
        }
    }

    /// Maps and lists as they are, for parts of which only the fields are without order.
    fn of(value: &Value) -> Text {
        match value {
            Value::Object(fields) => map(fields.iter().map(|(name, field)| (name.clone(), Text::of(field)))),
            Value::Array(entries) => Text::List(entries.iter().map(Text::of).collect()),
            other => Text::Just(other.clone()),
        }
    }
}

fn map<N: Into<String>>(fields: impl IntoIterator<Item = (N, Text)>) -> Text {
    Text::Map(
        fields
            .into_iter()
            .map(|(name, field)| (name.into(), field))
            .collect(),
    )
}

fn set(values: &[Value]) -> Text {
    Text::Set(values.iter().map(Text::of).collect())
}

type Fields = Vec<(&'static str, Text)>;

const REGIONS: [&str; 3] = ["east", "north", "west"];

fn names() -> Vec<Value> {
    (0..9).map(|n| json!(format!("c{n}"))).collect()
}

/// A cluster; its name comes later.
fn cluster() -> impl Strategy<Value = (Text, Fields)> {
    let taints = vec![
        json!({"key": "cordon", "effect": "NoSchedule"}),
        json!({"key": "gpu", "effect": "NoSchedule", "value": "a"}),
        json!({"key": "gpu", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:00Z"}),
    ];
    let labels = (
        prop::sample::select(&REGIONS[..]),
        prop::option::of(prop::sample::select(vec!["gold", "silver"])),
        prop::option::of(prop::sample::select(vec!["1", "3", "x"])),
    );
    let taints = prop_oneof![3 => Just(Vec::new()), 1 => subsequence(taints, 1..3)];
    let capacity = prop::option::weighted(0.3, 0..20u32);
    let cpu = prop::option::weighted(0.7, prop::sample::select(vec!["2", "2300m", "5"]));
    let flags = (prop::bool::weighted(0.95), prop::bool::weighted(0.1));
    (labels, taints, capacity, cpu, flags).prop_map(
        |((region, tier, weight), taints, capacity, cpu, (accepted, silent))| {
            let labels = [("region", Some(region)), ("tier", tier), ("weight", weight)];
            let labels = labels
                .into_iter()
                .filter_map(|(key, value)| Some((key, Text::Just(json!(value?)))));
            let mut status = Fields::new();
            if let Some(capacity) = capacity {
                let forms = [json!(capacity), json!(capacity.to_string())];
                status.push((
                    "capacity",
                    map([("replicas", Text::Forms(forms.iter().map(Text::of).collect()))]),
                ));
            }
            if let Some(cpu) = cpu {
                status.push(("allocatable", Text::of(&json!({"cpu": cpu, "memory": "1Gi"}))));
            }
            if silent {
                let condition = |type_: &str, status: &str| {
                    json!({"type": type_, "status": status, "reason": "Test", "message": "",
                        "lastTransitionTime": "1970-01-01T00:00:00Z"})
                };
                status.push((
                    "conditions",
                    set(&[condition("Joined", "True"), condition("Available", "Unknown")]),
                ));
            }
            let spec = map([
                ("accepted", Text::Just(json!(accepted))),
                ("taints", set(&taints)),
            ]);
            (map(labels), vec![("spec", spec), ("status", map(status))])
        },
    )
}

fn fleet() -> impl Strategy<Value = Text> {
    prop::collection::vec(cluster(), 1..9).prop_map(|fleet| {
        let cluster = |(index, (labels, mut fields)): (usize, (Text, Fields))| {
            let name = Text::Just(json!(format!("c{index}")));
            fields.push(("metadata", map([("name", name), ("labels", labels)])));
            map(fields)
        };
        Text::Set(fleet.into_iter().enumerate().map(cluster).collect())
    })
}

fn selector() -> impl Strategy<Value = Option<Text>> {
    (0..6usize, prop::sample::select(&REGIONS[..])).prop_map(|(kind, region)| {
        let expression = |key: &str, operator: &str, values: &[Value]| {
            let mut fields = vec![
                ("key", Text::Just(json!(key))),
                ("operator", Text::Just(json!(operator))),
            ];
            if !values.is_empty() {
                fields.push(("values", set(values)));
            }
            map(fields)
        };
        let by = |expressions: Vec<Text>| map([("matchExpressions", Text::Set(expressions))]);
        let two = [json!("east"), json!(region)];
        let two = if region == "east" { &two[..1] } else { &two[..] };
        Some(match kind {
            0 => return None,
            1 | 2 => Text::Forms(vec![
                Text::of(&json!({"region": region})),
                Text::of(&json!({"matchLabels": {"region": region}})),
                by(vec![expression("region", "In", &[json!(region)])]),
            ]),
            3 => by(vec![expression("region", "In", two)]),
            4 => Text::Forms(vec![
                map([
                    ("matchLabels", Text::of(&json!({"region": region}))),
                    (
                        "matchExpressions",
                        Text::List(vec![expression("tier", "Exists", &[])]),
                    ),
                ]),
                by(vec![
                    expression("region", "In", &[json!(region)]),
                    expression("tier", "Exists", &[]),
                ]),
            ]),
            _ => by(vec![
                expression("region", "NotIn", two),
                expression("weight", "DoesNotExist", &[]),
            ]),
        })
    })
}

/// How many replicas a rule gets. Percentages are raw numbers, made to fit the others later.
#[derive(Debug, Clone, Copy)]
enum Share {
    Raw(u32),
    Count(u32),
    Full,
}

fn rule() -> impl Strategy<Value = (Fields, Share)> {
    let share = prop_oneof![
        5 => (0..6u32).prop_map(Share::Raw),
        2 => (0..6u32).prop_map(Share::Count),
        1 => Just(Share::Full),
    ];
    let bounds = (
        prop::option::weighted(0.3, 0..3u32),
        prop::option::weighted(0.3, 3..7u32),
    );
    let weights = prop_oneof![
        2 => Just(None),
        2 => prop::collection::btree_map("c[0-8]", 0..5u32, 1..5)
            .prop_map(|weights| Some(("weights", Text::of(&json!(weights))))),
        1 => Just(Some(("weightBy", Text::of(&json!({"label": "weight"}))))),
        1 => Just(Some(("weightBy", Text::of(&json!({"allocatable": "cpu"}))))),
    ];
    let listed = prop::option::weighted(0.25, subsequence(names(), 1..5));
    (selector(), listed, share, weights, bounds, any::<bool>()).prop_map(
        |(selector, listed, share, weights, (min, max), may_be_empty)| {
            let mut fields: Fields = weights.into_iter().collect();
            fields.extend(selector.map(|selector| ("clusterSelector", selector)));
            fields.extend(listed.map(|names| ("clusters", set(&names))));
            let bounds = [("min", min), ("max", max)];
            let bounds = bounds
                .into_iter()
                .filter_map(|(name, bound)| Some((name, Text::Just(json!(bound?)))));
            fields.push(("perCluster", map(bounds)));
            fields.push(("allowEmpty", Text::Just(json!(may_be_empty))));
            (fields, share)
        },
    )
}

fn change() -> impl Strategy<Value = Text> {
    let target = (0..3usize).prop_map(|n| json!({"kind": "Deployment", "name": format!("w{n}")}));
    let change = prop::sample::select(vec![
        (
            "patch",
            json!({"metadata": {"annotations": {"at": "${cluster.name}", "in": "${cluster.labels.region}"}}}),
        ),
        (
            "patch",
            json!({"spec": {"template": {"metadata": {"labels": {"tier": "${cluster.labels.tier}", "a": "b"}}}}}),
        ),
        (
            "jsonPatch",
            json!([{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}},
            {"op": "replace", "path": "/metadata/annotations/a", "value": "${cluster.name}"}]),
        ),
    ]);
    let listed = prop::option::weighted(0.3, subsequence(names(), 4..9));
    (target, change, selector(), listed).prop_map(|(target, (form, change), selector, listed)| {
        let mut fields = vec![("target", Text::of(&target)), (form, Text::of(&change))];
        fields.extend(selector.map(|selector| ("clusterSelector", selector)));
        fields.extend(listed.map(|names| ("clusters", set(&names))));
        map(fields)
    })
}

/// A placement without its rules, and the rules.
fn placement() -> impl Strategy<Value = (Fields, Vec<(Fields, Share)>)> {
    let tolerations = vec![
        json!({"key": "gpu", "operator": "Exists"}),
        json!({"key": "cordon", "operator": "Exists", "effect": "NoSchedule"}),
        json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}),
    ];
    let topology = (
        prop::sample::select(vec!["region", "tier"]),
        1..3u32,
        any::<bool>(),
    )
        .prop_map(|(key, skew, anyway)| {
            let when = if anyway { "ScheduleAnyway" } else { "DoNotSchedule" };
            json!({"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when})
        });
    let limit = prop::option::weighted(0.4, (1..6u32, prop::option::of(topology)));
    (
        prop::collection::vec(rule(), 1..5),
        any::<bool>(),
        limit,
        subsequence(tolerations, 0..=3),
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(change(), 1..3)],
    )
        .prop_map(|(rules, never, limit, tolerations, changes)| {
            let mut fields = vec![
                (
                    "rebalance",
                    Text::Just(json!(if never { "Never" } else { "OnChange" })),
                ),
                ("tolerations", set(&tolerations)),
                ("overrides", Text::List(changes)),
            ];
            if let Some((limit, topology)) = limit {
                fields.push(("maxClusters", Text::Just(json!(limit))));
                fields.extend(topology.map(|topology| ("spread", Text::of(&topology))));
            }
            (fields, rules)
        })
}

/// An application of several workloads, placed by several steps. Percentages sum to at most 100.
fn application() -> impl Strategy<Value = Text> {
    let steps = prop::collection::vec(placement(), 1..3);
    let remainder = prop::sample::select(vec!["Hold", "Spread"]);
    let replicas = prop::collection::vec(0..40u32, 1..4);
    (steps, replicas, 0..8u32, remainder).prop_map(|(steps, replicas, slack, remainder)| {
        let raw: u32 = steps
            .iter()
            .flat_map(|(_, rules)| rules)
            .map(|(_, share)| if let Share::Raw(raw) = share { *raw } else { 0 })
            .sum();
        let share = |share: Share| match share {
            Share::Raw(number) => {
                let percent = number * 100 / (raw + slack).max(1);
                let forms = [format!("{percent}%"), format!("{percent}.0%"), format!("{percent}.000%")];
                Some(Text::Forms(forms.iter().map(|form| Text::Just(json!(form))).collect()))
            }
            Share::Count(count) => Some(Text::Just(json!(count))),
            Share::Full => None,
        };
        let step = |(index, (mut fields, rules)): (usize, (Fields, Vec<(Fields, Share)>))| {
            let rule = |(mut fields, of): (Fields, Share)| {
                fields.extend(share(of).map(|share| ("replicas", share)));
                map(fields)
            };
            // Validation wants the same in every step.
            fields.push(("remainder", Text::Just(json!(remainder))));
            fields.push(("placement", Text::List(rules.into_iter().map(rule).collect())));
            map([
                ("name", Text::Just(json!(format!("s{index}")))),
                ("type", Text::Just(json!("deploy"))),
                ("properties", map(fields)),
            ])
        };
        let component = |(index, replicas): (usize, u32)| {
            Text::of(&json!({"name": format!("w{index}"), "type": "worker", "properties": {"image": "a", "replicas": replicas}}))
        };
        let steps = steps.into_iter().enumerate().map(step).collect();
        let components = replicas.into_iter().enumerate().map(component).collect();
        map([
            ("apiVersion", Text::Just(json!("core.oam.dev/v1beta1"))),
            ("kind", Text::Just(json!("Application"))),
            ("metadata", Text::of(&json!({"name": "w"}))),
            (
                "spec",
                map([
                    ("components", Text::List(components)),
                    ("workflow", map([("steps", Text::List(steps))])),
                ]),
            ),
        ])
    })
}

proptest! {
    #![proptest_config(runs())]

    /// Clusters, names, values, taints, tolerations and fields in any order, selectors, percentages and quantities in any
    /// form of the same meaning.
    #[test]
    fn the_same_input_in_another_order_is_the_same_bytes(
        application in application(),
        fleet in fleet(),
        turns in prop::collection::vec(any::<u32>(), 1..64),
    ) {
        let bytes = |turn: &mut dyn FnMut(usize) -> usize| {
            let (mut files, mut clusters) = (String::new(), String::new());
            application.write(turn, &mut files);
            fleet.write(turn, &mut clusters);
            (String::from_utf8(structured::bytes(&planned(&files, &clusters))).unwrap(), files, clusters)
        };
        let mut turns = turns.iter().cycle();
        let (straight, ..) = bytes(&mut |_| 0);
        let (turned, files, clusters) = bytes(&mut |below| *turns.next().unwrap() as usize % below);
        prop_assert_eq!(straight, turned, "{}\n{}", files, clusters);
    }
}
