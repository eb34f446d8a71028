//! What a Secret of a known type must have (`ValidateSecret` of Kubernetes).

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::{
    error::Cause,
    object::{at, text},
    schema::join_key,
};

/// What is wrong with the data of a Secret for its type. Other types are free.
pub(super) fn check_secret(value: &Value, out: &mut Vec<Cause>) {
    let data = value.get("data").and_then(Value::as_object);
    let has = |key: &str| data.is_some_and(|data| data.contains_key(key));
    let mut required = |field: String| out.push(Cause::required(field, "Required value"));
    match text(value, &["type"]).unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let account = "kubernetes.io/service-account.name";
            let named = at(value, &["metadata", "annotations", account]).and_then(Value::as_str);
            if named.unwrap_or_default().is_empty() {
                required(join_key("metadata.annotations", account));
            }
        }
        "kubernetes.io/dockercfg" => json(value, ".dockercfg", out),
        "kubernetes.io/dockerconfigjson" => json(value, ".dockerconfigjson", out),
        // `%s` stands in the paths that Kubernetes gives for these two.
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            for key in ["username", "password"] {
                required(join_key("data[%s]", key));
            }
        }
        "kubernetes.io/ssh-auth" if !has("ssh-privatekey") => {
            required(join_key("data[%s]", "ssh-privatekey"))
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)) {
                required(join_key("data", key));
            }
        }
        _ => {}
    }
}

/// A value that has to be there, and to be JSON.
fn json(value: &Value, key: &str, out: &mut Vec<Cause>) {
    let field = join_key("data", key);
    let Some(encoded) = at(value, &["data", key]).and_then(Value::as_str) else {
        out.push(Cause::required(field, "Required value"));
        return;
    };
    let read = STANDARD.decode(encoded).ok();
    let read = read.and_then(|bytes| serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).ok());
    if read.is_none() {
        out.push(Cause::invalid(
            field,
            "Invalid value: \"<secret contents redacted>\": it is no JSON",
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn known_types_have_what_they_are_for() {
        let wrong = |value: Value| -> Vec<(&str, String)> {
            let mut out = vec![];
            check_secret(&value, &mut out);
            out.into_iter().map(|cause| (cause.reason, cause.field)).collect()
        };
        let required = |fields: &[&str]| -> Vec<(&str, String)> {
            fields
                .iter()
                .map(|field| ("FieldValueRequired", (*field).to_owned()))
                .collect()
        };
        for (value, expected) in [
            (json!({"type": "Opaque"}), required(&[])),
            (json!({"type": "example.org/mine"}), required(&[])),
            (
                json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
                required(&["data[tls.key]"]),
            ),
            (
                json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}),
                required(&[]),
            ),
            (
                json!({"type": "kubernetes.io/dockerconfigjson"}),
                required(&["data[.dockerconfigjson]"]),
            ),
            (
                json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}),
                required(&[]),
            ),
            (
                json!({"type": "kubernetes.io/dockercfg", "data": {".dockercfg": "bm8="}}),
                vec![("FieldValueInvalid", "data[.dockercfg]".to_owned())],
            ),
            (
                json!({"type": "kubernetes.io/basic-auth"}),
                required(&["data[%s][username]", "data[%s][password]"]),
            ),
            (
                json!({"type": "kubernetes.io/basic-auth", "data": {"password": ""}}),
                required(&[]),
            ),
            (
                json!({"type": "kubernetes.io/ssh-auth"}),
                required(&["data[%s][ssh-privatekey]"]),
            ),
            (
                json!({"type": "kubernetes.io/service-account-token"}),
                required(&["metadata.annotations[kubernetes.io/service-account.name]"]),
            ),
        ] {
            assert_eq!(wrong(value.clone()), expected, "{value}");
        }
    }
}
