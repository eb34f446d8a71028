//! Locate: an object of the ledger in the member, at whatever version its kind is served now.

use crate::error::{CallError, Fault};
use crate::kinds::{Kind, Kinds};
use crate::member::Member;
use crate::object::ObjectKey;
use serde_json::Value;
use std::sync::Arc;

/// Where an object is, and what there is of it.
pub(crate) struct Located {
    pub(crate) kind: Arc<Kind>,
    /// The object as the member names it.
    pub(crate) target: ObjectKey,
    /// `None`: the member says that it is not there.
    pub(crate) live: Option<Value>,
}

/// Looks for an object that was applied at `version`; `None` if its kind has no definition any more.
///
/// # Errors
/// Whatever keeps the agent from seeing whether the object is there. A version that was served and is not any more is
/// asked about once more; absence is never concluded from it.
pub(crate) async fn locate(
    member: &Member,
    kinds: &Kinds,
    key: &ObjectKey,
    version: &str,
) -> Result<Option<Located>, CallError> {
    let mut is_fresh = false;
    loop {
        let kind = kinds.resolve_any_version(&key.group, &key.kind, version).await?;
        let Some(kind) = kind else { return Ok(None) };
        let target = kind.names(key);
        match member.get(&kind, &target).await {
            Ok(live) => return Ok(Some(Located { kind, target, live })),
            Err(error) if error.fault() == Fault::NotServed && !is_fresh => {
                kinds.forget_version(&kind);
                is_fresh = true;
            }
            Err(error) => return Err(error),
        }
    }
}
