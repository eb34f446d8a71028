//! P6: replicas are conserved. What a Decision gives to clusters and what it says it cannot place is what its rules claim, of every
//! workload, and all steps together claim what there is. A Bundle has what was decided for its cluster, at any time.

use super::{
    commit::Commit,
    model::{BUNDLES, DECISIONS, Model, Name},
    promise::{Check, Found, Note, Promise},
};
use crate::simulate::{
    HUB,
    raw::{self, is_of},
    trace::Object,
};
use roundhouse_api::{
    application::StepPhase,
    bundle::{ApplicationRef, Bundle},
    decision::{Assignment, Decision, DecisionSpec, WorkloadDecision, WorkloadRef},
    names::cluster_of_namespace,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What Bundles have is judged by this.
const BUNDLED: &str = "Bundles have what was decided";

#[derive(Debug, Default)]
pub(super) struct Replicas {
    /// How many replicas the Decisions of each revision have ever given to each cluster.
    given: BTreeMap<Name, BTreeMap<String, BTreeSet<Given>>>,
}

/// What a step gives, or gave, to a cluster.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Given {
    step: String,
    workload: WorkloadRef,
    replicas: u64,
}

impl Check for Replicas {
    fn noted(&mut self, note: &Note, model: &Model, found: &mut Found<'_>) {
        if !matches!(note, Note::Quiet) {
            return;
        }
        // Where a run has succeeded every step has been decided by what Placements say by now.
        let has_succeeded = |of: &ApplicationRef| {
            let application = model
                .applications
                .get(&(of.namespace.as_str().into(), of.name.as_str().into()));
            let run = application.and_then(|application| application.status.workflow.as_ref());
            run.is_some_and(|run| run.finished && run.status == Some(StepPhase::Succeeded))
        };
        for (name, decision) in &model.decisions {
            if !has_succeeded(&decision.application_ref) {
                continue;
            }
            let object = Object::new(HUB, DECISIONS, &name.0, &name.1);
            tell(together(decision, name, model).into_iter(), &object, found);
        }
    }

    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        if (&*commit.server, &*commit.key.table) == (HUB, BUNDLES) {
            return self.bundled(commit, model, found);
        }
        if (&*commit.server, &*commit.key.table) != (HUB, DECISIONS) {
            return;
        }
        let Some(decision) = commit.read::<Decision>() else {
            return;
        };
        let decision = decision.spec;
        found.judges(Promise::P6);
        let name = (commit.key.namespace.clone(), commit.key.name.clone());
        self.gives(&decision, &name.0);
        let changed = refers_to_changed(&decision, &name.0, model);
        let together = (!changed).then(|| together(&decision, &name, model));
        let all = inside(&decision)
            .chain(asked_for(&decision, commit, model))
            .chain(together.into_iter().flatten());
        tell(all, &commit.object(), found);
    }
}

impl Replicas {
    /// Remembers what a Decision gives.
    fn gives(&mut self, decision: &DecisionSpec, namespace: &Arc<str>) {
        let revision = (namespace.clone(), decision.revision.as_str().into());
        let known = self.given.entry(revision).or_default();
        for WorkloadDecision {
            workload, clusters, ..
        } in &decision.workloads
        {
            // All rules of a cluster stand beside each other.
            for rules in clusters.chunk_by(|one, next| one.name == next.name) {
                let own = |assigned: &Assignment| u64::from(assigned.replicas);
                let given = Given {
                    step: decision.step.clone(),
                    workload: workload.clone(),
                    replicas: rules.iter().map(own).sum(),
                };
                let cluster = rules.first().map(|rule| rule.name.to_string());
                known
                    .entry(cluster.unwrap_or_default())
                    .or_default()
                    .insert(given);
            }
        }
    }

    /// What a cluster was ever given of a revision.
    fn given_to(&self, cluster: &str, revision: &Name) -> impl Iterator<Item = &Given> + use<'_> {
        let own = self.given.get(revision).and_then(|all| all.get(cluster));
        own.into_iter().flatten()
    }

    /// A hub writes a Bundle: of every workload it has as many replicas as the Decisions of its revision give to the cluster, or gave.
    fn bundled(&self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        if !commit.by().is_some_and(|who| who.is_hub()) {
            return;
        }
        let bundle = commit
            .read::<Bundle>()
            .filter(|bundle| bundle.spec.deletion.is_none());
        let Some(bundle) = bundle else { return };
        let (Some(of), Some(cluster)) = (
            &bundle.spec.application_ref,
            cluster_of_namespace(&commit.key.namespace),
        ) else {
            return;
        };
        let name = (
            Arc::from(of.namespace.as_str()),
            bundle.spec.revision.unwrap_or_default().into(),
        );
        let Some(revision) = model.revisions.get(&name) else {
            return;
        };
        let mut decided: BTreeSet<&Given> = self.given_to(cluster, &name).collect();
        // Of a cluster that goes over from a step which has not come to the revision, that step's share stays until it has.
        let others = model.decisions.iter().filter(|((namespace, _), other)| {
            *namespace == name.0 && other.application_ref.name == of.name && *other.revision != *name.1
        });
        for (_, other) in others {
            let revision = (name.0.clone(), other.revision.as_str().into());
            let before = self.given_to(cluster, &revision);
            decided.extend(before.filter(|given| given.step == other.step));
        }
        for (object, _) in raw::workloads(&revision.everywhere) {
            let mut manifests = bundle.spec.workload.manifests.iter();
            let own = manifests.find(|manifest| raw::is_same(object, manifest));
            let Some(is) = own.and_then(raw::replicas) else {
                continue;
            };
            let own = |given: &&Given| is_of(object, &given.workload);
            let may_be = sums(decided.iter().copied().filter(own));
            found.judges_part(Promise::P6, BUNDLED);
            if !may_be.contains(&is) {
                let expected = format!(
                    "as many replicas of {} as Decisions of {} give to {cluster}: {may_be:?}",
                    called(object),
                    name.1
                );
                found.broke(Promise::P6, commit.object(), expected, is.to_string());
            }
        }
    }
}

/// How many replicas a cluster may have by what steps have given it, any one of each step that does.
fn sums<'a>(given: impl Iterator<Item = &'a Given>) -> BTreeSet<u64> {
    let mut steps: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for given in given {
        steps.entry(&given.step).or_default().insert(given.replicas);
    }
    steps.values().fold(BTreeSet::new(), |before, step| {
        let both = before
            .iter()
            .flat_map(|one| step.iter().map(move |other| one + other));
        let all: BTreeSet<u64> = both.collect();
        &(&all | &before) | step
    })
}

/// What a workload is called.
fn called(object: &Value) -> &str {
    let name = object.get("metadata").and_then(raw::name);
    name.unwrap_or_default()
}

/// Tells of the sums that are not what they have to be.
fn tell(sums: impl Iterator<Item = Sum>, object: &Object, found: &mut Found<'_>) {
    for (what, expected, is) in sums {
        if expected != is {
            let expected = format!("{what}: {expected}");
            found.broke(Promise::P6, object.clone(), expected, is.to_string());
        }
    }
}

/// What has to be, and what is.
type Sum = (String, u64, u64);

/// What is divided is what the revision asks for, of every workload, whatever the Decision says of it.
fn asked_for(decision: &DecisionSpec, commit: &Commit, model: &Model) -> Vec<Sum> {
    let name = (commit.key.namespace.clone(), decision.revision.as_str().into());
    let everywhere = model.revisions.get(&name).map(|revision| &revision.everywhere);
    let all = everywhere
        .into_iter()
        .flat_map(|everywhere| raw::workloads(everywhere));
    let asked = all.map(|(object, asked)| {
        let mut decided = decision.workloads.iter();
        let decided = decided.find(|decided| is_of(object, &decided.workload));
        let what = format!(
            "replicas of {} that {} asks for",
            called(object),
            decision.revision
        );
        (
            what,
            asked,
            decided.map_or(0, |decided| u64::from(decided.replicas)),
        )
    });
    asked.collect()
}

fn inside(decision: &DecisionSpec) -> impl Iterator<Item = Sum> {
    let over = |of: fn(&WorkloadDecision) -> u64| -> u64 { decision.workloads.iter().map(of).sum() };
    let all = [
        (
            "placed replicas of all workloads",
            over(|w| u64::from(w.placed)),
            decision.placed,
        ),
        (
            "unplaced replicas of all workloads",
            over(unplaced),
            decision.unplaced,
        ),
    ];
    let whole = all.map(|(what, expected, is)| (what.to_owned(), expected, is));
    let each = decision.workloads.iter().flat_map(|workload| {
        let name = &workload.workload.name;
        let divided = workload.clusters.iter().filter(|assigned| !assigned.duplicate);
        let given: u64 = divided.map(|assigned| u64::from(assigned.replicas)).sum();
        let claimed = claimed(workload);
        [
            (
                format!("replicas of {name} in clusters"),
                u64::from(workload.placed),
                given,
            ),
            (
                format!("replicas of {name} that rules claim, placed and unplaced"),
                claimed,
                u64::from(workload.placed) + unplaced(workload),
            ),
        ]
    });
    whole.into_iter().chain(each.collect::<Vec<_>>())
}

fn unplaced(workload: &WorkloadDecision) -> u64 {
    workload
        .unplaced
        .iter()
        .map(|unplaced| u64::from(unplaced.count))
        .sum()
}

/// What the rules of a step get to divide; those that give to each cluster the full count divide nothing.
fn claimed(workload: &WorkloadDecision) -> u64 {
    let divides = workload.rules.iter().filter(|rule| rule.quota.is_some());
    divides.map(|rule| u64::from(rule.total)).sum()
}

/// Whether a Placement that a revision refers to is another than it was when it was made, or gone: its steps are decided anew one
/// after the other, and meanwhile some go by what it said before.
fn refers_to_changed(decision: &DecisionSpec, namespace: &Arc<str>, model: &Model) -> bool {
    let name = (namespace.clone(), decision.revision.as_str().into());
    let Some(revision) = model.revisions.get(&name) else {
        return false;
    };
    let placing = revision.valid.all_steps().filter_map(|step| step.kind.deploy());
    let mut named = placing.flat_map(|deploy| deploy.references());
    named.any(|name| {
        let text = model.placements.get(&(namespace.clone(), name.into()));
        let placement = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
        placement.is_none_or(|placement| placement["metadata"]["generation"] != 1)
    })
}

/// Of each workload, over all steps of one revision: no more than there is; all of it once every step has decided.
fn together(decision: &DecisionSpec, (namespace, name): &Name, model: &Model) -> Vec<Sum> {
    let Some(revision) = model
        .revisions
        .get(&(namespace.clone(), decision.revision.as_str().into()))
    else {
        return Vec::new();
    };
    let placing = revision
        .valid
        .all_steps()
        .filter(|step| step.kind.deploy().is_some());
    let steps: Vec<&str> = placing.map(|step| step.name.as_str()).collect();
    let others = model.decisions.iter().filter(|((of, other_name), other)| {
        of == namespace && other_name != name && other.application_ref == decision.application_ref
    });
    let same =
        |other: &&DecisionSpec| other.revision == decision.revision && steps.contains(&other.step.as_str());
    let all: Vec<&DecisionSpec> = others
        .map(|(_, other)| other)
        .filter(same)
        .chain([decision])
        .collect();
    let whole = steps
        .iter()
        .all(|step| all.iter().any(|decision| decision.step == *step));
    let mut sums: BTreeMap<_, (u64, u64, bool)> = BTreeMap::new();
    for workload in all.iter().flat_map(|decision| &decision.workloads) {
        let name = (
            &workload.workload.kind,
            &workload.workload.namespace,
            &workload.workload.name,
        );
        let sum = sums.entry(name).or_default();
        sum.0 = u64::from(workload.replicas);
        sum.1 += claimed(workload);
        sum.2 |= workload.rules.iter().any(|rule| rule.quota.is_none());
    }
    let judged = sums
        .into_iter()
        .map(|((kind, _, name), (replicas, claimed, duplicates))| {
            let what = format!(
                "replicas of {kind} {name} over all steps of {}",
                decision.revision
            );
            // Where a rule gives the full count to each cluster, the remainder is nobody's.
            let least = if whole && !duplicates { replicas } else { 0 };
            (what, claimed.clamp(least, replicas.max(least)), claimed)
        });
    judged.collect()
}
