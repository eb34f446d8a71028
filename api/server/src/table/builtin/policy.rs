//! What bounds and binds.

use serde_json::Value;

use super::{
    AGE, Column, NAME, column, number,
    read::{count, get, int, joined, list, or, plain, string},
    wide,
};
use crate::object::at;

pub(super) const DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    column("Min Available", |v, _| plain(v, &["spec", "minAvailable"], "N/A")),
    column("Max Unavailable", |v, _| {
        plain(v, &["spec", "maxUnavailable"], "N/A")
    }),
    number("Allowed Disruptions", |v, _| {
        int(v, &["status", "disruptionsAllowed"])
    }),
    AGE,
];

pub(super) const BINDING: &[Column] = &[
    NAME,
    column("Role", |v, _| {
        format!(
            "{}/{}",
            get(v, &["roleRef", "kind"]),
            get(v, &["roleRef", "name"])
        )
        .into()
    }),
    AGE,
    wide("Users", |v, _| subjects(v, "User")),
    wide("Groups", |v, _| subjects(v, "Group")),
    wide("ServiceAccounts", |v, _| subjects(v, "ServiceAccount")),
];

pub(super) const QUOTA: &[Column] = &[
    NAME,
    column("Request", |v, _| usage(v, false)),
    column("Limit", |v, _| usage(v, true)),
    AGE,
];

pub(super) const WEBHOOKS: &[Column] = &[NAME, number("Webhooks", |v, _| count(v, &["webhooks"])), AGE];

pub(super) const ADMISSION_POLICY: &[Column] = &[
    NAME,
    number("Validations", |v, _| count(v, &["spec", "validations"])),
    column("ParamKind", |v, _| {
        let part = |key: &str| get(v, &["spec", "paramKind", key]);
        match (part("apiVersion"), part("kind")) {
            ("", "") => "<unset>".into(),
            (version, kind) => format!("{version}/{kind}").into(),
        }
    }),
    AGE,
];

pub(super) const ADMISSION_BINDING: &[Column] = &[
    NAME,
    column("PolicyName", |v, _| string(v, &["spec", "policyName"])),
    column("ParamRef", |v, _| {
        let part = |key: &str| get(v, &["spec", "paramRef", key]);
        match (part("namespace"), part("name")) {
            ("", _) => or(v, &["spec", "paramRef", "name"], "<unset>"),
            (namespace, name) => format!("{namespace}/{name}").into(),
        }
    }),
    AGE,
];

fn subjects(binding: &Value, kind: &str) -> Value {
    let all = list(binding, &["subjects"])
        .iter()
        .filter(|s| get(s, &["kind"]) == kind);
    let names: Vec<String> = all
        .map(|s| match (kind, get(s, &["namespace"]), get(s, &["name"])) {
            ("ServiceAccount", namespace, name) => format!("{namespace}/{name}"),
            (_, _, name) => name.to_owned(),
        })
        .collect();
    let names = names.iter().map(String::as_str);
    match joined(names, "") {
        Value::String(all) => all.replace(',', ", ").into(),
        other => other,
    }
}

/// Used and hard bounds of limits, or of all else.
fn usage(quota: &Value, limits: bool) -> Value {
    let hard = at(quota, &["status", "hard"]).and_then(Value::as_object);
    let wanted = hard
        .into_iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("limits") == limits);
    let texts: Vec<String> = wanted
        .map(|(name, bound)| {
            let used = plain(quota, &["status", "used", name], "0");
            format!(
                "{name}: {}/{}",
                used.as_str().unwrap_or_default(),
                bound.as_str().unwrap_or_default()
            )
        })
        .collect();
    texts.join(", ").into()
}
