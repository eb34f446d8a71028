//! A Lease that is ours: renewed beside whatever is done, marked with the epoch of the term, and released at the end.

use super::{
    Claims, Leading,
    candidate::Candidate,
    decide::{Decision, Me, Observed, decide},
    epoch::stored,
    lease::{self, LEASE, Record},
};
use crate::writes;
use futures::{StreamExt, stream::BoxStream};
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use roundhouse_api::clock::Clock as _;
use roundhouse_apiserver::Term;
use std::{pin::pin, time::Duration};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long a hub that ends waits for its writes that are under way, and then for the answer to its release: whoever follows
/// is not to wait for two seconds.
const GOODBYE: Duration = Duration::from_millis(800);
/// How long the lists of a new leader's controllers may show nothing, before everything is listed once more.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a term ends.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The Lease is another's, or was not renewed in time.
    Lost,
    /// The hub was told to end.
    Stopped,
}

/// The Lease as it is told, `None` when it is gone. The lock is never taken: it lets others have a reference to who listens.
type Told = Mutex<BoxStream<'static, Option<Lease>>>;

/// A Lease that this hub holds.
pub(crate) struct Held<'a> {
    of: &'a Candidate,
    lease: Lease,
    /// When it is over, unless it is renewed before; never for a hub that is alone.
    deadline: Option<Instant>,
    /// When it is renewed next.
    next: Option<Instant>,
    /// Whether the term has begun.
    begun: bool,
    /// What becomes of the Lease, for a hub that is alone: it renews nothing, and would not learn that another one was started.
    told: Option<Told>,
}

impl<'a> Held<'a> {
    /// A Lease that was asked for at `asked`.
    pub(super) fn new(of: &'a Candidate, lease: Lease, asked: Instant) -> Held<'a> {
        let mut held = Held {
            of,
            lease,
            deadline: None,
            next: None,
            begun: false,
            told: None,
        };
        held.renewed(asked);
        held
    }

    /// Counts from when the renewal was asked for, not from its answer: others count from when they see it.
    fn renewed(&mut self, asked: Instant) {
        if let Some(timing) = self.of.election.timing {
            self.deadline = Some(asked + timing.renew_deadline());
            self.next = Some(asked + timing.retry_period());
        }
        if self.begun {
            self.of.gate.open(self.deadline);
        }
    }

    /// Does `work` while the Lease is renewed.
    ///
    /// # Errors
    /// The Lease was lost, or `stop` was cancelled; the work is given up then.
    pub(crate) async fn keep<T>(
        &mut self,
        work: impl Future<Output = T>,
        stop: &CancellationToken,
    ) -> Result<T, Ended> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Err(Ended::Stopped),
                () = at(self.next) => self.write(stop, |_| {}).await?,
                Some(lease) = next(&mut self.told) => self.lease = self.still_ours(lease, &[&self.lease])?,
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Finds the epoch of this term, above `above` and everything that is stored, stores it on the Lease, and opens the gate.
    ///
    /// # Errors
    /// As [`Held::keep`].
    pub(crate) async fn begin(
        &mut self,
        above: i64,
        leading: &Leading,
        stop: &CancellationToken,
    ) -> Result<i64, Ended> {
        let record = Record::of(&self.lease);
        let of = self.of;
        let claims = async {
            match record.epoch {
                // Every epoch was stored here before it was used: what a watch shows may lag, and that does not matter.
                Some(_) => of.seen(leading).await,
                None => of.stored().await,
            }
        };
        let mut claims = self.keep(claims, stop).await?;
        claims.trust(above);
        claims.trust(i64::from(record.transitions));
        claims.trust(record.epoch.unwrap_or(0));
        let epoch = claims.next();
        self.write(stop, |lease| lease::mark(lease, epoch)).await?;
        self.begun = true;
        if self.deadline.is_none() {
            self.told = Some(Mutex::new(self.of.watch()));
        }
        self.of.gate.begin(&Term {
            namespace: self.of.election.namespace.clone(),
            lease: LEASE.to_owned(),
            epoch,
        });
        self.of.gate.open(self.deadline);
        tracing::info!(epoch, identity = self.of.election.identity, "this hub leads");
        Ok(epoch)
    }

    /// Renews the Lease with a change, repeating it until it went through or the Lease is lost. It carries the
    /// resourceVersion of our own last write.
    async fn write(&mut self, stop: &CancellationToken, change: impl Fn(&mut Lease)) -> Result<(), Ended> {
        loop {
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                tracing::warn!("the Lease {LEASE} was not renewed in time: this hub writes nothing more");
                return Err(Ended::Lost);
            }
            let asked = Instant::now();
            let mut lease = self.lease.clone();
            lease::renew(&mut lease, self.of.clock.now());
            change(&mut lease);
            let leases = self.of.leases();
            let written = self
                .in_time(leases.replace(LEASE, &writes::post(), &lease), stop)
                .await?;
            let error = match written {
                Ok(lease) => {
                    self.lease = lease;
                    self.renewed(asked);
                    return Ok(());
                }
                Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {
                    match self.in_time(leases.get_opt(LEASE), stop).await? {
                        Ok(present) => {
                            // An answer may have been lost: then it is as it was to be.
                            self.lease = self.still_ours(present, &[&self.lease, &lease])?;
                            continue;
                        }
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            tracing::warn!(%error, "the Lease {LEASE} is not renewed; it is tried again");
            let again = asked + self.of.timing().retry_period();
            self.in_time(sleep_until(again), stop).await?;
        }
    }

    /// Somebody wrote the Lease: it may be ours all the same, with another label.
    fn still_ours(&self, present: Option<Lease>, own: &[&Lease]) -> Result<Lease, Ended> {
        let observed = Observed::next(None, present.as_ref().map(Record::of), Instant::now());
        let me = Me {
            identity: &self.of.election.identity,
            lease_duration: self.of.timing().lease_duration(),
            holds: true,
        };
        // One that is taken anew by another process of this identity is no longer ours.
        let taken = |record: &Record| (record.acquired, record.transitions, record.epoch);
        let is_own = |present: &Lease| {
            let present = taken(&Record::of(present));
            own.iter().any(|own| taken(&Record::of(own)) == present)
        };
        match (decide(&observed, me, observed.since), present) {
            (Decision::Renew, Some(present)) if is_own(&present) => Ok(present),
            (_, present) => {
                let holder = present.map(|lease| Record::of(&lease).holder).unwrap_or_default();
                tracing::warn!(
                    holder,
                    "the Lease {LEASE} is another's: this hub writes nothing more"
                );
                Err(Ended::Lost)
            }
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>, stop: &CancellationToken) -> Result<T, Ended> {
        let done = async {
            match self.deadline {
                Some(deadline) => timeout_at(deadline, work).await.map_err(|_| Ended::Lost),
                None => Ok(work.await),
            }
        };
        stop.run_until_cancelled(done)
            .await
            .unwrap_or(Err(Ended::Stopped))
    }

    /// Ends the term, waits a moment for what is under way, and lets others have the Lease at once.
    pub(crate) async fn release(self) {
        self.of.gate.close();
        let leases = self.of.leases();
        if timeout(GOODBYE, self.of.gate.drained()).await.is_err() {
            tracing::warn!(
                "writes are still under way; their resourceVersions and epochs keep them from harm"
            );
        }
        let given_up = async {
            let mut lease = self.lease.clone();
            lease::release(&mut lease, self.of.clock.now());
            let answer = leases.replace(LEASE, &writes::post(), &lease).await;
            let Err(kube::Error::Api(status)) = &answer else {
                return answer.map(drop);
            };
            // A renewal of ours may have gone through unheard.
            match leases.get_opt(LEASE).await? {
                Some(present) if status.code == 409 => match self.still_ours(Some(present), &[&self.lease]) {
                    Ok(mut lease) => {
                        lease::release(&mut lease, self.of.clock.now());
                        leases.replace(LEASE, &writes::post(), &lease).await.map(drop)
                    }
                    Err(_) => Ok(()),
                },
                _ => answer.map(drop),
            }
        };
        match timeout(GOODBYE, given_up).await {
            Ok(Ok(())) => tracing::info!("the Lease {LEASE} is given up"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the Lease {LEASE} is not given up: others wait until it is over")
            }
            Err(_) => {
                tracing::warn!("the Lease {LEASE} is not given up in time: others wait until it is over")
            }
        }
    }
}

impl Candidate {
    /// What the controllers see, or what is stored where they do not see everything soon: they cannot before the definitions
    /// are there, and those are written by a leader.
    async fn seen(&self, leading: &Leading) -> Claims {
        match leading.seen(PATIENCE).await {
            Some(claims) => claims,
            None => self.stored().await,
        }
    }

    /// What is stored, however often it takes to read it.
    async fn stored(&self) -> Claims {
        loop {
            match stored(&self.client).await {
                Ok(claims) => return claims,
                Err(error) => {
                    tracing::warn!(%error, "the epochs that are stored cannot be read; it is tried again");
                    tokio::time::sleep(self.timing().retry_period()).await;
                }
            }
        }
    }
}

async fn next(told: &mut Option<Told>) -> Option<Option<Lease>> {
    match told {
        Some(told) => told.get_mut().next().await,
        None => std::future::pending().await,
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}
