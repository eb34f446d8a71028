//! What only Pods have: eviction, binding, ephemeral containers and resizing.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Call, DeleteOptions, decode_stored, selector_text,
    update::{Part, Refusal, TRIES, store_update},
};
use crate::{
    clock::rfc3339,
    error::{ApiError, Cause},
    kinds::Resource,
    object::{self, at, meta, text},
    request::parse_object,
    selector::{LabelSelector, Labels},
    server::Core,
    service::Reply,
    store::{Key, Record},
};

/// The part of a Pod that a subresource writes; `None` if it is no such subresource.
pub(super) fn part(subresource: &str) -> Option<Part> {
    match subresource {
        "ephemeralcontainers" => Some(Part::Ephemeral),
        "resize" => Some(Part::Resize),
        _ => None,
    }
}

/// What a kubelet would do: there is none behind this server.
pub(super) fn connect(core: &Core, call: &Call) -> Result<Reply, ApiError> {
    let record = core.store.get(&call.key());
    let pod = object::decode(&record.ok_or_else(|| call.resource.not_found(call.name()))?.bytes);
    let name = call.name();
    match text(&pod, &["spec", "nodeName"]).unwrap_or_default() {
        "" => Err(ApiError::bad_request(format!(
            "pod {name} does not have a host assigned"
        ))),
        node => Err(ApiError::new(
            503,
            "ServiceUnavailable",
            format!(
                "pod {name} runs nowhere: this server has no connection to node {node}, so there are no logs and no shell"
            ),
        )),
    }
}

fn done() -> Reply {
    Reply::with(
        201,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

/// The body of a request on a subresource with a kind of its own, which must name the Pod of the path.
fn body_of(call: &Call, kind: &str, body: &Bytes) -> Result<Value, ApiError> {
    let sent = parse_object(&call.media, body)?.value;
    if let Some(have) = text(&sent, &["kind"]).filter(|have| *have != kind) {
        return Err(ApiError::bad_request(format!(
            "{have} cannot be handled as a {kind}: send one"
        )));
    }
    match meta(&sent, "name") {
        "" => Ok(sent),
        name if name == call.name() => Ok(sent),
        _ => Err(ApiError::bad_request(
            "name in URL does not match name in the object",
        )),
    }
}

/// `POST …/pods/{name}/eviction`: a delete that the PodDisruptionBudgets of the Pod may refuse.
pub(super) fn evict(core: &Core, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let sent = body_of(call, "Eviction", body)?;
    let mut options = DeleteOptions::of(at(&sent, &["deleteOptions"]).unwrap_or(&Value::Null))?;
    options.dry_run |= call.query.dry_run;
    let key = call.key();
    let record = core
        .store
        .get(&key)
        .ok_or_else(|| call.resource.not_found(call.name()))?;
    let pod = decode_stored(&call.resource, &record.bytes);
    // A pod that serves nobody, or is on its way out already, disturbs nothing.
    let idle = matches!(
        text(&pod, &["status", "phase"]),
        Some("Succeeded" | "Failed" | "Pending")
    );
    if !idle && !object::is_deleting(&pod) {
        disturb(core, call.namespace(), &pod, options.dry_run)?;
    }
    super::remove(core, &call.resource, &key, &options)?;
    Ok(done())
}

/// Takes one disruption from the budget of a Pod.
fn disturb(core: &Core, namespace: &str, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    let Some(budgets) = core.registry.by_kind("policy/v1", "PodDisruptionBudget") else {
        return Ok(());
    };
    for _ in 0..TRIES {
        let found = budgets_of(core, &budgets, namespace, pod);
        let (key, record, budget) = match found.len() {
            0 => return Ok(()),
            1 => match found.into_iter().next() {
                Some(one) => one,
                None => return Ok(()),
            },
            _ => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(ApiError::internal(why));
            }
        };
        let count = |field: &str| {
            let found = at(&budget, &["status", field]).and_then(Value::as_i64);
            found.unwrap_or(0)
        };
        let name = key.name.to_string();
        if count("observedGeneration") < object::generation(&budget) {
            let why = format!("The disruption budget {name} is still being processed by the server.");
            return Err(refused(&why));
        }
        let left = count("disruptionsAllowed");
        if left <= 0 {
            let why = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                count("desiredHealthy"),
                count("currentHealthy")
            );
            return Err(refused(&why));
        }
        if dry_run {
            return Ok(());
        }
        let now = rfc3339((core.clock)());
        let mut less = budget.clone();
        if let Some(status) = less.as_object_mut().and_then(|map| object::child(map, "status")) {
            status.insert("disruptionsAllowed".into(), (left - 1).into());
            if let Some(pods) = object::child(status, "disruptedPods") {
                pods.insert(meta(pod, "name").to_owned(), now.into());
            }
        }
        let intent = super::Intent::of_controller(Part::Status);
        match store_update(core, &budgets, &key, &record, budget, less, &intent) {
            Err(Refusal::Raced) => {}
            Err(Refusal::Error(error)) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
    Err(refused("The disruption budget changes too fast."))
}

fn refused(why: &str) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::new(429, "TooManyRequests", message);
    error.details.causes = vec![Cause::disruption_budget(why)];
    error
}

/// The budgets of a namespace that select a Pod.
fn budgets_of(core: &Core, budgets: &Resource, namespace: &str, pod: &Value) -> Vec<(Key, Record, Value)> {
    let labels: Labels = at(pod, &["metadata", "labels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect();
    let selecting = |(key, record): (Key, Record)| {
        let budget = decode_stored(budgets, &record.bytes);
        // One without a selector selects nothing, one with an empty selector everything.
        let selector = at(&budget, &["spec", "selector"]).filter(|s| !s.is_null())?;
        let selector = LabelSelector::parse(&selector_text(Some(selector))).ok()?;
        selector.matches(&labels).then_some((key, record, budget))
    };
    core.records(&budgets.table, Some(namespace))
        .filter_map(selecting)
        .collect()
}

/// `POST …/pods/{name}/binding`: puts a Pod on a node, as a scheduler does.
pub(super) fn bind(core: &Core, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let sent = body_of(call, "Binding", body)?;
    let invalid = |field: &str, why: &str| {
        let mut error = call
            .resource
            .invalid(call.name(), vec![Cause::required(field, why)]);
        error.details.kind = "Binding".to_owned();
        error
    };
    let node = text(&sent, &["target", "name"]).unwrap_or_default();
    if node.is_empty() {
        return Err(invalid("target.name", "Required value"));
    }
    let key = call.key();
    for _ in 0..TRIES {
        let record = core
            .store
            .get(&key)
            .ok_or_else(|| call.resource.not_found(call.name()))?;
        let pod = decode_stored(&call.resource, &record.bytes);
        let uid = meta(&sent, "uid");
        if !uid.is_empty() && uid != meta(&pod, "uid") {
            let have = meta(&pod, "uid");
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {have}");
            return Err(call.resource.conflict_because(call.name(), &why));
        }
        if object::is_deleting(&pod) {
            let why = format!(
                "pod {} is being deleted, cannot be assigned to a host",
                call.name()
            );
            return Err(call.resource.conflict_because(call.name(), &why));
        }
        if let Some(have) = text(&pod, &["spec", "nodeName"]).filter(|n| !n.is_empty()) {
            let why = format!("pod {} is already assigned to node {have:?}", call.name());
            return Err(call.resource.conflict_because(call.name(), &why));
        }
        let mut bound = pod.clone();
        if let Some(spec) = bound.as_object_mut().and_then(|map| object::child(map, "spec")) {
            spec.insert("nodeName".into(), node.into());
        }
        scheduled(&mut bound, &rfc3339((core.clock)()));
        match store_update(
            core,
            &call.resource,
            &key,
            &record,
            pod,
            bound,
            &call.intent(Part::Binding),
        ) {
            Err(Refusal::Raced) => {}
            Err(Refusal::Error(error)) => return Err(error),
            Ok(_) => return Ok(done()),
        }
    }
    Err(call.resource.conflict(call.name()))
}

fn scheduled(pod: &mut Value, now: &str) {
    let Some(status) = pod.as_object_mut().and_then(|map| object::child(map, "status")) else {
        return;
    };
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(conditions) = list {
        conditions.retain(|c| text(c, &["type"]) != Some("PodScheduled"));
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));
    }
}

/// A Pod with nothing of `new` but what this part of it may write.
pub(super) fn confine(old: &Value, new: &Value, part: Part) -> Value {
    let mut kept = old.clone();
    match part {
        Part::Ephemeral => {
            let list = at(new, &["spec", "ephemeralContainers"]).cloned();
            if let Some(spec) = kept.as_object_mut().and_then(|map| object::child(map, "spec")) {
                match list {
                    Some(list) => spec.insert("ephemeralContainers".into(), list),
                    None => spec.remove("ephemeralContainers"),
                };
            }
        }
        Part::Resize => {
            for list in ["containers", "initContainers"] {
                let wanted = at(new, &["spec", list]).and_then(Value::as_array);
                let all = kept
                    .pointer_mut(&format!("/spec/{list}"))
                    .and_then(Value::as_array_mut);
                for container in all.into_iter().flatten() {
                    let is = |c: &&Value| text(c, &["name"]) == text(container, &["name"]);
                    if let Some(wanted) = wanted.into_iter().flatten().find(is) {
                        let wanted = wanted.clone();
                        for key in ["resources", "resizePolicy"] {
                            object::set(container, key, wanted.get(key).cloned());
                        }
                    }
                }
            }
        }
        _ => {}
    }
    kept
}

/// Ephemeral containers are only ever added.
pub(super) fn check_ephemeral(old: &Value, new: &Value) -> Vec<Cause> {
    let list = |pod: &Value| -> Vec<Value> {
        let found = at(pod, &["spec", "ephemeralContainers"]).and_then(Value::as_array);
        found.cloned().unwrap_or_default()
    };
    let now = list(new);
    let mut causes = vec![];
    for container in list(old) {
        let name = text(&container, &["name"]).unwrap_or_default();
        match now.iter().find(|c| text(c, &["name"]) == Some(name)) {
            Some(same) if *same == container => {}
            found => {
                let what = if found.is_some() { "changed" } else { "removed" };
                let why = format!("Forbidden: existing ephemeral containers {name:?} may not be {what}\n");
                causes.push(Cause::forbidden("spec.ephemeralContainers", why));
            }
        }
    }
    causes
}
