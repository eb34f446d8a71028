//! Agents that are interrupted at each of their writes (F10): a story is told once to count the writes that it takes, at
//! the hub and at the member, and then again for each of them, with something going wrong at that very write, or at that
//! and at the next one. However it goes wrong, it ends as the undisturbed story did, and without the slow resync: that is
//! hours away.

use crate::world::{
    Agent, Pass, Side, World, config_map, deployment, dispatched, eventually_with, job, pass_time, spec,
    treated,
};
use futures::StreamExt;
use kube::api::{DynamicObject, ListParams};
use kube::runtime::watcher;
use parking_lot::Mutex;
use roundhouse_agent::Config;
use roundhouse_api::bundle::BundlePhase::Cleaned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

const APP: &str = "default.app";
const SECOND: &str = "default.app.2";
/// Virtual seconds within which an interrupted story has come to its end: the longest back-off, some times over.
const LIMIT: u64 = 900;
/// Virtual seconds between resyncs: what heals within [`LIMIT`] is healed by nothing but the retry of what failed.
const RESYNC: u64 = 7200;
/// Virtual seconds in which every bundle is looked at again.
const LOOKED_AT: u64 = RESYNC + RESYNC / 5;

/// What goes wrong at a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    /// The agent is killed before the write leaves it.
    KilledBefore,
    /// The agent is killed when the write is done and not answered.
    KilledAfter,
    /// The write never arrives; the agent lives on.
    Lost,
    /// The write is done and its answer never arrives; the agent lives on.
    Unanswered,
}

impl Mishap {
    const ALL: [Mishap; 4] = [
        Mishap::KilledBefore,
        Mishap::KilledAfter,
        Mishap::Lost,
        Mishap::Unanswered,
    ];

    fn kills(self) -> bool {
        matches!(self, Mishap::KilledBefore | Mishap::KilledAfter)
    }
}

/// Pairs of mishaps, the second one at the write after the first: the agent is wrong about what was done, or knows nothing
/// of it, and then it happens again.
const PAIRS: [[Mishap; 2]; 4] = [
    [Mishap::Unanswered, Mishap::KilledBefore],
    [Mishap::Unanswered, Mishap::KilledAfter],
    [Mishap::Lost, Mishap::KilledAfter],
    [Mishap::KilledAfter, Mishap::Unanswered],
];

/// What is to go wrong, whichever agent is at work.
#[derive(Default)]
struct Script {
    /// After how many more writes (1: at the next one) what goes wrong; each counts from the one before.
    left: Mutex<VecDeque<(usize, Mishap)>>,
    /// How much of it went wrong.
    struck: AtomicUsize,
    news: Notify,
}

impl Script {
    fn of(first: usize, mishaps: &[Mishap]) -> Arc<Self> {
        let at = |(place, mishap): (usize, &Mishap)| (if place == 0 { first } else { 1 }, *mishap);
        Arc::new(Script {
            left: Mutex::new(mishaps.iter().enumerate().map(at).collect()),
            ..Script::default()
        })
    }

    /// What goes wrong at a write.
    fn at_write(&self) -> Option<Mishap> {
        let mut left = self.left.lock();
        let (after, mishap) = left.front_mut()?;
        *after -= 1;
        let mishap = (*after == 0).then_some(*mishap)?;
        left.pop_front();
        self.struck.fetch_add(1, Ordering::AcqRel);
        Some(mishap)
    }
}

/// The wires of one agent, to both sides.
#[derive(Default)]
struct Line {
    script: Arc<Script>,
    writes: AtomicUsize,
    /// The agent on this line is about to be killed: nothing more passes.
    dying: AtomicBool,
    /// It was killed.
    dead: AtomicBool,
    /// Requests of an agent that was killed.
    undead: AtomicUsize,
}

impl Line {
    fn pass(&self, method: &http::Method, path: &str) -> Pass {
        if self.dead.load(Ordering::Acquire) {
            self.undead.fetch_add(1, Ordering::AcqRel);
            return Pass::Through;
        }
        if self.dying.load(Ordering::Acquire) {
            return Pass::Held;
        }
        let aside = ["/leases/", "/clusterreports", "/selfsubject"]
            .iter()
            .any(|aside| path.contains(aside));
        if *method == http::Method::GET || aside {
            return Pass::Through;
        }
        self.writes.fetch_add(1, Ordering::AcqRel);
        let Some(mishap) = self.script.at_write() else {
            return Pass::Through;
        };
        self.dying.store(mishap.kills(), Ordering::Release);
        self.script.news.notify_one();
        match mishap {
            Mishap::KilledBefore => Pass::Held,
            Mishap::KilledAfter => Pass::Swallowed,
            Mishap::Lost => Pass::Lost,
            Mishap::Unanswered => Pass::Unanswered,
        }
    }
}

/// An agent that nothing heals but its own retries.
fn config() -> Config {
    let mut config = World::config();
    config.resync = Duration::from_secs(RESYNC);
    config.lease_interval = Duration::from_secs(RESYNC / 2);
    config
}

/// Starts an agent on a line of its own.
fn on_line(world: &World, script: &Arc<Script>) -> (Agent, Arc<Line>) {
    let line = Arc::new(Line {
        script: Arc::clone(script),
        ..Line::default()
    });
    let [hub, member] = [Side::Hub, Side::Member].map(|side| {
        let line = Arc::clone(&line);
        world.gated(side, move |method, path| line.pass(method, path))
    });
    (world.agent_between(config(), hub, member), line)
}

/// A story: what there is when it begins, what happens, and what must be so in the end.
struct Story {
    name: &'static str,
    /// Objects that others made in the member.
    theirs: Vec<Value>,
    /// Bundles that are applied when the story begins.
    before: Vec<(&'static str, Value)>,
    /// Changes that others make in the member then.
    edits: Vec<(Value, Value)>,
    /// Bundles as they are written in the story.
    after: Vec<(&'static str, Value)>,
    /// A Bundle that is deleted at the end of the story.
    deleted: Option<&'static str>,
    /// Objects that are there in the end, and what they have to look like.
    there: Vec<Value>,
    /// Objects that are not.
    gone: Vec<Value>,
    /// Objects that are never deleted in between.
    same: Vec<Value>,
    /// How many Jobs were made ever.
    jobs: usize,
}

impl Story {
    fn new(name: &'static str) -> Self {
        Story {
            name,
            theirs: Vec::new(),
            before: Vec::new(),
            edits: Vec::new(),
            after: Vec::new(),
            deleted: None,
            there: Vec::new(),
            gone: Vec::new(),
            same: Vec::new(),
            jobs: 0,
        }
    }
}

/// How a story ended: everything in both stores, without what differs from one telling to the next.
pub(crate) type End = BTreeMap<String, Value>;

struct Told {
    world: World,
    agent: Agent,
    script: Arc<Script>,
    /// The lines of all agents so far; the last one is at work.
    lines: Vec<Arc<Line>>,
    /// Uids of Jobs that were seen.
    jobs: Arc<Mutex<BTreeSet<String>>>,
    /// Uids of the objects that must stay the same.
    same: Vec<Option<Value>>,
    foreign: Vec<Value>,
    _watch: AbortOnDropHandle<()>,
}

/// Tells a story up to the moment that the agent has it all before it.
async fn tell(story: &Story, script: Arc<Script>) -> Told {
    let world = World::embedded().await;
    let mut foreign = config_map("of-another-bundle", "theirs");
    foreign["metadata"]["annotations"] = json!({"roundhouse.dev/owned-by": "9876543210/default.app"});
    for object in [&foreign, &config_map("by-hand", "theirs")]
        .into_iter()
        .chain(&story.theirs)
    {
        world.create(Side::Member, object.clone()).await;
    }
    let jobs: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let seen = Arc::clone(&jobs);
    let api = world.api(Side::Member, "batch/v1", "Job", "default");
    let watch = tokio::spawn(async move {
        let events = watcher(api, watcher::Config::default());
        let note = |event: watcher::Result<watcher::Event<DynamicObject>>| {
            if let Ok(watcher::Event::Apply(job) | watcher::Event::InitApply(job)) = event {
                seen.lock().extend(job.metadata.uid);
            }
            futures::future::ready(())
        };
        events.for_each(note).await;
    });
    let agent = world.agent_with(config());
    for (name, spec) in &story.before {
        let generation = world.bundle(name, spec.clone()).await;
        let what = format!("{name} is applied before {}", story.name);
        let applied = |status: &roundhouse_api::bundle::BundleStatus| {
            status.observed_generation == Some(generation)
                && status.counts.is_some_and(|counts| counts.applied == counts.total)
        };
        eventually_with(&what, || world.status(name), applied).await;
    }
    pass_time(5).await;
    agent.stop().await;
    for (object, patch) in &story.edits {
        world.merge(Side::Member, object, patch.clone()).await;
    }
    let mut same = Vec::new();
    for object in &story.same {
        let live = world.live(Side::Member, object).await;
        same.push(live.map(|live| live["metadata"]["uid"].clone()));
    }
    let mut untouched = Vec::new();
    for name in ["of-another-bundle", "by-hand"] {
        untouched.extend(world.live(Side::Member, &config_map(name, "")).await);
    }
    for (name, spec) in &story.after {
        world.bundle(name, spec.clone()).await;
    }
    if let Some(name) = story.deleted {
        world.tombstone(name, "application-deleted").await;
    }
    let (agent, line) = on_line(&world, &script);
    Told {
        world,
        agent,
        script,
        lines: vec![line],
        jobs,
        same,
        foreign: untouched,
        _watch: AbortOnDropHandle::new(watch),
    }
}

/// Everything in both stores that a story is about.
pub(crate) async fn end(world: &World) -> End {
    let mut end = End::new();
    for (side, api_version, kind) in [
        (Side::Member, "v1", "ConfigMap"),
        (Side::Member, "v1", "Secret"),
        (Side::Member, "v1", "Service"),
        (Side::Member, "apps/v1", "Deployment"),
        (Side::Member, "batch/v1", "Job"),
        (Side::Member, "roundhouse.dev/v1alpha1", "AppliedBundle"),
        (Side::Hub, "roundhouse.dev/v1alpha1", "Bundle"),
    ] {
        let api = world.api(side, api_version, kind, "");
        for object in api.list(&ListParams::default()).await.unwrap().items {
            let mut object = serde_json::to_value(object).unwrap();
            forget(&mut object, kind);
            let name = object["metadata"]["name"].clone();
            end.insert(format!("{side:?} {kind} {name}"), object);
        }
    }
    end
}

/// Takes out what is another each time: uids, versions, times.
fn forget(object: &mut Value, kind: &str) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "generation",
        "deletionTimestamp",
    ] {
        metadata.remove(field);
    }
    let conditions = object
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        condition["lastTransitionTime"] = Value::Null;
    }
    if kind == "Service" {
        object["spec"]["clusterIP"] = Value::Null;
        object["spec"]["clusterIPs"] = Value::Null;
    }
    if kind == "Job" {
        // The server generates them from the uid.
        object["spec"]["selector"] = Value::Null;
        object["spec"]["template"]["metadata"] = Value::Null;
    }
    if kind == "AppliedBundle" {
        object["spec"]["bundleUid"] = Value::Null;
        for entry in object["spec"]["objects"].as_array_mut().into_iter().flatten() {
            let entry = entry.as_object_mut().unwrap();
            // Whether the write or a repeated look counts is a matter of the moment.
            entry.remove("writtenGeneration");
            if let Some(uid) = entry.get_mut("uid") {
                *uid = json!("known");
            }
        }
    }
}

pub(crate) fn differences(expected: &End, got: &End) -> String {
    let names: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
    let mut text = String::new();
    for name in names
        .into_iter()
        .filter(|name| expected.get(*name) != got.get(*name))
    {
        let (expected, got) = (expected.get(name), got.get(name));
        let _ = writeln!(text, "{name}\n  expected {expected:?}\n  got      {got:?}");
    }
    text
}

/// Waits until all is as in the undisturbed story; an agent that is to be killed is killed, and started anew.
async fn recovers(told: &mut Told, expected: &End, what: &str) {
    let mut left = LIMIT;
    let mut writes = None;
    loop {
        tokio::select! {
            biased;
            () = told.script.news.notified() => {}
            () = pass_time(1) => left -= 1,
        }
        let line = told.lines.last().unwrap();
        if line.dying.load(Ordering::Acquire) {
            let (next, on) = on_line(&told.world, &told.script);
            std::mem::replace(&mut told.agent, next).kill().await;
            line.dead.store(true, Ordering::Release);
            told.lines.push(on);
        }
        let now = Some(told.world.writes());
        if left > 0 && std::mem::replace(&mut writes, now) == now {
            continue;
        }
        let got = end(&told.world).await;
        if got == *expected {
            return;
        }
        assert!(
            left > 0,
            "{what}: not as it should be after {LIMIT} s:\n{}",
            differences(expected, &got)
        );
    }
}

/// What must be so whatever went wrong.
async fn check(story: &Story, told: &Told, what: &str) {
    let world = &told.world;
    for object in &story.there {
        let live = world.live(Side::Member, object).await;
        let live = live.unwrap_or_else(|| panic!("{what}: {} is lost", object["metadata"]["name"]));
        for field in ["data", "spec"] {
            assert_contains(&live[field], &object[field], what);
        }
    }
    for object in &story.gone {
        let live = world.live(Side::Member, object).await;
        assert_eq!(live, None, "{what}");
    }
    for (object, uid) in story.same.iter().zip(&told.same) {
        let live = world.live(Side::Member, object).await;
        let now = live.map(|live| live["metadata"]["uid"].clone());
        assert_eq!(now, *uid, "{what}: {} is another one", object["metadata"]["name"]);
    }
    for before in &told.foreign {
        let live = world.live(Side::Member, before).await;
        assert_eq!(live.as_ref(), Some(before), "{what}");
    }
    if let Some(name) = story.deleted {
        assert_eq!(world.status(name).await.phase, Some(Cleaned), "{what}");
        assert_eq!(world.ledger(name).await, None, "{what}");
    }
    assert_eq!(
        told.jobs.lock().len(),
        story.jobs,
        "{what}: Jobs that were ever made"
    );
    let undead = told.lines.iter().map(|line| line.undead.load(Ordering::Acquire));
    assert_eq!(undead.sum::<usize>(), 0, "{what}: a killed agent goes on");
}

fn assert_contains(live: &Value, wanted: &Value, what: &str) {
    match wanted {
        Value::Object(wanted) => {
            for (key, wanted) in wanted {
                assert_contains(&live[key], wanted, what);
            }
        }
        Value::Array(wanted) => {
            for (place, wanted) in wanted.iter().enumerate() {
                assert_contains(&live[place], wanted, what);
            }
        }
        wanted => assert_eq!(live, wanted, "{what}"),
    }
}

/// Tells a story undisturbed, then with each mishap at each of its writes, and with each pair of mishaps.
async fn interrupted(story: Story) {
    let told = tell(&story, Arc::default()).await;
    pass_time(LIMIT).await;
    let expected = end(&told.world).await;
    check(&story, &told, story.name).await;
    let written = || told.lines[0].writes.load(Ordering::Acquire);
    let writes = written();
    pass_time(LOOKED_AT).await;
    assert_eq!(written(), writes, "{}: it has come to its end", story.name);
    assert!((3..=16).contains(&writes), "{}: {writes} writes", story.name);
    told.agent.kill().await;
    let singles = Mishap::ALL.iter().map(std::slice::from_ref);
    let pairs = PAIRS.iter().map(<[Mishap; 2]>::as_slice);
    for mishaps in singles.chain(pairs) {
        let mut complete = 0;
        for at in 1..=writes {
            let what = format!("{}, {mishaps:?} from write {at} of {writes} on", story.name);
            let mut told = tell(&story, Script::of(at, mishaps)).await;
            recovers(&mut told, &expected, &what).await;
            check(&story, &told, &what).await;
            let struck = told.script.struck.load(Ordering::Acquire);
            assert!(struck >= 1, "{what}: that write is reached");
            complete += usize::from(struck == mishaps.len());
            if mishaps.len() == 1 {
                // A resync later it is still so, and nothing more was written.
                pass_time(5).await;
                let writes = told.world.writes();
                pass_time(LOOKED_AT).await;
                assert_eq!(told.world.writes(), writes, "{what}: quiet afterwards");
            }
            told.agent.kill().await;
        }
        assert!(
            complete >= writes - 1,
            "{}: {mishaps:?} went wrong {complete} times",
            story.name
        );
    }
}

fn secret(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": data})
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
}

#[tokio::test(start_paused = true)]
async fn f10_a_creation_interrupted_at_any_write_is_completed() {
    let all = [
        config_map("a", "1"),
        secret(&json!({"k": "djE="})),
        service(),
        deployment("web", "i:1", 2),
    ];
    interrupted(Story {
        after: vec![(APP, dispatched(&all, "app-v1", 1))],
        there: all.to_vec(),
        ..Story::new("create")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_an_update_interrupted_at_any_write_is_completed() {
    let at = |value: &str, image: &str| {
        [
            config_map("a", value),
            config_map("b", "1"),
            deployment("web", image, 2),
        ]
    };
    let (first, second) = (at("1", "i:1"), at("2", "i:2"));
    let edit = json!({"data": {"theirs": "stays"}});
    let mut edited = second.to_vec();
    edited[0]["data"]["theirs"] = json!("stays");
    interrupted(Story {
        before: vec![(APP, dispatched(&first, "app-v1", 1))],
        edits: vec![(config_map("a", ""), edit)],
        after: vec![(APP, dispatched(&second, "app-v2", 1))],
        there: edited,
        same: second.to_vec(),
        ..Story::new("update")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_a_pruning_interrupted_at_any_write_is_completed() {
    let (a, b, web) = (
        config_map("a", "1"),
        config_map("b", "1"),
        deployment("web", "i:1", 2),
    );
    interrupted(Story {
        before: vec![(APP, dispatched(&[a.clone(), b.clone(), web.clone()], "app-v1", 1))],
        after: vec![(APP, dispatched(&[a.clone()], "app-v2", 1))],
        there: vec![a.clone()],
        gone: vec![b, web],
        same: vec![a],
        ..Story::new("prune")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_an_adoption_interrupted_at_any_write_is_completed() {
    let (found, a) = (config_map("found", "1"), config_map("a", "1"));
    let mut theirs = found.clone();
    theirs["data"]["theirs"] = json!("stays");
    interrupted(Story {
        theirs: vec![theirs.clone()],
        after: vec![(APP, dispatched(&[found.clone(), a.clone()], "app-v1", 1))],
        there: vec![theirs, a],
        same: vec![found],
        ..Story::new("adopt")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_a_job_is_made_once_wherever_its_making_is_interrupted() {
    let mut content = dispatched(&[job("i:1"), config_map("a", "1")], "app-v1", 1);
    content["applyOnce"] = json!("Once");
    interrupted(Story {
        after: vec![(APP, content)],
        there: vec![job("i:1"), config_map("a", "1")],
        jobs: 1,
        ..Story::new("job")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_a_key_leaves_a_secret_wherever_that_is_interrupted() {
    interrupted(Story {
        before: vec![(
            APP,
            dispatched(&[secret(&json!({"k": "djE=", "old": "djE="}))], "app-v1", 1),
        )],
        edits: vec![(secret(&json!({})), json!({"data": {"theirs": "djE="}}))],
        after: vec![(APP, dispatched(&[secret(&json!({"k": "djI="}))], "app-v2", 1))],
        there: vec![secret(&json!({"k": "djI=", "theirs": "djE=", "old": null}))],
        same: vec![secret(&json!({}))],
        ..Story::new("secret")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_an_object_that_moves_between_parts_is_never_lost_wherever_that_is_interrupted() {
    let map = |name: &str| config_map(name, "1");
    interrupted(Story {
        before: vec![
            (
                APP,
                dispatched(&[map("a"), map("goes"), map("moves")], "app-v1", 1),
            ),
            (SECOND, dispatched(&[map("c")], "app-v1", 1)),
        ],
        after: vec![
            (APP, dispatched(&[map("a")], "app-v2", 1)),
            (SECOND, dispatched(&[map("c"), map("moves")], "app-v2", 1)),
        ],
        there: vec![map("a"), map("c"), map("moves")],
        gone: vec![map("goes")],
        same: vec![map("a"), map("c"), map("moves")],
        ..Story::new("parts")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_a_rename_interrupted_at_any_write_leaves_the_new_object_alone() {
    let (old, new, a) = (
        config_map("old", "1"),
        config_map("new", "1"),
        config_map("a", "1"),
    );
    interrupted(Story {
        before: vec![(APP, dispatched(&[old.clone(), a.clone()], "app-v1", 1))],
        after: vec![(APP, dispatched(&[new.clone(), a.clone()], "app-v2", 1))],
        there: vec![new, a.clone()],
        gone: vec![old],
        same: vec![a],
        ..Story::new("rename")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_a_job_is_made_again_once_wherever_that_is_interrupted() {
    let strategy = json!({"type": "Recreate"});
    interrupted(Story {
        before: vec![("plain", treated(&[job("i:1")], strategy.clone()))],
        after: vec![("plain", treated(&[job("i:2")], strategy))],
        there: vec![job("i:2")],
        jobs: 2,
        ..Story::new("recreate")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_a_hand_over_to_server_side_apply_interrupted_at_any_write_is_completed() {
    let strategy = json!({"type": "ServerSideApply"});
    let mut before = deployment("web", "i:1", 2);
    before["spec"]["minReadySeconds"] = json!(5);
    let mut after = deployment("web", "i:2", 2);
    after["spec"]["minReadySeconds"] = Value::Null;
    let mut sent = after.clone();
    sent["spec"].as_object_mut().unwrap().remove("minReadySeconds");
    interrupted(Story {
        before: vec![("plain", spec(&[before]))],
        after: vec![("plain", treated(&[sent.clone()], strategy))],
        there: vec![after],
        same: vec![sent],
        ..Story::new("server-side apply")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn f10_a_deletion_on_evidence_interrupted_at_any_write_is_completed() {
    let (a, web) = (config_map("a", "1"), deployment("web", "i:1", 2));
    let content = dispatched(&[a.clone(), web.clone()], "app-v1", 1);
    let story = Story {
        before: vec![(APP, content)],
        deleted: Some(APP),
        gone: vec![a, web],
        ..Story::new("clean")
    };
    interrupted(story).await;
}
