//! A hub that was restored from a backup (F9) has a Bundle again that was removed and made again since. It is really there, and its
//! agent reports of it: that makes it no younger.

use crate::world::{
    Agent, Pass, Side, World, bundle, config_map, dispatched, eventually, eventually_with, pass_time, reason,
    spec,
};
use kube::Client;
use roundhouse_api::bundle::BundlePhase::{Failed, Ready};
use roundhouse_api::bundle::BundleStatus;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "default.app";

/// A member whose agent has obeyed the Bundle that was made again, and the hub as it is after the restore.
struct Restored {
    world: World,
    hub: World,
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}

/// Lets a hub count its versions on.
async fn count_on(hub: &World, writes: u32) {
    let counted = config_map("counted", "0");
    hub.create(Side::Hub, counted.clone()).await;
    for turn in 1..writes {
        let patch = json!({"data": {"key": turn.to_string()}});
        hub.merge(Side::Hub, &counted, patch).await;
    }
}

impl Restored {
    /// `before` is in the backup, `after` was obeyed last. The restored hub counts its versions from far ahead.
    async fn new(before: Value, after: Value) -> Self {
        let (world, hub) = (World::embedded().await, World::embedded().await);
        count_on(&world, 50).await;
        let agent = world.agent();
        let generation = world.bundle(NAME, after).await;
        world.reported(NAME, generation, Ready).await;
        agent.stop().await;
        hub.bundle(NAME, before).await;
        count_on(&hub, 500).await;
        let restored = Restored { world, hub };
        let (ledger, there) = (restored.ledger().await, restored.bundle().await);
        assert_ne!(ledger["bundleUid"], there["metadata"]["uid"]);
        assert!(version(&there) < restored.obeyed_version().await);
        restored
    }

    fn agent(&self) -> Agent {
        self.agent_on(self.hub.hub_client.clone())
    }

    fn agent_on(&self, hub: Client) -> Agent {
        let member = self.world.member_client.clone();
        self.world.agent_between(World::config(), hub, member)
    }

    async fn bundle(&self) -> Value {
        self.hub.live(Side::Hub, &bundle(NAME)).await.unwrap()
    }

    async fn ledger(&self) -> Value {
        self.world.ledger(NAME).await.unwrap()["spec"].clone()
    }

    async fn obeyed_version(&self) -> u64 {
        let obeyed = self.ledger().await["bundleVersion"].clone();
        obeyed.as_str().unwrap().parse().unwrap()
    }

    /// Waits until the agent says of this generation that it ignores it, and a version later than what is obeyed is given for it.
    async fn ignored(&self, generation: i64) {
        eventually_with(
            "it is ignored",
            || self.hub.status(NAME),
            |status| status.ignores(generation).is_some(),
        )
        .await;
        assert!(version(&self.bundle().await) > self.obeyed_version().await);
    }

    /// What a ConfigMap of the member has.
    async fn value(&self, name: &str) -> Value {
        let live = self.world.live(Side::Member, &config_map(name, "")).await;
        live.unwrap_or_default()["data"]["key"].clone()
    }

    /// Looks, a while later, whether everything is as it was obeyed before the restore.
    async fn stays(&self, obeyed: &Value) {
        pass_time(700).await;
        assert_eq!(
            (self.value("a").await, self.value("b").await),
            (json!("2"), json!("2"))
        );
        assert_eq!(self.ledger().await["bundleUid"], obeyed["bundleUid"]);
    }
}

/// F9: given a Bundle that a restored hub has again, when its agent reports that it ignores it, is started anew, or somebody
/// edits the Bundle or its status, then what was obeyed stays; with a newer epoch it is obeyed.
#[tokio::test(start_paused = true)]
async fn f9_a_bundle_that_went_before_stays_ignored_until_it_has_a_newer_epoch() {
    let by_hand: fn(&[Value]) -> Value = spec;
    for content in [by_hand, |manifests| dispatched(manifests, "app-v1", 5)] {
        let after = [config_map("a", "2"), config_map("b", "2")];
        let restored = Restored::new(content(&[config_map("a", "1")]), content(&after)).await;
        let obeyed = restored.ledger().await;
        let agent = restored.agent();
        restored.ignored(1).await;
        let told = version(&restored.bundle().await);
        restored.stays(&obeyed).await;
        assert_eq!(version(&restored.bundle().await), told, "it is said once");
        agent.kill().await;
        let agent = restored.agent();
        restored.stays(&obeyed).await;
        assert_eq!(version(&restored.bundle().await), told, "it is said once");
        // What somebody asks for meanwhile is stored, and waits.
        restored.hub.bundle(NAME, content(&[config_map("a", "3")])).await;
        restored.ignored(2).await;
        restored.stays(&obeyed).await;
        restored
            .hub
            .merge_status(Side::Hub, &bundle(NAME), Value::Null)
            .await;
        restored.ignored(2).await;
        restored.stays(&obeyed).await;
        agent.stop().await;
        let label = json!({"metadata": {"labels": {"by": "hand"}}});
        restored.hub.merge(Side::Hub, &bundle(NAME), label).await;
        let agent = restored.agent();
        restored.stays(&obeyed).await;
        // As the hub does when the restore is confirmed.
        let raised = json!({"spec": {"epoch": 1_001}});
        restored.hub.merge(Side::Hub, &bundle(NAME), raised).await;
        let status = restored.hub.reported(NAME, 3, Ready).await;
        assert_eq!((status.epoch, status.ignores(3)), (Some(1_001), None));
        assert_eq!(
            (restored.value("a").await, restored.value("b").await),
            (json!("3"), Value::Null)
        );
        let ledger = restored.ledger().await;
        assert_eq!(ledger["bundleUid"], restored.bundle().await["metadata"]["uid"]);
        agent.stop().await;
    }
}

/// How one that is ignored goes says nothing of what is obeyed, and one that is made after it is obeyed at once.
#[tokio::test(start_paused = true)]
async fn what_is_made_again_after_one_that_is_ignored_is_obeyed_at_once() {
    let after = [config_map("a", "2"), config_map("b", "2")];
    let restored = Restored::new(spec(&[config_map("a", "1")]), spec(&after)).await;
    let obeyed = restored.ledger().await;
    let agent = restored.agent();
    restored.ignored(1).await;
    restored.hub.delete(Side::Hub, &bundle(NAME)).await;
    restored.world.held(NAME).await;
    restored.stays(&obeyed).await;
    restored.hub.bundle(NAME, spec(&[config_map("a", "3")])).await;
    restored.hub.reported(NAME, 1, Ready).await;
    assert_eq!(
        (restored.value("a").await, restored.value("b").await),
        (json!("3"), Value::Null)
    );
    agent.stop().await;
}

/// Given a Bundle that a restored hub has again, when an entry of it is wrong, or the agent breaks over it before it has
/// reported, then it says that it ignores it and nothing else, so that a next agent does.
#[tokio::test(start_paused = true)]
async fn nothing_but_that_is_said_of_one_that_is_ignored() {
    let mut wrong = spec(&[config_map("a", "1")]);
    wrong["manifestConfigs"] = json!([{"resourceIdentifier": {"group": "", "resource": "configmaps",
        "namespace": "default", "name": "a"}, "updateStrategy": {"type": "ServerSideApply",
        "serverSideApply": {"ignoreFields": [5]}}}]);
    let after = [config_map("a", "2"), config_map("b", "2")];
    for (before, right) in [(spec(&[config_map("a", "1")]), true), (wrong, false)] {
        let restored = Restored::new(before, spec(&after)).await;
        let obeyed = restored.ledger().await;
        let is_broken = AtomicBool::new(false);
        let broken = restored.hub.gated(Side::Hub, move |method, path| {
            let reports = *method == http::Method::PATCH && path.ends_with("/bundles/default.app/status");
            // It is read when a report meets another one.
            let met = *method == http::Method::GET && path.ends_with("/bundles/default.app");
            if met || (reports && !is_broken.swap(true, Ordering::AcqRel)) {
                panic!("a defect, as the test plays it");
            }
            Pass::Through
        });
        let agent = restored.agent_on(broken);
        restored.ignored(1).await;
        restored.stays(&obeyed).await;
        agent.kill().await;
        let agent = restored.agent();
        restored.stays(&obeyed).await;
        let says = |status: &BundleStatus| reason(status, "Progressing");
        assert_eq!(says(&restored.hub.status(NAME).await), "OldGeneration");
        let raised = json!({"spec": {"epoch": 1_001}});
        restored.hub.merge(Side::Hub, &bundle(NAME), raised).await;
        let phase = if right { Ready } else { Failed };
        let status = restored.hub.reported(NAME, 2, phase).await;
        assert_ne!(says(&status), "OldGeneration");
        if right {
            eventually("it is obeyed", || async {
                restored.value("b").await == Value::Null
            })
            .await;
        } else {
            let value = restored.value("a").await;
            assert_eq!(
                value,
                json!("2"),
                "what cannot be told from what is to be ignored stays"
            );
        }
        agent.stop().await;
    }
}
