//! The loop of a run: acts when they are due, deaths when they come, and the end.

use super::{Act, Outcome, Script, Until, look, perform::Later, stage::Stage};
use crate::simulate::{
    HUB,
    monitor::{Broken, Note},
};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Between two looks at whether something is so.
const LOOKS: Duration = Duration::from_millis(500);
/// Between two looks at whether somebody has ended by itself.
const REVIVES: Duration = Duration::from_secs(1);
/// Nothing that a look would see happens longer than this without a write.
const LOOKS_ANYWAY: Duration = Duration::from_secs(15);
/// How long other hubs have to see everything before the first cue.
const FOLLOWS: Duration = Duration::from_secs(5);
/// How long the clusters may take to be available at the start.
const JOINS: Duration = Duration::from_secs(120);
/// After everything is delivered, what follows from it settles: reports whose texts changed are sent after ten seconds,
/// and Leases are renewed.
const SETTLES: Duration = Duration::from_secs(30);

/// What is to be done when.
#[derive(Default)]
struct Due {
    all: BTreeMap<(Instant, u64), Later>,
    made: u64,
}

impl Due {
    fn add(&mut self, later: Option<(Duration, Later)>) {
        if let Some((after, later)) = later {
            self.made += 1;
            self.all.insert((Instant::now() + after, self.made), later);
        }
    }

    fn next(&self) -> Option<Instant> {
        self.all.first_key_value().map(|((at, _), _)| *at)
    }

    fn ripe(&mut self) -> Option<Later> {
        let first = self.all.first_entry()?;
        (first.key().0 <= Instant::now()).then(|| first.remove())
    }
}

struct Driver<'a> {
    stage: Stage,
    script: &'a Script,
    due: Due,
}

/// Runs the script on its stage.
pub(super) async fn drive(stage: Stage, script: &Script) -> Outcome {
    let due = Due::default();
    let mut driver = Driver { stage, script, due };
    driver.whole().await
}

impl Driver<'_> {
    async fn whole(&mut self) -> Outcome {
        if self.joins().await {
            self.cues().await;
        }
        let (converged_after, waits) = self.end().await;
        for check in &self.script.finally {
            // It leaves nothing to be done.
            drop(self.stage.perform(&Act::Check(check.clone())).await);
        }
        let stage = &mut self.stage;
        let mut revisions = BTreeMap::new();
        for name in stage.fleet.members().into_iter().chain([HUB.to_owned()]) {
            let store = stage.shelves.store_of(&name);
            revisions.insert(name, store.map_or(0, |store| store.revision()));
        }
        let trace = stage.monitor.trace();
        let made = |broken: &Broken| !self.script.not_made.contains(&broken.promise);
        let broken = stage.monitor.broken().into_iter().filter(made).collect();
        Outcome {
            seed: stage.seed,
            broken,
            failures: std::mem::take(&mut stage.failures),
            seen: stage.seen.counts(),
            converged_after,
            waits,
            took: stage.now(),
            writes: trace.writes(),
            revisions,
            trace,
            timeline: stage.timeline(),
        }
    }

    /// Every cluster joins, and the applications are made.
    async fn joins(&mut self) -> bool {
        let until = Instant::now() + JOINS;
        loop {
            let waits = look::waits(&self.stage.fleet).await;
            if waits.is_empty() {
                break;
            }
            if Instant::now() >= until {
                self.stage
                    .fail(format!("the fleet does not join: {}", waits.join("; ")));
                return false;
            }
            self.pass(Instant::now() + LOOKS).await;
        }
        self.stage.tell("every cluster is available");
        for hub in self.script.hubs.iter().filter(|hub| *hub != HUB) {
            self.stage.fleet.start_hub_called(hub);
        }
        if self.script.hubs.len() > 1 {
            self.pass(Instant::now() + FOLLOWS).await;
        }
        for object in &self.script.applications {
            let later = self.stage.perform(&Act::Apply(object.clone())).await;
            self.due.add(later);
        }
        true
    }

    async fn cues(&mut self) {
        let mut base = Instant::now();
        for cue in &self.script.cues {
            self.pass(base + cue.at).await;
            if let Act::Await { check, within } = &cue.act {
                let until = Instant::now() + *within;
                while let Err(why) = check.look.at(&self.stage.fleet).await {
                    if Instant::now() >= until {
                        self.stage
                            .fail(format!("not within {within:?}: {}: {why}", check.what));
                        break;
                    }
                    self.pass(Instant::now() + LOOKS).await;
                }
                base = Instant::now();
            }
            if let Act::Settle { idle, within } = cue.act {
                self.settle(within, Some(idle)).await;
                base = Instant::now();
            }
            let later = self.stage.perform(&cue.act).await;
            self.due.add(later);
        }
    }

    /// Lets time pass, and does what is due meanwhile.
    async fn pass(&mut self, until: Instant) {
        loop {
            while let Some(later) = self.due.ripe() {
                let later = self.stage.follow(later).await;
                self.due.add(later);
            }
            for later in self.stage.revive().await {
                self.due.add(Some(later));
            }
            let next = self.due.next().map_or(until, |due| due.min(until));
            let next = next.min(Instant::now() + REVIVES);
            let stage = &mut self.stage;
            tokio::select! {
                biased;
                Some(who) = stage.deaths.recv() => {
                    let later = stage.dies(&who).await;
                    self.due.add(later);
                }
                Some(failure) = stage.failed_stores.recv() => {
                    let later = stage.store_ends(&failure.why).await;
                    self.due.add(later);
                }
                () = sleep_until(next) => if next >= until { return },
            }
        }
    }

    /// The end of the run: how long it took to converge, and what waits.
    async fn end(&mut self) -> (Option<Duration>, Vec<String>) {
        for who in self.stage.network.doomed() {
            let later = self.stage.dies(&who).await;
            self.due.add(later);
        }
        // The faults that are on end by themselves first.
        while let Some(next) = self.due.next() {
            self.pass(next + Duration::from_millis(1)).await;
        }
        let (within, quiet, idle) = match self.script.until {
            Until::Time(time) => {
                self.pass(Instant::now() + time).await;
                return (None, look::waits(&self.stage.fleet).await);
            }
            Until::Delivered { within, quiet } => (within, quiet, None),
            Until::Done { within, idle } => (within, Duration::ZERO, Some(idle)),
        };
        // What is late is a fault that is still on.
        if let Some(last) = self.stage.network.last_arrival() {
            self.pass(last).await;
        }
        let (took, waits) = self.settle(within, idle).await;
        if took.is_some() {
            self.rests(quiet).await;
        }
        (took, waits)
    }

    /// Until everything is delivered, and how long that took; or, with `idle`, until nothing has been written for so long. What
    /// waits then. Not to get there `within` is a failure.
    async fn settle(&mut self, within: Duration, idle: Option<Duration>) -> (Option<Duration>, Vec<String>) {
        let began = Instant::now();
        let mut happened = (self.stage.monitor.happened(), began);
        let mut looked: Option<(u64, Instant, Vec<String>)> = None;
        loop {
            let now = self.stage.monitor.happened();
            let seen = looked
                .take()
                .filter(|(then, at, _)| *then == now && at.elapsed() < LOOKS_ANYWAY);
            let (then, at, waits) = match seen {
                Some(seen) => seen,
                None => (now, Instant::now(), look::waits(&self.stage.fleet).await),
            };
            if waits.is_empty() {
                self.stage.tell("everything is delivered");
                return (Some(began.elapsed()), waits);
            }
            let now = (self.stage.monitor.happened(), Instant::now());
            if now.0 != happened.0 {
                happened = now;
            } else if idle.is_some_and(|idle| happened.1.elapsed() >= idle) {
                self.stage.tell(format!(
                    "nothing further happens; what waits: {}",
                    waits.join("; ")
                ));
                return (None, waits);
            }
            if began.elapsed() >= within {
                self.stage
                    .fail(format!("not delivered after {within:?}: {}", waits.join("; ")));
                return (None, waits);
            }
            looked = Some((then, at, waits));
            self.pass(Instant::now() + LOOKS).await;
        }
    }

    /// Nothing is written for so long, once what follows from the delivery has settled.
    async fn rests(&mut self, quiet: Duration) {
        if quiet.is_zero() {
            return;
        }
        self.pass(Instant::now() + SETTLES).await;
        self.stage.monitor.note(&Note::Quiet);
        self.pass(Instant::now() + quiet).await;
        self.stage.monitor.note(&Note::Busy);
    }
}
