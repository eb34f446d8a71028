//! The cluster itself: nodes, namespaces, accounts.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, column, number,
    read::{condition, count, get, holds, int, integer, is, joined, list, or, or_none, string},
    wide,
};
use crate::object::at;

pub(super) const NAMESPACE: &[Column] = &[
    NAME,
    column("Status", |v, _| string(v, &["status", "phase"])),
    AGE,
];

pub(super) const SERVICE_ACCOUNT: &[Column] = &[NAME, number("Secrets", |v, _| count(v, &["secrets"])), AGE];

pub(super) const LEASE: &[Column] = &[
    NAME,
    column("Holder", |v, _| string(v, &["spec", "holderIdentity"])),
    AGE,
];

pub(super) const PRIORITY_CLASS: &[Column] = &[
    NAME,
    number("Value", |v, _| int(v, &["value"])),
    column("Global-Default", |v, _| is(v, &["globalDefault"]).into()),
    AGE,
    column("PreemptionPolicy", |v, _| string(v, &["preemptionPolicy"])),
];

pub(super) const API_SERVICE: &[Column] = &[
    NAME,
    column("Service", |v, _| match at(v, &["spec", "service"]) {
        Some(Value::Object(_)) => format!(
            "{}/{}",
            get(v, &["spec", "service", "namespace"]),
            get(v, &["spec", "service", "name"])
        )
        .into(),
        _ => "Local".into(),
    }),
    column("Available", |v, _| match condition(v, "Available") {
        Some(c) if get(c, &["status"]) == "True" => "True".into(),
        Some(c) => format!("{} ({})", get(c, &["status"]), get(c, &["reason"])).into(),
        None => "Unknown".into(),
    }),
    AGE,
];

pub(super) const SIGNING_REQUEST: &[Column] = &[
    NAME,
    AGE,
    column("SignerName", |v, _| or_none(v, &["spec", "signerName"])),
    column("Requestor", |v, _| string(v, &["spec", "username"])),
    column("RequestedDuration", |v, _| {
        match integer(v, &["spec", "expirationSeconds"]) {
            0 => "<none>".into(),
            seconds => super::age::human(seconds).into(),
        }
    }),
    column("Condition", signing_condition),
];

pub(super) const NODE: &[Column] = &[
    NAME,
    column("Status", node_status),
    column("Roles", |v, _| {
        let labels = at(v, &["metadata", "labels"]).and_then(Value::as_object);
        let role = |(key, value): (&'_ String, &'_ Value)| match key.strip_prefix("node-role.kubernetes.io/")
        {
            Some("") | None => (key == "kubernetes.io/role")
                .then(|| value.as_str().unwrap_or_default().to_owned())
                .filter(|role| !role.is_empty()),
            Some(role) => Some(role.to_owned()),
        };
        let mut roles: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
        roles.sort_unstable();
        roles.dedup();
        joined(roles.iter().map(String::as_str), "<none>")
    }),
    AGE,
    column("Version", |v, _| {
        string(v, &["status", "nodeInfo", "kubeletVersion"])
    }),
    wide("Internal-IP", |v, _| node_address(v, "InternalIP")),
    wide("External-IP", |v, _| node_address(v, "ExternalIP")),
    wide("OS-Image", |v, _| {
        or(v, &["status", "nodeInfo", "osImage"], "<unknown>")
    }),
    wide("Kernel-Version", |v, _| {
        or(v, &["status", "nodeInfo", "kernelVersion"], "<unknown>")
    }),
    wide("Container-Runtime", |v, _| {
        or(v, &["status", "nodeInfo", "containerRuntimeVersion"], "<unknown>")
    }),
];

fn node_address(node: &Value, ty: &str) -> Value {
    let all = list(node, &["status", "addresses"]);
    let found = all.iter().find(|a| get(a, &["type"]) == ty);
    found.map_or_else(|| "<none>".into(), |a| string(a, &["address"]))
}

fn node_status(node: &Value, _: Timestamp) -> Value {
    let ready = match condition(node, "Ready") {
        Some(_) if holds(node, "Ready") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if is(node, &["spec", "unschedulable"]) {
        format!("{ready},SchedulingDisabled").into()
    } else {
        ready.into()
    }
}

fn signing_condition(request: &Value, _: Timestamp) -> Value {
    let has = |ty: &str| condition(request, ty).is_some();
    let decision = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    };
    let mut all = vec![decision];
    if has("Failed") {
        all.push("Failed");
    }
    if !get(request, &["status", "certificate"]).is_empty() {
        all.push("Issued");
    }
    joined(all, "")
}
