//! What the server knows about a kind.

use std::{borrow::Cow, sync::Arc};

use super::Conversion;
use crate::{
    crd::CustomVersion,
    error::{ApiError, Cause},
};

/// Text that is static for built-in kinds and owned for custom ones.
pub(crate) type Text = Cow<'static, str>;

/// Where the `scale` subresource finds its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    /// Keys from the root to the desired count.
    pub(crate) spec: Vec<String>,
    /// Keys from the root to the observed count.
    pub(crate) status: Vec<String>,
    /// Keys from the root to the selector in text form; `None` for built-in kinds, whose `spec.selector` is rendered.
    pub(crate) selector: Option<Vec<String>>,
}

/// Which changes raise `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GenerationRule {
    /// The kind has no generation.
    None,
    /// A change of `spec` (or, for webhook configurations, of `webhooks`).
    Spec,
    /// A change of `spec`, or of annotations: those of a Deployment are copied to its ReplicaSets.
    SpecAndAnnotations,
    /// A change of anything but `metadata`, and but `status` where that is a subresource (custom resources).
    AllButMeta,
}

/// Deviations of a built-in kind from the common path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Quirks {
    /// `PUT` to an absent name creates.
    pub(crate) create_on_update: bool,
    /// `PUT` must carry a resourceVersion.
    pub(crate) version_required: bool,
    /// `DELETE` answers with the object rather than a `Status`.
    pub(crate) returns_deleted: bool,
    /// Who writes the status does not write metadata.
    pub(crate) status_keeps_metadata: bool,
    /// The status sent with a create is kept.
    pub(crate) keeps_status_on_create: bool,
    /// `DELETE` orphans dependents unless asked otherwise.
    pub(crate) orphans: bool,
    /// Creating one asks a question; nothing is stored.
    pub(crate) review: bool,
}

/// A kind in one version, with all that serving it takes.
#[derive(Debug)]
pub(crate) struct Resource {
    /// API group; empty for core.
    pub(crate) group: Text,
    /// Version, such as `v1`.
    pub(crate) version: Text,
    /// Kind, such as `Deployment`.
    pub(crate) kind: Text,
    /// Kind of its lists.
    pub(crate) list_kind: Text,
    /// Resource name in paths.
    pub(crate) plural: Text,
    /// Name for one.
    pub(crate) singular: Text,
    /// Whether objects live in namespaces.
    pub(crate) namespaced: bool,
    /// Short names for kubectl.
    pub(crate) short_names: Vec<Text>,
    /// Categories for kubectl, such as `all`.
    pub(crate) categories: Vec<Text>,
    /// Whether `status` is a subresource.
    pub(crate) status: bool,
    /// The `scale` subresource.
    pub(crate) scale: Option<ScalePaths>,
    /// What raises `metadata.generation`.
    pub(crate) generation: GenerationRule,
    /// Deviations.
    pub(crate) quirks: Quirks,
    /// Name of the table objects are stored in: `plural.group`, or `plural` for core.
    pub(crate) table: Arc<str>,
    /// How this version is stored; `None` if it is the stored one.
    pub(crate) conversion: Option<Conversion>,
    /// Of a custom kind the revision of its definition: what was stored later has the shape of the schema already. Never, if
    /// what is stored in one version need not have the shape of another.
    pub(crate) shaped_since: u64,
    /// Of a custom kind whether its definition is being deleted: nothing new is taken then.
    pub(crate) terminating: bool,
    /// Schema and columns of a custom resource; `None` for built-in kinds.
    pub(crate) custom: Option<Arc<CustomVersion>>,
}

impl Resource {
    /// What of the metadata who writes the status does not write; `None` if that is all of it.
    pub(crate) fn kept_with_status(&self) -> Option<&'static [&'static str]> {
        if self.custom.is_some() || self.quirks.status_keeps_metadata {
            return None;
        }
        Some(match (&*self.group, &*self.kind) {
            ("apps", "Deployment") => &["labels"],
            ("", "Pod") => &["ownerReferences"],
            _ => &[],
        })
    }

    /// `apiVersion` of objects.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// What whoever uses the version is warned with: of custom kinds what their definition says.
    pub(crate) fn deprecation(&self) -> Option<String> {
        match &self.custom {
            Some(custom) => custom.deprecated.as_ref().map(|given| match given.as_str() {
                "" => format!("{} {} is deprecated", self.api_version(), self.kind),
                given => given.to_owned(),
            }),
            None if self.group.is_empty() && &*self.kind == "Endpoints" => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
            }
            None => None,
        }
    }

    /// `plural.group`, as messages name it.
    pub(crate) fn qualified(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{}{dot}{}", self.plural, self.group)
    }

    /// 404.
    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", self.qualified()),
        )
        .about(&self.group, &self.plural, name)
    }

    /// 405, of a custom kind whose definition is being deleted.
    pub(crate) fn takes_nothing_new(&self) -> ApiError {
        let message = "create not allowed while custom resource definition is terminating";
        ApiError::new(405, "MethodNotAllowed", message).about(&self.group, &self.plural, "")
    }

    /// 409 `AlreadyExists`.
    pub(crate) fn already_exists(&self, name: &str) -> ApiError {
        ApiError::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", self.qualified()),
        )
        .about(&self.group, &self.plural, name)
    }

    /// 409 `Conflict` because the resourceVersion is not the stored one.
    pub(crate) fn conflict(&self, name: &str) -> ApiError {
        self.conflict_because(
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 `Conflict`.
    pub(crate) fn conflict_because(&self, name: &str, why: &str) -> ApiError {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            self.qualified()
        );
        ApiError::new(409, "Conflict", message).about(&self.group, &self.plural, name)
    }

    /// 403.
    pub(crate) fn forbidden(&self, name: &str, why: &str) -> ApiError {
        let message = format!("{} \"{name}\" is forbidden: {why}", self.qualified());
        ApiError::new(403, "Forbidden", message).about(&self.group, &self.plural, name)
    }

    /// 422 with what is wrong field by field.
    pub(crate) fn invalid(&self, name: &str, causes: Vec<Cause>) -> ApiError {
        let kind = if self.group.is_empty() {
            self.kind.to_string()
        } else {
            format!("{}.{}", self.kind, self.group)
        };
        let parts: Vec<String> = causes
            .iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect();
        let list = match parts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut error = ApiError::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {list}"));
        error.details.causes = causes;
        error.about(&self.group, &self.kind, name)
    }
}
