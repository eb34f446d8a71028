//! Order: which manifests go together. Waves run one after the other, the members of a wave in parallel; removal runs
//! them backwards.

use crate::object::ObjectKey;

/// Number of waves.
pub(crate) const WAVES: usize = 5;

/// The wave of an object: 0 what others live in, 1 what workloads use, 2 Services and workloads, 3 what intercepts the
/// API, 4 everything else. A known kind's name in a foreign group is everything else.
pub(crate) fn wave(key: &ObjectKey) -> usize {
    match (key.group.as_str(), key.kind.as_str()) {
        ("", "Namespace")
        | ("scheduling.k8s.io", "PriorityClass")
        | ("apiextensions.k8s.io", "CustomResourceDefinition")
        | ("storage.k8s.io", "StorageClass") => 0,
        (
            "",
            "ServiceAccount"
            | "Secret"
            | "ConfigMap"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "ResourceQuota"
            | "LimitRange",
        )
        | ("rbac.authorization.k8s.io", "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding")
        | ("networking.k8s.io", "NetworkPolicy" | "IngressClass")
        | ("policy", "PodDisruptionBudget") => 1,
        ("", "Service" | "Pod" | "ReplicationController")
        | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job" | "CronJob")
        | ("autoscaling", "HorizontalPodAutoscaler")
        | ("networking.k8s.io", "Ingress") => 2,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration"
            | "ValidatingWebhookConfiguration"
            | "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding",
        )
        | ("apiregistration.k8s.io", "APIService") => 3,
        _ => 4,
    }
}

/// Sorts items into waves, each in the order in which they came.
pub(crate) fn waves<T>(items: Vec<T>, key: impl Fn(&T) -> &ObjectKey) -> [Vec<T>; WAVES] {
    let mut waves: [Vec<T>; WAVES] = std::array::from_fn(|_| Vec::new());
    for item in items {
        let index = wave(key(&item));
        if let Some(wave) = waves.get_mut(index) {
            wave.push(item);
        }
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_their_waves() {
        let cases = [
            ("", "Namespace", 0),
            ("apiextensions.k8s.io", "CustomResourceDefinition", 0),
            ("", "ConfigMap", 1),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding", 1),
            ("apps", "Deployment", 2),
            ("batch", "Job", 2),
            ("", "Service", 2),
            ("apiregistration.k8s.io", "APIService", 3),
            ("example.com", "Widget", 4),
            ("example.com", "Deployment", 4),
            ("serving.knative.dev", "Service", 4),
        ];
        for (group, kind, expected) in cases {
            let key = ObjectKey {
                group: group.into(),
                kind: kind.into(),
                ..ObjectKey::default()
            };
            assert_eq!(wave(&key), expected, "{group}/{kind}");
        }
    }

    #[test]
    fn the_order_of_the_bundle_is_kept_within_a_wave() {
        let key = |kind: &str, name: &str| ObjectKey {
            kind: kind.into(),
            name: name.into(),
            ..ObjectKey::default()
        };
        let waves = waves(
            vec![
                key("Service", "b"),
                key("ConfigMap", "z"),
                key("Namespace", "n"),
                key("ConfigMap", "a"),
            ],
            |key| key,
        );
        let names: Vec<Vec<&str>> = waves
            .iter()
            .map(|wave| wave.iter().map(|key| key.name.as_str()).collect())
            .collect();
        assert_eq!(names, [vec!["n"], vec!["z", "a"], vec!["b"], vec![], vec![]]);
    }
}
