//! All that a decision depends on, owned: so that a change can be tried out.

use crate::placement::{
    ClusterFacts, Inventory, PlacingStep, Previous, Request, Standing, StepDecision, Workload, place,
    standing,
};
use jiff::Timestamp;
use roundhouse_api::placement::PlacementSpec;

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

impl Setting {
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
