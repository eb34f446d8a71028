//! Which overrides are for which members, and what their variables stand for.
//!
//! What shows only in the manifests (an object or a path that is not there) is found when they are applied.

use super::{eligible::Selection, fleet::Fleet, labels::ClusterSet};
use roundhouse_api::{
    decision::{DecidedOverride, OverrideError},
    placement::{Override, Piece, PlacementSpec, pieces},
};
use std::collections::{BTreeMap, BTreeSet};

/// Errors of one decision; what is above is left out, since one is enough to hold it.
const MAX_ERRORS: usize = 32;

/// The overrides of one decision.
#[derive(Debug, Default)]
pub(super) struct Overridden {
    /// Those that are for a member, in order.
    pub(super) overrides: Vec<DecidedOverride>,
    /// Cluster -> label -> value, as far as variables name labels.
    pub(super) labels: BTreeMap<String, BTreeMap<String, String>>,
    /// What is wrong.
    pub(super) errors: Vec<OverrideError>,
}

/// An error of an override as one line.
pub fn error_line(error: &OverrideError) -> String {
    let mut line = format!("overrides[{}] of {}", error.index, error.object);
    if let Some(path) = &error.path {
        line.push_str(&format!(" at {path}"));
    }
    if let Some(cluster) = &error.cluster {
        line.push_str(&format!(" on cluster {cluster}"));
        if error.more_clusters > 0 {
            line.push_str(&format!(" and {} more", error.more_clusters));
        }
    }
    format!("{line}: {}", error.message)
}

/// Finds the members that each override is for.
pub(super) fn decide(
    spec: &PlacementSpec,
    selection: &Selection,
    members: &ClusterSet,
    fleet: &Fleet<'_>,
) -> Overridden {
    let mut result = Overridden::default();
    for (index, change) in spec.overrides.iter().enumerate() {
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let object = format!("{} {}", change.target.kind, change.target.name);
        let error = |message: String| OverrideError {
            index: number,
            object: object.clone(),
            message,
            ..OverrideError::default()
        };
        let meant = match meant(spec, change, selection, fleet) {
            Ok(meant) => meant,
            Err(message) => {
                result.errors.push(error(message));
                continue;
            }
        };
        let mut clusters = meant;
        clusters.retain(members);
        let keys = label_keys(change);
        for (key, path) in keys {
            let value = |cluster: usize| {
                fleet
                    .clusters
                    .get(cluster)
                    .and_then(|facts| facts.labels.get(&key))
            };
            let (with, without): (Vec<usize>, Vec<usize>) =
                clusters.iter().partition(|cluster| value(*cluster).is_some());
            for cluster in with {
                if let Some(value) = value(cluster) {
                    let of = result.labels.entry(fleet.name(cluster).to_owned()).or_default();
                    of.insert(key.clone(), value.clone());
                }
            }
            if let Some(first) = without.first() {
                result.errors.push(OverrideError {
                    cluster: Some(fleet.name(*first).to_owned()),
                    more_clusters: u32::try_from(without.len() - 1).unwrap_or(u32::MAX),
                    path: Some(path),
                    ..error(format!(
                        "the cluster has no label {key}, which ${{cluster.labels.{key}}} stands for: label it, or restrict the override to clusters that have the label"
                    ))
                });
            }
        }
        if clusters.len() > 0 {
            result.overrides.push(DecidedOverride {
                index: number,
                clusters: clusters.iter().map(|c| fleet.name(c).to_owned()).collect(),
                target: change.target.clone(),
                change: change.change.clone(),
            });
        }
    }
    result.errors.truncate(MAX_ERRORS);
    result
}

/// The clusters that an override is for, of those that the rules match.
///
/// A cluster that gets nothing now still counts as matched, and where the rules themselves match nothing, that is what
/// the decision says.
fn meant(
    spec: &PlacementSpec,
    change: &Override,
    selection: &Selection,
    fleet: &Fleet<'_>,
) -> Result<ClusterSet, String> {
    let mut within = ClusterSet::none(fleet.len());
    let mut known = change.rule.is_none();
    for (index, (rule, matched)) in spec.placement.iter().zip(&selection.matched).enumerate() {
        if change
            .rule
            .as_ref()
            .is_none_or(|name| *name == rule.name_or_index(index))
        {
            known = true;
            within.extend(matched);
        }
    }
    if let (false, Some(name)) = (known, &change.rule) {
        return Err(format!(
            "there is no rule named {name}: name one of this placement"
        ));
    }
    if within.len() == 0 {
        return Ok(within);
    }
    let mut meant = within;
    if let Some(selector) = &change.cluster_selector {
        meant.retain(&fleet.index.select(selector));
    }
    if let Some(names) = &change.clusters {
        meant.retain(&fleet.named(names));
    }
    if meant.len() == 0 {
        return Err(
            "it is for no cluster that the rules match: correct rule, clusterSelector or clusters, or remove it".to_owned(),
        );
    }
    // Of several rules on one cluster, the one that is named may not use it.
    if let Some(name) = &change.rule {
        let mut usable = ClusterSet::none(fleet.len());
        for (index, (rule, clusters)) in spec.placement.iter().zip(&selection.rules).enumerate() {
            if *name == rule.name_or_index(index) {
                usable.extend(&ClusterSet::of(fleet.len(), clusters.clusters.iter().copied()));
            }
        }
        meant.retain(&usable);
    }
    Ok(meant)
}

/// Label key -> the first path that names it in a variable. Variables that are none, which validation refuses, are text.
fn label_keys(change: &Override) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    for (path, text) in change.change.strings() {
        for piece in pieces(text).unwrap_or_default() {
            if let Piece::ClusterLabel(key) = piece {
                keys.entry(key.to_owned()).or_insert_with(|| path.clone());
            }
        }
    }
    keys
}

/// The label keys that overrides look at, in selectors and variables.
pub(super) fn keys_seen(spec: &PlacementSpec) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for change in &spec.overrides {
        if let Some(selector) = &change.cluster_selector {
            keys.extend(selector.match_labels.keys().cloned());
            keys.extend(selector.match_expressions.iter().map(|r| r.key.clone()));
        }
        keys.extend(label_keys(change).into_keys());
    }
    keys
}
