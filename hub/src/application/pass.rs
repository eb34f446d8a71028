//! One level-triggered pass over one application.
//!
//! validate → render → revision → (decide → plan → evidence → advance → write status → carry out)* → status.
//! The inner loop goes on while something moves, so that steps that need not wait pass in one go; a report, a new
//! spec or a command starts the next pass.

use super::{
    Key, acting,
    admission::ADMIT_AGAIN,
    bundles::{self, Writer, Written},
    cache::{Cache, Stored},
    error::PassError,
    events::{About, Recorder, Transition},
    feedback, placing,
    queue::Queue,
    removing, revisions, status,
    view::{Delivery, Known, View, foreign, names, view},
    witness::Witness,
};
use crate::{
    action::{Jobs, Watches},
    dispatch::{Content, Target},
    leader,
    metrics::Metrics,
    placement::Sight,
    relist::key_of,
    render::{self, Rendered, Variants},
    tenancy::Tenancy,
    workflow::{self, Effect, Limits, Spec, Status},
    writes,
};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{
        ACCEPTED, ApplicationPhase, ApplicationStatus, Found, LetGo, MAX_LET_GO, MAX_LET_GO_UNWANTED,
        Unresolved, ValidApplication, Violation, WorkflowStatus, resolve,
    },
    bundle::ApplicationRef,
    clock::SharedClock,
    condition,
    decision::{Decision, DecisionSpec},
    names::decision_name,
    revision::ApplicationRevision,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};

/// Rounds of the inner loop beyond the number of steps; a pass that reaches it goes on with the next one.
const MORE_ROUNDS: usize = 4;

/// Pause before a pass that only repeats writes.
const PAUSE: Duration = Duration::from_secs(1);

/// What a hub makes of a spec.
type Made = (Rendered, Variants);

/// What passes share.
pub(super) struct Hub {
    pub(super) client: Client,
    pub(super) cache: Arc<Cache>,
    pub(super) clock: SharedClock,
    pub(super) limits: Limits,
    /// Revisions that are kept beside those in use.
    pub(super) revision_limit: usize,
    /// Bundles that are written at once, and the places for them.
    pub(super) writes_at_once: usize,
    pub(super) places: Semaphore,
    /// Tells what moves.
    pub(super) recorder: Recorder,
    pub(super) metrics: Metrics,
    /// The jobs of steps that act.
    pub(super) jobs: Jobs,
    /// The objects that steps wait for.
    pub(super) watches: Watches,
    /// Wakes an application whose job is over.
    pub(super) queue: Arc<Queue>,
    /// What applications may contain.
    pub(super) tenancy: Tenancy,
    pub(super) witness: Option<Witness>,
    /// Fencing epoch of this hub.
    pub(super) epoch: i64,
    /// What earlier hubs made of the specs that are delivered, where this one would make something else: by the uid of the
    /// record.
    pub(super) earlier: Mutex<HashMap<Key, (String, Arc<Made>)>>,
    /// Applications, by uid, of which it was told that they are left alone: once.
    pub(super) fenced: Mutex<HashSet<String>>,
    /// When each application's status was written last.
    pub(super) written: Mutex<HashMap<Key, Instant>>,
}

/// How a pass ended.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Look again after this time, if nothing happens before.
    pub(super) wake: Option<Duration>,
    /// What did not go through; the rest did.
    pub(super) error: Option<PassError>,
    /// What was let go, and whose clusters nobody can tell: somebody else has the Bundle.
    pub(super) untold: BTreeSet<LetGo>,
    /// The last version of the application that its status was written as.
    pub(super) wrote: Option<String>,
}

impl Outcome {
    pub(super) fn wake(&mut self, after: Duration) {
        self.wake = Some(self.wake.map_or(after, |wake| wake.min(after)));
    }

    /// Of what was written there is a next step: the events of our own writes wake nobody.
    pub(super) fn wake_after(&mut self, written: &Written) {
        if written.count > 0 {
            self.wake(Duration::ZERO);
        }
    }
}

impl Hub {
    /// Looks at one application. Any pass may run at any time and twice.
    pub(super) async fn pass(&self, key: &Key) -> Result<Outcome, PassError> {
        if !self.cache.complete() {
            return Ok(Outcome::default());
        }
        let stored = self.cache.application(key);
        if let Some(app) = &stored {
            self.check_epoch(app)?;
        }
        let unfenced = self.writer(key).fence().await?;
        let deleting = stored.as_ref().is_some_and(|app| app.deleting);
        let workflow = stored.as_ref().and_then(|app| app.status.workflow.as_ref());
        let awaited = workflow.filter(|_| !deleting);
        let bundles = self.cache.all_bundles(key);
        if let Some(app) = stored.as_ref().filter(|_| !deleting) {
            let going = removing::without_evidence(self.writer(key), &bundles);
            let going = (going, MAX_LET_GO_UNWANTED);
            let noted = removing::let_go(&app.status.let_go, going, &bundles, &self.cache.fleet());
            if noted.iter().any(|note| !app.status.let_go.contains(note)) {
                // Before it is let go: were the application deleted meanwhile, nobody would know of the objects.
                let mut status = app.status.clone();
                status.let_go = noted;
                let mut outcome = Outcome::default();
                self.store(app, status, true, &mut outcome).await?;
                outcome.wake(Duration::ZERO);
                return Ok(outcome);
            }
        }
        let noted = stored.as_ref().map(|app| &app.status.let_go[..]);
        let asks = stored.as_ref().filter(|_| !deleting);
        let stays = removing::Stays {
            workflow: awaited,
            confirmation: asks.and_then(|app| removing::carried_out_in_part(app, &bundles)),
        };
        let released = removing::release(self.writer(key), &bundles, deleting, noted, stays).await;
        let Some(app) = stored else {
            // Absence is no evidence: Bundles of an application that vanished are held.
            self.written.lock().remove(key);
            self.earlier.lock().remove(key);
            self.jobs.give_up(&key.0, &key.1);
            self.watches.give_up(&key.0, &key.1);
            let mut outcome = Outcome::default();
            outcome.wake_after(&released);
            outcome.error = released.error;
            return Ok(outcome);
        };
        let mut outcome = match deleting {
            true => self.delete(key, app).await,
            false => self.deliver(key, app).await,
        }?;
        if let Some(again) = unfenced {
            outcome.wake(again);
        }
        outcome.wake_after(&released);
        outcome.error = outcome.error.or(released.error);
        Ok(outcome)
    }

    /// Nothing of an application is written whose status this hub may not write: its run could not be stored.
    fn check_epoch(&self, app: &Stored) -> Result<(), PassError> {
        let stored = app.status.workflow.as_ref().and_then(|run| run.epoch);
        match stored.filter(|_| leader::is_newer(stored, self.epoch)) {
            None => Ok(()),
            Some(stored) => {
                let error = PassError::Fenced {
                    application: app.title(),
                    stored,
                    own: self.epoch,
                };
                if self.fenced.lock().insert(app.uid.clone()) {
                    let told = vec![Transition::fenced(error.to_string())];
                    self.recorder.tell(&About::of(app), told, self.clock.now());
                }
                Err(error)
            }
        }
    }

    pub(super) fn writer<'a>(&'a self, key: &'a Key) -> Writer<'a> {
        Writer {
            client: &self.client,
            cache: &self.cache,
            key,
            epoch: self.epoch,
            at_once: self.writes_at_once,
            places: &self.places,
        }
    }

    async fn deliver(&self, key: &Key, app: Arc<Stored>) -> Result<Outcome, PassError> {
        let app = match self.finalize(app.clone()).await {
            Ok(app) => app,
            Err(error) => return self.not_recorded(&app, app.status.clone(), error).await,
        };
        let object: Value = serde_json::from_slice(&app.bytes).unwrap_or_default();
        let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
        let now = self.clock.now();
        let mut status = app.status.clone();
        status.observed_generation = Some(app.generation);
        let mut valid = match app.understand(&spec) {
            Ok(valid) => valid,
            Err(violations) => return self.refuse(&app, status, &violations).await,
        };
        let unresolved = self.resolve(key, &app, &mut valid);
        let mut rendered = render::render(&app.namespace, &app.name, &valid);
        let violations = match self.admit(&app, &valid, &rendered).await {
            Ok(violations) => violations,
            Err(error) => return self.not_recorded(&app, status, error).await,
        };
        if !violations.is_empty() {
            let mut outcome = self.refuse(&app, status, &violations).await?;
            outcome.wake(ADMIT_AGAIN);
            return Ok(outcome);
        }
        status::accepted(&mut status, &[], app.generation, now);
        rendered.replica_paths = self.cache.replica_paths(&app.namespace);
        let prepared = self.prepare(key, app.clone(), &mut status, &spec, valid, rendered);
        match prepared.await {
            Ok((mut delivery, app)) => {
                delivery.unresolved = unresolved;
                let mut outcome = self.rounds(&mut delivery, app, status).await?;
                let history = self.keep_history(key).await;
                outcome.wake_after(&history);
                outcome.error = outcome.error.or(history.error);
                if let Some(app) = self.cache.application(key) {
                    app.forget_at_rest();
                }
                Ok(outcome)
            }
            Err(error) => self.not_recorded(&app, status, error).await,
        }
    }

    /// Says why no run of a spec can begin, or be looked at: whoever looks at the application has to see what is in its way.
    async fn not_recorded(
        &self,
        app: &Arc<Stored>,
        mut status: ApplicationStatus,
        error: PassError,
    ) -> Result<Outcome, PassError> {
        let is_of_run = status.workflow.as_ref().and_then(|run| run.generation) == Some(app.generation);
        let may_pass = matches!(error, PassError::Api { .. }) && !error.is_refusal();
        // What goes on is not less delivered because an answer is missing.
        if error.is_conflict() || (is_of_run && may_pass) {
            return Err(error);
        }
        let mut outcome = Outcome::default();
        status::stuck(
            &mut status,
            "NotRecorded",
            &error,
            app.generation,
            self.clock.now(),
        );
        // How the run of the spec before went says nothing of this one, of which there is none.
        if !is_of_run {
            status.observed_generation = app.status.observed_generation;
            let refused =
                condition::get(&app.status.conditions, ACCEPTED).filter(|told| told.status == "False");
            match refused.filter(|_| condition::is_true(&status.conditions, ACCEPTED)) {
                // It is accepted by now, and its phase is not that of a refusal any more.
                Some(refused) if refused.observed_generation == Some(app.generation) => status.phase = None,
                // Why the one before was refused is still why the phase is that of a refusal.
                Some(refused) => status.conditions.iter_mut().for_each(|told| {
                    if told.type_ == ACCEPTED {
                        told.clone_from(refused);
                    }
                }),
                None => {}
            }
        }
        self.store(app, status, false, &mut outcome).await?;
        outcome.error = Some(error);
        Ok(outcome)
    }

    /// Says why a spec is not accepted; what is running stays as it is.
    async fn refuse(
        &self,
        app: &Arc<Stored>,
        mut status: ApplicationStatus,
        violations: &[Violation],
    ) -> Result<Outcome, PassError> {
        let now = self.clock.now();
        status.phase = Some(ApplicationPhase::Rendering);
        status::accepted(&mut status, violations, app.generation, now);
        status::refused(&mut status, app.generation, now);
        status::clusters_seen(&mut status, self.cache.sees_clusters(), app.generation, now);
        let mut outcome = Outcome::default();
        self.store(app, status, true, &mut outcome).await?;
        Ok(outcome)
    }

    /// Puts the Placements in that the application refers to, and notes what its steps look at from now on: before the
    /// fleet is looked at, so that no change falls in between.
    fn resolve(&self, key: &Key, app: &Stored, valid: &mut Arc<ValidApplication>) -> Option<Unresolved> {
        let named = app.references.iter().filter_map(|name| {
            let (placement, _) = self.cache.placement(&(key.0.clone(), name.clone()))?;
            Some((name.as_str(), placement))
        });
        let named: BTreeMap<&str, _> = named.collect();
        let resolved = match app.references.is_empty() {
            true => Ok(()),
            false => resolve(Arc::make_mut(valid), |name| {
                match named.get(name).map(|p| &p.verdict) {
                    None => Found::Missing,
                    Some(Ok(spec)) => Found::Valid(spec),
                    Some(Err(violations)) => Found::Refused(violations),
                }
            }),
        };
        let sight = resolved.is_ok().then(|| Sight::of(&placing::looking(valid)));
        self.cache.looks_at(key, sight);
        resolved.err()
    }

    /// Makes sure that the revision is recorded before a run of it starts.
    async fn prepare<'a>(
        &self,
        key: &'a Key,
        app: Arc<Stored>,
        status: &mut ApplicationStatus,
        spec: &Value,
        valid: Arc<ValidApplication>,
        rendered: Rendered,
    ) -> Result<(Delivery<'a>, Arc<Stored>), PassError> {
        let application = ApplicationRef {
            namespace: app.namespace.clone(),
            name: app.name.clone(),
            uid: app.uid.clone(),
        };
        let existing = self.cache.revisions(key);
        let latest = status.latest_revision.as_ref();
        let variants = render::variants(&app.namespace, &app.name, &valid);
        let recorded = render::with_variants(&rendered, &variants);
        let choice = revisions::choose(&application, &existing, latest, spec, &recorded);
        let of = (app.namespace.as_str(), app.name.as_str());
        let steps = Spec::new(&choice.latest.name, app.generation, of, &valid, self.limits);
        let started = status
            .workflow
            .as_ref()
            .is_some_and(|workflow| steps.is_of(workflow));
        if !started || !choice.exists {
            let revision = revisions::ensure(
                &self.client,
                key,
                &application,
                app.generation,
                &choice,
                spec,
                &recorded,
            );
            self.cache.put_revision(revision.await?);
        }
        let (rendered, variants) = match choice.differs {
            false => {
                self.earlier.lock().remove(key);
                (rendered, variants)
            }
            true => {
                let kept = self.kept(key, &application, &choice, spec, &recorded).await?;
                let replica_paths = rendered.replica_paths;
                let rendered = Rendered {
                    replica_paths,
                    ..kept.0.clone()
                };
                (rendered, kept.1.clone())
            }
        };
        let content = Content {
            namespace: app.namespace.clone(),
            application: app.name.clone(),
            revision: choice.latest.name.clone(),
            generation: app.generation,
            components: choice.components,
            rendered,
            variants,
        };
        status.latest_revision = Some(choice.latest);
        let delivery = Delivery {
            key,
            application,
            manifest_configs: feedback::manifest_configs(&valid, &content.rendered),
            workloads: render::workloads(&content.rendered),
            valid,
            content,
            spec: steps,
            unresolved: None,
            former: BTreeMap::new(),
        };
        Ok((delivery, app))
    }

    /// What an earlier hub made of the spec that is delivered; read once.
    async fn kept(
        &self,
        key: &Key,
        application: &ApplicationRef,
        choice: &revisions::Choice,
        spec: &Value,
        recorded: &Rendered,
    ) -> Result<Arc<Made>, PassError> {
        let name = &choice.latest.name;
        let record = self.cache.revisions(key);
        let record = record.iter().find(|record| record.name_any() == *name);
        let uid = record.and_then(|record| record.uid()).unwrap_or_default();
        let known = self.earlier.lock().get(key).cloned();
        if let Some((_, content)) = known.filter(|(of, _)| *of == uid) {
            return Ok(content);
        }
        // Parts of the record that are lost are written again, as this hub has them.
        let generation = record.map_or(0, |record| record.spec.generation);
        let record =
            revisions::ensure(&self.client, key, application, generation, choice, spec, recorded).await?;
        let content = render::part_variants(revisions::read(&self.client, key, &record).await?);
        let content = Arc::new(content);
        self.earlier.lock().insert(key.clone(), (uid, content.clone()));
        Ok(content)
    }

    async fn rounds(
        &self,
        delivery: &mut Delivery<'_>,
        mut app: Arc<Stored>,
        mut status: ApplicationStatus,
    ) -> Result<Outcome, PassError> {
        let mut outcome = Outcome::default();
        let mut written = self.restore_decisions(delivery, status.workflow.as_ref()).await;
        let mut calm = None;
        // Whether the server was seen to have the application just so.
        let mut proven = false;
        for round in 0.. {
            let engine = Status {
                phase: status.phase,
                workflow: status.workflow.clone(),
            };
            let (view, read) = self.view_read(delivery, &engine).await;
            written = written.and(read);
            let now = self.clock.now();
            let (next, effects) = workflow::advance(&delivery.spec, &engine, &view.evidence, now);
            status.phase = next.phase;
            status.workflow = next.workflow;
            acting::deliver(&mut status, &delivery.spec);
            self.describe(delivery, &view, &mut status, &app, now);
            let collects = effects.contains(&Effect::CollectGarbage);
            let of = |run: &Option<WorkflowStatus>| run.as_ref().and_then(|run| run.start_time.clone());
            let ended = engine.workflow.as_ref().is_some_and(|run| run.finished);
            let rests = collects && ended && of(&engine.workflow) == of(&status.workflow);
            let revision = &delivery.spec.revision;
            let judged = (collects && view.decided).then(|| {
                let fleet = self.cache.fleet();
                removing::judge(
                    &app,
                    &view.plan,
                    &view.observed,
                    &view.objects,
                    &fleet,
                    revision,
                    now,
                )
            });
            if let Some(judged) = &judged {
                status.spent_confirmation.clone_from(&judged.spent);
            }
            match &judged {
                Some(judged) if view.settled => {
                    status.removals.clone_from(&judged.removals);
                    status::held(&mut status, judged.held.clone(), app.generation, now);
                    if let Some(again) = judged.again {
                        outcome.wake(again);
                    }
                }
                Some(judged) => {
                    status::waiting(&mut status, judged, &view.blocking, &app, now);
                }
                None if rests => {}
                None => status::unjudged(&mut status, app.generation, now),
            }
            let judged = judged.filter(|_| view.settled);
            if view.recalled().next().is_some() || !app.status.let_go.is_empty() {
                let (before, all) = (&app.status.let_go, self.cache.all_bundles(delivery.key));
                status.let_go = removing::let_go(before, (view.recalled(), MAX_LET_GO), &all, &view.fleet);
            }
            status.let_go.retain(|note| !outcome.untold.contains(note));
            let moved = status::transition(&app.status, &status);
            if moved {
                // Stored before it is carried out: a command or a spec that came in between wins.
                app = self.store(&app, status.clone(), true, &mut outcome).await?;
                proven = true;
                status = app.status.clone();
                status.observed_generation = Some(app.generation);
            }
            let removes = judged
                .as_ref()
                .is_some_and(|judged| !judged.due.is_empty() || !judged.owed.is_empty());
            if !proven && (removes || view.writes()) {
                self.prove(&app).await?;
                proven = true;
            }
            let last = round >= delivery.valid.all_steps().count() + MORE_ROUNDS;
            let done = self
                .carry_out(
                    delivery,
                    &view,
                    (&app, status.workflow.as_ref(), &effects),
                    moved,
                    judged,
                    &mut outcome,
                )
                .await?;
            let again = moved || done.count > 0;
            let failed = done.error.is_some();
            written = written.and(done);
            if failed || !again || last {
                if !again {
                    calm = Some(view);
                } else if last {
                    // Writes that do not move the run may be undone by somebody as fast as they are made.
                    outcome.wake(if moved { Duration::ZERO } else { PAUSE });
                }
                break;
            }
        }
        let now = self.clock.now();
        let view = match calm {
            Some(view) => view,
            None => {
                // What the last writes changed shows in the status.
                let engine = Status {
                    phase: status.phase,
                    workflow: status.workflow.clone(),
                };
                let view = self.view(delivery, &engine);
                self.describe(delivery, &view, &mut status, &app, now);
                view
            }
        };
        if let Some(next) = view.next {
            outcome.wake(Duration::try_from(next.duration_since(now)).unwrap_or_default());
        }
        if let Some(error) = written.error.as_ref().filter(|error| !error.is_conflict()) {
            status::stuck(&mut status, "NotWritten", error, app.generation, now);
        }
        status.let_go.retain(|note| !outcome.untold.contains(note));
        self.store(&app, status, false, &mut outcome).await?;
        outcome.error = written.error;
        Ok(outcome)
    }

    /// What is to be seen once the earlier revisions are read that clusters keep something of: before that a step would seem to
    /// wait for clusters that have all they are to have. What could not be read is an error, and other clusters get theirs all the
    /// same.
    async fn view_read(&self, delivery: &mut Delivery<'_>, engine: &Status) -> (View, Written) {
        let mut failed = Written::default();
        let mut asked = BTreeSet::new();
        loop {
            let view = self.view(delivery, engine);
            let revisions = view.plan.targets.values().filter_map(|target| match target {
                Target::Vanished { revision } | Target::Loading { revision } => Some(revision),
                _ => None,
            });
            let unread: BTreeSet<String> = revisions.filter(|of| !asked.contains(*of)).cloned().collect();
            let known = delivery.former.len();
            for revision in unread {
                match self.load(delivery, &revision).await {
                    Ok(Some(content)) => {
                        delivery.former.insert(revision.clone(), content);
                    }
                    Ok(None) => {}
                    Err(error) => failed.fail(error),
                }
                asked.insert(revision);
            }
            if delivery.former.len() == known {
                return (view, failed);
            }
        }
    }

    fn view(&self, delivery: &Delivery<'_>, engine: &Status) -> View {
        let mut view = view(&Known {
            delivery,
            workflow: engine.workflow.as_ref(),
            epoch: self.epoch,
            now: self.clock.now(),
            cache: &self.cache,
            witness: self.witness.as_ref(),
        });
        view.evidence.actions = self.outcomes(delivery, engine.workflow.as_ref());
        view.evidence.changed = self.changed(delivery, engine.workflow.as_ref());
        let stored = self.cache.application(delivery.key);
        view.evidence.delivered = stored.and_then(|app| app.status.delivered_revision.clone());
        let revisions = self.cache.revisions(delivery.key);
        view.evidence.revisions = revisions.iter().map(|revision| revision.name_any()).collect();
        view
    }

    fn describe(
        &self,
        delivery: &Delivery<'_>,
        view: &View,
        status: &mut ApplicationStatus,
        app: &Stored,
        now: Timestamp,
    ) {
        let placed = &view.placed;
        let summed = status::delivery(placed, &view.shares, &view.clusters, &view.observed, &view.fleet);
        status.delivery = Some(status::with_objects(summed, &view.objects.shown));
        // What a run passed over places nothing.
        let reach = workflow::reach(&delivery.spec, status.workflow.as_ref());
        let placing = reach.iter().flatten().count();
        status::progress(status, placed, placing, app.generation, now);
        if let Some(unresolved) = &delivery.unresolved {
            status::unresolved(status, unresolved, app.generation, now);
        }
        status::clusters_seen(status, self.cache.sees_clusters(), app.generation, now);
    }

    async fn carry_out(
        &self,
        delivery: &Delivery<'_>,
        view: &View,
        (app, workflow, effects): (&Stored, Option<&WorkflowStatus>, &[Effect]),
        moved: bool,
        judged: Option<removing::Judged>,
        outcome: &mut Outcome,
    ) -> Result<Written, PassError> {
        let (mut written, mut is_decided) = (Written::default(), true);
        // Of several placing steps at work each asks for it, and all are dispatched together.
        let dispatches =
            |effect: &Effect| matches!(effect, Effect::Dispatch { .. } | Effect::Keep | Effect::Refresh);
        // What is placed stays placed, whatever kind of step is at work: a Bundle that is lost meanwhile is made again.
        let under_way = workflow.is_some_and(|workflow| !workflow.finished);
        // What was looked at is of before the run moved: a step that has failed since gives nobody a place any more, and
        // the next round dispatches what the others want.
        if !moved && (under_way || effects.iter().any(dispatches)) {
            (written, is_decided) = self.dispatch(delivery, view).await?;
        }
        self.act(delivery, workflow, effects);
        for effect in effects {
            match effect {
                Effect::Wake { after } => outcome.wake(*after),
                Effect::RollBack {
                    step,
                    attempt,
                    revision,
                } => match self.roll_back(delivery, app, revision).await {
                    // The step says it, and is tried again as often as others.
                    Err(error) if error.is_refusal() => {
                        self.note_refusal(delivery, workflow, (step, *attempt), &error);
                        outcome.wake(Duration::ZERO);
                    }
                    answer => {
                        let answer = answer?;
                        // The pass goes on with the spec that it knows.
                        outcome.wake_after(&answer);
                        written = written.and(answer);
                    }
                },
                // What is done above, and what is judged below.
                Effect::Dispatch { .. }
                | Effect::Keep
                | Effect::Refresh
                | Effect::Act { .. }
                | Effect::CollectGarbage => {}
            }
        }
        // What is not decided takes nothing away.
        if let Some(judged) = judged
            && written.count == 0
            && is_decided
        {
            let mut open = BTreeSet::new();
            if let Some(app) = self.cache.application(delivery.key) {
                let writer = self.writer(delivery.key);
                let terms = bundles::terms(&delivery.valid, &delivery.application.namespace);
                let told = removing::tell_owed(writer, &app, &terms, judged.owed).await;
                written = written.and(told.written);
                outcome.untold.extend(told.done);
                open = told.open;
            }
            let writer = self.writer(delivery.key);
            written = written.and(writer.remove_after(open, judged.due).await);
            if judged.done {
                written = written.and(self.forget(delivery).await);
            }
        }
        Ok(written)
    }

    /// Stores the decisions that differ, then writes the Bundles that differ. Where a Decision is refused no Bundle is written: what
    /// moves between steps would run twice, or nowhere. Whether none was.
    async fn dispatch(&self, delivery: &Delivery<'_>, view: &View) -> Result<(Written, bool), PassError> {
        let mut written = Written::default();
        for placed in view.placed.iter().filter(|p| p.write || p.note) {
            // The engine has refused the step.
            if foreign(&self.cache, delivery, &placed.step).is_some() {
                return Ok((written, false));
            }
            match self.decision(delivery, &placed.decision).await {
                Ok(()) => written.count += 1,
                Err(error) if error.is_refusal() => written.fail(error),
                Err(error) => return Err(error),
            }
        }
        if written.error.is_some() {
            return Ok((written, false));
        }
        let writer = self.writer(delivery.key);
        let stored = self.cache.application(delivery.key);
        let noted = stored.as_ref().map_or(&[][..], |app| &app.status.let_go);
        written = written.and(writer.dispatch(&view.plan, &view.observed, noted).await);
        let none = BTreeMap::new();
        for (step, plan) in &view.objects.plans {
            let observed = view.objects.observed.get(step).unwrap_or(&none);
            written = written.and(writer.dispatch(plan, observed, noted).await);
        }
        Ok((written.and(writer.remove(view.objects.due.clone()).await), true))
    }

    /// Writes the Decisions again that somebody has deleted: what clusters have goes by them. They count also where that fails.
    async fn restore_decisions(&self, delivery: &Delivery<'_>, run: Option<&WorkflowStatus>) -> Written {
        let mut written = Written::default();
        for decision in self.cache.lost_decisions(delivery.key, self.epoch) {
            let spec = &decision.spec;
            if delivery.has_succeeded(run) && !names(&delivery.spec, &spec.step) {
                self.cache.forget_decision(&key_of(&*decision));
                continue;
            }
            // Another application has taken the name meanwhile: the engine refuses the step.
            if foreign(&self.cache, delivery, &spec.step).is_some() {
                continue;
            }
            tracing::warn!(
                namespace = delivery.key.0,
                application = delivery.key.1,
                step = spec.step,
                "a Decision was deleted and is written again"
            );
            match self.decision(delivery, spec).await {
                Ok(()) => written.count += 1,
                Err(error) => written.fail(error),
            }
        }
        written
    }

    async fn decision(&self, delivery: &Delivery<'_>, spec: &DecisionSpec) -> Result<(), PassError> {
        let title = format!("{}/{}", delivery.key.0, delivery.key.1);
        let name = decision_name(&delivery.application.name, &spec.step);
        let existing = self.cache.decision(&(delivery.key.0.clone(), name.clone()));
        let decision = placing::object(spec.clone(), existing.as_deref());
        let api: Api<Decision> = Api::namespaced(self.client.clone(), &delivery.key.0);
        let answer = match existing {
            Some(_) => api.replace(&name, &writes::post(), &decision).await,
            None => api.create(&writes::post(), &decision).await,
        };
        let stored = match answer {
            Ok(stored) => stored,
            Err(error) => {
                // The one of a deleted application of this name goes while it is written, and its watch may be late.
                if matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409)) {
                    self.look_again(&api, &name).await;
                }
                return Err(PassError::api(&title, format!("writing Decision {name}"), error));
            }
        };
        self.cache.wrote_decision(stored);
        Ok(())
    }

    /// Takes a Decision as the server has it, where a write was refused because of that.
    async fn look_again(&self, api: &Api<Decision>, name: &str) {
        match api.get_opt(name).await {
            Ok(Some(decision)) => {
                self.cache.put_decision(decision);
            }
            Ok(None) => {
                let namespace = api.namespace().unwrap_or_default().to_owned();
                self.cache.lose_decision(&(namespace, name.to_owned()));
            }
            // The next try finds out.
            Err(error) => {
                tracing::debug!(%error, name, "a Decision that could not be written was not read, either")
            }
        }
    }

    /// What an earlier revision delivered; `None` if its record is gone.
    async fn load(&self, delivery: &Delivery<'_>, name: &str) -> Result<Option<Content>, PassError> {
        let title = format!("{}/{}", delivery.key.0, delivery.key.1);
        let api: Api<ApplicationRevision> = Api::namespaced(self.client.clone(), &delivery.key.0);
        let answer = api.get_opt(name).await;
        let revision =
            answer.map_err(|error| PassError::api(&title, format!("reading revision {name}"), error))?;
        let Some(revision) = revision else {
            tracing::warn!(
                application = title,
                revision = name,
                "the record of a delivered revision is gone"
            );
            return Ok(None);
        };
        let recorded = revisions::read(&self.client, delivery.key, &revision).await?;
        let (mut rendered, variants) = render::part_variants(recorded);
        rendered.replica_paths = self.cache.replica_paths(&delivery.key.0);
        Ok(Some(Content {
            namespace: delivery.key.0.clone(),
            application: delivery.key.1.clone(),
            revision: name.to_owned(),
            generation: revision.spec.generation,
            components: revision.spec.components.clone(),
            rendered,
            variants,
        }))
    }

    /// Removes the Decisions of steps that the spec has no longer.
    async fn forget(&self, delivery: &Delivery<'_>) -> Written {
        let mut written = Written::default();
        let api: Api<Decision> = Api::namespaced(self.client.clone(), &delivery.key.0);
        for (step, decision) in self.cache.decisions(delivery.key) {
            if names(&delivery.spec, &step) {
                continue;
            }
            let name = decision.metadata.name.clone().unwrap_or_default();
            let key = (delivery.key.0.clone(), name.clone());
            self.cache.lets_decision_go(&key, &decision);
            match api.delete(&name, &writes::delete(&*decision)).await {
                Ok(_) => written.count += 1,
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    let title = format!("{}/{}", delivery.key.0, delivery.key.1);
                    written.fail(PassError::api(&title, format!("deleting Decision {name}"), error));
                    continue;
                }
            }
            self.cache.forget_decision(&key);
        }
        written
    }
}
