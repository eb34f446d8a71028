//! Sends a report, only if it says something new.

use crate::bundle::Held;
use crate::error::{CallError, Fault};
use crate::member::{found, within};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use roundhouse_api::bundle::BundleStatus;
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use serde_json::{Value, json};
use std::time::Duration;

/// How often a report is sent to a Bundle that changes meanwhile.
const TRIES: usize = 4;

/// Writes `status` to the Bundle that `held` is; answers the resource version after it, or `None` if that Bundle is
/// gone. The write carries the resource version: a Bundle made again under the same name never gets the report of the
/// one before, and a changed Bundle is read again first.
pub(crate) async fn send(
    api: &Api<DynamicObject>,
    held: &Held,
    status: &BundleStatus,
    timeout: Duration,
) -> Result<Option<String>, CallError> {
    let params = PatchParams {
        field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let mut version = held.resource_version.clone();
    for _ in 0..TRIES {
        let patch = status_patch(status, &version);
        let sent = within(
            timeout,
            api.patch_status(&held.name, &params, &Patch::Merge(&patch)),
        )
        .await;
        match sent {
            Ok(bundle) => return Ok(bundle.metadata.resource_version),
            Err(error) if error.fault().is_404() => return Ok(None),
            Err(error) if error.fault() != Fault::Conflict => return Err(error),
            Err(_) => {}
        }
        let Some(bundle) = found(within(timeout, api.get_metadata(&held.name)).await)? else {
            return Ok(None);
        };
        if bundle.metadata.uid.as_deref() != Some(&held.uid) {
            return Ok(None);
        }
        version = bundle.metadata.resource_version.unwrap_or_default();
    }
    Err(CallError::Timeout(timeout))
}

/// The merge patch that leaves the status exactly as `status`: what it no longer has is removed by name.
fn status_patch(status: &BundleStatus, resource_version: &str) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        for field in [
            "hash",
            "observedGeneration",
            "epoch",
            "phase",
            "counts",
            "workloads",
            "omittedWorkloads",
            "conditions",
            "resourceStatus",
        ] {
            fields.entry(field).or_insert(Value::Null);
        }
        if let Some(resources) = fields.get_mut("resourceStatus").and_then(Value::as_object_mut) {
            for field in ["omitted", "feedbackTruncated"] {
                resources.entry(field).or_insert(Value::Null);
            }
        }
    }
    json!({"metadata": {"resourceVersion": resource_version}, "status": value})
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::bundle::{BundlePhase, Counts, ResourceStatus};

    #[test]
    fn the_patch_turns_any_status_into_the_new_one() {
        let before = BundleStatus {
            hash: Some("h".into()),
            epoch: Some(1),
            counts: Some(Counts {
                total: 3,
                ..Counts::default()
            }),
            resource_status: Some(ResourceStatus {
                manifests: Vec::new(),
                omitted: Some(4),
                feedback_truncated: true,
            }),
            ..BundleStatus::default()
        };
        let fewer = BundleStatus {
            resource_status: Some(ResourceStatus {
                manifests: vec![Default::default()],
                ..ResourceStatus::default()
            }),
            ..before.clone()
        };
        let other = BundleStatus {
            phase: Some(BundlePhase::Ready),
            ..BundleStatus::default()
        };
        for after in [fewer, other] {
            let mut live = json!({"status": serde_json::to_value(&before).unwrap()});
            roundhouse_patch::json_merge(&mut live, &status_patch(&after, "7"));
            let got: BundleStatus = serde_json::from_value(live["status"].clone()).unwrap();
            assert_eq!(got, after);
        }
    }
}
