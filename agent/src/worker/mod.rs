//! The worker of one bundle: one task, one pass at a time. What to do is decided by [`intent`](crate::apply::intent);
//! what a pass found is remembered per manifest, so that an event about one object costs a look at that object.

mod apply;
mod gone;
mod next;
mod permitted;
mod removal;
mod telling;

use crate::agent::Shared;
use crate::apply::decode::Digests;
use crate::apply::fence::{Write, check_order};
use crate::apply::intent::{Intent, Sight, asks_for_confirmation, intent};
use crate::apply::remove::Waited;
use crate::apply::{Engine, Observation};
use crate::bundle::{Content, Held, Presence};
use crate::delay::{backoff, spread};
use crate::error::CallError;
use crate::executor::{Account, ExecutorError};
use crate::ledger::{Ledger, Settled, pause};
use crate::member::{found, within};
use crate::object::ObjectKey;
use crate::observe::Rules;
use crate::report::Leaving;
use crate::watch::inbox::{Inbox, News};
use roundhouse_api::bundle::{BundleSpec, BundleStatus, ServiceAccountRef};
use roundhouse_api::condition::Verdict;
use roundhouse_api::ledger::AppliedBundle;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The part of the resync interval by which it is jittered.
const RESYNC_JITTER: f64 = 0.1;
/// The part of a retry's delay by which it is jittered.
const RETRY_JITTER: f64 = 0.3;

/// How soon a bundle is looked at again without any event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// At the slow resync.
    Resync,
    /// After a delay that grows: something failed or is waited for.
    Retry,
    /// Never: the bundle is gone and nothing is left of it.
    End,
}

/// What a pass is for, beside the news.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The slow resync is due.
    resync: bool,
    /// What failed is to be tried again.
    retry: bool,
    /// A repair that was put off is due.
    fight: bool,
}

/// How much of a bundle a pass looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Extent {
    /// Everything, the ledger included.
    Whole,
    /// Only these manifests (by the object they name), and removals that are under way.
    Some(BTreeSet<ObjectKey>),
}

/// One bundle's worker.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    name: String,
    inbox: Arc<Inbox>,
    ledger: Ledger,
    /// What the last whole pass applied in this process.
    applied: Option<Content>,
    /// Which content a pass tried last.
    tried: Option<Content>,
    /// Its hash, as computed.
    hash: String,
    /// Digests of its manifests, as computed.
    digests: Digests,
    /// Rules of the content that was read last, compiled.
    rules: Arc<Rules>,
    observations: BTreeMap<u32, Observation>,
    /// Of which of them the last try told nothing.
    unsure: BTreeSet<u32>,
    leaving: Vec<Leaving>,
    /// Whether their removal is tried again without any event.
    removal_retried: bool,
    /// Of the objects on their way out, those whose next change is news.
    waited_for: Vec<Waited>,
    /// What could go, if the other parts were read at this revision.
    postponed: Option<apply::Postponed>,
    /// What became of objects that the last removal let go of, on its way into the ledger.
    gone: BTreeMap<ObjectKey, Settled>,
    /// Whether nothing was left after the last removal, and nothing was applied since.
    cleaned: bool,
    /// The status on the hub, as last written or seen.
    reported: Option<BundleStatus>,
    /// Resource version after our last report: older events about the Bundle show an older status.
    report_version: Option<u64>,
    /// The hand-written Bundle that is being deleted by itself, as the hub has confirmed, or that is not, as far as is known.
    goes: Option<(String, bool)>,
    /// Uid of the Bundle that was read on the hub before anything of it was recorded.
    found: Option<String>,
    /// Uid of the Bundle of this name that was ignored last for one that was made after it: its status may not say so yet, or
    /// not any more.
    ignored: Option<String>,
    /// Whether the last report was not heard.
    unheard: bool,
    /// The version of the Bundle that was put back last, as far as the hub was told again.
    put_back: Option<String>,
    failures: u32,
    /// What the failures were about: a different trouble starts with short delays again.
    trouble: u64,
    resync_due: Instant,
    /// When what failed is tried again.
    retry_due: Option<Instant>,
    /// When a repair that was put off is due, or a fight may be over.
    fight_due: Option<Instant>,
    /// When a report of which only texts and values changed may be sent again.
    texts_due: Instant,
    /// When such a report, held back so far, is sent.
    report_due: Option<Instant>,
    /// A place among those that work on the member; none while the hub is waited for, which may not answer for long.
    place: Option<OwnedSemaphorePermit>,
    /// Whether the executor may write what the bundle has, as far as it is known; `None` without one.
    permitted: Option<Verdict>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        name: String,
        inbox: Arc<Inbox>,
        stored: Option<AppliedBundle>,
    ) -> Self {
        let config = &shared.config;
        let client = shared.engine.member.client().clone();
        let ledger = Ledger::new(client, &shared.hub_id, &name, stored, config.call_timeout);
        shared.engine.unanswered.inherit(&ledger.spec().objects);
        shared.engine.member.deletions().inherit(&ledger.spec().objects);
        let resync_due = Instant::now() + config.resync;
        Worker {
            shared,
            name,
            inbox,
            ledger,
            applied: None,
            tried: None,
            hash: String::new(),
            digests: Digests::new(),
            rules: Arc::default(),
            observations: BTreeMap::new(),
            unsure: BTreeSet::new(),
            leaving: Vec::new(),
            removal_retried: false,
            waited_for: Vec::new(),
            postponed: None,
            gone: BTreeMap::new(),
            cleaned: false,
            reported: None,
            report_version: None,
            goes: None,
            found: None,
            ignored: None,
            unheard: false,
            put_back: None,
            failures: 0,
            trouble: 0,
            resync_due,
            retry_due: None,
            fight_due: None,
            texts_due: Instant::now(),
            report_due: None,
            place: None,
            permitted: None,
        }
    }

    /// Works until the bundle is gone, or until `stop`; a pass that has begun is finished. `broken`: the worker before
    /// this one broke.
    pub(crate) async fn run(mut self, stop: CancellationToken, broken: bool) {
        if broken {
            self.report_defect().await;
        }
        self.inbox.begin();
        loop {
            let dues = [
                Some(self.resync_due),
                self.retry_due,
                self.report_due,
                self.fight_due,
            ];
            let wake_at = dues.into_iter().flatten().min().unwrap_or(self.resync_due);
            let inbox = Arc::clone(&self.inbox);
            let timer = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = inbox.ready() => false,
                () = tokio::time::sleep_until(wake_at) => true,
            };
            if !timer && self.applied.is_some() {
                // Events about objects come in bursts; one pass serves them all. What the hub wants waits for nothing.
                let settle = self.shared.config.settle;
                let _ = tokio::time::timeout(settle, inbox.intended()).await;
            }
            self.enter().await;
            let next = self.pass().await;
            self.place = None;
            if next == Next::End {
                self.shared.objects.want(&self.name, BTreeMap::new());
                if self.shared.registry.leave(&self.name) {
                    return;
                }
            }
        }
    }

    /// Takes a place among those that work on the member.
    pub(super) async fn enter(&mut self) {
        let passes = Arc::clone(&self.shared.passes);
        // It is never closed.
        self.place = passes.acquire_owned().await.ok();
    }

    /// A pass over everything, whatever was looked at before; whether nothing is to be tried again.
    pub(crate) async fn whole_pass(&mut self) -> bool {
        self.applied = None;
        self.pass().await == Next::Resync
    }

    /// Every object is judged again, whatever the member answers.
    pub(crate) fn forget_answers(&mut self) {
        for known in self.observations.values_mut() {
            known.answer = None;
        }
    }

    /// One pass; errors of the calls that a pass cannot do without end it, and it is tried again.
    async fn pass(&mut self) -> Next {
        let (presence, news) = self.inbox.take();
        let now = Instant::now();
        let turn = Turn {
            resync: now >= self.resync_due,
            retry: self.retry_due.is_some_and(|due| now >= due),
            fight: self.fight_due.take_if(|due| now >= *due).is_some(),
        };
        let config = &self.shared.config;
        if turn.resync {
            self.resync_due = now + spread(config.resync, RESYNC_JITTER, config.jitter.unit());
        }
        if turn.retry {
            self.retry_due = None;
        }
        if self.report_due.is_some_and(|due| now >= due) {
            self.report_due = None;
        }
        let result = match (self.look_at_ledger(&news, turn).await, &presence) {
            (Err(error), _) => Err(error),
            (Ok(()), Presence::Present(held)) => self.present(held, &news, turn).await,
            (Ok(()), Presence::Deleted(held)) => self.deleted(held).await,
            (Ok(()), Presence::Missing) => self.missing().await,
        };
        self.shared.registry.saw_ledger(&self.name, self.ledger.version());
        let next = result.unwrap_or_else(|error| {
            tracing::warn!(
                bundle = self.name,
                error = error.message(),
                "pass ended early, trying again"
            );
            // What was not looked at is looked at again, and what the ledger was not told is judged again.
            self.applied = None;
            self.forget_answers();
            Next::Retry
        });
        match next {
            // A retry that is already due stays due: events about other objects do not put it off.
            Next::Retry if self.retry_due.is_some() => {}
            Next::Retry => {
                let config = &self.shared.config;
                let delay = backoff(self.failures, config.retry_min, config.retry_max);
                self.failures = self.failures.saturating_add(1);
                self.retry_due = Some(Instant::now() + spread(delay, RETRY_JITTER, config.jitter.unit()));
            }
            Next::Resync | Next::End => {
                self.failures = 0;
                self.retry_due = None;
            }
        }
        next
    }

    /// Keeps the stored ledger as it is known here, whatever somebody did to it.
    async fn look_at_ledger(&mut self, news: &News, turn: Turn) -> Result<(), CallError> {
        let known = self.ledger.version();
        let touched = news.ledger.as_ref().is_some_and(|seen| seen.is_news_to(known));
        // One that vanished is made again; where the whole member was put back, its ledger does not have it any more either.
        let vanished = news.touched.values().any(Option::is_none);
        if turn.resync || !self.ledger.exists() || touched || vanished || self.ledger.is_doubtful() {
            self.ledger.refresh().await?;
        }
        Ok(())
    }

    async fn present(&mut self, held: &Held, news: &News, turn: Turn) -> Result<Next, CallError> {
        self.note_status(held);
        // From here on its own report says what is held.
        self.shared.vanished.note(&self.name, false);
        let spec = match held.spec() {
            Ok(spec) => spec,
            Err(error) => {
                // A next agent may be able to read it.
                if let Err(fenced) = check_order(self.write(held), self.ledger.spec()) {
                    return self.ignore(held, &fenced).await;
                }
                let message = format!("spec does not parse: {error}; is the hub newer than this agent?");
                self.refuse(held, None, None, "InvalidSpec", &message).await?;
                return Ok(Next::Resync);
            }
        };
        let content = held.content();
        if self.applied.as_ref() != Some(&content) && news.intent {
            self.failures = 0;
            self.retry_due = None;
        }
        let asks = held.deleting && asks_for_confirmation(&spec);
        let sight = Sight::Present {
            write: self.write(held),
            deleting: held.deleting,
            confirmed: asks && self.goes_by_itself(held).await?,
            spec: &spec,
        };
        match intent(sight, self.ledger.spec()) {
            Intent::Apply if !self.is_there(held).await? => {
                tracing::debug!(
                    bundle = self.name,
                    "the hub has it no more: what tells that is waited for"
                );
                Ok(Next::Retry)
            }
            Intent::Apply => {
                let fresh = self.applied.as_ref() == Some(&content);
                let again = turn.resync || (news.parts && self.postponed.is_some());
                let extent = if fresh && !again {
                    self.extent(news, turn)
                } else {
                    Extent::Whole
                };
                self.apply(held, spec, content, extent).await
            }
            Intent::Remove => self.remove(Some(held), Some(self.write(held)), &spec).await,
            Intent::Hold { reason, message } => {
                if spec.paused == Some(true) {
                    self.obey_pause(held, &spec).await?;
                }
                self.hold(held, spec.epoch, reason, &message).await?;
                // The agent's Lease may come back, and with it the confirmation.
                Ok(if asks { Next::Retry } else { Next::Resync })
            }
            Intent::Ignore(fenced) => self.ignore(held, &fenced).await,
            Intent::Orphan | Intent::Forget => Ok(Next::Resync),
        }
    }

    /// Whether a Bundle of which nothing is recorded is on the hub as it was told. A list or a watch may be behind, and show one
    /// that was removed since: no ledger fences it any more, and what it asks for would be made and run once more. One read for
    /// each new Bundle.
    async fn is_there(&mut self, held: &Held) -> Result<bool, CallError> {
        if self.ledger.exists() || self.found.as_ref() == Some(&held.uid) {
            return Ok(true);
        }
        self.place = None;
        let bundles = &self.shared.hub_bundles;
        let read = within(self.shared.config.call_timeout, bundles.get_metadata(&held.name)).await;
        self.enter().await;
        let is_there = found(read)?.is_some_and(|bundle| {
            let metadata = bundle.metadata;
            metadata.uid.as_ref() == Some(&held.uid) && metadata.deletion_timestamp.is_none()
        });
        self.found = is_there.then(|| held.uid.clone());
        Ok(is_there)
    }

    /// Records that a pause is obeyed: without it, a hub that went back to before it would go on over what somebody does by hand
    /// meanwhile. What the agent holds back against a Bundle (one without manifests or evidence) is not obeyed, and moves nothing.
    async fn obey_pause(&mut self, held: &Held, spec: &BundleSpec) -> Result<(), CallError> {
        if !self.ledger.exists() {
            return Ok(());
        }
        let next = pause(
            self.ledger.spec(),
            self.write(held),
            spec.application_ref.is_some(),
        );
        self.ledger.write(next).await
    }

    /// Which write of which Bundle this is.
    fn write<'h>(&self, held: &'h Held) -> Write<'h> {
        let mut write = held.write();
        write.ignored |= self.ignored.as_ref() == Some(&held.uid);
        write
    }

    /// What events and failures ask to be looked at.
    fn extent(&self, news: &News, turn: Turn) -> Extent {
        let mut keys: BTreeSet<ObjectKey> = news.touched.keys().cloned().collect();
        let due = self.observations.iter().filter(|(ordinal, observation)| {
            let no_kind = observation.outcome.reason() == "NoKind";
            (news.kinds && no_kind)
                || (turn.retry && self.wants_retry(**ordinal, observation))
                || (turn.fight && observation.differences.history.is_fought())
        });
        keys.extend(due.filter_map(|(_, observation)| observation.target.clone()));
        Extent::Some(keys)
    }

    /// The member with the rights that a bundle is to be applied with.
    fn engine(&self, spec: &BundleSpec) -> Result<Engine, ExecutorError> {
        let account = spec.executor.as_ref().map(Account::of).transpose()?;
        Ok(self.shared.engine.on_behalf_of(account))
    }
}

/// The service account that a spec names.
fn account_of(spec: &BundleSpec) -> Option<&ServiceAccountRef> {
    spec.executor
        .as_ref()
        .and_then(|executor| executor.subject.service_account.as_ref())
}
