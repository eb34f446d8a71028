//! Target: which object of the member a manifest means.

use crate::apply::decode::Manifest;
use crate::apply::outcome::Outcome;
use crate::kinds::Kind;
use crate::object::ObjectKey;

/// The object that a manifest means, as the member names it; where that is none, the outcome.
pub(crate) fn target(manifest: &Manifest, kind: &Kind) -> Result<ObjectKey, Outcome> {
    let mut target = manifest.key.clone();
    if !kind.namespaced {
        // As the API server does: the namespace of a cluster-scoped object is nothing.
        target.namespace.clear();
    } else if target.namespace.is_empty() {
        let message = format!("{} lives in a namespace: set metadata.namespace", manifest.key);
        return Err(Outcome::Failed {
            reason: "NoNamespace",
            message,
        });
    }
    Ok(target)
}

/// The outcome of a manifest whose kind the member does not serve.
pub(crate) fn no_kind(manifest: &Manifest) -> Outcome {
    Outcome::NoKind {
        message: format!(
            "the cluster does not serve {} {}: it is applied when its definition is installed",
            manifest.api_version(),
            manifest.key.kind
        ),
        lasting: false,
    }
}
