//! Built-in kinds other than workloads.

use super::{Readiness, field, saying, true_condition};
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
        phase => {
            let why = waiting(live).unwrap_or_default();
            Readiness::Progressing(format!(
                "the pod is {}, not ready{why}",
                phase.unwrap_or("Pending")
            ))
        }
    }
}

/// Why the first container that waits does so (`CrashLoopBackOff`). It may recover: no failure.
fn waiting(live: &Value) -> Option<String> {
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let lists = statuses
        .iter()
        .filter_map(|list| live.pointer(&format!("/status/{list}"))?.as_array());
    lists.flatten().find_map(|status| {
        let reason = text(status, "/state/waiting/reason")?;
        Some(format!(
            ": container {} {reason}",
            text(status, "/name").unwrap_or_default()
        ))
    })
}

/// A claim that nobody provisions for stays `Pending` until a pod uses it, if its class says `WaitForFirstConsumer`:
/// waiting for that could last for ever, and the workload that uses the claim shows soon enough whether it got its
/// volume. So a pending claim holds nothing up unless a volume is on its way: Kubernetes then names the provisioner in
/// an annotation, or the volume in the spec.
pub(super) fn volume_claim(live: &Value) -> Readiness {
    const PROVISIONER: [&str; 2] = [
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
    ];
    match text(live, "/status/phase") {
        Some("Bound") => Readiness::Ready,
        Some("Lost") => Readiness::failed("Lost", "the volume of the claim is lost"),
        phase => {
            let provisioned = PROVISIONER
                .iter()
                .any(|key| object::annotation(live, key).is_some());
            let named = text(live, "/spec/volumeName").is_some_and(|name| !name.is_empty());
            if provisioned || named {
                Readiness::Progressing(format!("the claim is {}", phase.unwrap_or("Pending")))
            } else {
                Readiness::Ready
            }
        }
    }
}

/// A Service needs its cluster IP (`None` for a headless one), a load balancer an address besides. An `ExternalName` is
/// only a name.
pub(super) fn service(live: &Value) -> Readiness {
    let type_ = text(live, "/spec/type").unwrap_or("ClusterIP");
    if type_ == "ExternalName" {
        return Readiness::Ready;
    }
    if text(live, "/spec/clusterIP").is_none_or(str::is_empty) {
        return Readiness::progressing("it has no cluster IP yet");
    }
    if type_ != "LoadBalancer" {
        return Readiness::Ready;
    }
    let ingress = live
        .pointer("/status/loadBalancer/ingress")
        .and_then(Value::as_array);
    let has_address = |ingress: &Value| ["/ip", "/hostname"].iter().any(|at| text(ingress, at).is_some());
    if ingress.is_some_and(|ingress| ingress.iter().any(has_address)) {
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

/// An API of an extension server; what it says is the aggregator's.
pub(super) fn api_service(live: &Value) -> Readiness {
    match object::condition(live, "Available") {
        Some(available) if field(available, "status") == "True" => Readiness::Ready,
        Some(available) => Readiness::Progressing(format!("not available: {}", saying(available))),
        None => Readiness::progressing("not available yet"),
    }
}

/// A budget that allows no disruption right now does what it is for; too few healthy pods are too few.
pub(super) fn disruption_budget(live: &Value) -> Readiness {
    if let Some(condition) = object::condition(live, "DisruptionAllowed")
        && field(condition, "reason") == "SyncFailed"
    {
        return Readiness::Progressing(saying(condition));
    }
    let read = |name: &str| number(live, &format!("/status/{name}")).unwrap_or(0);
    let (healthy, wanted) = (read("currentHealthy"), read("desiredHealthy"));
    if healthy < wanted {
        return Readiness::Progressing(format!("{healthy} of {wanted} pods are healthy"));
    }
    Readiness::Ready
}

/// An autoscaler that cannot read its metrics or find its target is not ready; it recovers by itself, so that is no
/// failure. One that is switched off by 0 replicas is as wanted, and where no controller says anything, nothing is known
/// against it.
pub(super) fn autoscaler(live: &Value) -> Readiness {
    let false_one = ["AbleToScale", "ScalingActive"].into_iter().find_map(|type_| {
        let condition = object::condition(live, type_)?;
        let off = field(condition, "status") == "False" && field(condition, "reason") != "ScalingDisabled";
        off.then_some(condition)
    });
    match false_one {
        Some(condition) => Readiness::Progressing(format!(
            "{} is False: {}",
            field(condition, "type"),
            saying(condition)
        )),
        None => Readiness::Ready,
    }
}

/// Kinds that do what they are for as soon as they are stored, or whose doing is no business of a roll-out: a CronJob,
/// also a suspended one, and an Ingress, whose address many controllers never write.
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
            | ("admissionregistration.k8s.io", _)
            | ("coordination.k8s.io" | "discovery.k8s.io", _)
    )
}

#[cfg(test)]
mod tests {
    use crate::observe::tests::verdict;
    use serde_json::{Value, json};

    fn check(group: &str, kind: &str, cases: &[(Value, &str)]) {
        for (live, expected) in cases {
            assert_eq!(&verdict(group, kind, live), expected, "{kind} {live}");
        }
    }

    fn conditions(type_: &str, status: &str, reason: &str) -> Value {
        json!({"status": {"conditions": [{"type": type_, "status": status, "reason": reason}]}})
    }

    #[test]
    fn d10_pods() {
        let mut running = conditions("Ready", "True", "");
        running["status"]["phase"] = json!("Running");
        check(
            "",
            "Pod",
            &[
                (json!({"status": {"phase": "Succeeded"}}), "ready"),
                (
                    json!({"status": {"phase": "Failed", "reason": "Evicted"}}),
                    "Evicted",
                ),
                (json!({"status": {"phase": "Failed"}}), "Failed"),
                (running, "ready"),
                (json!({"status": {"phase": "Running"}}), "progressing"),
                (json!({}), "progressing"),
            ],
        );
        let crashing = json!({"status": {"phase": "Running", "containerStatuses": [{"name": "a", "state": {"running": {}}},
            {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        let readiness = super::pod(&crashing);
        assert_eq!(
            readiness,
            super::Readiness::progressing("the pod is Running, not ready: container b CrashLoopBackOff")
        );
    }

    #[test]
    fn a_pending_claim_holds_nothing_up_unless_a_volume_is_on_its_way() {
        let provisioned = json!({"volume.kubernetes.io/storage-provisioner": "csi"});
        check(
            "",
            "PersistentVolumeClaim",
            &[
                (json!({"status": {"phase": "Bound"}}), "ready"),
                (json!({"status": {"phase": "Lost"}}), "Lost"),
                (json!({"status": {"phase": "Pending"}}), "ready"),
                (json!({}), "ready"),
                (
                    json!({"metadata": {"annotations": provisioned}, "status": {"phase": "Pending"}}),
                    "progressing",
                ),
                (
                    json!({"spec": {"volumeName": "pv-1"}, "status": {"phase": "Pending"}}),
                    "progressing",
                ),
                (
                    json!({"metadata": {"annotations": provisioned}, "status": {"phase": "Bound"}}),
                    "ready",
                ),
            ],
        );
    }

    #[test]
    fn d10_services() {
        let balancer = |ingress: Value| {
            json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"},
                "status": {"loadBalancer": {"ingress": ingress}}})
        };
        check(
            "",
            "Service",
            &[
                (
                    json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1"}}),
                    "ready",
                ),
                (json!({"spec": {"clusterIP": "10.0.0.1"}}), "ready"),
                (json!({"spec": {"type": "ClusterIP"}}), "progressing"),
                (
                    json!({"spec": {"type": "ClusterIP", "clusterIP": ""}}),
                    "progressing",
                ),
                (
                    json!({"spec": {"type": "ClusterIP", "clusterIP": "None"}}),
                    "ready",
                ),
                (
                    json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.1"}}),
                    "ready",
                ),
                (json!({"spec": {"type": "NodePort"}}), "progressing"),
                (
                    json!({"spec": {"type": "ExternalName", "externalName": "x.example.com"}}),
                    "ready",
                ),
                (
                    json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1"}}),
                    "progressing",
                ),
                (balancer(json!([])), "progressing"),
                (balancer(json!([{}])), "progressing"),
                (balancer(json!([{"ip": "1.2.3.4"}])), "ready"),
                (balancer(json!([{"hostname": "lb.example.com"}])), "ready"),
            ],
        );
    }

    #[test]
    fn d10_definitions_namespaces_and_extension_servers() {
        let both = json!({"status": {"conditions": [{"type": "Established", "status": "True"},
            {"type": "NamesAccepted", "status": "True"}]}});
        check(
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            &[
                (json!({}), "progressing"),
                (both, "ready"),
                (conditions("Established", "False", "Installing"), "progressing"),
                (conditions("NamesAccepted", "False", "Why"), "Why"),
            ],
        );
        check(
            "",
            "Namespace",
            &[
                (json!({"status": {"phase": "Active"}}), "ready"),
                (json!({"status": {"phase": "Terminating"}}), "progressing"),
            ],
        );
        check(
            "apiregistration.k8s.io",
            "APIService",
            &[
                (json!({}), "progressing"),
                (conditions("Available", "True", "Passed"), "ready"),
                (conditions("Available", "False", "ServiceNotFound"), "progressing"),
            ],
        );
    }

    #[test]
    fn d10_disruption_budgets() {
        let budget = |observed: u32, current: u32, desired: u32| {
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "currentHealthy": current,
                "desiredHealthy": desired, "disruptionsAllowed": 0}})
        };
        let mut broken = conditions("DisruptionAllowed", "False", "SyncFailed");
        broken["metadata"]["generation"] = json!(0);
        check(
            "policy",
            "PodDisruptionBudget",
            &[
                (budget(2, 1, 2), "progressing"),
                (budget(2, 2, 2), "ready"),
                (budget(1, 2, 2), "progressing"),
                (budget(2, 0, 0), "ready"),
                (broken, "progressing"),
            ],
        );
    }

    #[test]
    fn d10_autoscalers() {
        check(
            "autoscaling",
            "HorizontalPodAutoscaler",
            &[
                (json!({}), "ready"),
                (conditions("ScalingActive", "True", "ValidMetricFound"), "ready"),
                (
                    conditions("ScalingActive", "False", "FailedGetResourceMetric"),
                    "progressing",
                ),
                (conditions("ScalingActive", "False", "ScalingDisabled"), "ready"),
                (
                    conditions("AbleToScale", "False", "FailedGetScale"),
                    "progressing",
                ),
                (conditions("ScalingLimited", "True", "TooManyReplicas"), "ready"),
            ],
        );
    }

    #[test]
    fn d10_kinds_that_are_ready_once_applied() {
        for (group, kind) in [
            ("", "ConfigMap"),
            ("", "Secret"),
            ("", "ServiceAccount"),
            ("", "LimitRange"),
            ("", "ResourceQuota"),
            ("", "PersistentVolume"),
            ("rbac.authorization.k8s.io", "Role"),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
            ("networking.k8s.io", "NetworkPolicy"),
            ("networking.k8s.io", "Ingress"),
            ("networking.k8s.io", "IngressClass"),
            ("storage.k8s.io", "StorageClass"),
            ("scheduling.k8s.io", "PriorityClass"),
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
            ("batch", "CronJob"),
        ] {
            assert_eq!(verdict(group, kind, &json!({})), "ready", "{kind}");
        }
        assert_eq!(
            verdict("batch", "CronJob", &json!({"spec": {"suspend": true}})),
            "ready"
        );
    }
}
