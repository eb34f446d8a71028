//! What the Application's status says about all clusters: counts, and a bounded sample of what is not ready.

use super::Observed;
use crate::workflow::{ClusterEvidence, ClusterState};
use roundhouse_api::application::{
    ClusterDelivery, Delivery, MAX_NOT_READY, MAX_OBJECT_CLUSTERS, MAX_OBJECT_REGIONS, MAX_REGIONS,
    OTHER_REGIONS, ObjectDelivery, ObjectRegion, RegionDelivery, WaitFor,
};
use roundhouse_api::bundle::DEGRADED;
use roundhouse_api::condition;
use std::{collections::BTreeMap, sync::Arc};

/// At most this many reasons for unplaced replicas.
const MAX_REASONS: usize = 20;

/// One cluster of the roll-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Value of its label `region`, empty without.
    pub region: String,
    /// What it showed.
    pub evidence: ClusterEvidence,
    /// Replicas that it is to run, divided ones and full counts.
    pub replicas: u64,
    /// Of those, the divided ones.
    pub divided: u64,
    /// Of all, replicas that are ready by its own report.
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
pub fn ready_replicas(observed: &[Arc<Observed>], placed: u64) -> u64 {
    let reports = observed
        .iter()
        .filter(|b| !b.deleting)
        .filter_map(|bundle| bundle.own_report());
    let ready = reports.map(|report| {
        let listed = report.workloads.iter().map(|w| u64::from(w.ready_replicas()));
        listed.sum::<u64>() + report.omitted_workloads.map_or(0, |omitted| omitted.ready)
    });
    ready.sum::<u64>().min(placed)
}

/// The first trouble that reports about the present content name: reason and message of the condition `Degraded`.
pub fn trouble(observed: &[Arc<Observed>]) -> Option<(String, String)> {
    let reports = observed
        .iter()
        .filter(|b| !b.deleting)
        .filter_map(|bundle| bundle.own_report());
    let mut degraded = reports.filter_map(|report| {
        let condition = condition::get(&report.conditions, DEGRADED)?;
        (condition.status == "True").then(|| (condition.reason.clone(), condition.message.clone()))
    });
    degraded.next()
}

/// The first `most` of a list, and how many more there are.
fn bounded(mut clusters: Vec<ClusterDelivery>, most: usize) -> (Vec<ClusterDelivery>, Option<u32>) {
    clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    let omitted = beyond(clusters.len(), most);
    clusters.truncate(most);
    (clusters, omitted)
}

/// How many are left out, if any are.
fn beyond(count: usize, most: usize) -> Option<u32> {
    let more = count.saturating_sub(most);
    (more > 0).then(|| u32::try_from(more).unwrap_or(u32::MAX))
}

/// The first `most` regions, the rest summed up behind them into `others`, and how many those are.
fn bounded_regions<R>(
    mut regions: Vec<R>,
    most: usize,
    mut others: R,
    add: impl Fn(&mut R, R),
) -> (Vec<R>, Option<u32>) {
    let omitted = beyond(regions.len(), most);
    if omitted.is_some() {
        for region in regions.drain(most..) {
            add(&mut others, region);
        }
        regions.push(others);
    }
    (regions, omitted)
}

/// A cluster that is not ready.
fn late_of(evidence: &ClusterEvidence) -> ClusterDelivery {
    ClusterDelivery {
        cluster: evidence.cluster.clone(),
        phase: evidence.state.as_str().to_owned(),
        message: evidence.message.clone(),
    }
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
        if member.evidence.state != ClusterState::Ready {
            late.push(late_of(&member.evidence));
        } else if let Some((reason, message)) = member.trouble.clone() {
            degraded.push(ClusterDelivery {
                cluster: member.evidence.cluster.clone(),
                phase: reason,
                message,
            });
        }
    }
    let ready_clusters = members.len() - late.len();
    let (not_ready, omitted) = bounded(late, MAX_NOT_READY);
    let (degraded, degraded_omitted) = bounded(degraded, MAX_NOT_READY);
    let placed: u64 = members.iter().map(|m| m.divided).sum();
    let replicas: u64 = members.iter().map(|m| m.replicas).sum();
    let ready: u64 = members.iter().map(|m| m.ready).sum();
    let mut reasons = unplaced.reasons;
    let unplaced_omitted = beyond(reasons.len(), MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    let others = RegionDelivery {
        region: OTHER_REGIONS.to_owned(),
        ..RegionDelivery::default()
    };
    let regions = regions.into_values().collect();
    let (regions, regions_omitted) = bounded_regions(regions, MAX_REGIONS, others, |others, region| {
        others.clusters += region.clusters;
        others.ready += region.ready;
        others.failed += region.failed;
        others.unreachable += region.unreachable;
        others.replicas += region.replicas;
        others.replicas_ready += region.replicas_ready;
    });
    Delivery {
        clusters_ready: format!("{ready_clusters}/{}", members.len()),
        replicas_ready: format!("{ready}/{replicas}"),
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
        ..Delivery::default()
    }
}

/// Sums up what the clusters show of the object of a step, each with its region. One counts as ready that has come to what the
/// step waits for.
pub fn roll_up_object(
    (step, type_, wait): (&str, &str, WaitFor),
    clusters: &[(String, ClusterEvidence)],
) -> ObjectDelivery {
    let mut regions: BTreeMap<&str, ObjectRegion> = BTreeMap::new();
    let mut late = Vec::new();
    for (region, evidence) in clusters {
        let region = regions.entry(region).or_insert_with(|| ObjectRegion {
            region: region.clone(),
            ..ObjectRegion::default()
        });
        region.clusters += 1;
        if evidence.state.passes(wait) {
            region.ready += 1;
            continue;
        }
        match evidence.state {
            ClusterState::Failed | ClusterState::Unhealthy => region.failed += 1,
            ClusterState::Unreachable => region.unreachable += 1,
            _ => {}
        }
        late.push(late_of(evidence));
    }
    let (not_ready, omitted) = bounded(late, MAX_OBJECT_CLUSTERS);
    let others = ObjectRegion {
        region: OTHER_REGIONS.to_owned(),
        ..ObjectRegion::default()
    };
    let regions = regions.into_values().collect();
    let (regions, regions_omitted) =
        bounded_regions(regions, MAX_OBJECT_REGIONS, others, |others, region| {
            others.clusters += region.clusters;
            others.ready += region.ready;
            others.failed += region.failed;
            others.unreachable += region.unreachable;
        });
    ObjectDelivery {
        step: step.to_owned(),
        type_: type_.to_owned(),
        regions,
        regions_omitted,
        not_ready,
        omitted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(cluster: &str, state: ClusterState) -> ClusterEvidence {
        ClusterEvidence {
            cluster: cluster.to_owned(),
            state,
            message: "m".to_owned(),
        }
    }

    #[test]
    fn the_object_of_a_step_is_counted_by_what_the_step_waits_for() {
        use ClusterState::{Applied, Failed, Ready, Unhealthy, Unreachable, Waiting};
        let clusters = [
            ("east", "c1", Ready),
            ("east", "c2", Applied),
            ("east", "c3", Failed),
            ("west", "c4", Unhealthy),
            ("west", "c5", Unreachable),
            ("", "c6", Waiting),
        ];
        let clusters = clusters.map(|(region, name, state)| (region.to_owned(), shown(name, state)));
        for (wait, east, west, late) in [
            (WaitFor::Ready, [3, 1, 1, 0], [2, 0, 1, 1], "c2 c3 c4 c5 c6"),
            (WaitFor::Applied, [3, 2, 1, 0], [2, 1, 0, 1], "c3 c5 c6"),
        ] {
            let summed = roll_up_object(("flags", "apply-object", wait), &clusters);
            let counts = |at: usize| {
                let region: &ObjectRegion = &summed.regions[at];
                [region.clusters, region.ready, region.failed, region.unreachable]
            };
            assert_eq!((counts(0), counts(1), counts(2)), ([1, 0, 0, 0], east, west));
            let names: Vec<&str> = summed.not_ready.iter().map(|c| c.cluster.as_str()).collect();
            assert_eq!(names.join(" "), late);
            assert_eq!(summed.counts(), (east[1] + west[1], 6));
        }
    }

    #[test]
    fn what_is_said_of_the_object_of_a_step_is_bounded_and_counts_all() {
        let clusters: Vec<_> = (0..1000)
            .map(|n| {
                (
                    format!("r{:02}", n % 50),
                    shown(&format!("c{n:03}"), ClusterState::Waiting),
                )
            })
            .collect();
        let summed = roll_up_object(("flags", "apply-object", WaitFor::Ready), &clusters);
        assert_eq!(summed.counts(), (0, 1000));
        assert_eq!((summed.regions.len(), summed.regions_omitted), (21, Some(30)));
        assert_eq!(summed.regions[20].region, OTHER_REGIONS);
        assert_eq!((summed.not_ready.len(), summed.omitted), (10, Some(990)));
    }
}
