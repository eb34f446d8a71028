//! What the demo shows of an application: pure, from the objects of the hub.

use crate::plan::rows::selector_of;
use roundhouse_api::{
    application::{ACCEPTED, Application, ApplicationPhase, DELIVERED, validate},
    bundle::{Bundle, BundlePhase},
    condition,
    decision::{Decision, WorkloadDecision, WorkloadRef},
    names::cluster_of_namespace,
    placement::Rule,
};
use std::collections::BTreeMap;

/// One application.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct View {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) phase: Option<ApplicationPhase>,
    pub(super) revision: Option<String>,
    /// What the workflow waits for, or why the application was refused.
    pub(super) message: Option<String>,
    pub(super) refused: bool,
    /// Everything was delivered and is ready, for the spec that is there now.
    pub(super) delivered: bool,
    pub(super) workloads: Vec<WorkloadView>,
}

/// One workload in one placing step.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WorkloadView {
    pub(super) step: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) replicas: u32,
    pub(super) placed: u32,
    pub(super) unplaced: u32,
    pub(super) rules: Vec<RuleView>,
    /// Why replicas are not placed, and what else is worth knowing.
    pub(super) reasons: Vec<String>,
}

/// One rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RuleView {
    /// The clusters it is for, such as `region=east`.
    pub(super) selector: String,
    /// Its share, such as `70%`; empty if every cluster gets the full count.
    pub(super) share: String,
    pub(super) total: u32,
    pub(super) clusters: Vec<ClusterView>,
}

/// One cluster of a rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClusterView {
    pub(super) name: String,
    pub(super) replicas: u32,
    pub(super) ready: u32,
    pub(super) state: State,
}

/// Where a cluster stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    /// There is no bundle, or its agent has not reported on it.
    #[default]
    Sent,
    /// Its agent is at work.
    Progressing,
    /// Everything of the bundle is ready.
    Ready,
    /// Something failed.
    Failed,
    /// Its Lease is not renewed.
    Unreachable,
}

/// The objects of the hub that a view is made of.
pub(super) struct Objects<'a> {
    pub(super) application: &'a Application,
    pub(super) decisions: Vec<&'a Decision>,
    pub(super) bundles: Vec<&'a Bundle>,
    pub(super) unreachable: Vec<&'a str>,
}

/// Makes the view of one application.
pub(super) fn view(objects: &Objects<'_>) -> View {
    let application = objects.application;
    let metadata = &application.metadata;
    let status = application.status.clone().unwrap_or_default();
    let current = status.observed_generation == metadata.generation;
    let accepted = condition::get(&status.conditions, ACCEPTED);
    let refused = current && accepted.is_some_and(|c| c.status == "False");
    let workflow = status.workflow.as_ref();
    let message = match accepted {
        Some(accepted) if refused => Some(accepted.message.clone()),
        _ => workflow.and_then(|workflow| workflow.message.clone()),
    };
    let reports = Reports::of(objects);
    let rules = rules_of(application);
    let mut workloads = Vec::new();
    for (step, rules) in &rules {
        for decision in objects.decisions.iter().filter(|d| d.spec.step == *step) {
            for workload in &decision.spec.workloads {
                workloads.push(workload_view(
                    step,
                    rules,
                    workload,
                    &decision.spec.reasons,
                    &reports,
                ));
            }
        }
    }
    View {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        phase: status.phase,
        revision: status.latest_revision.map(|revision| revision.name),
        message,
        refused,
        delivered: current
            && status.phase == Some(ApplicationPhase::Running)
            && condition::is_true(&status.conditions, DELIVERED),
        workloads,
    }
}

impl View {
    /// Divided replicas placed and not placed.
    pub(super) fn placed(&self) -> (u32, u32) {
        let sum = |count: fn(&WorkloadView) -> u32| self.workloads.iter().map(count).sum();
        (sum(|w| w.placed), sum(|w| w.unplaced))
    }

    /// Cluster -> replicas and ready replicas, over all workloads.
    pub(super) fn clusters(&self) -> BTreeMap<&str, (u32, u32)> {
        let mut clusters = BTreeMap::new();
        let rules = self.workloads.iter().flat_map(|w| &w.rules);
        for cluster in rules.flat_map(|rule| &rule.clusters) {
            let (replicas, ready): &mut (u32, u32) = clusters.entry(cluster.name.as_str()).or_default();
            *replicas += cluster.replicas;
            *ready += cluster.ready;
        }
        clusters
    }

    /// How many clusters hold replicas.
    pub(super) fn holders(&self) -> usize {
        self.clusters()
            .values()
            .filter(|(replicas, _)| *replicas > 0)
            .count()
    }

    /// Delivered, and every replica that was placed is ready.
    pub(super) fn is_done(&self) -> bool {
        self.delivered
            && self
                .clusters()
                .values()
                .all(|(replicas, ready)| ready >= replicas)
    }
}

/// The placing steps, in order, with their rules.
fn rules_of(application: &Application) -> Vec<(String, Vec<Rule>)> {
    let spec = serde_json::to_value(&application.spec).unwrap_or_default();
    let Ok(valid) = validate(&spec) else {
        return Vec::new();
    };
    let placing = valid.placing();
    placing
        .map(|(step, deploy)| (step.name.clone(), deploy.placement.placement.clone()))
        .collect()
}

/// What the agents reported on the bundles of one application, where it is about the present content.
struct Reports<'a> {
    states: BTreeMap<&'a str, State>,
    ready: BTreeMap<(&'a str, WorkloadRef), u32>,
}

impl<'a> Reports<'a> {
    fn of(objects: &Objects<'a>) -> Reports<'a> {
        let mut reports = Reports {
            states: BTreeMap::new(),
            ready: BTreeMap::new(),
        };
        for bundle in &objects.bundles {
            let namespace = bundle.metadata.namespace.as_deref().unwrap_or_default();
            let Some(cluster) = cluster_of_namespace(namespace) else {
                continue;
            };
            let own = bundle.status.as_ref().filter(|status| {
                let present = bundle.metadata.generation;
                status.hash == bundle.spec.hash && present.is_some_and(|present| status.is_about(present))
            });
            let state = match own.and_then(|status| status.phase) {
                _ if objects.unreachable.contains(&cluster) => State::Unreachable,
                Some(BundlePhase::Ready) => State::Ready,
                Some(BundlePhase::Failed) => State::Failed,
                Some(_) => State::Progressing,
                None => State::Sent,
            };
            reports.states.insert(cluster, state);
            for workload in own.iter().flat_map(|status| &status.workloads) {
                let key = WorkloadRef {
                    kind: workload.kind.clone(),
                    namespace: workload.namespace.clone(),
                    name: workload.name.clone(),
                };
                let ready = workload.ready.min(workload.updated);
                reports.ready.insert((cluster, key), ready);
            }
        }
        reports
    }

    fn state(&self, cluster: &str) -> State {
        self.states.get(cluster).copied().unwrap_or_default()
    }

    fn ready(&self, cluster: &str, workload: &WorkloadRef) -> u32 {
        let key = (cluster, workload.clone());
        self.ready.get(&key).copied().unwrap_or(0)
    }
}

fn workload_view(
    step: &str,
    rules: &[Rule],
    decision: &WorkloadDecision,
    reasons: &[String],
    reports: &Reports<'_>,
) -> WorkloadView {
    let mut left: BTreeMap<&str, u32> = BTreeMap::new();
    let views = rules.iter().enumerate().map(|(index, rule)| {
        let name = rule.name_or_index(index);
        let total = decision
            .rules
            .iter()
            .find(|total| total.rule.as_deref() == Some(&name));
        let members = decision
            .clusters
            .iter()
            .filter(|assignment| assignment.rule == name);
        let clusters = members.map(|assignment| {
            // What is ready on a cluster counts for its rules one after the other.
            let cluster = assignment.name.as_str();
            let left = left
                .entry(cluster)
                .or_insert_with(|| reports.ready(cluster, &decision.workload));
            let ready = assignment.replicas.min(*left);
            *left -= ready;
            ClusterView {
                name: assignment.name.to_string(),
                replicas: assignment.replicas,
                ready,
                state: reports.state(cluster),
            }
        });
        RuleView {
            selector: selector_of(rule),
            share: rule.replicas.map(|share| share.to_string()).unwrap_or_default(),
            clusters: clusters.collect(),
            total: total.map_or(0, |total| total.total),
        }
    });
    WorkloadView {
        step: step.to_owned(),
        kind: decision.workload.kind.clone(),
        name: decision.workload.name.clone(),
        replicas: decision.replicas,
        placed: decision.placed,
        unplaced: decision.unplaced.iter().map(|unplaced| unplaced.count).sum(),
        rules: views.collect(),
        reasons: reasons.to_vec(),
    }
}
