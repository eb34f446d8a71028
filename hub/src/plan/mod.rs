//! What a plan is: the decisions of proposed applications, the Bundles that they make, what changes on which cluster, and
//! how dangerous that is. Pure: the command line reads and draws.
//!
//! | module | question |
//! | --- | --- |
//! | [`dispatched`] | what was dispatched last? |
//! | [`change`] | which fields differ between two manifests? |
//! | [`cluster`] | which objects differ on one cluster? |
//! | [`group`] | which clusters change in the same way? |
//! | [`rows`] | what does each rule get, now and then? |
//! | [`risk`] | is it safe? |
//!
//! Architecture Invariant: nothing here decides. Decisions and Bundles come from [`foresee`], which is the controller's own
//! code.

mod at_once;
pub mod change;
pub mod cluster;
pub mod dispatched;
pub mod group;
pub mod risk;
pub mod rows;

pub use at_once::AtOnce;
pub use dispatched::Dispatched;

use crate::{
    application::{Foreseen, ForeseenDecision, ForeseenObject, Proposal, Snapshot, Unforeseen, foresee},
    dispatch::{Divided, Observed, Plan, Target, Wanted, plan::Todo},
    words,
};
use cluster::{Comparison, Differ};
use group::ObjectGroup;
use jiff::Timestamp;
use risk::Risk;
use roundhouse_api::{application::ValidApplication, decision::DecisionSpec, hash, names::step_of_bundle};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// The plan of one application.
#[derive(Debug)]
pub struct ApplicationPlan {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What was understood of it.
    pub valid: ValidApplication,
    /// The revision that a run delivers.
    pub revision: String,
    /// The latest revision on the hub; `None` if the hub does not know the application.
    pub former: Option<String>,
    /// The decisions of the placing steps, in order.
    pub decisions: Vec<ForeseenDecision>,
    /// The objects of steps, in the order of the workflow.
    pub objects: Vec<ForeseenObject>,
    /// The Bundles that are wanted or go, by cluster, then name.
    pub bundles: Vec<BundlePlan>,
    /// What changes, object by object, equal changes together.
    pub changes: Vec<ObjectGroup>,
    /// Why removals would wait for a confirmation.
    pub held: Option<String>,
    /// A run of it has ended without success: what changes does so once it is started again, and not before.
    pub run_ended: bool,
    /// What else cannot be carried out than steps that their overrides stop.
    pub refused: Vec<Stop>,
    /// How dangerous it is.
    pub risk: Risk,
    /// Goes into the digests of what Secrets hold.
    pub salt: String,
}

impl ApplicationPlan {
    /// The service account of the clusters on whose behalf agents write the objects, `namespace/name`; `None` if that is their own.
    pub fn executor(&self) -> Option<String> {
        let account = self.valid.executor(&self.namespace)?.subject.service_account?;
        Some(format!("{}/{}", account.namespace, account.name))
    }
}

/// What is not carried out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// What.
    pub of: Stopped,
    /// Why, and what to do about it.
    pub why: String,
}

/// What can be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// A step: nothing of it is carried out.
    Step(String),
    /// A cluster: it keeps what it has.
    Cluster(String),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stopped::Step(step) => write!(f, "step {step}"),
            Stopped::Cluster(cluster) => write!(f, "cluster {cluster}"),
        }
    }
}

/// One Bundle.
#[derive(Debug, Clone)]
pub struct BundlePlan {
    /// The cluster.
    pub cluster: String,
    /// The step that places it; of one that goes the step that takes it away, or nothing.
    pub step: String,
    /// Name of the Bundle.
    pub name: String,
    /// What becomes of it.
    pub action: Action,
    /// Its manifests as dispatched; `None` for one that goes.
    pub content: Option<Content>,
}

/// The manifests of a Bundle, shared by clusters that get the same.
#[derive(Debug, Clone)]
pub struct Content {
    divided: Arc<Divided>,
    part: usize,
}

impl Content {
    /// The manifests, stamps included.
    pub fn manifests(&self) -> &[serde_json::Value] {
        self.divided
            .parts
            .get(self.part)
            .map_or(&[], |part| &part.manifests)
    }

    /// `Bundle.spec.hash`.
    pub fn hash(&self) -> &str {
        self.divided.parts.get(self.part).map_or("", |part| &part.hash)
    }
}

/// What becomes of a Bundle or an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It is made.
    Add,
    /// It is changed.
    Change,
    /// It goes.
    Destroy,
    /// It stays as it is.
    Keep,
}

impl Action {
    /// `+`, `~`, `-`, and a space for what stays.
    pub fn sign(self) -> char {
        match self {
            Action::Add => '+',
            Action::Change => '~',
            Action::Destroy => '-',
            Action::Keep => ' ',
        }
    }

    /// `add`, `change`, `destroy`, `keep`.
    pub fn word(self) -> &'static str {
        match self {
            Action::Add => "add",
            Action::Change => "change",
            Action::Destroy => "destroy",
            Action::Keep => "keep",
        }
    }
}

/// Bundles by what becomes of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// To add.
    pub add: usize,
    /// To change.
    pub change: usize,
    /// To destroy.
    pub destroy: usize,
}

impl Counts {
    /// Whether no cluster changes.
    pub fn is_empty(self) -> bool {
        self == Counts::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Counts) -> Counts {
        Counts {
            add: self.add + other.add,
            change: self.change + other.change,
            destroy: self.destroy + other.destroy,
        }
    }
}

impl ApplicationPlan {
    /// How many Bundles are added, changed and destroyed.
    pub fn counts(&self) -> Counts {
        let count = |action| {
            self.bundles
                .iter()
                .filter(|bundle| bundle.action == action)
                .count()
        };
        Counts {
            add: count(Action::Add),
            change: count(Action::Change),
            destroy: count(Action::Destroy),
        }
    }

    /// The decisions that are not carried out because their overrides are wrong: step by step.
    pub fn stopped(&self) -> impl Iterator<Item = &DecisionSpec> {
        let specs = self.decisions.iter().map(|decision| &decision.spec);
        specs.filter(|spec| !spec.override_errors.is_empty())
    }

    /// What has to be typed before anything of it moves, where applying it is not enough.
    pub fn awaits(&self) -> Option<String> {
        let restarted = self.run_ended && !self.counts().is_empty();
        restarted.then(|| words::command("restart", &self.namespace, &self.name))
    }

    /// `<namespace>/<name>`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Plans one application against a snapshot. `dispatched` is what its Bundles held last.
///
/// # Errors
/// As [`foresee`].
pub fn plan(
    snapshot: &Snapshot,
    dispatched: &Dispatched,
    proposal: &Proposal<'_>,
    now: Timestamp,
) -> Result<ApplicationPlan, Unforeseen> {
    let foreseen = foresee(snapshot, proposal, now)?;
    // Equal Secrets show equal digests in one plan, and who does not know the spec cannot try values one by one.
    let salt = hash::of_value(proposal.spec);
    let bundles = bundles(&foreseen);
    let compared = compare(&foreseen, dispatched, &salt);
    let fleet = snapshot.fleet();
    let risk = risk::judge(&bundles, &compared, &foreseen, &fleet);
    let refused = refused(&foreseen);
    Ok(ApplicationPlan {
        namespace: proposal.namespace.to_owned(),
        name: proposal.name.to_owned(),
        valid: foreseen.valid,
        revision: foreseen.revision,
        former: foreseen.former,
        decisions: foreseen.decisions,
        objects: foreseen.objects,
        changes: group::groups(&compared),
        // Nobody is asked for a confirmation of what is not to move.
        held: foreseen.held.filter(|_| !foreseen.stopped),
        run_ended: foreseen.stopped,
        bundles,
        refused,
        risk,
        salt,
    })
}

impl BundlePlan {
    /// Whether it carries the object of a step, and nothing of the components.
    pub fn is_of_step(&self) -> bool {
        step_of_bundle(&self.name).is_some()
    }
}

fn bundles(foreseen: &Foreseen) -> Vec<BundlePlan> {
    let mut bundles = wanted(&foreseen.plan);
    let surplus: BTreeSet<_> = foreseen.plan.surplus.iter().collect();
    let going = foreseen
        .observed
        .values()
        .flatten()
        .filter(|bundle| surplus.contains(&(bundle.namespace.clone(), bundle.name.clone())));
    bundles.extend(going.chain(&foreseen.left).map(|bundle| destroyed(bundle, "")));
    for object in &foreseen.objects {
        bundles.extend(wanted(&object.plan));
        let taken = object.taken.iter();
        bundles.extend(taken.map(|bundle| destroyed(bundle, &object.step)));
    }
    bundles.sort_by(|a, b| (&a.cluster, part_of(&a.name)).cmp(&(&b.cluster, part_of(&b.name))));
    bundles
}

fn wanted(plan: &Plan) -> Vec<BundlePlan> {
    let mut bundles = Vec::new();
    for (cluster, target) in &plan.targets {
        let Target::Bundles(wanted) = target else { continue };
        bundles.extend(wanted.iter().map(|wanted| BundlePlan {
            cluster: cluster.clone(),
            step: wanted.step.clone(),
            name: wanted.name.clone(),
            action: match wanted.todo {
                Todo::Nothing | Todo::Note => Action::Keep,
                Todo::Create | Todo::AwaitRemoval => Action::Add,
                Todo::AwaitTurn => Action::Change,
                Todo::Replace => Action::Change,
            },
            content: Some(Content {
                divided: wanted.divided.clone(),
                part: wanted.part,
            }),
        }));
    }
    bundles
}

fn destroyed(bundle: &Observed, step: &str) -> BundlePlan {
    BundlePlan {
        cluster: bundle.cluster.clone(),
        step: step.to_owned(),
        name: bundle.name.clone(),
        action: Action::Destroy,
        content: None,
    }
}

/// The number of a part, from its name `<namespace>.<application>[.<part>]`.
fn part_of(name: &str) -> u32 {
    let part = name.split('.').nth(2).and_then(|part| part.parse().ok());
    part.unwrap_or(1)
}

/// What differs on each cluster that is written.
fn compare(foreseen: &Foreseen, dispatched: &Dispatched, salt: &str) -> BTreeMap<String, Comparison> {
    let mut differ = Differ::new(dispatched, &foreseen.replica_paths, salt);
    let mut compared = BTreeMap::new();
    let none = Vec::new();
    let clusters: BTreeSet<&String> = foreseen
        .plan
        .targets
        .keys()
        .chain(foreseen.observed.keys())
        .collect();
    for cluster in clusters {
        let held = foreseen.observed.get(cluster).unwrap_or(&none);
        let comparison = match foreseen.plan.targets.get(cluster) {
            Some(Target::Bundles(wanted)) => differ.compare(held, wanted),
            Some(
                Target::Untouched | Target::Vanished { .. } | Target::Loading { .. } | Target::Refused(_),
            ) => continue,
            Some(Target::Nothing) | None => differ.compare(held, &[]),
        };
        compared.insert(cluster.clone(), comparison);
    }
    let mut more = |cluster: &str, held: &[Arc<Observed>], wanted: &[Wanted]| {
        let own = differ.compare(held, wanted);
        let together = compared.entry(cluster.to_owned()).or_default();
        // Most clusters have the object of one step at most.
        *together = match together.is_empty() {
            true => own,
            false => together.iter().chain(own.iter()).cloned().collect(),
        };
    };
    for object in &foreseen.objects {
        for (cluster, target) in &object.plan.targets {
            let held = object.observed.get(cluster).unwrap_or(&none);
            if let Target::Bundles(wanted) = target {
                more(cluster, held, wanted);
            }
        }
    }
    let taken = foreseen.objects.iter().flat_map(|object| &object.taken);
    for bundle in taken.chain(&foreseen.left) {
        more(&bundle.cluster, std::slice::from_ref(bundle), &[]);
    }
    compared.retain(|_, comparison| !comparison.is_empty());
    compared
}

/// What cannot be carried out, by step and by cluster. Names of clusters that are not there stop nothing: the reasons of
/// the decision name them.
fn refused(foreseen: &Foreseen) -> Vec<Stop> {
    let steps = foreseen.refused.iter().map(|(step, why)| Stop {
        of: Stopped::Step(step.clone()),
        why: why.clone(),
    });
    let targets = foreseen.plan.targets.iter();
    let clusters = targets.filter_map(|(cluster, target)| match target {
        Target::Refused(refusal) => Some(Stop {
            of: Stopped::Cluster(cluster.clone()),
            why: refusal.to_string(),
        }),
        _ => None,
    });
    let objects = foreseen.objects.iter().filter_map(|object| {
        let refused = object.plan.targets.values().find_map(|target| match target {
            Target::Refused(refusal) => Some(refusal.to_string()),
            _ => None,
        });
        Some(Stop {
            of: Stopped::Step(object.step.clone()),
            why: refused?,
        })
    });
    steps.chain(objects).chain(clusters).collect()
}
