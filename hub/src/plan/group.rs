//! Which clusters change in the same way: changes object by object, equal ones together.

use super::{
    Action,
    change::FieldChange,
    cluster::{Comparison, ObjectId},
};
use std::collections::BTreeMap;

/// What becomes of one object, over all clusters where it changes in one way or another.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectGroup {
    /// Which one.
    pub id: ObjectId,
    /// What becomes of it.
    pub action: Action,
    /// The different ways, the one with most clusters first.
    pub variants: Vec<Variant>,
}

/// One way in which an object changes; the count of replicas may differ from cluster to cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The fields that differ, without the count of replicas.
    pub fields: Vec<FieldChange>,
    /// The clusters, sorted, each with the replicas before and after where the object is divided.
    pub clusters: Vec<(String, Option<(u32, u32)>)>,
}

impl Variant {
    /// Replicas before and after over all clusters; `None` if the object is not divided.
    pub fn replicas(&self) -> Option<(u64, u64)> {
        let counts = self.clusters.iter().filter_map(|(_, replicas)| *replicas);
        counts.fold(None, |sum, (before, after)| {
            let (b, a) = sum.unwrap_or((0, 0));
            Some((b + u64::from(before), a + u64::from(after)))
        })
    }

    /// Whether pods are restarted.
    pub fn restarts(&self) -> bool {
        self.fields.iter().any(|field| field.restarts)
    }
}

impl ObjectGroup {
    /// Over all variants.
    pub fn clusters(&self) -> usize {
        self.variants.iter().map(|variant| variant.clusters.len()).sum()
    }
}

/// Groups what differs: by object, then by what becomes of it, then by how.
pub fn groups(compared: &BTreeMap<String, Comparison>) -> Vec<ObjectGroup> {
    let mut groups: BTreeMap<(&ObjectId, Action), BTreeMap<&str, Variant>> = BTreeMap::new();
    for (cluster, comparison) in compared {
        for change in comparison.iter() {
            let variants = groups.entry((&change.id, change.action)).or_default();
            let variant = variants.entry(&change.variant).or_insert_with(|| Variant {
                fields: change.fields.clone(),
                clusters: Vec::new(),
            });
            variant.clusters.push((cluster.clone(), change.replicas));
        }
    }
    let group = |((id, action), variants): ((&ObjectId, Action), BTreeMap<&str, Variant>)| {
        let mut variants: Vec<Variant> = variants.into_values().collect();
        variants.sort_by(|a, b| {
            let names = |variant: &Variant| variant.clusters.first().map(|(name, _)| name.clone());
            (b.clusters.len(), names(a)).cmp(&(a.clusters.len(), names(b)))
        });
        ObjectGroup {
            id: id.clone(),
            action,
            variants,
        }
    };
    groups.into_iter().map(group).collect()
}
