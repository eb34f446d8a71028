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
/// count lives, stays as it is. `completions` of a Job are divided in proportion, rounded to the nearest integer and at
/// least 1: where the parts of all clusters must add up, use [`set_job_share`].
pub fn set_replicas(manifest: &mut Value, replicas: u32, of_total: u32) {
    set_count(manifest, replicas, |completions| {
        let (part, whole) = (u128::from(replicas), u128::from(of_total));
        // round(completions * part / whole), halves up, in exact integers.
        let rounded = (2 * u128::from(completions) * part + whole) / (2 * whole).max(1);
        rounded.max(u128::from(replicas.min(1)))
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
