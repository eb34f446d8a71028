//! What a run is to do, as the engine sees it.

use super::Limits;
use roundhouse_api::application::{
    ActStep, ClusterObjectStep, ClusterVerb, Condition, ExportStep, FieldPatch, Mode, StepInput, StepKind,
    StepOutput, StepStatus, SuspendProperties, Until, ValidApplication, ValidStep, WaitFor, WaitStep,
    WorkflowStatus, order,
};
use std::time::Duration;

/// What a run is to do.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec {
    /// The ApplicationRevision that is delivered.
    pub revision: String,
    /// `metadata.generation` of the Application.
    pub generation: i64,
    /// Namespace and name of the Application.
    pub application: (String, String),
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Limits of waiting and retrying.
    pub limits: Limits,
}

/// A step as the engine sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name, unique in the workflow.
    pub name: String,
    /// Type as written.
    pub type_: String,
    /// What it does.
    pub action: Action,
    /// Whether it runs.
    pub condition: Option<Condition>,
    /// It fails when it takes longer.
    pub timeout: Option<Duration>,
    /// The steps of its list that it starts after.
    pub after: Vec<usize>,
    /// Whether it runs only if all of those have succeeded; otherwise, if none of them has failed.
    pub strict: bool,
    /// What it takes from other steps.
    pub inputs: Vec<StepInput>,
    /// What it gives to other steps.
    pub outputs: Vec<StepOutput>,
    /// The parts of its output that others name.
    pub referenced: Vec<String>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Places and dispatches, then waits for the clusters.
    Deploy(Box<Deploy>),
    /// Waits until a person resumes, or for a time.
    Suspend(SuspendProperties),
    /// Runs its own steps.
    Group(Vec<Step>),
    /// Waits until something holds.
    Wait(WaitStep),
    /// Ends the run.
    Break {
        /// Why.
        message: Option<String>,
    },
    /// Fails.
    Fail {
        /// Why.
        message: Option<String>,
    },
    /// Gives a value.
    Export(ExportStep),
    /// Goes back to an earlier revision.
    Rollback {
        /// Which one; absent: the last one that was delivered whole.
        to: Option<String>,
    },
    /// Has an executor do something.
    Act(ActStep),
    /// Sends an object to clusters, then waits for them.
    ClusterObject {
        /// Which object, and where.
        object: Box<ClusterObjectStep>,
        /// What it waits for.
        deploy: Deploy,
    },
}

impl Action {
    /// Whether it writes Bundles, and waits for what clusters report.
    pub fn dispatches(&self) -> bool {
        matches!(self, Action::Deploy(_) | Action::ClusterObject { .. })
    }

    /// Whether it dispatches only once a person has approved it.
    pub fn asks(&self) -> bool {
        matches!(self, Action::Deploy(deploy) if deploy.asks)
    }
}

/// What a placing step waits for, and how it dispatches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Deploy {
    /// It dispatches only once a person has approved it.
    pub asks: bool,
    /// What it waits for, of each cluster.
    pub wait: WaitFor,
    /// It passes when this holds, instead of when every cluster passes.
    pub until: Option<Until>,
    /// It fails when more clusters than this have failed.
    pub max_failed_clusters: Option<u32>,
    /// The only component that it dispatches.
    pub only: Option<String>,
    /// A change to that component.
    pub patch: Option<FieldPatch>,
}

/// Where a step is: its place in the workflow, and in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) index: usize,
    pub(super) inner: Option<usize>,
}

impl Spec {
    /// The run of a valid application.
    pub fn new(
        revision: &str,
        generation: i64,
        application: (&str, &str),
        valid: &ValidApplication,
        limits: Limits,
    ) -> Spec {
        Spec {
            revision: revision.to_owned(),
            generation,
            application: (application.0.to_owned(), application.1.to_owned()),
            steps: list(&valid.steps, valid.mode),
            limits,
        }
    }

    /// Whether a run with this status is a run of this spec.
    pub fn is_of(&self, workflow: &WorkflowStatus) -> bool {
        workflow.generation == Some(self.generation)
            && workflow.app_revision.as_deref() == Some(self.revision.as_str())
            && fits(&self.steps, &workflow.steps)
    }

    /// The places of all steps in the order of the document, each group before its own.
    pub(super) fn places(&self) -> Vec<At> {
        let with_inner = |(index, step): (usize, &Step)| {
            let inner = (0..step.inner().len()).map(Some);
            std::iter::once(None)
                .chain(inner)
                .map(move |inner| At { index, inner })
                .collect::<Vec<_>>()
        };
        self.steps.iter().enumerate().flat_map(with_inner).collect()
    }

    /// Whether a step has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        let all = self.places();
        all.into_iter()
            .any(|at| self.at(at).is_some_and(|step| step.name == name))
    }

    pub(super) fn at(&self, at: At) -> Option<&Step> {
        let step = self.steps.get(at.index)?;
        match at.inner {
            None => Some(step),
            Some(inner) => step.inner().get(inner),
        }
    }

    /// The placing steps in the order of the document.
    pub fn placing(&self) -> impl Iterator<Item = (&Step, &Deploy)> {
        let all = self
            .steps
            .iter()
            .flat_map(|step| std::iter::once(step).chain(step.inner()));
        all.filter_map(|step| match &step.action {
            Action::Deploy(deploy) => Some((step, deploy.as_ref())),
            _ => None,
        })
    }
}

impl Step {
    /// The steps of a group.
    pub fn inner(&self) -> &[Step] {
        match &self.action {
            Action::Group(steps) => steps,
            _ => &[],
        }
    }
}

/// Where the status of a step is.
pub(super) fn state_at(workflow: &WorkflowStatus, at: At) -> Option<&StepStatus> {
    let step = workflow.steps.get(at.index)?;
    match at.inner {
        None => Some(step),
        Some(inner) => step.sub_steps.get(inner),
    }
}

fn fits(steps: &[Step], states: &[StepStatus]) -> bool {
    let fit =
        |(step, state): (&Step, &StepStatus)| step.name == state.name && fits(step.inner(), &state.sub_steps);
    steps.len() == states.len() && steps.iter().zip(states).all(fit)
}

fn list(steps: &[ValidStep], mode: Mode) -> Vec<Step> {
    let of = |(step, after): (&ValidStep, Vec<usize>)| Step {
        name: step.name.clone(),
        type_: step.type_.clone(),
        action: action(&step.kind),
        condition: step.condition.clone(),
        timeout: step.timeout,
        after,
        strict: mode == Mode::Dag || !step.depends_on.is_empty(),
        inputs: step.inputs.clone(),
        outputs: step.outputs.clone(),
        referenced: step.referenced.clone(),
    };
    steps.iter().zip(order(steps, mode)).map(of).collect()
}

fn action(kind: &StepKind) -> Action {
    match kind {
        StepKind::Deploy(deploy) => Action::Deploy(Box::new(Deploy {
            asks: deploy.asks,
            wait: deploy.wait,
            until: deploy.until.clone(),
            max_failed_clusters: deploy.max_failed_clusters,
            only: deploy.only.clone(),
            patch: deploy.patch.clone(),
        })),
        StepKind::Suspend(suspend) => Action::Suspend(suspend.clone()),
        StepKind::Group(group) => Action::Group(list(&group.steps, group.mode)),
        StepKind::Wait(wait) => Action::Wait(wait.clone()),
        StepKind::Break { message } => Action::Break {
            message: message.clone(),
        },
        StepKind::Fail { message } => Action::Fail {
            message: message.clone(),
        },
        StepKind::Export(export) => Action::Export(export.clone()),
        StepKind::Rollback { to } => Action::Rollback { to: to.clone() },
        StepKind::Act(act) => Action::Act(act.clone()),
        StepKind::ClusterObject(object) => Action::ClusterObject {
            object: object.clone(),
            deploy: Deploy {
                // What is only looked at need not be ready.
                wait: match object.verb {
                    ClusterVerb::Apply | ClusterVerb::Delete => WaitFor::Ready,
                    ClusterVerb::Read => WaitFor::Applied,
                },
                max_failed_clusters: object.max_failed_clusters,
                ..Deploy::default()
            },
        },
    }
}
