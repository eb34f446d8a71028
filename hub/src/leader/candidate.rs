//! Stands for election: follows the Lease until it is ours.

use super::{
    Election, Gate, Held, Timing,
    decide::{Decision, Me, Observed, decide},
    lease::{self, LEASE, Record},
    skew::Skew,
};
use crate::{steady::Steady, words, writes};
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use roundhouse_api::{clock::Clock, names::label};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Longer than any process runs.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// One hub that may lead. Its own requests pass no gate: they are what opens it.
pub(crate) struct Candidate {
    pub(super) client: Client,
    pub(super) election: Election,
    /// The time that is stored: the one that controllers decide by.
    pub(super) clock: Arc<Steady>,
    pub(super) gate: Gate,
    /// Whether another one took the Lease from this hub, which had it without asking.
    superseded: AtomicBool,
}

impl Candidate {
    /// A hub that opens `gate` when it leads.
    pub(crate) fn new(client: Client, election: Election, clock: Arc<Steady>, gate: Gate) -> Candidate {
        Candidate {
            client,
            election,
            clock,
            gate,
            superseded: AtomicBool::new(false),
        }
    }

    /// This hub has lost the Lease.
    pub(crate) fn lost(&self) {
        let asked = self.election.timing.is_some();
        if !asked && !self.superseded.swap(true, Ordering::Relaxed) {
            tracing::error!(
                namespace = self.election.namespace,
                "another hub has taken the Lease {LEASE}: this one writes nothing more until that one gives it up. Two hubs at \
                 a time have to be started with --leader-elect"
            );
        }
    }

    /// Whether this hub takes the Lease whoever has it.
    fn takes(&self) -> bool {
        self.election.timing.is_none() && !self.superseded.load(Ordering::Relaxed)
    }

    /// The client of its own requests.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.election.namespace)
    }

    /// Settings that also do for a hub that is alone: how it repeats what fails.
    pub(super) fn timing(&self) -> Timing {
        self.election.timing.unwrap_or_default()
    }

    /// Waits until the Lease is ours, as long as that takes. What fails is told and tried again.
    pub(crate) async fn acquire(&self) -> Held<'_> {
        let mut told = match self.takes() {
            true => futures::stream::pending().boxed(),
            false => self.watch(),
        };
        let mut unseen = true;
        let mut present: Option<Lease> = None;
        let mut observed = Observed::next(None, None, Instant::now());
        let mut skew = Skew::default();
        loop {
            if unseen {
                present = self.read().await;
                observed = Observed::next(Some(observed), present.as_ref().map(Record::of), Instant::now());
                unseen = false;
            }
            let until = match self.decide(&observed) {
                Decision::Wait(until) => until,
                Decision::Create | Decision::Take | Decision::Renew | Decision::StepDown => {
                    match self.take(present.as_ref()).await {
                        Ok(held) => {
                            if let Some(ahead) = skew.ahead() {
                                tracing::warn!(
                                    identity = self.election.identity,
                                    "the clock of this hub is {}, by that of the hub which led before: what waits for a time goes \
                                     by that one for an hour",
                                    words::off(ahead)
                                );
                                self.clock.is_ahead(ahead);
                            }
                            return held;
                        }
                        // Somebody was quicker: what is there now is looked at first.
                        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                        Err(error) => {
                            tracing::warn!(%error, namespace = self.election.namespace,
                                "the Lease {LEASE} cannot be taken; it is tried again");
                            sleep(self.timing().retry_period()).await;
                        }
                    }
                    unseen = true;
                    continue;
                }
            };
            tokio::select! {
                biased;
                Some(lease) = told.next() => {
                    present = lease;
                    skew.told(present.as_ref().map(Record::of).as_ref(), self.clock.now());
                    observed = Observed::next(Some(observed), present.as_ref().map(Record::of), Instant::now());
                }
                () = sleep_until(until) => {}
            }
        }
    }

    fn decide(&self, observed: &Observed) -> Decision {
        if self.takes() {
            return Decision::Take;
        }
        // One that does not stand for election does not renew: that it is not heard of says nothing.
        let patience = self
            .election
            .timing
            .map_or(NEVER, |timing| timing.lease_duration());
        let me = Me {
            identity: &self.election.identity,
            lease_duration: patience,
            holds: false,
        };
        decide(observed, me, Instant::now())
    }

    /// The Lease as it is told, `None` when it is gone. A watch that breaks is made again.
    pub(super) fn watch(&self) -> BoxStream<'static, Option<Lease>> {
        let config = watcher::Config::default().fields(&format!("metadata.name={LEASE}"));
        let events = watcher(self.leases(), config).default_backoff();
        let leases = events.filter_map(|event| {
            std::future::ready(match event {
                Ok(Event::Apply(lease) | Event::InitApply(lease)) => Some(Some(lease)),
                Ok(Event::Delete(_)) => Some(None),
                Ok(Event::Init | Event::InitDone) => None,
                Err(error) => {
                    tracing::debug!(%error, "the watch of the Lease broke off and starts over");
                    None
                }
            })
        });
        leases.boxed()
    }

    /// Reads the Lease, however often that takes.
    async fn read(&self) -> Option<Lease> {
        let timing = self.timing();
        loop {
            match tokio::time::timeout(timing.renew_deadline(), self.leases().get_opt(LEASE)).await {
                Ok(Ok(lease)) => return lease,
                Ok(Err(error)) => {
                    tracing::warn!(%error, namespace = self.election.namespace,
                        "the Lease {LEASE} cannot be read; it is tried again");
                }
                Err(_) => {
                    tracing::warn!("the API server does not answer; the Lease {LEASE} is asked for again")
                }
            }
            sleep(timing.retry_period()).await;
        }
    }

    async fn take(&self, before: Option<&Lease>) -> Result<Held<'_>, kube::Error> {
        let timing = self.timing();
        let (election, now) = (&self.election, self.clock.now());
        let lease = lease::taken(
            before,
            &election.namespace,
            &election.identity,
            timing.lease_duration(),
            now,
        );
        let asked = Instant::now();
        let written = timeout(timing.renew_deadline(), async {
            match before {
                Some(_) => self.leases().replace(LEASE, &writes::post(), &lease).await,
                None => self.create(&lease).await,
            }
        });
        match written.await {
            Ok(lease) => {
                let lease = lease?;
                tracing::info!(identity = election.identity, "the Lease {LEASE} is ours");
                Ok(Held::new(self, lease, asked))
            }
            Err(_) => Err(kube::Error::Service(Box::new(NoAnswer(timing.renew_deadline())))),
        }
    }

    /// Creates the Lease, and its namespace where there is none.
    async fn create(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        match self.leases().create(&writes::post(), lease).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            answer => return answer,
        }
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(self.election.namespace.clone());
        namespace.metadata.labels =
            Some([(label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned())].into());
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.create(&writes::post(), &namespace).await {
            Err(kube::Error::Api(answer)) if answer.is_already_exists() => {}
            answer => drop(answer?),
        }
        self.leases().create(&writes::post(), lease).await
    }
}

/// Nothing came back.
#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server for {0:?}")]
struct NoAnswer(Duration);
