//! Which lists merge by which key: the patch metadata of Kubernetes' built-in kinds.
//!
//! The table is generated from the types of Kubernetes 1.33 to 1.36 by `examples/generate-schema.rs` and checked in.

mod kinds;
mod node;

pub use node::{Field, Node, PLAIN, Strategy};

/// Identifies a kind the way a manifest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk<'a> {
    /// `group/version`, or `version` for the core group.
    pub api_version: &'a str,
    /// The kind, in CamelCase.
    pub kind: &'a str,
}

/// The metadata of a built-in kind; `None` for a custom kind, which is patched by JSON merge.
#[must_use]
pub fn lookup(api_version: &str, kind: &str) -> Option<&'static Node> {
    lookup_gvk(Gvk { api_version, kind })
}

/// [`lookup`] by a [`Gvk`].
#[must_use]
pub fn lookup_gvk(wanted: Gvk<'_>) -> Option<&'static Node> {
    let at = kinds::KINDS.binary_search_by(|(gvk, _)| gvk.cmp(&wanted)).ok()?;
    kinds::KINDS.get(at).map(|(_, node)| *node)
}

/// Every built-in kind, sorted.
pub fn built_in_kinds() -> impl Iterator<Item = Gvk<'static>> {
    kinds::KINDS.iter().map(|(gvk, _)| *gvk)
}

const fn gvk(api_version: &'static str, kind: &'static str) -> Gvk<'static> {
    Gvk { api_version, kind }
}

#[cfg(test)]
mod tests;
