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
    placement::{Rule, TaintEffect},
};
use serde_json::{Value, json};
use std::cell::Cell;

/// The objects that a setting is read from: workloads as Deployments or, with `jobs`, as Jobs; the first step's placement
/// in a Placement with `refer`; the rules of the others as topology policies with `topologies`; each step dispatching the component of the workload that `only` names, if there is one.
fn objects(setting: &Setting, [jobs, refer, topologies]: [bool; 3], only: [Option<usize>; 2]) -> Hub {
    let component = |name: &str, objects: &[Value]| json!({"name": name, "type": "k8s-objects", "properties": {"objects": objects}});
    let names = setting.workloads.iter().map(|workload| &workload.key.name);
    let names: Vec<&String> = names.collect();
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
    let components: Vec<Value> = match only {
        [None, None] => vec![component("all", &objects)],
        _ => objects
            .chunks(1)
            .map(|objects| component(objects[0]["metadata"]["name"].as_str().unwrap(), objects))
            .collect(),
    };
    let remainder = setting.steps.first().map(|step| step.spec.remainder);
    let (mut referred, mut policies) = (None, Vec::new());
    let steps = setting.steps.iter().enumerate().map(|(index, step)| {
        let mut spec = step.spec.clone();
        // One for all steps.
        spec.remainder = remainder.unwrap_or_default();
        let mut properties = serde_json::to_value(spec).unwrap();
        if refer && index == 0 {
            let reference = json!({"placementRef": {"name": "gold"}});
            referred = Some(std::mem::replace(&mut properties, reference));
        }
        if topologies && index > 0 {
            let own = step.spec.placement.iter().enumerate();
            let own: Vec<Value> = own
                .map(|(at, rule)| topology(&format!("t{index}-{at}"), rule))
                .collect();
            let names: Vec<&Value> = own.iter().map(|policy| &policy["name"]).collect();
            properties = json!({ "policies": names });
            policies.extend(own);
        }
        let only = only[index % 2].and_then(|at| names.get(at));
        if let Some(component) = only {
            properties["component"] = json!(component);
        }
        let kind = only.map_or("deploy", |_| "apply-component");
        json!({"name": step.name, "type": kind, "properties": properties})
    });
    let steps: Vec<Value> = steps.collect();
    let spec = json!({
        "components": components,
        "policies": policies,
        "workflow": {"steps": steps}});
    let fleet = setting.inventory.clusters().iter().map(|facts| object(facts));
    let mut hub = Hub::new(spec, fleet);
    hub.now = setting.now;
    match &referred {
        Some(spec) => hub.with("gold", spec),
        None => hub,
    }
}

/// The clusters of a rule, as far as a topology policy can say which.
fn topology(name: &str, rule: &Rule) -> Value {
    let selector = rule.cluster_selector.clone().unwrap_or_default();
    let properties = match &rule.clusters {
        Some(names) => json!({ "clusters": names }),
        None => json!({"clusterLabelSelector": selector.match_labels}),
    };
    json!({"name": name, "type": "topology", "properties": properties})
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
    // The hub's own is in the status.
    let own = of.taints.iter().filter(|taint| taint.key != TAINT_UNREACHABLE);
    cluster.spec.taints = own.cloned().collect();
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
    let flags = any::<([bool; 4], prop::sample::Index)>();
    let input = (any_setting(), flags, some_components());
    let outcome = TestRunner::new(config.clone()).run(&input, |(setting, (flags, which), only)| {
        let [jobs, refer, history, topologies] = flags;
        let clusters = setting.inventory.clusters();
        if clusters.is_empty() || setting.steps.is_empty() {
            return Ok(());
        }
        let mut hub = objects(&setting, [jobs, refer, topologies], only);
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

/// Which workload's component alone each step dispatches; mostly none.
fn some_components() -> impl Strategy<Value = [Option<usize>; 2]> {
    prop_oneof![2 => Just([None, None]), 1 => any::<[Option<bool>; 2]>().prop_map(|only| only.map(|at| at.map(usize::from)))]
}

/// What is explained is what the controller decides, whichever components its steps dispatch.
#[test]
fn what_is_explained_is_what_is_decided() {
    let apart = Cell::new(0);
    let components = any::<[Option<bool>; 2]>().prop_map(|only| only.map(|at| at.map(usize::from)));
    let input = (any_setting(), any::<[bool; 4]>(), components);
    let outcome = TestRunner::new(runs()).run(&input, |(setting, flags, only)| {
        let [jobs, refer, history, topologies] = flags;
        let mut hub = objects(&setting, [jobs, refer, topologies], only);
        if hub.foreseen().is_none() {
            return Ok(());
        }
        if history {
            let mut before = hub.clone();
            let well = setting.inventory.clusters().iter();
            before.clusters = well.map(|facts| (facts.name.clone(), labelled(facts))).collect();
            hub.decisions = before.decide().decisions;
        }
        let (foreseen, subject) = (hub.foreseen().unwrap(), hub.subject().unwrap());
        let answers = subject.setting.place();
        prop_assert_eq!(answers.len(), foreseen.decisions.len());
        for (answer, decided) in answers.iter().zip(&foreseen.decisions) {
            let (answer, decided) = (answer.to_spec(), &decided.spec);
            prop_assert_eq!(&answer.workloads, &decided.workloads);
            prop_assert_eq!(&answer.hash, &decided.hash);
            prop_assert_eq!(
                (&answer.step, answer.satisfied),
                (&decided.step, decided.satisfied)
            );
        }
        let several = answers
            .iter()
            .any(|answer| answer.workloads.len() < setting.workloads.len());
        apart.set(apart.get() + usize::from(several));
        Ok(())
    });
    outcome.unwrap();
    let cases = usize::try_from(runs().cases).unwrap();
    assert!(
        apart.get() > cases / 10,
        "{} with steps of single components",
        apart.get()
    );
}
