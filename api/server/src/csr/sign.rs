//! What an approved request becomes.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    CLIENT_SIGNER, CertificateRequest, condition, conditions,
    keys::{check_key, remember_key},
    request_of, signer,
};
use crate::{
    auth::Authority,
    clock::rfc3339,
    error::ApiError,
    object::{self, at, text},
    server::Core,
};

/// How long certificates are good for: at most, at least, and if the request does not say.
const LONGEST: i64 = 365 * 86_400;
const SHORTEST: i64 = 600;

/// A certificate that was issued for a request.
pub(crate) struct Issued {
    request: CertificateRequest,
    lifetime: Duration,
    pub(crate) pem: String,
}

/// Signs a request that is approved, has not failed and has no certificate yet, if its signer is one of this server's. What
/// its signer refuses gets the condition `Failed`.
///
/// # Errors
/// 503 or 409 if the key of the request cannot be remembered: there is no certificate then.
pub(crate) fn sign_if_approved(core: &Core, value: &mut Value) -> Result<(), ApiError> {
    let Some(authority) = &core.signer else {
        return Ok(());
    };
    if !is_to_sign(value) {
        return Ok(());
    }
    let (serial, now) = ([core.dice.next(), core.dice.next()], (core.clock)());
    let issued = issue(authority, value, serial, now, |request| {
        check_key(core, request, value).map_err(str::to_owned)
    });
    if let Ok(issued) = &issued {
        remember_key(core, &issued.request, value, issued.lifetime)?;
    }
    conclude(value, issued.map(|issued| issued.pem), now);
    Ok(())
}

/// Whether a request is approved for the signer of clients, and neither refused nor signed yet.
pub(crate) fn is_to_sign(value: &Value) -> bool {
    let refused = ["Denied", "Failed"]
        .iter()
        .any(|ty| condition(value, ty).is_some());
    let signed = text(value, &["status", "certificate"]).is_some_and(|c| !c.is_empty());
    signer(value) == CLIENT_SIGNER && condition(value, "Approved").is_some() && !refused && !signed
}

/// The certificate that a request asks for, if its usages, and `allowed`, let it.
///
/// # Errors
/// Why the signer refuses it.
pub(crate) fn issue(
    authority: &Authority,
    value: &Value,
    serial: [u64; 2],
    now: Timestamp,
    allowed: impl FnOnce(&CertificateRequest) -> Result<(), String>,
) -> Result<Issued, String> {
    let usages = at(value, &["spec", "usages"]).and_then(Value::as_array);
    let usages: Vec<&str> = usages.into_iter().flatten().filter_map(Value::as_str).collect();
    let seconds = at(value, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
    let seconds = seconds.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST).unsigned_abs();
    let lifetime = Duration::from_secs(seconds);
    check_usages(&usages)?;
    let request = request_of(value).map_err(str::to_owned)?;
    allowed(&request)?;
    let pem = authority
        .sign_request(&request, &usages, serial, lifetime, now)
        .map_err(|error| error.to_string())?;
    Ok(Issued {
        request,
        lifetime,
        pem,
    })
}

/// Writes into the status of a request what became of it.
pub(crate) fn conclude(value: &mut Value, signed: Result<String, String>, now: Timestamp) {
    let mut list = conditions(value).to_vec();
    let Some(status) = value.as_object_mut().and_then(|map| object::child(map, "status")) else {
        return;
    };
    match signed {
        Ok(pem) => {
            status.insert("certificate".to_owned(), STANDARD.encode(pem).into());
        }
        Err(why) => {
            let now = rfc3339(now);
            list.push(
                json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailed", "message": why,
                "lastUpdateTime": now, "lastTransitionTime": now}),
            );
            status.insert("conditions".to_owned(), list.into());
        }
    }
}

/// The usages of a client's certificate.
fn check_usages(usages: &[&str]) -> Result<(), String> {
    for usage in usages {
        if !matches!(*usage, "digital signature" | "key encipherment" | "client auth") {
            return Err(format!("invalid usage for client certificate: {usage}"));
        }
    }
    if usages.contains(&"client auth") {
        Ok(())
    } else {
        Err("missing required usage for client certificate: client auth".to_owned())
    }
}
