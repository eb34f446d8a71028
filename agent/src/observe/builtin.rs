//! Built-in kinds other than workloads.

use super::{Readiness, field, true_condition};
use crate::object::{self, ObjectKey, number, text};
use serde_json::Value;

pub(super) fn pod(live: &Value) -> Readiness {
    match text(live, "/status/phase") {
        Some("Succeeded") => Readiness::Ready,
        Some("Failed") => Readiness::failed(
            text(live, "/status/reason").unwrap_or_default(),
            text(live, "/status/message").unwrap_or("the pod failed"),
        ),
        _ if true_condition(live, "Ready").is_some() => Readiness::Ready,
        phase => Readiness::Progressing(format!("the pod is {}, not ready", phase.unwrap_or("Pending"))),
    }
}

pub(super) fn volume_claim(live: &Value) -> Readiness {
    match text(live, "/status/phase") {
        Some("Bound") => Readiness::Ready,
        Some("Lost") => Readiness::failed("Lost", "the volume of the claim is lost"),
        phase => Readiness::Progressing(format!("the claim is {}", phase.unwrap_or("Pending"))),
    }
}

/// Only a load balancer takes time; everything else about a Service is there when it is made.
pub(super) fn service(live: &Value) -> Readiness {
    if text(live, "/spec/type") != Some("LoadBalancer") {
        return Readiness::Ready;
    }
    let ingress = live
        .pointer("/status/loadBalancer/ingress")
        .and_then(Value::as_array);
    if ingress.is_some_and(|ingress| !ingress.is_empty()) {
        Readiness::Ready
    } else {
        Readiness::progressing("the load balancer has no address yet")
    }
}

pub(super) fn namespace(live: &Value) -> Readiness {
    match text(live, "/status/phase") {
        Some("Terminating") => Readiness::progressing("being deleted"),
        _ => Readiness::Ready,
    }
}

pub(super) fn definition(live: &Value) -> Readiness {
    if let Some(names) = object::condition(live, "NamesAccepted")
        && field(names, "status") == "False"
    {
        return Readiness::failed(field(names, "reason"), field(names, "message"));
    }
    if true_condition(live, "Established").is_some() {
        Readiness::Ready
    } else {
        Readiness::progressing("not established yet")
    }
}

pub(super) fn disruption_budget(live: &Value) -> Readiness {
    let read = |name: &str| number(live, &format!("/status/{name}")).unwrap_or(0);
    let (healthy, wanted) = (read("currentHealthy"), read("desiredHealthy"));
    if healthy < wanted {
        return Readiness::Progressing(format!("{healthy} of {wanted} pods are healthy"));
    }
    Readiness::Ready
}

/// Kinds that do what they are for as soon as they are stored, or whose doing is no business of a roll-out.
pub(super) fn ready_once_applied(key: &ObjectKey) -> bool {
    matches!(
        (key.group.as_str(), key.kind.as_str()),
        (
            "",
            "ConfigMap"
                | "Secret"
                | "ServiceAccount"
                | "LimitRange"
                | "ResourceQuota"
                | "Endpoints"
                | "PersistentVolume"
        ) | ("rbac.authorization.k8s.io", _)
            | ("networking.k8s.io", "NetworkPolicy" | "IngressClass" | "Ingress")
            | ("storage.k8s.io", "StorageClass" | "CSIDriver")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("batch", "CronJob")
            | ("autoscaling", "HorizontalPodAutoscaler")
            | ("admissionregistration.k8s.io", _)
            | ("coordination.k8s.io" | "discovery.k8s.io", _)
    )
}

#[cfg(test)]
mod tests {
    use crate::observe::tests::verdict;
    use serde_json::json;

    #[test]
    fn built_in_kinds() {
        let conditions =
            |type_: &str, status: &str| json!([{"type": type_, "status": status, "reason": "Why"}]);
        for (group, kind, live, expected) in [
            ("", "Pod", json!({"status": {"phase": "Succeeded"}}), "ready"),
            (
                "",
                "Pod",
                json!({"status": {"phase": "Failed", "reason": "Evicted"}}),
                "Evicted",
            ),
            ("", "Pod", json!({"status": {"phase": "Failed"}}), "Failed"),
            (
                "",
                "Pod",
                json!({"status": {"phase": "Running", "conditions": conditions("Ready", "True")}}),
                "ready",
            ),
            ("", "Pod", json!({"status": {"phase": "Running"}}), "progressing"),
            ("", "Pod", json!({}), "progressing"),
            (
                "",
                "PersistentVolumeClaim",
                json!({"status": {"phase": "Bound"}}),
                "ready",
            ),
            (
                "",
                "PersistentVolumeClaim",
                json!({"status": {"phase": "Lost"}}),
                "Lost",
            ),
            ("", "PersistentVolumeClaim", json!({}), "progressing"),
            ("", "Service", json!({"spec": {"type": "ClusterIP"}}), "ready"),
            (
                "",
                "Service",
                json!({"spec": {"type": "LoadBalancer"}}),
                "progressing",
            ),
            (
                "",
                "Service",
                json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
                "ready",
            ),
            ("", "Namespace", json!({"status": {"phase": "Active"}}), "ready"),
            (
                "",
                "Namespace",
                json!({"status": {"phase": "Terminating"}}),
                "progressing",
            ),
            (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                json!({}),
                "progressing",
            ),
            (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                json!({"status": {"conditions": conditions("Established", "True")}}),
                "ready",
            ),
            (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                json!({"status": {"conditions": conditions("NamesAccepted", "False")}}),
                "Why",
            ),
            (
                "policy",
                "PodDisruptionBudget",
                json!({"status": {"currentHealthy": 1, "desiredHealthy": 2}}),
                "progressing",
            ),
            (
                "policy",
                "PodDisruptionBudget",
                json!({"status": {"currentHealthy": 2, "desiredHealthy": 2}}),
                "ready",
            ),
            ("", "ConfigMap", json!({}), "ready"),
            ("rbac.authorization.k8s.io", "Role", json!({}), "ready"),
            ("batch", "CronJob", json!({}), "ready"),
        ] {
            assert_eq!(verdict(group, kind, &live), expected, "{kind} {live}");
        }
    }
}
