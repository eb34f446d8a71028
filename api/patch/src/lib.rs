//! JSON merge, JSON patch, strategic merge and three-way diff as Kubernetes computes them; pure.
//!
//! - [`json_merge`], [`json_diff`]: RFC 7386, `application/merge-patch+json`.
//! - [`json_patch()`]: RFC 6902, `application/json-patch+json`.
//! - [`strategic_merge`]: `application/strategic-merge-patch+json`, for kinds that [`schema::lookup`] knows.
//! - [`three_way_merge`], [`three_way_merge_bytes`]: what `kubectl apply` makes of the last applied, the desired and
//!   the live object.
//! - [`field`]: paths of fields as users write them, and keeping live values by them.
//! - [`JsonPath`]: the values that a path of kubectl's dialect leads to.
//! - [`weight()`]: how many bytes a value has as JSON.
//! - [`quantity`]: numbers as Kubernetes writes them, exactly.
//! - [`managed`]: `metadata.managedFields`, server-side apply, and who owns a field.

mod document;
mod error;
pub mod field;
mod json;
mod json_path;
pub mod managed;
mod path;
pub mod quantity;
pub mod schema;
mod strategic;
mod three_way;
mod weight;

pub use error::PatchError;
pub use json::{json_diff, json_merge, json_patch};
pub use json_path::{JsonPath, JsonPathError};
pub use strategic::strategic_merge;
pub use three_way::{PatchType, ThreeWay, ThreeWayBytes, three_way_merge, three_way_merge_bytes};
pub use weight::weight;

/// How many levels of objects and lists a document may nest; a deeper one is [`PatchError::TooDeep`].
///
/// `serde_json` parses nothing deeper, so whatever came in as bytes is within it.
pub const MAX_DEPTH: usize = 128;
