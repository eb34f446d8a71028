//! What the Application's status says about all clusters: counts, and a bounded sample of what is not ready.

use super::Observed;
use crate::workflow::{ClusterEvidence, ClusterState};
use roundhouse_api::application::{
    ClusterDelivery, Delivery, MAX_NOT_READY, MAX_REGIONS, OTHER_REGIONS, RegionDelivery,
};
use roundhouse_api::bundle::DEGRADED;
use roundhouse_api::condition;
use std::collections::BTreeMap;

/// At most this many reasons for unplaced replicas.
const MAX_REASONS: usize = 20;

/// One cluster of the roll-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Value of its label `region`, empty without.
    pub region: String,
    /// What it showed.
    pub evidence: ClusterEvidence,
    /// Replicas placed on it.
    pub replicas: u64,
    /// Of those, replicas that are ready by its own report.
    pub ready: u64,
    /// Trouble that its own report names: reason and message.
    pub trouble: Option<(String, String)>,
}

/// Replicas that found no place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unplaced {
    /// How many.
    pub count: u64,
    /// One line per rule and reason.
    pub reasons: Vec<String>,
}

/// Replicas that are ready by reports about the present content: those of the revision, at most as many as asked for.
pub fn ready_replicas(observed: &[Observed], placed: u64) -> u64 {
    let reports = observed
        .iter()
        .filter(|b| !b.deleting)
        .filter_map(Observed::own_report);
    let ready = reports.map(|report| {
        let listed = report.workloads.iter().map(|w| u64::from(w.ready_replicas()));
        listed.sum::<u64>() + report.omitted_workloads.map_or(0, |omitted| omitted.ready)
    });
    ready.sum::<u64>().min(placed)
}

/// The first trouble that reports about the present content name: reason and message of the condition `Degraded`.
pub fn trouble(observed: &[Observed]) -> Option<(String, String)> {
    let reports = observed
        .iter()
        .filter(|b| !b.deleting)
        .filter_map(Observed::own_report);
    let mut degraded = reports.filter_map(|report| {
        let condition = condition::get(&report.conditions, DEGRADED)?;
        (condition.status == "True").then(|| (condition.reason.clone(), condition.message.clone()))
    });
    degraded.next()
}

/// The first [`MAX_NOT_READY`] of a list, and how many more there are.
fn bounded(mut clusters: Vec<ClusterDelivery>) -> (Vec<ClusterDelivery>, Option<u32>) {
    clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let omitted = beyond(clusters.len(), MAX_NOT_READY);
    clusters.truncate(MAX_NOT_READY);
    (clusters, omitted)
}

/// How many are left out, if any are.
fn beyond(count: usize, most: usize) -> Option<u32> {
    let more = count.saturating_sub(most);
    (more > 0).then(|| u32::try_from(more).unwrap_or(u32::MAX))
}

/// The first [`MAX_REGIONS`], the others summed up behind them, and how many those are.
fn bounded_regions(mut regions: Vec<RegionDelivery>) -> (Vec<RegionDelivery>, Option<u32>) {
    let omitted = beyond(regions.len(), MAX_REGIONS);
    if omitted.is_some() {
        let mut others = RegionDelivery {
            region: OTHER_REGIONS.to_owned(),
            ..RegionDelivery::default()
        };
        for region in regions.drain(MAX_REGIONS..) {
            others.clusters += region.clusters;
            others.ready += region.ready;
            others.failed += region.failed;
            others.unreachable += region.unreachable;
            others.replicas += region.replicas;
            others.replicas_ready += region.replicas_ready;
        }
        regions.push(others);
    }
    (regions, omitted)
}

/// Sums the members up.
pub fn roll_up(members: &[Member], unplaced: Unplaced) -> Delivery {
    let mut regions: BTreeMap<&str, RegionDelivery> = BTreeMap::new();
    let mut late = Vec::new();
    let mut degraded = Vec::new();
    for member in members {
        let region = regions.entry(&member.region).or_insert_with(|| RegionDelivery {
            region: member.region.clone(),
            ..RegionDelivery::default()
        });
        region.clusters += 1;
        region.replicas += member.replicas;
        region.replicas_ready += member.ready;
        match member.evidence.state {
            ClusterState::Ready => region.ready += 1,
            ClusterState::Failed | ClusterState::Unhealthy => region.failed += 1,
            ClusterState::Unreachable => region.unreachable += 1,
            _ => {}
        }
        let cluster = member.evidence.cluster.clone();
        if member.evidence.state != ClusterState::Ready {
            late.push(ClusterDelivery {
                cluster,
                phase: member.evidence.state.as_str().to_owned(),
                message: member.evidence.message.clone(),
            });
        } else if let Some((reason, message)) = member.trouble.clone() {
            degraded.push(ClusterDelivery {
                cluster,
                phase: reason,
                message,
            });
        }
    }
    let ready_clusters = members.len() - late.len();
    let (not_ready, omitted) = bounded(late);
    let (degraded, degraded_omitted) = bounded(degraded);
    let placed: u64 = members.iter().map(|m| m.replicas).sum();
    let ready: u64 = members.iter().map(|m| m.ready).sum();
    let mut reasons = unplaced.reasons;
    let unplaced_omitted = beyond(reasons.len(), MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    let (regions, regions_omitted) = bounded_regions(regions.into_values().collect());
    Delivery {
        clusters_ready: format!("{ready_clusters}/{}", members.len()),
        replicas_ready: format!("{ready}/{placed}"),
        placed,
        unplaced: unplaced.count,
        unplaced_reasons: reasons,
        unplaced_omitted,
        regions,
        regions_omitted,
        not_ready,
        omitted,
        degraded,
        degraded_omitted,
    }
}
