//! Who plans and applies hears from the command line what the hub would refuse, in the hub's words.

use crate::yard::Yard;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use roundhouse_api::condition;
use roundhouse_e2e::{
    binaries::binaries,
    process::{Process, soon},
};
use serde_json::{Value, json};

fn application() -> Value {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader"}, "rules": []});
    json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {
            "components": [{"name": "roles", "type": "k8s-objects", "properties": {"objects": [role]}}],
            "workflow": {"steps": [{"name": "all", "type": "deploy", "properties": {"placement": [{}]}}]}}})
}

#[tokio::test]
async fn what_the_hub_refuses_is_refused_before_it_is_sent() -> Result<()> {
    let yard = Yard::with(&["--tenancy", "namespace"]).await?;
    std::fs::write(yard.home.path().join("web.json"), application().to_string())?;
    let with = |verb: &'static str| [verb, "-f", "web.json"];

    let planned = yard.ends(1, &with("plan")).await?;
    let applied = yard.ends(1, &with("apply")).await?;
    let applications = yard.applications();
    ensure!(
        applications.get_opt("web").await?.is_none(),
        "it was sent all the same"
    );
    // Somebody else sends it: the hub says the same.
    let object: DynamicObject = serde_json::from_value(application())?;
    applications.create(&PostParams::default(), &object).await?;
    let refusal = soon("the hub refuses", async || {
        let status = yard.status().await?;
        let accepted = condition::get(&status.conditions, "Accepted").cloned();
        Ok(match accepted.filter(|accepted| accepted.status == "False") {
            Some(refused) => Ok(refused.message),
            None => Err(status.phase),
        })
    })
    .await?;
    // What is never carried out is not explained, whether the hub has it or not.
    let explained = yard.ends(1, &["explain", "web"]).await?;
    let proposed = yard.ends(1, &["explain", "web", "-f", "web.json"]).await?;
    for said in [planned, applied, explained, proposed] {
        ensure!(
            said.contains(&format!("cause: {refusal}")),
            "{said}\n has not\n{refusal}"
        );
    }

    let other = [&with("plan")[..], &["--tenancy", "open"]].concat();
    yard.ends(0, &other).await?;
    yard.ends(0, &["explain", "web", "--tenancy", "open"]).await?;
    let allow = json!({"metadata": {"annotations": {
        "roundhouse.dev/allow-kinds": "ClusterRole.rbac.authorization.k8s.io"}}});
    let namespaces: Api<Namespace> = Api::all(yard.client.clone());
    namespaces
        .patch("default", &PatchParams::default(), &Patch::Merge(allow))
        .await
        .context("an administrator allows it")?;
    yard.ends(0, &with("plan")).await?;
    yard.ends(0, &with("apply")).await?;
    yard.ends(0, &["explain", "web"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_plan_without_a_hub_is_judged_as_it_is_told() -> Result<()> {
    let home = tempfile::tempdir()?;
    let run = async |code: i32, words: &[&str]| -> Result<String> {
        let ended = Process::start(&binaries()?.roundhouse, words, home.path())?
            .wait()
            .await?;
        ensure!(
            ended.status.code() == Some(code),
            "{words:?}: {}{}",
            ended.stdout,
            ended.stderr
        );
        Ok(ended.stderr)
    };
    std::fs::write(home.path().join("web.json"), application().to_string())?;
    std::fs::write(home.path().join("fleet.yaml"), "- metadata: {name: east-1}\n")?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default",
        "annotations": {"roundhouse.dev/allow-kinds": "ClusterRole.rbac.authorization.k8s.io"}}});
    std::fs::write(home.path().join("namespace.json"), namespace.to_string())?;
    for verb in [&["plan"][..], &["explain", "web"]] {
        let open = [verb, &["--inventory", "fleet.yaml", "-f", "web.json"]].concat();
        let strict = [&open[..], &["--tenancy", "namespace"]].concat();
        run(0, &open).await?;
        let refused = run(1, &strict).await?;
        ensure!(
            refused.contains("spec.components[0].properties.objects[0].kind: ClusterRole reader is not known to have a namespace"),
            "{refused}"
        );
        run(0, &[&strict[..], &["-f", "namespace.json"]].concat()).await?;
    }
    Ok(())
}
