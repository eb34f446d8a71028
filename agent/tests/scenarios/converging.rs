//! Whatever happened: an agent that lived through it and one that is started when it is over make the same of it. What only
//! a restart or the slow resync would put right shows as a difference.

use crate::killing::{differences, end};
use crate::world::{Side, World, bundle, config_map, spec};
use kube::api::{DeleteParams, Patch, PatchParams};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner};
use roundhouse_agent::Config;
use serde_json::{Value, json};
use std::time::Duration;

const BUNDLES: [&str; 2] = ["plain", "other"];
const MAPS: [&str; 3] = ["a", "b", "c"];
/// The slow resync is further away than the end of a run.
const RESYNC: Duration = Duration::from_secs(36_000);
/// Within this every retry has had its turn, and every fight has come to its end.
const SETTLED: Duration = Duration::from_secs(3 * 3600);

/// Something that happens to an agent, its bundles or its member.
#[derive(Debug, Clone)]
enum Event {
    /// A Bundle is written: which of the maps, with which value, under which terms.
    Content(usize, u8, u8, Terms),
    /// A Bundle is deleted.
    Withdrawn(usize),
    /// Somebody changes a field of ours.
    Edited(usize),
    /// Somebody adds a field.
    Added(usize),
    /// Somebody deletes an object.
    Deleted(usize),
    /// Somebody takes our annotations off.
    Stripped(usize),
    /// Somebody deletes a ledger.
    LedgerDeleted(usize),
    /// The agent is killed and started anew.
    Killed,
    /// Milliseconds pass: passes are under way, or done.
    Passed(u64),
}

#[derive(Debug, Clone, Copy)]
enum Terms {
    Plain,
    Reporting,
    Once,
    Adopting,
    Paused,
}

fn event() -> impl Strategy<Value = Event> {
    let terms = prop_oneof![
        3 => Just(Terms::Plain),
        1 => Just(Terms::Reporting),
        1 => Just(Terms::Once),
        1 => Just(Terms::Adopting),
        1 => Just(Terms::Paused),
    ];
    let (bundle, map) = (0..BUNDLES.len(), 0..MAPS.len());
    prop_oneof![
        5 => (bundle.clone(), 0..8_u8, 0..3_u8, terms).prop_map(|(b, maps, v, t)| Event::Content(b, maps, v, t)),
        1 => bundle.clone().prop_map(Event::Withdrawn),
        2 => map.clone().prop_map(Event::Edited),
        1 => map.clone().prop_map(Event::Added),
        2 => map.clone().prop_map(Event::Deleted),
        1 => map.prop_map(Event::Stripped),
        1 => bundle.prop_map(Event::LedgerDeleted),
        2 => Just(Event::Killed),
        6 => prop_oneof![0..30_u64, 30..3_000_u64, 3_000..200_000_u64].prop_map(Event::Passed),
    ]
}

fn content(maps: u8, value: u8, terms: Terms) -> Value {
    let maps = MAPS
        .iter()
        .enumerate()
        .filter(|(place, _)| maps & (1 << place) != 0);
    let maps: Vec<Value> = maps
        .map(|(_, name)| config_map(name, &value.to_string()))
        .collect();
    let mut content = spec(&maps);
    // A merge patch writes it: what is left out has to be said.
    let or_null = |holds: bool, value: Value| if holds { value } else { Value::Null };
    content["drift"] = or_null(matches!(terms, Terms::Reporting), json!("Report"));
    content["applyOnce"] = or_null(matches!(terms, Terms::Once), json!("Once"));
    content["adopt"] = or_null(matches!(terms, Terms::Adopting), json!("Always"));
    content["paused"] = or_null(matches!(terms, Terms::Paused), json!(true));
    content
}

fn config() -> Config {
    let mut config = World::config();
    config.resync = RESYNC;
    config.lease_interval = RESYNC;
    config
}

/// Changes an object of the member, if it is there.
async fn edit(world: &World, object: &Value, patch: Value) {
    let (api, name) = world.api_of(Side::Member, object);
    let _ = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
}

async fn delete(world: &World, side: Side, object: &Value) {
    let (api, name) = world.api_of(side, object);
    let _ = api.delete(&name, &DeleteParams::background()).await;
}

async fn happen(world: &World, event: &Event) {
    let map = |index: &usize| config_map(MAPS[*index], "");
    match event {
        Event::Content(index, maps, value, terms) => {
            world
                .bundle(BUNDLES[*index], content(*maps, *value, *terms))
                .await;
        }
        Event::Withdrawn(index) => delete(world, Side::Hub, &bundle(BUNDLES[*index])).await,
        Event::Edited(index) => edit(world, &map(index), json!({"data": {"key": "theirs"}})).await,
        Event::Added(index) => edit(world, &map(index), json!({"data": {"added": "theirs"}})).await,
        Event::Deleted(index) => delete(world, Side::Member, &map(index)).await,
        Event::Stripped(index) => edit(world, &map(index), json!({"metadata": {"annotations": null}})).await,
        Event::LedgerDeleted(index) => {
            if let Some(ledger) = world.ledger(BUNDLES[*index]).await {
                delete(world, Side::Member, &ledger).await;
            }
        }
        Event::Passed(milliseconds) => tokio::time::sleep(Duration::from_millis(*milliseconds)).await,
        Event::Killed => {}
    }
}

async fn converges(events: &[Event]) -> Result<(), String> {
    let world = World::embedded().await;
    let mut agent = world.agent_with(config());
    for event in events {
        if matches!(event, Event::Killed) {
            agent.kill().await;
            agent = world.agent_with(config());
        }
        happen(&world, event).await;
    }
    tokio::time::sleep(SETTLED).await;
    let lived = end(&world).await;
    agent.stop().await;
    let agent = world.agent_with(config());
    tokio::time::sleep(SETTLED).await;
    let started = end(&world).await;
    agent.stop().await;
    match lived == started {
        true => Ok(()),
        false => Err(differences(&lived, &started)),
    }
}

#[test]
fn an_agent_that_lived_through_it_and_one_that_is_started_anew_end_alike() {
    let config = ProptestConfig {
        cases: 48,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let events = proptest::collection::vec(event(), 2..14);
    let ended = runner.run(&events, |events| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(converges(&events)).map_err(TestCaseError::fail)
    });
    if let Err(failure) = ended {
        panic!("{failure}");
    }
}
