//! Checks of built-in kinds beyond types: the ones a manifest is most likely to trip over.

use serde_json::Value;

use super::metadata::check_config_keys;
use crate::{
    error::Cause,
    kinds::Resource,
    object::at,
    schema::{join, join_index},
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
                out.extend(crate::auth::check_revoked(value));
            }
        }
        ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet") => {
            selector(value, Some(&resource.kind), &mut out);
            template(value, "spec.template", &mut out);
            not_negative(value, &["spec", "replicas"], &mut out);
        }
        ("batch", "Job") => {
            selector(value, None, &mut out);
            super::job::check_selector(value, &mut out);
            template(value, "spec.template", &mut out);
            restart_policy(value, &["spec", "template", "spec", "restartPolicy"], &mut out);
        }
        ("batch", "CronJob") => {
            if at(value, &["spec", "schedule"])
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
            {
                out.push(Cause::required("spec.schedule", "Required value"));
            }
            template(value, "spec.jobTemplate.spec.template", &mut out);
            restart_policy(
                value,
                &["spec", "jobTemplate", "spec", "template", "spec", "restartPolicy"],
                &mut out,
            );
        }
        ("", "Pod") => containers(value.get("spec"), "spec", &mut out),
        ("coordination.k8s.io", "Lease") => lease(value, &mut out),
        (_, "Event") => out.extend(super::events::check_event(resource, value, new)),
        ("", "Service") => service(value, &mut out),
        ("rbac.authorization.k8s.io", kind) => super::roles::check_rbac(kind, value, &mut out),
        ("certificates.k8s.io", _) => out.extend(crate::csr::check_request(value)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            out.extend(crate::crd::check_definition(value))
        }
        _ => {}
    }
    out
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

fn template(value: &Value, path: &str, out: &mut Vec<Cause>) {
    let keys: Vec<&str> = path.split('.').chain(["spec"]).collect();
    containers(at(value, &keys), &join(path, "spec"), out);
}

fn containers(spec: Option<&Value>, path: &str, out: &mut Vec<Cause>) {
    let list = spec.and_then(|s| s.get("containers")).and_then(Value::as_array);
    let list: Vec<&Value> = list.into_iter().flatten().collect();
    let path = join(path, "containers");
    if list.is_empty() {
        out.push(Cause::required(&path, "Required value"));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (i, container) in list.into_iter().enumerate() {
        let at = join_index(&path, i);
        let text = |key: &str| container.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            out.push(Cause::required(join(&at, "name"), "Required value"));
        } else if !crate::names::dns_label(text("name")).is_empty() {
            out.push(Cause::invalid(
                join(&at, "name"),
                format!("Invalid value: {:?}: must be a DNS label", text("name")),
            ));
        } else if !seen.insert(text("name")) {
            out.push(Cause::duplicate(
                join(&at, "name"),
                format!("Duplicate value: {:?}", text("name")),
            ));
        }
        if text("image").trim().is_empty() {
            out.push(Cause::required(join(&at, "image"), "Required value"));
        }
    }
}

fn restart_policy(value: &Value, path: &[&str], out: &mut Vec<Cause>) {
    if !matches!(
        at(value, path).and_then(Value::as_str),
        Some("OnFailure" | "Never")
    ) {
        let why = "Unsupported value: supported values: \"OnFailure\", \"Never\"";
        out.push(Cause::not_supported(path.join("."), why));
    }
}

fn service(value: &Value, out: &mut Vec<Cause>) {
    let ty = at(value, &["spec", "type"])
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !matches!(ty, "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName") {
        out.push(Cause::not_supported(
            "spec.type",
            format!("Unsupported value: {ty:?}"),
        ));
    }
    let headless = at(value, &["spec", "clusterIP"]).and_then(Value::as_str) == Some("None");
    let ports = at(value, &["spec", "ports"]).and_then(Value::as_array);
    let ports: Vec<&Value> = ports.into_iter().flatten().collect();
    if ports.is_empty() && !headless && ty != "ExternalName" {
        out.push(Cause::required("spec.ports", "Required value"));
    }
    for (i, port) in ports.iter().enumerate() {
        let path = join_index("spec.ports", i);
        if ports.len() > 1
            && port
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
        {
            out.push(Cause::required(join(&path, "name"), "Required value"));
        }
        if !port
            .get("port")
            .and_then(Value::as_i64)
            .is_some_and(|p| (1..=65_535).contains(&p))
        {
            out.push(Cause::invalid(
                join(&path, "port"),
                "Invalid value: must be between 1 and 65535, inclusive",
            ));
        }
    }
}
