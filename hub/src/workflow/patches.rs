//! Changes to components that a run has come to know: `apply-component`'s patch, and `export` of type patch.

use super::spec::{Action, At, Spec, Step, state_at};
use roundhouse_api::application::{ParameterKey, WorkflowStatus};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A change to the first object of a component.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedPatch {
    /// The component.
    pub component: String,
    /// What changes.
    pub change: ResolvedChange,
}

/// What changes in an object.
#[derive(Debug, Clone, PartialEq)]
pub enum ResolvedChange {
    /// One field.
    Field(ParameterKey, Value),
    /// This is merged into it (JSON merge patch).
    Merge(Value),
}

/// The changes of each placing step, in order; steps without any are not in it. They are what the steps before it have
/// exported, whatever was exported since, and then its own.
pub fn patches(spec: &Spec, workflow: Option<&WorkflowStatus>) -> BTreeMap<String, Vec<ResolvedPatch>> {
    let Some(workflow) = workflow.filter(|workflow| spec.is_of(workflow)) else {
        return BTreeMap::new();
    };
    collect(spec, |at| state_at(workflow, at)?.output.clone())
}

/// The changes that a run comes to as far as the spec alone says them: values that no input gives.
pub fn patches_ahead(spec: &Spec) -> BTreeMap<String, Vec<ResolvedPatch>> {
    collect(spec, |at| {
        let step = spec.at(at)?;
        match &step.action {
            Action::Export(export) if step.inputs.is_empty() => export.properties.get("value").cloned(),
            _ => None,
        }
    })
}

/// `known` says what a step has put in or exported.
fn collect(spec: &Spec, known: impl Fn(At) -> Option<Value>) -> BTreeMap<String, Vec<ResolvedPatch>> {
    let places = spec.places();
    let any = |step: &Step| match &step.action {
        Action::Export(export) => export.component.is_some(),
        Action::Deploy(deploy) => deploy.patch.is_some(),
        _ => false,
    };
    if !places.iter().filter_map(|at| spec.at(*at)).any(any) {
        return BTreeMap::new();
    }
    let mut all = BTreeMap::new();
    for at in &places {
        let Some(step) = spec.at(*at) else { continue };
        let Action::Deploy(deploy) = &step.action else {
            continue;
        };
        let mut own = Vec::new();
        for before in before(spec, *at) {
            if let Some(Action::Export(export)) = spec.at(before).map(|step| &step.action)
                && let Some(component) = &export.component
                && let Some(value) = known(before)
            {
                own.push(ResolvedPatch {
                    component: component.clone(),
                    change: ResolvedChange::Merge(value),
                });
            }
        }
        if let (Some(patch), Some(component)) = (&deploy.patch, &deploy.only)
            && let Some(value) = patch.value.clone().or_else(|| known(*at))
        {
            own.push(ResolvedPatch {
                component: component.clone(),
                change: ResolvedChange::Field(patch.field.clone(), value),
            });
        }
        own.retain(|patch| deploy.only.as_ref().is_none_or(|only| *only == patch.component));
        if !own.is_empty() {
            all.insert(step.name.clone(), own);
        }
    }
    all
}

/// The steps that are over before a step starts, in the order of the document.
fn before(spec: &Spec, at: At) -> BTreeSet<At> {
    let mut all = BTreeSet::new();
    for index in closure(&spec.steps, at.index) {
        let inner = spec.steps.get(index).map_or(0, |step| step.inner().len());
        all.insert(At { index, inner: None });
        all.extend((0..inner).map(|inner| At {
            index,
            inner: Some(inner),
        }));
    }
    if let (Some(inner), Some(group)) = (at.inner, spec.steps.get(at.index)) {
        all.extend(closure(group.inner(), inner).into_iter().map(|inner| At {
            index: at.index,
            inner: Some(inner),
        }));
    }
    all
}

/// The steps of a list that one comes after, at however many removes.
pub(super) fn closure(steps: &[Step], of: usize) -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    let mut open = vec![of];
    while let Some(index) = open.pop() {
        for after in steps.get(index).into_iter().flat_map(|step| &step.after) {
            if all.insert(*after) {
                open.push(*after);
            }
        }
    }
    all
}
