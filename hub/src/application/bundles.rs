//! The writes of a plan. One cluster that fails never stops the others.

use super::{Key, cache::Cache, error::PassError};
use crate::{
    dispatch::{
        Divided, Observed, Plan, Target, Wanted,
        plan::Todo,
        removal::{self, Removal},
    },
    writes,
};
use futures::{FutureExt, Stream, StreamExt, TryFutureExt, stream};
use kube::{Api, Client, api::Patch};
use roundhouse_api::{
    application::{LetGo, ValidApplication},
    bundle::{ApplicationRef, Bundle, BundleSpec, Deletion},
    names::{BUNDLE_FINALIZER, cluster_namespace},
};
use serde_json::{Value, json};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

/// What came of a number of writes.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// How many went through.
    pub(super) count: usize,
    /// The first that did not.
    pub(super) error: Option<PassError>,
    /// Whether somebody wrote one of the objects in between, whatever else went wrong.
    conflicted: bool,
}

impl Written {
    /// Keeps the first error; a conflict gives way to what is wrong.
    pub(super) fn fail(&mut self, error: PassError) {
        self.conflicted |= matches!(error, PassError::Conflict { .. });
        let weak = matches!(self.error, None | Some(PassError::Conflict { .. }));
        if weak {
            self.error = Some(error);
        }
    }

    /// Both together.
    pub(super) fn and(mut self, other: Written) -> Written {
        self.count += other.count;
        self.conflicted |= other.conflicted;
        if let Some(error) = other.error {
            self.fail(error);
        }
        self
    }
}

/// Whether evidence that was not written is of a confirmation, and is to be tried again.
pub(super) fn is_open(by: &str, error: &PassError) -> bool {
    removal::is_confirmation(by) && !error.is_refusal()
}

/// Counts the writes that changed something, each with what confirms it; and those confirmations of which one is to be tried again.
async fn count(
    writes: &mut (impl Stream<Item = (String, Result<bool, PassError>)> + Unpin),
) -> (Written, BTreeSet<String>) {
    let (mut written, mut open) = (Written::default(), BTreeSet::new());
    while let Some((by, outcome)) = writes.next().await {
        match outcome {
            Ok(changed) => written.count += usize::from(changed),
            Err(error) => {
                if is_open(&by, &error) {
                    open.insert(by);
                }
                written.fail(error);
            }
        }
    }
    (written, open)
}

/// On what terms agents treat what an application has in clusters: every Bundle of it says so.
pub(super) fn terms(valid: &ValidApplication, namespace: &str) -> BundleSpec {
    BundleSpec {
        apply_once: valid.apply_once,
        apply_once_rules: valid.apply_once_rules.clone(),
        executor: valid.executor(namespace),
        ..BundleSpec::default()
    }
}

/// Replicas that the Bundles of a cluster asked for, against those that they are to ask for.
fn change(parts: &[(Wanted, Option<Arc<Observed>>)]) -> Ordering {
    let before = parts
        .iter()
        .filter_map(|(_, held)| held.as_ref())
        .map(|held| held.replicas);
    let after = parts.iter().map(|(wanted, _)| wanted.replicas());
    after.sum::<u64>().cmp(&before.sum())
}

/// Bundles that are wanted again while they are on their way out.
fn awaited<'a>(
    plan: &'a Plan,
    observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
) -> impl Iterator<Item = &'a Arc<Observed>> {
    observed.values().flatten().filter(|bundle| {
        let awaited = |wanted: &Wanted| wanted.todo == Todo::AwaitRemoval && wanted.name == bundle.name;
        match plan.targets.get(&bundle.cluster) {
            Some(Target::Bundles(wanted)) => wanted.iter().any(awaited),
            _ => false,
        }
    })
}

/// Whether an agent has removed everything, as somebody has confirmed. It may be kept for what else was confirmed with it.
fn is_over(bundle: &Observed) -> bool {
    let evidence = bundle.spec.deletion.as_ref();
    evidence.is_some_and(|evidence| removal::is_confirmation(&evidence.confirmed_by))
        && removal::next_of_wanted(bundle) == Some(Removal::Release)
}

/// Bundles that are wanted again while their removal is refused, or that somebody deleted: the agent holds the objects, and takes them
/// up again with the Bundle that is made next. Waiting for the removal would never end.
pub(super) fn recalled<'a>(
    plan: &'a Plan,
    observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
) -> impl Iterator<Item = &'a Arc<Observed>> {
    let stays = |bundle: &&Arc<Observed>| removal::is_refused(bundle) || removal::is_deleted_by_hand(bundle);
    awaited(plan, observed).filter(stays)
}

/// Namespace, name and version of a Bundle, as it is held.
fn version_of(bundle: &Observed) -> (&str, &str, &str) {
    (&bundle.namespace, &bundle.name, &bundle.resource_version)
}

/// Whether a write has given a Bundle another version.
fn is_another(after: &Bundle, before: &Observed) -> bool {
    after.metadata.resource_version.as_ref() != Some(&before.resource_version)
}

/// Writes Bundles of one application.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    pub(super) client: &'a Client,
    pub(super) cache: &'a Cache,
    pub(super) key: &'a Key,
    pub(super) epoch: i64,
    /// Bundles that are written at once, and the places for them, which all applications share.
    pub(super) at_once: usize,
    pub(super) places: &'a Semaphore,
}

impl Writer<'_> {
    /// Creates and replaces what the plan says, the answers included in the cache. Of what is to be made again that goes first which
    /// is `noted`.
    pub(super) async fn dispatch(
        self,
        plan: &Plan,
        observed: &BTreeMap<String, Vec<Arc<Observed>>>,
        noted: &[LetGo],
    ) -> Written {
        let wanted = plan.targets.iter().filter_map(|(cluster, target)| match target {
            Target::Bundles(wanted) => Some((cluster, wanted)),
            _ => None,
        });
        // The plan may be made from what the watch has shown so far.
        let (leaving, wanted): (Vec<_>, Vec<_>) =
            wanted.partition(|(cluster, _)| self.cache.is_leaving(cluster));
        let due = wanted
            .into_iter()
            .map(|(cluster, wanted)| {
                let held = observed.get(cluster).map_or(&[][..], Vec::as_slice);
                let due = wanted.iter().filter(|wanted| wanted.todo.is_write());
                due.map(|wanted| {
                    (
                        wanted.clone(),
                        held.iter().find(|b| b.name == wanted.name).cloned(),
                    )
                })
                .collect::<Vec<_>>()
            })
            .collect::<Vec<_>>();
        // What shrinks is written before what grows: replicas that move are not asked for twice in between. Where
        // somebody wrote in between (an agent reports), what grows waits for the pass that follows; what cannot be written
        // at all stops nobody.
        let mut written = Written::default();
        for turn in [Ordering::Less, Ordering::Greater, Ordering::Equal] {
            if turn == Ordering::Greater && written.conflicted {
                continue;
            }
            let due = due.iter().filter(|parts| change(parts) == turn).cloned();
            let mut writes = stream::iter(due.collect::<Vec<_>>())
                .map(|parts| self.write_parts(parts))
                .buffer_unordered(self.at_once);
            while let Some(parts) = writes.next().await {
                written = written.and(parts);
            }
        }
        let is_due = |wanted: &&Wanted| wanted.todo.is_write();
        if let Some(left_out) = leaving.iter().find_map(|(_, wanted)| wanted.iter().find(is_due)) {
            // Looked at again, if only by and by: that it does not leave any more is nobody's event.
            written.fail(PassError::Conflict {
                application: format!("{}/{}", self.key.0, self.key.1),
                action: format!(
                    "writing bundle {}/{}: its cluster leaves",
                    left_out.namespace, left_out.name
                ),
            });
        }
        written.and(self.recall(plan, observed, noted).await)
    }

    /// Lets Bundles go that are wanted again, as far as that is noted, or nothing is left to note: see [`recalled`].
    async fn recall(
        self,
        plan: &Plan,
        observed: &BTreeMap<String, Vec<Arc<Observed>>>,
        noted: &[LetGo],
    ) -> Written {
        let mut written = Written::default();
        let noted = recalled(plan, observed).filter(|bundle| noted.contains(&bundle.let_go()));
        let over = awaited(plan, observed).filter(|bundle| is_over(bundle));
        let all = noted.chain(over);
        for bundle in all.filter(|bundle| !self.cache.is_leaving(&bundle.cluster)) {
            match self.release(bundle).await {
                Ok(()) => written.count += 1,
                Err(error) => written.fail(error),
            }
        }
        written
    }

    /// Makes a Bundle that has nothing but the evidence for removal, on the [`terms`] of the application: its cluster may hold
    /// objects of one that was let go, and what apply-once keeps it keeps here, too.
    pub(super) async fn entomb(
        self,
        application: &ApplicationRef,
        terms: &BundleSpec,
        deletion: Deletion,
        of: &LetGo,
    ) -> Result<bool, PassError> {
        let spec = BundleSpec {
            application_ref: Some(application.clone()),
            revision: Some(deletion.revision.clone()),
            epoch: Some(self.epoch),
            deletion: Some(deletion),
            ..terms.clone()
        };
        let wanted = Wanted {
            namespace: cluster_namespace(&of.cluster),
            name: of.bundle.clone(),
            step: String::new(),
            steps: None,
            part: 0,
            divided: Arc::new(Divided { parts: Vec::new() }),
            spec,
            todo: Todo::Create,
        };
        self.write(wanted, None).await
    }

    /// Writes the parts of one cluster, the last one first, and stops at the first that fails. An object that moves to
    /// a later part is there before it goes from its former one, or its agent would prune it in between.
    async fn write_parts(self, parts: Vec<(Wanted, Option<Arc<Observed>>)>) -> Written {
        let mut written = Written::default();
        for (wanted, existing) in parts.into_iter().rev() {
            match self.write(wanted, existing).await {
                Ok(changed) => written.count += usize::from(changed),
                Err(error) => {
                    written.fail(error);
                    break;
                }
            }
        }
        written
    }

    /// Writes one Bundle; `false` if the server had it just so: that is no progress, however often it is repeated.
    async fn write(self, wanted: Wanted, existing: Option<Arc<Observed>>) -> Result<bool, PassError> {
        let _place = self.places.acquire().await;
        let api: Api<Bundle> = Api::namespaced(self.client.clone(), &wanted.namespace);
        let before = existing
            .as_ref()
            .map(|existing| existing.resource_version.clone());
        // A task of its own, which ends with this one: a thousand large objects are made, sent and read by all cores.
        let (sender, wanted) = (api.clone(), Arc::new(wanted));
        let (namespace, name) = (wanted.namespace.as_str(), wanted.name.as_str());
        let sent = wanted.clone();
        let call = async move {
            let bundle = sent.bundle(existing.as_deref());
            let post = writes::post();
            let after = match &existing {
                Some(_) => sender.replace(&sent.name, &post, &bundle).await?,
                None => sender.create(&post, &bundle).await?,
            };
            Ok((after.metadata.resource_version.clone(), Observed::of(after)))
        };
        let send = || {
            let call = AbortOnDropHandle::new(tokio::spawn(call));
            call.map(|ended| ended.unwrap_or_else(|error| Err(kube::Error::Service(error.into()))))
        };
        let answer = match &before {
            Some(before) => {
                let is_another = |(after, _): &(Option<String>, _)| after.as_deref() != Some(before);
                let bundle = (namespace, name, before.as_str());
                self.watched(bundle, is_another, send()).await
            }
            None => {
                let unanswered = self.cache.unanswered();
                unanswered.watch_new(self.key, (namespace, name), send).await
            }
        };
        match answer {
            Ok((after, observed)) => {
                if let Some(observed) = observed {
                    self.cache.put_bundle(observed);
                }
                Ok(after != before)
            }
            Err(kube::Error::Api(status)) if before.is_none() && status.is_already_exists() => {
                Err(self.in_the_way(&api, &wanted).await)
            }
            Err(error) => Err(self.failed(error, "writing", &wanted.namespace, &wanted.name)),
        }
    }

    /// Why a Bundle could not be created: it is ours and not seen yet, or it is somebody else's.
    async fn in_the_way(self, api: &Api<Bundle>, wanted: &Wanted) -> PassError {
        let (application, object) = (
            format!("{}/{}", self.key.0, self.key.1),
            format!("bundle {}/{}", wanted.namespace, wanted.name),
        );
        match api.get(&wanted.name).await {
            Ok(found) if found.spec.application_ref != wanted.spec.application_ref => {
                PassError::Foreign { application, object }
            }
            _ => PassError::Conflict {
                application,
                action: format!("creating {object}"),
            },
        }
    }

    /// Sends a write of a Bundle in a version: as long as nobody has answered it, it may be done yet. `is_another` says of an
    /// answer whether the Bundle has another version by it.
    async fn watched<T>(
        self,
        bundle: (&str, &str, &str),
        is_another: impl Fn(&T) -> bool,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, kube::Error> {
        let unanswered = self.cache.unanswered();
        unanswered.watch(self.key, bundle, is_another, request).await
    }

    pub(super) fn failed(self, error: kube::Error, doing: &str, namespace: &str, name: &str) -> PassError {
        let title = format!("{}/{}", self.key.0, self.key.1);
        PassError::api(&title, format!("{doing} bundle {namespace}/{name}"), error)
    }

    fn take(
        self,
        answer: Result<Bundle, kube::Error>,
        doing: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), PassError> {
        let bundle = answer.map_err(|error| self.failed(error, doing, namespace, name))?;
        if let Some(observed) = Observed::of(bundle) {
            self.cache.put_bundle(observed);
        }
        Ok(())
    }

    /// Takes these removals one step further, each as far as it goes without an answer of its agent.
    pub(super) async fn remove(self, due: Vec<(Arc<Observed>, Deletion)>) -> Written {
        self.remove_after(BTreeSet::new(), due).await
    }

    /// The same. All that was confirmed together has the evidence before any of it goes: by that a hub that goes on finds out what
    /// one that was killed has not come to. `open`: the confirmations of which that is known not to be so. Who refuses the evidence
    /// for good holds up no other.
    pub(super) async fn remove_after(
        self,
        mut open: BTreeSet<String>,
        due: Vec<(Arc<Observed>, Deletion)>,
    ) -> Written {
        // Of a cluster that leaves the cluster controller takes the Bundles away, as its user said.
        let due = due
            .into_iter()
            .filter(|(bundle, _)| !self.cache.is_leaving(&bundle.cluster));
        let is_first = |(bundle, deletion): &(Arc<Observed>, Deletion)| {
            removal::next(bundle, Some(deletion)) == Removal::Confirm
        };
        let (first, mut rest): (Vec<_>, Vec<_>) = due.partition(is_first);
        let (written, failed) = self.steps(first).await;
        open.extend(failed);
        rest.retain(|(_, deletion)| !open.contains(&deletion.confirmed_by));
        written.and(self.steps(rest).await.0)
    }

    async fn steps(self, due: Vec<(Arc<Observed>, Deletion)>) -> (Written, BTreeSet<String>) {
        let mut removals = stream::iter(due)
            .map(|(bundle, deletion)| async move {
                let done = self.step(bundle, &deletion).await;
                (deletion.confirmed_by, done)
            })
            .buffer_unordered(self.at_once);
        count(&mut removals).await
    }

    async fn step(self, bundle: Arc<Observed>, deletion: &Deletion) -> Result<bool, PassError> {
        let _place = self.places.acquire().await;
        match removal::next(&bundle, Some(deletion)) {
            Removal::Confirm => self.confirm(&bundle, deletion).await?,
            // Of the epoch that its agent obeys it is no word yet.
            Removal::Delete | Removal::Await if bundle.is_of_an_earlier_term(self.epoch) => {
                self.confirm(&bundle, deletion).await?;
            }
            Removal::Delete => self.delete(&bundle).await?,
            // What holds it now is somebody else's.
            Removal::Release if !bundle.finalizers.iter().any(|f| f == BUNDLE_FINALIZER) => return Ok(false),
            Removal::Release => self.release(&bundle).await?,
            Removal::Await => return Ok(false),
        }
        Ok(true)
    }

    /// Writes the positive evidence that the objects may go.
    async fn confirm(self, bundle: &Observed, deletion: &Deletion) -> Result<(), PassError> {
        let spec = json!({"deletion": deletion, "epoch": self.epoch});
        self.patch(bundle, "confirming the removal of", json!({}), spec)
            .await
    }

    /// Removes dispatch's finalizer.
    pub(super) async fn release(self, bundle: &Observed) -> Result<(), PassError> {
        let kept: Vec<_> = bundle
            .finalizers
            .iter()
            .filter(|f| *f != BUNDLE_FINALIZER)
            .collect();
        let answer = self
            .patch(bundle, "releasing", json!({"finalizers": kept}), Value::Null)
            .await;
        let key = (bundle.namespace.clone(), bundle.name.clone());
        if answer.is_ok() && kept.is_empty() {
            // Nothing holds it any more.
            self.cache.remove_bundle(&key);
        }
        match answer {
            // It went in between.
            Err(error) if error.is_gone() => {
                self.cache.remove_bundle(&key);
                Ok(())
            }
            other => other,
        }
    }

    pub(super) async fn patch(
        self,
        bundle: &Observed,
        doing: &str,
        metadata: Value,
        spec: Value,
    ) -> Result<(), PassError> {
        let api: Api<Bundle> = Api::namespaced(self.client.clone(), &bundle.namespace);
        let mut patch = json!({"metadata": metadata});
        patch["metadata"]["resourceVersion"] = json!(bundle.resource_version);
        if !spec.is_null() {
            patch["spec"] = spec;
        }
        let (params, patch) = (writes::patch(), Patch::Merge(patch));
        let is_another = |after: &Bundle| is_another(after, bundle);
        let sent = api.patch(&bundle.name, &params, &patch);
        let answer = self.watched(version_of(bundle), is_another, sent).await;
        self.take(answer, doing, &bundle.namespace, &bundle.name)
    }

    async fn delete(self, bundle: &Observed) -> Result<(), PassError> {
        let api: Api<Bundle> = Api::namespaced(self.client.clone(), &bundle.namespace);
        let params = writes::delete_version(Some(bundle.uid.clone()), Some(bundle.resource_version.clone()));
        let key = (bundle.namespace.clone(), bundle.name.clone());
        let is_another = |left: &Option<Bundle>| left.as_ref().is_none_or(|left| is_another(left, bundle));
        let sent = api.delete(&bundle.name, &params).map_ok(|answer| answer.left());
        let answer = self.watched(version_of(bundle), is_another, sent).await;
        match answer {
            Ok(left) => {
                match left {
                    Some(bundle) if bundle.metadata.deletion_timestamp.is_some() => {
                        if let Some(observed) = Observed::of(bundle) {
                            self.cache.put_bundle(observed);
                        }
                    }
                    _ => {
                        self.cache.remove_bundle(&key);
                    }
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.cache.remove_bundle(&key);
                Ok(())
            }
            Err(error) => {
                let title = format!("{}/{}", self.key.0, self.key.1);
                Err(PassError::api(
                    &title,
                    format!("deleting bundle {}/{}", key.0, key.1),
                    error,
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_known_whatever_else_went_wrong() {
        let conflict = || PassError::Conflict {
            application: "default/web".to_owned(),
            action: "writing it".to_owned(),
        };
        let refused = || PassError::Fenced {
            application: "default/web".to_owned(),
            stored: 2,
            own: 1,
        };
        for errors in [[conflict(), refused()], [refused(), conflict()]] {
            let mut written = Written::default();
            for error in errors {
                let mut one = Written::default();
                one.fail(error);
                written = written.and(one);
            }
            assert!(written.conflicted);
            assert!(matches!(written.error, Some(PassError::Fenced { .. })));
        }
        let mut written = Written::default();
        written.fail(refused());
        assert!(!written.conflicted);
    }
}
