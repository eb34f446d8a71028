//! All that a decision depends on, owned: so that a change can be tried out.

use crate::placement::{
    ClusterFacts, Inventory, PlacingStep, Previous, Request, Standing, StepDecision, Workload, decision_hash,
    place, standing,
};
use jiff::Timestamp;
use roundhouse_api::{application::ValidApplication, decision::Decision, placement::PlacementSpec};
use std::{collections::BTreeMap, sync::Arc};

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
}

/// A placing step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Step name.
    pub name: String,
    /// What it says.
    pub spec: PlacementSpec,
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
    /// The setting of an application, `<namespace>/<name>`, that was understood, its Placements put in: with what it
    /// divides, the fleet, and its stored Decisions.
    pub fn of(
        application: String,
        valid: &ValidApplication,
        workloads: Vec<Workload>,
        fleet: Vec<Arc<ClusterFacts>>,
        stored: &BTreeMap<String, Arc<Decision>>,
        now: Timestamp,
    ) -> Setting {
        let steps = valid.placing().map(|(step, deploy)| Step {
            name: step.name.clone(),
            spec: deploy.placement.clone(),
        });
        Setting {
            application,
            steps: steps.collect(),
            workloads,
            inventory: fleet.into_iter().collect(),
            previous: Previous::from_decisions(stored.values().map(|decision| &decision.spec)),
            now,
        }
    }

    /// What placement answers.
    pub fn place(&self) -> Vec<StepDecision> {
        self.ask(place)
    }

    /// How a cluster stands in every step, in order; `None` if the fleet has no such cluster.
    pub fn standing(&self, cluster: &str) -> Option<Vec<Standing>> {
        self.ask(|request| standing(request, cluster))
    }

    /// The facts of a cluster.
    pub fn cluster(&self, name: &str) -> Option<&ClusterFacts> {
        self.inventory.get(name).map(AsRef::as_ref)
    }

    fn ask<T>(&self, question: impl FnOnce(&Request<'_>) -> T) -> T {
        let steps: Vec<PlacingStep<'_>> = self
            .steps
            .iter()
            .map(|step| PlacingStep {
                name: &step.name,
                spec: &step.spec,
            })
            .collect();
        question(&Request {
            application: &self.application,
            steps: &steps,
            workloads: &self.workloads,
            inventory: &self.inventory,
            previous: &self.previous,
            now: self.now,
        })
    }
}
