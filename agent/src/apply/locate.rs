//! Locate: an object of the ledger in the member, at whatever version its kind is served now.

use crate::apply::Engine;
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
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

impl Engine {
    /// Looks for an object that was applied at `version`; `None` if its kind has no definition any more.
    ///
    /// # Errors
    /// Whatever keeps the agent from seeing whether the object is there. A version that was served and is not any more is
    /// asked about once more; absence is never concluded from it.
    pub(crate) async fn locate(&self, key: &ObjectKey, version: &str) -> Result<Option<Located>, CallError> {
        let mut is_fresh = false;
        loop {
            let kind = self
                .kinds
                .resolve_any_version(&key.group, &key.kind, version)
                .await?;
            let Some(kind) = kind else { return Ok(None) };
            let target = as_named(key, &kind);
            match self.member.get(&kind, &target).await {
                Ok(live) => return Ok(Some(Located { kind, target, live })),
                Err(error) if error.fault() == Fault::NotServed && !is_fresh => {
                    self.kinds.forget_version(&kind);
                    is_fresh = true;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The object as the member names it.
fn as_named(key: &ObjectKey, kind: &Kind) -> ObjectKey {
    let mut target = key.clone();
    if !kind.namespaced {
        target.namespace.clear();
    }
    target
}
