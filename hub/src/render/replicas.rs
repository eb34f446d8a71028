//! Where the count lives (placement design, rule 8): which manifests are divided, and how a share is written into one.
//!
//! A manifest that is malformed where the count lives is not divided: it travels whole and fails at the agent, where
//! the member's API server says what is wrong with it.

use super::{Rendered, metadata};
use crate::placement::Workload;
use roundhouse_api::decision::WorkloadRef;
use serde_json::Value;
use std::collections::BTreeSet;

/// A cluster's part of a Job, so that the parts of all clusters add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobShare {
    /// Replicas of the clusters before this one, in the order of the Decision.
    pub before: u32,
    /// Replicas of this cluster.
    pub replicas: u32,
    /// Replicas of the whole.
    pub of_total: u32,
}

/// Field of `spec` that counts the replicas of this manifest; `None` if its kind is not divided.
fn count_field(manifest: &Value) -> Option<&'static str> {
    match metadata::group_kind(manifest)? {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("apps.kruise.io", "CloneSet") => {
            Some("replicas")
        }
        ("batch", "Job") => Some("parallelism"),
        _ => None,
    }
}

/// JSON pointers of the fields that division writes into this manifest; none if its kind is not divided.
pub fn count_paths(manifest: &Value) -> Vec<String> {
    match count_field(manifest) {
        Some("parallelism") => vec!["/spec/parallelism".to_owned(), "/spec/completions".to_owned()],
        Some(field) => vec![format!("/spec/{field}")],
        None => Vec::new(),
    }
}

/// How many replicas a manifest asks for, 1 where it does not say; `None` if its kind is not divided (DaemonSet,
/// ConfigMap, …) or if the count is malformed.
pub fn replica_count(manifest: &Value) -> Option<u32> {
    let field = count_field(manifest)?;
    match manifest.get("spec")?.as_object()?.get(field) {
        None | Some(Value::Null) => Some(1),
        // An int32 in Kubernetes.
        Some(count) => u32::try_from(i32::try_from(count.as_i64()?).ok()?).ok(),
    }
}

/// How many replicas these manifests ask for in all, as far as their kinds are divided.
pub fn replicas_of(manifests: &[Value]) -> u64 {
    manifests.iter().filter_map(replica_count).map(u64::from).sum()
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
                replicas: replica_count(manifest)?,
                key: workload_ref(manifest)?,
            };
            seen.insert(workload.key.clone()).then_some(workload)
        })
        .collect()
}

/// Writes a share of `replicas` out of `of_total` into a manifest; one that is not divided, or is malformed where the
/// count lives, stays as it is. `completions` of a Job are divided in proportion and rounded up, so that none is lost;
/// where the parts of all clusters have to add up exactly, use [`set_job_share`].
pub fn set_replicas(manifest: &mut Value, replicas: u32, of_total: u32) {
    set_count(manifest, replicas, |completions| {
        (u128::from(completions) * u128::from(replicas)).div_ceil(u128::from(of_total).max(1))
    });
}

/// As [`set_replicas`], with the `completions` of a Job divided so that the parts of consecutive clusters add up to
/// exactly what the replicas placed so far are entitled to: nothing is lost or done twice by rounding.
pub fn set_job_share(manifest: &mut Value, share: &JobShare) {
    let whole = u128::from(share.of_total).max(1);
    let (before, replicas) = (u128::from(share.before), u128::from(share.replicas));
    set_count(manifest, share.replicas, |completions| {
        let entitled = |replicas: u128| u128::from(completions) * replicas / whole;
        entitled(before + replicas) - entitled(before)
    });
}

/// Writes the count, and for a Job the part of its completions, where it has them.
fn set_count(manifest: &mut Value, replicas: u32, part_of: impl Fn(u32) -> u128) {
    let (Some(field), Some(_)) = (count_field(manifest), replica_count(manifest)) else {
        return;
    };
    let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    spec.insert(field.to_owned(), Value::from(replicas));
    let completions = spec
        .get("completions")
        .and_then(Value::as_u64)
        .and_then(|n| u32::try_from(n).ok());
    if let ("parallelism", Some(completions)) = (field, completions) {
        let part = u32::try_from(part_of(completions)).unwrap_or(completions);
        spec.insert("completions".to_owned(), Value::from(part));
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

    #[test]
    fn where_the_count_lives() {
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
            assert_eq!(replica_count(&manifest), expected, "{manifest}");
            let before = manifest.clone();
            set_replicas(&mut manifest, 7, 10);
            match expected {
                Some(_) => assert_eq!(replica_count(&manifest), Some(7)),
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
            set_replicas(&mut manifest, 1, 1);
            assert_eq!((replica_count(&manifest), manifest), (None, malformed));
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
                json!({"parallelism": 1, "completions": 4}),
            ),
            (
                "batch/v1 Job",
                json!({"parallelism": 9, "completions": 1}),
                1,
                9,
                json!({"parallelism": 1, "completions": 1}),
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
            set_replicas(&mut manifest, replicas, of_total);
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
            components: vec![
                component("b", &[json!(null), object("v1", "ConfigMap", &json!({})), job]),
                component("a", &[deployment, nameless, twice]),
            ],
        };
        let found: Vec<String> = workloads(&rendered)
            .iter()
            .map(|w| {
                format!(
                    "{}/{}/{}: {}",
                    w.key.kind, w.key.namespace, w.key.name, w.replicas
                )
            })
            .collect();
        assert_eq!(found, ["Job/ns/x: 2", "Deployment/ns/x: 3"]);
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
                set_job_share(&mut job, &JobShare { before, replicas, of_total });
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
