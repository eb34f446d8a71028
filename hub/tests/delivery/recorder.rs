//! Every state that Decisions and Bundles are stored in, in the order in which they were stored.

use crate::world::World;
use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use roundhouse_api::{bundle::Bundle, decision::Decision};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

/// One stored state.
enum State {
    Decision(Placed),
    /// Replicas, and whether removal was asked for.
    Bundle(u64, bool),
    Gone,
}

/// What a Decision says.
#[derive(Debug, Clone, Default)]
struct Placed {
    placed: u64,
    unplaced: u64,
    /// Replicas of each member.
    members: BTreeMap<String, u64>,
}

impl Placed {
    fn of(decision: &Decision) -> Placed {
        let spec = &decision.spec;
        let replicas = |cluster: &String| {
            let rows = spec.workloads.iter().flat_map(|w| &w.clusters);
            let own = rows.filter(|row| row.name == *cluster);
            (cluster.clone(), own.map(|row| u64::from(row.replicas)).sum())
        };
        Placed {
            placed: spec.placed,
            unplaced: spec.unplaced,
            members: spec.clusters.iter().map(replicas).collect(),
        }
    }
}

/// resourceVersion -> object and state.
type States = BTreeMap<u64, (String, State)>;

type Log = Arc<Mutex<States>>;

/// How many states were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) decisions: usize,
    pub(crate) bundles: usize,
}

/// Watches from its start on.
pub(crate) struct Recorder {
    log: Log,
}

fn follow<K>(api: Api<K>, log: Log, state: fn(&K) -> State)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    tokio::spawn(async move {
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            let (object, state) = match event.unwrap() {
                Event::Apply(object) | Event::InitApply(object) => {
                    let state = state(&object);
                    (object, state)
                }
                Event::Delete(object) => (object, State::Gone),
                Event::Init | Event::InitDone => continue,
            };
            // The embedded API server numbers all writes in one row.
            let version: u64 = object.resource_version().unwrap().parse().unwrap();
            let name = format!("{}/{}", object.namespace().unwrap(), object.name_any());
            log.lock().insert(version, (name, state));
        }
    });
}

impl Recorder {
    pub(crate) fn start(world: &World) -> Recorder {
        let log = Log::default();
        follow(
            Api::<Decision>::all(world.client.clone()),
            log.clone(),
            |decision| State::Decision(Placed::of(decision)),
        );
        follow(Api::<Bundle>::all(world.client.clone()), log.clone(), |bundle| {
            let manifests = bundle.spec.workload.manifests.iter();
            let counts = manifests.filter_map(|m| m.pointer("/spec/replicas")?.as_u64());
            State::Bundle(counts.sum(), bundle.spec.deletion.is_some())
        });
        Recorder { log }
    }

    /// That `total` replicas were conserved at every moment up to now, when all is at rest (see [`conserved`]), over at
    /// least so many states.
    pub(crate) fn check_conserved(&self, total: u64, at_least: Seen) {
        let seen = conserved(&self.log.lock(), total).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(
            seen.decisions >= at_least.decisions && seen.bundles >= at_least.bundles,
            "only {seen:?} were looked at, where there are at least {at_least:?}"
        );
    }

    /// Whether removal was ever asked for on a cluster, or its Bundle ever went.
    pub(crate) fn ever_removed(&self, cluster: &str) -> bool {
        let name = bundle_of(cluster);
        let log = self.log.lock();
        let mut own = log.values().filter(|(of, _)| *of == name).peekable();
        assert!(own.peek().is_some(), "there never was a Bundle on {cluster}");
        own.any(|(_, state)| matches!(state, State::Gone | State::Bundle(_, true)))
    }
}

fn bundle_of(cluster: &str) -> String {
    format!("cluster-{cluster}/default.app")
}

/// Conservation, of an application with one placing step:
///
/// - every Decision accounts for `total` replicas;
/// - from above: the Bundles of its members never ask for more than it places. A cluster that lost its place keeps its
///   Bundle until the others have what it had: removal comes last;
/// - from below: what a member asked for when the Decision was stored, or later, it keeps, up to what the Decision gives
///   it. So the sum may dip, since what shrinks is written before what grows, but by no more than what moves: `placed`
///   less what members have still to gain;
/// - in the end they ask for what the Decision says.
fn conserved(log: &States, total: u64) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut bundles: BTreeMap<&str, u64> = BTreeMap::new();
    // Decision -> what it says, and what its members have had of it.
    let mut decisions: BTreeMap<&str, (&Placed, BTreeMap<&str, u64>)> = BTreeMap::new();
    for (version, (name, state)) in log {
        let asked = |cluster: &str, bundles: &BTreeMap<&str, u64>| {
            bundles.get(bundle_of(cluster).as_str()).copied().unwrap_or(0)
        };
        match state {
            State::Decision(placed) => {
                seen.decisions += 1;
                if placed.placed + placed.unplaced != total {
                    return Err(format!(
                        "{name} at {version} does not account for {total}: {placed:?}"
                    ));
                }
                let members = placed.members.keys().map(String::as_str);
                let then = members.map(|cluster| (cluster, asked(cluster, &bundles)));
                decisions.insert(name, (placed, then.collect()));
            }
            State::Bundle(replicas, _) => {
                seen.bundles += 1;
                bundles.insert(name, *replicas);
            }
            State::Gone => {
                decisions.remove(name.as_str());
                bundles.remove(name.as_str());
            }
        }
        for (decision, (placed, floor)) in &mut decisions {
            let placed = *placed;
            let mut sum = 0;
            for (cluster, given) in &placed.members {
                let (asked, floor) = (
                    asked(cluster, &bundles),
                    floor.entry(cluster.as_str()).or_default(),
                );
                // What a member has of what it gets stays with it.
                *floor = (*floor).min(*given);
                if asked < *floor {
                    return Err(format!(
                        "{decision} at {version}: {cluster} asks for {asked} after {floor}, {placed:?}"
                    ));
                }
                *floor = asked.min(*given);
                sum += asked;
            }
            if sum > placed.placed {
                return Err(format!(
                    "{decision} at {version}: {sum} are asked for, {placed:?}: {bundles:?}"
                ));
            }
            let is_last = log.last_key_value().is_some_and(|(last, _)| last == version);
            if is_last && sum != placed.placed {
                return Err(format!(
                    "{decision}: {sum} are asked for in the end, {placed:?}: {bundles:?}"
                ));
            }
        }
    }
    Ok(seen)
}

/// The judge itself: what is wrong is found.
#[test]
fn what_is_not_conserved_is_found() {
    enum Step {
        Decides(&'static [(&'static str, u64)], u64),
        Writes(&'static str, u64),
        Goes(&'static str),
    }
    use Step::{Decides, Goes, Writes};
    let judge = |steps: &[Step]| {
        let state = |step: &Step| match step {
            Decides(members, unplaced) => {
                let members: BTreeMap<String, u64> =
                    members.iter().map(|(c, n)| ((*c).to_owned(), *n)).collect();
                let placed = Placed {
                    placed: members.values().sum(),
                    unplaced: *unplaced,
                    members,
                };
                ("default/app-step".to_owned(), State::Decision(placed))
            }
            Writes(cluster, replicas) => (bundle_of(cluster), State::Bundle(*replicas, false)),
            Goes(cluster) => (bundle_of(cluster), State::Gone),
        };
        conserved(&(1..).zip(steps.iter().map(state)).collect(), 10)
    };
    let first = || [Decides(&[("a", 4), ("b", 5)], 1), Writes("a", 4), Writes("b", 5)];
    let with = |more: Vec<Step>| judge(&first().into_iter().chain(more).collect::<Vec<_>>());
    let (two, three) = (&[("a", 2), ("b", 7)][..], &[("b", 9)][..]);
    assert_eq!(
        with(vec![]),
        Ok(Seen {
            decisions: 1,
            bundles: 2
        })
    );
    assert_eq!(
        judge(&[]),
        Ok(Seen::default()),
        "callers say how many states there are at least"
    );
    let moved = with(vec![Decides(two, 1), Writes("a", 2), Writes("b", 7)]);
    assert_eq!(
        moved,
        Ok(Seen {
            decisions: 2,
            bundles: 4
        })
    );
    assert!(
        with(vec![Decides(three, 1), Writes("b", 9), Goes("a")]).is_ok(),
        "removal comes last"
    );
    for (wrong, steps) in [
        ("replicas are lost in the sum", vec![Decides(two, 0)]),
        (
            "growth before shrinking",
            vec![Decides(two, 1), Writes("b", 7), Writes("a", 2)],
        ),
        (
            "a dip by more than what moves",
            vec![Decides(two, 1), Writes("a", 0), Writes("b", 7), Writes("a", 2)],
        ),
        ("a member's Bundle goes", vec![Goes("b"), Writes("b", 5)]),
        ("an end that is none", vec![Decides(two, 1), Writes("a", 2)]),
    ] {
        assert!(with(steps).is_err(), "{wrong}");
    }
}
