//! Every state that the hub stores of the Decisions and Bundles of 01-seed, and whether replicas are conserved in each.

use anyhow::{Result, bail, ensure};
use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::watcher::{self, Event, watcher},
};
use parking_lot::Mutex;
use roundhouse_api::{bundle::Bundle, decision::Decision};
use roundhouse_e2e::process::soon;
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

/// Replicas by cluster.
type Counts = BTreeMap<String, u64>;

/// One stored state.
#[derive(Debug, Clone)]
enum State {
    /// What is asked for, placed and without a place, and where.
    Decision(u64, u64, u64, Counts),
    Bundle(String, u64),
    /// The Bundle of a cluster is gone.
    Gone(String),
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    /// All states by resourceVersion: the embedded API server numbers all writes in one row.
    states: BTreeMap<u64, State>,
    /// Why there may be states that were not seen.
    broken: Option<String>,
}

type Log = Arc<Mutex<Seen>>;

/// Watches from its start on.
pub(crate) struct Conserved {
    log: Log,
}

/// Records until the watch breaks: a list that is read anew shows where things have come to, and not what was between.
fn follow<K>(api: Api<K>, log: Log, state: fn(&K, bool) -> Option<State>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    tokio::spawn(async move {
        let events = watcher(api, watcher::Config::default()).boxed();
        let why = record(events, &log, state).await;
        let kind = K::kind(&());
        log.lock()
            .broken
            .get_or_insert(format!("the watch of {kind} objects {why}"));
    });
}

/// Records what comes; returns why nothing more does.
async fn record<K: Resource>(
    mut events: impl Stream<Item = watcher::Result<Event<K>>> + Unpin,
    log: &Log,
    state: fn(&K, bool) -> Option<State>,
) -> String {
    let mut begun = false;
    while let Some(event) = events.next().await {
        let (object, there) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, true),
            Ok(Event::Delete(object)) => (object, false),
            Ok(Event::Init) if begun => return "began anew".to_owned(),
            Ok(Event::Init) => {
                begun = true;
                continue;
            }
            Ok(Event::InitDone) => continue,
            Err(error) => return format!("failed: {error}"),
        };
        let version = object.resource_version().and_then(|version| version.parse().ok());
        if let (Some(version), Some(state)) = (version, state(&object, there)) {
            log.lock().states.insert(version, state);
        }
    }
    "ended".to_owned()
}

fn of_decision(decision: &Decision, there: bool) -> Option<State> {
    let workload = decision.spec.workloads.first().filter(|_| there)?;
    let mut counts = Counts::new();
    for row in &workload.clusters {
        *counts.entry(row.name.to_string()).or_default() += u64::from(row.replicas);
    }
    let unplaced = workload.unplaced.iter().map(|none| u64::from(none.count)).sum();
    Some(State::Decision(
        workload.replicas.into(),
        workload.placed.into(),
        unplaced,
        counts,
    ))
}

fn of_bundle(bundle: &Bundle, there: bool) -> Option<State> {
    let cluster = bundle.namespace()?.strip_prefix("cluster-")?.to_owned();
    let manifests = bundle.spec.workload.manifests.iter();
    let counts = manifests.filter_map(|manifest| manifest.pointer("/spec/replicas")?.as_u64());
    Some(match there {
        true => State::Bundle(cluster, counts.sum()),
        false => State::Gone(cluster),
    })
}

impl Conserved {
    /// Watches what a hub stores from now on.
    pub(crate) fn watch(hub: &Client) -> Conserved {
        let log = Log::default();
        follow(Api::<Decision>::all(hub.clone()), log.clone(), of_decision);
        follow(Api::<Bundle>::all(hub.clone()), log.clone(), of_bundle);
        Conserved { log }
    }

    /// What was seen so far.
    ///
    /// # Errors
    /// A watch broke: then states may be missing, and nothing that is checked means anything.
    fn states(&self) -> Result<BTreeMap<u64, State>> {
        let seen = self.log.lock();
        match &seen.broken {
            None => Ok(seen.states.clone()),
            Some(why) => bail!("not every state was seen: {why}"),
        }
    }

    /// Waits until the Bundles ask for exactly this, and checks every state up to then:
    ///
    /// - a Decision accounts for all `total` replicas, and its clusters have what it says it placed;
    /// - a Bundle is given what the Decision gives its cluster, or one that was under way before;
    /// - the members never ask for more than the Decision places, or one that was under way before, and never for less
    ///   than what none of them moves;
    /// - a cluster that is no member any more is given nothing more, and what such clusters still have stays within what
    ///   leaves now and one placement before it.
    ///
    /// There have to be at least `least` states, so that moves that nobody saw are no success.
    pub(crate) async fn settle(&self, total: u64, at: &[(&str, u64)], least: usize) -> Result<()> {
        self.settle_from(&[total], at, least).await
    }

    /// The same where other numbers of replicas were asked for before: `totals`, in their order.
    pub(crate) async fn settle_from(&self, totals: &[u64], at: &[(&str, u64)], least: usize) -> Result<()> {
        let at: Counts = at
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        soon(&format!("the Bundles to ask for {at:?}"), async || {
            let bundles = bundles(self.states()?.values());
            Ok(if bundles == at { Ok(()) } else { Err(bundles) })
        })
        .await?;
        let states = self.states()?;
        check(&states, totals)?;
        let seen = states.len();
        ensure!(
            seen >= least,
            "only {seen} states were seen where there are at least {least}"
        );
        Ok(())
    }
}

/// What the Bundles ask for after these states.
fn bundles<'a>(states: impl Iterator<Item = &'a State>) -> Counts {
    let mut bundles = Counts::new();
    for state in states {
        match state {
            State::Bundle(cluster, count) => drop(bundles.insert(cluster.clone(), *count)),
            State::Gone(cluster) => drop(bundles.remove(cluster)),
            State::Decision(..) => {}
        }
    }
    bundles
}

fn check(states: &BTreeMap<u64, State>, totals: &[u64]) -> Result<()> {
    let of = |counts: &Counts, cluster: &str| counts.get(cluster).copied().unwrap_or(0);
    let mut bundles = Counts::new();
    // What clusters had when the Decision came that they are not in.
    let mut left = Counts::new();
    let mut totals = totals.iter().peekable();
    // Before the first Decision nobody has anything. The last is in force; those before it may still be under way.
    let mut decisions = vec![(0, Counts::new())];
    for (version, state) in states {
        match state {
            State::Decision(replicas, placed, unplaced, counts) => {
                let sum: u64 = counts.values().sum();
                let now = totals.peek().copied().copied().unwrap_or_default();
                if *replicas != now && totals.clone().any(|total| total == replicas) {
                    while totals.next_if(|total| *total != replicas).is_some() {}
                }
                let total = totals.peek().copied().copied().unwrap_or_default();
                ensure!(
                    *replicas == total && placed + unplaced == total && sum == *placed,
                    "{version}: {total} replicas are not conserved: {state:?}"
                );
                left.retain(|cluster, _| !counts.contains_key(cluster));
                for (cluster, count) in bundles
                    .iter()
                    .filter(|(cluster, _)| !counts.contains_key(*cluster))
                {
                    left.entry(cluster.clone()).or_insert(*count);
                }
                decisions.push((*placed, counts.clone()));
            }
            State::Bundle(cluster, count) => {
                let had = bundles.insert(cluster.clone(), *count);
                // One that is to go keeps its count until it is gone.
                let given =
                    had == Some(*count) || decisions.iter().any(|(_, counts)| of(counts, cluster) == *count);
                ensure!(
                    given,
                    "{version}: nobody gave {cluster} {count} replicas: {decisions:?}"
                );
                let is_member = decisions
                    .last()
                    .is_some_and(|(_, members)| members.contains_key(cluster));
                ensure!(
                    is_member || *count <= of(&left, cluster),
                    "{version}: {cluster} is no member and grows to {count} replicas: {left:?} {decisions:?}"
                );
            }
            State::Gone(cluster) => {
                bundles.remove(cluster);
                left.remove(cluster);
            }
        }
        let Some((_, members)) = decisions.last() else {
            continue;
        };
        let most = decisions.iter().map(|(placed, _)| *placed).max().unwrap_or(0);
        let asked: u64 = members.keys().map(|cluster| of(&bundles, cluster)).sum();
        let others = bundles
            .iter()
            .filter(|(cluster, _)| !members.contains_key(*cluster));
        let surplus: u64 = others.map(|(_, count)| count).sum();
        ensure!(
            surplus <= 2 * most,
            "{version}: clusters that are no members keep {surplus} replicas of {most}: {bundles:?} {decisions:?}"
        );
        let stays = |cluster: &String| decisions.iter().map(|(_, counts)| of(counts, cluster)).min();
        let stay: u64 = members.keys().filter_map(stays).sum();
        ensure!(
            (stay..=most).contains(&asked),
            "{version}: the members ask for {asked} replicas of {most}, {stay} of which do not move: {bundles:?} {decisions:?}"
        );
        if members
            .iter()
            .all(|(cluster, count)| of(&bundles, cluster) == *count)
        {
            decisions.drain(..decisions.len() - 1);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_that_breaks_is_seen() {
    let decision = |version: &str| {
        let mut decision = Decision::new("web", Default::default());
        decision.metadata.resource_version = Some(version.to_owned());
        decision.spec.workloads = vec![Default::default()];
        decision
    };
    let begin = || {
        vec![
            Ok(Event::Init),
            Ok(Event::InitApply(decision("1"))),
            Ok(Event::InitDone),
        ]
    };
    let and = async |more: Vec<watcher::Result<Event<Decision>>>| {
        let log = Log::default();
        let events = futures::stream::iter(begin().into_iter().chain(more));
        let why = record(events, &log, of_decision).await;
        let states = log.lock().states.len();
        (states, why)
    };
    let next = |version: &str| Ok(Event::Apply(decision(version)));
    assert_eq!(and(vec![next("2"), next("3")]).await, (3, "ended".to_owned()));
    assert_eq!(
        and(vec![next("2"), Ok(Event::Init), next("9")]).await,
        (2, "began anew".to_owned())
    );
    let (states, why) = and(vec![Err(watcher::Error::NoResourceVersion), next("9")]).await;
    assert!(states == 1 && why.starts_with("failed: "), "{states} {why}");
    let log = Log::default();
    log.lock().broken = Some("the watch of Bundle objects ended".to_owned());
    let broken = Conserved { log }.states().unwrap_err().to_string();
    assert_eq!(
        broken,
        "not every state was seen: the watch of Bundle objects ended"
    );
}

#[test]
fn what_is_lost_or_done_twice_is_seen() {
    let counts = |list: &[(&str, u64)]| -> Counts {
        list.iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    };
    let decision = |placed, list: &[(&str, u64)]| State::Decision(10, placed, 10 - placed, counts(list));
    let bundle = |cluster: &str, count| State::Bundle(cluster.to_owned(), count);
    let run =
        |states: Vec<State>| check(&(1..).zip(states).collect(), &[10]).map_err(|error| error.to_string());
    let first = || vec![decision(9, &[("a", 7), ("b", 2)]), bundle("a", 7), bundle("b", 2)];
    let and = |more: Vec<State>| run(first().into_iter().chain(more).collect());
    let moved = || decision(9, &[("a", 4), ("b", 2), ("c", 3)]);
    assert_eq!(and(vec![moved(), bundle("a", 4), bundle("c", 3)]), Ok(()));
    // One that leaves keeps what it has until it is gone.
    let only = |cluster: &str| decision(9, &[(cluster, 9)]);
    let b_leaves = || vec![only("a"), bundle("b", 2), bundle("a", 9)];
    assert_eq!(and(b_leaves()), Ok(()));
    assert_eq!(
        and([b_leaves(), vec![State::Gone("b".to_owned())]].concat()),
        Ok(())
    );
    let grown = [20, 10].map(|total| {
        let states = [
            decision(9, &[("a", 9)]),
            State::Decision(20, 18, 2, counts(&[("a", 18)])),
        ];
        check(&(1..).zip(states).collect(), &[10, total])
    });
    assert!(grown[0].is_ok() && grown[1].is_err(), "{grown:?}");
    for (states, said) in [
        (
            vec![decision(8, &[("a", 7), ("b", 2)])],
            "4: 10 replicas are not conserved",
        ),
        (
            vec![State::Decision(10, 9, 0, counts(&[("a", 9)]))],
            "4: 10 replicas are not conserved",
        ),
        (vec![bundle("a", 5)], "4: nobody gave a 5 replicas"),
        (
            vec![moved(), bundle("c", 3)],
            "5: the members ask for 12 replicas of 9",
        ),
        (
            vec![State::Gone("b".to_owned())],
            "4: the members ask for 7 replicas of 9, 9 of which do not move",
        ),
        (
            vec![decision(9, &[("a", 5), ("b", 4)]), only("a"), bundle("b", 4)],
            "6: b is no member and grows to 4 replicas",
        ),
        (
            vec![only("a"), State::Gone("b".to_owned()), bundle("b", 2)],
            "6: b is no member and grows to 2 replicas",
        ),
        (
            vec![only("c"), bundle("c", 9), only("d"), bundle("d", 9), only("e")],
            "8: clusters that are no members keep 27 replicas of 9",
        ),
    ] {
        let seen = and(states.clone());
        assert!(
            seen.as_ref().is_err_and(|seen| seen.starts_with(said)),
            "{states:?}: {seen:?}"
        );
    }
}
