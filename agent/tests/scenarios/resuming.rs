//! A hub that was away is not asked again for what the agent has.

use crate::world::{
    Agent, NAMESPACE, Side, World, bundle, config_map, dispatched, eventually, eventually_with, pass_time,
    reason, spec,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::pending;
use http::header::{ACCEPT, CONTENT_LENGTH};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use parking_lot::Mutex;
use roundhouse_api::bundle::BundlePhase::Ready;
use serde_json::{Value, json};
use std::sync::Arc;

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
    /// What somebody does before the next Bundle is read. The watch that follows goes through.
    meanwhile: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
    /// What the next list is answered with: it is of before.
    before: Arc<Mutex<Option<Value>>>,
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
            let meanwhile = self.meanwhile.lock().take();
            if let Some(meanwhile) = meanwhile {
                meanwhile.await;
                self.set(Mode::Up);
            }
            return Ok(inner.send(request).await?.map(BodyExt::boxed_unsync));
        }
        let accepts = request.headers().get(ACCEPT).cloned();
        let (mut head, body) = inner.send(request).await?.into_parts();
        let body = body.collect_bytes().await?;
        let before = self.before.lock().take();
        let mut list: Value = before.unwrap_or_else(|| serde_json::from_slice(&body).unwrap());
        let items = list["items"].as_array_mut().unwrap();
        if accepts.is_some_and(|accepts| accepts.to_str().unwrap().contains("PartialObjectMetadata")) {
            for item in items.iter_mut() {
                item.as_object_mut()
                    .unwrap()
                    .retain(|field, _| field == "metadata");
            }
        }
        let whole = items.iter().filter(|item| item.get("spec").is_some()).count();
        self.asked
            .lock()
            .push(format!("list of {}, {whole} whole", items.len()));
        head.headers.remove(CONTENT_LENGTH);
        let body = Body::from(list.to_string().into_bytes()).boxed_unsync();
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

/// A Bundle `a` of one object is applied by an agent whose way to the hub is the line; the client is on it.
async fn one_bundle(map: &Value) -> (World, Line, Client, Agent) {
    let world = World::embedded().await;
    let line = Line::default();
    let hub = line.on(world.hub_client.clone());
    let agent = world.agent_between(World::config(), hub.clone(), world.member_client.clone());
    let generation = world.bundle("a", spec(std::slice::from_ref(map))).await;
    world.reported("a", generation, Ready).await;
    pass_time(5).await;
    (world, line, hub, agent)
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
    let (api, name) = world.api_of(Side::Hub, &bundle("b"));
    let delete = async move { drop(api.delete(&name, &DeleteParams::default()).await.unwrap()) };
    *line.meanwhile.lock() = Some(delete.boxed());
    eventually("its object goes", || async {
        world.live(Side::Member, &config_map("b", "1")).await.is_none()
    })
    .await;
    assert!(line.meanwhile.lock().is_none(), "it was read");
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

/// Given an application whose Bundle has changed when the Bundles are listed, when it is divided into two parts before it is read,
/// then an object that moves to the new part is not deleted and made again: what a list says is of one moment.
#[tokio::test(start_paused = true)]
async fn what_moves_to_a_new_part_while_the_bundles_are_looked_over_stays() {
    let (first, moves) = (config_map("first", "1"), config_map("moves", "1"));
    let world = World::embedded().await;
    let line = Line::default();
    let hub = line.on(world.hub_client.clone());
    let agent = world.agent_between(World::config(), hub, world.member_client.clone());
    let all = [first.clone(), moves.clone()];
    let generation = world.bundle("default.app", dispatched(&all, "app-v1", 1)).await;
    world.reported("default.app", generation, Ready).await;
    pass_time(5).await;
    let uid = async || {
        world
            .live(Side::Member, &moves)
            .await
            .map(|live| live["metadata"]["uid"].clone())
    };
    let before = uid().await.unwrap();

    line.set(Mode::Away);
    world.hub.close_watches();
    pass_time(120).await;
    let labelled = json!({"metadata": {"labels": {"by": "hand"}}});
    world.merge(Side::Hub, &bundle("default.app"), labelled).await;
    let mut new = bundle("default.app.2");
    new["spec"] = dispatched(&[moves.clone()], "app-v2", 1);
    let (api, name) = world.api_of(Side::Hub, &bundle("default.app"));
    let rest = json!({"spec": dispatched(&[first.clone()], "app-v2", 1)});
    let divide = async move {
        let new = serde_json::from_value(new).unwrap();
        api.create(&PostParams::default(), &new).await.unwrap();
        let rest = Patch::Merge(rest);
        api.patch(&name, &PatchParams::default(), &rest).await.unwrap();
    };
    *line.meanwhile.lock() = Some(divide.boxed());
    line.set(Mode::Refused(410));
    world.reported("default.app", generation + 1, Ready).await;
    world.reported("default.app.2", 1, Ready).await;
    pass_time(5).await;
    assert_eq!(uid().await, Some(before), "it was never deleted");
    agent.stop().await;
}

/// The Bundles as a list has them now.
async fn listed(world: &World) -> Value {
    let api = world.api(Side::Hub, "roundhouse.dev/v1alpha1", "Bundle", NAMESPACE);
    serde_json::to_value(api.list(&ListParams::default()).await.unwrap()).unwrap()
}

/// F16: given the only Bundle, which was removed, when a list is answered as of before, to an agent that is started anew or to one
/// that could not go on where its watch was, then nothing of it is made again.
#[tokio::test(start_paused = true)]
async fn f16_a_list_of_before_brings_nothing_back() {
    for anew in [true, false] {
        let map = config_map("a", "1");
        let (world, line, hub, agent) = one_bundle(&map).await;
        let start = || world.agent_between(World::config(), hub.clone(), world.member_client.clone());
        let before = listed(&world).await;
        world.delete(Side::Hub, &bundle("a")).await;
        eventually("it is gone", || async {
            world.live(Side::Member, &map).await.is_none() && world.ledger("a").await.is_none()
        })
        .await;
        pass_time(5).await;
        let writes = || world.member.counter().total_stored();
        let written = writes();
        let runs = if anew {
            agent.stop().await;
            None
        } else {
            line.set(Mode::Away);
            world.hub.close_watches();
            pass_time(120).await;
            Some(agent)
        };
        line.take();
        *line.before.lock() = Some(before);
        line.set(if anew { Mode::Silent } else { Mode::Refused(410) });
        let agent = runs.unwrap_or_else(start);
        eventually("it is listed", || async { line.before.lock().is_none() }).await;
        line.set(Mode::Silent);
        pass_time(60).await;
        assert_eq!(writes(), written, "{anew}");
        assert!(world.live(Side::Member, &map).await.is_none());
        let asked = line.take();
        assert!(asked.contains(&"get/a".to_owned()), "{asked:?}");
        let whole = format!("list of 1, {} whole", u8::from(anew));
        assert!(asked.contains(&whole), "{asked:?}");
        agent.stop().await;
    }
}

/// Given a list of before, when a Bundle that is read is another one than it has, then what is known stands, and the Bundles are
/// listed once more within five minutes: the hub may have been put back in between.
#[tokio::test(start_paused = true)]
async fn where_a_list_and_what_is_read_differ_the_bundles_are_listed_again() {
    let (world, line, agent) = two_bundles().await;
    let before = listed(&world).await;
    let generation = outage(&world, &line, Mode::Up).await;
    world.reported("b", generation, Ready).await;
    *line.before.lock() = Some(before);
    let written = world.writes();
    pass_time(310).await;
    assert_eq!(line.take(), ["watch", "list of 2, 0 whole", "get/b", "watch"]);
    pass_time(310).await;
    let asked = line.take();
    assert!(asked.contains(&"list of 2, 0 whole".to_owned()), "{asked:?}");
    assert!(!asked.contains(&"get/b".to_owned()), "it is as it was");
    assert_eq!(world.writes(), written);
    agent.stop().await;
}

/// F9: given a Bundle that was paused, and somebody who works on the cluster by hand, when a list shows it as it was before the
/// pause, then it is ignored; the pause costs one write.
#[tokio::test(start_paused = true)]
async fn f9_a_pause_is_not_undone_by_a_hub_that_went_back_to_before_it() {
    let map = config_map("a", "1");
    let (world, line, hub, agent) = one_bundle(&map).await;
    let start = || world.agent_between(World::config(), hub.clone(), world.member_client.clone());
    let before = listed(&world).await;
    let paused = world.bundle("a", json!({"paused": true})).await;
    let says = |status: &roundhouse_api::bundle::BundleStatus| reason(status, "Progressing");
    eventually_with(
        "it is paused",
        || world.status("a"),
        |status| says(status) == "Paused",
    )
    .await;
    let ledger = world.ledger("a").await.unwrap()["spec"].clone();
    assert_eq!(
        (&ledger["generation"], &ledger["state"]),
        (&json!(paused), &json!("Applied"))
    );
    let theirs = json!({"data": {"key": "theirs"}});
    world.merge(Side::Member, &map, theirs).await;
    pass_time(130).await;
    let written = world.writes();
    pass_time(700).await;
    assert_eq!(world.writes(), written, "a pause writes nothing");
    agent.stop().await;

    *line.before.lock() = Some(before);
    line.set(Mode::Silent);
    let agent = start();
    eventually_with(
        "it is ignored",
        || world.status("a"),
        |status| says(status) == "OldGeneration",
    )
    .await;
    pass_time(60).await;
    let value = async || world.live(Side::Member, &map).await.unwrap()["data"]["key"].clone();
    assert_eq!(value().await, "theirs");
    agent.stop().await;

    line.set(Mode::Up);
    let agent = start();
    let on = world.bundle("a", json!({"paused": false})).await;
    world.reported("a", on, Ready).await;
    assert_eq!(value().await, "1", "it goes on");
    agent.stop().await;
}
