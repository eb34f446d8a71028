//! The steps of a run: which are looked at, in which order.

use super::{
    Effect, Evidence, Spec,
    spec::{Action, At, Step, state_at},
    start::Start,
};
use jiff::Timestamp;
use roundhouse_api::application::{ApplicationPhase, StepPhase, StepStatus, WaitStep, WorkflowStatus};
use std::{collections::BTreeSet, time::Duration};

pub(super) const PAUSED: &str = "paused: set status.workflow.suspend to false to go on";

/// One call of the engine.
pub(super) struct Run<'a> {
    pub(super) spec: &'a Spec,
    pub(super) evidence: &'a Evidence,
    pub(super) now: Timestamp,
    pub(super) phase: Option<ApplicationPhase>,
    pub(super) workflow: WorkflowStatus,
    pub(super) effects: Vec<Effect>,
    /// Steps that were started or judged in this call.
    pub(super) judged: BTreeSet<At>,
    /// When to look again.
    pub(super) wake: Option<Duration>,
}

/// A step that has not been reached.
pub(super) fn pending(step: &Step) -> StepStatus {
    StepStatus {
        name: step.name.clone(),
        type_: step.type_.clone(),
        sub_steps: step.inner().iter().map(pending).collect(),
        ..StepStatus::default()
    }
}

impl<'a> Run<'a> {
    pub(super) fn seen(&self, at: At) -> Option<&StepStatus> {
        state_at(&self.workflow, at)
    }

    pub(super) fn state(&mut self, at: At) -> Option<&mut StepStatus> {
        let step = self.workflow.steps.get_mut(at.index)?;
        match at.inner {
            None => Some(step),
            Some(inner) => step.sub_steps.get_mut(inner),
        }
    }

    /// The steps that are no groups, in the order of the document.
    pub(super) fn leaves(&self) -> impl Iterator<Item = At> + use<'a> {
        let spec = self.spec;
        let is_leaf = move |at: &At| spec.at(*at).is_some_and(|step| step.inner().is_empty());
        spec.places().into_iter().filter(is_leaf)
    }

    /// The steps that a person has paused.
    pub(super) fn paused_steps(&self) -> impl Iterator<Item = At> {
        self.leaves().filter(|at| {
            if self.awaits_approval(*at) {
                return false;
            }
            let suspends = self
                .spec
                .at(*at)
                .is_some_and(|step| matches!(step.action, Action::Suspend(_)));
            !suspends
                && self
                    .seen(*at)
                    .is_some_and(|state| state.phase == StepPhase::Suspending)
        })
    }

    /// Goes on as far as it goes without waiting: each step is judged at most once.
    pub(super) fn proceed(&mut self) {
        loop {
            let mut moved = false;
            for index in 0..self.spec.steps.len() {
                moved |= self.visit(At { index, inner: None });
            }
            if !moved {
                break;
            }
        }
        self.conclude();
    }

    /// Looks at a step; `true` if its phase has changed.
    fn visit(&mut self, at: At) -> bool {
        let (Some(step), Some(state)) = (self.spec.at(at), self.seen(at)) else {
            return false;
        };
        let before = (state.phase, state.reason);
        if state.is_over() {
            return false;
        }
        if state.phase == StepPhase::Pending {
            return match self.admission(step, at) {
                Start::NotYet => false,
                Start::Never(why) => {
                    self.skip(at, Some(why));
                    true
                }
                Start::Now => {
                    self.start(step, at);
                    true
                }
            };
        }
        if self.time_out(at) {
            return true;
        }
        if let Action::Group(steps) = &step.action {
            let mut moved = false;
            for inner in 0..steps.len() {
                moved |= self.visit(At {
                    inner: Some(inner),
                    ..at
                });
            }
            let settled = self.settle_group(at);
            self.wake_at_end(at);
            return settled || moved;
        }
        if !self.judged.insert(at) {
            self.wake_at_end(at);
            return false;
        }
        self.judge(step, at);
        self.wake_at_end(at);
        self.seen(at).map(|state| (state.phase, state.reason)) != Some(before)
    }

    /// Looks at a step that has started.
    fn judge(&mut self, step: &'a Step, at: At) {
        match &step.action {
            Action::Deploy(_) if self.awaits_approval(at) => {}
            Action::Deploy(deploy) => {
                self.judge_deploy(step, at, deploy, self.evidence.steps.get(&step.name));
            }
            Action::ClusterObject { object, deploy } => {
                let evidence = self.evidence.objects.get(&step.name);
                match self.unreported(step, at, object) {
                    Some(message) if evidence.is_some_and(|evidence| evidence.passes(deploy.wait)) => {
                        self.wait(at, message, None);
                    }
                    _ => self.judge_deploy(step, at, deploy, evidence),
                }
            }
            Action::Suspend(suspend) => self.judge_suspend(at, suspend),
            Action::Wait(WaitStep::Fleet { until, steps }) => self.judge_wait(step, at, until, steps),
            Action::Wait(WaitStep::Object { object, until }) => self.judge_look(step, at, object, until),
            Action::Act(_) => self.judge_act(step, at),
            Action::Rollback { to } => self.judge_rollback(step, at, to.as_deref()),
            // Over as soon as they start.
            Action::Group(_) | Action::Break { .. } | Action::Fail { .. } | Action::Export(_) => {}
        }
    }
}
