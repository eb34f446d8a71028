//! What an approved request becomes.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    CLIENT_SIGNER, condition, conditions,
    keys::{check_key, remember_key},
    request_of, signer,
};
use crate::{
    clock::rfc3339,
    error::ApiError,
    object::{self, at, text},
    server::Core,
};

/// How long certificates are good for: at most, at least, and if the request does not say.
const LONGEST: i64 = 365 * 86_400;
const SHORTEST: i64 = 600;

/// Signs a request that is approved, has not failed and has no certificate yet, if its signer is one of this server's. What
/// its signer refuses gets the condition `Failed`.
///
/// # Errors
/// 503 or 409 if the key of the request cannot be remembered: there is no certificate then.
pub(crate) fn sign_if_approved(core: &Core, value: &mut Value) -> Result<(), ApiError> {
    let Some(authority) = &core.signer else {
        return Ok(());
    };
    if signer(value) != CLIENT_SIGNER
        || condition(value, "Approved").is_none()
        || ["Denied", "Failed"]
            .iter()
            .any(|ty| condition(value, ty).is_some())
        || text(value, &["status", "certificate"]).is_some_and(|c| !c.is_empty())
    {
        return Ok(());
    }
    let usages = at(value, &["spec", "usages"]).and_then(Value::as_array);
    let usages: Vec<&str> = usages.into_iter().flatten().filter_map(Value::as_str).collect();
    let seconds = at(value, &["spec", "expirationSeconds"]).and_then(Value::as_i64);
    let seconds = seconds.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST).unsigned_abs();
    let lifetime = Duration::from_secs(seconds);
    let signed = check_usages(&usages).and_then(|()| {
        let request = request_of(value).map_err(str::to_owned)?;
        check_key(core, &request, value).map_err(str::to_owned)?;
        let serial = [core.dice.next(), core.dice.next()];
        let pem = authority
            .sign_request(&request, &usages, serial, lifetime, (core.clock)())
            .map_err(|error| error.to_string())?;
        Ok((request, pem))
    });
    if let Ok((request, _)) = &signed {
        remember_key(core, request, value, lifetime)?;
    }
    let Some(status) = value.as_object_mut().and_then(|map| object::child(map, "status")) else {
        return Ok(());
    };
    match signed {
        Ok((_, pem)) => {
            status.insert("certificate".to_owned(), STANDARD.encode(pem).into());
        }
        Err(why) => {
            let now = rfc3339((core.clock)());
            let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailed", "message": why,
                "lastUpdateTime": now, "lastTransitionTime": now});
            let mut list = conditions(value).to_vec();
            list.push(failed);
            if let Some(status) = value.as_object_mut().and_then(|map| object::child(map, "status")) {
                status.insert("conditions".to_owned(), list.into());
            }
        }
    }
    Ok(())
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
