//! One who floods and some who read slowly, beside a fleet that is changed: what others then wait for (F36).

use crate::{
    Size,
    change::{Changing, clusters},
    world::World,
};
use anyhow::{Context, Result, anyhow, ensure};
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{Api, Client, api::PostParams, client::Body};
use roundhouse_api::clock::{SharedClock, SystemClock};
use roundhouse_apiserver::{Identity, Kubeconfig};
use roundhouse_e2e::figure::Figure;
use roundhouse_hub::endpoint::authority_in;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const SCENARIO: &str = "flood";
/// Changes that the targets are for, of each of the two rounds.
const CHANGES: usize = 3_000;
/// Others are not affected if they wait no longer than so many times as long: two rounds in a row differ by less.
const UNAFFECTED: f64 = 1.5;
/// Who floods.
const TENANT: &str = "tenant";
/// What a user may write: at once, and a second.
const AHEAD: f64 = 1_000.0;
const RATE: f64 = 200.0;
/// Requests that the flooder has under way, always: more than a user may have.
const AT_ONCE: usize = 200;
/// Connections that the flooder has: on one there is room for a hundred requests.
const CONNECTIONS: usize = 4;
/// Bytes that each of its writes stores.
const BYTES: usize = 20_000;
/// How long the flooder waits after a 429: it does not do as it is told, which would be a second.
const PAUSE: Duration = Duration::from_millis(10);
/// Watches of every Bundle that are read one frame at a time.
const SLOW: usize = 20;
/// How long a slow reader takes over a frame.
const FRAME: Duration = Duration::from_secs(1);

pub(crate) async fn measure(size: Size) -> Result<Vec<Figure>> {
    let world = World::start(clusters(size)).await?;
    let mut changing = Changing::begin(&world, size).await?;
    let changes = size.pick(CHANGES, 1_000, 20);
    let alone = changing.round(changes).await?;
    let others = Others::start(&world).await?;
    let beside = changing.round(changes).await?;
    drop(changing);
    let (codes, watched, time) = others.end()?;
    world.end().await?;

    let count = |code: u16| codes.get(&code).copied().unwrap_or(0);
    let refused = count(429);
    let answered: u64 = codes.values().sum();
    let taken = count(200) + count(201);
    // Otherwise nobody was flooded, or something else than load was measured.
    ensure!(
        taken > 0 && taken + refused == answered,
        "the flooder was answered with {codes:?}"
    );
    ensure!(
        refused > 0 || size == Size::Test,
        "the flooder was never refused: {codes:?} in {time:?}"
    );
    ensure!(watched > 0, "the slow readers have read nothing");
    let (quiet, loud) = (alone.applied(), beside.applied());
    let note = format!(
        "{:.0} ms without them ({:.1} times), p50 {:.0} ms ({:.0} without); {} of its {answered} writes of {} kB are taken, \
         {refused} refused with 429; {watched} frames read by {SLOW} slow watches; both share the machine with the hub",
        quiet.at(0.99),
        loud.at(0.99) / quiet.at(0.99),
        loud.at(0.5),
        quiet.at(0.5),
        taken,
        BYTES / 1_000,
    );
    Ok(vec![
        Figure::new(
            SCENARIO,
            "change → report at the hub beside a flooder and slow readers, p99",
            loud.at(0.99),
            "ms",
        )
        .at_most(250.0, &beside.size(CHANGES))
        .note(note),
        Figure::new(
            SCENARIO,
            "the same, of what it is without them",
            loud.at(0.99) / quiet.at(0.99),
            "times",
        )
        .at_most(UNAFFECTED, &beside.size(CHANGES))
        .note("the flooder's writes, their TLS and their JSON are made and read on the cores that serve the others"),
        Figure::new(
            SCENARIO,
            "changes that were not reported beside them",
            beside.lost() as f64,
            "",
        )
        .exactly(0.0)
        .note(beside.lost_note()),
        Figure::new(
            SCENARIO,
            "writes that the flooder is given, of 1,000 and 200 a second",
            taken as f64 / (AHEAD + RATE * time.as_secs_f64()),
            "",
        )
        // The pace is the same however long it is kept.
        .no_more_than(1.05),
    ])
}

/// How often the flooder was answered with each code, how many frames the slow readers have read, and for how long.
type Seen = (BTreeMap<u16, u64>, u64, Duration);

/// Those who are at it, on a thread of their own: they do not delay whoever measures.
struct Others {
    thread: std::thread::JoinHandle<Result<Seen>>,
    stop: CancellationToken,
}

impl Others {
    async fn start(world: &World) -> Result<Others> {
        allow(world.client()).await?;
        let clock: SharedClock = Arc::new(SystemClock);
        let authority = authority_in(world.hub.directory(), &clock)?;
        let who = Identity::new(TENANT, ["tenants"]);
        let certificate = authority.issue(&who, Duration::from_secs(86_400), clock.now())?;
        let kubeconfig = Kubeconfig::new("hub", &world.hub.url(), &authority, certificate).to_string();
        let stop = CancellationToken::new();
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                let kubeconfig = kube::config::Kubeconfig::from_yaml(&kubeconfig)?;
                let mut clients = Vec::new();
                for _ in 0..=CONNECTIONS {
                    clients.push(roundhouse_agent::identity::dial()(kubeconfig.clone()).await?);
                }
                let slow = clients.pop().context("no connection to read on")?;
                let began = Instant::now();
                let (codes, frames) = tokio::join!(flood(&clients, &until), read_slowly(&slow, &until));
                Ok((codes?, frames?, began.elapsed()))
            })
        });
        Ok(Others { thread, stop })
    }

    fn end(self) -> Result<Seen> {
        self.stop.cancel();
        self.thread
            .join()
            .map_err(|_| anyhow!("those who flood and read have panicked"))?
    }
}

/// The flooder may write its ConfigMaps and read what is dispatched.
async fn allow(admin: Client) -> Result<()> {
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": TENANT}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]},
        {"apiGroups": ["roundhouse.dev"], "resources": ["bundles"], "verbs": ["get", "list", "watch"]}]}))?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": TENANT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": TENANT},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}]}))?;
    let params = PostParams::default();
    Api::all(admin.clone()).create(&params, &role).await?;
    Api::all(admin).create(&params, &binding).await?;
    Ok(())
}

fn request(method: Method, path: &str, media: &str, body: &Value) -> Result<Request<Body>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    Ok(request.body(Body::from(body.to_string().into_bytes()))?)
}

/// Writes ConfigMaps over and over, each as soon as the one before it is answered. How often each code was the answer.
async fn flood(clients: &[Client], stop: &CancellationToken) -> Result<BTreeMap<u16, u64>> {
    let all = "/api/v1/namespaces/default/configmaps";
    let one = async |n: usize| -> Result<BTreeMap<u16, u64>> {
        let client = clients.get(n % clients.len().max(1)).context("no connection")?;
        let (name, mut codes) = (format!("flood-{n}"), BTreeMap::new());
        let mut is_there = false;
        for round in 0.. {
            if stop.is_cancelled() {
                break;
            }
            // No two writes are the same: each is a durable one.
            let data = json!({"text": format!("{round} {}", "x".repeat(BYTES))});
            let asked = if is_there {
                let path = format!("{all}/{name}");
                request(
                    Method::PATCH,
                    &path,
                    "application/merge-patch+json",
                    &json!({"data": data}),
                )?
            } else {
                let object = json!({"metadata": {"name": name}, "data": data});
                request(Method::POST, all, "application/json", &object)?
            };
            let answer = client.send(asked).await?;
            let code = answer.status().as_u16();
            answer.into_body().collect_bytes().await?;
            is_there |= code == 201;
            *codes.entry(code).or_insert(0) += 1;
            if code == 429 {
                sleep(PAUSE).await;
            }
        }
        Ok(codes)
    };
    let each: Vec<_> = stream::iter(0..AT_ONCE)
        .map(one)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut sum = BTreeMap::new();
    for codes in each {
        for (code, count) in codes.context("flooding")? {
            *sum.entry(code).or_insert(0) += count;
        }
    }
    Ok(sum)
}

/// Reads watches of every Bundle a frame at a time, and begins anew what the hub ends. How many frames were read.
async fn read_slowly(client: &Client, stop: &CancellationToken) -> Result<u64> {
    let one = async |_| -> Result<u64> {
        let mut frames = 0;
        while !stop.is_cancelled() {
            let path = "/apis/roundhouse.dev/v1alpha1/bundles?watch=1";
            let answer: Response<Body> = client.send(Request::get(path).body(Body::empty())?).await?;
            let code = answer.status();
            // One who has too many requests under way comes again.
            ensure!(
                code.is_success() || code == StatusCode::TOO_MANY_REQUESTS,
                "a slow watch was answered with {code}"
            );
            let mut body = Box::pin(answer.into_body().into_data_stream());
            while let Some(Some(Ok(_))) = stop.run_until_cancelled(body.next()).await {
                frames += u64::from(code.is_success());
                let _ = stop.run_until_cancelled(sleep(FRAME)).await;
            }
            let _ = stop.run_until_cancelled(sleep(FRAME)).await;
        }
        Ok(frames)
    };
    let each: Vec<_> = stream::iter(0..SLOW)
        .map(one)
        .buffer_unordered(SLOW)
        .collect()
        .await;
    each.into_iter().sum::<Result<u64>>().context("reading slowly")
}
