//! The `token` subresource of service accounts: `authentication.k8s.io/v1` TokenRequest.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Call;
use crate::{
    admission::{decode, sanitize},
    auth::{Claims, ISSUER, Named, Private},
    clock::rfc3339,
    error::{ApiError, Cause},
    kinds::TOKEN_REQUEST,
    object::{at, meta, text},
    server::Core,
    service::Reply,
};

/// Lifetime of a token that asks for none, in seconds.
const LIFETIME: i64 = 3_600;
/// Shortest and longest lifetime, in seconds.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// Answers with a token for the service account of the path.
pub(super) fn create(core: &Core, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    // Without a key the subresource is not served, as in Kubernetes.
    let key = core.tokens.as_ref().ok_or_else(ApiError::no_such_path)?;
    let kind = &TOKEN_REQUEST;
    let mut noted = decode(kind, &call.media, body)?;
    let mut request = std::mem::take(&mut noted.value);
    sanitize(kind, &mut request, call.query.field_validation, &noted.duplicates)?;
    for (field, want) in [("name", call.name()), ("namespace", call.namespace())] {
        if !matches!(meta(&request, field), have if have.is_empty() || have == want) {
            let message = format!("{field} in URL does not match {field} in TokenRequest object");
            return Err(ApiError::bad_request(message));
        }
    }
    let account = core
        .read("v1", "ServiceAccount", call.namespace(), call.name())
        .ok_or_else(|| call.resource.not_found(call.name()))?;
    let seconds = lifetime(&request)?;
    let (pod, secret) = bound(core, call, &request)?;
    let audiences = at(&request, &["spec", "audiences"]).and_then(Value::as_array);
    let mut audiences: Vec<String> = audiences
        .into_iter()
        .flatten()
        .filter_map(|a| a.as_str().map(str::to_owned))
        .collect();
    if audiences.is_empty() {
        audiences = Core::audiences();
    }
    let now = (core.clock)();
    let claims = Claims {
        aud: audiences.clone(),
        exp: now.as_second().saturating_add(seconds),
        iat: now.as_second(),
        iss: ISSUER.to_owned(),
        jti: core.dice.uid(),
        kubernetes: Private {
            namespace: call.namespace().to_owned(),
            serviceaccount: Named {
                name: call.name().to_owned(),
                uid: meta(&account, "uid").to_owned(),
            },
            pod,
            secret,
        },
        nbf: now.as_second(),
        sub: format!("system:serviceaccount:{}:{}", call.namespace(), call.name()),
    };
    let ends = jiff::Timestamp::from_second(claims.exp).unwrap_or(jiff::Timestamp::MAX);
    let token = if call.query.dry_run {
        String::new()
    } else {
        key.sign(&claims)
            .ok_or_else(|| ApiError::internal("failed to generate token: no randomness"))?
    };
    let mut spec = at(&request, &["spec"]).cloned().unwrap_or_else(|| json!({}));
    crate::object::set(&mut spec, "audiences", Some(json!(audiences)));
    crate::object::set(&mut spec, "expirationSeconds", Some(seconds.into()));
    let answer = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": call.name(), "namespace": call.namespace(), "creationTimestamp": rfc3339(now)},
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": rfc3339(ends)},
    });
    Ok(Reply::with(201, answer))
}

fn lifetime(request: &Value) -> Result<i64, ApiError> {
    let seconds = at(request, &["spec", "expirationSeconds"])
        .and_then(Value::as_i64)
        .unwrap_or(LIFETIME);
    let why = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        s if s > LONGEST => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(seconds),
    };
    let cause = Cause::invalid_value("spec.expirationSeconds", Some(&seconds.into()), why);
    Err(TOKEN_REQUEST.invalid("", vec![cause]))
}

/// The Pod or the Secret that the token is to live as long as.
fn bound(core: &Core, call: &Call, request: &Value) -> Result<(Option<Named>, Option<Named>), ApiError> {
    let Some(reference) = at(request, &["spec", "boundObjectRef"]).filter(|r| !r.is_null()) else {
        return Ok((None, None));
    };
    let word = |key: &str| text(reference, &[key]).unwrap_or_default();
    let (kind, name) = (word("kind"), word("name"));
    if word("apiVersion") != "v1" || !matches!(kind, "Pod" | "Secret") {
        let api_version = match word("apiVersion") {
            v if v.contains('/') => v.to_owned(),
            v => format!("/{v}"),
        };
        let message = format!("cannot bind token to object of type {api_version}, Kind={kind}");
        return Err(ApiError::bad_request(message));
    }
    let resource = core
        .registry
        .by_kind("v1", kind)
        .ok_or_else(ApiError::no_such_path)?;
    let object = core
        .read("v1", kind, call.namespace(), name)
        .ok_or_else(|| resource.not_found(name))?;
    let uses = text(&object, &["spec", "serviceAccountName"]).unwrap_or_default();
    if kind == "Pod" && uses != call.name() {
        let message = format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            call.name()
        );
        return Err(ApiError::bad_request(message));
    }
    let uid = meta(&object, "uid");
    if !matches!(word("uid"), want if want.is_empty() || want == uid) {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
            word("uid")
        );
        return Err(resource.conflict_because(name, &why));
    }
    let named = Some(Named {
        name: name.to_owned(),
        uid: uid.to_owned(),
    });
    Ok(if kind == "Pod" {
        (named, None)
    } else {
        (None, named)
    })
}
