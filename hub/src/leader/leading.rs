//! What the parts of one hub know of its leading: the controllers wait here for a term, and whoever asks after the hub's health
//! sees where it stands.

use super::Claims;
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

/// A term of this hub as the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Its fencing epoch.
    pub epoch: i64,
    /// What agents obeyed up to this epoch they take back for what the hub says, which was restored from a backup: somebody has
    /// confirmed that. 0 where nobody had to.
    pub confirmed: i64,
}

/// Where a hub stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has not seen everything yet.
    Starting,
    /// It knows everything and writes nothing: another one leads.
    Following,
    /// It leads.
    Leading(Term),
}

/// Tells what epochs are stored.
type Seen = Box<dyn Fn() -> Claims + Send + Sync>;

#[derive(Default)]
struct Inner {
    term: watch::Sender<Option<Term>>,
    /// Whether the clusters were all seen.
    clusters: watch::Sender<bool>,
    /// Whether everything else was; set before it is told.
    listed: watch::Sender<bool>,
    /// How many objects it was shown on the way there.
    shown: AtomicU64,
    seen: Mutex<Option<Seen>>,
    /// Clusters that the cluster controller lets go.
    leaving: RwLock<BTreeSet<String>>,
}

/// What one hub knows of its leading; clones are the same. At first it does not lead.
#[derive(Clone, Default)]
pub struct Leading(Arc<Inner>);

impl fmt::Debug for Leading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leading")
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}

impl Leading {
    /// Of a hub that leads already and for good.
    pub fn always(epoch: i64) -> Leading {
        let leading = Leading::default();
        leading.set(Some(Term { epoch, confirmed: 0 }));
        leading
    }

    pub(crate) fn set(&self, term: Option<Term>) {
        self.0.term.send_replace(term);
    }

    /// The present term.
    pub fn term(&self) -> Option<Term> {
        *self.0.term.borrow()
    }

    /// Waits until this hub leads.
    pub(crate) async fn begins(&self) -> Term {
        loop {
            if let Some(term) = self.turns(None).await {
                return term;
            }
        }
    }

    /// Waits until this term is over.
    pub(crate) async fn ends(&self, term: Term) {
        self.turns(Some(term)).await;
    }

    /// Waits until the term is another one than this, and tells it.
    pub(crate) async fn turns(&self, from: Option<Term>) -> Option<Term> {
        let mut terms = self.0.term.subscribe();
        loop {
            let present = *terms.borrow_and_update();
            if present != from {
                return present;
            }
            // The sender is ours: it does not go away.
            let _ = terms.changed().await;
        }
    }

    /// Where this hub stands. One that leads has seen everything before long, whatever it has seen yet.
    pub fn standing(&self) -> Standing {
        match self.term() {
            _ if !(*self.0.listed.borrow() && *self.0.clusters.borrow()) => Standing::Starting,
            Some(term) => Standing::Leading(term),
            None => Standing::Following,
        }
    }

    /// The application controller has seen everything; `seen` tells the epochs in it.
    pub(crate) fn has_listed(&self, seen: impl Fn() -> Claims + Send + Sync + 'static) {
        *self.0.seen.lock() = Some(Box::new(seen));
        self.0.listed.send_replace(true);
    }

    /// The application controller was shown one more object by a list.
    pub(crate) fn is_shown_one(&self) {
        self.0.shown.fetch_add(1, Ordering::Relaxed);
    }

    /// The cluster controller has seen everything.
    pub(crate) fn has_listed_clusters(&self) {
        self.0
            .clusters
            .send_if_modified(|seen| !std::mem::replace(seen, true));
    }

    /// The cluster controller lets a cluster go, or does not any more. From here on nothing is dispatched to it, however far the
    /// watch of the application controller is behind: what would be made after the last Bundle is gone would go with the
    /// namespace, without evidence for its agent.
    pub(crate) fn lets_go(&self, cluster: &str, is_so: bool) {
        if self.is_letting_go(cluster) == is_so {
            return;
        }
        let mut leaving = self.0.leaving.write();
        match is_so {
            true => leaving.insert(cluster.to_owned()),
            false => leaving.remove(cluster),
        };
    }

    /// Whether the cluster controller lets a cluster go.
    pub(crate) fn is_letting_go(&self, cluster: &str) -> bool {
        self.0.leaving.read().contains(cluster)
    }

    /// The epochs in what the application controller sees, as soon as that is everything. `None` when it is not and the lists
    /// of it have shown nothing more for so long: a kind may not be there yet.
    pub(super) async fn seen(&self, patience: Duration) -> Option<Claims> {
        let mut listed = self.0.listed.subscribe();
        let shown = || self.0.shown.load(Ordering::Relaxed);
        let mut before = shown();
        while timeout(patience, listed.wait_for(|listed| *listed))
            .await
            .is_err()
        {
            if before == shown() {
                return None;
            }
            before = shown();
        }
        let seen = self.0.seen.lock();
        seen.as_ref().map(|seen| seen())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_term_that_was_followed_by_another_is_over() {
        let leading = Leading::default();
        assert_eq!(leading.standing(), Standing::Starting);
        leading.has_listed(Claims::default);
        leading.has_listed_clusters();
        assert_eq!(leading.standing(), Standing::Following);
        leading.set(Some(Term {
            epoch: 3,
            confirmed: 0,
        }));
        let term = leading.begins().await;
        assert_eq!(leading.standing(), Standing::Leading(term));
        // It was lost and won again before anybody looked.
        leading.set(None);
        leading.set(Some(Term {
            epoch: 4,
            confirmed: 0,
        }));
        leading.ends(term).await;
        assert_eq!(leading.begins().await.epoch, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_waited_for_as_long_as_they_show_something() {
        let (leading, patience) = (Leading::default(), Duration::from_secs(5));
        assert_eq!(leading.seen(patience).await, None, "nothing is ever shown");
        let showing = async {
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_secs(4)).await;
                leading.is_shown_one();
            }
            let mut claims = Claims::default();
            claims.trust(7);
            leading.has_listed(move || claims.clone());
        };
        let (seen, ()) = tokio::join!(leading.seen(patience), showing);
        assert_eq!(seen.map(|claims| claims.next()), Some(8));
    }
}
