//! F14: a request that nobody answered arrives minutes later. What it makes is wanted no more by then, and does not stay; what it
//! would delete is wanted again, and stays.

use crate::world::{Side, World, config_map, dispatched, eventually, pass_time};
use futures::FutureExt;
use kube::Client;
use kube::client::Body;
use roundhouse_api::bundle::BundlePhase::{Failed, Ready};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const APP: &str = "default.app";
/// How late a request arrives.
const LATE: Duration = Duration::from_secs(400);

/// What becomes of requests about a ConfigMap `a`.
#[derive(Clone)]
enum Fate {
    /// So many of those that make it break off for the agent, and arrive late; the others go through.
    Late(Arc<AtomicU32>),
    /// Those that make it go through, and arrive late once more.
    Repeated,
    /// Those that delete it break off for the agent, and arrive late.
    Deleted,
}

fn late(count: u32) -> Fate {
    Fate::Late(Arc::new(AtomicU32::new(count)))
}

/// A line on which that becomes of them.
fn line(inner: Client, fate: Fate) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (inner, fate) = (inner.clone(), fate.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?.to_vec();
            let is_create = head.method == http::Method::POST && head.uri.path().ends_with("/configmaps");
            let is_a = String::from_utf8_lossy(&body).contains(r#""name":"a""#);
            let request = || http::Request::from_parts(head.clone(), Body::from(body.clone()));
            let one_less = |left: u32| left.checked_sub(1);
            let deletes = head.method == http::Method::DELETE && head.uri.path().ends_with("/configmaps/a");
            let (arrives_late, breaks_off) = match &fate {
                Fate::Deleted => (deletes, deletes),
                _ if !is_create || !is_a => (false, false),
                Fate::Late(left) => {
                    let is_one = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
                    (is_one.is_ok(), is_one.is_ok())
                }
                Fate::Repeated => (true, false),
            };
            if arrives_late {
                let (inner, again) = (inner.clone(), request());
                tokio::spawn(async move {
                    tokio::time::sleep(LATE).await;
                    inner.send(again).await.unwrap();
                });
            }
            if breaks_off {
                let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                return Err(kube::Error::Service(Box::new(reset)));
            }
            inner.send(request()).await
        }
        .boxed()
    });
    Client::new(service, "default")
}

/// Waits for what takes minutes: what may still arrive, and delays that have grown.
async fn in_time<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    for _ in 0..800 {
        if check().await {
            return;
        }
        pass_time(1).await;
    }
    panic!("not in time: {what}");
}

async fn goes(world: &World, named: &Value) {
    in_time("it is removed", || async {
        world.live(Side::Member, named).await.is_none()
    })
    .await;
}

/// The request arrives, and what it makes is removed.
async fn comes_and_goes(world: &World, named: &Value) {
    in_time("it is made", || async {
        world.live(Side::Member, named).await.is_some()
    })
    .await;
    goes(world, named).await;
}

/// Given a request to make an object without an answer, when the object leaves the bundle before the request arrives, then the
/// bundle says what it waits for, and the object goes when it comes. Also if another request made it, and it was removed, before; and
/// if the agent is killed meanwhile.
#[tokio::test(start_paused = true)]
async fn what_arrives_after_it_left_the_bundle_goes() {
    for (count, killed) in [(u32::MAX, false), (1, false), (1, true)] {
        let world = World::embedded().await;
        let member = line(world.member_client.clone(), late(count));
        let mut agent = world.agent_between(World::config(), world.hub_client.clone(), member);
        let (a, b) = (config_map("a", "1"), config_map("b", "1"));
        world
            .bundle(APP, dispatched(&[a.clone(), b.clone()], "app-v1", 1))
            .await;
        pass_time(20).await;
        assert_eq!(world.live(Side::Member, &a).await.is_some(), count == 1);
        let generation = world.bundle(APP, dispatched(&[b], "app-v2", 1)).await;
        pass_time(30).await;
        assert_eq!(world.live(Side::Member, &a).await, None);
        let status = world.status(APP).await;
        let said = status
            .conditions
            .iter()
            .map(|condition| condition.message.as_str())
            .chain(status.resource_status.iter().flat_map(|status| {
                let left = status.manifests.iter().flat_map(|manifest| &manifest.conditions);
                left.map(|condition| condition.message.as_str())
            }));
        let said: Vec<&str> = said.collect();
        assert!(
            said.iter().any(|said| said.contains("may still arrive")),
            "{said:?}"
        );
        if killed {
            agent.kill().await;
            agent = world.agent();
        }
        comes_and_goes(&world, &a).await;
        in_time("nothing is left to wait for", || async {
            world.ledger(APP).await.unwrap()["spec"]["objects"]
                .as_array()
                .unwrap()
                .len()
                == 1
        })
        .await;
        world.reported(APP, generation, Ready).await;
        pass_time(1200).await;
        assert_eq!(world.live(Side::Member, &a).await, None);
        agent.stop().await;
    }
}

/// Given the same, when the agent is killed before it could note that nobody answered, and the application is deleted, then the
/// next agent answers for what arrives.
#[tokio::test(start_paused = true)]
async fn what_a_killed_agent_asked_for_goes() {
    let world = World::embedded().await;
    let member = line(world.member_client.clone(), late(u32::MAX));
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let a = config_map("a", "1");
    world.bundle(APP, dispatched(&[a.clone()], "app-v1", 1)).await;
    eventually("it is intended", || async { world.ledger(APP).await.is_some() }).await;
    agent.kill().await;
    let spec = world.ledger(APP).await.unwrap()["spec"].clone();
    assert_eq!(spec["objects"].as_array().map(Vec::len), Some(1), "{spec}");
    world.tombstone(APP, "application-deleted").await;
    let agent = world.agent();
    pass_time(60).await;
    assert!(world.ledger(APP).await.is_some(), "the evidence is kept");
    assert_eq!(world.live(Side::Member, &a).await, None);
    world
        .create(Side::Member, {
            // As the request that comes late makes it.
            let mut a = a.clone();
            a["metadata"]["annotations"] =
                json!({"roundhouse.dev/owned-by": format!("{}/{APP}", crate::world::HUB_ID)});
            a
        })
        .await;
    goes(&world, &a).await;
    in_time("the ledger is gone", || async {
        world.ledger(APP).await.is_none()
    })
    .await;
    world.release(APP).await;
    agent.stop().await;
}

/// Given something on the way that repeats a request which made an object and was answered, when the object is removed before the
/// second one arrives, then what that makes goes, too; nothing waits for it, and what a Bundle wants again by then stays.
#[tokio::test(start_paused = true)]
async fn what_a_repeated_request_makes_once_more_goes() {
    for wanted_again in [false, true] {
        let world = World::embedded().await;
        let member = line(world.member_client.clone(), Fate::Repeated);
        let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
        let (a, b) = (config_map("a", "1"), config_map("b", "1"));
        let both = dispatched(&[a.clone(), b.clone()], "app-v1", 1);
        let first = world.bundle(APP, both.clone()).await;
        world.reported(APP, first, Ready).await;
        let second = world.bundle(APP, dispatched(&[b], "app-v2", 1)).await;
        world.reported(APP, second, Ready).await;
        assert_eq!(world.live(Side::Member, &a).await, None);
        if wanted_again {
            let third = world.bundle(APP, both).await;
            world.reported(APP, third, Ready).await;
            let uid = |live: Option<Value>| live.map(|live| live["metadata"]["uid"].clone());
            let made = uid(world.live(Side::Member, &a).await);
            pass_time(1200).await;
            assert_eq!(uid(world.live(Side::Member, &a).await), made);
        } else {
            comes_and_goes(&world, &a).await;
        }
        agent.stop().await;
    }
}

/// Given an object that was made and removed just now, when somebody makes it again from what was exported of it, marker and
/// all, then it stays: nobody's request has made it but theirs.
#[tokio::test(start_paused = true)]
async fn what_somebody_puts_back_stays() {
    let world = World::embedded().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let both = dispatched(&[a.clone(), b.clone()], "app-v1", 1);
    let first = world.bundle(APP, both).await;
    world.reported(APP, first, Ready).await;
    let mut exported = world.live(Side::Member, &a).await.unwrap();
    let second = world.bundle(APP, dispatched(&[b], "app-v2", 1)).await;
    world.reported(APP, second, Ready).await;
    goes(&world, &a).await;
    let metadata = exported["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        metadata.remove(field);
    }
    assert!(metadata.contains_key("managedFields"));
    world.create(Side::Member, exported).await;
    pass_time(1200).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    agent.stop().await;
}

/// Given a deletion without an answer, when the object is wanted again before that arrives, then the object stays: it has another
/// version by then. Also if the agent was killed meanwhile, if it is to be another one by then, and if that is refused.
#[tokio::test(start_paused = true)]
async fn what_is_wanted_again_is_not_deleted_late() {
    let fixed = |value: &str| {
        let mut fixed = config_map("a", value);
        fixed["immutable"] = json!(true);
        fixed
    };
    for (killed, before, after, phase) in [
        (false, config_map("a", "1"), config_map("a", "1"), Ready),
        (true, config_map("a", "1"), config_map("a", "1"), Ready),
        (false, config_map("a", "1"), config_map("a", "2"), Ready),
        (false, fixed("1"), fixed("2"), Failed),
    ] {
        let what = format!("killed: {killed}, {after}");
        let world = World::embedded().await;
        let member = line(world.member_client.clone(), Fate::Deleted);
        let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
        let b = config_map("b", "1");
        let first = dispatched(&[before.clone(), b.clone()], "app-v1", 1);
        let first = world.bundle(APP, first).await;
        world.reported(APP, first, Ready).await;
        let made = world.live(Side::Member, &before).await.unwrap();
        world.bundle(APP, dispatched(&[b.clone()], "app-v2", 1)).await;
        eventually("it is to go", || async {
            world.ledger(APP).await.unwrap()["spec"]["objects"]
                .as_array()
                .unwrap()
                .iter()
                .any(|entry| entry["outcome"] == "Removing")
        })
        .await;
        pass_time(2).await;
        let third = dispatched(&[after.clone(), b], "app-v3", 1);
        let (agent, third) = if killed {
            agent.kill().await;
            let third = world.bundle(APP, third).await;
            (world.agent(), third)
        } else {
            (agent, world.bundle(APP, third).await)
        };
        world.reported(APP, third, phase).await;
        pass_time(1200).await;
        let live = world.live(Side::Member, &after).await.unwrap();
        assert_eq!(live["metadata"]["uid"], made["metadata"]["uid"], "{what}");
        let fenced = &live["metadata"]["annotations"]["roundhouse.dev/fenced"];
        assert_eq!(fenced, &made["metadata"]["resourceVersion"], "{what}");
        let expected = if phase == Ready { &after } else { &before };
        assert_eq!(live["data"], expected["data"], "{what}");
        agent.stop().await;
    }
}
