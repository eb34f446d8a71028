//! A plan as JSON or YAML: complete, and the same bytes for the same input.
//!
//! `decisions` and `bundles` are always there; `objects` where steps have some in clusters, `stopped` where a step or a cluster is not carried out, `later` where the
//! clock alone changes something afterwards. Against a
//! hub there are also `comparedWith`, `changes` and `summary`. With several applications every entry names its
//! `application`; entries of `stopped` always do. Entries are written one after the other: memory does not grow
//! with the number of clusters.

use super::{Against, Drawn};
use crate::{
    application::ForeseenObject,
    cli::{Failure, impact::of_later, terminal},
    plan::{
        ApplicationPlan, BundlePlan, Stop, Stopped,
        change::{self, FieldChange, Shown},
        group::{ObjectGroup, Variant},
    },
};
use roundhouse_api::decision::{DecisionSpec, Unplaced, WorkloadDecision, WorkloadRef};
use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};
use serde_json::{Map, Value, json};
use std::io::Write as _;

/// Prints it as JSON.
pub(super) fn json(drawn: &Drawn) -> Result<(), Failure> {
    terminal::print_with(|out| {
        serde_json::to_writer_pretty(&mut *out, &Document(drawn))?;
        writeln!(out)
    })
}

/// Prints it as YAML.
pub(super) fn yaml(drawn: &Drawn) -> Result<(), Failure> {
    terminal::print_with(|out| {
        serde_saphyr::to_io_writer(&mut *out, &Document(drawn)).map_err(std::io::Error::other)
    })
}

pub(super) struct Document<'a>(pub(super) &'a Drawn);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let drawn = self.0;
        let mut map = serializer.serialize_map(None)?;
        if drawn.against == Against::Bundles {
            map.serialize_entry("comparedWith", "dispatchedBundles")?;
        }
        map.serialize_entry("decisions", &Decisions(drawn))?;
        map.serialize_entry("bundles", &Bundles(drawn))?;
        let objects: Vec<Value> = drawn
            .applications
            .iter()
            .flat_map(|plan| objects(drawn, plan))
            .collect();
        if !objects.is_empty() {
            map.serialize_entry("objects", &objects)?;
        }
        let stopped: Vec<Value> = drawn.applications.iter().flat_map(stopped).collect();
        if !stopped.is_empty() {
            map.serialize_entry("stopped", &stopped)?;
        }
        if !drawn.later.is_empty() {
            map.serialize_entry("later", &of_later(&drawn.later))?;
        }
        if drawn.against == Against::Bundles {
            let changes: Vec<Value> = drawn.applications.iter().map(of_application).collect();
            map.serialize_entry("changes", &changes)?;
            let counts = drawn.counts();
            let summary = json!({"add": counts.add, "change": counts.change, "destroy": counts.destroy});
            map.serialize_entry("summary", &summary)?;
        }
        map.end()
    }
}

/// The application's name, where there are several.
fn named(drawn: &Drawn, plan: &ApplicationPlan) -> Option<String> {
    (drawn.applications.len() > 1).then(|| plan.title())
}

struct Decisions<'a>(&'a Drawn);

impl Serialize for Decisions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for plan in &self.0.applications {
            let application = named(self.0, plan);
            for decision in &plan.decisions {
                for workload in &decision.spec.workloads {
                    let entry = Decision::of(application.as_deref(), &decision.spec.step, workload);
                    list.serialize_element(&entry)?;
                }
            }
        }
        list.end()
    }
}

/// One (step, workload).
#[derive(Serialize)]
struct Decision<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<&'a str>,
    step: &'a str,
    workload: &'a WorkloadRef,
    replicas: u32,
    placed: u32,
    unplaced: &'a [Unplaced],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overcommitted: bool,
    clusters: Vec<Cluster<'a>>,
}

#[derive(Serialize)]
struct Cluster<'a> {
    name: &'a str,
    replicas: u32,
    rule: &'a str,
    duplicate: bool,
}

impl<'a> Decision<'a> {
    fn of(application: Option<&'a str>, step: &'a str, workload: &'a WorkloadDecision) -> Decision<'a> {
        let clusters = workload.clusters.iter().map(|cluster| Cluster {
            name: &cluster.name,
            replicas: cluster.replicas,
            rule: &cluster.rule,
            duplicate: cluster.duplicate,
        });
        Decision {
            application,
            step,
            workload: &workload.workload,
            replicas: workload.replicas,
            placed: workload.placed,
            unplaced: &workload.unplaced,
            overcommitted: workload.overcommitted,
            clusters: clusters.collect(),
        }
    }
}

/// What was decided for one workload in a step, as a plan has it.
pub(in crate::cli) fn of_workload(application: &str, step: &str, workload: &WorkloadDecision) -> Value {
    json!(Decision::of(Some(application), step, workload))
}

struct Bundles<'a>(&'a Drawn);

impl Serialize for Bundles<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for plan in &self.0.applications {
            let application = named(self.0, plan);
            let (salt, executor) = (plan.salt.as_str(), plan.executor());
            for bundle in plan.bundles.iter().filter(|bundle| bundle.content.is_some()) {
                list.serialize_element(&Bundle {
                    application: application.as_deref(),
                    salt,
                    executor: executor.as_deref(),
                    bundle,
                })?;
            }
        }
        list.end()
    }
}

struct Bundle<'a> {
    application: Option<&'a str>,
    salt: &'a str,
    executor: Option<&'a str>,
    bundle: &'a BundlePlan,
}

impl Serialize for Bundle<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(application) = self.application {
            map.serialize_entry("application", application)?;
        }
        map.serialize_entry("cluster", &self.bundle.cluster)?;
        if self.bundle.is_of_step() {
            map.serialize_entry("step", &self.bundle.step)?;
        }
        if let Some(executor) = self.executor {
            map.serialize_entry("executor", executor)?;
        }
        if let Some(content) = &self.bundle.content {
            map.serialize_entry("hash", content.hash())?;
            let manifests = content.manifests().iter();
            let manifests: Vec<Value> = manifests
                .map(|manifest| change::veiled(manifest, self.salt))
                .collect();
            map.serialize_entry("manifests", &manifests)?;
        }
        map.end()
    }
}

/// The objects of steps: in which clusters, and what of them is not known before the run.
fn objects(drawn: &Drawn, plan: &ApplicationPlan) -> Vec<Value> {
    let of = |object: &ForeseenObject| {
        let mut out = json!({"step": object.step, "clusters": object.clusters});
        if let Some(application) = named(drawn, plan) {
            out["application"] = json!(application);
        }
        if !object.for_a_time.is_empty() {
            out["untilTakenAway"] = json!(object.for_a_time);
        }
        if !object.unknown.is_empty() {
            out["unknown"] = json!(object.unknown);
        }
        out
    };
    plan.objects.iter().map(of).collect()
}

/// What is not carried out: steps with all that is wrong with their overrides, and steps and clusters for another reason.
fn stopped(plan: &ApplicationPlan) -> impl Iterator<Item = Value> {
    let of_step = |spec: &DecisionSpec| json!({"application": plan.title(), "step": spec.step, "errors": spec.override_errors});
    let otherwise = |stop: &Stop| match &stop.of {
        Stopped::Step(step) => json!({"application": plan.title(), "step": step, "why": stop.why}),
        Stopped::Cluster(cluster) => {
            json!({"application": plan.title(), "cluster": cluster, "why": stop.why})
        }
    };
    plan.stopped()
        .map(of_step)
        .chain(plan.refused.iter().map(otherwise))
}

fn of_application(plan: &ApplicationPlan) -> Value {
    let risk = &plan.risk;
    let regions = risk
        .regions
        .iter()
        .map(|(region, (touched, all))| (region.clone(), json!({"touched": touched, "clusters": all})));
    let bundles = plan.bundles.iter().map(
        |bundle| json!({"cluster": bundle.cluster, "name": bundle.name, "action": bundle.action.word()}),
    );
    json!({
        "application": plan.title(),
        "revision": plan.revision,
        "formerRevision": plan.former,
        "bundles": bundles.collect::<Vec<_>>(),
        "objects": plan.changes.iter().map(of_object).collect::<Vec<_>>(),
        "removalsHeld": plan.held,
        "awaits": plan.awaits(),
        "stopped": plan.refused.iter().map(|stop| json!({"what": stop.of.to_string(), "why": stop.why})).collect::<Vec<_>>(),
        "risk": {
            "level": risk.level.word(),
            "reasons": risk.reasons,
            "clusters": risk.clusters,
            "regions": regions.collect::<Map<_, _>>(),
            "atOnce": risk.at_once.as_ref().map(|most| json!({"steps": most.steps, "clusters": most.clusters})),
            "podsRestarted": risk.restarted,
            "podsStarted": risk.started,
            "podsStopped": risk.stopped,
            "clustersLosing": risk.losing,
            "unplaced": risk.unplaced,
        },
    })
}

fn of_object(group: &ObjectGroup) -> Value {
    json!({
        "action": group.action.word(),
        "kind": group.id.kind,
        "group": group.id.group,
        "namespace": group.id.namespace,
        "name": group.id.name,
        "variants": group.variants.iter().map(of_variant).collect::<Vec<_>>(),
    })
}

fn of_variant(variant: &Variant) -> Value {
    let clusters = variant.clusters.iter().map(|(name, replicas)| match replicas {
        Some((before, after)) => json!({"name": name, "before": before, "after": after}),
        None => json!({"name": name}),
    });
    json!({
        "fields": variant.fields.iter().map(of_field).collect::<Vec<_>>(),
        "clusters": clusters.collect::<Vec<_>>(),
    })
}

/// What is absent has no field; a Secret's value is `{"sha256": …}`.
fn of_field(field: &FieldChange) -> Value {
    let mut out = Map::new();
    out.insert("path".to_owned(), json!(field.path));
    for (name, shown) in [("before", &field.before), ("after", &field.after)] {
        match shown {
            None => {}
            Some(Shown::Value(value)) => drop(out.insert(name.to_owned(), value.clone())),
            Some(Shown::Digest(digest)) => drop(out.insert(name.to_owned(), json!({"sha256": digest}))),
        }
    }
    if field.restarts {
        out.insert("restartsPods".to_owned(), json!(true));
    }
    Value::Object(out)
}

/// The bytes of the JSON, for whoever compares plans.
#[cfg(test)]
pub(super) fn bytes(drawn: &Drawn) -> Vec<u8> {
    serde_json::to_vec_pretty(&Document(drawn)).unwrap()
}

/// The bytes of the YAML.
#[cfg(test)]
pub(super) fn yaml_bytes(drawn: &Drawn) -> Vec<u8> {
    serde_saphyr::to_string(&Document(drawn)).unwrap().into_bytes()
}
