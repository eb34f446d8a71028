//! The clusters of a simulation: generated ones, or those of an inventory on which something may be placed.

use super::Args;
use crate::{
    cli::{Failure, inventory},
    cluster::checked_facts,
    simulate::MemberSpec,
    words,
};
use k8s_openapi::{api::core::v1::NodeStatus, apimachinery::pkg::api::resource::Quantity};
use kube::ResourceExt;
use roundhouse_api::{
    cluster::{AVAILABLE, Cluster, ClusterReportSpec, ClusterSpec, JOINED},
    condition,
    names::ClusterName,
    quantity::{thousandths, whole},
};
use std::collections::BTreeMap;

/// Most clusters of a simulation, as --clusters has them.
const MOST: usize = 10_000;

/// Clusters that a note names.
const NAMED: usize = 10;

/// The clusters that take part, and what of an inventory does not.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) clusters: Vec<Cluster>,
    /// What of the inventory is not simulated, and why, in sentences.
    pub(super) notes: Vec<String>,
}

/// The clusters that were asked for.
///
/// # Errors
/// The inventory does not read, has no cluster that can take part, or one with a quantity that no agent reports.
pub(super) fn of(args: &Args) -> Result<Fleet, Failure> {
    match &args.inventory {
        Some(file) => of_inventory(inventory::read(file)?),
        None => Ok(Fleet {
            clusters: generated(args.clusters),
            notes: Vec::new(),
        }),
    }
}

/// Clusters `c1`, `c2` and so on in two regions.
pub(super) fn generated(number: u32) -> Vec<Cluster> {
    // Three fifths; of two or more one is in the west.
    let east = (number * 3).div_ceil(5).min(number.saturating_sub(1)).max(1);
    let cluster = |n: u32| {
        let region = if n <= east { "east" } else { "west" };
        let tier = if n == 1 || n == east + 1 {
            "canary"
        } else {
            "production"
        };
        let mut cluster = Cluster::new(&format!("c{n}"), ClusterSpec::default());
        let labels = [("region", region), ("tier", tier)];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        cluster.metadata.labels = Some(labels.into());
        cluster.spec.accepted = true;
        inventory::alive(cluster.status.get_or_insert_default());
        cluster
    };
    (1..=number).map(cluster).collect()
}

/// Every simulated cluster is accepted and joins. Of those that would not be, none gets anything in a plan either: without them
/// the run places as the plan does.
fn of_inventory(all: Vec<Cluster>) -> Result<Fleet, Failure> {
    if all.is_empty() {
        return Err(Failure::new("E-INVENTORY", "the inventory has no cluster")
            .advise("a list with at least one Cluster object, or --clusters N"));
    }
    if all.len() > MOST {
        let what = format!(
            "the inventory has {} clusters",
            words::thousands(all.len() as u64)
        );
        return Err(Failure::new("E-INVENTORY", what)
            .because(format!(
                "a simulation has at most {}",
                words::thousands(MOST as u64)
            ))
            .advise("a list of fewer of them"));
    }
    let mut clusters = Vec::new();
    let mut left_out: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let mut tainted = Vec::new();
    for mut cluster in all {
        if let Some(why) = is_out(&cluster) {
            left_out.entry(why).or_default().push(cluster.name_any());
            continue;
        }
        if let Some(status) = cluster.status.as_mut().filter(|status| !status.taints.is_empty()) {
            status.taints.clear();
            tainted.push(cluster.name_any());
        }
        clusters.push(cluster);
    }
    let mut notes: Vec<String> = left_out
        .iter()
        .map(|(why, names)| {
            let names = words::listed(names, NAMED);
            format!("not simulated, since nothing is placed there: {names}: {why}")
        })
        .collect();
    if clusters.is_empty() {
        return Err(
            Failure::new("E-INVENTORY", "no cluster of the inventory can be simulated")
                .because(notes.join("; "))
                .advise("Cluster objects that are accepted, and whose status has no conditions or Joined and Available"),
        );
    }
    if !tainted.is_empty() {
        let names = words::listed(&tainted, NAMED);
        notes.push(format!(
            "not simulated, since the hub sets it itself: status.taints of {names}: spec.taints is where yours are"
        ));
    }
    Ok(Fleet { clusters, notes })
}

/// The field for which a plan places nothing on a cluster.
fn is_out(cluster: &Cluster) -> Option<&'static str> {
    let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
    let is = |type_| condition::is_true(conditions.unwrap_or_default(), type_);
    match () {
        () if cluster.metadata.deletion_timestamp.is_some() => Some("metadata.deletionTimestamp is set"),
        () if !cluster.spec.accepted => Some("spec.accepted is not true"),
        () if !is(JOINED) => Some("condition Joined of status.conditions is not True"),
        () if !is(AVAILABLE) => Some("condition Available of status.conditions is not True"),
        () => None,
    }
}

/// The members to be.
pub(super) fn members(clusters: &[Cluster]) -> Result<Vec<MemberSpec>, Failure> {
    let member = |cluster: &Cluster| {
        let name = ClusterName::new(cluster.name_any()).map_err(|error| {
            Failure::new(
                "E-INVENTORY",
                format!("{:?} cannot be a cluster", cluster.name_any()),
            )
            .because(error)
        })?;
        let labels = cluster.labels().clone();
        Ok(MemberSpec { name, labels })
    };
    clusters.iter().map(member).collect()
}

/// The nodes of the clusters that say what they have. What their agents report of them is what the inventory says.
///
/// # Errors
/// A quantity is more than an agent reports, or the hub would not take it from one.
pub(super) fn nodes(clusters: &[Cluster]) -> Result<BTreeMap<String, NodeStatus>, Failure> {
    let node = |cluster: &Cluster| {
        let status = cluster.status.as_ref()?;
        let is_said = !status.capacity.is_empty() || !status.allocatable.is_empty();
        is_said.then(|| {
            let name = cluster.name_any();
            node(&name, &status.capacity, &status.allocatable).map(|node| (name, node))
        })
    };
    clusters.iter().filter_map(node).collect()
}

type Quantities = BTreeMap<String, String>;

fn node(name: &str, capacity: &Quantities, allocatable: &Quantities) -> Result<NodeStatus, Failure> {
    let refused = |fields: &[String], why: &str| {
        let fields = words::listed(fields, NAMED);
        Failure::new("E-INVENTORY", format!("cluster {name} cannot be simulated"))
            .because(format!("{fields}: {why}"))
            .advise("an inventory without it, or with a smaller quantity")
    };
    let mut capacity = capacity.clone();
    // Half a replica is none; an agent rounds up what is finer than a thousandth.
    if let Some(replicas) = capacity.get_mut("replicas")
        && let Some(fit) = whole(replicas)
    {
        *replicas = fit.min(u32::MAX.into()).to_string();
    }
    let named = |field: &str, quantities: &Quantities| -> Vec<String> {
        let too_large = quantities
            .iter()
            .filter(|(_, quantity)| thousandths(quantity).is_none());
        too_large
            .map(|(resource, quantity)| format!("status.{field}.{resource} of {quantity}"))
            .collect()
    };
    let too_large = [named("capacity", &capacity), named("allocatable", allocatable)].concat();
    if !too_large.is_empty() {
        return Err(refused(&too_large, "it is more than an agent reports"));
    }
    // As long as the longest that an agent writes.
    let counted = |quantities: &Quantities| -> Quantities {
        let counted = |(resource, quantity): (&String, &String)| {
            (
                resource.clone(),
                format!("{}m", thousandths(quantity).unwrap_or_default()),
            )
        };
        quantities.iter().map(counted).collect()
    };
    let facts = checked_facts(&ClusterReportSpec {
        capacity: counted(&capacity),
        allocatable: counted(allocatable),
        ..ClusterReportSpec::default()
    });
    if !facts.refused.is_empty() {
        let fields: Vec<String> = facts
            .refused
            .iter()
            .map(|fact| format!("status.{fact}"))
            .collect();
        return Err(refused(
            &fields,
            "a hub takes that from no agent: at most 32 resources, with names as Kubernetes has them",
        ));
    }
    let quantities = |texts: Quantities| -> BTreeMap<String, Quantity> {
        let texts = texts.into_iter();
        texts.map(|(resource, text)| (resource, Quantity(text))).collect()
    };
    Ok(NodeStatus {
        capacity: Some(quantities(capacity)),
        allocatable: Some(quantities(allocatable.clone())),
        ..NodeStatus::default()
    })
}
