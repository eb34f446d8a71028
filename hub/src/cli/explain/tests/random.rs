//! Random fleets, rules and histories: all that is printed for any cluster is typed in, and flips it.

use super::{
    facts,
    flips::{taint, take_all},
    hands::Hub,
};
use crate::{
    explain::Setting,
    placement::{
        ClusterFacts,
        tests::{any_setting, runs},
    },
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use roundhouse_api::{
    cluster::{Cluster, TAINT_UNAVAILABLE, TAINT_UNREACHABLE},
    placement::TaintEffect,
};
use serde_json::{Value, json};
use std::cell::Cell;

/// The objects that a setting is read from: workloads as Deployments or, with `jobs`, as Jobs; the first step's placement
/// in a Placement with `refer`.
fn objects(setting: &Setting, jobs: bool, refer: bool) -> Hub {
    let objects = setting.workloads.iter().map(|workload| {
        let metadata = json!({"name": workload.key.name, "namespace": "default"});
        let count = workload.replicas;
        let (api_version, kind, spec) = match jobs {
            false => ("apps/v1", "Deployment", json!({"replicas": count})),
            true => (
                "batch/v1",
                "Job",
                json!({"parallelism": count, "completions": 2 * count}),
            ),
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    });
    let metadata = json!({"name": "settings", "namespace": "default"});
    let always = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let objects: Vec<Value> = objects.chain([always]).collect();
    let remainder = setting.steps.first().map(|step| step.spec.remainder);
    let mut referred = None;
    let steps = setting.steps.iter().enumerate().map(|(index, step)| {
        let mut spec = step.spec.clone();
        // One for all steps.
        spec.remainder = remainder.unwrap_or_default();
        let mut properties = serde_json::to_value(spec).unwrap();
        if refer && index == 0 {
            let reference = json!({"placementRef": {"name": "gold"}});
            referred = Some(std::mem::replace(&mut properties, reference));
        }
        json!({"name": step.name, "type": "deploy", "properties": properties})
    });
    let steps: Vec<Value> = steps.collect();
    let spec = json!({
        "components": [{"name": "all", "type": "k8s-objects", "properties": {"objects": objects}}],
        "workflow": {"steps": steps}});
    let fleet = setting.inventory.clusters().iter().map(|facts| object(facts));
    let mut hub = Hub::new(spec, fleet);
    hub.now = setting.now;
    match &referred {
        Some(spec) => hub.with("gold", spec),
        None => hub,
    }
}

fn labelled(of: &ClusterFacts) -> Cluster {
    let labels = of.labels.iter();
    let labels: Vec<(&str, &str)> = labels
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let mut cluster = facts(&of.name, &labels);
    let status = cluster.status.get_or_insert_default();
    status.allocatable.clone_from(&of.allocatable);
    cluster
}

/// A cluster as the hub has it, with the taint that the hub itself gives it.
fn object(of: &ClusterFacts) -> Cluster {
    let mut cluster = labelled(of);
    cluster.spec.accepted = of.accepted;
    cluster.spec.taints.clone_from(&of.taints);
    let status = cluster.status.get_or_insert_default();
    for condition in &mut status.conditions {
        let holds = of.joined && (condition.type_ == "Joined" || of.reachable);
        condition.status = if holds { "True" } else { "False" }.to_owned();
    }
    let hubs = match (of.joined, of.reachable) {
        (true, true) => None,
        (true, false) => Some(TAINT_UNREACHABLE),
        (false, _) => Some(TAINT_UNAVAILABLE),
    };
    let hubs = hubs.map(|key| taint(key, TaintEffect::NoSchedule));
    status.taints.extend(hubs);
    let capacity = of
        .capacity
        .map(|capacity| ("replicas".to_owned(), capacity.to_string()));
    status.capacity.extend(capacity);
    cluster
}

#[test]
fn whatever_is_printed_flips_when_it_is_typed_in() {
    // Each case asks placement some hundred times.
    let config = Config {
        cases: runs().cases / 5,
        ..runs()
    };
    let (flips, refused) = (Cell::new(0), Cell::new(0));
    let input = (any_setting(), any::<[bool; 3]>(), any::<prop::sample::Index>());
    let outcome = TestRunner::new(config.clone()).run(&input, |(setting, [jobs, refer, history], which)| {
        let clusters = setting.inventory.clusters();
        if clusters.is_empty() || setting.steps.is_empty() {
            return Ok(());
        }
        let mut hub = objects(&setting, jobs, refer);
        if hub.foreseen().is_none() {
            refused.set(refused.get() + 1);
            return Ok(());
        }
        if history {
            // What was decided while all clusters were well.
            let mut before = hub.clone();
            let well = clusters.iter().map(|facts| (facts.name.clone(), labelled(facts)));
            before.clusters = well.collect();
            hub.decisions = before.decide().decisions;
        }
        let cluster = &clusters[which.index(clusters.len())].name;
        for step in 0..setting.steps.len() {
            flips.set(flips.get() + take_all(&hub, cluster, step));
        }
        Ok(())
    });
    outcome.unwrap();
    let cases = usize::try_from(config.cases).unwrap();
    assert!(
        flips.get() > cases && refused.get() < cases / 4,
        "{} flips, {} refused",
        flips.get(),
        refused.get()
    );
}
