//! Who may ask for what, and who may say yes.

use serde_json::{Value, json};

use super::{
    AGENT_SIGNER, CLIENT_SIGNER, Request, condition, conditions, keys::check_key, request_of, signer,
};
use crate::{
    auth::{AGENTS, Action, Attributes, Identity, MASTERS, cluster_of_agent},
    clock::rfc3339,
    error::ApiError,
    kinds::Resource,
    names,
    object::{self, meta, set, text},
    server::Core,
    store::Record,
    verbs::{Author, Part},
};

/// Most requests of one agent that are kept at a time.
const OF_ONE_AGENT: usize = 16;

/// Longest name of a cluster.
const MAX_CLUSTER: usize = 55;

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
    let signer = signer(value);
    // What is no request is told by the checks of the object.
    let request = request_of(value).ok();
    if who.agent_of().is_some() && signer != AGENT_SIGNER {
        return Err(forbidden(&format!(
            "an agent may only use signer {AGENT_SIGNER:?}"
        )));
    }
    match (signer, &request) {
        (CLIENT_SIGNER, Some(request)) => user_may_be(request).map_err(|why| forbidden(&why))?,
        (AGENT_SIGNER, Some(request)) => {
            agent_may_be(request, who).map_err(|why| forbidden(&why))?;
        }
        _ => return Ok(()),
    }
    if let Some(request) = &request {
        check_key(core, request, value).map_err(forbidden)?;
    }
    if who.agent_of().is_some() {
        few_of(core, resource, who)?;
    }
    Ok(())
}

/// Nobody becomes a member of `system:masters`, or an agent, as a user.
fn user_may_be(request: &Request) -> Result<(), String> {
    if request.groups.iter().any(|g| g == MASTERS) {
        return Err(format!(
            "use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
        ));
    }
    let agent = request.users.iter().any(|user| cluster_of_agent(user).is_some());
    if agent || request.groups.iter().any(|g| g == AGENTS) {
        return Err(format!(
            "certificates of agents are signed by {AGENT_SIGNER:?} only"
        ));
    }
    Ok(())
}

/// The subject of an agent's certificate is exact, and an agent's own.
fn agent_may_be(request: &Request, who: &Identity) -> Result<(), String> {
    let [user] = request.users.as_slice() else {
        return Err("the subject must have one common name, roundhouse:agent:<cluster>".to_owned());
    };
    let named = |cluster: &&str| cluster.len() <= MAX_CLUSTER && names::dns_label(cluster).is_empty();
    if cluster_of_agent(user).filter(named).is_none() {
        return Err(format!(
            "the common name must be roundhouse:agent:<cluster>, not {user:?}"
        ));
    }
    if request.groups != [AGENTS] {
        return Err(format!("the organization must be {AGENTS:?} and no other"));
    }
    if request.more_subject || request.alternative_names {
        return Err("the request may have a common name and an organization, and nothing else".to_owned());
    }
    if who.agent_of().is_some() && who.user != *user {
        return Err(format!(
            "{:?} may not ask for a certificate of {user:?}",
            who.user
        ));
    }
    Ok(())
}

/// Refuses an agent more requests than it has reason to make: they are kept for an hour.
fn few_of(core: &Core, resource: &Resource, who: &Identity) -> Result<(), ApiError> {
    let records = core.records(&resource.table, None);
    let own = |record: &Record| {
        text(&object::decode(&record.bytes), &["spec", "username"]) == Some(who.user.as_str())
    };
    if records.iter().filter(|(_, record)| own(record)).count() < OF_ONE_AGENT {
        return Ok(());
    }
    let message = format!(
        "{OF_ONE_AGENT} certificate requests of {:?} are kept already; each goes an hour after it was decided, please try again later",
        who.user
    );
    Err(ApiError::new(429, "TooManyRequests", message))
}

/// Approves what an agent asks for itself.
pub(crate) fn approve_renewal(core: &Core, value: &mut Value, author: Option<&Author>) {
    let own = author.is_some_and(|author| author.identity.agent_of().is_some());
    if !own || signer(value) != AGENT_SIGNER {
        return;
    }
    let now = rfc3339((core.clock)());
    let approved = json!({"type": "Approved", "status": "True", "reason": "AutoApproved",
        "message": "Auto approving the certificate of an agent that renews its own.",
        "lastUpdateTime": now, "lastTransitionTime": now});
    set(value, "status", Some(json!({"conditions": [approved]})));
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
