//! Kinds: the built-in table and the custom ones a server has learned from CRDs.

mod builtin;
mod conversion;
mod registry;
mod resource;

pub(crate) use builtin::{BUILTIN, TOKEN_REQUEST};
pub(crate) use conversion::Conversion;
pub(crate) use registry::Registry;
pub(crate) use resource::{GenerationRule, Quirks, Resource, ScalePaths, Text};
