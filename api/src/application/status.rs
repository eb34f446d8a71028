//! `Application.status`: bounded, with the phases and reasons that KubeVela's users know.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// At most this many clusters that are not ready are listed.
pub const MAX_NOT_READY: usize = 50;
/// Condition type: the spec was understood.
pub const ACCEPTED: &str = "Accepted";
/// Condition type: every placing step's decision is satisfied.
pub const PLACED: &str = "Placed";
/// Condition type: everything placed is ready.
pub const DELIVERED: &str = "Delivered";

/// Condition type: rules claim more replicas than their workload asks for, and some get fewer than they say. Absent until
/// that has once been so.
pub const OVERCOMMITTED: &str = "Overcommitted";

/// Condition type: the hub sees the clusters as they are. `False` while it cannot list or watch them: then placements follow
/// what was seen last. Absent until that has once been so.
pub const CLUSTERS_SEEN: &str = "ClustersSeen";

/// Condition type: removals wait for a confirmation. `False` once the removals of the present spec were judged, `Unknown`
/// before.
pub const DELETES_HELD: &str = "DeletesHeld";
/// Reason of [`DELETES_HELD`] `False`: removals are due, and wait until the clusters that the message names run what
/// replaces them. Nobody is asked.
pub const WAITS_FOR_CLUSTERS: &str = "WaitsForClusters";

/// At most this many regions are told apart.
pub const MAX_REGIONS: usize = 50;
/// At most this many steps with an object in clusters are listed …
pub const MAX_OBJECTS: usize = 20;
/// … each with at most this many regions …
pub const MAX_OBJECT_REGIONS: usize = 20;
/// … and with at most this many clusters that are not ready.
pub const MAX_OBJECT_CLUSTERS: usize = 10;
/// Bundles at most that are let go at a time while their clusters keep the objects, those that are wanted among them …
pub const MAX_LET_GO: usize = 2 * MAX_LET_GO_UNWANTED;
/// … and those of which that is not known: they do not take the room of the others.
pub const MAX_LET_GO_UNWANTED: usize = 100;
/// The name under which further regions are summed up; no label has such a value.
pub const OTHER_REGIONS: &str = "(other regions)";

/// Where an application stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Phase (KubeVela's values). Setting it to `runningWorkflow` with an empty `workflow` restarts the workflow (seed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ApplicationPhase>,
    /// `Accepted`, `Placed`, `Delivered`, and where there is reason to, `Overcommitted`, `DeletesHeld`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The newest revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<LatestRevision>,
    /// The run of the workflow. `suspend`, `terminated` and the whole may be changed by the user (seed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowStatus>,
    /// The revision of the last run that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_revision: Option<String>,
    /// What became of the bundles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Removals of the last hour, against which the delete budget counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removals: Option<Removals>,
    /// Removals that wait for a confirmation: what condition `DeletesHeld` tells people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_deletes: Option<HeldDeletes>,
    /// The last confirmation (annotation `roundhouse.dev/confirm-deletes`) that was there when the removals of a run were judged and
    /// none waited for one: it confirms nothing any more, and what is asked later has another hash, were it about the same Bundles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub spent_confirmation: Option<String>,
    /// Bundles that are let go while their clusters keep the objects, most of them to be made again: until they are, nothing else
    /// tells that something is there. Clusters where the application is not wanted again are told to remove the objects with the
    /// other removals, and all of them when the application is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_LET_GO))]
    pub let_go: Vec<LetGo>,
}

/// How what a run says begins that a person has ended.
pub const TERMINATED: &str = "terminated: ";

/// How what a run says begins where `restartFrom` names no step of it.
const UNKNOWN: &str = "restartFrom: there is no step named ";

/// So many characters of a name that somebody has mistaken are shown.
const MAX_SHOWN_NAME: usize = 64;

/// A Bundle that is let go while its cluster keeps the objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LetGo {
    /// The cluster.
    pub cluster: String,
    /// Name of the Bundle.
    pub bundle: String,
}

/// Removals that wait for a confirmation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldDeletes {
    /// What a confirmation has to name: it stands for exactly these Bundles.
    pub hash: String,
    /// How many clusters would lose the application.
    pub count: u32,
    /// Which ones, sorted; at most [`MAX_NOT_READY`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
}

/// What the delete budget counts: removals of the last hour, none of them from before the last confirmed set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Removals {
    /// The oldest first; at most [`MAX_REMOVALS`], further ones are counted with their neighbours.
    #[serde(default)]
    pub moments: Vec<Removed>,
}

/// At most this many moments of removal are told apart.
pub const MAX_REMOVALS: usize = 60;

/// Clusters that lost the application's bundle at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// When.
    pub at: Option<Time>,
    /// How many clusters had a bundle then.
    pub of: u32,
    /// How many lost it.
    pub count: u32,
    /// Which ones, sorted; at most [`MAX_NOT_READY`] over all moments, the rest is counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
}

/// Phases of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApplicationPhase {
    /// The spec is being rendered, or was refused (condition `Accepted`).
    Rendering,
    /// Steps are running.
    RunningWorkflow,
    /// The workflow is suspended.
    WorkflowSuspending,
    /// The workflow was terminated.
    WorkflowTerminated,
    /// The workflow failed.
    WorkflowFailed,
    /// Everything is delivered and ready.
    Running,
    /// Everything was delivered, something is not ready now.
    Unhealthy,
    /// The application is being deleted.
    Deleting,
}

/// Names a revision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatestRevision {
    /// Name of the ApplicationRevision.
    pub name: String,
    /// N of `<app>-v<N>`.
    pub revision: u64,
    /// Hash over the application's spec.
    pub revision_hash: String,
}

/// One run of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkflowStatus {
    /// The revision that the run delivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_revision: Option<String>,
    /// Generation of the application whose spec the run follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Phase of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepPhase>,
    /// What a person should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// True while suspended; the user sets it to false to resume, or to true to pause (seed).
    #[serde(default)]
    pub suspend: bool,
    /// True while a person has paused the run, whatever its steps do: then no timer ends and nothing starts. The hub sets it
    /// when it takes in `suspend: true`; a user sets it to pause a run that one of its steps suspends already. `suspend: false`
    /// takes it away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// True when terminated; the user may set it (seed).
    #[serde(default)]
    pub terminated: bool,
    /// True once the run ended, however it ended.
    #[serde(default)]
    pub finished: bool,
    /// The user names a step to run it again, and what depends on it; the hub takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_from: Option<String>,
    /// Index of the step that runs; the number of steps when all are done (seed).
    #[serde(default)]
    pub step_index: u32,
    /// `<name> (<done>/<all>)`, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepStatus>,
    /// Fencing epoch of the hub that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::epoch")]
    pub epoch: Option<i64>,
    /// Tells the run from every other one, and from itself before a restart from a step: when that began, in milliseconds
    /// since 1970, later than any before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<i64>,
    /// When the run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
}

impl WorkflowStatus {
    /// Index of the step that runs or runs next: the first that is not over.
    pub fn present_step(&self) -> usize {
        self.steps
            .iter()
            .position(|step| !step.is_over())
            .unwrap_or(self.steps.len())
    }

    /// Whether a person has ended the run, and not one of its steps: it says so. That a step was stopped then does not tell, where
    /// the run was started again behind it.
    pub fn was_terminated_by_a_person(&self) -> bool {
        self.said().is_some_and(|said| said.starts_with(TERMINATED))
    }

    /// What the run says, without what is wrong with `restartFrom`.
    pub fn said(&self) -> Option<&str> {
        let said = self.message.as_deref()?;
        let Some(noted) = said
            .strip_prefix(UNKNOWN)
            .and_then(|noted| noted.strip_prefix('"'))
        else {
            return Some(said);
        };
        // The name is quoted, and what is quoted is escaped.
        let mut escaped = false;
        let end = noted.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        noted.get(end? + 1..)?.strip_prefix("; ")
    }

    /// What is wrong with `restartFrom` where it names no step of the run: then it asks for nothing, until somebody takes it away
    /// or another run begins.
    pub fn unknown_restart(&self) -> Option<String> {
        let name = self
            .restart_from
            .as_deref()
            .filter(|name| self.step(name).is_none())?;
        let shown: String = name.chars().take(MAX_SHOWN_NAME).collect();
        Some(format!("{UNKNOWN}{shown:?}"))
    }

    /// All steps in the order of the document, each group before its own.
    pub fn all_steps(&self) -> impl Iterator<Item = &StepStatus> {
        self.steps
            .iter()
            .flat_map(|step| std::iter::once(step).chain(&step.sub_steps))
    }

    /// The step of this name, in a group or not.
    pub fn step(&self, name: &str) -> Option<&StepStatus> {
        self.all_steps().find(|step| step.name == name)
    }
}

/// Where a step stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStatus {
    /// Name.
    pub name: String,
    /// Type as written.
    #[serde(rename = "type")]
    pub type_: String,
    /// Phase.
    pub phase: StepPhase,
    /// Why it is in that phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<StepReason>,
    /// What a person should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the step was first executed; to the microsecond, since timeouts count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_execute_time: Option<MicroTime>,
    /// When it last made progress, or was last tried after an error: the back-off counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_execute_time: Option<MicroTime>,
    /// How often it was tried after an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// While it is tried again after an error: when, and how often it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try: Option<NextTry>,
    /// Digest of the clusters' states, or the version of the object that is waited for: a different one is progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Of a step that takes an object away: the clusters that had it when the step started, sorted. Each reports that it is
    /// gone before the step is done; then none is noted any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// Of a step that acts: the number of its present or next execution, from 1. Of one that waits for an object: of its first
    /// look, or of the next one after an error; other looks leave nothing behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Of a step that acts: the run in which it was started. A restart from another step leaves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<i64>,
    /// What it gave to other steps, by name of the output.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::any_object")]
    pub values: BTreeMap<String, Value>,
    /// What other steps name of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::any_value")]
    pub output: Option<Value>,
    /// Of a group: its steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::any_values")]
    pub sub_steps: Vec<StepStatus>,
}

/// The next try of a step that has failed and is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextTry {
    /// When it is due.
    pub at: Time,
    /// Its number, from 2.
    pub number: u32,
    /// How many tries there are at most.
    pub of: u32,
}

impl StepStatus {
    /// Whether it has failed and is tried again.
    pub fn is_retried(&self) -> bool {
        self.phase == StepPhase::Failed && !self.is_over()
    }

    /// Whether it is over: done, passed over, or failed for good.
    pub fn is_over(&self) -> bool {
        match self.phase {
            StepPhase::Succeeded | StepPhase::Skipped => true,
            StepPhase::Failed => self.reason != Some(StepReason::Execute),
            StepPhase::Pending | StepPhase::Running | StepPhase::Suspending => false,
        }
    }
}

/// Phases of steps and of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StepPhase {
    /// Not reached.
    #[default]
    Pending,
    /// At work, or waiting.
    Running,
    /// Suspended.
    Suspending,
    /// Done.
    Succeeded,
    /// Failed.
    Failed,
    /// Passed over.
    Skipped,
}

/// Reasons of a step's phase (KubeVela's values).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepReason {
    /// It waits.
    Wait,
    /// It was passed over.
    Skip,
    /// An input is missing.
    Input,
    /// An output is missing.
    Output,
    /// It is suspended.
    Suspend,
    /// It was terminated.
    Terminate,
    /// It failed too often.
    FailedAfterRetries,
    /// Its time is up.
    Timeout,
    /// An action of its own ended it.
    Action,
    /// It could not be rendered.
    Rendering,
    /// It could not be executed.
    Execute,
}

/// The roll-up of the clusters' reports: counts, and a bounded sample of what is not ready.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// `<ready>/<all>` clusters, for people.
    pub clusters_ready: String,
    /// `<ready>/<all>` replicas, divided or in full on every cluster, for people.
    pub replicas_ready: String,
    /// Divided replicas placed.
    pub placed: u64,
    /// Divided replicas not placed.
    pub unplaced: u64,
    /// Why they are not placed: one line per rule and reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unplaced_reasons: Vec<String>,
    /// How many more such lines there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplaced_omitted: Option<u32>,
    /// Clusters by region, sorted; clusters without the label `region` have an empty name. Beyond [`MAX_REGIONS`] the rest
    /// is summed up as [`OTHER_REGIONS`], which is the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionDelivery>,
    /// How many regions are summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions_omitted: Option<u32>,
    /// Clusters that are not ready, at most [`MAX_NOT_READY`], sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready: Vec<ClusterDelivery>,
    /// How many more are not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u32>,
    /// Clusters that are ready, but whose agent reports trouble (a field that somebody else rewrites, a removal that
    /// waits for a confirmation), at most [`MAX_NOT_READY`], sorted by name; `phase` is the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<ClusterDelivery>,
    /// How many more are degraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_omitted: Option<u32>,
    /// The objects that steps have in clusters, at most [`MAX_OBJECTS`], in the order of the workflow. They are counted apart:
    /// a cluster that has one may have nothing else of the application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectDelivery>,
    /// How many more steps have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects_omitted: Option<u32>,
}

/// The object of one step, over the clusters that it concerns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDelivery {
    /// The step.
    pub step: String,
    /// Type of the step: `apply-object`, `read-object`, or `delete-object`, of which a cluster is ready where the object is
    /// gone.
    #[serde(rename = "type")]
    pub type_: String,
    /// Clusters by region, sorted, at most [`MAX_OBJECT_REGIONS`]; the rest is summed up as [`OTHER_REGIONS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<ObjectRegion>,
    /// How many regions are summed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions_omitted: Option<u32>,
    /// Clusters that are not ready, at most [`MAX_OBJECT_CLUSTERS`], sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_ready: Vec<ClusterDelivery>,
    /// How many more are not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<u32>,
}

impl ObjectDelivery {
    /// Clusters that are ready, and all.
    pub fn counts(&self) -> (u32, u32) {
        let sum = |of: fn(&ObjectRegion) -> u32| self.regions.iter().map(of).sum();
        (sum(|region| region.ready), sum(|region| region.clusters))
    }
}

/// Clusters of one region by phase, of the object of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRegion {
    /// Value of the label `region`.
    pub region: String,
    /// Clusters.
    pub clusters: u32,
    /// Of those, ready.
    pub ready: u32,
    /// Of those, failed.
    pub failed: u32,
    /// Of those, unreachable.
    pub unreachable: u32,
}

/// Clusters of one region by phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegionDelivery {
    /// Value of the label `region`.
    pub region: String,
    /// Clusters with a bundle.
    pub clusters: u32,
    /// Ready with their own evidence.
    pub ready: u32,
    /// Failed with their own evidence.
    pub failed: u32,
    /// Not available by their Lease.
    pub unreachable: u32,
    /// Replicas that the clusters are to run, divided or in full.
    pub replicas: u64,
    /// Of those, replicas ready.
    pub replicas_ready: u64,
}

/// A cluster that is not ready, or not as it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDelivery {
    /// Cluster name.
    pub cluster: String,
    /// `Dispatching`, `Waiting`, `Progressing`, `Failed`, `Unreachable`; of a degraded cluster the reason.
    pub phase: String,
    /// What a person should know.
    pub message: String,
}
