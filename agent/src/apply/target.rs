//! Target: which object of the member a manifest means.

use crate::apply::decode::{Decoded, Manifest};
use crate::apply::outcome::Outcome;
use crate::kinds::{Kind, Kinds};
use crate::object::ObjectKey;
use std::collections::BTreeMap;

/// The object that a manifest means, as the member names it; where that is none, the outcome.
pub(crate) fn target(manifest: &Manifest, kind: &Kind) -> Result<ObjectKey, Outcome> {
    let target = kind.names(&manifest.key);
    if kind.namespaced && target.namespace.is_empty() {
        let message = format!("{} lives in a namespace: set metadata.namespace", manifest.key);
        return Err(Outcome::Failed {
            reason: "NoNamespace",
            message,
        });
    }
    Ok(target)
}

/// Of manifests that mean one object, only the first is left: those of a kind without namespaces that are named alike and
/// give different ones. A kind that the member does not serve yet says nothing; its manifests wait for it.
pub(crate) async fn first_of_each(decoded: &mut Decoded, kinds: &Kinds) {
    let mut later = BTreeMap::new();
    for named_alike in named_alike(&decoded.manifests) {
        for (ordinal, first) in repeated(&named_alike, kinds).await {
            later.insert(ordinal, first);
        }
    }
    decoded.refuse_repeated(&later);
}

/// Manifests of one group, kind and name in several namespaces; none, mostly.
fn named_alike(manifests: &[Manifest]) -> Vec<Vec<&Manifest>> {
    let mut all: BTreeMap<(&str, &str, &str), Vec<&Manifest>> = BTreeMap::new();
    for manifest in manifests {
        let key = &manifest.key;
        let name = (key.group.as_str(), key.kind.as_str(), key.name.as_str());
        all.entry(name).or_default().push(manifest);
    }
    all.into_values().filter(|same| same.len() > 1).collect()
}

/// Ordinals of those that mean an object that one before them means, with the ordinal of that one.
async fn repeated(named_alike: &[&Manifest], kinds: &Kinds) -> Vec<(u32, u32)> {
    let mut first = None;
    let mut later = Vec::new();
    for manifest in named_alike {
        match kinds.resolve(&manifest.key.gvk(&manifest.version)).await {
            Ok(Some(kind)) if !kind.namespaced => match first {
                Some(first) => later.push((manifest.ordinal, first)),
                None => first = Some(manifest.ordinal),
            },
            Ok(_) | Err(_) => {}
        }
    }
    later
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
