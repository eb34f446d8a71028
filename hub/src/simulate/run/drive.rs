//! The loop of a run: acts when they are due, deaths when they come, and the end.

use super::{
    Act, Cue, Missed, Outcome, Script, Until, look, objects::ActError, perform::Later, stage::Stage,
};
use crate::{
    simulate::{
        HUB,
        monitor::{Broken, Monitor, Note},
    },
    words,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
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
/// So long what is expected at the end may take to be so where nothing went wrong, and where something did: a watch that is dead
/// in silence is given up after 295 s, every agent looks at everything every five minutes, and what may still arrive is waited
/// for.
const AGREES: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(20 * 60));
/// Between two looks at it.
const AGREES_LOOKS: Duration = Duration::from_secs(10);
/// How long after the last cue there may be something to be done: faults that end, and what is tried again.
const DUES: Duration = Duration::from_secs(15 * 60);
/// What is delivered stays so for so long: longer than a Lease holds, so that whoever went a moment ago is missed by then,
/// and than reports wait whose texts alone have changed.
const HOLDS: Duration = Duration::from_secs(60);
/// Where a fault is on that nobody ends, nothing further is expected when nothing has been written for so long. Everybody has
/// looked at what waits by then, and tried it again: what is still written after it says nothing new.
const STANDS_STILL: Duration = Duration::from_secs(15 * 60);

/// What failed as long as a fault was on is tried again within so long after it: the longest pause of an agent, two minutes, and what
/// chance adds to it.
const TRIED_AGAIN: Duration = Duration::from_secs(160);

/// Somebody who helps looks at what waits so often.
const HELPS: Duration = Duration::from_secs(60);

/// The first thing that waits, and how many others do: [`Outcome::waits`] has them all.
fn in_short(waits: &[String]) -> String {
    match waits {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first}; {}", words::more(rest.len())),
    }
}

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

    /// Whether what is next goes through whenever it is due.
    fn next_is_sure(&self) -> bool {
        let next = self.all.first_key_value();
        next.is_some_and(|(_, later)| matches!(later, Later::Rejoin(_)))
    }

    fn ripe(&mut self) -> Option<Later> {
        let first = self.all.first_entry()?;
        (first.key().0 <= Instant::now()).then(|| first.remove())
    }
}

/// How a settling fleet ends.
struct Settled {
    /// How long it took until everything was delivered, if it was.
    took: Option<Duration>,
    /// What waits.
    waits: Vec<String>,
    /// Nothing was written for so long.
    idle: Option<Duration>,
}

impl Settled {
    fn waiting(waits: Vec<String>) -> Settled {
        Settled {
            took: None,
            waits,
            idle: None,
        }
    }
}

/// What was written up to a moment.
#[derive(Clone, Copy)]
struct Written {
    /// What the trace has.
    happened: u64,
    /// Writes of nothing but times among them.
    commits: usize,
    at: Instant,
}

impl Written {
    fn by_now(monitor: &Monitor) -> Written {
        Written {
            happened: monitor.happened(),
            commits: monitor.commits(),
            at: Instant::now(),
        }
    }
}

struct Driver<'a> {
    stage: Stage,
    script: &'a Script,
    due: Due,
    /// When the run is over, whatever is left.
    deadline: Option<Instant>,
    /// Since when everything is delivered.
    delivered_at: Option<Duration>,
    /// How long it took until everything was as the script expects it at the end, if it is.
    agreed: Option<Duration>,
    /// What had happened when that was looked at last, and when that was.
    looked: Option<(u64, Instant)>,
    /// When the applications were applied.
    applied: Option<Instant>,
    /// Those of [`Script::resumes`] that found somebody to let go on.
    resumed: BTreeSet<usize>,
    /// What had happened, and how many of them might be, when whom they let go on was looked for last.
    looked_for_resumes: Option<(u64, usize)>,
    /// The faults of the network that cues began, by cue and number.
    begun: Vec<(usize, u64)>,
    missed: Vec<Missed>,
    /// When it was known how the run ends.
    known_at: Option<Duration>,
}

/// Runs the script on its stage.
pub(super) async fn drive(stage: Stage, script: &Script) -> Outcome {
    let due = Due::default();
    let mut driver = Driver {
        stage,
        script,
        due,
        deadline: None,
        delivered_at: None,
        agreed: None,
        looked: None,
        applied: None,
        resumed: BTreeSet::new(),
        looked_for_resumes: None,
        begun: Vec::new(),
        missed: Vec::new(),
        known_at: None,
    };
    driver.whole().await
}

/// With their indices, in the order of their times; of the same time, and around what is waited for, in the order of the script.
fn in_order(cues: &[Cue]) -> Vec<(usize, &Cue)> {
    let mut ordered: Vec<(usize, &Cue)> = Vec::new();
    let waits = |(_, cue): &(usize, &Cue)| matches!(cue.act, Act::Await { .. } | Act::Settle { .. });
    let all: Vec<(usize, &Cue)> = cues.iter().enumerate().collect();
    for part in all.split_inclusive(waits) {
        let (last, others) = match part.split_last() {
            Some((last, others)) if waits(last) => (Some(*last), others),
            _ => (None, part),
        };
        let mut others = others.to_vec();
        others.sort_by_key(|(_, cue)| cue.at);
        ordered.extend(others);
        ordered.extend(last);
    }
    ordered
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
        let struck = |(_, rule): &(usize, u64)| stage.network.has_struck(*rule);
        let idle = self.begun.iter().filter(|begun| !struck(begun));
        self.missed
            .extend(idle.map(|(cue, rule)| match stage.unbegun.contains(rule) {
                true => Missed::Unbegun(*cue),
                false => Missed::Fault(*cue),
            }));
        let resumes = (0..self.script.resumes.len()).filter(|n| !self.resumed.contains(n));
        self.missed.extend(resumes.map(Missed::Resume));
        stage.shelves.count();
        let trace = stage.monitor.trace();
        let made = |broken: &Broken| !self.script.not_made.contains(&broken.promise);
        let broken = stage.monitor.broken().into_iter().filter(made).collect();
        let judged = stage.monitor.judged();
        Outcome {
            not_begun: None,
            seed: stage.seed,
            broken,
            judged: judged.iter().map(|(promise, _)| *promise).collect(),
            parts: judged,
            failures: std::mem::take(&mut stage.failures),
            missed: std::mem::take(&mut self.missed),
            steps_begun: stage.monitor.steps_begun(),
            faults: stage.network.struck() + stage.seen.by_themselves(),
            seen: stage.seen.counts(),
            converged_after,
            agreed_after: self.agreed,
            delivered_at: self.delivered_at.filter(|_| waits.is_empty()),
            waits,
            took: stage.now(),
            known_at: self.known_at,
            writes: trace.writes(),
            revisions,
            decisions: stage.monitor.decisions(),
            trace,
            timeline: stage.timeline(),
        }
    }

    /// Every cluster joins, and the applications are made.
    async fn joins(&mut self) -> bool {
        let until = Instant::now() + JOINS;
        loop {
            let waits = look::waits(&self.stage.fleet, self.script.held_waits).await;
            if waits.is_empty() {
                break;
            }
            if Instant::now() >= until {
                self.stage
                    .fail(format!("the fleet does not join: {}", in_short(&waits)));
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
        for object in &self.script.in_members {
            self.stage.apply_everywhere(object).await;
        }
        for object in &self.script.applications {
            let later = self.stage.perform(&Act::Apply(object.clone())).await;
            self.due.add(later);
        }
        self.applied = Some(Instant::now());
        if let Until::At(time) = self.script.until {
            self.deadline = Some(Instant::now() + time);
        }
        true
    }

    fn is_over(&self, at: Instant) -> bool {
        self.deadline.is_some_and(|deadline| at >= deadline)
    }

    /// This moment, or the deadline of the run if that is earlier.
    fn in_time(&self, at: Instant) -> Instant {
        self.deadline.map_or(at, |deadline| deadline.min(at))
    }

    async fn cues(&mut self) {
        let mut base = Instant::now();
        let mut settles = None;
        let all = in_order(&self.script.cues);
        for (n, (index, cue)) in all.iter().enumerate() {
            if self.is_over(base + cue.at) {
                self.never(&all[n..]);
                return;
            }
            self.pass(base + cue.at).await;
            if let Act::Await { check, within } = &cue.act {
                let until = Instant::now() + *within;
                while let Err(why) = check.look.at(&self.stage.fleet, &self.stage.monitor).await {
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
                settles = Some((within, idle));
                self.settle(within, Some(idle)).await;
                base = Instant::now();
                if self.is_over(base) {
                    self.never(&all[n..]);
                    return;
                }
            }
            if let (Act::Heal, Some((within, idle))) = (&cue.act, settles) {
                // What waits for a step meets it, when what held that up has ended; as long as that moves anything.
                let failures = self.stage.failures.len();
                let mut waiting = usize::MAX;
                while self.stage.failures.len() == failures
                    && self.stage.network.waiting().len() < waiting
                    && self.stage.heals_in_part()
                {
                    waiting = self.stage.network.waiting().len();
                    self.settle(within, Some(idle)).await;
                    base = Instant::now();
                    if self.is_over(base) {
                        self.never(&all[n..]);
                        return;
                    }
                }
            }
            let later = self.stage.perform(&cue.act).await;
            self.due.add(later);
            let rule = self.stage.newest_rule.take();
            self.begun.extend(rule.map(|rule| (*index, rule)));
        }
    }

    /// Those of the script's resumes whose time has come, or comes, with their indices.
    fn resumes(&self, have_come: bool) -> Vec<(usize, Instant)> {
        let since = self.applied;
        let all = self.script.resumes.iter().enumerate();
        let all = all.filter_map(|(n, resume)| Some((n, since? + resume.from)));
        all.filter(|(_, from)| (*from <= Instant::now()) == have_come)
            .collect()
    }

    /// Lets go on what waits for a person, where the script says so and something has happened since that was looked for.
    async fn resume(&mut self) {
        let may = self.resumes(true);
        let seen = (self.stage.monitor.happened(), may.len());
        if may.is_empty() || self.looked_for_resumes == Some(seen) {
            return;
        }
        self.looked_for_resumes = Some(seen);
        let script = self.script;
        for (n, resume) in may
            .iter()
            .filter_map(|(n, _)| Some((*n, script.resumes.get(*n)?)))
        {
            match self.stage.resume(resume).await {
                Ok(true) => {
                    self.resumed.insert(n);
                }
                Ok(false) => {}
                Err(ActError::Later(_)) => self.looked_for_resumes = None,
                Err(ActError::Refused(why)) => {
                    self.stage
                        .fail(format!("step {} is not resumed: {why}", resume.step));
                }
            }
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
            self.resume().await;
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
        if let Some(deadline) = self.deadline {
            self.settle(Duration::MAX, None).await;
            self.pass(deadline).await;
            return (None, self.waits().await);
        }
        for who in self.stage.network.doomed() {
            let later = self.stage.dies_at_last(&who).await;
            self.due.add(later);
        }
        self.dues().await;
        let endless = !self.stage.faults().is_empty();
        let (within, quiet, idle) = match self.script.until {
            // Without a deadline not everybody has joined.
            Until::Time(time) | Until::At(time) => {
                self.pass(Instant::now() + time).await;
                return (None, self.waits().await);
            }
            Until::Delivered { within, quiet } => (within, quiet, endless.then_some(STANDS_STILL)),
            Until::Done { within, idle, quiet } => (within, quiet, Some(idle)),
        };
        // What is late is a fault that is still on.
        if let Some(last) = self.stage.network.last_arrival() {
            self.pass(last).await;
        }
        let failures = self.stage.failures.len();
        let began = Instant::now();
        let Settled { took, waits, idle } = self.settle(within, idle).await;
        self.known_at = Some(self.stage.now());
        if took.is_some() {
            self.agrees(began).await;
            self.rests(quiet).await;
        } else if idle.is_some() && self.moves_on_after(quiet).await.is_none() {
            // Whoever waits does it quietly. What time alone moves on would be no breach of it.
            self.rests(quiet).await;
        }
        if took.is_none()
            && matches!(self.script.until, Until::Delivered { .. })
            && self.stage.failures.len() == failures
        {
            self.stage.fail(format!("not delivered: {}", in_short(&waits)));
        }
        (took, waits)
    }

    /// What the script has for later than its end does not happen.
    fn never(&mut self, cues: &[(usize, &Cue)]) {
        // What is on at the end is told with what waits then.
        let is_on = !self.stage.faults().is_empty();
        let is_told = |act: &Act| match act {
            Act::Settle { .. } | Act::Await { .. } => false,
            Act::Heal => is_on,
            _ => true,
        };
        let missed: Vec<&(usize, &Cue)> = cues.iter().filter(|(_, cue)| is_told(&cue.act)).collect();
        let never: Vec<String> = missed.iter().map(|(_, cue)| cue.act.to_string()).collect();
        let acts = missed.iter().filter(|(_, cue)| !matches!(cue.act, Act::Heal));
        self.missed.extend(acts.map(|(index, _)| Missed::Cue(*index)));
        if !never.is_empty() {
            self.stage.tell(format!("never: {}", never.join("; ")));
        }
    }

    /// The faults that are on end by themselves first, and what users do goes through at last.
    async fn dues(&mut self) {
        let until = Instant::now() + DUES;
        while let Some(next) = self.due.next() {
            if next > until && !self.due.next_is_sure() {
                let all = std::mem::take(&mut self.due.all).into_values();
                let (missed, all): (Vec<_>, Vec<_>) = all.partition(Later::may_be_missed);
                let words = |all: Vec<Later>| all.iter().map(Later::to_string).collect::<Vec<_>>().join("; ");
                if !missed.is_empty() {
                    self.stage.tell(format!("never: {}", words(missed)));
                }
                if !all.is_empty() {
                    self.stage
                        .fail(format!("still to be done after {DUES:?}: {}", words(all)));
                }
                return;
            }
            self.pass(next + Duration::from_millis(1)).await;
        }
    }

    /// What waits: the faults that are on, and what is not delivered.
    async fn waits(&self) -> Vec<String> {
        let mut waits = self.stage.faults();
        waits.extend(look::waits(&self.stage.fleet, self.script.held_waits).await);
        waits
    }

    /// Until everything is delivered and stays so, and how long it took to be; or, with `idle`, until nothing has been written for
    /// so long. What waits then. Not to get there `within` is a failure, and so is that writes of nothing but times go on while it
    /// waits. The deadline of the run is an end, too.
    async fn settle(&mut self, within: Duration, idle: Option<Duration>) -> Settled {
        let began = Instant::now();
        self.delivered_at = None;
        // When something was written last, and when something new was.
        let mut written = Written::by_now(&self.stage.monitor);
        let mut moved = written;
        let mut looked: Option<(u64, Instant, Vec<String>)> = None;
        let mut delivered: Option<Instant> = None;
        let mut helped = began;
        loop {
            let now = self.stage.monitor.happened();
            let seen = looked
                .take()
                .filter(|(then, at, _)| *then == now && at.elapsed() < LOOKS_ANYWAY);
            let (then, at, waits) = match seen {
                Some(seen) => seen,
                None => (now, Instant::now(), self.waits().await),
            };
            // What is still to be done may change everything.
            let is_due = self.due.next().is_some();
            delivered = match delivered {
                _ if is_due || !waits.is_empty() => None,
                None => Some(at),
                since => since,
            };
            if delivered.is_some() {
                self.looks_at_the_end(began).await;
            }
            if !is_due && !waits.is_empty() && helped.elapsed() >= HELPS {
                helped = Instant::now();
                for help in &self.script.helps {
                    // Where it does not go through, what waits is told at the end.
                    drop(self.stage.help(help).await);
                }
            }
            if let Some(since) = delivered.filter(|since| since.elapsed() >= HOLDS) {
                let ago = since.elapsed();
                let then = self.stage.now().saturating_sub(ago);
                self.stage.tell_at(then, "everything is delivered");
                self.delivered_at = Some(then);
                return Settled {
                    took: Some(began.elapsed().saturating_sub(ago)),
                    waits,
                    idle: None,
                };
            }
            if self.is_over(Instant::now()) {
                let since = delivered.map(|since| since.elapsed());
                self.delivered_at = since.map(|ago| self.stage.now().saturating_sub(ago));
                return Settled::waiting(waits);
            }
            let now = Written::by_now(&self.stage.monitor);
            if now.happened != moved.happened || is_due {
                moved = now;
            }
            if (now.happened, now.commits) != (written.happened, written.commits) || is_due {
                written = now;
            } else if let Some(idle) = idle.filter(|idle| {
                let eased = self.stage.eased;
                delivered.is_none()
                    && written.at.elapsed() >= *idle
                    && eased.is_none_or(|at| at.elapsed() >= TRIED_AGAIN)
            }) {
                let Some(after) = self.moves_on_after(within.saturating_sub(began.elapsed())).await else {
                    let how = match self.moves_on_after(Duration::MAX).await {
                        Some(after) => format!(
                            "nothing further happens in what is left of {}, and something does after {}",
                            words::time(within),
                            words::time(after)
                        ),
                        None => "nothing further happens".to_owned(),
                    };
                    self.stage
                        .tell(format!("{how}; what waits: {}", in_short(&waits)));
                    return Settled {
                        took: None,
                        waits,
                        idle: Some(idle),
                    };
                };
                // From there on it is waited for anew.
                self.pass(self.in_time(Instant::now() + after)).await;
                (written.at, moved.at) = (Instant::now(), Instant::now());
            }
            let of_times = now.commits.saturating_sub(moved.commits);
            // Nothing new for twice as long, and yet it was never idle.
            let restless = idle.filter(|idle| delivered.is_none() && moved.at.elapsed() >= *idle * 2);
            let left = within.saturating_sub(began.elapsed());
            if let Some(idle) = restless.filter(|idle| *idle >= STANDS_STILL)
                && self.moves_on_after(left).await.is_none()
            {
                // The next of these writes is named as what it is.
                let now = Instant::now();
                self.rests(self.in_time(now + idle).duration_since(now)).await;
                self.stage.fail(format!(
                    "nothing further happens, and it is not quiet: {} of nothing but times; what waits: {}",
                    words::counted(of_times, "write"),
                    in_short(&waits)
                ));
                return Settled::waiting(waits);
            }
            if delivered.is_none() && began.elapsed() >= within {
                let mut why = in_short(&waits);
                if of_times > 0 {
                    let writes = words::counted(of_times, "write");
                    why = format!("{why}; since something happened there were {writes} of nothing but times");
                }
                self.stage
                    .fail(format!("not delivered after {}: {why}", words::time(within)));
                return Settled::waiting(waits);
            }
            looked = Some((then, at, waits));
            self.pass(self.in_time(Instant::now() + LOOKS)).await;
        }
    }

    /// How soon time alone moves something on, or somebody whose time comes lets it go on, if that is within so long.
    async fn moves_on_after(&self, within: Duration) -> Option<Duration> {
        let now = self.stage.skews.now(HUB);
        let timers = look::timers(&self.stage.fleet).await.into_iter();
        let left = timers.filter_map(|at| Duration::try_from(at.duration_since(now)).ok());
        let resumes = self.resumes(false).into_iter();
        let left = left.chain(resumes.map(|(_, from)| from.saturating_duration_since(Instant::now())));
        left.filter(|left| !left.is_zero() && *left <= within).min()
    }

    /// Until everything is as the script expects it at the end, or has had its time.
    async fn agrees(&mut self, began: Instant) {
        let within = match self.stage.network.struck() + self.stage.seen.by_themselves() {
            0 => AGREES.0,
            _ => AGREES.1,
        };
        let until = Instant::now() + within;
        self.looks_at_the_end(began).await;
        while self.agreed.is_none() && Instant::now() < until {
            self.pass(Instant::now() + AGREES_LOOKS).await;
            self.looks_at_the_end(began).await;
        }
    }

    /// Whether everything is as the script expects it at the end; it is looked at anew where something has happened since.
    async fn looks_at_the_end(&mut self, began: Instant) {
        let happened = self.stage.monitor.happened();
        let is_known = |(seen, at): (u64, Instant)| {
            seen == happened && (self.agreed.is_some() || at.elapsed() < LOOKS_ANYWAY)
        };
        if self.looked.is_some_and(is_known) {
            return;
        }
        let agrees = self.is_as_expected().await;
        self.looked = Some((happened, Instant::now()));
        self.agreed = agrees.then(|| self.agreed.unwrap_or_else(|| began.elapsed()));
    }

    async fn is_as_expected(&self) -> bool {
        for check in &self.script.finally {
            let look = check.look.at(&self.stage.fleet, &self.stage.monitor);
            if look.await.is_err() {
                return false;
            }
        }
        true
    }

    /// Nothing is written for so long.
    async fn rests(&mut self, quiet: Duration) {
        if quiet.is_zero() {
            return;
        }
        self.stage.monitor.note(&Note::Quiet);
        self.pass(Instant::now() + quiet).await;
        self.stage.monitor.note(&Note::Busy);
    }
}
