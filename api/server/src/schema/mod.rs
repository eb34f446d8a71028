//! Structural schemas: of custom resources from their definitions, of built-in kinds from `k8s-openapi`.

mod builtin;
mod cel;
mod defaults;
mod format;
mod metered;
mod model;
mod normalize;
mod path;
mod prune;
mod structural;
mod typed;
mod validate;

pub(crate) use builtin::{builtin, builtin_json, builtin_name, object_meta};
pub(crate) use cel::Rules;
pub(crate) use defaults::apply_defaults;
pub(crate) use model::{Definitions, ListType, Schema, Type};
pub(crate) use normalize::{TypeMismatch, normalize};
pub(crate) use path::Path;
pub(crate) use prune::prune;
pub(crate) use structural::{check_structural, named};
pub(crate) use typed::misfit;
pub(crate) use validate::validate;

use crate::error::Cause;
use serde_json::Value;

/// What a definition says of the fields of its objects, for whoever reads them without a server.
#[derive(Debug, Clone)]
pub struct Structure(Schema);

impl Structure {
    /// Compiles an OpenAPI schema, such as `openAPIV3Schema` of a version of a definition.
    pub fn of(schema: &Value) -> Structure {
        Structure(Schema::compile(schema))
    }

    /// Fields of the object whose values are not as they must be, with what the server says of them. Fields that are not
    /// known and rules in CEL are not looked at.
    pub fn wrong(&self, object: &Value) -> Vec<Cause> {
        validate(object, None, &self.0, &Definitions::default(), "")
    }
}

/// `a` + `b` -> `a.b`, as Kubernetes writes field paths.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// `a` + map key `b` -> `a[b]`.
pub(crate) fn join_key(path: &str, key: &str) -> String {
    format!("{path}[{key}]")
}

/// `a` + 3 -> `a[3]`.
pub(crate) fn join_index(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
