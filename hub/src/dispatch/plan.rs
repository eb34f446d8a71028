//! Which Bundles differ from what is wanted.

use super::{
    Content, Divided, Observed, Refusal, Share,
    content::Divider,
    mixed::{Mix, Mixer, mix},
};
use crate::render;
use roundhouse_api::{
    bundle::{
        ApplicationRef, ApplyOnce, ApplyOnceRule, Bundle, BundleSpec, Executor, ManifestConfig,
        ManifestsTemplate,
    },
    hash,
    names::{BUNDLE_FINALIZER, annotation, bundle_name, cluster_namespace, cluster_of_namespace, label},
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

/// All that a plan depends on.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The application.
    pub application: &'a ApplicationRef,
    /// What the present run delivers.
    pub content: &'a Content,
    /// What earlier runs delivered, by revision, as far as it was loaded: needed only for Bundles that vanished.
    pub former: &'a BTreeMap<String, Content>,
    /// Who gets how much.
    pub shares: &'a BTreeMap<String, Share>,
    /// The application's Bundles, by cluster.
    pub observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
    /// Apply-once mode that the application asks for.
    pub apply_once: Option<ApplyOnce>,
    /// Fields whose live value it wants kept.
    pub apply_once_rules: &'a [ApplyOnceRule],
    /// On whose behalf the agents write the objects.
    pub executor: Option<&'a Executor>,
    /// What the agents are to report of objects, for outputs of steps.
    pub manifest_configs: &'a [ManifestConfig],
    /// Fencing epoch of this hub.
    pub epoch: i64,
    /// The placing steps of the spec.
    pub steps: &'a [&'a str],
}

/// What is wanted, cluster by cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Clusters with a share.
    pub targets: BTreeMap<String, Target>,
    /// Namespace and name of Bundles that nothing wants any more.
    pub surplus: Vec<(String, String)>,
}

/// What is wanted on one cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// These Bundles.
    Bundles(Vec<Wanted>),
    /// The present run has not reached it: its Bundles stay as they are, if there are any.
    Untouched,
    /// The present run has not reached it and its Bundles are gone: they are made again once this revision is loaded.
    Vanished {
        /// The revision that was delivered.
        revision: String,
    },
    /// The present run has reached it, and a part of what it gets is of an earlier revision: nothing is written until that
    /// is loaded.
    Loading {
        /// The revision that is needed.
        revision: String,
    },
    /// It gets nothing and has nothing.
    Nothing,
    /// It cannot get what is wanted.
    Refused(Refusal),
}

/// One Bundle that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The step that placed it last.
    pub step: String,
    /// Where several steps place: each with the revision that it brought, as [`annotation::STEPS`] says it.
    pub steps: Option<String>,
    /// Index of the part.
    pub part: usize,
    /// All parts.
    pub divided: Arc<Divided>,
    /// The spec without its manifests.
    pub spec: BundleSpec,
    /// What has to be done.
    pub todo: Todo,
}

/// What has to be done about a Bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Todo {
    /// It is as wanted.
    Nothing,
    /// It does not exist.
    Create,
    /// It differs.
    Replace,
    /// It is as wanted, and names as those who have brought it steps that place nothing there any more.
    Note,
    /// One of that name is on its way out; a new one is made when it is gone.
    AwaitRemoval,
    /// It is to be written when fewer clusters are under way.
    AwaitTurn,
}

impl Todo {
    /// Whether it is written now.
    pub fn is_write(self) -> bool {
        self.changes() || self == Todo::Note
    }

    /// Whether its cluster gets something else now.
    pub fn changes(self) -> bool {
        matches!(self, Todo::Create | Todo::Replace)
    }
}

impl Plan {
    /// Whether a Bundle is written, or may be let go, now.
    pub fn writes(&self) -> bool {
        let wanted = self.targets.values().filter_map(|target| match target {
            Target::Bundles(wanted) => Some(wanted),
            _ => None,
        });
        let mut wanted = wanted.flatten();
        wanted.any(|wanted| wanted.todo.is_write() || wanted.todo == Todo::AwaitRemoval)
    }

    /// Whether a cluster that has these Bundles would get something else in their place, and now.
    pub fn replaces(&self, cluster: &str, held: &[Arc<Observed>]) -> bool {
        let Some(Target::Bundles(wanted)) = self.targets.get(cluster) else {
            return false;
        };
        let mut replaced = wanted.iter().filter(|wanted| wanted.todo == Todo::Replace);
        replaced.any(|wanted| {
            let existing = held.iter().find(|bundle| bundle.name == wanted.name);
            existing.is_some_and(|existing| !same_spec(&wanted.spec, &existing.spec))
        })
    }

    /// Whether a cluster would have the same manifests by another plan.
    pub fn is_as_in(&self, other: &Plan, cluster: &str) -> bool {
        let hashes = |plan: &Plan| match plan.targets.get(cluster) {
            Some(Target::Bundles(wanted)) => {
                let hashes = wanted.iter().map(|wanted| wanted.spec.hash.clone());
                Some(hashes.collect::<Vec<_>>())
            }
            _ => None,
        };
        hashes(self).is_some_and(|own| hashes(other) == Some(own))
    }

    /// Whether what a cluster would get cannot be told before an earlier revision is loaded.
    pub fn is_loading(&self, cluster: &str) -> bool {
        let target = self.targets.get(cluster);
        matches!(target, Some(Target::Loading { .. } | Target::Vanished { .. }))
    }

    /// Whether a cluster waits for its turn.
    pub fn awaits_turn(&self, cluster: &str) -> bool {
        let awaits = |wanted: &Wanted| wanted.todo == Todo::AwaitTurn;
        matches!(self.targets.get(cluster), Some(Target::Bundles(wanted)) if wanted.iter().any(awaits))
    }
}

/// Whether the Bundles of a cluster ask for fewer replicas than those that it holds.
pub(super) fn shrinks(wanted: &[Wanted], held: &[Arc<Observed>]) -> bool {
    let named = |held: &&Arc<Observed>| wanted.iter().any(|wanted| wanted.name == held.name);
    let before: u64 = held.iter().filter(named).map(|held| held.replicas).sum();
    wanted.iter().map(Wanted::replicas).sum::<u64>() < before
}

impl Wanted {
    /// The hash of its manifests.
    pub fn hash(&self) -> Option<&str> {
        self.spec.hash.as_deref()
    }

    /// Replicas that its manifests ask for, over all workloads.
    pub fn replicas(&self) -> u64 {
        let part = self.divided.parts.get(self.part);
        part.map_or(0, |part| render::replicas_of(&part.manifests))
    }

    /// The whole Bundle, on top of the metadata of the one that exists.
    pub fn bundle(&self, existing: Option<&Observed>) -> Bundle {
        let mut spec = self.spec.clone();
        if let Some(existing) = existing.filter(|_| self.todo == Todo::Note) {
            // What its agent has reported counts as before.
            spec.revision.clone_from(&existing.spec.revision);
            spec.epoch = existing.spec.epoch;
        }
        if let Some(part) = self.divided.parts.get(self.part) {
            spec.workload.manifests.clone_from(&part.manifests);
        }
        let mut bundle = Bundle::new(&self.name, spec);
        bundle.metadata.namespace = Some(self.namespace.clone());
        let mut labels = BTreeMap::new();
        let mut annotations = BTreeMap::new();
        let mut finalizers = Vec::new();
        if let Some(existing) = existing {
            bundle.metadata.resource_version = Some(existing.resource_version.clone());
            bundle.metadata.uid = Some(existing.uid.clone());
            labels.clone_from(&existing.labels);
            finalizers.clone_from(&existing.finalizers);
            annotations.clone_from(&existing.annotations);
        }
        annotations.remove(annotation::STEPS);
        annotations.extend(
            self.steps
                .iter()
                .map(|steps| (annotation::STEPS.to_owned(), steps.clone())),
        );
        bundle.metadata.annotations = Some(annotations).filter(|a| !a.is_empty());
        labels.extend(self.labels());
        if !finalizers.iter().any(|f| f == BUNDLE_FINALIZER) {
            finalizers.push(BUNDLE_FINALIZER.to_owned());
        }
        bundle.metadata.labels = Some(labels);
        bundle.metadata.finalizers = Some(finalizers);
        bundle
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let application = self.spec.application_ref.clone().unwrap_or_default();
        let cluster = cluster_of_namespace(&self.namespace).unwrap_or_default();
        BTreeMap::from([
            (label::APP_NAME.to_owned(), application.name),
            (label::APP_NAMESPACE.to_owned(), application.namespace),
            (label::STEP.to_owned(), self.step.clone()),
            (label::CLUSTER.to_owned(), cluster.to_owned()),
            (label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned()),
        ])
    }
}

/// Compares what is wanted with what is there.
pub fn plan(request: &Request<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut divider = Divider::new(request.content);
    let mut former: BTreeMap<&str, Divider<'_>> = BTreeMap::new();
    let mut mixer = Mixer::default();
    for (cluster, share) in request.shares {
        let held = request.observed.get(cluster).map_or(&[][..], Vec::as_slice);
        let whole = |divider: &mut Divider<'_>| {
            divider.divide(&share.overridden_by, &share.replicas, &share.overrides)
        };
        // Where no step has come to, there is nothing to make again either.
        let never = share.revision.is_empty();
        let target = if !share.reached && (never || !held.is_empty()) {
            Target::Untouched
        } else if let Some(step) = &share.lost {
            Target::Refused(Refusal::Lost {
                application: format!("{}/{}", request.application.namespace, request.application.name),
                step: step.clone(),
            })
        } else if !share.sources.is_empty() {
            match mix(share, request.content, request.former) {
                Mix::Pieces(pieces) => {
                    let revision = match share.reached {
                        true => &request.content.revision,
                        false => &share.revision,
                    };
                    let divided = || mixer.divide(&pieces, share);
                    bundles(request, cluster, share, held, divided, revision)
                }
                Mix::Needs(revision) if share.reached => Target::Loading {
                    revision: revision.to_owned(),
                },
                Mix::Needs(revision) => Target::Vanished {
                    revision: revision.to_owned(),
                },
            }
        } else if share.reached {
            let divided = || whole(&mut divider);
            bundles(request, cluster, share, held, divided, &request.content.revision)
        } else if let Some(content) = request.former.get(&share.revision) {
            let divider = former
                .entry(&content.revision)
                .or_insert_with(|| Divider::new(content));
            bundles(
                request,
                cluster,
                share,
                held,
                || whole(divider),
                &content.revision,
            )
        } else {
            Target::Vanished {
                revision: share.revision.clone(),
            }
        };
        plan.targets.insert(cluster.clone(), target);
    }
    for (cluster, held) in request.observed {
        let wanted = |name: &str| match plan.targets.get(cluster) {
            Some(Target::Bundles(wanted)) => wanted.iter().any(|w| w.name == name),
            // What cannot be replaced is kept.
            Some(
                Target::Untouched | Target::Refused(_) | Target::Vanished { .. } | Target::Loading { .. },
            ) => true,
            Some(Target::Nothing) | None => false,
        };
        let surplus = held.iter().filter(|bundle| !wanted(&bundle.name));
        plan.surplus
            .extend(surplus.map(|b| (b.namespace.clone(), b.name.clone())));
    }
    plan
}

fn bundles(
    request: &Request<'_>,
    cluster: &str,
    share: &Share,
    held: &[Arc<Observed>],
    divide: impl FnOnce() -> Result<Arc<Divided>, Refusal>,
    revision: &str,
) -> Target {
    // A cluster whose share is 0 gets no new bundle; one that has a bundle keeps it with replicas 0.
    let living = held.iter().any(|bundle| !bundle.deleting);
    if share.empty && !living {
        return Target::Nothing;
    }
    let divided = match divide() {
        Ok(divided) => divided,
        Err(refusal) => return Target::Refused(refusal),
    };
    if divided.is_empty() && held.iter().any(|bundle| has_manifests(bundle)) {
        // An agent takes an emptied Bundle for no evidence: what there is goes as a whole, by evidence and its limits.
        return Target::Nothing;
    }
    let application = request.application;
    let parts_hash = divided.parts_hash();
    let steps = steps(share);
    let mut wanted: Vec<Wanted> = (0..divided.parts.len())
        .map(|part| {
            let spec = BundleSpec {
                workload: ManifestsTemplate::default(),
                application_ref: Some(application.clone()),
                revision: Some(revision.to_owned()),
                hash: divided.parts.get(part).map(|p| p.hash.clone()),
                parts_hash: parts_hash.clone(),
                epoch: Some(request.epoch),
                apply_once: request.apply_once,
                apply_once_rules: request.apply_once_rules.to_vec(),
                executor: request.executor.cloned(),
                manifest_configs: request.manifest_configs.to_vec(),
                ..BundleSpec::default()
            };
            let mut wanted = Wanted {
                namespace: cluster_namespace(cluster),
                name: bundle_name(&application.namespace, &application.name, part + 1),
                step: share.step.clone(),
                steps: steps.clone(),
                part,
                divided: divided.clone(),
                spec,
                todo: Todo::Create,
            };
            if let Some(existing) = held.iter().find(|b| b.name == wanted.name) {
                wanted.todo = match todo(&wanted, existing) {
                    Todo::Nothing if !names_who_brings(existing, share, &wanted, request.steps) => Todo::Note,
                    todo => todo,
                };
            }
            wanted
        })
        .collect();
    // The parts of an application are pruned together, at one revision and division: when one is written, all are. A new
    // division has another `partsHash` in each of them.
    if wanted.len() > 1 && wanted.iter().any(|w| w.todo.is_write()) {
        for wanted in wanted.iter_mut().filter(|w| w.todo == Todo::Nothing) {
            let existing = held.iter().find(|b| b.name == wanted.name);
            if existing.is_some_and(|b| b.spec.revision != wanted.spec.revision) {
                wanted.todo = Todo::Replace;
            }
        }
    }
    Target::Bundles(wanted)
}

/// Whether a Bundle names only steps that bring it now, with what they bring, or as the last one a step of the spec: what it says of
/// others would be taken for the word of a later step that has their name, and has brought nothing.
fn names_who_brings(existing: &Observed, share: &Share, wanted: &Wanted, of_spec: &[&str]) -> bool {
    let is_present = existing.spec.revision == wanted.spec.revision;
    let brings = |step: &str| share.steps().any(|(own, _)| own == step);
    let last = existing.labels.get(label::STEP).map(String::as_str);
    let said = existing.steps();
    // Of steps that bring everything each tells besides which revision, where one of them has brought the present one. Where
    // components change one by one, or nothing at all, that would be a write for each step and cluster.
    let is_told = |(step, revision): (&str, &str)| said.get(step).is_none_or(|said| said == revision);
    last.is_some_and(|last| of_spec.contains(&last) || brings(last))
        && said.keys().all(|step| brings(step))
        && (!is_present || !share.sources.is_empty() || !share.reached || share.steps().all(is_told))
}

/// The steps that place on a cluster, with the revision that each has brought, where they are several.
fn steps(share: &Share) -> Option<String> {
    let steps = || json!(share.steps().collect::<BTreeMap<_, _>>());
    (!share.earlier.is_empty()).then(|| steps().to_string())
}

/// Whether a Bundle has manifests, by what it says of them.
fn has_manifests(bundle: &Observed) -> bool {
    bundle.spec.hash.as_deref() != Some(hash::of_manifests(&[]).as_str())
}

pub(super) fn todo(wanted: &Wanted, existing: &Observed) -> Todo {
    if existing.deleting {
        return Todo::AwaitRemoval;
    }
    let labelled = wanted
        .labels()
        .iter()
        .filter(|(key, _)| key.as_str() != label::STEP)
        .all(|(key, value)| existing.labels.get(key) == Some(value));
    let finalized = existing.finalizers.iter().any(|f| f == BUNDLE_FINALIZER);
    let heeded = !existing.hash_mismatch() && !existing.is_of_an_earlier_term(wanted.spec.epoch.unwrap_or(0));
    let same = labelled && finalized && same_spec(&wanted.spec, &existing.spec) && heeded;
    if same { Todo::Nothing } else { Todo::Replace }
}

/// Whether two specs mean the same: epoch and revision are bookkeeping, the hash stands for the manifests.
fn same_spec(wanted: &BundleSpec, existing: &BundleSpec) -> bool {
    let mut existing = existing.clone();
    existing.epoch = wanted.epoch;
    existing.revision.clone_from(&wanted.revision);
    *wanted == existing
}
