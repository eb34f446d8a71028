//! How a fleet fares, on one screen or for a script: the sums, not the Bundles.

use super::counts::{Counts, Tally};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A cluster as the hub sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// Its name.
    pub name: String,
    /// The value of its label `region`; empty without one.
    pub region: String,
    /// Whether its agent is heard.
    pub available: bool,
    /// What became of its Bundles.
    #[serde(flatten)]
    pub tally: Tally,
}

/// An application.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What became of its Bundles.
    #[serde(flatten)]
    pub tally: Tally,
}

/// The whole fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How many of the clusters are available.
    pub available: u64,
    /// Sums over all Bundles.
    pub bundles: Tally,
    /// Every cluster, by name.
    pub clusters: Vec<ClusterRow>,
    /// Every application that has Bundles, by namespace and name.
    pub applications: Vec<ApplicationRow>,
}

/// Region of a cluster, and whether it is available, by its name.
pub type Members = BTreeMap<String, (String, bool)>;

/// The summary of the clusters that there are; what is counted of others is in the sums only.
pub fn summary(counts: &Counts, members: &Members) -> Summary {
    let row = |(name, (region, available)): (&String, &(String, bool))| ClusterRow {
        name: name.clone(),
        region: region.clone(),
        available: *available,
        tally: counts.clusters.get(name).copied().unwrap_or_default(),
    };
    let applications = counts.applications.iter();
    let applications = applications.map(|((namespace, name), tally)| ApplicationRow {
        namespace: namespace.clone(),
        name: name.clone(),
        tally: *tally,
    });
    let available = members.values().filter(|(_, available)| *available).count();
    Summary {
        available: u64::try_from(available).unwrap_or(u64::MAX),
        bundles: counts.all,
        clusters: members.iter().map(row).collect(),
        applications: applications.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_every_cluster_and_survives_its_json() {
        let mut counts = Counts::default();
        let tally = Tally {
            bundles: 1,
            ready: 1,
            failed: 0,
            objects: 5,
            replicas: 10,
        };
        let web = ("default".to_owned(), "web".to_owned());
        counts.add("c1", Some(&web), tally);
        counts.add("gone", Some(&web), tally);
        let member = |name: &str, available| (name.to_owned(), ("east".to_owned(), available));
        let summary = summary(&counts, &[member("c1", true), member("c2", false)].into());
        assert_eq!(summary.available, 1);
        assert_eq!(summary.bundles.bundles, 2);
        let of: Vec<_> = summary
            .clusters
            .iter()
            .map(|c| (c.name.as_str(), c.tally.bundles))
            .collect();
        assert_eq!(of, [("c1", 1), ("c2", 0)]);
        assert_eq!(summary.applications[0].tally.replicas, 20);
        let json = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    }
}
