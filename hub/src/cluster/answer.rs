//! The answer to a request for a certificate.

use super::{ClusterError, join::Verdict};
use crate::writes;
use jiff::Timestamp;
use k8s_openapi::{
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, ResourceExt, api::Patch};
use serde_json::json;

/// Writes what was decided on a request, on the request that was looked at.
pub(super) async fn answer(
    client: &Client,
    request: &CertificateSigningRequest,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<(), ClusterError> {
    let (type_, reason, message) = match verdict {
        Verdict::Wait(_) => return Ok(()),
        Verdict::Approve(_) => (
            "Approved",
            "AgentAccepted",
            "the cluster is accepted, and this is its agent".to_owned(),
        ),
        Verdict::Deny(reason, message) => ("Denied", *reason, message.clone()),
    };
    let name = request.name_any();
    if type_ == "Denied" {
        tracing::warn!(
            request = name,
            by = request.spec.username,
            reason,
            message,
            "the request for a certificate of an agent is denied"
        );
    } else {
        tracing::info!(request = name, "the certificate of an agent is approved");
    }
    let condition = CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    let mut conditions = request
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    conditions.push(condition);
    let patch = json!({
        "metadata": {"resourceVersion": request.resource_version(), "uid": request.uid()},
        "status": {"conditions": conditions}});
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    match api
        .patch_approval(&name, &writes::patch(), &Patch::Merge(patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        // It is another one by now, or something in between says so: no event has to follow.
        Err(kube::Error::Api(answer)) if answer.is_conflict() => Err(ClusterError::Changed {
            cluster: name,
            what: "the request of its agent",
        }),
        Err(source) => Err(ClusterError::Api {
            cluster: name,
            action: "deciding this request for a certificate",
            source: Box::new(source),
        }),
    }
}
