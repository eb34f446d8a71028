//! In which order objects come and go.

use crate::applying::widget_definition;
use crate::world::{
    Pass, Side, World, bundle, config_map, deployment, eventually, eventually_with, pass_time, reason, spec,
};
use parking_lot::Mutex;
use roundhouse_api::bundle::BundlePhase::{Progressing, Ready};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

type Log = Arc<Mutex<Vec<(http::Method, String)>>>;

/// An agent whose calls to the member are written down when they are sent.
fn logged(world: &World) -> (kube::Client, Log) {
    let log = Log::default();
    let writer = Arc::clone(&log);
    let member = world.gated(Side::Member, move |method, path| {
        writer.lock().push((method.clone(), path.to_owned()));
        Pass::Through
    });
    (member, log)
}

/// The last part of the paths of the calls with a method, in order, for the resources of `wave_of`; a part is a plural
/// (of a POST) or a plural and a name (of a DELETE).
fn waves_of(log: &Log, method: &http::Method) -> Vec<(usize, String)> {
    let resource_first = *method == http::Method::POST;
    let log = log.lock();
    let paths = log.iter().filter(|(m, _)| m == method).map(|(_, path)| path);
    paths
        .filter_map(|path| {
            let mut parts = path.rsplit('/');
            let plural = if resource_first {
                parts.next()
            } else {
                parts.nth(1)
            };
            Some((wave_of(path, plural?)?, path.clone()))
        })
        .collect()
}

/// The wave that apply.md gives each resource of [`one_of_each_wave`].
fn wave_of(path: &str, plural: &str) -> Option<usize> {
    let foreign = path.starts_with("/apis/example.com/");
    Some(match plural {
        "widgets" => 4,
        "deployments" if foreign => 4,
        "namespaces" | "customresourcedefinitions" | "priorityclasses" => 0,
        "serviceaccounts" | "configmaps" | "roles" => 1,
        "deployments" | "services" => 2,
        "validatingwebhookconfigurations" => 3,
        _ => return None,
    })
}

fn definition_of(kind: &str, plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com"), "annotations": {"roundhouse.dev/prune": "true"}},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// Objects of all waves, the last wave first, all in a namespace of the bundle.
fn one_of_each_wave() -> Vec<Value> {
    let named = |name: &str| json!({"name": name, "namespace": "shop"});
    let inside = |mut object: Value| {
        object["metadata"]["namespace"] = json!("shop");
        object
    };
    vec![
        json!({"apiVersion": "example.com/v1", "kind": "Deployment", "metadata": named("foreign")}),
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": named("w")}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "shop-gate"}, "webhooks": []}),
        inside(deployment("web", "i:1", 1)),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": named("web"),
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
        inside(config_map("settings", "1")),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("web")}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": named("web"),
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "shop", "namespace": "means-nothing"}, "value": 7}),
        definition_of("Widget", "widgets"),
        definition_of("Deployment", "deployments"),
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "shop", "annotations": {"roundhouse.dev/prune": "true"}}}),
    ]
}

/// A06, A27, A28: given a bundle with objects of all waves in the wrong order, cluster-scoped ones among them, when it is
/// applied, then they are made wave by wave, a known kind's name in a foreign group in the last one; and when the bundle
/// is deleted, they go wave by wave backwards.
#[tokio::test(start_paused = true)]
async fn waves_are_made_in_order_and_removed_in_the_opposite_order() {
    let world = World::new().await;
    let (member, log) = logged(&world);
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let ledgers = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "appliedbundles.roundhouse.dev"}});
    eventually("the agent's own definition is there", || async {
        world.live(Side::Member, &ledgers).await.is_some()
    })
    .await;
    log.lock().clear();
    let manifests = one_of_each_wave();
    let generation = world.bundle("plain", spec(&manifests)).await;
    let status = eventually_with(
        "everything is applied",
        || world.status("plain"),
        |status| status.counts.as_ref().is_some_and(|counts| counts.applied == 12),
    )
    .await;
    assert_eq!(status.observed_generation, Some(generation));
    for object in &manifests {
        let mut object = object.clone();
        if object["kind"] == "PriorityClass" {
            object["metadata"].as_object_mut().unwrap().remove("namespace");
        }
        assert!(world.live(Side::Member, &object).await.is_some(), "{object}");
    }
    let made = waves_of(&log, &http::Method::POST);
    assert_eq!(
        made.len(),
        12,
        "each object is sent once, when its turn has come: {made:#?}"
    );
    assert!(made.is_sorted_by_key(|(wave, _)| *wave), "{made:#?}");

    world.delete(Side::Hub, &bundle("plain")).await;
    eventually("everything goes", || async {
        world.ledger("plain").await.is_none()
    })
    .await;
    let gone = waves_of(&log, &http::Method::DELETE);
    assert_eq!(gone.len(), 12, "{gone:#?}");
    assert!(gone.is_sorted_by_key(|(wave, _)| 4 - *wave), "{gone:#?}");
    agent.stop().await;
}

/// Given a custom resource with a finalizer, when its bundle is deleted, then what it may need stays until it is gone.
#[tokio::test(start_paused = true)]
async fn an_earlier_wave_stays_until_the_later_one_is_gone() {
    let world = World::new().await;
    let agent = world.agent();
    let mut widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}});
    widget["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let (web, map) = (deployment("web", "i:1", 1), config_map("settings", "1"));
    let manifests = [
        widget.clone(),
        web.clone(),
        map.clone(),
        definition_of("Widget", "widgets"),
    ];
    let generation = world.bundle("plain", spec(&manifests)).await;
    world.reported("plain", generation, Progressing).await;
    world.delete(Side::Hub, &bundle("plain")).await;
    let going =
        |live: Option<Value>| live.is_some_and(|live| live["metadata"].get("deletionTimestamp").is_some());
    eventually("the resource is being deleted", || async {
        going(world.live(Side::Member, &widget).await)
    })
    .await;
    pass_time(700).await;
    for object in &manifests[1..] {
        let live = world.live(Side::Member, object).await;
        assert!(live.is_some() && !going(live), "{object}");
    }
    world
        .merge(Side::Member, &widget, json!({"metadata": {"finalizers": null}}))
        .await;
    pass_time(300).await;
    eventually("the rest goes", || async {
        world.live(Side::Member, &web).await.is_none()
            && world.live(Side::Member, &map).await.is_none()
            && world.live(Side::Member, &manifests[3]).await.is_none()
            && world.ledger("plain").await.is_none()
    })
    .await;
    agent.stop().await;
}

/// A04: given a definition that the member serves only some time after it was made, when its resource comes in the same
/// bundle, then the resource is reported as `NoKind` meanwhile and applied when the kind is there, with nobody's help.
#[tokio::test(start_paused = true)]
async fn a_resource_waits_for_its_definition_to_be_served() {
    let world = World::new().await;
    let is_served = Arc::new(AtomicBool::new(false));
    let served = Arc::clone(&is_served);
    let member = world.gated(Side::Member, move |_, path| {
        if path.starts_with("/apis/example.com") && !served.load(Ordering::Acquire) {
            Pass::Refused(404)
        } else {
            Pass::Through
        }
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}});
    let generation = world
        .bundle("plain", spec(&[widget.clone(), widget_definition()]))
        .await;
    let status = world.reported("plain", generation, Progressing).await;
    assert_eq!(reason(&status, "Applied"), "NoKind");
    pass_time(600).await;
    is_served.store(true, Ordering::Release);
    pass_time(200).await;
    world.reported("plain", generation, Ready).await;
    assert!(world.live(Side::Member, &widget).await.is_some());
    agent.stop().await;
}

/// A04: given a kind that was missing for an hour, when its definition comes in the bundle and is established only after
/// moments, then the resource is applied in the same pass: nothing is ever reported that the next moment mends.
#[tokio::test(start_paused = true)]
async fn a_definition_is_established_before_its_resources_are_applied() {
    let world = World::new().await;
    let looks = Arc::new(AtomicUsize::new(0));
    let is_made = Arc::new(AtomicBool::new(false));
    let member = world.gated(Side::Member, move |method, path| {
        let definition = path.ends_with("/widgets.example.com");
        if *method == http::Method::POST && path.ends_with("/customresourcedefinitions") {
            is_made.store(true, Ordering::Release);
            return Pass::Reworked(unestablished);
        }
        let waits = is_made.load(Ordering::Acquire) && looks.load(Ordering::Acquire) < 3;
        match waits {
            true if definition => {
                looks.fetch_add(1, Ordering::AcqRel);
                Pass::Reworked(unestablished)
            }
            true if path.starts_with("/apis/example.com") => Pass::Refused(404),
            _ => Pass::Through,
        }
    });
    let reports = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&reports);
    let hub = world.gated(Side::Hub, move |_, path| {
        if path.ends_with("/bundles/custom/status") {
            sent.fetch_add(1, Ordering::AcqRel);
        }
        Pass::Through
    });
    let agent = world.agent_between(World::config(), hub, member);
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"}});
    let first = world.bundle("custom", spec(&[widget.clone()])).await;
    world.reported("custom", first, Progressing).await;
    pass_time(3600).await;
    let before = reports.load(Ordering::Acquire);
    let second = world
        .bundle(
            "custom",
            spec(&[widget.clone(), definition_of("Widget", "widgets")]),
        )
        .await;
    world.reported("custom", second, Ready).await;
    assert_eq!(reports.load(Ordering::Acquire) - before, 1);
    assert!(world.live(Side::Member, &widget).await.is_some());
    agent.stop().await;
}

/// Given a definition that is never established, when its bundle changes, then the pass does not wait for it again: only
/// the one that wrote it did.
#[tokio::test(start_paused = true)]
async fn a_definition_that_is_never_established_holds_up_the_first_pass_alone() {
    let world = World::embedded().await;
    let member = world.gated(Side::Member, |method, path| {
        let made = *method == http::Method::POST && path.ends_with("/customresourcedefinitions");
        if made || path.ends_with("/widgets.example.com") {
            return Pass::Reworked(unestablished);
        }
        Pass::Through
    });
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let content = |value: &str| spec(&[widget_definition(), config_map("beside", value)]);
    let beside = config_map("beside", "");
    let is_there = async |value: &str| {
        let began = Instant::now();
        world.bundle("plain", content(value)).await;
        eventually_with(
            "the ConfigMap is there",
            || world.live(Side::Member, &beside),
            |live| live.as_ref().is_some_and(|live| live["data"]["key"] == value),
        )
        .await;
        began.elapsed()
    };
    let first = is_there("1").await;
    assert!(
        first > Duration::from_secs(2),
        "it waits for what it wrote: {first:?}"
    );
    pass_time(30).await;
    let second = is_there("2").await;
    assert!(second < Duration::from_secs(2), "{second:?}");
    let status = world.status("plain").await;
    assert_eq!(status.phase, Some(Progressing));
    agent.stop().await;
}

fn unestablished(definition: &mut Value) {
    if let Some(definition) = definition.as_object_mut() {
        definition.remove("status");
    }
}

/// Given an applied resource and ConfigMap, when both are left out and a manifest of the resource's kind names a version
/// that is not served, then the ConfigMap goes and the resource, which that manifest may mean, stays until it is clear.
#[tokio::test(start_paused = true)]
async fn an_unknown_kind_holds_back_the_pruning_of_that_kind_only() {
    let world = World::new().await;
    world.create(Side::Member, widget_definition()).await;
    let agent = world.agent();
    let widget = |version: &str, name: &str| {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": {"name": name, "namespace": "default"}})
    };
    let (old, map) = (widget("v1", "old"), config_map("a", "1"));
    let first = world.bundle("plain", spec(&[old.clone(), map.clone()])).await;
    world.reported("plain", first, Ready).await;
    let second = world.bundle("plain", spec(&[widget("v9", "new")])).await;
    let status = world.reported("plain", second, Progressing).await;
    assert_eq!(reason(&status, "Applied"), "NoKind");
    eventually("the other kind goes", || async {
        world.live(Side::Member, &map).await.is_none()
    })
    .await;
    pass_time(700).await;
    assert!(world.live(Side::Member, &old).await.is_some());
    let third = world.bundle("plain", spec(&[widget("v1", "new")])).await;
    world.reported("plain", third, Ready).await;
    eventually("then the old one goes", || async {
        world.live(Side::Member, &old).await.is_none()
    })
    .await;
    assert!(world.live(Side::Member, &widget("v1", "new")).await.is_some());
    agent.stop().await;
}

/// A07: given a ServiceAccount, its Role, RoleBinding and Deployment, when the account gets another name, then the new
/// one is there, the Deployment uses it and the old one is gone.
#[tokio::test(start_paused = true)]
async fn a_renamed_service_account_replaces_the_old_one() {
    let world = World::new().await;
    let agent = world.agent();
    let rbac = "rbac.authorization.k8s.io";
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}});
    let content = |name: &str| {
        let mut web = deployment("web", "i:1", 1);
        web["spec"]["template"]["spec"]["serviceAccountName"] = json!(name);
        vec![
            account(name),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": "web", "namespace": "default"},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
                "metadata": {"name": "web", "namespace": "default"},
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "web"},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]}),
            web,
        ]
    };
    let mut generation = 0;
    for name in ["one", "two"] {
        generation = world.bundle("plain", spec(&content(name))).await;
        let status = world.reported("plain", generation, Progressing).await;
        assert_eq!(status.counts.unwrap().applied, 4);
        assert!(world.live(Side::Member, &account(name)).await.is_some());
        let objects = content(name);
        let live = world.live(Side::Member, &objects[3]).await.unwrap();
        assert_eq!(live["spec"]["template"]["spec"]["serviceAccountName"], name);
        let live = world.live(Side::Member, &objects[2]).await.unwrap();
        assert_eq!(live["subjects"].as_array().unwrap().len(), 1, "{live}");
        assert_eq!(live["subjects"][0]["name"], name);
    }
    eventually("the old account goes", || async {
        world.live(Side::Member, &account("one")).await.is_none()
    })
    .await;
    world.roll_out(&content("two")[3]).await;
    world.reported("plain", generation, Ready).await;
    agent.stop().await;
}

/// Given a member that does not answer about one object, then the others of its wave are made, and those of the next wave
/// wait.
#[tokio::test(start_paused = true)]
async fn a_wave_is_worked_on_in_parallel_and_the_next_one_waits_for_all_of_it() {
    let world = World::new().await;
    let (member, cut) = world.wire(Side::Member, |_, path| path.ends_with("/configmaps/slow"));
    cut.store(true, Ordering::Release);
    let agent = world.agent_between(World::config(), world.hub_client.clone(), member);
    let [slow, quick] = ["slow", "quick"].map(|name| config_map(name, "1"));
    let web = deployment("web", "i:1", 1);
    world
        .bundle("plain", spec(&[slow.clone(), quick.clone(), web.clone()]))
        .await;
    eventually("its sibling is made", || async {
        world.live(Side::Member, &quick).await.is_some()
    })
    .await;
    assert_eq!(world.live(Side::Member, &slow).await, None);
    assert_eq!(
        world.live(Side::Member, &web).await,
        None,
        "it is of the next wave"
    );
    cut.store(false, Ordering::Release);
    for object in [&slow, &web] {
        eventually("all is made", || async {
            world.live(Side::Member, object).await.is_some()
        })
        .await;
    }
    agent.stop().await;
}
