//! Fields that somebody else rewrites again and again (F23): reported by name, repaired ever more rarely.

use crate::world::{
    HUB_ID, Side, World, bundle, config_map, deployment, dispatched, eventually_with, pass_time, reason, spec,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use roundhouse_api::bundle::BundlePhase::{Progressing, Ready};
use roundhouse_api::bundle::{BundleStatus, DRIFTED, FIGHTING, ManifestCondition};
use roundhouse_api::condition;
use roundhouse_apiserver::{ApiBody, ApiService};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tower::Service;

/// What an agent may write to one object in the first hour of a fight, at most (`agent/src/drift/fight.rs`: 3 + 5).
const WRITES_IN_AN_HOUR: u64 = 8;

/// Writes to an object by one field manager, as a merge patch.
async fn write_as(world: &World, manager: &str, object: &Value, patch: Value) -> Value {
    let (api, name) = world.api_of(Side::Member, object);
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let live = api.patch(&name, &params, &Patch::Merge(patch)).await.unwrap();
    serde_json::to_value(live).unwrap()
}

/// An autoscaler: every 15 s, for `rounds` rounds, it wants another number of replicas, and the rollout follows.
/// Answers how often it wrote to the object.
async fn autoscale(world: &World, web: &Value, rounds: u64) -> u64 {
    let mut writes = 0;
    for round in 0..rounds {
        pass_time(15).await;
        let wanted = 5 + round % 4;
        write_as(
            world,
            "horizontal-pod-autoscaler",
            web,
            json!({"spec": {"replicas": wanted}}),
        )
        .await;
        world.roll_out(web).await;
        writes += 2;
    }
    writes
}

fn stored(world: &World, table: &str, name: &str) -> u64 {
    world.member.counter().stored_of(table, "default", name)
}

fn entry<'a>(status: &'a BundleStatus, name: &str) -> Option<&'a ManifestCondition> {
    let manifests = &status.resource_status.as_ref()?.manifests;
    manifests.iter().find(|entry| entry.resource_meta.name == name)
}

fn message(status: &BundleStatus, name: &str, type_: &str) -> Option<String> {
    let condition = condition::get(&entry(status, name)?.conditions, type_)?;
    assert_eq!(
        (condition.status.as_str(), condition.reason.as_str()),
        ("True", type_)
    );
    Some(condition.message.clone())
}

async fn fighting(world: &World, bundle: &str, name: &str) -> String {
    let what = format!("{name} is reported as {FIGHTING}");
    let status = eventually_with(
        &what,
        || world.status(bundle),
        |status| message(status, name, FIGHTING).is_some(),
    )
    .await;
    message(&status, name, FIGHTING).unwrap()
}

/// A dispatched Deployment with more fields in its spec, rolled out, and then autoscaled for an hour; answers how often the
/// agent wrote to it in that hour.
async fn autoscaled_for_an_hour(world: &World, treatment: &Value) -> u64 {
    let web = deployment("web", "i:1", 2);
    let mut content = dispatched(&[web.clone()], "app-v1", 1);
    for (field, value) in treatment.as_object().unwrap() {
        content[field] = value.clone();
    }
    let generation = world.bundle("default.app", content).await;
    world.reported("default.app", generation, Progressing).await;
    world.roll_out(&web).await;
    world.reported("default.app", generation, Ready).await;
    pass_time(5).await;
    let (before, began) = (stored(world, "deployments.apps", "web"), Instant::now());
    let theirs = autoscale(world, &web, 240).await;
    assert!(
        began.elapsed() >= Duration::from_secs(3600),
        "an hour by the clock of the agent"
    );
    stored(world, "deployments.apps", "web") - before - theirs
}

fn on_the_server_side(force: bool) -> Value {
    json!({"manifestConfigs": [{
        "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "*", "name": "*"},
        "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": force}}}]})
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_that_changes_replicas_for_an_hour_is_reported_and_writes_are_bounded() {
    for treatment in [json!({}), on_the_server_side(true)] {
        let world = World::embedded().await;
        let agent = world.agent();
        let ours = autoscaled_for_an_hour(&world, &treatment).await;
        assert!(
            (4..=WRITES_IN_AN_HOUR).contains(&ours),
            "{ours} writes in an hour: {treatment}"
        );
        let said = fighting(&world, "default.app", "web").await;
        for part in [
            "Deployment.apps default/web: spec.replicas is rewritten again and again by field manager \
             horizontal-pod-autoscaler;",
            "ignoreFields",
            "apply-once",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let status = world.status("default.app").await;
        assert_eq!(reason(&status, "Degraded"), FIGHTING);
        assert_eq!(reason(&status, "Applied"), "Applied");
        assert_eq!(status.phase, Some(Ready), "readiness decides, not the fight");
        assert_eq!(status.counts.unwrap().failed, 0);
        agent.stop().await;
    }
}

/// Without force the autoscaler owns the field from its first write on: there is no fight, but a conflict that names it.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_against_server_side_apply_without_force_is_a_conflict_and_no_fight() {
    let world = World::embedded().await;
    let agent = world.agent();
    let ours = autoscaled_for_an_hour(&world, &on_the_server_side(false)).await;
    assert_eq!(ours, 0, "writes that a conflict let through");
    let status = world.status("default.app").await;
    let condition = &entry(&status, "web").unwrap().conditions[0];
    assert_eq!(condition.reason, "ApplyConflict");
    assert!(
        condition
            .message
            .contains(".spec.replicas (of horizontal-pod-autoscaler)"),
        "{}",
        condition.message
    );
    assert_ne!(reason(&status, "Degraded"), FIGHTING);
    let live = world.live(Side::Member, &deployment("web", "", 0)).await.unwrap();
    assert_eq!(live["spec"]["replicas"], 8, "theirs stands");
    agent.stop().await;
}

/// An hour of autoscaling under a bundle that does not mind the replicas: the agent writes nothing to the member.
async fn unminded(treatment: Value) {
    let world = World::embedded().await;
    let agent = world.agent();
    assert_eq!(autoscaled_for_an_hour(&world, &treatment).await, 0, "{treatment}");
    let status = world.status("default.app").await;
    assert_eq!(
        (status.phase, status.resource_status),
        (Some(Ready), None),
        "{treatment}"
    );
    let live = world.live(Side::Member, &deployment("web", "", 0)).await.unwrap();
    assert_eq!(live["spec"]["replicas"], 8);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_whose_field_is_ignored_is_left_alone_for_an_hour() {
    unminded(json!({"manifestConfigs": [{
        "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "*", "name": "*"},
        "updateStrategy": {"type": "Update", "ignoreFields": ["spec.replicas"]}}]}))
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_whose_field_an_apply_once_path_keeps_is_left_alone_for_an_hour() {
    unminded(json!({"applyOnceRules": [
        {"strategy": {"path": ["spec.replicas"], "affect": "always"}}]}))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_ignored_from_now_on_ends_the_fight() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let mut content = dispatched(&[web.clone()], "app-v1", 1);
    let generation = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", generation, Progressing).await;
    autoscale(&world, &web, 20).await;
    fighting(&world, "default.app", "web").await;
    content["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "*", "name": "web"},
        "updateStrategy": {"type": "Update", "ignoreFields": ["spec.replicas"]}}]);
    let generation = world.bundle("default.app", content).await;
    let status = world.reported("default.app", generation, Ready).await;
    assert_eq!(reason(&status, "Degraded"), "NoFailure");
    assert_eq!(status.resource_status, None);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f23_fields_of_others_are_kept_while_fields_of_ours_are_fought_over() {
    let world = World::embedded().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let generation = world.bundle("plain", spec(&[map.clone()])).await;
    world.reported("plain", generation, Ready).await;
    let before = stored(&world, "configmaps", "a");
    for round in 0..120 {
        pass_time(30).await;
        let patch = json!({"data": {"key": format!("theirs {round}"), "own": round.to_string()},
            "metadata": {"annotations": {"tick": round.to_string()}}});
        write_as(&world, "ticker", &map, patch).await;
    }
    let ours = stored(&world, "configmaps", "a") - before - 120;
    assert!(ours <= WRITES_IN_AN_HOUR, "{ours} writes in an hour");
    let said = fighting(&world, "plain", "a").await;
    let names_ours_alone =
        "ConfigMap default/a: data.key is rewritten again and again by field manager ticker;";
    assert!(said.starts_with(names_ours_alone), "{said}");
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["data"]["own"], "119");
    assert_eq!(live["metadata"]["annotations"]["tick"], "119");
    agent.stop().await;
}

/// Somebody applies an old copy of the object again and again, with the stamps of the old content, and edits it by hand in
/// between: a fight in every mode, although the stamps say that the content was never applied.
#[tokio::test(start_paused = true)]
async fn an_old_copy_restored_with_its_stamps_is_a_fight_and_no_new_content() {
    for mode in [
        json!({}),
        json!({"drift": "Report"}),
        json!({"applyOnce": "Once"}),
    ] {
        let world = World::embedded().await;
        let agent = world.agent();
        let map = config_map("a", "1");
        let generation = world.bundle("plain", spec(&[map.clone()])).await;
        world.reported("plain", generation, Ready).await;
        let old = world.live(Side::Member, &map).await.unwrap();
        let old = json!({"data": old["data"], "metadata": {"annotations": old["metadata"]["annotations"]}});
        let mut content = spec(&[config_map("a", "2")]);
        for (field, value) in mode.as_object().unwrap() {
            content[field] = value.clone();
        }
        let generation = world.bundle("plain", content).await;
        world.reported("plain", generation, Ready).await;
        pass_time(5).await;
        let began = stored(&world, "configmaps", "a");
        let mut theirs = 0;
        for round in 0..120 {
            let before = stored(&world, "configmaps", "a");
            let edit = match round % 2 {
                0 => old.clone(),
                _ => json!({"data": {"key": format!("by hand {round}")}}),
            };
            write_as(&world, "restorer", &map, edit).await;
            theirs += stored(&world, "configmaps", "a") - before;
            pass_time(30).await;
        }
        let ours = stored(&world, "configmaps", "a") - began - theirs;
        // The stamps, which differ in every other round only, may earn repairs of their own: three before they are a fight.
        assert!(
            (4..=WRITES_IN_AN_HOUR + 3).contains(&ours),
            "{ours} writes in an hour: {mode}"
        );
        let said = fighting(&world, "plain", "a").await;
        assert!(said.contains("restorer"), "{said}");
        agent.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn other_drift_of_an_object_that_is_fought_over_is_repaired_at_once() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    autoscale(&world, &web, 20).await;
    fighting(&world, "default.app", "web").await;
    let image = json!([{"name": "main", "image": "by-hand"}]);
    write_as(
        &world,
        "kubectl-edit",
        &web,
        json!({"spec": {"template": {"spec": {"containers": image}}}}),
    )
    .await;
    let image = |live: &Option<Value>| {
        live.as_ref().unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    eventually_with(
        "the image is ours",
        || world.live(Side::Member, &web),
        |live| image(live) == "i:1",
    )
    .await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fight_is_over_when_the_value_stays_ours() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    autoscale(&world, &web, 20).await;
    fighting(&world, "default.app", "web").await;
    // The autoscaler is switched off: within the next delay the value is ours, and a quarter of an hour later all is well.
    pass_time(8 * 60).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"],
        2
    );
    assert_eq!(
        reason(&world.status("default.app").await, "Degraded"),
        FIGHTING,
        "not at once"
    );
    world.roll_out(&web).await;
    pass_time(16 * 60).await;
    let status = world.status("default.app").await;
    assert_eq!(reason(&status, "Degraded"), "NoFailure");
    assert_eq!(status.resource_status, None);
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn new_content_is_written_at_once_and_ends_a_fight() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    autoscale(&world, &web, 20).await;
    fighting(&world, "default.app", "web").await;
    let next = deployment("web", "i:1", 3);
    let generation = world
        .bundle("default.app", dispatched(&[next.clone()], "app-v2", 1))
        .await;
    let status = world.reported("default.app", generation, Progressing).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"],
        3
    );
    assert_eq!(reason(&status, "Degraded"), "NoFailure");
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_costs_at_most_one_more_round_of_repairs() {
    let world = World::embedded().await;
    let agent = world.agent();
    let web = deployment("web", "i:1", 2);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    autoscale(&world, &web, 40).await;
    agent.stop().await;
    let agent = world.agent();
    pass_time(1).await;
    let before = stored(&world, "deployments.apps", "web");
    let theirs = autoscale(&world, &web, 240).await;
    let ours = stored(&world, "deployments.apps", "web") - before - theirs;
    assert!(
        ours <= WRITES_IN_AN_HOUR,
        "{ours} writes in the hour after a restart"
    );
    fighting(&world, "default.app", "web").await;
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_again_and_again_is_made_ever_more_rarely() {
    let world = World::embedded().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let generation = world
        .bundle("plain", spec(&[map.clone(), config_map("b", "1")]))
        .await;
    world.reported("plain", generation, Ready).await;
    let mut made = 0;
    for _ in 0..240 {
        if world.live(Side::Member, &map).await.is_some() {
            world.delete(Side::Member, &map).await;
            made += 1;
        }
        pass_time(15).await;
    }
    assert!(
        (4..=WRITES_IN_AN_HOUR + 1).contains(&made),
        "made {made} times in an hour"
    );
    let said = fighting(&world, "plain", "a").await;
    assert!(said.contains("the object itself"), "{said}");
    assert_eq!(reason(&world.status("plain").await, "Applied"), FIGHTING);
    agent.stop().await;
}

/// B12: given a Secret whose values somebody rewrites, then no value of it is in any report, event or ledger.
#[tokio::test(start_paused = true)]
async fn values_of_secrets_never_appear() {
    let world = World::new().await;
    let agent = world.agent();
    let secret = |value: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
            "stringData": {"password": value}})
    };
    // Base64 of the values: "b3Vycw==" and "dGhlaXJz".
    let theirs = json!({"data": {"password": "dGhlaXJz"}});
    let generation = world.bundle("plain", spec(&[secret("ours")])).await;
    world.reported("plain", generation, Ready).await;
    for _ in 0..10 {
        write_as(&world, "rotator", &secret(""), theirs.clone()).await;
        pass_time(15).await;
    }
    let said = fighting(&world, "plain", "s").await;
    assert!(said.contains("data.password"), "{said}");
    let mut report = spec(&[secret("ours")]);
    report["drift"] = json!("Report");
    world.bundle("plain", report).await;
    write_as(&world, "rotator", &secret(""), theirs).await;
    let status = eventually_with(
        "drift is reported",
        || world.status("plain"),
        |status| message(status, "s", DRIFTED).is_some(),
    )
    .await;
    let said = message(&status, "s", DRIFTED).unwrap();
    assert!(said.contains("data.password"), "{said}");
    for object in [
        world.live(Side::Hub, &bundle("plain")).await.unwrap()["status"].clone(),
        world.ledger("plain").await.unwrap(),
    ] {
        let text = object.to_string();
        for value in ["ours", "theirs", "b3Vycw==", "dGhlaXJz"] {
            assert!(!text.contains(value), "{value} in {text}");
        }
    }
    agent.stop().await;
}

/// A member whose admission changes every object of one kind that is written, in the same request, and counts in an
/// annotation, so that no write ever changes nothing.
#[derive(Clone)]
struct Admission {
    inner: ApiService,
    /// What it does to Deployments.
    mutation: fn() -> Value,
    admitted: Arc<AtomicU64>,
}

impl Service<http::Request<Body>> for Admission {
    type Response = http::Response<ApiBody>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut inner = self.inner.clone();
        let path = request.uri().path().to_owned();
        let writes = matches!(*request.method(), http::Method::POST | http::Method::PATCH);
        if !writes || !path.contains("/deployments") {
            return inner.call(request).boxed();
        }
        let count = self.admitted.fetch_add(1, Ordering::SeqCst) + 1;
        let mut mutation = (self.mutation)();
        mutation["metadata"] = json!({"annotations": {"admitted": count.to_string()}});
        async move {
            let answer = inner.call(request).await?;
            if !answer.status().is_success() {
                return Ok(answer);
            }
            let object = path.trim_end_matches("/web").to_owned() + "/web";
            let request = http::Request::patch(object)
                .header("content-type", "application/strategic-merge-patch+json")
                .body(Body::from(mutation.to_string().into_bytes()))
                .unwrap();
            inner.call(request).await
        }
        .boxed()
    }
}

fn admission(world: &World, mutation: fn() -> Value) -> (Client, Arc<AtomicU64>) {
    let admitted = Arc::new(AtomicU64::new(0));
    let service = Admission {
        inner: world.member.service(),
        mutation,
        admitted: Arc::clone(&admitted),
    };
    (Client::new(service, "default"), admitted)
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_overrules_our_value_is_a_fight_at_once_and_no_storm() {
    let world = World::embedded().await;
    let (member, admitted) = admission(&world, || json!({"spec": {"replicas": 3}}));
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let web = deployment("web", "i:1", 2);
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    let said = fighting(&world, "default.app", "web").await;
    assert!(
        said.contains("spec.replicas") && said.contains("admission"),
        "{said}"
    );
    pass_time(3600).await;
    let writes = admitted.load(Ordering::SeqCst);
    assert!(
        (2..=WRITES_IN_AN_HOUR).contains(&writes),
        "{writes} writes in an hour"
    );
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_spells_a_value_in_its_own_way_is_no_fight() {
    let world = World::embedded().await;
    let (member, admitted) = admission(&world, || {
        json!({"spec": {"template": {"spec": {"containers": [
            {"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}}})
    });
    let mut config = World::config();
    config.resync = std::time::Duration::from_secs(60);
    let agent = world.agent_between(config, world.hub_client.clone(), member);
    let mut web = deployment("web", "i:1", 2);
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1000m"}});
    let generation = world
        .bundle("default.app", dispatched(&[web.clone()], "app-v1", 1))
        .await;
    world.reported("default.app", generation, Progressing).await;
    pass_time(3600).await;
    let writes = admitted.load(Ordering::SeqCst);
    assert!(writes <= 2, "{writes} writes");
    let status = world.status("default.app").await;
    assert_eq!(status.resource_status, None);
    assert_eq!(reason(&status, "Degraded"), "NoFailure");
    // Other drift is still repaired, and the spelling stays no news.
    world
        .merge(Side::Member, &web, json!({"spec": {"replicas": 9}}))
        .await;
    pass_time(120).await;
    assert_eq!(
        world.live(Side::Member, &web).await.unwrap()["spec"]["replicas"],
        2
    );
    assert_eq!(admitted.load(Ordering::SeqCst), writes + 1);
    assert!(
        world.ledger("default.app").await.unwrap()["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with(HUB_ID)
    );
    agent.stop().await;
}
