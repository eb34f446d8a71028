//! Questions put as objects: what may I, what may somebody, who am I.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Call;
use crate::{
    admission::{decode, sanitize},
    auth::{Attributes, Identity},
    error::{ApiError, Cause},
    object::{at, set, text},
    server::Core,
    service::Reply,
};

/// Answers a review.
pub(super) fn review(core: &Core, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let mut noted = decode(&call.resource, &call.media, body)?;
    let mut value = std::mem::take(&mut noted.value);
    sanitize(
        &call.resource,
        &mut value,
        call.query.field_validation,
        &noted.duplicates,
    )?;
    let who = &call.identity;
    let status = match &*call.resource.kind {
        "SelfSubjectReview" => json!({"userInfo": {"username": who.user, "groups": groups(who)}}),
        "SelfSubjectAccessReview" => access(core, call, who, &value)?,
        _ => {
            let user = text(&value, &["spec", "user"]).unwrap_or_default();
            let groups = at(&value, &["spec", "groups"])
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let somebody = Identity::new(user, groups.filter_map(Value::as_str));
            access(core, call, &somebody, &value)?
        }
    };
    set(&mut value, "status", Some(status));
    Ok(Reply::with(201, value))
}

/// The groups a user is in, the one of everybody who is authenticated included.
fn groups(who: &Identity) -> Vec<&str> {
    let mut groups: Vec<&str> = who.groups.iter().map(String::as_str).collect();
    // Who impersonates has it already.
    if !who.in_group("system:authenticated") && !who.in_group("system:unauthenticated") {
        groups.push("system:authenticated");
    }
    groups
}

fn access(core: &Core, call: &Call, who: &Identity, value: &Value) -> Result<Value, ApiError> {
    let resource = at(value, &["spec", "resourceAttributes"]);
    let path = at(value, &["spec", "nonResourceAttributes"]);
    let allowed = match (resource, path) {
        (Some(asked), None) => {
            let field = |key: &str| text(asked, &[key]).unwrap_or_default();
            core.authorizer.allows(
                who,
                &Attributes {
                    verb: field("verb"),
                    group: field("group"),
                    resource: field("resource"),
                    subresource: field("subresource"),
                    namespace: field("namespace"),
                    name: field("name"),
                },
            )
        }
        // Discovery, version and health are open to everybody who is authenticated.
        (None, Some(asked)) => text(asked, &["verb"]) == Some("get"),
        _ => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(call
                .resource
                .invalid("", vec![Cause::invalid("spec.resourceAttributes", why)]));
        }
    };
    Ok(json!({"allowed": allowed}))
}
