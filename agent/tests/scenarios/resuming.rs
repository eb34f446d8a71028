//! A hub that was away is not asked again for what the agent has.

use crate::world::{Agent, Side, World, config_map, eventually, pass_time, spec};
use bytes::Bytes;
use futures::FutureExt;
use futures::stream::pending;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use roundhouse_api::bundle::BundlePhase::Ready;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// What becomes of what an agent asks about its Bundles.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Mode {
    #[default]
    Up,
    /// Nothing gets through.
    Away,
    /// A watch is answered with this code.
    Refused(u16),
    /// A watch is opened, and nothing comes.
    Silent,
    /// A watch is opened, and ends.
    Short,
}

/// The way from an agent to its hub. It notes what is read of the Bundles.
#[derive(Clone, Default)]
struct Line {
    mode: Arc<Mutex<Mode>>,
    asked: Arc<Mutex<Vec<String>>>,
    /// Whether somebody deletes the next Bundle that is read.
    goes: Arc<AtomicBool>,
}

impl Line {
    fn on(&self, inner: Client) -> Client {
        let line = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (inner, line) = (inner.clone(), line.clone());
            async move { line.pass(inner, request).await }.boxed()
        });
        Client::new(service, "default")
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock() = mode;
    }

    /// What was asked since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
    }

    async fn pass(
        &self,
        inner: Client,
        request: http::Request<Body>,
    ) -> Result<http::Response<Bytewise>, kube::Error> {
        let path = request.uri().path().to_owned();
        let (Some((_, name)), &http::Method::GET) = (path.split_once("/bundles"), request.method()) else {
            return Ok(inner.send(request).await?.map(BodyExt::boxed_unsync));
        };
        let query = request.uri().query().unwrap_or_default();
        let (is_watch, is_list) = (query.contains("watch=true"), name.is_empty());
        let mode = *self.mode.lock();
        if mode == Mode::Away {
            let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            return Err(kube::Error::Service(Box::new(reset)));
        }
        if is_watch {
            self.asked.lock().push("watch".to_owned());
            return match mode {
                Mode::Refused(code) => Ok(refusal(code)),
                Mode::Silent => Ok(http::Response::new(StreamBody::new(pending()).boxed_unsync())),
                Mode::Short => Ok(http::Response::new(Body::empty().boxed_unsync())),
                Mode::Up | Mode::Away => Ok(inner.send(request).await?.map(BodyExt::boxed_unsync)),
            };
        }
        if !is_list {
            self.asked.lock().push(format!("get{name}"));
            if self.goes.swap(false, Ordering::AcqRel) {
                let delete = http::Request::delete(path).body(Body::empty()).unwrap();
                assert!(inner.send(delete).await?.status().is_success());
                // The watch that follows goes through.
                self.set(Mode::Up);
            }
            return Ok(inner.send(request).await?.map(BodyExt::boxed_unsync));
        }
        let (head, body) = inner.send(request).await?.into_parts();
        let body = body.collect_bytes().await?;
        let list: Value = serde_json::from_slice(&body).unwrap();
        let items = list["items"].as_array().unwrap();
        let whole = items.iter().filter(|item| item.get("spec").is_some()).count();
        self.asked
            .lock()
            .push(format!("list of {}, {whole} whole", items.len()));
        let body = Body::from(body.to_vec()).boxed_unsync();
        Ok(http::Response::from_parts(head, body))
    }
}

type Bytewise = UnsyncBoxBody<Bytes, kube::Error>;

fn refusal(code: u16) -> http::Response<Bytewise> {
    let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
        "reason": "Expired", "message": "too old resource version"});
    let body = Body::from(status.to_string().into_bytes());
    http::Response::builder()
        .status(code)
        .body(body.boxed_unsync())
        .unwrap()
}

/// A hub with two Bundles and an agent that has them; what the agent's own reports bring back has settled.
async fn two_bundles() -> (World, Line, Agent) {
    let world = World::embedded().await;
    for name in ["a", "b"] {
        world.bundle(name, spec(&[config_map(name, "1")])).await;
    }
    let line = Line::default();
    let hub = line.on(world.hub_client.clone());
    let agent = world.agent_between(World::config(), hub, world.member_client.clone());
    for name in ["a", "b"] {
        world.reported(name, 1, Ready).await;
    }
    pass_time(5).await;
    (world, line, agent)
}

/// The hub is away for two minutes, and one of the Bundles changes meanwhile. Gives its new generation.
async fn outage(world: &World, line: &Line, back: Mode) -> i64 {
    line.set(Mode::Away);
    world.hub.close_watches();
    pass_time(120).await;
    let generation = world.bundle("b", spec(&[config_map("b", "2")])).await;
    line.take();
    line.set(back);
    generation
}

/// Given an agent that has two Bundles, when its hub is away for long and one of them changes meanwhile, then the watch goes on
/// where it was and tells the change; the Bundles are looked over once, minutes later, without their manifests.
#[tokio::test(start_paused = true)]
async fn after_an_outage_the_watch_goes_on() {
    let (world, line, agent) = two_bundles().await;
    let generation = outage(&world, &line, Mode::Up).await;
    world.reported("b", generation, Ready).await;
    pass_time(45).await;
    assert_eq!(line.take(), ["watch"]);
    pass_time(250).await;
    assert_eq!(line.take(), ["list of 2, 0 whole", "watch"]);
    pass_time(600).await;
    let lists = line
        .take()
        .iter()
        .filter(|asked| asked.starts_with("list"))
        .count();
    assert_eq!(lists, 0, "once");
    agent.stop().await;
}

/// Given the same, when the hub cannot go on from where the watch was, whether it says so in the usual way or not, then the list
/// that follows has no manifests, and the changed Bundle alone is read.
#[tokio::test(start_paused = true)]
async fn where_the_watch_cannot_go_on_only_bundles_that_changed_are_read() {
    for (code, tries) in [(410, 1), (400, 3), (504, 3)] {
        let (world, line, agent) = two_bundles().await;
        let generation = outage(&world, &line, Mode::Refused(code)).await;
        // The list goes through; so do watches, from then on.
        loop {
            pass_time(1).await;
            if line.asked.lock().iter().any(|asked| asked.starts_with("list")) {
                break;
            }
        }
        line.set(Mode::Up);
        world.reported("b", generation, Ready).await;
        let asked = line.take();
        let mut expected = vec!["watch"; tries];
        expected.extend(["list of 2, 0 whole", "get/b"]);
        assert_eq!(asked[..tries + 2], expected, "{code}");
        assert!(!asked.contains(&"get/a".to_owned()), "{code}: {asked:?}");
        agent.stop().await;
    }
}

/// Given the same, when a hand-written Bundle is deleted after it was listed and before it is read, then that is told by the watch
/// that follows: it has not vanished, and its objects go.
#[tokio::test(start_paused = true)]
async fn a_bundle_that_is_deleted_while_the_bundles_are_looked_over_is_seen_to_go() {
    let (world, line, agent) = two_bundles().await;
    outage(&world, &line, Mode::Refused(410)).await;
    line.goes.store(true, Ordering::Release);
    eventually("its object goes", || async {
        world.live(Side::Member, &config_map("b", "1")).await.is_none()
    })
    .await;
    assert!(!line.goes.load(Ordering::Acquire), "it was read");
    assert!(world.ledger("b").await.is_none());
    agent.stop().await;
}

/// Given a server whose data were put back without its versions being raised, so that a watch from where it was is open and
/// silent, when a Bundle is not what the agent has seen, then that is noticed within five minutes.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_after_an_outage_is_not_believed_for_long() {
    let (world, line, agent) = two_bundles().await;
    let generation = outage(&world, &line, Mode::Silent).await;
    pass_time(30).await;
    assert_eq!(line.take(), ["watch"]);
    pass_time(280).await;
    world.reported("b", generation, Ready).await;
    assert_eq!(line.take(), ["list of 2, 0 whole", "get/b", "watch"]);
    agent.stop().await;
}

/// Given something between an agent and its hub that ends every watch as soon as it is open, then watches are not opened without
/// a pause, and a change is seen all the same.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_not_opened_at_once_again() {
    let (world, line, agent) = two_bundles().await;
    let generation = outage(&world, &line, Mode::Short).await;
    pass_time(310).await;
    world.reported("b", generation, Ready).await;
    let watches = line.take().iter().filter(|asked| *asked == "watch").count();
    assert!((30..400).contains(&watches), "{watches}");
    agent.stop().await;
}
