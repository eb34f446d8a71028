//! What came of a run.

use crate::simulate::{
    fault::Kind,
    monitor::{Broken, Promise},
    trace::Trace,
};
use roundhouse_api::decision::DecisionSpec;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// Sentences whose objects are looked up in the trace when something went wrong.
const TOLD: usize = 20;
/// Entries of the trace that are printed when something went wrong.
const PRINTED: usize = 80;
/// So long after the first promise was broken.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Something that happened, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// So long after the start, in virtual time.
    pub at: Duration,
    /// Of whom, where it may happen to many.
    pub who: Option<String>,
    /// What.
    pub what: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Some(who) => write!(f, "{who}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Something that was expected of a run and was not so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// So long after the start, in virtual time.
    pub at: Duration,
    /// What.
    pub what: String,
}

/// Something that a script asks for and that never came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// The run was over before this one of [`Script::cues`](super::Script::cues), by its index.
    Cue(usize),
    /// The fault of the network that this cue began befell nobody.
    Fault(usize),
    /// It had ended when the step began that it waited for, or that never did.
    Unbegun(usize),
    /// This one of [`Script::resumes`](super::Script::resumes) found no run to let go on.
    Resume(usize),
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed, with which it is run again.
    pub seed: u64,
    /// Why there was no run at all, if there was none.
    pub not_begun: Option<String>,
    /// Promises that were broken.
    pub broken: Vec<Broken>,
    /// Promises that had something to judge; of the others the run says nothing.
    pub judged: BTreeSet<Promise>,
    /// The same by the part of a promise, where it has several; its name is empty where it has one.
    pub parts: BTreeSet<(Promise, &'static str)>,
    /// What the script expected and was not so; that it did not converge, too.
    pub failures: Vec<Failure>,
    /// What the script asks for and that never came about.
    pub missed: Vec<Missed>,
    /// The steps of any application that began.
    pub steps_begun: BTreeSet<String>,
    /// How many faults befell anything, ends of watches aside.
    pub faults: u64,
    /// How often each kind of fault happened.
    pub seen: BTreeMap<Kind, u64>,
    /// How long after the last cue, or the end of its fault, everything was delivered.
    pub converged_after: Option<Duration>,
    /// How long after that same moment everything was, beside that, as the script expects it at the end: what is in the clusters,
    /// whatever anybody reports.
    pub agreed_after: Option<Duration>,
    /// When everything was delivered for good, in virtual time since the start.
    pub delivered_at: Option<Duration>,
    /// What was not delivered at the end, and the faults that were still on.
    pub waits: Vec<String>,
    /// Virtual time that it took.
    pub took: Duration,
    /// When it was known how it ends, if that was before: for some time after it nothing may be written.
    pub known_at: Option<Duration>,
    /// Writes of all servers that changed something, heartbeats aside.
    pub writes: usize,
    /// Revisions of all servers at the end: with the digest of the trace they tell one run from another.
    pub revisions: BTreeMap<String, u64>,
    /// The Decisions at the end, by namespace and name.
    pub decisions: Vec<DecisionSpec>,
    /// What happened to whom.
    pub trace: Trace,
    /// What was done, and what became of it, in sentences.
    pub timeline: Vec<Event>,
}

impl Outcome {
    pub(super) fn not_begun(seed: u64, why: &str) -> Outcome {
        let failure = Failure {
            at: Duration::ZERO,
            what: format!("the run did not begin: {why}"),
        };
        Outcome {
            seed,
            not_begun: Some(why.to_owned()),
            broken: Vec::new(),
            judged: BTreeSet::new(),
            parts: BTreeSet::new(),
            failures: vec![failure],
            missed: Vec::new(),
            steps_begun: BTreeSet::new(),
            faults: 0,
            seen: BTreeMap::new(),
            converged_after: None,
            agreed_after: None,
            delivered_at: None,
            waits: Vec::new(),
            took: Duration::ZERO,
            known_at: None,
            writes: 0,
            revisions: BTreeMap::new(),
            decisions: Vec::new(),
            trace: Trace::default(),
            timeline: Vec::new(),
        }
    }

    /// Whether every promise was kept, and everything was as the script expected.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty() && self.failures.is_empty()
    }

    /// How long it took until everything was delivered, by what is reported, and as the script expects it, whatever is reported.
    pub fn settled_after(&self) -> Option<Duration> {
        Some(self.converged_after?.max(self.agreed_after?))
    }

    /// What tells this run from others: equal for the same script and seed.
    pub fn digest(&self) -> String {
        let (trace, revisions, took) = (self.trace.digest(), &self.revisions, self.took.as_millis());
        roundhouse_api::hash::sha256(format!("{trace}{revisions:?}{took}{:?}", self.timeline).as_bytes())
    }
}

/// The seed, what went wrong, the timeline, and what happened to the objects and clusters concerned up to the first of it: those of a
/// broken promise, and those that are named in what was not as expected.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |at: Duration| format!("{:10.3} s", at.as_secs_f64());
        let kinds: Vec<String> = self
            .seen
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        writeln!(
            f,
            "seed {}: {} virtual s, {} writes; {} faults: {}",
            self.seed,
            self.took.as_secs(),
            self.writes,
            self.faults,
            kinds.join(", ")
        )?;
        if self.is_good() {
            return Ok(());
        }
        for failure in &self.failures {
            writeln!(f, "FAILED {}  {}", at(failure.at), failure.what)?;
        }
        for broken in self.broken.iter().take(10) {
            writeln!(f, "BROKEN {broken}")?;
        }
        for waits in &self.waits {
            writeln!(f, "WAITS {waits}")?;
        }
        for event in &self.timeline {
            writeln!(f, "{}  {event}", at(event.at))?;
        }
        let broken = self.broken.iter().map(|broken| broken.object.clone());
        let failures = self.failures.iter().map(|failure| &failure.what);
        let told = failures.chain(&self.waits).take(TOLD);
        let named = told.flat_map(|what| self.trace.named_in(what));
        let objects: Vec<_> = broken.chain(named).collect();
        let first = self.broken.iter().map(|broken| broken.at);
        let first = first.chain(self.failures.iter().map(|failure| failure.at)).min();
        let until = first.unwrap_or_default().saturating_add(AFTERWARDS);
        f.write_str(&self.trace.of(&objects, until, PRINTED))
    }
}
