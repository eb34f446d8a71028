//! Checks of built-in kinds beyond types: the ones a manifest is most likely to trip over.

use serde_json::Value;

use super::{
    metadata::check_config_keys,
    pod_spec::{Of, check_pod_spec, one_of, text},
    strategy::check_rollout,
};
use crate::{
    error::Cause,
    kinds::Resource,
    object::at,
    schema::{join, join_key},
    selector::Labels,
};

/// Bytes that the values of a ConfigMap or a Secret may total (`MaxSecretSize`).
const MAX_CONTENT: usize = 1 << 20;

/// What is wrong with an object, defaults included; `new` if it is being created.
pub(crate) fn check_object(resource: &Resource, value: &Value, new: bool) -> Vec<Cause> {
    let mut out = vec![];
    if resource.custom.is_some() {
        return out;
    }
    match (&*resource.group, &*resource.kind) {
        ("", "ConfigMap" | "Secret") => {
            check_config_keys(value, "data", &mut out);
            check_config_keys(value, "binaryData", &mut out);
            content_size(&resource.kind, value, &mut out);
            if resource.kind == "ConfigMap" {
                twice(value, &mut out);
                out.extend(crate::auth::check_revoked(value));
            } else {
                super::secret::check_secret(value, &mut out);
            }
        }
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => {
            selector(value, Some(&resource.kind), &mut out);
            // Kubernetes leaves the pods of a StatefulSet for the time when they are made: their volumes come from claims.
            match &*resource.kind {
                "StatefulSet" => always_restarts(value, &mut out),
                _ => template(value, "spec.template", Of::Service, &mut out),
            }
            not_negative(value, &["spec", "replicas"], &mut out);
            check_rollout(&resource.kind, value, &mut out);
        }
        ("batch", "Job") => {
            selector(value, None, &mut out);
            super::job::check_selector(value, &mut out);
            template(value, "spec.template", Of::Job, &mut out);
        }
        ("batch", "CronJob") => {
            cron_job(value, new, &mut out);
            template(value, "spec.jobTemplate.spec.template", Of::Job, &mut out);
        }
        ("", "Pod") => check_pod_spec(value.get("spec"), "spec", Of::Pod, &mut out),
        ("coordination.k8s.io", "Lease") => lease(value, &mut out),
        (_, "Event") => out.extend(super::events::check_event(resource, value, new)),
        ("", "Service") => super::service::check_service(value, &mut out),
        ("rbac.authorization.k8s.io", kind) => super::roles::check_rbac(kind, value, &mut out),
        ("certificates.k8s.io", _) => out.extend(crate::csr::check_request(value)),
        // One that goes may go, whatever was let in before.
        ("apiextensions.k8s.io", "CustomResourceDefinition") if !crate::object::is_deleting(value) => {
            out.extend(crate::crd::check_definition(value));
        }
        _ => {}
    }
    out
}

/// A key may stand in one of the two bags only.
fn twice(value: &Value, out: &mut Vec<Cause>) {
    let other = value.get("binaryData").and_then(Value::as_object);
    let data = value.get("data").and_then(Value::as_object);
    for key in data.into_iter().flatten().map(|(key, _)| key) {
        if other.is_some_and(|other| other.contains_key(key)) {
            let why = format!("Invalid value: {key:?}: duplicate of key present in binaryData");
            out.push(Cause::invalid(join_key("data", key), why));
        }
    }
}

/// What is left of a name of 63 characters for what the controller of CronJobs adds to it.
const MAX_CRON_JOB_NAME: usize = 52;

fn cron_job(value: &Value, new: bool, out: &mut Vec<Cause>) {
    let spec = value.get("spec").unwrap_or(&Value::Null);
    if text(spec, "schedule").is_empty() {
        out.push(Cause::required("spec.schedule", "Required value"));
    }
    one_of(
        spec,
        "concurrencyPolicy",
        "spec",
        &["Allow", "Forbid", "Replace"],
        out,
    );
    let name = crate::object::meta(value, "name");
    if new && name.len() > MAX_CRON_JOB_NAME {
        let why = format!("Invalid value: {name:?}: must be no more than {MAX_CRON_JOB_NAME} characters");
        out.push(Cause::invalid("metadata.name", why));
    }
    for field in [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ] {
        not_negative(value, &["spec", field], out);
    }
}

fn lease(value: &Value, out: &mut Vec<Cause>) {
    let seconds = at(value, &["spec", "leaseDurationSeconds"]);
    if seconds.and_then(Value::as_i64).is_some_and(|n| n <= 0) {
        let why = "must be greater than 0";
        out.push(Cause::invalid_value("spec.leaseDurationSeconds", seconds, why));
    }
    not_negative(value, &["spec", "leaseTransitions"], out);
}

/// The values of a ConfigMap or a Secret are bounded together, as decoded.
fn content_size(kind: &str, value: &Value, out: &mut Vec<Cause>) {
    let sizes = |field: &str, size: fn(&str) -> usize| -> usize {
        let values = value.get(field).and_then(Value::as_object).into_iter().flatten();
        values.filter_map(|(_, v)| v.as_str()).map(size).sum()
    };
    let decoded = |text: &str| {
        let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
        (text.len() / 4 * 3).saturating_sub(padding)
    };
    // Of a ConfigMap the whole object is said to be too long, which Kubernetes writes like this.
    let (field, size) = match kind {
        "Secret" => ("data", sizes("data", decoded)),
        _ => ("[]", sizes("data", str::len) + sizes("binaryData", decoded)),
    };
    if size > MAX_CONTENT {
        let why = format!("Too long: may not be more than {MAX_CONTENT} bytes");
        out.push(Cause::too_long(field, why));
    }
}

fn not_negative(value: &Value, path: &[&str], out: &mut Vec<Cause>) {
    if at(value, path).and_then(Value::as_i64).is_some_and(|n| n < 0) {
        out.push(Cause::invalid(
            path.join("."),
            "Invalid value: must be greater than or equal to 0",
        ));
    }
}

/// A selector must be there and match the labels of the pod template; one that matches everything is refused for `kind`.
fn selector(value: &Value, kind: Option<&str>, out: &mut Vec<Cause>) {
    let found = at(value, &["spec", "template", "metadata", "labels"]).unwrap_or(&Value::Null);
    let mismatch = || {
        let why = "`selector` does not match template `labels`";
        Cause::invalid_value("spec.template.metadata.labels", Some(found), why)
    };
    let Some(selector) = at(value, &["spec", "selector"]).filter(|s| !s.is_null()) else {
        out.push(Cause::required("spec.selector", "Required value"));
        out.push(mismatch());
        return;
    };
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let empty = wanted.is_none_or(serde_json::Map::is_empty) && expressions.is_none_or(Vec::is_empty);
    if let (true, Some(kind)) = (empty, kind) {
        let why = format!("empty selector is invalid for {}", kind.to_lowercase());
        out.push(Cause::invalid_value("spec.selector", Some(selector), &why));
        return;
    }
    let labels: Labels = found
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect();
    let equal = wanted
        .into_iter()
        .flatten()
        .all(|(k, v)| labels.get(k) == v.as_str());
    if !equal || !expressions.into_iter().flatten().all(|e| expression(e, &labels)) {
        out.push(mismatch());
    }
}

fn expression(expression: &Value, labels: &Labels) -> bool {
    let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
    let values = || {
        expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    };
    let have = labels.get(key);
    match expression.get("operator").and_then(Value::as_str) {
        Some("In") => have.is_some_and(|h| values().any(|v| v == h)),
        Some("NotIn") => have.is_none_or(|h| values().all(|v| v != h)),
        Some("Exists") => have.is_some(),
        Some("DoesNotExist") => have.is_none(),
        _ => false,
    }
}

fn always_restarts(value: &Value, out: &mut Vec<Cause>) {
    let spec = at(value, &["spec", "template", "spec"]).unwrap_or(&Value::Null);
    one_of(spec, "restartPolicy", "spec.template.spec", &["Always"], out);
}

fn template(value: &Value, path: &str, of: Of, out: &mut Vec<Cause>) {
    let keys: Vec<&str> = path.split('.').chain(["spec"]).collect();
    check_pod_spec(at(value, &keys), &join(path, "spec"), of, out);
}
