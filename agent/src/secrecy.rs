//! Secrecy: what is left of a member's words about a Secret. An API server, and an admission webhook all the more, may
//! repeat the value that it refuses, and outcomes go into statuses and logs that more people may read than the Secret.

use crate::apply::immutable::refusals;
use crate::kinds::Kind;
use kube::core::Status;
use kube::core::response::StatusCause;

/// Causes whose words name field managers or namespaces, never values.
const HARMLESS: [&str; 2] = ["FieldManagerConflict", "NamespaceTerminating"];

/// Whether objects of this kind hold what nobody else may read.
pub(crate) fn is_secret(kind: &Kind) -> bool {
    kind.resource.group.is_empty() && kind.resource.kind == "Secret"
}

/// Takes every text out of a refusal that may repeat a value: what stays are the code, the reasons, the fields, and the
/// words that Kubernetes makes of names alone.
pub(crate) fn hush(status: &mut Status) {
    let immutable = !refusals(status).is_empty();
    let causes = status.details.as_mut().map(|details| &mut details.causes);
    let mut fields = Vec::new();
    for cause in causes.into_iter().flatten() {
        if HARMLESS.contains(&cause.reason.as_str()) {
            continue;
        }
        cause.message = left_of(cause, immutable);
        fields.push(cause.field.clone());
    }
    if names_only(status) {
        return;
    }
    fields.retain(|field| !field.is_empty());
    let at = match fields.as_slice() {
        [] => String::new(),
        fields => format!(" at {}", fields.join(", ")),
    };
    let by = webhook(&status.message)
        .map(|name| format!(" by admission webhook {name:?}"))
        .unwrap_or_default();
    let what = if immutable { ": field is immutable" } else { "" };
    status.message = format!(
        "the Secret is refused{by} with {} {}{at}{what}; the words of the cluster are left out, because they may repeat \
         what it holds",
        status.code, status.reason
    );
}

fn left_of(cause: &StatusCause, immutable: bool) -> String {
    if immutable {
        "field is immutable".to_owned()
    } else {
        cause.reason.clone()
    }
}

/// Whether a message is about who may do what, or about an object that is or is not there.
fn names_only(status: &Status) -> bool {
    let message = status.message.as_str();
    match status.code {
        403 => message.starts_with("secrets ") && message.contains("is forbidden: User "),
        404 => message.starts_with("secrets ") && message.ends_with("not found"),
        409 => status.reason == "AlreadyExists" || status.reason == "Conflict",
        _ => false,
    }
}

/// The admission webhook that a message names.
fn webhook(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("admission webhook \"")?;
    let (name, _) = rest.split_once('"')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    (name.len() <= 253 && name.chars().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{CallError, Fault};
    use serde_json::{from_value, json};

    #[test]
    fn no_value_of_a_secret_is_left_in_a_refusal_and_it_is_sorted_as_before() {
        let causes = |causes: serde_json::Value| json!({"causes": causes});
        for (code, reason, message, details, says) in [
            (
                422,
                "Invalid",
                "Secret \"db\" is invalid: data[p]: Invalid value: \"hunter2\": must be short",
                causes(json!([{"reason": "FieldValueInvalid", "field": "data[p]",
                    "message": "Invalid value: \"hunter2\": must be short"}])),
                "422 Invalid at data[p];",
            ),
            (
                422,
                "Invalid",
                "Secret \"db\" is invalid: data: Forbidden: field is immutable: \"hunter2\"",
                causes(json!([{"reason": "FieldValueForbidden", "field": "data",
                    "message": "Forbidden: field is immutable: \"hunter2\""}])),
                "at data: field is immutable",
            ),
            (
                422,
                "Invalid",
                "Secret \"db\" is invalid: data: Forbidden: field is immutable: \"hunter2\"",
                json!(null),
                "field is immutable",
            ),
            (
                400,
                "BadRequest",
                "admission webhook \"gate.example.com\" denied the request: hunter2 is weak",
                json!(null),
                "by admission webhook \"gate.example.com\" with 400",
            ),
            (500, "InternalError", "cannot store hunter2", json!(null), "500"),
            (403, "Forbidden", "hunter2 breaks policy", json!(null), "403"),
            (
                403,
                "Forbidden",
                "secrets \"db\" is forbidden: User \"agent\" cannot patch resource \"secrets\"",
                json!(null),
                "User \"agent\" cannot patch",
            ),
        ] {
            let mut status: Status = from_value(json!({"status": "Failure", "code": code, "reason": reason,
                "message": message, "details": details}))
            .unwrap();
            let fault = |status: &Status| CallError::Kube(kube::Error::Api(Box::new(status.clone()))).fault();
            let before = fault(&status);
            hush(&mut status);
            assert_eq!(fault(&status), before, "{message}");
            assert!(status.message.contains(says), "{}", status.message);
            assert!(!format!("{status:?}").contains("hunter2"), "{status:?}");
        }
    }

    #[test]
    fn a_conflict_of_managers_still_names_them() {
        let mut status: Status = from_value(json!({"status": "Failure", "code": 409, "reason": "Conflict",
            "message": "Apply failed with 1 conflict: conflict with \"other\": .data.p", "details": {"causes": [
            {"reason": "FieldManagerConflict", "message": "conflict with \"other\"", "field": ".data.p"}]}}))
        .unwrap();
        let before = status.clone();
        hush(&mut status);
        assert_eq!(status, before);
        assert_eq!(
            CallError::Kube(kube::Error::Api(Box::new(status))).fault(),
            Fault::Conflict
        );
    }
}
