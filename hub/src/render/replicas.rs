//! Where the count lives (placement design, rule 8): which manifests are divided, and how a share is written into one.
//!
//! A manifest that is malformed where the count lives is not divided: it travels whole and fails at the agent, where
//! the member's API server says what is wrong with it.

use super::{Rendered, ReplicaPaths, metadata};
use crate::placement::Workload;
use roundhouse_api::decision::WorkloadRef;
use serde_json::Value;
use std::collections::BTreeSet;

/// A cluster's part of a Job, so that the parts of all clusters add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobShare {
    /// Replicas that were given before these: to the clusters before this one, in the order of the Decision, or as the
    /// Decision says.
    pub before: u32,
    /// Replicas of this cluster.
    pub replicas: u32,
    /// Replicas of the whole.
    pub of_total: u32,
}

/// Where a manifest's count lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count<'a> {
    /// `spec.replicas`.
    Replicas,
    /// `spec.parallelism`, with `spec.completions`.
    Parallelism,
    /// These fields, one in the other.
    At(&'a [String]),
}

/// Where the count of this manifest lives; `None` if its kind is not divided.
fn count<'a>(manifest: &Value, paths: &'a ReplicaPaths) -> Option<Count<'a>> {
    match metadata::group_kind(manifest)? {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("apps.kruise.io", "CloneSet") => {
            Some(Count::Replicas)
        }
        ("batch", "Job") => Some(Count::Parallelism),
        // Not divided, whatever a definition says.
        ("apps", "DaemonSet") | ("batch", _) => None,
        (group, kind) => paths.get(group, kind).map(Count::At),
    }
}

impl Count<'_> {
    /// As a JSON pointer.
    fn pointer(self) -> String {
        match self {
            Count::Replicas => "/spec/replicas".to_owned(),
            Count::Parallelism => "/spec/parallelism".to_owned(),
            Count::At(fields) => fields.iter().map(|field| format!("/{field}")).collect(),
        }
    }

    /// The object that has the count as its last field; `None` where there is no object.
    fn parent(self, manifest: &mut Value) -> Option<(&mut serde_json::Map<String, Value>, String)> {
        let pointer = self.pointer();
        let (parent, field) = pointer.rsplit_once('/')?;
        let parent = manifest.pointer_mut(parent)?.as_object_mut()?;
        Some((parent, field.to_owned()))
    }
}

/// JSON pointers of the fields that division writes into this manifest; none if its kind is not divided.
pub fn count_paths(manifest: &Value, paths: &ReplicaPaths) -> Vec<String> {
    match count(manifest, paths) {
        Some(Count::Parallelism) => vec![Count::Parallelism.pointer(), "/spec/completions".to_owned()],
        Some(count) => vec![count.pointer()],
        None => Vec::new(),
    }
}

/// How many replicas a manifest asks for, 1 where it does not say; `None` if its kind is not divided (DaemonSet,
/// ConfigMap, …) or if the count, or what it should be in, is malformed.
pub fn replica_count(manifest: &Value, paths: &ReplicaPaths) -> Option<u32> {
    let pointer = count(manifest, paths)?.pointer();
    let (parent, field) = pointer.rsplit_once('/')?;
    match manifest.pointer(parent)?.as_object()?.get(field) {
        None | Some(Value::Null) => Some(1),
        // An int32 in Kubernetes.
        Some(count) => u32::try_from(i32::try_from(count.as_i64()?).ok()?).ok(),
    }
}

/// How many replicas these manifests ask for in all, as far as their kinds are divided without a definition.
pub fn replicas_of(manifests: &[Value]) -> u64 {
    let paths = ReplicaPaths::default();
    let counts = manifests
        .iter()
        .filter_map(|manifest| replica_count(manifest, &paths));
    counts.map(u64::from).sum()
}

/// Whether this is a Job, which is divided once per revision.
pub fn is_divided_once(manifest: &Value) -> bool {
    metadata::group_kind(manifest) == Some(("batch", "Job"))
}

/// Names a manifest as decisions do; `None` without kind or name (`generateName` alone does not name an object).
pub fn workload_ref(manifest: &Value) -> Option<WorkloadRef> {
    let (_, kind) = metadata::group_kind(manifest)?;
    Some(WorkloadRef {
        kind: kind.to_owned(),
        namespace: metadata::field(manifest, "namespace")
            .unwrap_or_default()
            .to_owned(),
        name: metadata::field(manifest, "name")?.to_owned(),
    })
}

/// The workloads that are divided, in the order of the revision. Of two manifests for the same object the first counts:
/// the second fails at the agent.
pub fn workloads(rendered: &Rendered) -> Vec<Workload> {
    let mut seen = BTreeSet::new();
    let manifests = rendered
        .components
        .iter()
        .flat_map(|component| &component.manifests);
    manifests
        .filter_map(|manifest| {
            let workload = Workload {
                replicas: replica_count(manifest, &rendered.replica_paths)?,
                key: workload_ref(manifest)?,
                once: is_divided_once(manifest),
            };
            seen.insert(workload.key.clone()).then_some(workload)
        })
        .collect()
}

/// The objects of a component, divided or not, as decisions name them; none if there is no such component.
pub fn component_workloads(rendered: &Rendered, component: &str) -> BTreeSet<WorkloadRef> {
    let own = rendered.components.iter().filter(|own| own.name == component);
    let manifests = own.flat_map(|component| &component.manifests);
    manifests.filter_map(workload_ref).collect()
}

/// Writes a share into a manifest; one that is not divided, or is malformed where the count lives, stays as it is.
///
/// The `completions` of a Job are divided so that the parts of consecutive clusters add up to exactly what the replicas
/// placed so far are entitled to: nothing is lost or done twice by rounding.
pub fn set_share(manifest: &mut Value, share: &JobShare, paths: &ReplicaPaths) {
    let (Some(count), Some(_)) = (count(manifest, paths), replica_count(manifest, paths)) else {
        return;
    };
    let Some((parent, field)) = count.parent(manifest) else {
        return;
    };
    parent.insert(field, Value::from(share.replicas));
    let completions = parent
        .get("completions")
        .and_then(Value::as_u64)
        .and_then(|n| u32::try_from(n).ok());
    if let (Count::Parallelism, Some(completions)) = (count, completions) {
        let whole = u128::from(share.of_total).max(1);
        let entitled = |replicas: u128| u128::from(completions) * replicas / whole;
        let (before, replicas) = (u128::from(share.before), u128::from(share.replicas));
        let part = u32::try_from(entitled(before + replicas) - entitled(before)).unwrap_or(completions);
        parent.insert("completions".to_owned(), Value::from(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::RenderedComponent;
    use proptest::prelude::*;
    use serde_json::json;

    fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "ns"}, "spec": spec})
    }

    fn part(replicas: u32, of_total: u32) -> JobShare {
        JobShare {
            before: 0,
            replicas,
            of_total,
        }
    }

    #[test]
    fn where_the_count_lives() {
        let none = ReplicaPaths::default();
        for (api_version, kind, spec, expected) in [
            ("apps/v1", "Deployment", json!({"replicas": 3}), Some(3)),
            ("apps/v1", "Deployment", json!({}), Some(1)),
            ("apps/v1", "Deployment", json!({"replicas": null}), Some(1)),
            ("apps/v1", "Deployment", json!({"replicas": 0}), Some(0)),
            ("apps/v1", "StatefulSet", json!({"replicas": 2}), Some(2)),
            ("apps/v1", "ReplicaSet", json!({"replicas": 2}), Some(2)),
            (
                "apps.kruise.io/v1alpha1",
                "CloneSet",
                json!({"replicas": 4}),
                Some(4),
            ),
            (
                "batch/v1",
                "Job",
                json!({"parallelism": 5, "replicas": 9}),
                Some(5),
            ),
            ("batch/v1", "Job", json!({}), Some(1)),
            // Not divided.
            ("apps/v1", "DaemonSet", json!({"replicas": 3}), None),
            ("example.com/v1", "Deployment", json!({"replicas": 3}), None),
            ("v1", "ConfigMap", json!({}), None),
            // Malformed: left to fail at the agent.
            ("apps/v1", "Deployment", json!({"replicas": "3"}), None),
            ("apps/v1", "Deployment", json!({"replicas": -1}), None),
            ("apps/v1", "Deployment", json!({"replicas": 1.5}), None),
            (
                "apps/v1",
                "Deployment",
                json!({"replicas": 3_000_000_000_u64}),
                None,
            ),
            ("apps/v1", "Deployment", json!([]), None),
            ("apps/v1", "Deployment", Value::Null, None),
        ] {
            let mut manifest = object(api_version, kind, &spec);
            assert_eq!(replica_count(&manifest, &none), expected, "{manifest}");
            let before = manifest.clone();
            set_share(&mut manifest, &part(7, 10), &none);
            match expected {
                Some(_) => assert_eq!(replica_count(&manifest, &none), Some(7)),
                None => assert_eq!(manifest, before),
            }
        }
        for malformed in [
            json!(null),
            json!([]),
            json!("x"),
            json!({"kind": "Deployment"}),
            json!({"apiVersion": 1, "kind": 2}),
        ] {
            let mut manifest = malformed.clone();
            set_share(&mut manifest, &part(1, 1), &none);
            assert_eq!((replica_count(&manifest, &none), manifest), (None, malformed));
        }
    }

    #[test]
    fn completions_go_with_a_job_only() {
        for (kind, spec, replicas, of_total, expected) in [
            (
                "batch/v1 Job",
                json!({"parallelism": 10, "completions": 100}),
                7,
                10,
                json!({"parallelism": 7, "completions": 70}),
            ),
            (
                "batch/v1 Job",
                json!({"parallelism": 3, "completions": 10}),
                1,
                3,
                json!({"parallelism": 1, "completions": 3}),
            ),
            (
                "batch/v1 Job",
                json!({"parallelism": 9, "completions": 1}),
                1,
                9,
                json!({"parallelism": 1, "completions": 0}),
            ),
            (
                "batch/v1 Job",
                json!({"completions": 4}),
                0,
                1,
                json!({"parallelism": 0, "completions": 0}),
            ),
            (
                "batch/v1 Job",
                json!({"completions": "x"}),
                1,
                2,
                json!({"parallelism": 1, "completions": "x"}),
            ),
            (
                "apps/v1 Deployment",
                json!({"parallelism": 1, "completions": 4}),
                1,
                2,
                json!({"parallelism": 1, "completions": 4, "replicas": 1}),
            ),
        ] {
            let (api_version, kind) = kind.split_once(' ').unwrap();
            let mut manifest = object(api_version, kind, &spec);
            set_share(&mut manifest, &part(replicas, of_total), &ReplicaPaths::default());
            assert_eq!(manifest["spec"], expected, "{spec} {replicas}/{of_total}");
        }
    }

    #[test]
    fn workloads_are_listed_in_order_and_once() {
        let nameless = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generateName": "x-"}, "spec": {}});
        let component = |name: &str, manifests: &[Value]| RenderedComponent {
            name: name.to_owned(),
            manifests: manifests.to_vec(),
        };
        let job = object("batch/v1", "Job", &json!({"parallelism": 2}));
        let deployment = object("apps/v1", "Deployment", &json!({"replicas": 3}));
        let twice = object("apps/v1", "Deployment", &json!({"replicas": 9}));
        let rendered = Rendered {
            replica_paths: ReplicaPaths::default(),
            components: vec![
                component("b", &[json!(null), object("v1", "ConfigMap", &json!({})), job]),
                component("a", &[deployment, nameless, twice]),
            ],
        };
        let found: Vec<String> = workloads(&rendered)
            .iter()
            .map(|w| {
                format!(
                    "{}/{}/{}: {}{}",
                    w.key.kind,
                    w.key.namespace,
                    w.key.name,
                    w.replicas,
                    if w.once { " once" } else { "" }
                )
            })
            .collect();
        assert_eq!(found, ["Job/ns/x: 2 once", "Deployment/ns/x: 3"]);
    }

    #[test]
    fn the_count_of_other_kinds_is_where_their_definition_says() {
        let definition = |kind: &str, api_version: &str, path: &str| {
            let spec = json!({"workload": {"definition": {"apiVersion": api_version, "kind": kind}}, "replicasPath": path});
            serde_json::from_value(spec).unwrap()
        };
        let all = [
            definition("Server", "games.io/v1", "spec.pool.size"),
            definition("Deployment", "apps/v1", "spec.wrong"),
            definition("DaemonSet", "apps/v1", "spec.wrong"),
            definition("CronJob", "batch/v1", "spec.wrong"),
        ];
        let names: Vec<_> = (0..all.len())
            .map(|i| ("ns".to_owned(), format!("d{i}")))
            .collect();
        let paths = ReplicaPaths::of("ns", names.iter().zip(&all));
        for (kind, spec, expected) in [
            (
                "games.io/v2 Server",
                json!({"pool": {"size": 6}}),
                Some(("/spec/pool/size", 6)),
            ),
            (
                "games.io/v1 Server",
                json!({"pool": {}}),
                Some(("/spec/pool/size", 1)),
            ),
            ("games.io/v1 Server", json!({}), None),
            ("games.io/v1 Server", json!({"pool": {"size": "6"}}), None),
            (
                "apps/v1 Deployment",
                json!({"replicas": 2, "wrong": 9}),
                Some(("/spec/replicas", 2)),
            ),
            ("apps/v1 DaemonSet", json!({"wrong": 9}), None),
            ("batch/v1 CronJob", json!({"wrong": 9}), None),
            ("other.io/v1 Server", json!({"pool": {"size": 6}}), None),
        ] {
            let (api_version, kind) = kind.split_once(' ').unwrap();
            let mut manifest = object(api_version, kind, &spec);
            assert_eq!(
                replica_count(&manifest, &paths),
                expected.map(|(_, count)| count),
                "{manifest}"
            );
            let before = manifest.clone();
            set_share(&mut manifest, &part(4, 9), &paths);
            match expected {
                Some((pointer, _)) => {
                    assert_eq!(manifest.pointer(pointer), Some(&json!(4)));
                    assert_eq!(count_paths(&manifest, &paths), [pointer]);
                }
                None => assert_eq!(manifest, before),
            }
        }
    }

    proptest! {
        /// The parts of all clusters add up to the whole, and none is further than one from its quota.
        #[test]
        fn job_shares_add_up(completions in 0_u32..100_000, shares in prop::collection::vec(0_u32..1000, 1..20)) {
            let of_total: u32 = shares.iter().sum();
            prop_assume!(of_total > 0);
            let (mut before, mut sum) = (0, 0);
            for replicas in shares {
                let mut job = object("batch/v1", "Job", &json!({"parallelism": of_total, "completions": completions}));
                set_share(&mut job, &JobShare { before, replicas, of_total }, &ReplicaPaths::default());
                let part = job["spec"]["completions"].as_u64().unwrap();
                let exact = f64::from(completions) * f64::from(replicas) / f64::from(of_total);
                #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
                let distance = (part as f64 - exact).abs();
                prop_assert!(distance < 1.0, "{} of {}", part, exact);
                prop_assert_eq!(&job["spec"]["parallelism"], &json!(replicas));
                sum += part;
                before += replicas;
            }
            prop_assert_eq!(sum, u64::from(completions));
        }
    }
}
