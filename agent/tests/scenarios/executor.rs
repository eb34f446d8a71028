//! The executor of a bundle: the rights of a service account of the member decide, not the agent's.

use crate::rights::role;
use crate::world::{
    NAMESPACE, Side, World, bundle, config_map, deployment, dispatched, eventually, eventually_with,
    pass_time, reason, spec,
};
use kube::api::PostParams;
use roundhouse_api::bundle::BundlePhase::{Cleaned, Failed, Progressing, Ready};
use roundhouse_api::bundle::BundleStatus;
use serde_json::{Value, json};

const WRITE: [&str; 3] = ["get", "create", "patch"];
const ALL: [&str; 4] = ["get", "create", "patch", "delete"];

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
        "stringData": {"key": "value"}})
}

/// The spec, on behalf of `default/<account>`.
pub(crate) fn on_behalf_of(account: &str, mut spec: Value) -> Value {
    spec["executor"] = json!({"subject": {"type": "ServiceAccount",
        "serviceAccount": {"namespace": "default", "name": account}}});
    spec
}

/// Gives the account rights, or other ones than before.
async fn grant(world: &World, account: &str, resources: &[&str], verbs: &[&str]) {
    let [role, binding] = role(account, resources, verbs);
    if world.live(Side::Member, &role).await.is_some() {
        world
            .merge(Side::Member, &role, json!({"rules": role["rules"]}))
            .await;
    } else {
        world.create(Side::Member, role).await;
        world.create(Side::Member, binding).await;
    }
}

/// Name, reason and message of the manifests that are not as they should be.
fn failures(status: &BundleStatus) -> Vec<(String, String, String)> {
    let manifests = status.resource_status.iter().flat_map(|s| &s.manifests);
    manifests
        .map(|m| {
            let condition = &m.conditions[0];
            let name = m.resource_meta.name.clone();
            (name, condition.reason.clone(), condition.message.clone())
        })
        .collect()
}

/// All that an executor lacks is named before anything is tried, until it has it.
#[tokio::test(start_paused = true)]
async fn what_an_executor_lacks_is_named_in_one_condition() {
    let world = World::new().await;
    let agent = world.agent();
    let permitted = |status: &BundleStatus| {
        let found = status
            .conditions
            .iter()
            .find(|c| c.type_ == "ExecutorPermitted")?;
        Some((found.status.clone(), found.message.clone()))
    };
    grant(&world, "web", &["configmaps"], &["get"]).await;
    let objects = [
        config_map("a", "1"),
        deployment("web", "i:1", 1),
        config_map("b", "1"),
    ];
    let generation = world.bundle("plain", on_behalf_of("web", spec(&objects))).await;
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(
        permitted(&status),
        Some((
            "False".to_owned(),
            "service account default/web lacks: create configmaps in default, patch configmaps in default, \
             delete configmaps in default, get deployments.apps in default, create deployments.apps in default, \
             patch deployments.apps in default, delete deployments.apps in default"
                .to_owned()
        ))
    );
    grant(&world, "web", &["configmaps", "deployments"], &WRITE).await;
    let left =
        "service account default/web lacks: delete configmaps in default, delete deployments.apps in default";
    eventually_with(
        "it may not remove what it has applied",
        || world.status("plain"),
        |status| permitted(status) == Some(("False".to_owned(), left.to_owned())),
    )
    .await;
    grant(&world, "web", &["configmaps", "deployments"], &ALL).await;
    eventually_with(
        "it has the rights",
        || world.status("plain"),
        |status| permitted(status) == Some(("True".to_owned(), String::new())),
    )
    .await;
    // Without an executor nobody is asked about.
    let mut own = spec(&[config_map("a", "2")]);
    own["executor"] = Value::Null;
    let generation = world.bundle("plain", own).await;
    let status = world.reported("plain", generation, Ready).await;
    assert_eq!(permitted(&status), None);
    agent.stop().await;
}

/// What is only read beside what is applied needs no right to write, and takes none from the other.
#[tokio::test(start_paused = true)]
async fn each_object_needs_the_rights_of_its_own_strategy() {
    let world = World::new().await;
    let agent = world.agent();
    let objects = [config_map("a", "1"), deployment("web", "i:1", 1)];
    let config = |group: &str, resource: &str, name: &str, strategy: &str| {
        json!({"resourceIdentifier": {"group": group, "resource": resource, "namespace": "default", "name": name},
            "updateStrategy": {"type": strategy}})
    };
    let reads = config("", "configmaps", "a", "ReadOnly");
    let updates = config("apps", "deployments", "web", "Update");
    for configs in [json!([reads]), json!([reads, updates])] {
        let mut content = on_behalf_of("web", spec(&objects));
        content["manifestConfigs"] = configs.clone();
        let generation = world.bundle("plain", content).await;
        let status = world.reported("plain", generation, Failed).await;
        let mut conditions = status.conditions.iter();
        let permitted = conditions.find(|c| c.type_ == "ExecutorPermitted").unwrap();
        assert_eq!(
            permitted.message,
            "service account default/web lacks: get configmaps in default, get deployments.apps in default, \
             create deployments.apps in default, patch deployments.apps in default, \
             delete deployments.apps in default",
            "{configs}"
        );
    }
    agent.stop().await;
}

/// E01, E12: nothing is written without permission; what is granted later is used without a change of the bundle.
#[tokio::test(start_paused = true)]
async fn without_permission_nothing_is_applied_until_it_is_granted() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let generation = world
        .bundle("plain", on_behalf_of("web", spec(&[map.clone()])))
        .await;
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(reason(&status, "Applied"), "Forbidden");
    let [(name, why, message)] = failures(&status).try_into().unwrap();
    assert_eq!((name.as_str(), why.as_str()), ("a", "Forbidden"));
    assert_eq!(
        message,
        "configmaps \"a\" is forbidden: User \"system:serviceaccount:default:web\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    pass_time(600).await;
    assert!(world.live(Side::Member, &map).await.is_none());
    grant(&world, "web", &["configmaps"], &WRITE).await;
    pass_time(300).await;
    world.reported("plain", generation, Ready).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "1");
    let writes = world.writes();
    pass_time(3600).await;
    assert_eq!(world.writes(), writes, "nothing is written any more");
    agent.stop().await;
}

/// E02, E03: what is permitted goes on beside what is not.
#[tokio::test(start_paused = true)]
async fn a_forbidden_manifest_fails_alone() {
    let world = World::new().await;
    grant(&world, "web", &["configmaps"], &WRITE).await;
    let agent = world.agent();
    let (map, key) = (config_map("a", "1"), secret("s"));
    let content = spec(&[key.clone(), map.clone()]);
    let generation = world.bundle("plain", on_behalf_of("web", content)).await;
    let status = world.reported("plain", generation, Failed).await;
    let counts = status.counts.unwrap();
    assert_eq!((counts.total, counts.applied, counts.failed), (2, 1, 1));
    let [(name, why, _)] = failures(&status).try_into().unwrap();
    assert_eq!((name.as_str(), why.as_str()), ("s", "Forbidden"));
    assert!(world.live(Side::Member, &map).await.is_some());
    assert!(world.live(Side::Member, &key).await.is_none());
    grant(&world, "web", &["configmaps", "secrets"], &WRITE).await;
    pass_time(300).await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
}

/// Reading alone is not enough: creating and changing are asked for when they are needed.
#[tokio::test(start_paused = true)]
async fn each_verb_is_needed_when_it_is_used() {
    let world = World::new().await;
    grant(&world, "web", &["configmaps"], &["get"]).await;
    let agent = world.agent();
    let first = world
        .bundle("plain", on_behalf_of("web", spec(&[config_map("a", "1")])))
        .await;
    let status = world.reported("plain", first, Failed).await;
    assert!(
        failures(&status)[0].2.contains("cannot create resource"),
        "{status:#?}"
    );
    grant(&world, "web", &["configmaps"], &["get", "create"]).await;
    pass_time(300).await;
    world.reported("plain", first, Ready).await;
    let second = world
        .bundle("plain", on_behalf_of("web", spec(&[config_map("a", "2")])))
        .await;
    let status = world.reported("plain", second, Failed).await;
    assert!(
        failures(&status)[0].2.contains("cannot patch resource"),
        "{status:#?}"
    );
    grant(&world, "web", &["configmaps"], &WRITE).await;
    pass_time(300).await;
    world.reported("plain", second, Ready).await;
    agent.stop().await;
}

/// E04–E07: deleting needs the permission to delete, and says what it waits for.
#[tokio::test(start_paused = true)]
async fn a_forbidden_prune_waits_and_says_so() {
    let world = World::new().await;
    grant(&world, "web", &["configmaps"], &WRITE).await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world
        .bundle("plain", on_behalf_of("web", spec(&[a.clone(), b.clone()])))
        .await;
    world.reported("plain", first, Ready).await;
    world.bundle("plain", on_behalf_of("web", spec(&[b]))).await;
    let status = eventually_with(
        "the removal is reported",
        || world.status("plain"),
        |status| !failures(status).is_empty(),
    )
    .await;
    let [(name, why, message)] = failures(&status).try_into().unwrap();
    assert_eq!((name.as_str(), why.as_str()), ("a", "Removing"));
    assert!(
        message.contains("cannot delete resource \"configmaps\""),
        "{message}"
    );
    pass_time(600).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    grant(&world, "web", &["configmaps"], &ALL).await;
    pass_time(300).await;
    assert!(world.live(Side::Member, &a).await.is_none());
    assert_eq!(failures(&world.status("plain").await), []);
    agent.stop().await;
}

/// An object that is let go is not deleted: no permission to delete is needed.
#[tokio::test(start_paused = true)]
async fn orphaning_needs_no_permission_to_delete() {
    let world = World::new().await;
    grant(&world, "web", &["configmaps"], &WRITE).await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let with = |manifests: &[Value]| {
        let mut content = on_behalf_of("web", spec(manifests));
        content["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        content
    };
    let first = world.bundle("plain", with(&[a.clone()])).await;
    world.reported("plain", first, Ready).await;
    let second = world.bundle("plain", with(&[])).await;
    world.reported("plain", second, Ready).await;
    eventually("it is let go", || async {
        let live = world.live(Side::Member, &a).await.unwrap();
        live["metadata"]["annotations"]["roundhouse.dev/owned-by"].is_null()
    })
    .await;
    agent.stop().await;
}

/// A bundle is not cleaned with more rights than it was applied with, not even by an agent that was started anew.
#[tokio::test(start_paused = true)]
async fn a_deleted_bundle_is_cleaned_when_its_executor_may_delete() {
    let world = World::new().await;
    grant(&world, "web", &["configmaps"], &WRITE).await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let mut content = on_behalf_of("web", dispatched(&[a.clone()], "app-v1", 1));
    let first = world.bundle("default.app", content.clone()).await;
    world.reported("default.app", first, Ready).await;
    content["deletion"] = json!({"revision": "app-v1", "confirmedBy": "application-deleted"});
    world.bundle("default.app", content).await;
    let held = json!({"metadata": {"finalizers": ["roundhouse.dev/dispatch"]}});
    world.merge(Side::Hub, &bundle("default.app"), held).await;
    world.delete(Side::Hub, &bundle("default.app")).await;
    let status = eventually_with(
        "it waits",
        || world.status("default.app"),
        |status| status.phase == Some(Progressing) && !failures(status).is_empty(),
    )
    .await;
    assert!(
        failures(&status)[0].2.contains("cannot delete resource"),
        "{status:#?}"
    );
    agent.stop().await;
    let agent = world.agent();
    pass_time(600).await;
    assert!(world.live(Side::Member, &a).await.is_some());
    grant(&world, "web", &["configmaps"], &ALL).await;
    pass_time(300).await;
    assert_eq!(world.status("default.app").await.phase, Some(Cleaned));
    assert!(world.live(Side::Member, &a).await.is_none());
    agent.stop().await;
}

/// The ledger remembers on whose behalf a bundle was applied, for when the Bundle itself is gone.
#[tokio::test(start_paused = true)]
async fn the_ledger_remembers_the_executor_of_a_bundle_that_is_gone() {
    let world = World::new().await;
    grant(&world, "web", &["configmaps"], &WRITE).await;
    let agent = world.agent();
    let a = config_map("a", "1");
    let first = world
        .bundle("plain", on_behalf_of("web", spec(&[a.clone()])))
        .await;
    world.reported("plain", first, Ready).await;
    let account = json!({"namespace": "default", "name": "web"});
    assert_eq!(world.ledger("plain").await.unwrap()["spec"]["executor"], account);
    world.delete(Side::Hub, &bundle("plain")).await;
    eventually("the removal is in the ledger", || async {
        let ledger = world.ledger("plain").await.unwrap();
        ledger["spec"]["objects"][0]["outcome"] == "Removing"
    })
    .await;
    agent.kill().await;
    let agent = world.agent();
    pass_time(600).await;
    assert!(
        world.live(Side::Member, &a).await.is_some(),
        "the agent itself could"
    );
    assert_eq!(world.ledger("plain").await.unwrap()["spec"]["executor"], account);
    grant(&world, "web", &["configmaps"], &ALL).await;
    pass_time(300).await;
    assert!(world.live(Side::Member, &a).await.is_none());
    assert!(world.ledger("plain").await.is_none());
    agent.stop().await;
}

/// E12: permission that is taken away counts too; what was applied stays, and stays ours.
#[tokio::test(start_paused = true)]
async fn permission_that_is_revoked_is_reported_and_nothing_is_lost() {
    let world = World::new().await;
    grant(&world, "web", &["configmaps"], &ALL).await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let first = world
        .bundle("plain", on_behalf_of("web", spec(&[map.clone()])))
        .await;
    world.reported("plain", first, Ready).await;
    grant(&world, "web", &["configmaps"], &["list"]).await;
    let second = world
        .bundle("plain", on_behalf_of("web", spec(&[config_map("a", "2")])))
        .await;
    let status = world.reported("plain", second, Failed).await;
    assert_eq!(reason(&status, "Applied"), "Forbidden");
    let live = world.live(Side::Member, &map).await.unwrap();
    assert_eq!(live["data"]["key"], "1");
    let ledger = world.ledger("plain").await.unwrap();
    assert_eq!(ledger["spec"]["objects"][0]["uid"], live["metadata"]["uid"]);
    // Another account may.
    grant(&world, "other", &["configmaps"], &ALL).await;
    let third = world
        .bundle("plain", on_behalf_of("other", spec(&[config_map("a", "2")])))
        .await;
    world.reported("plain", third, Ready).await;
    assert_eq!(world.live(Side::Member, &map).await.unwrap()["data"]["key"], "2");
    agent.stop().await;
}

/// An object is made anew with the executor's rights too, and not deleted where it may not be created.
#[tokio::test(start_paused = true)]
async fn recreating_needs_the_permission_to_delete_and_to_create() {
    let world = World::new().await;
    grant(&world, "web", &["deployments"], &WRITE).await;
    let agent = world.agent();
    let web = deployment("web", "i", 1);
    let with = |object: &Value| {
        let mut content = on_behalf_of("web", spec(&[object.clone()]));
        content["manifestConfigs"] = json!([{"updateStrategy": {"type": "Recreate"}, "resourceIdentifier":
            {"group": "apps", "resource": "deployments", "namespace": "default", "name": "web"}}]);
        content
    };
    world.bundle("plain", with(&web)).await;
    eventually("it is made", || async {
        world.live(Side::Member, &web).await.is_some()
    })
    .await;
    let uid = world.live(Side::Member, &web).await.unwrap()["metadata"]["uid"].clone();
    let mut other = web.clone();
    for path in [
        "/spec/selector/matchLabels/app",
        "/spec/template/metadata/labels/app",
    ] {
        *other.pointer_mut(path).unwrap() = json!("other");
    }
    let second = world.bundle("plain", with(&other)).await;
    for (verbs, refused) in [
        (&WRITE[..], "cannot delete resource \"deployments\""),
        (
            &["get", "patch", "delete"],
            "cannot create resource \"deployments\"",
        ),
    ] {
        grant(&world, "web", &["deployments"], verbs).await;
        pass_time(300).await;
        let status = world.reported("plain", second, Failed).await;
        let [(_, why, message)] = failures(&status).try_into().unwrap();
        assert_eq!(why, "Forbidden", "{message}");
        assert!(message.contains(refused), "{message}");
        let live = world.live(Side::Member, &web).await.unwrap();
        assert_eq!(live["metadata"]["uid"], uid, "it is not deleted: {message}");
    }
    grant(&world, "web", &["deployments"], &ALL).await;
    pass_time(300).await;
    let live = world.live(Side::Member, &web).await.unwrap();
    assert_ne!(live["metadata"]["uid"], uid);
    assert_eq!(live["spec"]["selector"]["matchLabels"]["app"], "other");
    agent.stop().await;
}

/// Without an account the bundle as a whole fails; without an executor the agent's own rights count again.
#[tokio::test(start_paused = true)]
async fn an_executor_without_account_fails_the_bundle_and_none_is_the_agent_itself() {
    let world = World::new().await;
    let agent = world.agent();
    let (a, b) = (config_map("a", "1"), config_map("b", "1"));
    let first = world.bundle("plain", spec(&[a.clone(), b.clone()])).await;
    world.reported("plain", first, Ready).await;
    let mut nobody = spec(&[config_map("a", "2")]);
    nobody["executor"] = json!({"subject": {"type": "ServiceAccount"}});
    let second = world.bundle("plain", nobody).await;
    let status = world.reported("plain", second, Failed).await;
    assert_eq!(reason(&status, "Applied"), "InvalidExecutor");
    let message = &status.conditions[0].message;
    assert!(
        message.contains("spec.executor.subject.serviceAccount"),
        "{message}"
    );
    pass_time(700).await;
    assert_eq!(world.live(Side::Member, &a).await.unwrap()["data"]["key"], "1");
    assert!(
        world.live(Side::Member, &b).await.is_some(),
        "nothing is pruned either"
    );
    let mut own = spec(&[config_map("a", "2")]);
    own["executor"] = Value::Null;
    let third = world.bundle("plain", own).await;
    world.reported("plain", third, Ready).await;
    assert_eq!(world.live(Side::Member, &a).await.unwrap()["data"]["key"], "2");
    eventually("b goes", || async {
        world.live(Side::Member, &b).await.is_none()
    })
    .await;
    agent.stop().await;
}

/// A name with a colon would be another user; a type that nobody knows does not get past the hub.
#[tokio::test(start_paused = true)]
async fn names_and_types_that_mean_somebody_else_are_refused() {
    let world = World::new().await;
    let agent = world.agent();
    let map = config_map("a", "1");
    let content = on_behalf_of("web:admin", spec(&[map.clone()]));
    let generation = world.bundle("plain", content).await;
    let status = world.reported("plain", generation, Failed).await;
    assert_eq!(reason(&status, "Applied"), "InvalidExecutor");
    assert!(world.live(Side::Member, &map).await.is_none());
    let mut user = bundle("other");
    user["spec"] = on_behalf_of("web", spec(&[map]));
    user["spec"]["executor"]["subject"]["type"] = json!("User");
    let bundles = world.api(Side::Hub, "roundhouse.dev/v1alpha1", "Bundle", NAMESPACE);
    let refused = bundles
        .create(&PostParams::default(), &serde_json::from_value(user).unwrap())
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("spec.executor.subject.type"),
        "{refused}"
    );
    agent.stop().await;
}
