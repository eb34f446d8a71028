//! A hub that was away is not asked again for what the agent has.

use crate::world::{Pass, Side, World, config_map, pass_time, spec};
use parking_lot::Mutex;
use roundhouse_api::bundle::BundlePhase::Ready;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bundles that the first list after the hub was away had, and how many of them came with their spec.
static LISTED: AtomicU64 = AtomicU64::new(0);
static WHOLE: AtomicU64 = AtomicU64::new(0);

fn note(list: &mut Value) {
    let items = list["items"].as_array().unwrap();
    let whole = items.iter().filter(|item| item.get("spec").is_some()).count();
    LISTED.store(items.len() as u64, Ordering::SeqCst);
    WHOLE.store(whole as u64, Ordering::SeqCst);
}

/// Given an agent that has two Bundles, when its hub is away until the watch is given up and one of them changes meanwhile, then
/// the list that follows has none of their manifests, and the changed one alone is read.
#[tokio::test(start_paused = true)]
async fn after_an_outage_only_bundles_that_changed_are_read() {
    let world = World::embedded().await;
    for name in ["a", "b"] {
        world.bundle(name, spec(&[config_map(name, "1")])).await;
    }
    let (away, noted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let read: Arc<Mutex<Vec<String>>> = Arc::default();
    let hub = {
        let (away, noted, read) = (away.clone(), noted.clone(), read.clone());
        world.gated(Side::Hub, move |method, path| {
            if *method != http::Method::GET || !path.contains("/bundles") {
                return Pass::Through;
            }
            if away.load(Ordering::SeqCst) {
                return Pass::Lost;
            }
            read.lock().push(path.to_owned());
            match path.ends_with("/bundles") && !noted.swap(true, Ordering::SeqCst) {
                true => Pass::Reworked(note),
                false => Pass::Through,
            }
        })
    };
    let agent = world.agent_between(World::config(), hub, world.member_client.clone());
    for name in ["a", "b"] {
        world.reported(name, 1, Ready).await;
    }
    // What the agent's own reports bring back settles.
    pass_time(5).await;

    away.store(true, Ordering::SeqCst);
    world.hub.close_watches();
    pass_time(120).await;
    let generation = world.bundle("b", spec(&[config_map("b", "2")])).await;
    read.lock().clear();
    noted.store(false, Ordering::SeqCst);
    away.store(false, Ordering::SeqCst);
    world.reported("b", generation, Ready).await;

    let seen = || (LISTED.load(Ordering::SeqCst), WHOLE.load(Ordering::SeqCst));
    assert_eq!(seen(), (2, 0));
    let read = read.lock().clone();
    assert!(read.iter().any(|path| path.ends_with("/bundles/b")), "{read:?}");
    assert!(!read.iter().any(|path| path.ends_with("/bundles/a")), "{read:?}");
    agent.stop().await;
}
