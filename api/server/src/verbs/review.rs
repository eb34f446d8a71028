//! Questions put as objects: what may I, what may somebody, who am I, whose token is this.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Call;
use crate::{
    admission::{decode, sanitize},
    auth::{Action, Attributes, Identity},
    error::{ApiError, Cause},
    kinds::Resource,
    object::{at, meta, set, text},
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
    let who = &*call.identity;
    let mut causes = with_metadata(&call.resource, &value);
    let status = match &*call.resource.kind {
        "SelfSubjectReview" => json!({"userInfo": who.to_user_info()}),
        "SelfSubjectRulesReview" => rules(core, who, &value)?,
        "TokenReview" => token(core, &value)?,
        "SelfSubjectAccessReview" => access(core, call, who, &value, causes)?,
        kind => {
            let somebody = subject(&value);
            if somebody.user.is_empty() && somebody.groups.is_empty() {
                let why = "at least one of user or group must be specified";
                causes.insert(0, Cause::invalid_value("spec.user", Some(&"".into()), why));
            }
            if kind == "LocalSubjectAccessReview" {
                causes.extend(local(call, &mut value));
            }
            access(core, call, &somebody, &value, causes)?
        }
    };
    set(&mut value, "status", Some(status));
    Ok(Reply::with(201, value))
}

/// A question whether something is allowed has no metadata, but a local one its namespace.
fn with_metadata(resource: &Resource, value: &Value) -> Vec<Cause> {
    let is_allowed = |key: &str| match key {
        "creationTimestamp" | "managedFields" => true,
        "namespace" => resource.kind == "LocalSubjectAccessReview",
        _ => false,
    };
    let metadata = value.get("metadata").and_then(Value::as_object);
    let unwanted = metadata.filter(|metadata| metadata.keys().any(|key| !is_allowed(key)));
    let cause = unwanted.map(|_| Cause::invalid_value("metadata", value.get("metadata"), "must be empty"));
    cause.into_iter().collect()
}

fn words(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// The one a review asks about, as it is named there: no group is added.
fn subject(value: &Value) -> Identity {
    let mut who = Identity::new(
        text(value, &["spec", "user"]).unwrap_or_default(),
        words(at(value, &["spec", "groups"])),
    );
    who.uid = text(value, &["spec", "uid"]).unwrap_or_default().to_owned();
    let extra = at(value, &["spec", "extra"]).and_then(Value::as_object);
    let extra = extra.into_iter().flatten();
    who.extra = extra
        .map(|(key, list)| (key.clone(), words(Some(list))))
        .collect();
    who
}

/// A local review is of the namespace it is made in.
fn local(call: &Call, value: &mut Value) -> Vec<Cause> {
    let mut causes = vec![];
    let namespace = call.namespace();
    if meta(value, "namespace").is_empty() {
        crate::object::set_meta(value, "namespace", Some(namespace.into()));
    }
    if let Some(asked) = at(value, &["spec", "resourceAttributes"]) {
        let have = text(asked, &["namespace"]).unwrap_or_default();
        if have != namespace || meta(value, "namespace") != namespace {
            let why = "must match metadata.namespace";
            causes.push(Cause::invalid_value(
                "spec.resourceAttributes.namespace",
                Some(&have.into()),
                why,
            ));
        }
    }
    if let Some(asked) = at(value, &["spec", "nonResourceAttributes"]) {
        let why = "disallowed on this kind of request";
        causes.push(Cause::invalid_value(
            "spec.nonResourceAttributes",
            Some(asked),
            why,
        ));
    }
    causes
}

fn access(
    core: &Core,
    call: &Call,
    who: &Identity,
    value: &Value,
    mut causes: Vec<Cause>,
) -> Result<Value, ApiError> {
    let resource = at(value, &["spec", "resourceAttributes"]);
    let path = at(value, &["spec", "nonResourceAttributes"]);
    let wrong = match (resource, path) {
        (Some(_), Some(path)) => Some(Cause::invalid_value(
            "spec.nonResourceAttributes",
            Some(path),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => Some(Cause::invalid(
            "spec.resourceAttributes",
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => None,
    };
    causes.splice(0..0, wrong);
    if !causes.is_empty() {
        return Err(call.resource.invalid("", causes));
    }
    let asked = resource.or(path).unwrap_or(value);
    let field = |key: &str| text(asked, &[key]).unwrap_or_default();
    let action = if resource.is_some() {
        Action::Resource(Attributes {
            verb: field("verb"),
            group: field("group"),
            resource: field("resource"),
            subresource: field("subresource"),
            namespace: field("namespace"),
            name: field("name"),
        })
    } else {
        Action::Path {
            verb: field("verb"),
            path: field("path"),
        }
    };
    let decision = core.authorizer.decide(who, &action);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        set(&mut status, "reason", Some(decision.reason.into()));
    }
    Ok(status)
}

fn rules(core: &Core, who: &Identity, value: &Value) -> Result<Value, ApiError> {
    let namespace = text(value, &["spec", "namespace"]).unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (rules, errors) = core.authorizer.rules(who, namespace);
    let (paths, resources): (Vec<_>, Vec<_>) = rules
        .into_iter()
        .partition(|rule| !rule.non_resource_urls.is_empty());
    let mut status = json!({
        "resourceRules": resources, "nonResourceRules": paths, "incomplete": !errors.is_empty(),
    });
    if !errors.is_empty() {
        set(&mut status, "evaluationError", Some(errors.join(", ").into()));
    }
    Ok(status)
}

fn token(core: &Core, value: &Value) -> Result<Value, ApiError> {
    let token = text(value, &["spec", "token"]).unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let mut audiences = words(at(value, &["spec", "audiences"]));
    if audiences.is_empty() {
        audiences = Core::audiences();
    }
    Ok(match core.account(token, &audiences) {
        Ok((who, audiences)) => {
            json!({"authenticated": true, "user": who.to_user_info(), "audiences": audiences})
        }
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    })
}
