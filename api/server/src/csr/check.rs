//! Checks of the object, in Kubernetes' own words (`pkg/apis/certificates/validation`).

use serde_json::Value;

use super::{conditions, request_of, signer};
use crate::{
    error::Cause,
    names,
    object::{at, text},
    schema::join_index,
};

/// The usages there are.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Conditions that stay as they are once they are there.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

fn invalid(field: &str, value: &str, why: &str) -> Cause {
    Cause::invalid_value(field, Some(&value.into()), why)
}

/// What is wrong with a request.
pub(crate) fn check_request(value: &Value) -> Vec<Cause> {
    let mut out = vec![];
    if let Err(why) = request_of(value) {
        out.push(Cause::invalid_value(
            "spec.request",
            at(value, &["spec", "request"]),
            why,
        ));
    }
    let usages = at(value, &["spec", "usages"]).and_then(Value::as_array);
    let usages: Vec<&str> = usages.into_iter().flatten().filter_map(Value::as_str).collect();
    if usages.is_empty() {
        out.push(Cause::required("spec.usages", "Required value"));
    }
    for (i, usage) in usages.iter().enumerate() {
        let field = join_index("spec.usages", i);
        if !USAGES.contains(usage) {
            let known: Vec<String> = USAGES.iter().map(|u| format!("{u:?}")).collect();
            let known = known.join(", ");
            let why = format!("Unsupported value: {usage:?}: supported values: {known}");
            out.push(Cause::not_supported(field, why));
        } else if usages.iter().take(i).any(|u| u == usage) {
            out.push(Cause::duplicate(field, format!("Duplicate value: {usage:?}")));
        }
    }
    check_signer(signer(value), &mut out);
    let seconds = at(value, &["spec", "expirationSeconds"]);
    if seconds.and_then(Value::as_i64).is_some_and(|s| s < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        out.push(Cause::invalid_value("spec.expirationSeconds", seconds, why));
    }
    check_conditions(value, &mut out);
    out
}

fn check_signer(name: &str, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.signerName";
    if name.is_empty() {
        return out.push(Cause::required(FIELD, "Required value"));
    }
    if name == "kubernetes.io/legacy-unknown" {
        let why = "the legacy signerName is not allowed via this API version";
        return out.push(invalid(FIELD, name, why));
    }
    let [domain, path] = name.split('/').collect::<Vec<_>>()[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return out.push(invalid(FIELD, name, why));
    };
    for label in domain.split('.') {
        for why in names::dns_label(label) {
            out.push(invalid(
                FIELD,
                domain,
                &format!("validating label {label:?}: {why}"),
            ));
        }
    }
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        out.push(invalid(FIELD, domain, why));
    }
    for why in names::dns_subdomain(path) {
        out.push(invalid(FIELD, path, &format!("validating label {path:?}: {why}")));
    }
}

fn check_conditions(value: &Value, out: &mut Vec<Cause>) {
    let mut seen: Vec<&str> = vec![];
    for (i, condition) in conditions(value).iter().enumerate() {
        let field = |key: &str| format!("status.conditions[{i}].{key}");
        let word = |key: &str| text(condition, &[key]).unwrap_or_default();
        let (ty, status) = (word("type"), word("status"));
        if ty.is_empty() {
            out.push(Cause::required(field("type"), "Required value"));
        } else if seen.contains(&ty) {
            out.push(Cause::duplicate(
                field("type"),
                format!("Duplicate value: {ty:?}"),
            ));
        }
        let other = match ty {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(&other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            out.push(invalid(&field("type"), ty, why));
        }
        let statuses: &[&str] = if FINAL.contains(&ty) {
            &["True"]
        } else {
            &["True", "False", "Unknown"]
        };
        if status.is_empty() {
            out.push(Cause::required(field("status"), "Required value"));
        } else if !statuses.contains(&status) {
            let known: Vec<String> = statuses.iter().map(|s| format!("{s:?}")).collect();
            let known = known.join(", ");
            let why = format!("Unsupported value: {status:?}: supported values: {known}");
            out.push(Cause::not_supported(field("status"), why));
        }
        seen.push(ty);
    }
}

/// What an update does to conditions and certificate although it may not: `approves` through the subresource for that.
pub(crate) fn check_conditions_update(old: &Value, new: &Value, approves: bool) -> Vec<Cause> {
    let mut out = vec![];
    for ty in FINAL {
        let of = |value: &Value| -> Vec<Value> {
            let all = conditions(value).iter();
            all.filter(|c| text(c, &["type"]) == Some(ty)).cloned().collect()
        };
        let (was, is) = (of(old), of(new));
        let may_add = approves == (ty != "Failed");
        let what = match (was.len(), is.len()) {
            (a, b) if a > b => "remove",
            (a, b) if a < b && !may_add => "add",
            (a, b) if a == b && was != is => "modify",
            _ => continue,
        };
        let why = format!("Forbidden: updates may not {what} a condition of type {ty:?}");
        out.push(Cause::forbidden("status.conditions", why));
    }
    let certificate = |value: &Value| {
        text(value, &["status", "certificate"])
            .unwrap_or_default()
            .to_owned()
    };
    let (was, is) = (certificate(old), certificate(new));
    if was != is && !was.is_empty() {
        let why = "Forbidden: updates may not modify existing certificate content";
        out.push(Cause::forbidden("status.certificate", why));
    }
    out
}
