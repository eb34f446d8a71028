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
