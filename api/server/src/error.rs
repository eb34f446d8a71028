//! Errors as Kubernetes `Status` objects.

use serde_json::{Value, json};

/// One entry of `Status.details.causes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// What is wrong, for people.
    pub message: String,
    /// Path of the field, such as `spec.replicas` or `data[a/b]`.
    pub field: String,
}

impl Cause {
    fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason,
            field: field.into(),
            message: message.into(),
        }
    }

    /// The value is not acceptable.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueInvalid", field, message)
    }
    /// The value is not acceptable: Kubernetes shows it (scalars plainly, all else as JSON) before it says why.
    pub(crate) fn invalid_value(field: impl Into<String>, value: Option<&Value>, why: &str) -> Self {
        let shown = value.map_or_else(|| "\"null\"".to_owned(), Value::to_string);
        Self::invalid(field, format!("Invalid value: {shown}: {why}"))
    }
    /// The field must be set.
    pub(crate) fn required(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueRequired", field, message)
    }
    /// The value is none of the accepted ones.
    pub(crate) fn not_supported(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueNotSupported", field, message)
    }
    /// The value has the wrong JSON type.
    pub(crate) fn type_invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueTypeInvalid", field, message)
    }
    /// The field may not be set here.
    pub(crate) fn forbidden(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueForbidden", field, message)
    }
    /// The value occurs twice.
    pub(crate) fn duplicate(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueDuplicate", field, message)
    }
    /// What the field names is not there.
    pub(crate) fn not_found(field: impl Into<String>, name: &str) -> Self {
        Self::new("FieldValueNotFound", field, format!("Not found: {name:?}"))
    }
    /// The string is too long.
    pub(crate) fn too_long(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueTooLong", field, message)
    }
    /// The list or map has too many entries.
    pub(crate) fn too_many(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldValueTooMany", field, message)
    }
    /// Whether an object with this fault is too far from its schema for rules to be evaluated (`hasBlockingErr` of Kubernetes).
    pub(crate) fn keeps_rules_from_being_checked(&self) -> bool {
        matches!(
            self.reason,
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }
    /// Another field manager owns the field.
    pub(crate) fn manager_conflict(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("FieldManagerConflict", field, message)
    }
    /// A PodDisruptionBudget does not let a Pod go.
    pub(crate) fn disruption_budget(message: &str) -> Self {
        Self::new("DisruptionBudget", "", message)
    }
    /// The resourceVersion asked for has not been given out yet.
    pub(crate) fn version_too_large() -> Self {
        Self::new("ResourceVersionTooLarge", "", "Too large resource version")
    }
    /// The namespace of the object is going away.
    pub(crate) fn namespace_terminating(namespace: &str) -> Self {
        let message = format!("namespace {namespace} is being terminated");
        Self::new("NamespaceTerminating", "metadata.namespace", message)
    }
}

/// A refused request: what the client gets is [`ApiError::to_status`].
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason (`NotFound`, `Conflict`, …); empty where Kubernetes gives none.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// What it is about.
    pub details: Box<Details>,
}

/// What an error is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// Group of the resource concerned.
    pub group: String,
    /// Resource or kind concerned.
    pub kind: String,
    /// Object concerned.
    pub name: String,
    /// Field by field.
    pub causes: Vec<Cause>,
}

impl ApiError {
    /// An error with code, reason and message and no details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
        }
    }

    /// Names the object in `details`.
    pub(crate) fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.details.group = group.to_owned();
        self.details.kind = kind.to_owned();
        self.details.name = name.to_owned();
        self
    }

    /// 400 `BadRequest`.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }
    /// 401 `Unauthorized`.
    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }
    /// 404 for a path that is no resource.
    pub(crate) fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }
    /// 405 `MethodNotAllowed`.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }
    /// 406 `NotAcceptable`.
    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json, application/yaml";
        Self::new(406, "NotAcceptable", message)
    }
    /// 410 `Expired`.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }
    /// 413 `RequestEntityTooLarge`.
    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }
    /// 415 `UnsupportedMediaType`.
    pub(crate) fn unsupported_media_type(got: &str, accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format ({got}) - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }
    /// 429 `TooManyRequests`; goes with `Retry-After: 1`.
    pub(crate) fn too_many_requests() -> Self {
        Self::new(
            429,
            "TooManyRequests",
            "too many requests at once, please try again later",
        )
    }
    /// 500 without a reason: what Kubernetes answers for errors it has no class for.
    pub(crate) fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }
    /// 500 `InternalError`.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// 503 `ServiceUnavailable`: the store takes no writes now.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }
    /// 504 `Timeout`: whether it happened is unknown.
    pub(crate) fn unknown_outcome(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message)
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        let mut details = serde_json::Map::new();
        let about = &self.details;
        for (key, text) in [
            ("name", &about.name),
            ("group", &about.group),
            ("kind", &about.kind),
        ] {
            if !text.is_empty() {
                details.insert(key.into(), text.as_str().into());
            }
        }
        if !about.causes.is_empty() {
            let causes = about
                .causes
                .iter()
                .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}));
            details.insert("causes".into(), causes.collect());
        }
        if let Some(map) = status.as_object_mut() {
            if !self.reason.is_empty() {
                map.insert("reason".into(), self.reason.into());
            }
            // kubectl looks into the details of every 404.
            if !details.is_empty() || self.code == 404 {
                map.insert("details".into(), details.into());
            }
        }
        status
    }
}
