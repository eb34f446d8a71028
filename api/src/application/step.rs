//! Steps as [`validate()`](super::validate()) understood them.

use super::{
    ActionProperties, ClusterVerb, HubObject, Mode, ParameterKey, StepExpression, ValidComponent, Violation,
    validate,
};
use crate::placement::{Percent, PlacementSpec};
use serde_json::Value;
use std::time::Duration;

/// A step whose properties were understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidStep {
    /// Name, unique in the workflow, groups included; `step-<index>` where the user gave none.
    pub name: String,
    /// The type as written.
    pub type_: String,
    /// What people call it.
    pub alias: Option<String>,
    /// What it does.
    pub kind: StepKind,
    /// Whether it runs; absent: unless a step before it failed.
    pub condition: Option<Condition>,
    /// It fails when it takes longer.
    pub timeout: Option<Duration>,
    /// The steps that it starts after.
    pub depends_on: Vec<String>,
    /// What it takes from other steps.
    pub inputs: Vec<StepInput>,
    /// What it gives to other steps.
    pub outputs: Vec<StepOutput>,
    /// The parts of its output that other steps name, such as `body.url`; an empty one is all of it.
    pub referenced: Vec<String>,
}

/// When a step runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// Whatever happened before.
    Always,
    /// If this holds.
    When(StepExpression),
}

/// A value that a step takes.
#[derive(Debug, Clone, PartialEq)]
pub struct StepInput {
    /// `from` as written: its name under `inputs`.
    pub name: String,
    /// Where it comes from.
    pub source: InputSource,
    /// Where it goes in the step's properties; absent: it is for expressions only.
    pub key: Option<ParameterKey>,
}

/// Where an input comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum InputSource {
    /// The output of this name.
    Output(String),
    /// What this comes to.
    Expression(StepExpression),
}

/// A value that a step gives.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// Name, unique in the workflow.
    pub name: String,
    /// Where it comes from.
    pub value: OutputSource,
}

/// Where an output comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputSource {
    /// What this comes to, when the step has succeeded.
    Expression(StepExpression),
    /// What the clusters report of an object; they have to agree.
    Feedback {
        /// The component whose first object it is; absent: it is the object of the step itself.
        component: Option<String>,
        /// What the agents read.
        read: Feedback,
    },
}

/// What agents read of a live object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Feedback {
    /// A path, such as `.status.connSecret`.
    Path(String),
    /// An expression over `object`.
    Expression(String),
}

/// The step types.
#[derive(Debug, Clone, PartialEq)]
pub enum StepKind {
    /// `open-cluster-management`, `deploy` and `apply-component`: place, dispatch, wait.
    Deploy(Box<DeployStep>),
    /// `suspend`: waits until it is resumed, or for a time.
    Suspend(SuspendProperties),
    /// `step-group`: runs its own steps.
    Group(GroupStep),
    /// `wait`: waits until something holds.
    Wait(WaitStep),
    /// `break`: ends the run here.
    Break {
        /// Why, for people.
        message: Option<String>,
    },
    /// `fail`: fails.
    Fail {
        /// Why, for people.
        message: Option<String>,
    },
    /// `export`: gives a value to later steps.
    Export(ExportStep),
    /// `rollback`: delivers an earlier revision.
    Rollback {
        /// The revision; absent: the last one that was delivered whole.
        to: Option<String>,
    },
    /// A step that does something outside of the fleet: a request, an object on the hub.
    Act(ActStep),
    /// `apply-object`, `read-object` and `delete-object` with `clusters`: the object travels in Bundles of its own.
    ClusterObject(Box<ClusterObjectStep>),
}

impl StepKind {
    /// The placing step, if it is one.
    pub fn deploy(&self) -> Option<&DeployStep> {
        match self {
            StepKind::Deploy(deploy) => Some(deploy),
            _ => None,
        }
    }
}

/// A placing step.
#[derive(Debug, Clone, PartialEq)]
pub struct DeployStep {
    /// The placement, put together from `parts`; of a step that refers to a Placement only once it is
    /// [resolved](super::resolve).
    pub placement: PlacementSpec,
    /// Where the placement comes from, in order.
    pub parts: Vec<PlacementPart>,
    /// Path of the map that says it, such as `spec.workflow.steps[0].properties`.
    pub path: String,
    /// The components as this step's clusters get them, where override policies change them.
    pub components: Option<Vec<ValidComponent>>,
    /// The only component that it dispatches (`apply-component`); absent: all of them.
    pub only: Option<String>,
    /// A change to that component.
    pub patch: Option<FieldPatch>,
    /// It dispatches only once a person has approved it (KubeVela's `auto: false`).
    pub asks: bool,
    /// What the step waits for, of each cluster.
    pub wait: WaitFor,
    /// It passes when this holds, instead of when every cluster passes.
    pub until: Option<Until>,
    /// At most this many clusters are under way at a time.
    pub max_parallel: Option<u32>,
    /// It fails when more clusters than this have failed; absent: it waits for them.
    pub max_failed_clusters: Option<u32>,
}

impl DeployStep {
    /// The Placements that the step refers to.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match &part.source {
            PlacementSource::Reference(name) => Some(name.as_str()),
            PlacementSource::Inline(_) | PlacementSource::Topology(_) => None,
        })
    }
}

/// One part of a step's placement.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementPart {
    /// The policy that it is; absent for what the step says itself.
    pub policy: Option<String>,
    /// Path of the field that brings it in.
    pub path: String,
    /// What it says.
    pub source: PlacementSource,
}

/// What a part of a placement says.
#[derive(Debug, Clone, PartialEq)]
pub enum PlacementSource {
    /// A whole placement.
    Inline(PlacementSpec),
    /// Rules only, from a KubeVela `topology` policy.
    Topology(PlacementSpec),
    /// The Placement of this name in the application's namespace.
    Reference(String),
}

/// A change of one field of a component's first object.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPatch {
    /// The field. What a pod template lacks at its object's root is meant in the template: `spec.containers[0].image`.
    pub field: ParameterKey,
    /// Its value; absent: that of the step's input.
    pub value: Option<Value>,
}

/// A `step-group`.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupStep {
    /// How its steps follow one another.
    pub mode: Mode,
    /// Its steps, none of them a group.
    pub steps: Vec<ValidStep>,
}

/// What is waited for over all clusters.
#[derive(Debug, Clone, PartialEq)]
pub enum Until {
    /// So many clusters pass.
    Ready(ReadyShare),
    /// This holds, over `fleet`.
    Holds(StepExpression),
}

/// How many clusters have to be ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadyShare {
    /// This part of them, rounded up.
    Percent(Percent),
    /// This many of them.
    Count(u32),
}

impl ReadyShare {
    /// Whether `ready` of `all` clusters are enough. Of no clusters none is.
    pub fn is_met(self, ready: usize, all: usize) -> bool {
        let wide = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        match self {
            _ if all == 0 => false,
            ReadyShare::Percent(percent) => {
                wide(ready).saturating_mul(100_000) >= wide(all).saturating_mul(u64::from(percent.milli()))
            }
            ReadyShare::Count(count) => wide(ready) >= u64::from(count),
        }
    }
}

impl std::fmt::Display for ReadyShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadyShare::Percent(percent) => percent.fmt(f),
            ReadyShare::Count(count) => count.fmt(f),
        }
    }
}

/// A `wait` step.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitStep {
    /// Over what the clusters report.
    Fleet {
        /// What it waits for.
        until: Until,
        /// The placing steps whose clusters it looks at; empty: all that were reached before it.
        steps: Vec<String>,
    },
    /// Over an object on the hub. While there is none, it waits.
    Object {
        /// The object.
        object: HubObject,
        /// What has to hold, over `object`.
        until: StepExpression,
    },
}

/// An `export` step.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportStep {
    /// Its properties as written, for inputs to be put in.
    pub properties: Value,
    /// The component whose first object the value is merged into, for placing steps after this one; absent: the value is
    /// the step's output.
    pub component: Option<String>,
}

/// A step of which executors do the work.
#[derive(Debug, Clone, PartialEq)]
pub struct ActStep {
    /// Its properties as written, for inputs to be put in.
    pub properties: Value,
    /// The properties as they are without inputs; absent: inputs have to come first.
    pub action: Option<ActionProperties>,
    /// Path of the properties, such as `spec.workflow.steps[0].properties`.
    pub path: String,
}

/// An object step with `clusters`.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterObjectStep {
    /// What is done with the object.
    pub verb: ClusterVerb,
    /// The clusters, as a placement of one rule.
    pub placement: PlacementSpec,
    /// At most this many clusters are under way at a time.
    pub max_parallel: Option<u32>,
    /// It fails when more clusters than this have failed; absent: it waits for them.
    pub max_failed_clusters: Option<u32>,
    /// The earlier steps whose object it takes away; never empty for [`ClusterVerb::Delete`], and empty otherwise.
    pub takes_of: Vec<String>,
    /// Its properties as written, for inputs to be put in. What kind the object is of and which namespace it is in is not
    /// an input's to say.
    pub properties: Value,
    /// Path of the properties, such as `spec.workflow.steps[0].properties`.
    pub path: String,
}

impl ClusterObjectStep {
    /// The object as the clusters are to have it; where it is not applied, what names it.
    ///
    /// # Errors
    /// What is wrong with it now that the inputs are put in, paths beginning with `properties`; never empty.
    pub fn manifest(&self, filled: &Value) -> Result<Value, Vec<Violation>> {
        validate::read_cluster_object(self.verb, filled)
    }

    /// What can be told of the object before any input: its kind and its namespace.
    pub fn identity(&self) -> Value {
        match self.verb {
            ClusterVerb::Apply => self.properties.get("value").cloned().unwrap_or_default(),
            ClusterVerb::Read | ClusterVerb::Delete => super::identity(&self.properties),
        }
    }
}

/// What a placing step waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WaitFor {
    /// `ready`: every cluster has applied its bundle and its objects are ready.
    #[default]
    Ready,
    /// `applied`: every cluster has applied its bundle.
    Applied,
    /// `none`: the step ends when the bundles are written.
    None,
}

/// Properties of `suspend`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuspendProperties {
    /// Shown while it waits.
    pub message: Option<String>,
    /// It resumes by itself after this time.
    pub duration: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_up_and_nothing_is_not_enough() {
        let percent = |text: &str| ReadyShare::Percent(text.parse().unwrap());
        for (share, ready, all, met) in [
            (percent("90%"), 9, 10, true),
            (percent("90%"), 8, 10, false),
            (percent("90%"), 9, 11, false),
            (percent("90%"), 10, 11, true),
            (percent("0%"), 0, 3, true),
            (percent("0%"), 0, 0, false),
            (percent("100%"), 0, 0, false),
            (ReadyShare::Count(2), 2, 9, true),
            (ReadyShare::Count(2), 1, 1, false),
            (ReadyShare::Count(0), 0, 0, false),
        ] {
            assert_eq!(share.is_met(ready, all), met, "{share} of {ready}/{all}");
        }
    }
}
