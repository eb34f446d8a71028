//! The pipeline of one pass over a bundle: decode → ledger write-ahead → order into waves → observe live → adopt? →
//! once? → drift? → three-way merge (or server-side apply) → write → readiness → report. What the bundle says to ignore
//! is taken from the live object before the merge; a field that the member does not let change may have the object
//! deleted and made again.
//!
//! Each stage is a module; each decision is a pure function. The shells are [`write`](self::write) (one manifest
//! against the member, with [`recreate`] and the sending half of [`server_side`]) and [`remove`] (one object of the
//! ledger). Every manifest ends with exactly one
//! [`Outcome`](outcome::Outcome).

pub(crate) mod adopt;
pub(crate) mod busy;
pub(crate) mod decide;
pub(crate) mod decode;
pub(crate) mod deletions;
pub(crate) mod desired;
pub(crate) mod exempt;
pub(crate) mod fence;
pub(crate) mod ignore;
pub(crate) mod immutable;
pub(crate) mod intent;
pub(crate) mod keep;
pub(crate) mod latecomers;
pub(crate) mod locate;
pub(crate) mod once;
pub(crate) mod order;
pub(crate) mod outcome;
pub(crate) mod prune;
pub(crate) mod recreate;
pub(crate) mod remove;
pub(crate) mod retain;
pub(crate) mod server_side;
pub(crate) mod strategy;
pub(crate) mod target;
#[cfg(test)]
mod testing;
pub(crate) mod unanswered;
pub(crate) mod unchanged;
pub(crate) mod unrecorded;
pub(crate) mod write;

use crate::drift::Differences;
use crate::executor::Account;
use crate::kinds::{Kind, Kinds};
use crate::ledger::Settled;
use crate::member::Member;
use crate::object::ObjectKey;
use crate::observe::{Examined, Readiness, Rules};
use decide::Terms;
use decode::{Manifest, Undecodable};
use futures::{FutureExt, StreamExt};
use latecomers::Latecomers;
use outcome::{Applied, Outcome};
use roundhouse_api::bundle::{ManifestConfig, ResourceMeta, WorkloadStatus};
use roundhouse_api::ledger::LedgerEntry;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use unanswered::Unanswered;
use unchanged::Fingerprint;

/// How long the objects of later waves wait for definitions of the first one to be established.
const ESTABLISH_TRIES: u32 = 8;
const ESTABLISH_MIN: Duration = Duration::from_millis(50);
const ESTABLISH_MAX: Duration = Duration::from_secs(2);

/// What is remembered of one manifest between passes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observation {
    /// Which manifest.
    pub(crate) meta: ResourceMeta,
    /// The object as the member names it; `None` if the manifest does not decode.
    pub(crate) target: Option<ObjectKey>,
    /// Its kind in the member.
    pub(crate) kind: Option<Arc<Kind>>,
    /// Whether the object carries the label that shared watches select by.
    pub(crate) labelled: bool,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// Since when the member was seen not to serve its kind.
    pub(crate) no_kind_since: Option<Instant>,
    /// Whether the live object is ready; counts only if it is applied.
    pub(crate) readiness: Readiness,
    /// Its replicas, for workloads.
    pub(crate) workload: Option<WorkloadStatus>,
    /// What the rules of the bundle say of the live object; `None` where there are none for it.
    pub(crate) examined: Option<Box<Examined>>,
    /// `resourceVersion` that was looked at last.
    pub(crate) seen: Option<String>,
    /// The answer of the member that was judged, if it was found unchanged.
    pub(crate) answer: Option<Fingerprint>,
    /// What differs, and who fights over it.
    pub(crate) differences: Differences,
    /// Digest of a patch that the member refused, and of the object that it was computed on: a field is immutable, and
    /// sending the same again would never end.
    pub(crate) quiet: Option<String>,
}

impl Observation {
    /// Whether expressions about the object are left to a later pass.
    pub(crate) fn is_postponed(&self) -> bool {
        self.examined.as_ref().is_some_and(|examined| examined.postponed)
    }

    /// What the rules said, and of which `resourceVersion`.
    pub(crate) fn examined_at(&self) -> Option<(&str, &Examined)> {
        Some((self.seen.as_deref()?, self.examined.as_deref()?))
    }
}

/// A manifest with what belongs to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) entry: Option<&'a LedgerEntry>,
    /// What the last look found.
    pub(crate) known: Option<&'a Observation>,
    /// See [`Observation::differences`].
    pub(crate) differences: Option<&'a Differences>,
    /// See [`Observation::quiet`].
    pub(crate) quiet: Option<&'a str>,
    /// With `quiet`: how the manifest ended when the patch was refused.
    pub(crate) refused: Option<&'a Outcome>,
    /// What the present rules said of the object, and at which `resourceVersion`.
    pub(crate) examined: Option<(&'a str, &'a Examined)>,
}

impl<'a> Task<'a> {
    /// What the rules said of this version of the object.
    fn examined(&self, version: Option<&str>) -> Option<&'a Examined> {
        let (seen, examined) = self.examined?;
        (version == Some(seen)).then_some(examined)
    }
}

/// What is common to the manifests of a bundle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) terms: &'a Terms,
    pub(crate) configs: &'a [ManifestConfig],
    /// The rules of `configs`, compiled.
    pub(crate) rules: &'a Rules,
    /// Namespace of the application: made if it is missing.
    pub(crate) app_namespace: Option<&'a str>,
    /// Whether the Bundle was written since it was applied last.
    pub(crate) anew: bool,
}

/// The outcome of one manifest: what is remembered, and what the ledger is told.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) key: ObjectKey,
    pub(crate) ordinal: u32,
    pub(crate) observation: Observation,
    pub(crate) settled: Option<Settled>,
}

/// The member, as the pipeline needs it.
pub(crate) struct Engine {
    pub(crate) member: Member,
    pub(crate) kinds: Arc<Kinds>,
    pub(crate) concurrent: usize,
    /// What this agent asked to be made without an answer.
    pub(crate) unanswered: Arc<Unanswered>,
    /// What may be made once more although it was removed.
    pub(crate) latecomers: Arc<Latecomers>,
}

impl Engine {
    /// The same member with the rights of an account; discovery stays the agent's.
    pub(crate) fn on_behalf_of(&self, account: Option<Account>) -> Engine {
        Engine {
            member: self.member.on_behalf_of(account),
            kinds: Arc::clone(&self.kinds),
            concurrent: self.concurrent,
            unanswered: Arc::clone(&self.unanswered),
            latecomers: Arc::clone(&self.latecomers),
        }
    }

    /// Applies manifests in waves; parallel inside a wave, one after the other between them. Nothing that happens to
    /// one manifest stops another.
    pub(crate) async fn apply(&self, tasks: Vec<Task<'_>>, order: Order<'_>) -> Vec<Done> {
        let mut all = Vec::with_capacity(tasks.len());
        for wave in order::waves(tasks, |task| &task.manifest.key) {
            let writes: Vec<_> = wave
                .into_iter()
                .map(|task| self.apply_one(task, order).boxed())
                .collect();
            let mut done: Vec<Done> = futures::stream::iter(writes)
                .buffer_unordered(self.concurrent.max(1))
                .collect()
                .await;
            self.wait_for_definitions(&mut done).await;
            all.append(&mut done);
        }
        all.sort_by_key(|done| done.ordinal);
        all
    }

    /// Custom resources of a later wave need their definition established; that takes moments, or does not happen. Only
    /// a pass that wrote the definition waits: a later one would keep other bundles waiting, and the watch wakes it.
    async fn wait_for_definitions(&self, done: &mut [Done]) {
        for attempt in 0..ESTABLISH_TRIES {
            let mut waiting = false;
            for done in done.iter_mut() {
                let observation = &mut done.observation;
                let (Some(target), Some(kind)) = (&observation.target, &observation.kind) else {
                    continue;
                };
                let is_definition = target.is("apiextensions.k8s.io", "CustomResourceDefinition");
                let on_its_way = matches!(observation.readiness, Readiness::Progressing(_));
                let is_new = matches!(
                    observation.outcome,
                    Outcome::Applied(Applied::Created | Applied::Changed)
                );
                if !is_definition || !on_its_way || !is_new {
                    continue;
                }
                if let Ok(Some(live)) = self.member.get(kind, target).await {
                    observation.readiness = crate::observe::readiness(target, &live);
                    let seen = crate::object::resource_version(&live).map(str::to_owned);
                    if let Some(examined) = observation.examined.as_mut().filter(|_| seen != observation.seen)
                    {
                        // What the rules said was of an earlier version.
                        examined.postponed = true;
                    }
                    observation.seen = seen;
                }
                if observation.readiness == Readiness::Ready {
                    self.kinds.forget();
                } else {
                    waiting = true;
                }
            }
            if !waiting {
                return;
            }
            tokio::time::sleep(crate::delay::backoff(attempt, ESTABLISH_MIN, ESTABLISH_MAX)).await;
        }
    }
}

/// The observation of a manifest that is no object.
pub(crate) fn undecodable(failed: &Undecodable) -> Observation {
    let identity = &failed.identity;
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    Observation {
        meta: ResourceMeta {
            ordinal: failed.ordinal,
            group: text(&identity.group),
            kind: text(&identity.kind),
            namespace: text(&identity.namespace),
            name: text(&identity.name),
            ..ResourceMeta::default()
        },
        target: None,
        kind: None,
        labelled: false,
        outcome: Outcome::Undecodable(failed.error.clone()),
        no_kind_since: None,
        readiness: Readiness::Progressing(String::new()),
        workload: None,
        examined: None,
        seen: None,
        answer: None,
        differences: Differences::default(),
        quiet: None,
    }
}
