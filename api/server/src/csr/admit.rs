//! Who may ask for what, and who may say yes.

use serde_json::{Value, json};

use super::{CLIENT_SIGNER, condition, conditions, keys::check_key, request_of, signer};
use crate::{
    auth::{Action, Attributes, Identity, MASTERS},
    clock::rfc3339,
    error::ApiError,
    kinds::Resource,
    object::{self, meta, set, text},
    server::Core,
    verbs::{Author, Part},
};

/// Notes who asks, and refuses what this one may not ask for.
pub(crate) fn admit(
    core: &Core,
    resource: &Resource,
    value: &mut Value,
    author: Option<&Author>,
) -> Result<(), ApiError> {
    set(value, "status", None);
    let Some(author) = author else { return Ok(()) };
    let who = &*author.identity;
    if let Some(spec) = value.as_object_mut().and_then(|map| object::child(map, "spec")) {
        for (key, stamped) in [
            ("username", Some(who.user.as_str().into())),
            ("groups", Some(json!(who.groups))),
            ("uid", (!who.uid.is_empty()).then(|| who.uid.as_str().into())),
            ("extra", (!who.extra.is_empty()).then(|| json!(who.extra))),
        ] {
            match stamped {
                Some(stamped) => spec.insert(key.to_owned(), stamped),
                None => spec.remove(key),
            };
        }
    }
    let forbidden = |why: &str| resource.forbidden(meta(value, "name"), why);
    if signer(value) != CLIENT_SIGNER {
        return Ok(());
    }
    // What is no request is told by the checks of the object.
    let Ok(request) = request_of(value) else {
        return Ok(());
    };
    if request.groups.iter().any(|g| g == MASTERS) {
        return Err(forbidden(&format!(
            "use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
        )));
    }
    check_key(core, &request, value).map_err(forbidden)
}

/// Keeps what this part of a request may not change, fills in times, and refuses a decision of somebody who may not make it.
pub(crate) fn decide(
    core: &Core,
    resource: &Resource,
    part: Part,
    old: &Value,
    new: &mut Value,
    author: Option<&Author>,
) -> Result<(), ApiError> {
    set(new, "spec", old.get("spec").cloned());
    if part == Part::Main {
        return Ok(());
    }
    stamp_conditions(old, new, &rfc3339((core.clock)()));
    let Some(author) = author else { return Ok(()) };
    let certificate = |value: &Value| {
        text(value, &["status", "certificate"])
            .unwrap_or_default()
            .to_owned()
    };
    let fails = |value: &Value| condition(value, "Failed").is_some();
    let (verb, what) = match part {
        Part::Approval => ("approve", "approve"),
        _ if certificate(old) != certificate(new) || (fails(new) && !fails(old)) => ("sign", "sign"),
        _ => return Ok(()),
    };
    if may(core, &author.identity, verb, signer(old)) {
        return Ok(());
    }
    let why = format!(
        "user not permitted to {what} requests with signerName {:?}",
        signer(old)
    );
    Err(resource.forbidden(meta(old, "name"), &why))
}

/// Whether somebody may do this for the signer, or for all signers of its domain.
fn may(core: &Core, who: &Identity, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer.to_owned(), format!("{domain}/*")].iter().any(|name| {
        let attributes = Attributes {
            verb,
            group: "certificates.k8s.io",
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        core.authorizer.decide(who, &Action::Resource(attributes)).allowed
    })
}

fn stamp_conditions(old: &Value, new: &mut Value, now: &str) {
    let before: Vec<Value> = conditions(old).to_vec();
    let list = new
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in list.into_iter().flatten().filter_map(Value::as_object_mut) {
        let same = |key: &str, other: &Value| condition.get(key) == other.get(key);
        let was = before.iter().find(|c| same("type", c) && same("status", c));
        let since = was.and_then(|c| c.get("lastTransitionTime")).cloned();
        condition.entry("lastUpdateTime").or_insert_with(|| now.into());
        condition
            .entry("lastTransitionTime")
            .or_insert_with(|| since.unwrap_or_else(|| now.into()));
    }
}
