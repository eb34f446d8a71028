//! The network of a fleet: every wire, and the faults that are on.

use super::{Dice, Effect, Ending, Kind, Moment, On, Rule, Seen, changes::Changes, life::Life, wire::carry};
use crate::simulate::{Ends, HUB, WORKLOADS, Wire, Wires};
use bytes::Bytes;
use http::Request;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

/// Who is told when a connection that carries nothing is given up.
pub(super) const TIMES_OUT: Duration = Duration::from_secs(60);

/// All wires of a fleet. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network")
            .field("state", &self.0.state)
            .finish_non_exhaustive()
    }
}

/// The version of what a server stored so long ago.
type Versions = dyn Fn(&str, Duration) -> Option<u64> + Send + Sync;

/// Whether a step of this name has begun.
type Begun = dyn Fn(&str) -> bool + Send + Sync;

struct Inner {
    state: Mutex<State>,
    versions: OnceLock<Box<Versions>>,
    begun: OnceLock<Box<Begun>>,
    /// Told whenever a rule or a partition comes or goes.
    changes: Changes,
    deaths: mpsc::UnboundedSender<String>,
    seen: Seen,
}

#[derive(Debug)]
struct State {
    seed: u64,
    dice: BTreeMap<Ends, Dice>,
    /// How long every request takes, whatever else befalls it.
    latency: RangeInclusive<Duration>,
    hubs: BTreeSet<String>,
    rules: BTreeMap<u64, Rule>,
    rules_made: u64,
    /// Those of them that have befallen anything.
    struck: BTreeSet<u64>,
    /// Clusters whose agents do not reach the hub.
    cut_off: BTreeSet<String>,
    /// Parties that are held still.
    held: BTreeSet<String>,
    lives: BTreeMap<String, Arc<Life>>,
    /// When the last request arrives that is late or comes again, or who asked hears that it is lost.
    last_arrival: Option<Instant>,
    /// Ends of watches that are asked for, in their order.
    endings: Vec<(On, Ending)>,
}

/// What is to become of one request.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) delay: Duration,
    pub(super) effect: Option<(u64, Effect)>,
    /// When the same request arrives again.
    pub(super) again: Option<Duration>,
}

impl Network {
    /// A network without faults, and who dies of them: the names of parties whose doom has come.
    pub fn new(seed: u64, seen: Seen) -> (Network, mpsc::UnboundedReceiver<String>) {
        let (deaths, told) = mpsc::unbounded_channel();
        let state = State {
            seed,
            dice: BTreeMap::new(),
            latency: Duration::ZERO..=Duration::ZERO,
            hubs: BTreeSet::from([HUB.to_owned()]),
            rules: BTreeMap::new(),
            rules_made: 0,
            struck: BTreeSet::new(),
            cut_off: BTreeSet::new(),
            held: BTreeSet::new(),
            lives: BTreeMap::new(),
            last_arrival: None,
            endings: Vec::new(),
        };
        let inner = Inner {
            state: Mutex::new(state),
            versions: OnceLock::new(),
            begun: OnceLock::new(),
            changes: Changes::default(),
            deaths,
            seen,
        };
        (Network(Arc::new(inner)), told)
    }

    /// What a fleet puts on its wires.
    pub fn wires(&self) -> Wires {
        let network = self.clone();
        Wires::new(move |ends, wire| {
            let (network, ends) = (network.clone(), ends.clone());
            let life = network.life_of(&ends.who);
            Wire::new(move |request: Request<Bytes>| {
                carry(network.clone(), ends.clone(), life.clone(), wire.clone(), request)
            })
        })
    }

    fn changed(&self) {
        self.0.changes.tell();
    }

    /// From now on every request of hubs and agents takes so long to arrive: no fault, and no end of faults ends it.
    pub fn set_latency(&self, latency: RangeInclusive<Duration>) {
        self.0.state.lock().latency = latency;
    }

    /// Tells which parties are hubs; without it [`HUB`] alone is one.
    pub fn set_hubs<'a>(&self, hubs: impl IntoIterator<Item = &'a String>) {
        self.0.state.lock().hubs = hubs.into_iter().cloned().collect();
    }

    pub(super) fn is_hub(&self, who: &str) -> bool {
        self.0.state.lock().hubs.contains(who)
    }

    /// Tells how to find the version of what a server stored some time ago, for [`Effect::Stale`]; the first one counts.
    pub fn set_versions(&self, versions: impl Fn(&str, Duration) -> Option<u64> + Send + Sync + 'static) {
        // A second one is not taken.
        let _ = self.0.versions.set(Box::new(versions));
    }

    /// Tells how to find out whether a step has begun, for [`Rule::from_step`]; the first one counts, and without it none has.
    pub fn set_begun(&self, begun: impl Fn(&str) -> bool + Send + Sync + 'static) {
        // A second one is not taken.
        let _ = self.0.begun.set(Box::new(begun));
    }

    /// Whether the step has begun that a rule waits for, if it waits for one.
    fn is_open(&self, rule: &Rule) -> bool {
        let has_begun = |step: &String| self.0.begun.get().is_some_and(|begun| begun(step));
        rule.from_step.as_ref().is_none_or(has_begun)
    }

    /// The faults that wait for a step which has not begun, by number.
    pub fn waiting(&self) -> BTreeMap<u64, Rule> {
        let state = self.0.state.lock();
        let waiting = state.rules.iter().filter(|(_, rule)| !self.is_open(rule));
        waiting.map(|(number, rule)| (*number, rule.clone())).collect()
    }

    /// The version of what a server stored so long ago, if that is known.
    pub(super) fn version(&self, server: &str, ago: Duration) -> Option<u64> {
        self.0.versions.get()?(server, ago)
    }

    /// Turns a fault on; the number turns it off again.
    pub fn add(&self, rule: Rule) -> u64 {
        let number = {
            let mut state = self.0.state.lock();
            state.rules_made += 1;
            let number = state.rules_made;
            state.rules.insert(number, rule);
            number
        };
        self.changed();
        number
    }

    /// How many of the faults that were turned on have befallen anything.
    pub fn struck(&self) -> u64 {
        self.0.state.lock().struck.len() as u64
    }

    /// Whether this one of them has.
    pub fn has_struck(&self, number: u64) -> bool {
        self.0.state.lock().struck.contains(&number)
    }

    /// Turns a fault off.
    pub fn lift(&self, number: u64) {
        self.0.state.lock().rules.remove(&number);
        self.changed();
    }

    /// Cuts the agents of some clusters off from the hub: requests and watches of theirs carry nothing until
    /// [`Network::rejoin`].
    pub fn cut_off<'a>(&self, clusters: impl IntoIterator<Item = &'a str>) {
        let clusters = clusters.into_iter().map(str::to_owned);
        self.0.state.lock().cut_off.extend(clusters);
        self.note(Kind::Partition);
        self.changed();
    }

    /// Ends a partition.
    pub fn rejoin<'a>(&self, clusters: impl IntoIterator<Item = &'a str>) {
        let mut state = self.0.state.lock();
        for cluster in clusters {
            state.cut_off.remove(cluster);
        }
        drop(state);
        self.changed();
    }

    /// Holds everything that somebody sends and is sent, as of a process that is stopped, or lets it go on.
    pub fn hold(&self, who: &str, is_on: bool) {
        let mut state = self.0.state.lock();
        match is_on {
            true => state.held.insert(who.to_owned()),
            false => state.held.remove(who),
        };
        drop(state);
        self.changed();
    }

    /// Ends the watches that are open now.
    pub fn end_watches(&self, on: On, how: Ending) {
        self.0.state.lock().endings.push((on, how));
        self.changed();
    }

    /// Turns everything off but these faults. Watches that have fallen silent stay so.
    pub fn heal(&self, but: &BTreeMap<u64, Rule>) {
        let mut state = self.0.state.lock();
        state.rules.retain(|number, _| but.contains_key(number));
        state.cut_off.clear();
        state.held.clear();
        drop(state);
        self.changed();
    }

    /// Lets somebody die at a moment of its life. It is told to the receiver of [`Network::new`].
    pub fn doom(&self, who: &str, moment: Moment) {
        self.life_of(who).doom(Some(moment));
    }

    /// When the last request arrives that is late or comes again, of those that are on their way; one that is lost is on its way
    /// until who asked gives it up.
    pub fn last_arrival(&self) -> Option<Instant> {
        self.0.state.lock().last_arrival
    }

    pub(super) fn over_after(&self, after: Duration) {
        let mut state = self.0.state.lock();
        state.last_arrival = state.last_arrival.max(Some(Instant::now() + after));
    }

    /// Whose doom has not come yet, sorted.
    pub fn doomed(&self) -> Vec<String> {
        let state = self.0.state.lock();
        let doomed = state.lives.iter().filter(|(_, life)| life.is_doomed());
        doomed.map(|(who, _)| who.clone()).collect()
    }

    /// Somebody's life is over: whatever they sent that did not arrive yet never does, and what they are sent is not read.
    /// The next wires of that name are another life's.
    pub fn bury(&self, who: &str) {
        if let Some(life) = self.0.state.lock().lives.remove(who) {
            life.end();
        }
        self.changed();
    }

    fn life_of(&self, who: &str) -> Arc<Life> {
        let mut state = self.0.state.lock();
        let known = state.lives.get(who).filter(|life| !life.is_over()).cloned();
        known.unwrap_or_else(|| {
            let life = Life::new(who, self.0.deaths.clone());
            state.lives.insert(who.to_owned(), life.clone());
            life
        })
    }

    /// A rule strikes where it has something to strike with, which was not known when its dice were rolled.
    pub(super) fn strikes(&self, number: u64, kind: Kind) {
        self.0.state.lock().struck.insert(number);
        self.note(kind);
    }

    pub(super) fn note(&self, kind: Kind) {
        self.0.seen.note(kind);
    }

    /// Rolls the dice for a request.
    pub(super) fn plan(&self, ends: &Ends, request: &Request<Bytes>) -> Plan {
        let mut state = self.0.state.lock();
        let State {
            seed,
            dice,
            rules,
            struck,
            latency,
            ..
        } = &mut *state;
        let mut plan = Plan::default();
        if ends.who == WORKLOADS || (rules.is_empty() && latency.end().is_zero()) {
            return plan;
        }
        let dice = match dice.get_mut(ends) {
            Some(dice) => dice,
            None => dice
                .entry(ends.clone())
                .or_insert_with(|| Dice::new(*seed, &ends.to_string())),
        };
        plan.delay = dice.between(latency);
        for (number, rule) in rules.iter_mut() {
            let spent = rule.times == Some(0);
            let is_on = !spent && rule.on.has(ends, request) && self.is_open(rule);
            if !is_on || !dice.happens(rule.per_mille) {
                continue;
            }
            let applies = match &rule.effect {
                Effect::Delay(range) => {
                    plan.delay += dice.between(range);
                    self.note(Kind::Delayed);
                    struck.insert(*number);
                    true
                }
                Effect::Duplicate(within) if super::rule::writes(request) => {
                    plan.again = Some(dice.between(&(Duration::from_millis(1)..=*within)));
                    struck.insert(*number);
                    true
                }
                Effect::Late(within) if super::rule::writes(request) => {
                    let late = dice.between(&(Duration::ZERO..=*within));
                    plan.effect.get_or_insert((*number, Effect::Late(late)));
                    true
                }
                Effect::Duplicate(_) | Effect::Late(_) | Effect::DelayFrames(_) => false,
                Effect::Stale(_) if !super::rule::lists(request) => false,
                effect => {
                    plan.effect.get_or_insert_with(|| (*number, effect.clone()));
                    true
                }
            };
            if applies && let Some(times) = &mut rule.times {
                *times -= 1;
            }
        }
        // Of several that would end a request otherwise the first one does; a stale answer strikes where there is one.
        if let Some((number, effect)) = &plan.effect
            && !matches!(effect, Effect::Stale(_))
        {
            struck.insert(*number);
        }
        plan
    }

    /// How long a line of a watch of this path takes.
    pub(super) fn frame_delay(&self, ends: &Ends, path: &str) -> Duration {
        let mut state = self.0.state.lock();
        let State {
            seed,
            dice,
            rules,
            struck,
            ..
        } = &mut *state;
        let mut delay = Duration::ZERO;
        for (number, rule) in rules.iter_mut() {
            let Effect::DelayFrames(range) = &rule.effect else {
                continue;
            };
            let spent = rule.times == Some(0);
            if spent || !rule.on.has_watch(ends, path) || !self.is_open(rule) {
                continue;
            }
            let dice = dice
                .entry(ends.clone())
                .or_insert_with(|| Dice::new(*seed, &ends.to_string()));
            if dice.happens(rule.per_mille) {
                delay += dice.between(range);
                struck.insert(*number);
                self.0.seen.note(Kind::FrameDelayed);
                if let Some(times) = &mut rule.times {
                    *times -= 1;
                }
            }
        }
        delay
    }

    pub(super) fn has_rule(&self, number: u64) -> bool {
        self.0.state.lock().rules.contains_key(&number)
    }

    /// Whether nothing passes between two ends.
    pub(super) fn is_cut(&self, ends: &Ends) -> bool {
        let state = self.0.state.lock();
        ends.server == HUB && state.cut_off.contains(&ends.who)
    }

    pub(super) fn is_held(&self, who: &str) -> bool {
        self.0.state.lock().held.contains(who)
    }

    /// How many ends of watches were asked for.
    pub(super) fn endings(&self) -> usize {
        self.0.state.lock().endings.len()
    }

    /// How a watch between two ends is to end, of what was asked for since there were so many.
    pub(super) fn ending(&self, ends: &Ends, path: &str, since: usize) -> Option<Ending> {
        let state = self.0.state.lock();
        let asked = state.endings.get(since..).unwrap_or_default();
        let own = asked.iter().find(|(on, _)| on.has_watch(ends, path));
        own.map(|(_, how)| *how)
    }

    /// Where changes of rules and partitions are told.
    pub(super) fn changes(&self) -> &Changes {
        &self.0.changes
    }

    /// Waits until something is so; the network looks when anything of it changes.
    pub(super) async fn until(&self, is_so: impl Fn(&Network) -> bool) {
        loop {
            let seen = self.0.changes.count();
            if is_so(self) {
                return;
            }
            self.0.changes.after(seen).await;
        }
    }
}
