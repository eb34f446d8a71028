//! Gets and keeps an identity: a thin shell around [`next`] and [`seen`]. Each round does one step and forgets nothing that
//! is not stored.

mod ask;
#[cfg(test)]
mod fake;
mod since;
#[cfg(test)]
mod tests;
mod voice;

use self::ask::Progress;
use self::since::Since;
use self::voice::Voice;
use super::error::IdentityError;
use super::invitation::{Invitation, Source};
use super::next::{Next, next};
use super::place::Place;
use super::stored::{Identity, Stored, Voucher};
use super::swap::Swap;
use crate::client::client;
use crate::delay::{SharedJitter, backoff, spread};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use roundhouse_api::clock::SharedClock;
use roundhouse_api::names::{AgentName, ClusterName};
use std::sync::Arc;
use std::time::Duration;

/// How often the invitation and the hub's refusals are looked at, and how often at most a request is asked after.
const LOOK: Duration = Duration::from_secs(30);
/// The first delay, and the longest one after failures.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A hub is asked for tokens at most this often.
const TOKENS: Duration = Duration::from_secs(60);
/// The part of a delay by which it is jittered.
const JITTER: f64 = 0.3;
/// After so many refusals in a row the identity is taken to be refused, and not one request.
const REFUSED: u32 = 5;
/// So many requests in a row that another key has in the way are not what was left of the key before this one.
const TURNS: u32 = 3;

/// Makes a client of what a kubeconfig says.
pub type Dial = Arc<dyn Fn(Kubeconfig) -> BoxFuture<'static, Result<Client, IdentityError>> + Send + Sync>;

/// The [`Dial`] of production.
pub fn dial() -> Dial {
    Arc::new(|kubeconfig| {
        Box::pin(async move {
            let access = |error: &dyn std::fmt::Display| IdentityError::Access(error.to_string());
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|error| access(&error))?;
            client(config).map_err(|error| access(&error))
        })
    })
}

/// Gets and keeps the identity of one agent.
pub struct Keeper {
    /// The cluster whose agent this is.
    pub cluster: ClusterName,
    /// Where the identity is kept.
    pub place: Place,
    /// Where invitations come from.
    pub source: Source,
    /// How long a credential is asked to be good; the hub may make it shorter.
    pub lifetime: Duration,
    /// How the hub is reached.
    pub dial: Dial,
    /// What time it is.
    pub clock: SharedClock,
    /// Where jitter comes from.
    pub jitter: SharedJitter,
    swap: Swap,
}

/// What a keeper has in memory.
struct State {
    /// As it is in the place.
    stored: Stored,
    /// Decides when the present credential is renewed.
    draw: f64,
    /// The sha256 of an invitation that the hub does not know, or knows no longer.
    spent: Option<String>,
    /// Failures in a row.
    failures: u32,
    /// How often the present request was asked after.
    looks: u32,
    /// Requests in a row that were in the way of the next credential and were cleared away.
    cleared: u32,
    /// Since when the present request is decided.
    since: Since,
    voice: Voice,
}

impl State {
    fn new(draw: f64) -> Self {
        State {
            stored: Stored::default(),
            draw,
            spent: None,
            failures: 0,
            looks: 0,
            cleared: 0,
            since: Since::default(),
            voice: Voice::default(),
        }
    }
}

impl Keeper {
    /// The keeper of a cluster's identity, with the defaults of production for the rest.
    pub fn new(
        cluster: ClusterName,
        place: Place,
        source: Source,
        clock: SharedClock,
        jitter: SharedJitter,
    ) -> Self {
        Keeper {
            cluster,
            place,
            source,
            lifetime: Duration::from_secs(30 * 24 * 3600),
            dial: dial(),
            clock,
            jitter,
            swap: Swap::default(),
        }
    }

    /// Whether the invitation that is there at the start can be used: then somebody still looks. One that cannot does not stop an
    /// agent that has an identity, or may have one that cannot be read yet: it is said, again and again, by [`Keeper::keep`].
    ///
    /// # Errors
    /// What is wrong with it, where it is all that there is. One that is missing is none: it may come later.
    pub async fn check(&self) -> Result<(), IdentityError> {
        let Err(wrong) = self.source.read(&self.cluster) else {
            return Ok(());
        };
        match self.place.load(&self.cluster).await {
            Ok(Stored { identity: None, .. }) => Err(wrong),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A client of the hub that always has the present credential; until there is one, its requests fail.
    pub fn client(&self) -> Client {
        self.swap.client()
    }

    /// Joins, renews, joins again; never ends by itself. What goes wrong is logged, with what to do, and tried again.
    pub async fn keep(self) {
        let mut state = State::new(self.jitter.unit());
        while let Err(error) = self.load(&mut state).await {
            let delay = self.failed(&mut state, &error);
            tokio::time::sleep(delay).await;
        }
        loop {
            let delay = self.round(&mut state).await;
            tokio::time::sleep(delay).await;
        }
    }

    /// Reads what is kept, and uses it.
    async fn load(&self, state: &mut State) -> Result<(), IdentityError> {
        state.stored = self.place.load(&self.cluster).await?;
        if let Some(identity) = &state.stored.identity {
            self.use_now(identity).await?;
        }
        Ok(())
    }

    async fn use_now(&self, identity: &Identity) -> Result<(), IdentityError> {
        self.swap.put((self.dial)(identity.kubeconfig()?).await?);
        Ok(())
    }

    /// One step; answers how long to wait before the next one.
    async fn round(&self, state: &mut State) -> Duration {
        let now = self.clock.now();
        let invitation = self.source.read(&self.cluster).unwrap_or_else(|error| {
            state.voice.warn(&error.to_string(), now);
            None
        });
        let spent = match &invitation {
            Some(invitation) => state.spent.as_ref() == Some(&invitation.digest),
            None => false,
        };
        let identity = state.stored.identity.clone();
        match next(identity.as_ref(), invitation.as_ref(), spent, now, state.draw) {
            Next::Rest(until) => {
                (state.failures, state.looks) = (0, 0);
                if self.swap.refusals() >= REFUSED {
                    state.voice.warn(&self.refused(identity.as_ref()), now);
                }
                let rest = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                rest.min(LOOK)
            }
            Next::Stuck(stuck) => {
                let words = format!("{stuck}: {}; what runs here is kept as it is", self.invite());
                state.voice.warn(&words, now);
                // Somebody may have put another one there.
                match self.load(state).await {
                    Ok(()) => LOOK,
                    Err(error) => self.failed(state, &error),
                }
            }
            Next::Ask(voucher) => self.step(state, voucher, now).await,
        }
    }

    /// One step towards a credential.
    async fn step(&self, state: &mut State, voucher: Voucher<'_>, now: Timestamp) -> Duration {
        let least = if voucher.is_for_token() {
            TOKENS
        } else {
            Duration::ZERO
        };
        match self.ask(state, voucher, now).await {
            Ok(Progress::Given(identity)) => match self.accept(state, *identity).await {
                Ok(()) => least,
                Err(error) => self.failed(state, &error).max(least),
            },
            Ok(Progress::Again) => {
                (state.failures, state.looks) = (0, 0);
                self.jittered(RETRY.0)
            }
            Ok(Progress::Cleared(why)) => {
                state.cleared = state.cleared.saturating_add(1);
                let again = state.cleared.saturating_sub(TURNS);
                if again > 0 {
                    state.voice.warn(&self.in_turns(why), now);
                }
                self.jittered(backoff(again, RETRY.0, RETRY.1))
            }
            Ok(Progress::Waits { words, is_trouble }) => {
                state.failures = 0;
                if is_trouble {
                    state.voice.warn(&words, now);
                } else {
                    state.voice.inform(&words, now);
                }
                let delay = backoff(state.looks, RETRY.0, LOOK);
                state.looks = state.looks.saturating_add(1);
                self.jittered(delay)
            }
            Err(error) => {
                if let Voucher::Invitation(Invitation { digest, .. }) = voucher
                    && error.is_unknown_caller()
                {
                    state.spent = Some(digest.clone());
                    let words = format!(
                        "the hub does not know this invitation, or knows it no longer: {}",
                        self.invite()
                    );
                    state.voice.warn(&words, now);
                    // Somebody may have put another identity there.
                    if let Err(error) = self.load(state).await {
                        state.voice.warn(&error.to_string(), now);
                    }
                }
                self.failed(state, &error).max(least)
            }
        }
    }

    /// Stores a credential, and then uses it.
    async fn accept(&self, state: &mut State, identity: Identity) -> Result<(), IdentityError> {
        let stored = Stored::with(identity.clone());
        self.place.store(&stored).await?;
        state.stored = stored;
        (state.failures, state.looks, state.cleared) = (0, 0, 0);
        state.draw = self.jitter.unit();
        let (cluster, name, until) = (&self.cluster, identity.name(), identity.until);
        tracing::info!(%cluster, %name, %until, "this agent has an identity on the hub");
        self.use_now(&identity).await
    }

    fn failed(&self, state: &mut State, error: &IdentityError) -> Duration {
        state.voice.warn(&error.to_string(), self.clock.now());
        let delay = backoff(state.failures, RETRY.0, RETRY.1);
        state.failures = state.failures.saturating_add(1);
        self.jittered(delay)
    }

    fn jittered(&self, delay: Duration) -> Duration {
        spread(delay, JITTER, self.jitter.unit())
    }

    fn invite(&self) -> String {
        let cluster = &self.cluster;
        format!(
            "run `roundhouse join {cluster}` on the hub and give this agent the invitation that it prints"
        )
    }

    fn in_turns(&self, why: &str) -> String {
        let request = AgentName::request(&self.cluster);
        format!(
            "the request {request} of this agent was not its own once more: {why}; does a second agent run for cluster {} with \
             the same identity or invitation? Each cluster has one: end the other",
            self.cluster
        )
    }

    fn refused(&self, identity: Option<&Identity>) -> String {
        let serial = identity.map_or(0, |identity| identity.serial);
        format!(
            "the hub refuses this agent (serial {serial}): it was joined anew, or its identity was revoked; if that was not \
             meant, {}",
            self.invite()
        )
    }
}
