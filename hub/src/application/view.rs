//! What one round of a pass looks at: decisions, shares, plan and evidence, from one state of the cache.

use super::{
    Key, bundles,
    cache::Cache,
    feedback,
    fleet::Fleet,
    objects::{self, Objects},
    placing::{self, Placed},
    status,
    witness::Witness,
};
use crate::{
    dispatch::{self, Content, Layer, Observed, Plan, Refusal, Share, Target, Wave, hold_back},
    placement::{self, Workload},
    workflow::{self, ClusterEvidence, ClusterState, Evidence, Reach, Spec, StepEvidence},
};
use jiff::Timestamp;
use roundhouse_api::{
    application::{StepPhase, Unresolved, ValidApplication, WorkflowStatus},
    bundle::{ApplicationRef, ManifestConfig},
    decision::{OverrideError, Waiting},
    names::decision_name,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Kinds of trouble with overrides that one decision names; more of them say nothing new.
const MAX_FAULTS: usize = 32;

/// An application that was understood and rendered.
pub(super) struct Delivery<'a> {
    pub(super) key: &'a Key,
    pub(super) application: ApplicationRef,
    pub(super) valid: Arc<ValidApplication>,
    pub(super) workloads: Vec<Workload>,
    pub(super) content: Content,
    pub(super) spec: Spec,
    /// Why its Placements cannot be used, if they cannot: then every decision stays as it is.
    pub(super) unresolved: Option<Unresolved>,
    /// What earlier runs delivered, loaded for Bundles that vanished.
    pub(super) former: BTreeMap<String, Content>,
    /// What agents are to report for outputs of steps.
    pub(super) manifest_configs: Vec<ManifestConfig>,
}

impl Delivery<'_> {
    /// Whether this is a run of what is delivered, and has succeeded.
    pub(super) fn has_succeeded(&self, run: Option<&WorkflowStatus>) -> bool {
        run.is_some_and(|run| {
            run.finished && run.status == Some(StepPhase::Succeeded) && self.spec.is_of(run)
        })
    }

    /// Who gets how much where steps placed like this, and which Bundles differ from that.
    pub(super) fn plan(
        &self,
        layers: &[Layer<'_>],
        observed: &BTreeMap<String, Vec<Arc<Observed>>>,
        epoch: i64,
    ) -> (BTreeMap<String, Share>, Plan) {
        let shares = dispatch::shares(layers);
        let executor = self.valid.executor(&self.application.namespace);
        let steps: Vec<&str> = self.spec.placing().map(|(step, _)| step.name.as_str()).collect();
        let plan = dispatch::plan(&dispatch::Request {
            steps: &steps,
            application: &self.application,
            content: &self.content,
            former: &self.former,
            shares: &shares,
            observed,
            apply_once: self.valid.apply_once,
            apply_once_rules: &self.valid.apply_once_rules,
            executor: executor.as_ref(),
            manifest_configs: &self.manifest_configs,
            epoch,
        });
        (shares, plan)
    }
}

/// All that a view depends on.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) delivery: &'a Delivery<'a>,
    pub(super) workflow: Option<&'a WorkflowStatus>,
    pub(super) epoch: i64,
    pub(super) now: Timestamp,
    pub(super) cache: &'a Cache,
    /// Who is told what decisions follow from.
    pub(super) witness: Option<&'a Witness>,
}

/// What is known in one round.
pub(super) struct View {
    pub(super) fleet: Arc<Fleet>,
    pub(super) observed: BTreeMap<String, Vec<Arc<Observed>>>,
    pub(super) placed: Vec<Placed>,
    pub(super) shares: BTreeMap<String, Share>,
    pub(super) plan: Plan,
    pub(super) clusters: Clusters,
    /// The Bundles of steps' objects.
    pub(super) objects: Objects,
    pub(super) evidence: Evidence,
    /// Whether the run has succeeded and every placing step is as the fleet asks.
    pub(super) decided: bool,
    /// Whether besides every placing step has come to rest: then removals may go ahead.
    pub(super) settled: bool,
    /// The clusters that the others wait for, sorted: of steps that have not come to rest.
    pub(super) blocking: Vec<String>,
    /// When the decisions change without anything happening.
    pub(super) next: Option<Timestamp>,
}

impl View {
    /// Bundles that are wanted again while their removal is refused.
    pub(super) fn recalled(&self) -> impl Iterator<Item = &Arc<Observed>> {
        let objects = self.objects.plans.iter().filter_map(|(step, plan)| {
            let observed = self.objects.observed.get(step)?;
            Some(bundles::recalled(plan, observed))
        });
        bundles::recalled(&self.plan, &self.observed).chain(objects.flatten())
    }

    /// Whether anything is to be written that follows from it.
    pub(super) fn writes(&self) -> bool {
        self.placed.iter().any(|placed| placed.write || placed.note)
            || !self.objects.due.is_empty()
            || std::iter::once(&self.plan)
                .chain(self.objects.plans.values())
                .any(Plan::writes)
    }
}

/// What each cluster shows, or why it cannot get what is wanted.
type Clusters = BTreeMap<String, Result<ClusterEvidence, String>>;

/// Looks at everything.
pub(super) fn view(known: &Known<'_>) -> View {
    let (delivery, cache) = (known.delivery, known.cache);
    let fleet = cache.fleet();
    let observed = cache.bundles(delivery.key);
    let stored = cache.decisions(delivery.key);
    let mut reach = workflow::reach(&delivery.spec, known.workflow);
    let succeeded = delivery.has_succeeded(known.workflow);
    let blocked = match delivery.unresolved {
        Some(_) => freeze(&mut reach, &delivery.spec, succeeded),
        None => Vec::new(),
    };
    let patches = workflow::patches(&delivery.spec, known.workflow);
    let request = placing::Request {
        key: delivery.key,
        application: &delivery.application,
        revision: &delivery.spec.revision,
        epoch: known.epoch,
        valid: &delivery.valid,
        reach: &reach,
        succeeded: &workflow::succeeded(&delivery.spec, known.workflow),
        workloads: &delivery.workloads,
        fleet: &fleet,
        stored: &stored,
        observed: &observed,
        now: known.now,
        content: &delivery.content,
        faults: &BTreeMap::new(),
        patches: &patches,
    };
    let answers = |request: &placing::Request<'_>| match delivery.unresolved {
        None => placing::place(request),
        Some(_) => Vec::new(),
    };
    let fresh = answers(&request);
    let plan = |placed: &[Placed]| {
        // Steps that the spec has no longer count until the run has succeeded; every step of the spec replaces them.
        let former = stored
            .iter()
            .filter(|(step, _)| !succeeded && !names(&delivery.spec, step));
        let mut layers: Vec<_> = former.map(|(_, d)| Layer::of(false, &d.spec)).collect();
        layers.extend(placed.iter().map(Placed::layer));
        delivery.plan(&layers, &observed, known.epoch)
    };
    let look = |placed: Vec<Placed>| {
        let (shares, mut plan) = plan(&placed);
        placing::leave_waiting(&mut plan, &placed, &observed, known.epoch);
        leave_alone(&mut plan, &fleet, &observed);
        let mut clusters = status::evidence_by_cluster(&plan, &observed, &fleet);
        let mut placed = placed;
        let waves = waves(&placed);
        if !waves.is_empty() {
            let unreachable = |cluster: &str| fleet.unreachable(cluster).is_some();
            hold_back(&mut plan, &waves, &observed, &clusters, unreachable);
            clusters = status::evidence_by_cluster(&plan, &observed, &fleet);
        }
        status::awaiting_turn(&mut clusters, &placed, &shares);
        placing::note_waiting(&mut placed, &plan, &request);
        (placed, shares, plan, clusters)
    };
    let mut looked = look(placing::decide(&request, &fresh));
    let faults = override_faults(&looked.1, &looked.2);
    let request = placing::Request {
        faults: &faults,
        ..request
    };
    if !faults.is_empty() {
        looked = look(placing::decide(&request, &fresh));
    }
    // What one that has stopped would have brought another one may still bring, until it is known that it has stopped as well.
    for _ in 0..looked.0.len() {
        let Some(placed) = hold_unsent(&request, &looked.0, &plan) else {
            break;
        };
        looked = look(placed);
    }
    let (mut placed, mut shares, mut plan, mut clusters) = looked;
    let status = workflow::Status {
        phase: None,
        workflow: known.workflow.cloned(),
    };
    let until = |step: &str, clusters: &[&ClusterEvidence]| {
        workflow::until_holds(&delivery.spec, &status, step, clusters, known.now)
    };
    let decided = succeeded && delivery.unresolved.is_none() && placed.iter().all(|p| !p.write);
    let mut narrowed = None;
    if succeeded && let Some(first) = placed.iter().position(|p| p.write) {
        // Steps follow the fleet one after the other: the first that differs is refreshed when those before it have
        // come to rest, those behind it are kept.
        let ready = placed.iter().take(first).all(|p| at_rest(p, &clusters, &until));
        let reach = narrowed.insert(keep_behind(&reach, if ready { first + 1 } else { first }));
        let request = placing::Request { reach, ..request };
        (placed, shares, plan, clusters) = look(placing::decide(&request, &fresh));
    }
    if let Some(witness) = known.witness {
        let reach = narrowed.as_ref().unwrap_or(&reach);
        witness.tell(&request, reach, &placed);
        if placed.iter().any(|placed| placed.write) {
            // Once more, of the same: it has to come to the same.
            let fresh = answers(&request);
            let request = placing::Request { reach, ..request };
            witness.tell(&request, reach, &placing::decide(&request, &fresh));
        }
    }
    let restless: Vec<&Placed> = match decided {
        true => placed.iter().filter(|p| !at_rest(p, &clusters, &until)).collect(),
        false => Vec::new(),
    };
    let settled = decided && restless.is_empty();
    let blocking: BTreeSet<String> = restless
        .iter()
        .flat_map(|p| {
            p.decision
                .clusters
                .iter()
                .filter(|cluster| !rests(p, &clusters, cluster))
        })
        .cloned()
        .collect();
    let refused = placed
        .iter()
        .filter_map(|p| Some((p.step.clone(), foreign(cache, delivery, &p.step)?)));
    let refused = refused.collect();
    let has_left = |cluster: &str| has_left(cluster, &fleet, &observed);
    let mut evidence = status::evidence_by_step(&placed, &clusters, &refused, &has_left, request.revision);
    let rendered = &delivery.content.rendered;
    evidence.outputs = feedback::outputs(&delivery.valid, rendered, &placed, &clusters, &observed);
    let objects = objects::look(known, succeeded, &mut evidence);
    if let Some(unresolved) = &delivery.unresolved {
        let message = unresolved.to_string();
        let blocked = blocked.into_iter().map(|step| {
            let message = message.clone();
            (step, StepEvidence::Blocked { message })
        });
        evidence.steps.extend(blocked);
    }
    // Also where objects are: a toleration that ends takes them away.
    let steps = placing::looking(&delivery.valid);
    View {
        evidence,
        next: placement::next_change(&steps, &fleet.inventory, known.now),
        fleet,
        observed,
        placed,
        shares,
        plan,
        clusters,
        decided,
        objects,
        settled,
        blocking: blocking.into_iter().collect(),
    }
}

/// The same steps, where those that have stopped note of more clusters, or of fewer, that they have not come to them.
fn hold_unsent(
    request: &placing::Request<'_>,
    placed: &[Placed],
    plan: &impl Fn(&[Placed]) -> (BTreeMap<String, Share>, Plan),
) -> Option<Vec<Placed>> {
    if !placing::may_be_unsent(request, placed) {
        return None;
    }
    let without = |step: &str, waiting: &[Waiting]| {
        let mut placed = placed.to_vec();
        let stopped = placed.iter_mut().filter(|placed| placed.step == step);
        stopped.for_each(|placed| placed.decision.waiting = waiting.to_vec());
        plan(&placed).1
    };
    let mut unsent = placing::unsent(request, placed, &plan(placed).1, without);
    if unsent.is_empty() {
        return None;
    }
    let mut placed = placed.to_vec();
    for one in &mut placed {
        // Who waits for a turn of one at work is found anew.
        if one.live && !one.held {
            one.decision.waiting.clear();
        }
        if let Some(unsent) = unsent.remove(&one.step) {
            one.decision.waiting = unsent.waiting;
            one.is_unknown |= !unsent.is_known;
            one.note = !one.is_unknown && one.lost.is_empty();
        }
    }
    Some(placed)
}

/// Writes nothing to clusters that leave or have left, which a step that is kept may still place on: what becomes of the
/// Bundles there was said by who lets them leave, and what is made beside that nobody would clean up. One that is gone with all
/// that it had is nobody's to wait for.
fn leave_alone(plan: &mut Plan, fleet: &Fleet, observed: &BTreeMap<String, Vec<Arc<Observed>>>) {
    for (cluster, target) in &mut plan.targets {
        if has_left(cluster, fleet, observed) {
            *target = Target::Nothing;
        } else if !fleet.stays(cluster) {
            *target = Target::Untouched;
        }
    }
}

/// Whether a cluster is gone with all that it had.
fn has_left(cluster: &str, fleet: &Fleet, observed: &BTreeMap<String, Vec<Arc<Observed>>>) -> bool {
    !fleet.members.contains_key(cluster) && !observed.contains_key(cluster)
}

/// Lets no decision change: what runs stays as it was decided. Steps at work are treated as not reached, and named.
fn freeze(reach: &mut [Option<Reach>], spec: &Spec, succeeded: bool) -> Vec<String> {
    let mut at_work = Vec::new();
    for (reach, (step, _)) in reach.iter_mut().zip(spec.placing()) {
        if *reach == Some(Reach::Live) {
            *reach = Some(if succeeded {
                Reach::Placed
            } else {
                Reach::Unreached
            });
            if !succeeded {
                at_work.push(step.name.clone());
            }
        }
    }
    at_work
}

/// Step -> what is wrong with its overrides on the manifests of its clusters; clusters with the same trouble are counted.
pub(super) fn override_faults(
    shares: &BTreeMap<String, Share>,
    plan: &Plan,
) -> BTreeMap<String, Vec<OverrideError>> {
    let mut faults: BTreeMap<String, Vec<OverrideError>> = BTreeMap::new();
    for (cluster, target) in &plan.targets {
        let (Target::Refused(Refusal::Override(fault)), Some(share)) = (target, shares.get(cluster)) else {
            continue;
        };
        let of_step = faults.entry(share.overridden_by.clone()).or_default();
        let same = |error: &OverrideError| {
            (error.index, &error.object, &error.path, &error.message)
                == (fault.index, &fault.object, &fault.path, &fault.message)
        };
        let room = of_step.len() < MAX_FAULTS;
        match of_step.iter().position(same).and_then(|at| of_step.get_mut(at)) {
            Some(error) => error.more_clusters = error.more_clusters.saturating_add(1),
            None if room => of_step.push(OverrideError {
                index: fault.index,
                cluster: Some(cluster.clone()),
                more_clusters: 0,
                object: fault.object.clone(),
                path: fault.path.clone(),
                message: fault.message.clone(),
            }),
            None => {}
        }
    }
    faults
}

/// The same reach, but placing steps behind the first `live` keep their decisions.
fn keep_behind(reach: &[Option<Reach>], live: usize) -> Vec<Option<Reach>> {
    let mut seen = 0;
    let narrow = |reach: &Option<Reach>| {
        let reach = (*reach)?;
        seen += 1;
        Some(if seen > live { Reach::Placed } else { reach })
    };
    reach.iter().map(narrow).collect()
}

/// Whether a step has come to rest with its clusters: nothing of it is under way. Unreachable clusters are not waited
/// for: they get what is due when they return.
fn at_rest(placed: &Placed, clusters: &Clusters, until: &impl Fn(&str, &[&ClusterEvidence]) -> bool) -> bool {
    let own = &placed.decision.clusters;
    if own.iter().all(|cluster| rests(placed, clusters, cluster)) {
        return true;
    }
    if !placed.until {
        return false;
    }
    // A step that waits for a part of its clusters does not hold others up longer than that.
    let shown = own.iter().filter_map(|cluster| clusters.get(cluster));
    let shown = shown.map(|shown| shown.as_ref().ok());
    let shown: Option<Vec<&ClusterEvidence>> = shown.collect();
    shown.is_some_and(|shown| {
        let dispatched = |evidence: &&ClusterEvidence| evidence.state != ClusterState::Dispatching;
        shown.iter().all(dispatched) && until(&placed.step, &shown)
    })
}

/// Whether nothing of a step is under way on one of its clusters.
fn rests(placed: &Placed, clusters: &Clusters, cluster: &str) -> bool {
    match clusters.get(cluster) {
        Some(Ok(evidence)) => {
            evidence.state.passes(placed.wait) || evidence.state == ClusterState::Unreachable
        }
        Some(Err(_)) => false,
        None => true,
    }
}

/// The steps at work that dispatch to few clusters at a time.
fn waves(placed: &[Placed]) -> Vec<Wave<'_>> {
    let wave = |placed: &'_ Placed| {
        let most = placed.max_parallel.filter(|_| placed.live && placed.reached)?;
        Some((usize::try_from(most).unwrap_or(usize::MAX), placed.wait))
    };
    let waves = placed.iter().filter_map(|placed| {
        let (most, wait) = wave(placed)?;
        Some(Wave {
            clusters: &placed.decision.clusters,
            most,
            wait,
        })
    });
    waves.collect()
}

/// Whether a placing step of this name is in the spec.
pub(super) fn names(spec: &Spec, step: &str) -> bool {
    spec.placing().any(|(placing, _)| placing.name == step)
}

/// Why the Decision of a step cannot be stored: one of that name belongs to another application.
pub(super) fn foreign(cache: &Cache, delivery: &Delivery<'_>, step: &str) -> Option<String> {
    let (namespace, application) = delivery.key;
    let name = decision_name(application, step);
    let decision = cache.decision(&(namespace.clone(), name.clone()))?;
    let of = &decision.spec.application_ref;
    let own = of.name == *application && decision.spec.step == step;
    (!own).then(|| {
        format!(
            "application {namespace}/{application}: Decision {name} of step {step} belongs to application {} (step {}): rename the step",
            of.name, decision.spec.step
        )
    })
}
