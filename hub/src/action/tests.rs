//! The runner on an embedded API server: what each kind of step does, and what it does not.

use super::{
    egress::tests::Names,
    transport::tests::{Local, answer},
    *,
};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Event, Secret},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use roundhouse_api::{application::Application, clock::SystemClock, crds};
use roundhouse_apiserver::Server;
use serde_json::json;
use std::sync::Arc;

struct World {
    client: Client,
    runner: Runner,
    application: ApplicationRef,
}

impl World {
    /// A hub's API with the Application default/web.
    async fn new() -> World {
        let client = Client::new(Server::builder().build().service(), "default");
        let definitions = Api::all(client.clone());
        for definition in crds::hub() {
            definitions
                .create(&PostParams::default(), &definition)
                .await
                .unwrap();
        }
        let world = World {
            runner: Runner::over(
                client.clone(),
                Egress::new(vec!["127.0.0.1".parse().unwrap()], Vec::new()),
                Arc::new(SystemClock),
                Arc::new(Names::default()),
                Trust::default(),
            ),
            application: ApplicationRef::default(),
            client,
        };
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"components": []}
        }))
        .unwrap();
        let resource = ApiResource::erase::<Application>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "default", &resource);
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        let status = json!({"status": {"delivery": {"clustersReady": "2/3", "replicasReady": "20/30", "placed": 30, "unplaced": 0}}});
        api.patch_status("web", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
        World {
            application: ApplicationRef {
                namespace: "default".to_owned(),
                name: "web".to_owned(),
                uid: created.uid().unwrap(),
            },
            ..world
        }
    }

    fn job(&self, step: &str, attempt: u32, type_: &str, properties: &Value) -> Job {
        Job {
            application: self.application.clone(),
            revision: "web-v1".to_owned(),
            run: "2026-01-01T00:00:00Z".to_owned(),
            step: step.to_owned(),
            attempt,
            before: None,
            action: action(type_, properties),
        }
    }

    async fn run(&self, type_: &str, properties: Value) -> Outcome {
        self.runner.run(self.job("act", 1, type_, &properties)).await
    }

    async fn secret(&self, name: &str, entries: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> = entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect();
        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": name}, "stringData": data})).unwrap();
        let api: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        api.create(&PostParams::default(), &secret).await.unwrap();
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }
}

#[track_caller]
fn done(outcome: Outcome) -> Value {
    match outcome {
        Outcome::Done { output } => output,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed(outcome: Outcome) -> (String, Option<Value>) {
    match outcome {
        Outcome::Failed { message, output } => (message, output),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn no_request_is_sent_to_the_servers_behind_the_hubs_api() {
    let world = World::new().await;
    let url = json!({"url": "http://203.0.113.7/api", "timeout": "1s"});
    let slices: Api<EndpointSlice> = Api::namespaced(world.client.clone(), "default");
    let slice = |name: &str, service: &str, address: &str| {
        let labels = json!({"kubernetes.io/service-name": service});
        let slice = json!({"metadata": {"name": name, "labels": labels}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["not an address"]}, {"addresses": [address]}]});
        serde_json::from_value::<EndpointSlice>(slice).unwrap()
    };
    let params = PostParams::default();
    for slice in [
        slice("other", "other", "127.0.0.1"),
        slice("kubernetes", "kubernetes", "203.0.113.7"),
    ] {
        slices.create(&params, &slice).await.unwrap();
    }
    let (message, _) = failed(world.run("request", url).await);
    assert_eq!(
        message,
        "203.0.113.7 is refused: 203.0.113.7 is the hub's own API server; an administrator of the hub may allow it with \
         --egress-allow"
    );
}

#[tokio::test]
async fn a_request_takes_its_secrets_and_gives_its_answer() {
    let world = World::new().await;
    let local = Local::start(|_, _| answer(200, r#"{"go": true}"#)).await;
    world
        .secret(
            "hook",
            &[("token", "Bearer t0ken\n"), ("url", &local.url("/secret-path"))],
        )
        .await;
    let output = done(
        world
            .run(
                "request",
                json!({"url": {"secretRef": {"name": "hook", "key": "url"}}, "body": {"a": 1},
                    "headers": {"Authorization": {"valueFrom": {"secretKeyRef": {"name": "hook", "key": "token"}}}}}),
            )
            .await,
    );
    assert_eq!(
        (&output["statusCode"], &output["responseCode"]),
        (&json!(200), &json!(200))
    );
    assert_eq!(output["body"], json!({"go": true}));
    let (method, path, headers, body) = local.asked.lock().remove(0);
    assert_eq!(
        (method.as_str(), path.as_str(), body.as_str()),
        ("POST", "/secret-path", r#"{"a":1}"#)
    );
    assert_eq!(headers.get("authorization").unwrap(), "Bearer t0ken");
    assert_eq!(headers.get("content-type").unwrap(), "application/json");
}

#[tokio::test]
async fn a_status_that_was_not_expected_fails_the_step_and_is_its_output() {
    let world = World::new().await;
    let local = Local::start(|_, _| answer(400, "no such release")).await;
    let (message, output) = failed(world.run("request", json!({"url": local.url("/x")})).await);
    let host = format!("http://{}", local.address);
    assert_eq!(
        message,
        format!("{host} answered 400 Bad Request: no such release; expected 2xx")
    );
    assert_eq!(output.unwrap()["responseCode"], 400);
    let expecting = json!({"url": local.url("/x"), "expectedStatus": ["2xx", 400]});
    assert_eq!(done(world.run("request", expecting).await)["responseCode"], 400);
}

#[tokio::test]
async fn every_try_of_a_step_has_the_same_key_and_every_step_its_own() {
    let world = World::new().await;
    let local = Local::start(|count, _| answer(if count == 0 { 500 } else { 200 }, "")).await;
    let properties = json!({"url": local.url("/")});
    let (message, _) = failed(
        world
            .runner
            .run(world.job("act", 1, "webhook", &properties))
            .await,
    );
    assert!(
        message.contains("answered 500 Internal Server Error; expected 2xx"),
        "{message}"
    );
    done(
        world
            .runner
            .run(world.job("act", 2, "webhook", &properties))
            .await,
    );
    done(
        world
            .runner
            .run(world.job("other", 1, "webhook", &properties))
            .await,
    );
    let mut later = world.job("act", 1, "webhook", &properties);
    later.run = "2026-01-02T00:00:00Z".to_owned();
    done(world.runner.run(later).await);
    let asked = local.asked.lock();
    let keys: Vec<&str> = asked
        .iter()
        .map(|asked| asked.2["idempotency-key"].to_str().unwrap())
        .collect();
    assert_eq!(keys[0], keys[1]);
    assert!(
        keys[1] != keys[2] && keys[1] != keys[3] && keys[2] != keys[3],
        "{keys:?}"
    );
    // A webhook without data sends the application.
    let body: Value = serde_json::from_str(&asked[0].3).unwrap();
    assert_eq!(
        (&body["kind"], &body["metadata"]["name"]),
        (&json!("Application"), &json!("web"))
    );
    assert!(body["metadata"].get("managedFields").is_none());
}

#[tokio::test]
async fn secrets_that_cannot_be_used_are_named_and_not_shown() {
    let world = World::new().await;
    world
        .secret("hook", &[("broken", "hunter2\nx: y"), ("url", "ftp://hunter2")])
        .await;
    let header = |name: &str, key: &str| json!({"url": "https://example.org", "headers": {"x": {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}}});
    for (properties, says) in [
        (
            header("none", "k"),
            "Secret default/none does not exist: create it, or correct its name",
        ),
        (
            header("hook", "none"),
            "Secret default/hook has no key \"none\": add it, or correct the key",
        ),
        (
            header("hook", "broken"),
            "header x: the value of Secret hook, key \"broken\", has characters that a header cannot have, such as a line break",
        ),
        (
            json!({"url": {"secretRef": {"name": "hook", "key": "url"}}}),
            "url: the value of Secret hook, key \"url\", has the scheme \"ftp\": only http and https are sent",
        ),
    ] {
        let (message, output) = failed(world.run("request", properties).await);
        assert_eq!((message.as_str(), output), (says, None));
    }
}

#[tokio::test]
async fn notifications_go_to_every_channel() {
    let world = World::new().await;
    let local = Local::start(|_, path| answer(if path == "/refuses" { 404 } else { 200 }, "no_team")).await;
    let output = done(
        world
            .run(
                "notification",
                json!({"slack": {"url": {"value": local.url("/slack")}}, "teams": {"url": local.url("/teams")},
                    "webhook": {"url": local.url("/hook"), "message": {"text": "own words"}}}),
            )
            .await,
    );
    assert_eq!(output["sent"], json!(["slack", "teams", "webhook"]));
    let asked = std::mem::take(&mut *local.asked.lock());
    let bodies: Vec<Value> = asked
        .iter()
        .map(|asked| serde_json::from_str(&asked.3).unwrap())
        .collect();
    assert_eq!(
        bodies[0]["text"],
        "Application default/web, revision web-v1\nclusters ready 2/3, replicas ready 20/30"
    );
    assert_eq!(bodies[1]["attachments"][0]["content"]["type"], "AdaptiveCard");
    assert_eq!(bodies[2]["text"], "own words");
    let (message, _) = failed(
        world
            .run(
                "notification",
                json!({"slack": {"url": {"value": local.url("/refuses")}}, "webhook": {"url": local.url("/hook")}}),
            )
            .await,
    );
    assert_eq!(
        message,
        format!(
            "slack: http://{} answered 404 Not Found: no_team; expected 2xx",
            local.address
        )
    );
    assert_eq!(
        local.asked.lock().len(),
        2,
        "the other channel is told all the same"
    );
    // The next try knows who has it.
    local.asked.lock().clear();
    let properties =
        json!({"slack": {"url": {"value": local.url("/refuses")}}, "webhook": {"url": local.url("/hook")}});
    let first = world.job("again", 1, "notification", &properties);
    let (_, output) = failed(world.runner.run(first).await);
    assert_eq!(output, Some(json!({"sent": ["webhook"]})));
    let mut second = world.job("again", 2, "notification", &properties);
    second.before = output;
    failed(world.runner.run(second).await);
    let paths: Vec<String> = local.asked.lock().iter().map(|asked| asked.1.clone()).collect();
    assert_eq!(
        paths.iter().filter(|path| *path == "/hook").count(),
        1,
        "{paths:?}"
    );
    assert_eq!(
        paths.iter().filter(|path| *path == "/refuses").count(),
        2,
        "{paths:?}"
    );
}

#[tokio::test]
async fn a_notification_without_a_channel_is_one_event() {
    let world = World::new().await;
    for attempt in [1, 2] {
        let job = world.job("tell", attempt, "notification", &json!({"message": "done"}));
        assert_eq!(done(world.runner.run(job).await)["text"], "done");
    }
    let api: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let events = api.list(&Default::default()).await.unwrap().items;
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (
            event.message.as_deref(),
            event.reason.as_deref(),
            event.involved_object.uid.as_deref()
        ),
        (
            Some("done"),
            Some("Notification"),
            Some(world.application.uid.as_str())
        )
    );
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"own": "label"}},
        "data": {"a": value}}})
}

#[tokio::test]
async fn objects_are_written_read_and_deleted() {
    let world = World::new().await;
    let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "made"});
    let output = done(world.run("apply-object", config_map("made", "1")).await);
    assert_eq!(output["data"], json!({"a": "1"}));
    assert_eq!(
        output["metadata"]["labels"],
        json!({"own": "label", "app.oam.dev/name": "web", "app.oam.dev/namespace": "default", "roundhouse.dev/step": "act"})
    );
    assert!(output["metadata"].get("managedFields").is_none());
    done(world.run("apply-object", config_map("made", "2")).await);
    assert_eq!(
        done(world.run("read-object", named.clone()).await)["data"],
        json!({"a": "2"})
    );
    assert_eq!(done(world.run("delete-object", named.clone()).await), Value::Null);
    assert!(world.config_maps().get_opt("made").await.unwrap().is_none());
    assert_eq!(done(world.run("delete-object", named.clone()).await), Value::Null);
    let (message, _) = failed(world.run("read-object", named).await);
    assert_eq!(message, "ConfigMap default/made does not exist");
}

#[tokio::test]
async fn a_deletion_waits_for_finalizers() {
    let world = World::new().await;
    done(world.run("apply-object", config_map("held", "1")).await);
    let finalizers = |list: Value| Patch::Merge(json!({"metadata": {"finalizers": list}}));
    let held = finalizers(json!(["example.org/hold"]));
    world
        .config_maps()
        .patch("held", &PatchParams::default(), &held)
        .await
        .unwrap();
    let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "held"});
    for _ in 0..2 {
        assert_eq!(
            world.run("delete-object", named.clone()).await,
            Outcome::Waiting {
                message: "ConfigMap default/held is being deleted: its finalizers are waited for".to_owned()
            }
        );
    }
    let free = finalizers(Value::Null);
    world
        .config_maps()
        .patch("held", &PatchParams::default(), &free)
        .await
        .unwrap();
    assert_eq!(done(world.run("delete-object", named).await), Value::Null);
}

#[tokio::test]
async fn objects_of_others_and_elsewhere_are_left_alone() {
    let world = World::new().await;
    let foreign: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "foreign",
        // What the hub itself writes for the application has no step.
        "labels": {"app.oam.dev/name": "web", "app.oam.dev/namespace": "default"}}, "data": {"a": "0"}}))
    .unwrap();
    world
        .config_maps()
        .create(&PostParams::default(), &foreign)
        .await
        .unwrap();
    let object = |kind: &str, version: &str, namespace: Option<&str>| {
        let mut named = json!({"apiVersion": version, "kind": kind, "name": "foreign"});
        if let Some(namespace) = namespace {
            named["namespace"] = json!(namespace);
        }
        named
    };
    let mut elsewhere = config_map("made", "1");
    elsewhere["value"]["metadata"]["namespace"] = json!("kube-system");
    let not_ours = "ConfigMap default/foreign exists and was not made by a step of this application: choose another name, or delete it by hand";
    for (type_, properties, says) in [
        ("apply-object", config_map("foreign", "1"), not_ours),
        ("delete-object", object("ConfigMap", "v1", None), not_ours),
        (
            "read-object",
            object("ConfigMap", "v1", Some("kube-system")),
            "ConfigMap foreign in namespace \"kube-system\" is refused: steps see and write the application's namespace only, \"default\"",
        ),
        (
            "apply-object",
            elsewhere,
            "ConfigMap made in namespace \"kube-system\" is refused: steps see and write the application's namespace only, \"default\"",
        ),
        (
            "read-object",
            object("Namespace", "v1", None),
            "Namespace foreign is refused: Namespace has no namespace, and steps see and write the application's namespace only, \"default\"",
        ),
    ] {
        let (message, _) = failed(world.run(type_, properties).await);
        assert_eq!(message, says, "{type_}");
    }
    let kept = world.config_maps().get("foreign").await.unwrap();
    assert_eq!(kept.data.unwrap()["a"], "0");
    let (message, _) = failed(
        world
            .run("read-object", object("Gadget", "example.org/v1", None))
            .await,
    );
    assert!(
        message.starts_with("the hub's API server has no kind Gadget in example.org/v1: "),
        "{message}"
    );
    // Read by its own name.
    done(
        world
            .run("read-object", object("ConfigMap", "v1", Some("default")))
            .await,
    );
    // A field that its kind does not have.
    let mut unknown = config_map("made", "1");
    unknown["value"]["dta"] = json!({});
    let (message, _) = failed(world.run("apply-object", unknown).await);
    assert!(
        message.starts_with("applying ConfigMap default/made failed: ") && message.contains("dta"),
        "{message}"
    );
}

/// What a step of this type does; of a `wait` the look at its object.
fn action(type_: &str, properties: &Value) -> ActionProperties {
    let object = |type_: &str| ActionProperties::read(type_, properties).unwrap();
    match (type_, object(if type_ == "wait" { "read-object" } else { type_ })) {
        ("wait", ActionProperties::ReadObject(object)) => ActionProperties::LookAt(object),
        (_, action) => action,
    }
}

#[tokio::test]
async fn a_wait_looks_at_objects_that_need_not_exist_within_the_rules_of_reading() {
    let world = World::new().await;
    let flags = |namespace: Option<&str>| {
        let mut named = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "flags"});
        if let Some(namespace) = namespace {
            named["namespace"] = json!(namespace);
        }
        named
    };
    assert_eq!(done(world.run("wait", flags(None)).await), Value::Null);
    let made: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "flags"}, "data": {"a": "1"}})).unwrap();
    world
        .config_maps()
        .create(&PostParams::default(), &made)
        .await
        .unwrap();
    let seen = done(world.run("wait", flags(Some("default"))).await);
    assert_eq!(
        (&seen["data"]["a"], seen["metadata"].get("managedFields")),
        (&json!("1"), None)
    );
    assert!(seen["metadata"]["resourceVersion"].is_string(), "{seen}");
    let (message, _) = failed(world.run("wait", flags(Some("kube-system"))).await);
    assert!(
        message.contains("steps see and write the application's namespace only"),
        "{message}"
    );
    let (message, _) = failed(
        world
            .run(
                "wait",
                json!({"apiVersion": "example.org/v1", "kind": "Gadget", "name": "x"}),
            )
            .await,
    );
    assert!(message.contains("no kind Gadget"), "{message}");
}

#[tokio::test]
async fn changes_of_an_object_are_told_and_those_of_others_are_not() {
    let world = World::new().await;
    let maps = world.config_maps();
    let map =
        |name: &str| -> ConfigMap { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
    let named = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "flags"});
    let mut changes = world.runner.changes(&world.job("gate", 1, "wait", &named));
    assert_eq!(changes.next().await, Some(()), "it was listed");
    maps.create(&PostParams::default(), &map("other")).await.unwrap();
    assert_eq!(changes.next().now_or_never(), None);
    maps.create(&PostParams::default(), &map("flags")).await.unwrap();
    assert_eq!(changes.next().await, Some(()));
    maps.delete("flags", &Default::default()).await.unwrap();
    assert_eq!(changes.next().await, Some(()));
    // Of what there is no kind of nothing is told.
    let unknown = json!({"apiVersion": "example.org/v1", "kind": "Gadget", "name": "x"});
    let mut none = world.runner.changes(&world.job("gate", 1, "wait", &unknown));
    assert_eq!(none.next().await, None);
}
