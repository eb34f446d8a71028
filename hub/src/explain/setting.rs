//! All that a decision depends on, owned: so that a change can be tried out.

use crate::{
    placement::{
        ClusterFacts, Inventory, PlacingStep, Previous, Request, Standing, StepDecision, Workload,
        decision_hash, place_by_component, standing_by_component,
    },
    render::{self, Rendered},
};
use jiff::Timestamp;
use roundhouse_api::{
    application::{DeployStep, PlacementPart, PlacementSource, ValidApplication},
    decision::{Decision, DecisionSpec, WorkloadRef},
    placement::PlacementSpec,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// An application, the fleet, and what was decided before.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// `<namespace>/<name>` of the application.
    pub application: String,
    /// Every placing step of its workflow, in order.
    pub steps: Vec<Step>,
    /// What is placed.
    pub workloads: Vec<Workload>,
    /// The fleet.
    pub inventory: Inventory,
    /// What was decided before.
    pub previous: Previous,
    /// The moment of the decision.
    pub now: Timestamp,
    /// Which objects say what each step says; a step without an entry is the Application's own.
    pub written: Vec<Written>,
}

/// Which objects say what a step says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// What says what the step says as a whole.
    pub whole: Form,
    /// What says each rule; one without an entry is the Application's own.
    pub rules: Vec<Form>,
}

/// What says something of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// The Application itself.
    #[default]
    Application,
    /// A Placement: changing it makes no new revision of the application.
    Placement,
    /// A topology policy of the Application: it says which clusters, and nothing else.
    Topology,
}

impl Form {
    fn of(part: &PlacementPart) -> Form {
        match part.source {
            PlacementSource::Inline(_) => Form::Application,
            PlacementSource::Topology(_) => Form::Topology,
            PlacementSource::Reference(_) => Form::Placement,
        }
    }
}

impl Written {
    fn of(deploy: &DeployStep) -> Written {
        // One reference has the rules that the other parts do not have; how several share them is not known.
        let known: usize = deploy.parts.iter().map(rules_of).sum();
        let rest = deploy.placement.placement.len().saturating_sub(known);
        let rules = deploy.parts.iter().flat_map(|part| match Form::of(part) {
            Form::Placement => vec![Form::Placement; rest],
            form => vec![form; rules_of(part)],
        });
        let mut whole = deploy
            .parts
            .iter()
            .map(Form::of)
            .filter(|form| *form != Form::Topology);
        Written {
            whole: match whole.next() {
                None if deploy.parts.is_empty() => Form::Application,
                None => Form::Topology,
                Some(first) if whole.all(|form| form == first) => first,
                Some(_) => Form::Application,
            },
            rules: rules.collect(),
        }
    }
}

/// The rules that a part has itself.
fn rules_of(part: &PlacementPart) -> usize {
    match &part.source {
        PlacementSource::Inline(spec) | PlacementSource::Topology(spec) => spec.placement.len(),
        PlacementSource::Reference(_) => 0,
    }
}

/// A placing step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Step name.
    pub name: String,
    /// What it says.
    pub spec: PlacementSpec,
    /// The one component that it dispatches; `None` for all of them.
    pub only: Option<Component>,
}

/// A component that a step dispatches alone. Steps that dispatch the same share its replicas, and nothing with others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// Its objects: those that are among the workloads of the setting are divided.
    pub workloads: BTreeSet<WorkloadRef>,
}

/// A decision, and how it stands to what the hub has stored.
#[derive(Debug, Clone, PartialEq)]
pub struct InForce {
    /// The stored one if placement answers the same today: it still knows what it was decided against. Otherwise what
    /// placement answers.
    pub decision: StepDecision,
    /// Whether it is stored as it is; `None` if nothing is stored.
    pub stored: Option<bool>,
}

impl InForce {
    /// A stored decision that stays, whatever placement would answer.
    pub fn kept(decision: &DecisionSpec) -> InForce {
        InForce {
            decision: StepDecision {
                step: decision.step.clone(),
                workloads: decision.workloads.clone(),
                clusters: decision
                    .clusters
                    .iter()
                    .map(|name| name.as_str().into())
                    .collect(),
                chosen: decision.chosen.clone(),
                excluded: decision.excluded.clone(),
                satisfied: decision.satisfied,
                reasons: decision.reasons.clone(),
                frozen_weights: decision.frozen_weights.clone(),
                overrides: decision.overrides.clone(),
                cluster_labels: decision.cluster_labels.clone(),
                override_errors: decision.override_errors.clone(),
            },
            stored: Some(true),
        }
    }
}

/// Compares what placement answers with the stored Decisions, by step.
pub fn in_force(answers: Vec<StepDecision>, stored: &BTreeMap<String, Arc<Decision>>) -> Vec<InForce> {
    let compare = |mut decision: StepDecision| {
        let Some(kept) = stored.get(&decision.step) else {
            return InForce {
                decision,
                stored: None,
            };
        };
        let same = kept.spec.hash == decision_hash(&decision);
        if same {
            decision.workloads.clone_from(&kept.spec.workloads);
        }
        InForce {
            decision,
            stored: Some(same),
        }
    };
    answers.into_iter().map(compare).collect()
}

impl Setting {
    /// The setting of an application, `<namespace>/<name>`, that was understood, its Placements put in: with the
    /// revision that it is at and the steps of it that a run under way has passed, what it renders to, the fleet, and its
    /// stored Decisions.
    pub fn of(
        application: String,
        (revision, passed): (&str, &[String]),
        valid: &ValidApplication,
        rendered: &Rendered,
        fleet: Vec<Arc<ClusterFacts>>,
        stored: &BTreeMap<String, Arc<Decision>>,
        now: Timestamp,
    ) -> Setting {
        let steps = valid.placing().map(|(step, deploy)| {
            let spec = deploy.placement.clone();
            let only = deploy.only.as_ref().map(|component| Component {
                name: component.clone(),
                workloads: render::component_workloads(rendered, component),
            });
            let name = step.name.clone();
            (Step { name, spec, only }, Written::of(deploy))
        });
        let (steps, written) = steps.unzip();
        Setting {
            application,
            steps,
            written,
            workloads: render::workloads(rendered),
            inventory: fleet.into_iter().collect(),
            previous: Previous::from_decisions_at(revision, stored.values().map(|decision| &decision.spec))
                .passing(passed.iter().filter_map(|step| Some(&stored.get(step)?.spec))),
            now,
        }
    }

    /// What placement answers.
    pub fn place(&self) -> Vec<StepDecision> {
        self.ask(|request, only, workloads_of| place_by_component(request, only, workloads_of))
    }

    /// How a cluster stands in every step, in order; `None` if the fleet has no such cluster.
    pub fn standing(&self, cluster: &str) -> Option<Vec<Standing>> {
        self.ask(|request, only, workloads_of| standing_by_component(request, only, workloads_of, cluster))
    }

    /// The facts of a cluster.
    pub fn cluster(&self, name: &str) -> Option<&ClusterFacts> {
        self.inventory.get(name).map(AsRef::as_ref)
    }

    /// What a step divides.
    pub fn workloads_of(&self, step: usize) -> impl Iterator<Item = &Workload> {
        let only = self.steps.get(step).and_then(|step| step.only.as_ref());
        let is_own =
            move |workload: &&Workload| only.is_none_or(|only| only.workloads.contains(&workload.key));
        self.workloads.iter().filter(is_own)
    }

    /// What says a rule, by its step and its place in it.
    pub fn form(&self, (step, rule): (usize, usize)) -> Form {
        let written = self.written.get(step).and_then(|step| step.rules.get(rule));
        written.copied().unwrap_or_default()
    }

    /// What says what a step says as a whole.
    pub fn form_of(&self, step: usize) -> Form {
        self.written.get(step).map(|step| step.whole).unwrap_or_default()
    }

    /// Replicas that a workload asks for; 0 if there is no such workload.
    pub fn replicas(&self, workload: &WorkloadRef) -> u32 {
        let found = self.workloads.iter().find(|known| known.key == *workload);
        found.map_or(0, |known| known.replicas)
    }

    /// Asks as the controller does: with the one component that each step dispatches, and the workloads of each.
    fn ask<T>(
        &self,
        question: impl Fn(&Request<'_>, &[Option<&str>], &dyn Fn(&str) -> BTreeSet<WorkloadRef>) -> T,
    ) -> T {
        let steps: Vec<PlacingStep<'_>> = self
            .steps
            .iter()
            .map(|step| PlacingStep {
                name: &step.name,
                spec: &step.spec,
            })
            .collect();
        let only = || self.steps.iter().map(|step| step.only.as_ref());
        let names: Vec<Option<&str>> = only().map(|only| Some(only?.name.as_str())).collect();
        let workloads_of = |component: &str| {
            let mut parts = only().flatten();
            let own = parts.find(|only| only.name == component);
            own.map(|only| only.workloads.clone()).unwrap_or_default()
        };
        let request = Request {
            application: &self.application,
            steps: &steps,
            workloads: &self.workloads,
            inventory: &self.inventory,
            previous: &self.previous,
            now: self.now,
        };
        question(&request, &names, &workloads_of)
    }
}
