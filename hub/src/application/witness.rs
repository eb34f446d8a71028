//! Who wants to know what each decision followed from. That a decision is a function of its inputs can only be seen where both
//! are known: when it arrives in the store, what is stored beside it may be newer than what the hub decided on.

use super::placing::{Placed, Request, given, steps};
use crate::workflow::Reach;
use roundhouse_api::{decision::DecisionSpec, hash, names::decision_name};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// A decision that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Namespace of the Decision.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Hash of all that it follows from.
    pub inputs: String,
    /// Hash of what was decided, without who wrote it and who waits for a turn with it.
    pub decision: String,
}

/// What a hub says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It has decided.
    Decided(Decided),
    /// It is to dispatch an application in turns, and takes these clusters of it for unreachable: they take no place.
    Unreachable {
        /// Namespace of the Application.
        namespace: String,
        /// Its name.
        name: String,
        /// The clusters.
        clusters: BTreeSet<String>,
    },
    /// It holds so much of something that is bounded.
    Holds {
        /// What.
        what: &'static str,
        /// How much there is.
        value: usize,
        /// How much there may be.
        most: usize,
    },
}

type Hears = dyn Fn(Said) + Send + Sync;

/// Is told what the hub acts on: of every decision before it is stored, of who takes no place, and of what it holds.
#[derive(Clone)]
pub struct Witness(Arc<Hears>);

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

impl Witness {
    /// From a function.
    pub fn new(hears: impl Fn(Said) + Send + Sync + 'static) -> Witness {
        Witness(Arc::new(hears))
    }

    /// Tells it something.
    pub fn hears(&self, said: Said) {
        (self.0)(said);
    }

    /// Tells of decisions that are to be stored, and of who is unreachable. `reach` is what was decided with.
    pub(super) fn tell(&self, request: &Request<'_>, reach: &[Option<Reach>], placed: &[Placed]) {
        self.unreachable(request, placed);
        let written: Vec<&Placed> = placed.iter().filter(|placed| placed.write).collect();
        if written.is_empty() {
            return;
        }
        let inputs = inputs(request, reach);
        for placed in written {
            self.hears(Said::Decided(Decided {
                namespace: request.key.0.clone(),
                name: decision_name(&request.application.name, &placed.step),
                inputs: hash::sha256(format!("{} {inputs}", placed.step).as_bytes()),
                decision: hash::of_value(&json!(content(&placed.decision))),
            }));
        }
    }

    fn unreachable(&self, request: &Request<'_>, placed: &[Placed]) {
        let mut in_turns = placed
            .iter()
            .filter(|placed| placed.max_parallel.is_some())
            .peekable();
        if in_turns.peek().is_none() {
            return;
        }
        let clusters = in_turns.flat_map(|placed| &placed.decision.clusters);
        let clusters = clusters.filter(|cluster| request.fleet.unreachable(cluster).is_some());
        self.hears(Said::Unreachable {
            namespace: request.key.0.clone(),
            name: request.key.1.clone(),
            clusters: clusters.cloned().collect(),
        });
    }
}

/// What was decided, without who wrote it and who waits for a turn with it.
fn content(decision: &DecisionSpec) -> DecisionSpec {
    DecisionSpec {
        epoch: 0,
        waiting: Vec::new(),
        ..decision.clone()
    }
}

/// All that decisions follow from, as text. What the application renders to follows from its revision.
fn inputs(request: &Request<'_>, reach: &[Option<Reach>]) -> String {
    let stored: BTreeMap<_, _> = request
        .stored
        .iter()
        .map(|(step, d)| (step, content(&d.spec)))
        .collect();
    // Where a Decision is lost, Bundles tell.
    let unstored = request.valid.placing().map(|(step, _)| step.name.as_str());
    let unstored = unstored.filter(|step| !request.stored.contains_key(*step));
    let told: Vec<_> = unstored.map(|step| given(request, step)).collect();
    let timed = |placement: &crate::placement::PlacingStep<'_>| {
        let mut tolerations = placement.spec.tolerations.iter();
        tolerations.any(|toleration| toleration.toleration_seconds.is_some())
    };
    let now = steps(request.valid).iter().any(timed).then_some(request.now);
    format!(
        "{:?}",
        (
            (request.application, request.revision, request.valid, reach),
            (request.workloads, request.fleet.inventory.clusters(), stored, now),
            (request.faults, request.patches, told),
        )
    )
}
