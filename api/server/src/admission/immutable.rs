//! Fields of built-in kinds that may not change, in Kubernetes' own words (`Validate…Update` of its API groups): clients
//! tell by them that an object has to be made anew.

use serde_json::Value;

use crate::{
    error::Cause,
    kinds::Resource,
    object::{at, set, text},
};

const IMMUTABLE: &str = "field is immutable";

/// What an update of a built-in object changes although it may not.
pub(crate) fn check_immutable(resource: &Resource, old: &Value, new: &Value) -> Vec<Cause> {
    let mut out = vec![];
    let mut fixed = |path: &[&str]| unchanged(old, new, path, &mut out);
    match (&*resource.group, &*resource.kind) {
        ("apps", "Deployment" | "DaemonSet" | "ReplicaSet") => fixed(&["spec", "selector"]),
        ("apps", "StatefulSet") => stateful_set(old, new, &mut out),
        ("batch", "Job") => super::job::check_update(old, new, &mut out),
        ("", "Secret") => {
            fixed(&["type"]);
            frozen(old, new, &["data"], &mut out);
        }
        ("", "ConfigMap") => frozen(old, new, &["data", "binaryData"], &mut out),
        ("", "Pod") => pod(old, new, &mut out),
        ("", "Service") => service(old, new, &mut out),
        ("", "PersistentVolumeClaim") => claim(old, new, &mut out),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if old.get("roleRef") != new.get("roleRef") =>
        {
            let why = "cannot change roleRef";
            out.push(Cause::invalid_value("roleRef", new.get("roleRef"), why));
        }
        ("networking.k8s.io", "IngressClass") => fixed(&["spec", "controller"]),
        ("storage.k8s.io", "StorageClass") => storage_class(old, new, &mut out),
        ("scheduling.k8s.io", "PriorityClass") => {
            if old.get("value") != new.get("value") {
                out.push(Cause::forbidden(
                    "value",
                    "Forbidden: may not be changed in an update.",
                ));
            }
            unchanged(old, new, &["preemptionPolicy"], &mut out);
        }
        ("apiextensions.k8s.io", _) => {
            fixed(&["spec", "group"]);
            fixed(&["spec", "scope"]);
            fixed(&["spec", "names", "plural"]);
            fixed(&["spec", "names", "kind"]);
        }
        _ => {}
    }
    out
}

/// The value at a path stays as it is.
pub(super) fn unchanged(old: &Value, new: &Value, path: &[&str], out: &mut Vec<Cause>) {
    let value = |v: &Value| at(v, path).filter(|v| !v.is_null()).cloned();
    let (was, is) = (value(old), value(new));
    if was != is {
        out.push(Cause::invalid_value(path.join("."), is.as_ref(), IMMUTABLE));
    }
}

/// `immutable: true` cannot be taken back, and what it protects stays.
fn frozen(old: &Value, new: &Value, content: &[&str], out: &mut Vec<Cause>) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    for key in ["immutable"].iter().chain(content) {
        // An empty map is none.
        let value = |v: &Value| {
            let value = v.get(*key).cloned().unwrap_or_default();
            let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
            if empty { Value::Null } else { value }
        };
        if value(old) != value(new) {
            let why = "Forbidden: field is immutable when `immutable` is set";
            out.push(Cause::forbidden(*key, why));
        }
    }
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

fn storage_class(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    for key in ["parameters", "provisioner", "reclaimPolicy"] {
        if old.get(key) != new.get(key) {
            let why = format!("Forbidden: updates to {key} are forbidden.");
            out.push(Cause::forbidden(key, why));
        }
    }
    unchanged(old, new, &["volumeBindingMode"], out);
}

/// Of a claim's spec, its volume may be named once, its class once, and of a bound claim the requested size and the
/// attributes class may change (`ValidatePersistentVolumeClaimUpdate`).
fn claim(old: &Value, new: &Value, out: &mut Vec<Cause>) {
    let bound = text(new, &["status", "phase"]) == Some("Bound");
    let spec = |v: &Value| v.get("spec").cloned().unwrap_or_default();
    let (was, mut is) = (spec(old), spec(new));
    let mut let_pass = |key: &str| set(&mut is, key, was.get(key).cloned());
    for key in ["volumeName", "storageClassName"] {
        if text(&was, &[key]).unwrap_or_default().is_empty() {
            let_pass(key);
        }
    }
    if bound {
        let_pass("volumeAttributesClassName");
        let size = at(&was, &["resources", "requests", "storage"]).cloned();
        if let Some(requests) = is.pointer_mut("/resources/requests") {
            set(requests, "storage", size);
        }
    }
    if was != is {
        let why = "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
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
            set(&mut spec, key, None);
        }
        for key in ["containers", "initContainers"] {
            let list = spec.get_mut(key).and_then(Value::as_array_mut);
            for container in list.into_iter().flatten() {
                set(container, "image", None);
            }
        }
        // Here there is no `binding`, by which a scheduler sets the node elsewhere.
        if at(old, &["spec", "nodeName"]).is_none() {
            set(&mut spec, "nodeName", None);
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
    let external = |v: &Value| text(v, &["spec", "type"]) == Some("ExternalName");
    let ip = |v: &Value| text(v, &["spec", "clusterIP"]).unwrap_or_default().to_owned();
    if !external(old) && !external(new) && !ip(old).is_empty() && ip(old) != ip(new) {
        // The list follows the single address, whatever it said.
        let addresses = Value::from(vec![ip(new)]);
        let why = "may not change once set";
        out.push(Cause::invalid_value("spec.clusterIPs[0]", Some(&addresses), why));
    }
}
