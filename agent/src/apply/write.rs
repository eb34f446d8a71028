//! Write: one manifest against the member. The shell around [`decide`](crate::apply::decide): look, decide, send, and
//! look again if something changed meanwhile.

use crate::apply::decide::{Step, Terms, decide};
use crate::apply::decode::Manifest;
use crate::apply::desired::{Copy, desired, weight_of_others};
use crate::apply::once::recorded;
use crate::apply::outcome::{Applied, Outcome, RECREATING};
use crate::apply::recreate::{After, Refused};
use crate::apply::server_side::{Sent, manner, taken_over};
use crate::apply::strategy::{Treatment, treatment};
use crate::apply::target::{no_kind, target};
use crate::apply::{Done, Engine, Observation, Order, Task};
use crate::delay::backoff;
use crate::drift::paths::FieldPath;
use crate::drift::{Advice, Differences, Look, Written, was_applied};
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
use crate::ledger::{Ours, Settled};
use crate::object::{self, ObjectKey};
use crate::observe::{Readiness, RuleSet, Sight, look};
use roundhouse_api::bundle::{Drift, FIGHTING, ResourceMeta, UpdateStrategyType};
use roundhouse_api::hash;
use roundhouse_api::ledger::LedgerOutcome;
use roundhouse_api::names::{annotation, label};
use roundhouse_patch::{PatchType, json_merge, schema, strategic_merge};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often one manifest is tried in one pass against an object that changes meanwhile.
const TRIES: u32 = 5;
const CONFLICT_MIN: Duration = Duration::from_millis(10);
const CONFLICT_MAX: Duration = Duration::from_millis(500);

/// What an attempt ended with.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) live: Option<Value>,
    /// Where the last-applied copy went, if the object was written or looked at and found ours.
    pub(super) copy: Option<Copy>,
    /// What differs now; `None` if the object was not looked at.
    pub(super) differences: Option<Differences>,
    /// See [`Observation::quiet`].
    pub(super) quiet: Option<String>,
    /// What apply-once rules kept, for the ledger; see [`Settled::Ours`].
    pub(super) kept: Option<BTreeMap<String, Value>>,
}

impl Ended {
    fn with(outcome: Outcome, live: Option<Value>) -> Self {
        Ended {
            outcome,
            live,
            copy: None,
            differences: None,
            quiet: None,
            kept: None,
        }
    }

    fn copied(self, copy: Copy) -> Self {
        Ended {
            copy: Some(copy),
            ..self
        }
    }

    fn keeping(self, kept: Option<BTreeMap<String, Value>>) -> Self {
        Ended { kept, ..self }
    }

    fn differing(self, differences: Differences) -> Self {
        Ended {
            differences: Some(differences),
            ..self
        }
    }
}

impl Engine {
    /// Applies one manifest.
    pub(crate) async fn apply_one(&self, task: Task<'_>, order: Order<'_>) -> Done {
        let manifest = task.manifest;
        let kind = match self.kinds.resolve(&manifest.key.gvk(&manifest.version)).await {
            Ok(Some(kind)) => kind,
            Ok(None) => return done(task, order, None, None, Ended::with(no_kind(manifest), None)),
            Err(error) => return done(task, order, None, None, Ended::with(failed(&error), None)),
        };
        let target = match target(manifest, &kind) {
            Ok(target) => target,
            Err(outcome) => return done(task, order, Some(kind), None, Ended::with(outcome, None)),
        };
        let ended = self.attempt(task, order, &kind, &target).await;
        done(task, order, Some(kind), Some(target), ended)
    }

    async fn attempt(&self, task: Task<'_>, order: Order<'_>, kind: &Kind, target: &ObjectKey) -> Ended {
        let treatment = treatment(order.configs, kind, target);
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(backoff(attempt - 1, CONFLICT_MIN, CONFLICT_MAX)).await;
            }
            let live = match self.member.get(kind, target).await {
                Ok(live) => live,
                Err(error) => return Ended::with(failed(&error), None),
            };
            let mut differences = task.differences.cloned().unwrap_or_default();
            let look = Look {
                manifest: task.manifest,
                anew: order.anew,
                now: Instant::now(),
            };
            let sent = match decide(task.manifest, live.as_ref(), task.entry, treatment, order.terms) {
                Step::Done(outcome) => {
                    differences.none(look);
                    return looked_at(task, order, treatment, outcome, live).differing(differences);
                }
                Step::Drifted { patch } => {
                    let Some(live) = live else { continue };
                    differences.reported(&patch, &live);
                    let applied = match differences.drifted.is_empty() {
                        true => Applied::Unchanged,
                        false => Applied::Drifted,
                    };
                    return looked_at(task, order, treatment, Outcome::Applied(applied), Some(live))
                        .differing(differences);
                }
                Step::Create { object, copy } => {
                    let repair = task.entry.is_some_and(|entry| recorded(task.manifest, entry));
                    if let (true, Advice::Wait) = (repair, differences.advise_creation(look)) {
                        return taken_away(target, differences);
                    }
                    let made = self.create(kind, target, object, copy, order).await;
                    made.map(|ended| {
                        ended.map(|ended| {
                            let sent = Written {
                                fields: &[FieldPath::default()],
                                repair,
                                before: None,
                            };
                            answered(task, treatment, order, sent, ended, differences)
                        })
                    })
                }
                Step::Apply { config, manner } => {
                    let before = live.clone();
                    let (fields, repair) = match &before {
                        Some(live) => {
                            let repair = was_applied(task.manifest, live, task.entry);
                            match differences.advise(&config, live, look) {
                                Advice::Wait if repair => {
                                    let outcome = Outcome::Applied(Applied::Fought);
                                    return Ended::with(outcome, before).differing(differences);
                                }
                                Advice::Send { fields } => (fields, repair),
                                // What the server alone sees may be left to do: a field left out.
                                Advice::Wait | Advice::Nothing => (Vec::new(), repair),
                            }
                        }
                        None => {
                            let repair = task.entry.is_some_and(|entry| recorded(task.manifest, entry));
                            if let (true, Advice::Wait) = (repair, differences.advise_creation(look)) {
                                return taken_away(target, differences);
                            }
                            (vec![FieldPath::default()], repair)
                        }
                    };
                    let sent = Sent {
                        kind,
                        target,
                        live,
                        config,
                        manner,
                        treatment,
                    };
                    let applied = self.apply_on_server(sent, task, order).await;
                    applied.map(|ended| {
                        ended.map(|ended| match ended.outcome {
                            Outcome::Applied(Applied::Created | Applied::Changed) => {
                                let written = Written {
                                    fields: &fields,
                                    repair,
                                    before: before.as_ref(),
                                };
                                answered(task, treatment, order, written, ended, differences)
                            }
                            _ => ended.differing(differences),
                        })
                    })
                }
                Step::HandOver { patch } => {
                    let Some(live) = live else { continue };
                    let guarded = guarded(patch, &live);
                    let handed = self.member.patch(kind, target, &guarded, PatchType::Merge);
                    handed.await.map(|after| not_handed_over(&after, treatment, task))
                }
                Step::Patch {
                    patch,
                    patch_type,
                    copy,
                } => {
                    let Some(live) = live else { continue };
                    let quiet = quiet(&patch, &live);
                    if let (true, Some(refused)) = (task.quiet == Some(quiet.as_str()), task.refused) {
                        return Ended {
                            quiet: Some(quiet),
                            ..Ended::with(refused.clone(), Some(live))
                        };
                    }
                    let repair = was_applied(task.manifest, &live, task.entry);
                    let advice = differences.advise(&patch, &live, look);
                    let kept = kept(task, order, &live);
                    let fields = match (advice, repair) {
                        (Advice::Nothing, _) => {
                            let ended = Ended::with(Outcome::Applied(Applied::Unchanged), Some(live));
                            return ended.copied(copy).keeping(kept).differing(differences);
                        }
                        (Advice::Wait, true) => {
                            let ended = Ended::with(Outcome::Applied(Applied::Fought), Some(live));
                            return ended.differing(differences);
                        }
                        (Advice::Wait, false) => Vec::new(),
                        (Advice::Send { fields }, _) => fields,
                    };
                    let guarded = guarded(patch.clone(), &live);
                    match self.member.patch(kind, target, &guarded, patch_type).await {
                        Ok(after) => {
                            let still = object::resource_version(&after) == object::resource_version(&live);
                            let applied = match still {
                                true => Applied::Unchanged,
                                false => Applied::Changed,
                            };
                            let sent = Written {
                                fields: &fields,
                                repair,
                                before: Some(&live),
                            };
                            let ended = Ended::with(Outcome::Applied(applied), Some(after));
                            let ended = ended.copied(copy).keeping(kept);
                            Ok(Some(answered(task, treatment, order, sent, ended, differences)))
                        }
                        Err(error) => {
                            let wanted = patched(&live, &patch, patch_type, task.manifest);
                            let refused = Refused {
                                kind,
                                target,
                                live: &live,
                                wanted: &wanted,
                                treatment,
                            };
                            match self.make_way(&error, refused, task, order).await {
                                Ok(After::Other) => Err(error),
                                Ok(After::Gone) => Ok(None),
                                Ok(After::Ends(outcome)) => {
                                    return Ended {
                                        quiet: (!outcome.wants_retry()).then_some(quiet),
                                        ..Ended::with(outcome, Some(live))
                                    };
                                }
                                Err(error) => Err(error),
                            }
                        }
                    }
                }
            };
            match sent {
                Ok(Some(ended)) => return ended,
                Ok(None) => {}
                Err(error) if matches!(error.fault(), Fault::Conflict | Fault::NotFound) => {}
                Err(error) => return Ended::with(failed(&error), None),
            }
        }
        let message = format!("{target} changed during each of {TRIES} tries");
        Ended::with(
            Outcome::Delayed {
                reason: "Conflict",
                message,
            },
            None,
        )
    }

    /// Makes the object; `None` when it is to be tried again.
    async fn create(
        &self,
        kind: &Kind,
        target: &ObjectKey,
        mut object: Value,
        copy: Copy,
        order: Order<'_>,
    ) -> Result<Option<Ended>, CallError> {
        if !kind.namespaced
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("namespace");
        }
        match self.member.create(kind, target, &object).await {
            Ok(live) => {
                let ended = Ended::with(Outcome::Applied(Applied::Created), Some(live));
                // Nothing was there that could be kept.
                Ok(Some(ended.copied(copy).keeping(Some(BTreeMap::new()))))
            }
            // Not the object is missing, it is about to be made: its namespace is, or its kind.
            Err(error) if error.fault() == Fault::NotFound => Ok(self
                .make_room(kind, target, order)
                .await?
                .map(|outcome| Ended::with(outcome, None))),
            Err(error) => Err(error),
        }
    }

    /// Makes the missing namespace of the application; it is labelled, and never pruned because no ledger has it.
    pub(super) async fn make_room(
        &self,
        kind: &Kind,
        target: &ObjectKey,
        order: Order<'_>,
    ) -> Result<Option<Outcome>, CallError> {
        let key = ObjectKey {
            kind: "Namespace".to_owned(),
            name: target.namespace.clone(),
            ..ObjectKey::default()
        };
        let namespaces = self.kinds.resolve(&key.gvk("v1")).await?;
        let Some(namespaces) = namespaces.filter(|_| kind.namespaced) else {
            return Ok(Some(self.kind_is_gone(target)));
        };
        if self.member.get(&namespaces, &key).await?.is_some() {
            return Ok(Some(self.kind_is_gone(target)));
        }
        if order.app_namespace != Some(target.namespace.as_str()) {
            let message = format!(
                "namespace {} does not exist: add it to the bundle; only the namespace of the application is made \
                 without being asked for",
                target.namespace
            );
            return Ok(Some(Outcome::Failed {
                reason: "NamespaceNotFound",
                message,
            }));
        }
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": target.namespace, "labels": {label::MANAGED_BY: label::MANAGED_BY_VALUE}},
        });
        match self.member.create(&namespaces, &key, &namespace).await {
            Ok(_) => Ok(None),
            Err(error) if error.fault() == Fault::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn kind_is_gone(&self, target: &ObjectKey) -> Outcome {
        self.kinds.forget();
        Outcome::NoKind {
            message: format!("the cluster no longer serves the kind of {target}"),
        }
    }
}

/// An object that somebody deletes again and again is not made before its time.
fn taken_away(target: &ObjectKey, differences: Differences) -> Ended {
    let outcome = Outcome::Delayed {
        reason: FIGHTING,
        message: differences.fighting(&target.to_string()).unwrap_or_default(),
    };
    Ended::with(outcome, None).differing(differences)
}

/// What the member made of a write: whether it took it up, or decided otherwise in the same request.
fn answered(
    task: Task<'_>,
    treatment: Treatment<'_>,
    order: Order<'_>,
    sent: Written<'_>,
    ended: Ended,
    mut differences: Differences,
) -> Ended {
    let Some(after) = &ended.live else {
        return ended.differing(differences);
    };
    let terms = Terms {
        drift: Drift::Correct,
        ..order.terms.clone()
    };
    let left = match decide(task.manifest, Some(after), task.entry, treatment, &terms) {
        Step::Patch { patch, .. } | Step::Apply { config: patch, .. } => Some(patch),
        Step::Done(_) | Step::Drifted { .. } | Step::Create { .. } | Step::HandOver { .. } => None,
    };
    differences.answered(&sent, left.as_ref(), after, Instant::now());
    ended.differing(differences)
}

/// A decision that sends nothing. An object found unchanged whose copy belongs into the ledger gets it there again, in
/// case the ledger was lost.
fn looked_at(
    task: Task<'_>,
    order: Order<'_>,
    treatment: Treatment<'_>,
    outcome: Outcome,
    live: Option<Value>,
) -> Ended {
    let copy = match (&outcome, &live) {
        (Outcome::Applied(Applied::Unchanged), _)
            if treatment.type_ == UpdateStrategyType::ServerSideApply =>
        {
            Some(Copy::OptedOut)
        }
        (Outcome::Applied(Applied::Unchanged), Some(live))
            if object::annotation(live, annotation::LAST_APPLIED).is_none() =>
        {
            Some(
                desired(
                    task.manifest,
                    &order.terms.marker,
                    weight_of_others(task.manifest, live),
                )
                .1,
            )
        }
        _ => None,
    };
    let kept = match (&outcome, &live) {
        (Outcome::Applied(_), Some(live)) => kept(task, order, live),
        _ => None,
    };
    Ended {
        copy,
        kept,
        ..Ended::with(outcome, live)
    }
}

/// How a manifest ends whose managed fields the member does not let us hand over; `None` if it did.
fn not_handed_over(after: &Value, treatment: Treatment<'_>, task: Task<'_>) -> Option<Ended> {
    let manager = manner(treatment).manager;
    taken_over(after, &manager)?;
    let message = format!(
        "{}: the cluster keeps its managed fields as they are; field manager {manager} cannot take over what was \
         applied before",
        task.manifest.key
    );
    let outcome = Outcome::Failed {
        reason: "ApplyConflict",
        message,
    };
    Some(Ended::with(outcome, None))
}

/// What the ledger is told of values that a rule kept, on the live object as it was before.
pub(super) fn kept(task: Task<'_>, order: Order<'_>, live: &Value) -> Option<BTreeMap<String, Value>> {
    match order.terms.rules.of(&task.manifest.object) {
        Ok(Some(keeping)) => keeping.record(task.manifest, live, task.entry).ok()?,
        Ok(None) | Err(_) => Some(BTreeMap::new()),
    }
}

/// The object as a patch makes it.
fn patched(live: &Value, patch: &Value, patch_type: PatchType, manifest: &Manifest) -> Value {
    let mut patched = live.clone();
    match (
        patch_type,
        schema::lookup(&manifest.api_version(), &manifest.key.kind),
    ) {
        (PatchType::Strategic, Some(schema)) => {
            // A patch that does not apply here was not refused by the member for what it changes.
            if strategic_merge(&mut patched, patch, schema).is_err() {
                return live.clone();
            }
        }
        _ => json_merge(&mut patched, patch),
    }
    patched
}

/// The patch with the resource version it was computed on: the member refuses it if the object changed meanwhile, or is
/// another one by now.
fn guarded(mut patch: Value, live: &Value) -> Value {
    if let (Some(version), Some(patch)) = (object::resource_version(live), patch.as_object_mut()) {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
    patch
}

/// See [`Observation::quiet`].
pub(super) fn quiet(patch: &Value, live: &Value) -> String {
    let mut still = live.clone();
    if let Some(object) = still.as_object_mut() {
        object.remove("status");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
    }
    hash::of_value(&json!([patch, still]))
}

/// The outcome of a call that failed.
pub(crate) fn failed(error: &CallError) -> Outcome {
    let message = error.message();
    match error.fault() {
        Fault::Passing(reason) => Outcome::Delayed { reason, message },
        Fault::Conflict => Outcome::Delayed {
            reason: "Conflict",
            message,
        },
        Fault::NotFound | Fault::Gone => Outcome::Delayed {
            reason: "NotFound",
            message,
        },
        Fault::Lasting(reason) => Outcome::Failed { reason, message },
    }
}

/// Everything that is remembered of an attempt.
fn done(
    task: Task<'_>,
    order: Order<'_>,
    kind: Option<Arc<Kind>>,
    target: Option<ObjectKey>,
    ended: Ended,
) -> Done {
    let manifest = task.manifest;
    let key = &manifest.key;
    let rules = kind
        .as_deref()
        .and_then(|kind| order.rules.of(kind, target.as_ref().unwrap_or(key)));
    let sight = sight(task, &ended, rules);
    let settled = settled(task, &ended, &sight, rules);
    let observation = Observation {
        meta: ResourceMeta {
            ordinal: manifest.ordinal,
            group: key.group.clone(),
            version: manifest.version.clone(),
            kind: key.kind.clone(),
            resource: kind
                .as_ref()
                .map(|kind| kind.resource.plural.clone())
                .unwrap_or_default(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        },
        target: Some(target.unwrap_or_else(|| key.clone())),
        kind,
        labelled: object::label(&manifest.object, label::APP_NAME).is_some(),
        outcome: ended.outcome,
        readiness: sight.readiness,
        workload: sight.workload,
        examined: rules.map(|_| Box::new(sight.examined)),
        seen: ended
            .live
            .as_ref()
            .and_then(object::resource_version)
            .map(str::to_owned),
        differences: ended
            .differences
            .or_else(|| task.differences.cloned())
            .unwrap_or_default(),
        quiet: ended.quiet,
    };
    Done {
        key: key.clone(),
        ordinal: manifest.ordinal,
        observation,
        settled,
    }
}

/// What the attempt left to be seen.
fn sight(task: Task<'_>, ended: &Ended, rules: Option<&RuleSet>) -> Sight {
    let manifest = task.manifest;
    let unseen = |readiness, examined| Sight {
        readiness,
        workload: None,
        examined,
    };
    match (&ended.outcome, &ended.live) {
        (Outcome::Applied(Applied::Finished), _) => {
            let failure = task.entry.and_then(|entry| entry.failure.clone());
            let readiness = failure.map_or(Readiness::Ready, |message| Readiness::Failed {
                reason: "Failed".to_owned(),
                message,
            });
            unseen(
                readiness,
                rules.map(RuleSet::examine_finished).unwrap_or_default(),
            )
        }
        // Nothing is waited for that is not to come back; the report says which it is.
        (Outcome::Applied(Applied::KeptDeleted), _) => unseen(
            Readiness::Ready,
            rules
                .map(|rules| rules.unexamined("the object was deleted and stays so"))
                .unwrap_or_default(),
        ),
        (_, Some(live)) => {
            let same = task
                .entry
                .filter(|entry| entry.uid.as_deref() == object::uid(live));
            let written = same.and_then(|entry| entry.written_generation);
            look(&manifest.key, &manifest.version, live, written, rules)
        }
        (outcome, None) => {
            // A member that does not answer has not undone what was complete.
            let known = task.entry.filter(|entry| {
                entry.outcome == LedgerOutcome::Completed && entry.digest.as_deref() == Some(&manifest.digest)
            });
            let examined = match (outcome, known) {
                (Outcome::Delayed { .. }, Some(_)) => rules.map(RuleSet::examine_finished),
                _ => rules.map(|rules| rules.unexamined("the object was not read")),
            };
            let readiness = Readiness::Progressing("not applied yet".to_owned());
            unseen(readiness, examined.unwrap_or_default())
        }
    }
}

/// What the ledger is told.
fn settled(task: Task<'_>, ended: &Ended, sight: &Sight, rules: Option<&RuleSet>) -> Option<Settled> {
    let readiness = &sight.readiness;
    let finished_job = task.manifest.key.is("batch", "Job") && *readiness == Readiness::Ready;
    // Of an object that its rules call complete no other is made, well or badly as it ended.
    let complete = rules.is_some_and(RuleSet::completes) && sight.examined.complete() == Some(true);
    let manifest = task.manifest;
    match (&ended.outcome, &ended.live) {
        (
            Outcome::Delayed {
                reason: RECREATING, ..
            },
            _,
        ) => Some(Settled::Intended),
        (
            Outcome::Applied(Applied::Finished | Applied::KeptDeleted)
            | Outcome::Delayed { .. }
            | Outcome::Undecodable(_),
            _,
        ) => None,
        (Outcome::Applied(Applied::Observed), _) => Some(Settled::Observed),
        (Outcome::Refused(_), _) => Some(Settled::NotOurs),
        (Outcome::Applied(applied), Some(live)) => Some(Settled::Ours(Box::new(Ours {
            version: manifest.version.clone(),
            uid: object::uid(live)?.to_owned(),
            digest: manifest.digest.clone(),
            revision: object::label(&manifest.object, label::REVISION).map(str::to_owned),
            application_generation: object::annotation(&manifest.object, annotation::GENERATION)
                .map(str::to_owned),
            generation: object::generation(live),
            written: matches!(applied, Applied::Created | Applied::Changed),
            completed: finished_job || complete,
            failure: match readiness {
                Readiness::Failed { reason, message } if complete => {
                    Some(format!("{reason}: {message:.256}"))
                }
                _ => None,
            },
            copy: ended.copy.as_ref().map(|copy| match copy {
                Copy::Ledger(value) => Some(value.clone()),
                Copy::Annotation | Copy::OptedOut => None,
            }),
            kept: ended.kept.clone(),
        }))),
        (Outcome::Applied(_) | Outcome::NoKind { .. } | Outcome::Failed { .. }, _) => Some(Settled::Failed),
    }
}
