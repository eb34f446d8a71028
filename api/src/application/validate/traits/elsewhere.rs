//! Traits that KubeVela's users know and that are not built in, with the nearest thing to use.

const IN_TEMPLATE: &str = "write the workload as k8s-objects, with this in its pod template";
const OBJECT: &str = "put the object into a component of type k8s-objects";

/// What to use instead of a trait; `None` if nobody knows it.
pub(super) fn instead(type_: &str) -> Option<&'static str> {
    Some(match type_ {
        "ingress" | "gateway" | "pure-ingress" => {
            "use the trait expose, and a component of type k8s-objects with an Ingress or HTTPRoute to its Service"
        }
        "hpa" | "cpuscaler" | "keda-auto-scaler" => {
            "put a HorizontalPodAutoscaler into a component of type k8s-objects, and keep spec.replicas by a rule of an \
             apply-once policy; for a fixed number use scaler"
        }
        "manualscaler" | "manual-scaler" => "use scaler",
        "storage" => {
            "use volumes and volumeMounts of the component, and a component of type k8s-objects for a \
             PersistentVolumeClaim, ConfigMap or Secret"
        }
        "configmap" | "config-map" => {
            "put the ConfigMap into a component of type k8s-objects, and mount it with volumeMounts of the component"
        }
        "volumes" => "use volumes and volumeMounts of the component",
        "container-image" => "set image in the properties of the component",
        "container-ports" => "list ports in the properties of a webservice",
        "command" => "set cmd and args in the properties of the component",
        "hostalias" => "set hostAliases in the properties of the component",
        "service-binding" => "use env in the properties of the component, with valueFrom.secretKeyRef",
        "nodeselector" => "use node-selector",
        "node-affinity" => {
            "use node-selector for labels that nodes must have; for more write the workload as k8s-objects"
        }
        "init-container"
        | "startup-probe"
        | "lifecycle"
        | "securitycontext"
        | "podsecuritycontext"
        | "affinity"
        | "topologyspreadconstraints" => IN_TEMPLATE,
        "service-account" => {
            "write the ServiceAccount, its roles and the workload as k8s-objects, with serviceAccountName in the pod \
             template"
        }
        "k8s-update-strategy" => "write the workload as k8s-objects, with its spec.strategy",
        "json-patch" | "json-merge-patch" | "patch" => {
            "use overrides of a placement (patch, jsonPatch), whose target names one object; without a selector they change \
             it on every cluster"
        }
        "rollout" | "kruise-rollout" => "use several deploy steps of the workflow, with suspend between them",
        "replication" => "write one component per copy",
        "import-grafana-dashboard" | "register-grafana-datasource" | "nocalhost" | "share-cloud-resource" => {
            OBJECT
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{super::TYPES, instead};

    #[test]
    fn what_is_built_in_needs_no_other() {
        assert!(TYPES.iter().all(|type_| instead(type_).is_none()));
        assert_eq!(instead("no-such-trait"), None);
    }
}
