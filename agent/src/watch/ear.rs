//! Whether the watches of the hub are dead although nothing says so. A network may swallow a watch without an end of it: to
//! who reads it is quiet then, as it is when nothing happens.
//!
//! The watch of the Lease proves it: every renewal that the hub has acknowledged has to come back there. One that does not
//! come in time ends that watch, and the one of the Bundles, which has gone the same way; they are opened anew, the latter
//! where it was, without a list. A watch of Bundles that is quiet by itself is known by the bookmarks that stay away.

use crate::delay::{SharedJitter, comes, spread};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// How long a renewal may take from its acknowledgement to the watch. A hub under load sends late, by seconds. With the jitter
/// and two renewals it is less than the Lease holds (40 s): the hub does not take the agent for deaf meanwhile.
const PATIENCE: Duration = Duration::from_secs(12);
/// The part of it by which it is jittered: a thousand agents whose network heals do not open their watches at once.
const JITTER: f64 = 1.0 / 3.0;
/// Between two times that a watch is given up for what it does not show.
const PAUSE: Duration = Duration::from_secs(60);
/// How long the watch of Bundles may be quiet once it has shown a bookmark: API servers send one about every minute.
const QUIET: Duration = Duration::from_secs(150);

/// A renewal that was acknowledged.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    version: u64,
    at: Instant,
}

/// What the watch of the Lease still has to show; pure. Versions of one object are ordered as numbers
/// (Kubernetes KEP-5504); of others nothing is concluded.
#[derive(Debug)]
struct Echo {
    /// How long it may take.
    patience: Duration,
    /// What it has shown last: a watch may be quicker than the answer to the renewal.
    shown: u64,
    /// The first renewal that was not shown.
    awaited: Option<Renewal>,
    /// The last one that was acknowledged.
    last: Option<Renewal>,
    /// Not given up before then.
    not_before: Option<Instant>,
}

impl Echo {
    fn new(patience: Duration) -> Echo {
        Echo {
            patience,
            shown: 0,
            awaited: None,
            last: None,
            not_before: None,
        }
    }

    /// The hub has acknowledged a renewal at this version.
    fn renewed(&mut self, version: u64, at: Instant) {
        let renewal = Renewal { version, at };
        self.last = Some(renewal);
        if version > self.shown {
            self.awaited.get_or_insert(renewal);
        }
    }

    /// The watch, or the list that it begins with, has shown this version.
    fn shown(&mut self, version: u64) {
        self.shown = version;
        if self.awaited.is_some_and(|awaited| version >= awaited.version) {
            self.awaited = self.last.filter(|last| version < last.version);
        }
    }

    /// When the watch is proved dead, unless it shows something before.
    fn dead_at(&self) -> Option<Instant> {
        let due = self.awaited?.at + self.patience;
        Some(self.not_before.map_or(due, |earliest| due.max(earliest)))
    }

    /// The watch was given up: the next one begins with a list, and owes nothing of before.
    fn given_up(&mut self, now: Instant, patience: Duration) {
        *self = Echo::new(patience);
        self.not_before = Some(now + PAUSE);
    }
}

/// Hears by the watch of the Lease whether watches of the hub live.
#[derive(Debug)]
pub(crate) struct Ear {
    echo: Mutex<Echo>,
    changed: Notify,
    /// How often watches were given up.
    given_up: watch::Sender<u64>,
    jitter: SharedJitter,
}

impl Ear {
    pub(crate) fn new(jitter: SharedJitter) -> Ear {
        Ear {
            echo: Mutex::new(Echo::new(patience(&jitter))),
            changed: Notify::new(),
            given_up: watch::Sender::new(0),
            jitter,
        }
    }

    /// The hub has acknowledged a renewal.
    pub(crate) fn renewed(&self, version: Option<&str>) {
        if let Some(version) = number(version) {
            self.echo.lock().renewed(version, Instant::now());
            self.changed.notify_one();
        }
    }

    /// The watch has shown a renewal, or its list the Lease.
    pub(crate) fn shown(&self, version: Option<&str>) {
        if let Some(version) = number(version) {
            self.echo.lock().shown(version);
            self.changed.notify_one();
        }
    }

    /// Told whenever the watches of the hub are given up.
    pub(crate) fn told(&self) -> watch::Receiver<u64> {
        self.given_up.subscribe()
    }

    /// Done when the watch of the Lease is proved dead; whoever hears it opens a new one.
    pub(crate) async fn gives_up(&self) {
        loop {
            let due = self.echo.lock().dead_at();
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = comes(due) => break,
            }
        }
        self.echo.lock().given_up(Instant::now(), patience(&self.jitter));
        tracing::warn!(
            "a renewal of the Lease did not come back: the watches of the hub are dead, and opened anew; check what cuts \
             connections in silence on the way to the hub if this happens again"
        );
        self.given_up.send_modify(|times| *times += 1);
    }
}

fn patience(jitter: &SharedJitter) -> Duration {
    spread(PATIENCE, JITTER, jitter.unit())
}

fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// When a watch that shows bookmarks was heard last; pure.
#[derive(Debug)]
pub(crate) struct Quiet {
    heard: Instant,
    /// Whether a bookmark came since the last time that it was given up: not every API server sends them.
    marked: bool,
}

impl Quiet {
    /// A watch that begins.
    pub(crate) fn new(now: Instant) -> Quiet {
        Quiet {
            heard: now,
            marked: false,
        }
    }

    /// Another watch was opened.
    pub(crate) fn opened(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Something came.
    pub(crate) fn heard(&mut self, bookmark: bool, now: Instant) {
        self.heard = now;
        self.marked |= bookmark;
    }

    /// When it is taken for dead, unless something comes before.
    pub(crate) fn dead_at(&self) -> Option<Instant> {
        self.marked.then(|| self.heard + QUIET)
    }

    /// It was given up.
    pub(crate) fn given_up(&mut self) {
        self.marked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delay::SeededJitter;
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_watch_is_dead_when_the_first_renewal_that_it_owes_is_late() {
        let start = Instant::now();
        let at = |seconds| start + SECOND * seconds;
        let mut echo = Echo::new(SECOND * 20);
        assert_eq!(echo.dead_at(), None, "nothing was acknowledged");
        echo.renewed(5, at(0));
        echo.renewed(9, at(10));
        assert_eq!(echo.dead_at(), Some(at(20)), "the first one counts");
        echo.shown(4);
        assert_eq!(echo.dead_at(), Some(at(20)), "what is older shows nothing");
        echo.shown(5);
        assert_eq!(echo.dead_at(), Some(at(30)), "the next one is owed");
        echo.shown(12);
        assert_eq!(
            echo.dead_at(),
            None,
            "somebody wrote it after us, and that was shown"
        );
        echo.shown(20);
        echo.renewed(20, at(40));
        assert_eq!(echo.dead_at(), None, "the watch was quicker than the answer");
        // A hub that was restored counts from an earlier version on, and the list says so.
        echo.shown(3);
        echo.renewed(4, at(50));
        assert_eq!(echo.dead_at(), Some(at(70)));
    }

    #[test]
    fn it_is_given_up_once_a_minute_at_most_and_the_next_one_owes_nothing_of_before() {
        let start = Instant::now();
        let at = |seconds| start + SECOND * seconds;
        let mut echo = Echo::new(SECOND * 20);
        echo.renewed(5, at(0));
        echo.given_up(at(20), SECOND * 12);
        assert_eq!(echo.dead_at(), None);
        echo.renewed(6, at(25));
        assert_eq!(echo.dead_at(), Some(at(80)), "not before a minute is over");
        echo.given_up(at(80), SECOND * 12);
        echo.renewed(7, at(200));
        assert_eq!(echo.dead_at(), Some(at(212)));
    }

    #[test]
    fn quiet_says_something_only_where_bookmarks_come() {
        let start = Instant::now();
        let mut quiet = Quiet::new(start);
        quiet.heard(false, start + SECOND);
        assert_eq!(quiet.dead_at(), None);
        quiet.heard(true, start + SECOND * 60);
        quiet.heard(false, start + SECOND * 70);
        assert_eq!(quiet.dead_at(), Some(start + SECOND * 70 + QUIET));
        quiet.opened(start + SECOND * 300);
        assert_eq!(quiet.dead_at(), Some(start + SECOND * 300 + QUIET));
        quiet.given_up();
        quiet.opened(start + SECOND * 500);
        assert_eq!(quiet.dead_at(), None, "once for each time that bookmarks come");
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_agents_whose_watches_died_at_once_give_them_up_one_after_the_other() {
        let start = Instant::now();
        let mut times = Vec::new();
        for n in 0..1_000 {
            let ear = Ear::new(Arc::new(SeededJitter::from_text(&format!("c{n}"))));
            let due = {
                ear.renewed(Some("7"));
                ear.echo.lock().dead_at().unwrap()
            };
            times.push(due - start);
        }
        times.sort();
        assert!(times[0] >= SECOND * 8 && times[999] <= SECOND * 16);
        let busiest = times.iter().map(|from| {
            let within = times
                .iter()
                .filter(|time| (*from..*from + SECOND).contains(*time));
            within.count()
        });
        assert!(busiest.max().unwrap() < 180);
    }

    #[tokio::test(start_paused = true)]
    async fn who_listens_is_told_when_nothing_comes_back_and_only_then() {
        let ear = Ear::new(Arc::new(SeededJitter::from_text("c1")));
        let mut told = ear.told();
        let live = async {
            for n in 0..60_u64 {
                ear.renewed(Some(&n.to_string()));
                tokio::time::sleep(SECOND * 4).await;
                ear.shown(Some(&n.to_string()));
                tokio::time::sleep(SECOND * 6).await;
            }
        };
        tokio::select! {
            biased;
            () = ear.gives_up() => panic!("everything came back"),
            () = live => {}
        }
        assert!(!told.has_changed().unwrap());
        let since = Instant::now();
        ear.renewed(Some("100"));
        ear.shown(None);
        ear.gives_up().await;
        assert!((SECOND * 8..=SECOND * 16).contains(&since.elapsed()));
        assert_eq!(*told.borrow_and_update(), 1);
        ear.renewed(Some("no number"));
        assert_eq!(ear.echo.lock().dead_at(), None);
    }
}
