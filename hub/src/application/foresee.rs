//! What a run of an application would come to: the functions of a pass over a snapshot, without a run and without a write.

use super::{
    Key,
    cache::{Cache, Stored},
    feedback,
    fleet::Fleet,
    objects::{self, ForeseenObject},
    placing, removing, revisions,
    view::{Delivery, Known, foreign, override_faults},
};
use crate::{
    dispatch::{Content, Observed, Plan, Share},
    placement::ClusterFacts,
    render::{self, ReplicaPaths},
    tenancy::{Rules, Tenancy},
    workflow::{self, Limits, Reach, ResolvedPatch, Spec},
};
use jiff::Timestamp;
use kube::core::DynamicObject;
use roundhouse_api::{
    application::{Found, StepPhase, Unresolved, ValidApplication, Violation, references, resolve, validate},
    bundle::{ApplicationRef, Bundle},
    cluster::Cluster,
    decision::{Decision, DecisionSpec, OverrideError},
    definition::ComponentDefinition,
    revision::ApplicationRevision,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a hub knows at one moment, or what a fleet without a hub is.
#[derive(Debug, Default)]
pub struct Snapshot {
    cache: Cache,
    rules: Rules,
}

impl Snapshot {
    /// Sets what Applications may contain; everything, if this is never called.
    pub fn govern(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Takes a cluster in.
    pub fn put_cluster(&self, cluster: &Cluster) {
        self.cache.put_cluster(cluster);
    }

    /// Takes an Application in, as it is stored.
    pub fn put_application(&self, application: DynamicObject) {
        self.cache.put_application(application);
    }

    /// Takes a Placement in, as it is stored or proposed; a proposed one has no resourceVersion, and counts.
    pub fn put_placement(&self, placement: DynamicObject) {
        self.cache.put_placement(placement);
    }

    /// Takes a ComponentDefinition in; a proposed one has no resourceVersion, and counts.
    pub fn put_definition(&self, definition: &ComponentDefinition) {
        self.cache.put_definition(definition);
    }

    /// Takes a Decision in.
    pub fn put_decision(&self, decision: Decision) {
        self.cache.put_decision(decision);
    }

    /// Takes an ApplicationRevision in.
    pub fn put_revision(&self, revision: ApplicationRevision) {
        self.cache.put_revision(revision);
    }

    /// Takes a Bundle in; its manifests are not kept.
    pub fn put_bundle(&self, bundle: Bundle) {
        if let Some(observed) = Observed::of(bundle) {
            self.cache.put_bundle(observed);
        }
    }

    /// The clusters as placement sees them, sorted by name.
    pub fn fleet(&self) -> Vec<Arc<ClusterFacts>> {
        let fleet = self.cache.fleet();
        fleet
            .members
            .values()
            .map(|member| member.facts.clone())
            .collect()
    }

    /// The Bundles of an application, by cluster.
    pub fn bundles(&self, namespace: &str, name: &str) -> BTreeMap<String, Vec<Arc<Observed>>> {
        self.cache.bundles(&(namespace.to_owned(), name.to_owned()))
    }

    /// The stored Decisions of an application, by step.
    pub fn decisions(&self, namespace: &str, name: &str) -> BTreeMap<String, Arc<Decision>> {
        self.cache.decisions(&(namespace.to_owned(), name.to_owned()))
    }

    /// Where the counts of kinds are that the definitions of a namespace describe.
    pub fn replica_paths(&self, namespace: &str) -> ReplicaPaths {
        self.cache.replica_paths(namespace)
    }

    /// The `spec` of an Application as it is stored.
    pub fn spec(&self, namespace: &str, name: &str) -> Option<Value> {
        let stored = self.cache.application(&(namespace.to_owned(), name.to_owned()))?;
        Some(spec_of(&stored))
    }
}

/// An application as somebody proposes it.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// `spec`, as written.
    pub spec: &'a Value,
}

/// What the hub has once a run of the proposal has finished.
#[derive(Debug)]
pub struct Foreseen {
    /// The application.
    pub application: ApplicationRef,
    /// What was understood of it.
    pub valid: ValidApplication,
    /// The revision that is delivered.
    pub revision: String,
    /// The revision that the hub knew before, if it knew the application.
    pub former: Option<String>,
    /// The decisions of the placing steps, in order.
    pub decisions: Vec<ForeseenDecision>,
    /// Which Bundles differ from what is wanted.
    pub plan: Plan,
    /// The Bundles that are there, by cluster.
    pub observed: BTreeMap<String, Vec<Arc<Observed>>>,
    /// The objects of steps, in the order of the workflow.
    pub objects: Vec<ForeseenObject>,
    /// The Bundles of objects of steps that nothing wants any more.
    pub left: Vec<Arc<Observed>>,
    /// Why removals would wait for a confirmation, if they would.
    pub held: Option<String>,
    /// Where the counts of kinds are that definitions describe.
    pub replica_paths: ReplicaPaths,
    /// What stops the application, by step: nothing of such a step is carried out.
    pub refused: BTreeMap<String, String>,
    /// The steps that a run of the proposal, if one is under way, has passed: what they placed stands until it has ended.
    pub passed: Vec<String>,
    /// A run of the proposal has ended without success: what it placed stays, and nothing of this is carried out before it is
    /// started again.
    pub stopped: bool,
}

/// What one placing step decides.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeseenDecision {
    /// The decision.
    pub spec: DecisionSpec,
    /// The one that is stored.
    pub stored: Option<Arc<Decision>>,
}

/// Why nothing can be foreseen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unforeseen {
    /// The controller would refuse the spec.
    #[error("the application is not accepted: {} violations, the first is {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    Refused(Vec<Violation>),
    /// The controller would wait: nothing would be placed anew.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
}

/// Says what a run of `proposal` comes to: every placing step reached, in order, and what is not wanted any more judged
/// against the delete budget at `now`.
///
/// # Errors
/// What the controller would refuse the spec for, all violations; or the Placement that it would wait for.
pub fn foresee(snapshot: &Snapshot, proposal: &Proposal<'_>, now: Timestamp) -> Result<Foreseen, Unforeseen> {
    let cache = &snapshot.cache;
    let key: Key = (proposal.namespace.to_owned(), proposal.name.to_owned());
    let valid = understand(snapshot, proposal)?;
    let mut rendered = render::render(proposal.namespace, proposal.name, &valid);
    rendered.replica_paths = cache.replica_paths(proposal.namespace);
    let replica_paths = rendered.replica_paths.clone();
    let stored = cache.application(&key).filter(|stored| !stored.deleting);
    let application = ApplicationRef {
        namespace: key.0.clone(),
        name: key.1.clone(),
        uid: stored
            .as_ref()
            .map(|stored| stored.uid.clone())
            .unwrap_or_default(),
    };
    let latest = stored
        .as_ref()
        .and_then(|stored| stored.status.latest_revision.as_ref());
    let variants = render::variants(proposal.namespace, proposal.name, &valid);
    let recorded = render::with_variants(&rendered, &variants);
    let choice = revisions::choose(
        &application,
        &cache.revisions(&key),
        latest,
        proposal.spec,
        &recorded,
    );
    let generation = match &stored {
        Some(stored) if spec_of(stored) == *proposal.spec => stored.generation,
        Some(stored) => stored.generation + 1,
        None => 1,
    };
    let of = (proposal.namespace, proposal.name);
    let spec = Spec::new(&choice.latest.name, generation, of, &valid, Limits::default());
    let delivery = Delivery {
        key: &key,
        manifest_configs: feedback::manifest_configs(&valid, &rendered),
        workloads: render::workloads(&rendered),
        content: Content {
            namespace: key.0.clone(),
            application: key.1.clone(),
            revision: choice.latest.name.clone(),
            generation,
            components: choice.components,
            rendered,
            variants,
        },
        application,
        valid: Arc::new(valid),
        spec,
        unresolved: None,
        former: BTreeMap::new(),
    };
    let (decisions, observed) = (cache.decisions(&key), cache.bundles(&key));
    let workflow = stored.as_ref().and_then(|stored| stored.status.workflow.as_ref());
    let run = workflow.filter(|workflow| delivery.spec.is_of(workflow));
    let request = Request {
        cache,
        delivery: &delivery,
        decisions: &decisions,
        observed: &observed,
        // What another run comes to know is not known before.
        patches: match run {
            Some(run) => workflow::patches(&delivery.spec, Some(run)),
            None => workflow::patches_ahead(&delivery.spec),
        },
        succeeded: workflow::succeeded(&delivery.spec, run),
        now,
    };
    let (placed, plan) = request.look();
    let stopped = run.is_some_and(|run| run.finished && run.status != Some(StepPhase::Succeeded));
    let passed = request.passed(&workflow::reach(&delivery.spec, workflow));
    let (objects, bundles_of_steps) = objects::ahead(&Known {
        delivery: &delivery,
        workflow,
        epoch: cache.highest_epoch(),
        now,
        cache,
        witness: None,
    });
    let going: BTreeSet<&(String, String)> = bundles_of_steps.surplus.iter().collect();
    let left = bundles_of_steps
        .bundles()
        // With what was only read nothing goes.
        .filter(|bundle| !bundle.only_reads())
        .filter(|bundle| going.contains(&(bundle.namespace.clone(), bundle.name.clone())));
    let left: Vec<Arc<Observed>> = left.cloned().collect();
    let judged = stored.as_ref().map(|stored| {
        removing::judge(
            stored,
            &plan,
            &observed,
            &bundles_of_steps,
            &cache.fleet(),
            &delivery.content.revision,
            now,
        )
    });
    let refused = placed
        .iter()
        .filter_map(|placed| Some((placed.step.clone(), foreign(cache, &delivery, &placed.step)?)));
    Ok(Foreseen {
        refused: refused.collect(),
        objects,
        left,
        passed,
        stopped,
        replica_paths,
        former: latest.map(|latest| latest.name.clone()),
        revision: delivery.content.revision.clone(),
        decisions: placed
            .into_iter()
            .map(|placed| ForeseenDecision {
                stored: decisions.get(&placed.step).cloned(),
                spec: placed.decision,
            })
            .collect(),
        plan,
        observed,
        held: judged.and_then(|judged| Some(judged.held?.message)),
        application: delivery.application,
        valid: Arc::unwrap_or_clone(delivery.valid),
    })
}

/// What the controller understands of a proposal before it places anything: its spec, with the Placements put in that it
/// refers to.
///
/// # Errors
/// As [`foresee`].
pub fn understand(snapshot: &Snapshot, proposal: &Proposal<'_>) -> Result<ValidApplication, Unforeseen> {
    let mut valid = validate(proposal.spec).map_err(Unforeseen::Refused)?;
    admit(&snapshot.rules, proposal, &valid)?;
    resolve_placements(&snapshot.cache, proposal, &mut valid)?;
    Ok(valid)
}

/// Whether the application may contain what it does; where it goes does not matter to that.
fn admit(rules: &Rules, proposal: &Proposal<'_>, valid: &ValidApplication) -> Result<(), Unforeseen> {
    if rules.tenancy == Tenancy::Open {
        return Ok(());
    }
    let rendered = render::render(proposal.namespace, proposal.name, valid);
    let variants = render::variants(proposal.namespace, proposal.name, valid);
    match rules.violations(proposal.namespace, valid, &rendered, &variants) {
        none if none.is_empty() => Ok(()),
        violations => Err(Unforeseen::Refused(violations)),
    }
}

/// Puts the Placements in that the application refers to.
fn resolve_placements(
    cache: &Cache,
    proposal: &Proposal<'_>,
    valid: &mut ValidApplication,
) -> Result<(), Unresolved> {
    let named = references(proposal.spec).into_iter().filter_map(|name| {
        let (placement, _) = cache.placement(&(proposal.namespace.to_owned(), name.clone()))?;
        Some((name, placement))
    });
    let named: BTreeMap<String, _> = named.collect();
    resolve(valid, |name| {
        match named.get(name).map(|placement| &placement.verdict) {
            None => Found::Missing,
            Some(Ok(spec)) => Found::Valid(spec),
            Some(Err(violations)) => Found::Refused(violations),
        }
    })
}

/// All that the decisions and the plan depend on.
struct Request<'a> {
    cache: &'a Cache,
    delivery: &'a Delivery<'a>,
    decisions: &'a BTreeMap<String, Arc<Decision>>,
    observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
    patches: BTreeMap<String, Vec<ResolvedPatch>>,
    /// Steps of its run that have succeeded.
    succeeded: BTreeSet<String>,
    now: Timestamp,
}

impl Request<'_> {
    /// Every placing step as it is decided when the run reaches it, and the Bundles of all of them. The steps are placed
    /// jointly, and feeding a decision back changes nothing: so this is what they store one after the other.
    fn look(&self) -> (Vec<placing::Placed>, Plan) {
        let reach = self.delivery.valid.placing().map(|_| Some(Reach::Live));
        let (reach, fleet) = (reach.collect::<Vec<_>>(), self.cache.fleet());
        let faults = BTreeMap::new();
        let request = self.placing(&reach, &fleet, &faults);
        let fresh = placing::place(&request);
        let placed = placing::decide(&request, &fresh);
        let (shares, plan) = self.plan(&placed);
        // What is wrong with overrides shows on the manifests; such a step keeps what was decided before.
        let faults = override_faults(&shares, &plan);
        if faults.is_empty() {
            return (placed, plan);
        }
        let request = placing::Request {
            faults: &faults,
            ..request
        };
        let placed = placing::decide(&request, &fresh);
        let (_, plan) = self.plan(&placed);
        (placed, plan)
    }

    /// The steps that a run with this reach has passed.
    fn passed(&self, reach: &[Option<Reach>]) -> Vec<String> {
        let (fleet, faults) = (self.cache.fleet(), BTreeMap::new());
        let request = self.placing(reach, &fleet, &faults);
        placing::passed(&request).map(str::to_owned).collect()
    }

    fn placing<'a>(
        &'a self,
        reach: &'a [Option<Reach>],
        fleet: &'a Fleet,
        faults: &'a BTreeMap<String, Vec<OverrideError>>,
    ) -> placing::Request<'a> {
        let delivery = self.delivery;
        placing::Request {
            key: delivery.key,
            application: &delivery.application,
            revision: &delivery.spec.revision,
            epoch: self.cache.highest_epoch(),
            valid: &delivery.valid,
            reach,
            succeeded: &self.succeeded,
            workloads: &delivery.workloads,
            content: &delivery.content,
            faults,
            patches: &self.patches,
            fleet,
            stored: self.decisions,
            observed: self.observed,
            now: self.now,
        }
    }

    fn plan(&self, placed: &[placing::Placed]) -> (BTreeMap<String, Share>, Plan) {
        let layers: Vec<_> = placed.iter().map(placing::Placed::layer).collect();
        self.delivery
            .plan(&layers, self.observed, self.cache.highest_epoch())
    }
}

fn spec_of(stored: &Stored) -> Value {
    let object: Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
    object.get("spec").cloned().unwrap_or_default()
}
