//! The decisions of the placing steps; pure.
//!
//! All placing steps are placed jointly. A step that the run has passed keeps its stored Decision, and what it holds is
//! taken off before the others divide; a step that it has not reached keeps what the last finished run stored; the step at work follows the fleet. Once a run has succeeded
//! every placing step follows the fleet, one after the other: a step is refreshed only when those before it have
//! settled. A step that dispatches to few clusters at a time notes in its Decision which ones it has not come to: they keep
//! what they have when it stops. A step whose overrides cannot be applied keeps what was decided before and says why.

use super::{Key, fleet::Fleet, patching};
use crate::{
    dispatch::{Content, Layer, Observed, Plan, Target, Todo, overrides::without_target},
    placement::{self, PlacingStep, Previous, StepDecision, Workload, error_line, hash_of},
    render,
    workflow::{Reach, ResolvedPatch},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use roundhouse_api::{
    application::{Application, DeployStep, StepKind, ValidApplication, ValidStep, WaitFor},
    bundle::ApplicationRef,
    decision::{Decision, DecisionSpec, OverrideError, Waiting},
    names::{decision_name, label},
    placement::PlacementSpec,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// All that the decisions depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) key: &'a Key,
    pub(super) application: &'a ApplicationRef,
    pub(super) revision: &'a str,
    pub(super) epoch: i64,
    pub(super) valid: &'a ValidApplication,
    /// Of each placing step.
    pub(super) reach: &'a [Option<Reach>],
    /// Steps of the run that have succeeded.
    pub(super) succeeded: &'a BTreeSet<String>,
    pub(super) workloads: &'a [Workload],
    pub(super) fleet: &'a Fleet,
    /// The application's stored Decisions, by step.
    pub(super) stored: &'a BTreeMap<String, Arc<Decision>>,
    /// Its Bundles, by cluster.
    pub(super) observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
    pub(super) now: Timestamp,
    /// What the application renders to: overrides of a step have to name objects of it.
    pub(super) content: &'a Content,
    /// Step -> what is wrong with its overrides on the manifests.
    pub(super) faults: &'a BTreeMap<String, Vec<OverrideError>>,
    /// Step -> changes that the run has come to know.
    pub(super) patches: &'a BTreeMap<String, Vec<ResolvedPatch>>,
}

/// A placing step and its decision.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    pub(super) step: String,
    pub(super) reached: bool,
    /// The decision that counts now.
    pub(super) decision: DecisionSpec,
    /// What has to be stored first, if it differs from what is.
    pub(super) write: bool,
    /// Whether what is stored says otherwise who waits for a turn: stored first as well, but what was decided is the same.
    pub(super) note: bool,
    /// Clusters of which it has to be stored first that they wait no longer.
    pub(super) turns: Vec<String>,
    /// Whether an earlier revision has to be loaded before it can be said who waits.
    pub(super) is_unknown: bool,
    /// Its overrides are wrong: what was decided before stays in force, on the clusters as it is there.
    pub(super) held: bool,
    pub(super) wait: WaitFor,
    /// Whether it follows the fleet.
    pub(super) live: bool,
    /// Whether it passes when a part of them is ready, or on a condition over the fleet.
    pub(super) until: bool,
    /// At most this many clusters are under way.
    pub(super) max_parallel: Option<u32>,
    /// Whether it may place on no cluster at all.
    pub(super) may_be_empty: bool,
    /// Clusters on which it has placed what is not known any more.
    pub(super) lost: Vec<String>,
}

impl Placed {
    /// Whether it has come to work in this run, and has stopped without success.
    pub(super) fn has_stopped(&self, request: &Request<'_>) -> bool {
        self.reached && !self.live && !self.held && !request.succeeded.contains(&self.step)
    }

    /// What this step contributes to the shares of the clusters.
    pub(super) fn layer(&self) -> Layer<'_> {
        Layer {
            lost: &self.lost,
            ..Layer::of(self.reached && !self.held, &self.decision)
        }
    }
}

/// Decides every placing step as its reach says. `fresh` is what placement answers now.
pub(super) fn decide(request: &Request<'_>, fresh: &[StepDecision]) -> Vec<Placed> {
    let mut placed = Vec::new();
    for (deploy, step, reach) in placing(request) {
        let stored = request.stored.get(&step.name);
        let now = fresh.iter().find(|decision| decision.step == step.name);
        let mut errors: Vec<OverrideError> = now.map(|now| now.override_errors.clone()).unwrap_or_default();
        errors.extend(request.faults.get(&step.name).into_iter().flatten().cloned());
        // What is known of a step without a Decision, where it is not decided now.
        let unknown = || former(request, &step.name, now);
        let mut lost = Vec::new();
        let mut keep = |former: Former| {
            lost = former.lost;
            former.decision
        };
        let (decision, held) = match (reach, stored, now) {
            (Reach::Unreached | Reach::Placed, Some(stored), _) => (stored.spec.clone(), false),
            (Reach::Unreached, None, _) | (Reach::Placed, None, None) => match unknown() {
                Some(former) => (keep(former), false),
                None => continue,
            },
            (Reach::Live, _, None) => continue,
            (Reach::Placed, None, Some(now)) | (Reach::Live, _, Some(now)) if errors.is_empty() => {
                let mut spec = spec(request, now);
                if reach == Reach::Placed && deploy.max_parallel.is_some() {
                    // How far it came is what the Bundles say.
                    spec.waiting = waiting(request, &step.name, &spec);
                }
                (spec, false)
            }
            (Reach::Placed, None, Some(_)) | (Reach::Live, _, Some(_)) => {
                let before = match stored {
                    Some(stored) => Some(stored.spec.clone()),
                    None => unknown().map(&mut keep),
                };
                (held(request, &step.name, before, errors), true)
            }
        };
        let reached = reach != Reach::Unreached;
        placed.push(Placed {
            step: step.name.clone(),
            reached,
            // What is not all that is known of it is no Decision.
            write: reached && lost.is_empty() && stored.is_none_or(|stored| differs(&stored.spec, &decision)),
            decision,
            note: false,
            turns: Vec::new(),
            is_unknown: false,
            held,
            wait: deploy.wait,
            live: reach == Reach::Live,
            until: deploy.until.is_some(),
            max_parallel: deploy.max_parallel,
            may_be_empty: may_be_empty(&deploy.placement),
            lost,
        });
    }
    placed
}

/// What stands for the Decision of an earlier run that is lost.
struct Former {
    decision: DecisionSpec,
    /// Clusters that have something of the step, and get nothing of it now.
    lost: Vec<String>,
}

/// What a step placed that has no Decision and is not decided now, as far as Bundles tell. Who has something of it gets what is
/// placed now, of the revision that it has: without that it would be left out of the Bundles of steps that the run has come
/// to, and removed. `None` where nobody has anything, as before the first run comes to it.
fn former(request: &Request<'_>, step: &str, now: Option<&StepDecision>) -> Option<Former> {
    let given = given(request, step);
    if given.is_empty() {
        return None;
    }
    let mut decision = now.map(|now| spec(request, now)).unwrap_or_else(|| DecisionSpec {
        step: step.to_owned(),
        application_ref: request.application.clone(),
        ..DecisionSpec::default()
    });
    decision.waiting = by_revision(
        decision
            .clusters
            .iter()
            .map(|cluster| (given.get(cluster), cluster)),
    );
    let chosen: BTreeSet<&String> = decision.clusters.iter().collect();
    let lost = given.keys().filter(|cluster| !chosen.contains(cluster));
    let lost = lost.cloned().collect();
    Some(Former { decision, lost })
}

/// Cluster -> the revision that a step has brought to it, as far as its Bundles tell.
pub(super) fn given(request: &Request<'_>, step: &str) -> BTreeMap<String, String> {
    let own = |bundle: &&Arc<Observed>| is_own(request, bundle);
    let clusters = request.observed.iter().filter_map(|(cluster, bundles)| {
        let revision = bundles
            .iter()
            .filter(own)
            .find_map(|bundle| bundle.revision_by(step))?;
        Some((cluster.clone(), revision))
    });
    clusters.collect()
}

/// Whether a Bundle is this very application's, and stays.
fn is_own(request: &Request<'_>, bundle: &Observed) -> bool {
    let of = bundle.spec.application_ref.as_ref();
    !bundle.deleting && of.is_some_and(|of| of.uid == request.application.uid)
}

/// The clusters of a step without a Decision that do not have the present revision.
fn waiting(request: &Request<'_>, step: &str, decision: &DecisionSpec) -> Vec<Waiting> {
    let given = given(request, step);
    let clusters = decision
        .clusters
        .iter()
        .map(|cluster| (given.get(cluster), cluster));
    by_revision(clusters.filter(|(given, _)| given.is_none_or(|given| given != request.revision)))
}

/// Clusters by the revision that each of them has.
fn by_revision<'a>(clusters: impl Iterator<Item = (Option<&'a String>, &'a String)>) -> Vec<Waiting> {
    let mut all: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for (revision, cluster) in clusters {
        all.entry(revision.cloned()).or_default().push(cluster.clone());
    }
    let all = all.into_iter();
    all.map(|(revision, clusters)| Waiting { revision, clusters })
        .collect()
}

/// Notes who waits for a turn of the steps at work, by the revision that each has of the step.
pub(super) fn note_waiting(placed: &mut [Placed], plan: &Plan, request: &Request<'_>) {
    for placed in placed.iter_mut().filter(|placed| placed.live && !placed.held) {
        let stored = request.stored.get(&placed.step).map(|decision| &decision.spec);
        let late = placed.decision.clusters.iter().filter(|c| plan.awaits_turn(c));
        let late: Vec<&String> = late.filter(|_| placed.max_parallel.is_some()).collect();
        let is_former = |stored: &DecisionSpec| stored.revision != request.revision;
        // That it was decided says nothing of whether it was written.
        let given = match late.is_empty() || stored.is_some_and(is_former) {
            true => BTreeMap::new(),
            false => given(request, &placed.step),
        };
        let is_there = |cluster: &String| {
            let held = request.observed.get(cluster);
            held.is_some_and(|held| held.iter().any(|bundle| is_own(request, bundle)))
        };
        let has = |cluster: &String| match stored {
            Some(stored) if is_former(stored) || stored.waits(cluster).is_some() || !is_there(cluster) => {
                stored.given(cluster).map(str::to_owned)
            }
            _ => given.get(cluster).cloned(),
        };
        let has: Vec<Option<String>> = late.iter().map(|cluster| has(cluster)).collect();
        let late = has.iter().map(Option::as_ref).zip(late.iter().copied());
        placed.decision.waiting = by_revision(late);
        placed.note = stored.is_some_and(|stored| stored.waiting != placed.decision.waiting);
        let waited = stored.map_or(&[][..], |stored| &stored.waiting);
        let waited = waited.iter().flat_map(|waiting| &waiting.clusters);
        let turns = waited.filter(|cluster| placed.decision.waits(cluster).is_none());
        placed.turns = turns.cloned().collect();
    }
}

/// Whom a step has not come to that has stopped without success.
pub(super) struct Unsent {
    /// By the revision that each has of the step.
    pub(super) waiting: Vec<Waiting>,
    /// Whether it can be told by now; otherwise an earlier revision has to be loaded first.
    pub(super) is_known: bool,
}

/// Steps that have stopped without success and were to bring something to clusters to which they have brought nothing of the present
/// revision: whoever was to write that was ended before, or refused. Those keep what they have, as those do that wait for a turn of
/// such a step; unless they have got it meanwhile. Where a part of it was written the rest follows. `without` is the plan where these
/// clusters wait for a step.
pub(super) fn unsent(
    request: &Request<'_>,
    placed: &[Placed],
    plan: &Plan,
    without: impl Fn(&str, &[Waiting]) -> Plan,
) -> BTreeMap<String, Unsent> {
    let stopped = placed.iter().filter(|placed| placed.has_stopped(request));
    let unsent = stopped.filter_map(|step| {
        let decision = &step.decision;
        let held = |cluster: &str| request.observed.get(cluster).map_or(&[][..], Vec::as_slice);
        let has_come = |cluster: &str| has_come(request, &step.step, held(cluster));
        // One that has it and waits for another share of it keeps that.
        let has_got = |waits: &Waiting, cluster: &str| {
            waits.revision.as_deref() != Some(request.revision) && has_come(cluster)
        };
        let (mut late, mut has_changed) = (BTreeSet::new(), false);
        for cluster in &decision.clusters {
            match decision.waits(cluster) {
                Some(waits) => has_changed |= has_got(waits, cluster),
                None if plan.replaces(cluster, held(cluster)) && !has_come(cluster) => {
                    late.insert(cluster);
                }
                None => {}
            }
        }
        if late.is_empty() && !has_changed {
            return None;
        }
        let given = given(request, &step.step);
        let waiting = |late: &BTreeSet<&String>| {
            let clusters = decision.clusters.iter();
            by_revision(clusters.filter_map(|cluster| match decision.waits(cluster) {
                None => late.contains(cluster).then(|| (given.get(cluster), cluster)),
                Some(waits) => (!has_got(waits, cluster)).then_some((waits.revision.as_ref(), cluster)),
            }))
        };
        let without = without(&step.step, &waiting(&late));
        let goes_on = |cluster: &String| {
            let mut live = placed.iter().filter(|placed| placed.live && !placed.held);
            live.any(|placed| placed.decision.clusters.contains(cluster))
        };
        // What it would bring beside one that goes on may be what is there.
        late.retain(|cluster| !goes_on(cluster) || !plan.is_as_in(&without, cluster));
        let unsent = Unsent {
            waiting: waiting(&late),
            is_known: !late.iter().any(|c| without.is_loading(c) && goes_on(c)),
        };
        (has_changed || !late.is_empty()).then(|| (step.step.clone(), unsent))
    });
    unsent.collect()
}

/// Whether there may be anybody to whom a step has not come that has stopped, or who has got it since.
pub(super) fn may_be_unsent(request: &Request<'_>, placed: &[Placed]) -> bool {
    let mut stopped = placed.iter().filter(|placed| placed.has_stopped(request));
    stopped.any(|step| {
        let mut clusters = step.decision.clusters.iter();
        clusters.any(|cluster| {
            let held = request.observed.get(cluster).map_or(&[][..], Vec::as_slice);
            let waits = step.decision.waits(cluster).is_some();
            waits == has_come(request, &step.step, held)
        })
    })
}

/// Whether a step has brought something of the present revision to a cluster with these Bundles.
fn has_come(request: &Request<'_>, step: &str, held: &[Arc<Observed>]) -> bool {
    let own = held.iter().filter(|bundle| is_own(request, bundle));
    let mut given = own.filter_map(|bundle| bundle.revision_by(step));
    given.any(|revision| revision == request.revision)
}

/// Lets clusters be that a step has stopped before, where nothing goes on that places there: what others have brought there was written,
/// unless it is there in part, or its agent does not heed it.
pub(super) fn leave_waiting(
    plan: &mut Plan,
    placed: &[Placed],
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    epoch: i64,
) {
    let stopped = placed.iter().filter(|placed| placed.reached && !placed.live);
    let waiting: BTreeSet<&String> = stopped
        .flat_map(|placed| &placed.decision.waiting)
        .flat_map(|waiting| &waiting.clusters)
        .collect();
    if waiting.is_empty() {
        return;
    }
    let live = placed.iter().filter(|placed| placed.live && !placed.held);
    let goes_on: BTreeSet<&String> = live.flat_map(|placed| &placed.decision.clusters).collect();
    for cluster in waiting.difference(&goes_on) {
        let mut held = observed.get(*cluster).into_iter().flatten();
        let is_heeded = held.all(|bundle| !bundle.hash_mismatch() && !bundle.is_of_an_earlier_term(epoch));
        if let Some(target) = plan.targets.get_mut(*cluster).filter(|_| is_heeded)
            && let Target::Bundles(wanted) = target
            && wanted.iter().all(|wanted| wanted.todo == Todo::Replace)
        {
            *target = Target::Untouched;
        }
    }
}

fn may_be_empty(placement: &PlacementSpec) -> bool {
    let rules = &placement.placement;
    !rules.is_empty() && rules.iter().all(|rule| rule.allow_empty)
}

/// What placement answers now, for all placing steps together.
pub(super) fn place(request: &Request<'_>) -> Vec<StepDecision> {
    let steps = steps(request.valid);
    let application = format!("{}/{}", request.key.0, request.key.1);
    let stored = request.stored.values().map(|decision| &decision.spec);
    // What the run has passed stays as it is until the run has ended.
    let passed = passed(request).filter_map(|step| Some(&request.stored.get(step)?.spec));
    let previous = Previous::from_decisions_at(request.revision, stored).passing(passed);
    let only: Vec<Option<&str>> = request
        .valid
        .placing()
        .map(|(_, deploy)| deploy.only.as_deref())
        .collect();
    let asked = placement::Request {
        application: &application,
        steps: &steps,
        workloads: request.workloads,
        inventory: &request.fleet.inventory,
        previous: &previous,
        now: request.now,
    };
    let workloads_of = |component: &str| render::component_workloads(&request.content.rendered, component);
    let mut decisions = placement::place_by_component(&asked, &only, workloads_of);
    for (decision, step) in decisions.iter_mut().zip(&steps) {
        let rendered = request.content.of(step.name);
        let manifests = rendered.components.iter().flat_map(|c| &c.manifests);
        decision
            .override_errors
            .extend(without_target(&step.spec.overrides, manifests));
        if let Some(patches) = request.patches.get(step.name) {
            let before = step.spec.overrides.len();
            let clusters: Vec<String> = decision.clusters.iter().map(ToString::to_string).collect();
            let made = patching::overrides(rendered, patches, &clusters, before);
            decision.overrides.extend(made);
        }
    }
    decisions
}

/// The steps that the run has passed, with what they placed.
pub(super) fn passed<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a str> {
    let passed = placing(request).filter(|(.., reach)| *reach == Reach::Placed);
    passed.map(|(_, step, _)| step.name.as_str())
}

/// What was decided before, with what is wrong now: a decision whose overrides cannot be applied is not carried out, not
/// even in part. Without an earlier decision nothing is placed.
fn held(
    request: &Request<'_>,
    step: &str,
    before: Option<DecisionSpec>,
    errors: Vec<OverrideError>,
) -> DecisionSpec {
    let mut spec = before.unwrap_or_else(|| DecisionSpec {
        step: step.to_owned(),
        revision: request.revision.to_owned(),
        ..DecisionSpec::default()
    });
    spec.application_ref = request.application.clone();
    spec.epoch = request.epoch;
    spec.satisfied = false;
    spec.reasons = errors.iter().map(error_line).collect();
    spec.override_errors = errors;
    spec.hash = hash_of(&spec);
    spec
}

/// The placing steps, as placement takes them.
pub(super) fn steps(valid: &ValidApplication) -> Vec<PlacingStep<'_>> {
    let placing = valid.placing().map(|(step, deploy)| PlacingStep {
        name: &step.name,
        spec: &deploy.placement,
    });
    placing.collect()
}

/// All steps that look at clusters: those, and the ones that have an object in clusters.
pub(crate) fn looking(valid: &ValidApplication) -> Vec<PlacingStep<'_>> {
    let objects = valid.all_steps().filter_map(|step| match &step.kind {
        StepKind::ClusterObject(object) => Some(PlacingStep {
            name: &step.name,
            spec: &object.placement,
        }),
        _ => None,
    });
    steps(valid).into_iter().chain(objects).collect()
}

fn placing<'a>(request: &Request<'a>) -> impl Iterator<Item = (&'a DeployStep, &'a ValidStep, Reach)> {
    let steps = request.valid.placing().zip(request.reach);
    steps.filter_map(|((step, deploy), reach)| {
        let stored = request.stored.get(&step.name);
        let undecided = || match stored {
            Some(stored) => stored.spec.revision != request.revision,
            None => !request.succeeded.contains(&step.name) && never_decided(request, &step.name),
        };
        let reach = match (*reach)? {
            // It stopped before anything was decided for this revision, so nothing of it was dispatched.
            Reach::Placed if undecided() => Reach::Unreached,
            reach => reach,
        };
        Some((deploy, step, reach))
    })
}

/// Whether a step without a Decision never had one, such as one whose Placement was missing when it stopped: it is decided when it
/// goes on, and not because it could be by now. Of one whose Decision is lost, or of a later one, there are Bundles of this
/// revision (a Bundle names the last step that comes to its cluster), or a later one was decided. Where that is not known it counts
/// as decided: what is left out of a Bundle is removed.
fn never_decided(request: &Request<'_>, step: &str) -> bool {
    let names = request.valid.placing().map(|(placing, _)| &placing.name);
    let from_here: Vec<&String> = names.skip_while(|name| *name != step).collect();
    let is_decided = |step: &&String| {
        let stored = request.stored.get(*step);
        stored.is_some_and(|stored| stored.spec.revision == request.revision)
    };
    let has_come = |bundle: &Arc<Observed>| {
        let of = bundle.labels.get(label::STEP);
        let of_run = bundle.spec.revision.as_deref() == Some(request.revision);
        of.is_some_and(|of| of == step || of_run && from_here.contains(&of))
    };
    !from_here.iter().any(is_decided) && !request.observed.values().flatten().any(has_come)
}

/// A Decision is written when its content, what is said about it or the revision that it places differs; the epoch alone
/// writes nothing.
fn differs(stored: &DecisionSpec, new: &DecisionSpec) -> bool {
    stored.hash != new.hash
        || stored.revision != new.revision
        || stored.application_ref != new.application_ref
        || stored.components != new.components
        || stored.satisfied != new.satisfied
        || stored.reasons != new.reasons
}

/// The components that a step dispatches; empty for all of them.
fn components(request: &Request<'_>, step: &str) -> Vec<String> {
    let mut placing = request.valid.placing();
    let own = placing.find(|(placing, _)| placing.name == step);
    own.and_then(|(_, deploy)| deploy.only.clone())
        .into_iter()
        .collect()
}

fn spec(request: &Request<'_>, decision: &StepDecision) -> DecisionSpec {
    DecisionSpec {
        application_ref: request.application.clone(),
        revision: request.revision.to_owned(),
        epoch: request.epoch,
        components: components(request, &decision.step),
        ..decision.to_spec()
    }
}

/// The object that stores a decision, on top of the one that exists.
pub(super) fn object(spec: DecisionSpec, existing: Option<&Decision>) -> Decision {
    let application = spec.application_ref.clone();
    let mut decision = Decision::new(&decision_name(&application.name, &spec.step), spec);
    decision.spec.excluded = placement::matched(&decision.spec.excluded).cloned().collect();
    decision.metadata.namespace = Some(application.namespace.clone());
    if let Some(existing) = existing {
        decision
            .metadata
            .resource_version
            .clone_from(&existing.metadata.resource_version);
        decision.metadata.uid.clone_from(&existing.metadata.uid);
    }
    decision.metadata.labels = Some(BTreeMap::from([
        (label::APP_NAME.to_owned(), application.name.clone()),
        (label::APP_NAMESPACE.to_owned(), application.namespace.clone()),
    ]));
    decision.metadata.owner_references = Some(vec![owner(&application)]);
    decision
}

/// An Application as the owner of what is kept about it in its namespace.
pub(super) fn owner(application: &ApplicationRef) -> OwnerReference {
    OwnerReference {
        api_version: Application::api_version(&()).into_owned(),
        kind: Application::kind(&()).into_owned(),
        name: application.name.clone(),
        uid: application.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}
