//! Fields of built-in kinds that may not change.

use serde_json::Value;

use crate::{error::Cause, kinds::Resource, object::at};

/// What an update of a built-in object changes although it may not.
pub(crate) fn check_immutable(resource: &Resource, old: &Value, new: &Value) -> Vec<Cause> {
    let mut out = vec![];
    let mut fixed = |path: &[&str]| {
        if at(old, path) != at(new, path) {
            out.push(Cause::invalid(
                path.join("."),
                "Invalid value: field is immutable",
            ));
        }
    };
    match (&*resource.group, &*resource.kind) {
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet") => fixed(&["spec", "selector"]),
        ("apps", "StatefulSet") => stateful_set(old, new, &mut out),
        ("batch", "Job") => {
            fixed(&["spec", "selector"]);
            fixed(&["spec", "completionMode"]);
            fixed(&["spec", "template"]);
        }
        ("", "ConfigMap" | "Secret") => {
            if old.get("immutable") == Some(&Value::Bool(true)) {
                let why = "Forbidden: field is immutable when `immutable` is set";
                for key in ["immutable", "data", "binaryData"] {
                    if old.get(key) != new.get(key) {
                        out.push(Cause::forbidden(key, why));
                    }
                }
            }
            if resource.kind == "Secret" && old.get("type") != new.get("type") {
                out.push(Cause::invalid("type", "Invalid value: field is immutable"));
            }
        }
        ("", "Pod") => pod(old, new, &mut out),
        ("", "Service") => service(old, new, &mut out),
        ("", "PersistentVolumeClaim") => {
            let without_size = |v: &Value| {
                let mut spec = v.get("spec").cloned().unwrap_or_default();
                for key in [
                    "resources",
                    "volumeAttributesClassName",
                    "volumeName",
                    "storageClassName",
                ] {
                    crate::object::set(&mut spec, key, None);
                }
                spec
            };
            if without_size(old) != without_size(new) {
                out.push(Cause::forbidden(
                    "spec",
                    "Forbidden: spec is immutable after creation except resources.requests",
                ));
            }
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if old.get("roleRef") != new.get("roleRef") =>
        {
            out.push(Cause::invalid("roleRef", "Invalid value: cannot change roleRef"));
        }
        ("storage.k8s.io", "StorageClass") => {
            for key in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
                if old.get(key) != new.get(key) {
                    out.push(Cause::forbidden(key, "Forbidden: field is immutable"));
                }
            }
        }
        ("scheduling.k8s.io", "PriorityClass") if old.get("value") != new.get("value") => {
            out.push(Cause::forbidden(
                "value",
                "Forbidden: may not be changed in an update",
            ));
        }
        ("apiextensions.k8s.io", _) => {
            for path in [
                &["spec", "group"][..],
                &["spec", "scope"],
                &["spec", "names", "plural"],
                &["spec", "names", "kind"],
            ] {
                if at(old, path) != at(new, path) {
                    out.push(Cause::invalid(
                        path.join("."),
                        "Invalid value: field is immutable",
                    ));
                }
            }
        }
        _ => {}
    }
    out
}

fn stateful_set(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let spec = |v: &Value| {
        let mut spec = v
            .get("spec")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        spec.retain(|key, _| !MUTABLE.contains(&key.as_str()));
        spec
    };
    if spec(old) != spec(new) {
        let why = "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        out.push(Cause::forbidden("spec", why));
    }
}

/// Of a pod's spec only images, tolerations and a few times may change (`ValidatePodUpdate`), and its node be set once.
fn pod(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    let count = |v: &Value, key: &str| {
        at(v, &["spec", key])
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    let before = out.len();
    for key in ["containers", "initContainers"] {
        if count(old, key) != count(new, key) {
            let why = "Forbidden: pod updates may not add or remove containers";
            out.push(Cause::forbidden(format!("spec.{key}"), why));
        }
    }
    if out.len() > before {
        return;
    }
    let fixed = |v: &Value| {
        let mut spec = v.get("spec").cloned().unwrap_or_default();
        for key in [
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
            "schedulingGates",
        ] {
            crate::object::set(&mut spec, key, None);
        }
        for key in ["containers", "initContainers"] {
            let list = spec.get_mut(key).and_then(Value::as_array_mut);
            for container in list.into_iter().flatten() {
                crate::object::set(container, "image", None);
            }
        }
        // Here there is no `binding`, by which a scheduler sets the node elsewhere.
        if at(old, &["spec", "nodeName"]).is_none() {
            crate::object::set(&mut spec, "nodeName", None);
        }
        spec
    };
    if fixed(old) != fixed(new) {
        let why = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        out.push(Cause::forbidden("spec", why));
    }
}

/// The first cluster IP stays while the type needs one.
fn service(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    let external = |v: &Value| crate::object::text(v, &["spec", "type"]) == Some("ExternalName");
    let ip = |v: &Value| {
        crate::object::text(v, &["spec", "clusterIP"])
            .unwrap_or_default()
            .to_owned()
    };
    if !external(old) && !external(new) && !ip(old).is_empty() && ip(old) != ip(new) {
        let why = format!("Invalid value: {:?}: may not change once set", ip(new));
        out.push(Cause::invalid("spec.clusterIPs[0]", why));
    }
}
