//! `roundhouse diff` between a hub and a member that somebody has put a hand to. The agent is ended first: it would undo
//! much of it before anybody could look.

use crate::yard::{Yard, serve};
use anyhow::{Context, Result, ensure};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use roundhouse_api::bundle::{Bundle, BundlePhase};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Ended, Process, Signal, client, soon},
};
use serde_json::{Value, json};
use std::path::Path;

/// Base64 of `hunter2`.
const SECRET: &str = "aHVudGVyMg==";

/// Runs `roundhouse diff` against the yard's hub and a member.
async fn diff(yard: &Yard, member: &Path, words: &[&str]) -> Result<Ended> {
    let hub = yard.home.path().join("hub/admin.kubeconfig");
    let (hub, member) = (hub.display().to_string(), member.display().to_string());
    let mut all = vec![
        "diff",
        "--kubeconfig",
        hub.as_str(),
        "--member-kubeconfig",
        member.as_str(),
    ];
    all.extend(words);
    Process::start(&binaries()?.roundhouse, all, yard.home.path())?
        .wait()
        .await
}

/// `-o json` of an application on east-1.
async fn looked(yard: &Yard, application: &str) -> Result<Value> {
    let words = [application, "--cluster", "east-1", "-o", "json"];
    let ended = diff(yard, &yard.member_kubeconfig("east-1"), &words).await?;
    ensure!(ended.status.success(), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).with_context(|| ended.stdout.clone())
}

/// `VERDICT path` of the differences of the object of a kind, with the managers.
fn lines(looked: &Value, kind: &str) -> Vec<String> {
    let objects = looked["objects"].as_array().into_iter().flatten();
    let object = objects.into_iter().find(|object| object["kind"] == kind);
    let differences = object.and_then(|object| object["differences"].as_array());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |difference: &Value| {
        let owners = difference["owners"].as_array().into_iter().flatten();
        let owners: Vec<String> = owners.map(|owner| text(&owner["manager"])).collect();
        let words = [
            text(&difference["verdict"]),
            text(&difference["path"]),
            owners.join(" "),
        ];
        words.join(" ").trim().to_owned()
    };
    differences.into_iter().flatten().map(line).collect()
}

/// Writes as a person with kubectl, or a controller, does.
async fn by_hand(member: &Client, (kind, name): (&str, &str), manager: &str, patch: &Value) -> Result<()> {
    let group = if kind == "Deployment" { "apps" } else { "" };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let api: Api<DynamicObject> = Api::namespaced_with(member.clone(), "default", &resource);
    let params = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    api.patch(name, &params, &Patch::Strategic(patch)).await?;
    Ok(())
}

/// A bundle written by hand, once its objects are ready.
async fn bundle(yard: &Yard, spec: &Value) -> Result<()> {
    let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "default.hand", "namespace": "cluster-east-1"}, "spec": spec});
    let bundles: Api<Bundle> = Api::namespaced(yard.client.clone(), "cluster-east-1");
    bundles
        .create(&PostParams::default(), &serde_json::from_value(bundle)?)
        .await?;
    soon("the bundle to be ready", async || {
        let status = bundles.get("default.hand").await?.status.unwrap_or_default();
        let ready = status.phase == Some(BundlePhase::Ready);
        Ok(if ready { Ok(()) } else { Err(status) })
    })
    .await
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "hand", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "hand"}},
            "template": {"metadata": {"labels": {"app": "hand"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.28"}]}}}})
}

#[tokio::test]
async fn hands_in_a_member_are_told_apart_field_by_field() -> Result<()> {
    let mut yard = Yard::start().await?;
    yard.deliver_seed().await?;
    let member_file = yard.member_kubeconfig("east-1");
    let quiet = diff(
        &yard,
        &member_file,
        &["web", "--cluster", "east-1", "--detailed-exitcode"],
    )
    .await?;
    assert_eq!(
        (quiet.status.code(), quiet.stdout.as_str()),
        (Some(0), ""),
        "{}",
        quiet.stderr
    );
    assert_eq!(
        quiet.stderr.trim(),
        "default/web on east-1: 1 object, no difference"
    );

    yard.agents.remove(0).end(Signal::Terminate).await?;
    let member = client(&member_file).await?;
    let web = ("Deployment", "web");
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:by-hand"}]}}}});
    by_hand(&member, web, "kubectl-edit", &image).await?;
    let sidecar =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "log", "image": "log:1"}]}}}});
    by_hand(&member, web, "kubectl-patch", &sidecar).await?;
    by_hand(&member, web, "hpa", &json!({"spec": {"replicas": 9}})).await?;
    let containers = "spec.template.spec.containers";
    assert_eq!(
        lines(&looked(&yard, "web").await?, "Deployment"),
        [
            "CONFLICT spec.replicas hpa".to_owned(),
            format!("CONFLICT {containers}[name=web].image kubectl-edit"),
            format!("KEEP {containers}[name=log] kubectl-patch"),
        ]
    );
    let words = ["web", "--cluster", "east-1", "--detailed-exitcode"];
    let table = diff(&yard, &member_file, &words).await?;
    assert_eq!(table.status.code(), Some(2), "{}", table.stderr);
    assert!(
        table.stdout.starts_with("VERDICT") && !table.stdout.contains('\u{1b}'),
        "{}",
        table.stdout
    );
    assert!(table.stderr.contains("3 differences"), "{}", table.stderr);

    // What was promised is what the next pass does.
    let agent = yard.start_agent("east-1")?;
    yard.agents.insert(0, agent);
    soon("the agent's pass", async || {
        let lines = lines(&looked(&yard, "web").await?, "Deployment");
        let kept = [format!("KEEP {containers}[name=log] kubectl-patch")];
        Ok(if lines == kept { Ok(()) } else { Err(lines) })
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_object_of_a_step_is_compared_like_those_of_components() -> Result<()> {
    let mut yard = Yard::start().await?;
    let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "flagged", "namespace": "default"},
        "spec": {"components": [{"name": "flagged", "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "flagged"}}]}}],
            "workflow": {"steps": [
                {"name": "flags", "type": "apply-object", "properties": {"clusters": ["east-1"],
                    "value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}, "data": {"theme": "dark"}}}},
                {"name": "all", "type": "deploy", "properties": {"placement": [{"clusters": ["east-1"]}]}}]}}});
    let applications = yard.applications();
    applications
        .create(&PostParams::default(), &serde_json::from_value(application)?)
        .await?;
    soon("the application to run", async || {
        let status = applications.get("flagged").await?.data["status"].clone();
        Ok(if status["phase"] == "running" {
            Ok(())
        } else {
            Err(status)
        })
    })
    .await?;
    yard.agents.remove(0).end(Signal::Terminate).await?;
    let file = yard.member_kubeconfig("east-1");
    let member = client(&file).await?;
    let light = json!({"data": {"theme": "light"}});
    by_hand(&member, ("ConfigMap", "flags"), "kubectl-edit", &light).await?;
    let seen = looked(&yard, "flagged").await?;
    assert_eq!(lines(&seen, "ConfigMap"), ["CONFLICT data.theme kubectl-edit"]);
    let objects = seen["objects"].as_array().into_iter().flatten();
    let bundles: Vec<&str> = objects.filter_map(|object| object["bundle"].as_str()).collect();
    assert_eq!(bundles, ["default.flagged", "default.flagged.step.flags"]);
    Ok(())
}

#[tokio::test]
async fn under_apply_once_what_differs_stays_and_secrets_are_never_shown() -> Result<()> {
    let mut yard = Yard::start().await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hand", "namespace": "default"},
        "data": {"password": SECRET}});
    bundle(
        &yard,
        &json!({"applyOnce": "Once", "workload": {"manifests": [deployment(), secret]}}),
    )
    .await?;
    yard.agents.remove(0).end(Signal::Terminate).await?;
    let member = client(&yard.member_kubeconfig("east-1")).await?;
    by_hand(
        &member,
        ("Deployment", "hand"),
        "hpa",
        &json!({"spec": {"replicas": 9}}),
    )
    .await?;
    let other = "Y29ycmVjdCBob3JzZQ==";
    by_hand(
        &member,
        ("Secret", "hand"),
        "kubectl-edit",
        &json!({"data": {"password": other}}),
    )
    .await?;
    let seen = looked(&yard, "hand").await?;
    assert_eq!(lines(&seen, "Deployment"), ["ONCE spec.replicas hpa"]);
    assert_eq!(lines(&seen, "Secret"), ["ONCE data.password kubectl-edit"]);
    for output in ["table", "wide", "tree", "json", "yaml"] {
        let words = ["hand", "--cluster", "east-1", "-o", output];
        let ended = diff(&yard, &yard.member_kubeconfig("east-1"), &words).await?;
        assert!(ended.status.success(), "{output}: {}", ended.stderr);
        assert!(
            ended.stdout.contains("password") && ended.stdout.contains("sha256"),
            "{output}: {}",
            ended.stdout
        );
        for value in [SECRET, other, "hunter2", "correct horse"] {
            assert!(
                !ended.stdout.contains(value) && !ended.stderr.contains(value),
                "{output} shows {value}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn failures_name_the_thing_and_what_to_try() -> Result<()> {
    let mut yard = Yard::start().await?;
    yard.deliver_seed().await?;
    let east = yard.member_kubeconfig("east-1");
    let west = yard.member_kubeconfig("west-1");
    let (_stranger, stranger) = serve(yard.home.path(), "stranger", &["apiserver"]).await?;
    let absent = yard.home.path().join("absent.kubeconfig");
    for (member, words, code, part) in [
        (
            &east,
            ["nothing", "--cluster", "east-1"],
            "E-APPLICATION",
            "default/nothing",
        ),
        (
            &east,
            ["web", "--cluster", "north-1"],
            "E-CLUSTER",
            "east-1, west-1",
        ),
        (
            &stranger,
            ["web", "--cluster", "east-1"],
            "E-OTHER-CLUSTER",
            "no ledger",
        ),
        (
            &west,
            ["web", "--cluster", "east-1"],
            "E-OTHER-CLUSTER",
            "another cluster",
        ),
        (
            &absent,
            ["web", "--cluster", "east-1"],
            "E-KUBECONFIG",
            "absent.kubeconfig",
        ),
    ] {
        failed(&diff(&yard, member, &words).await?, code, part);
    }
    yard.members.remove(0).end(Signal::Terminate).await?;
    failed(
        &diff(&yard, &east, &["web", "--cluster", "east-1"]).await?,
        "E-MEMBER",
        "onnection refused",
    );
    Ok(())
}

fn failed(ended: &Ended, code: &str, part: &str) {
    let stderr = &ended.stderr;
    assert_eq!(
        (ended.status.code(), ended.stdout.as_str()),
        (Some(1), ""),
        "{stderr}"
    );
    for part in [code, part, "error: ", "\ncause: ", "\ntry: "] {
        assert!(stderr.contains(part), "{part:?} is missing in\n{stderr}");
    }
}
