//! An API server takes what the charts make.

use crate::{Case, cases, charts, of_kind};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use roundhouse_apiserver::Server;
use roundhouse_e2e::charts::{Chart, NAMESPACE, documents, files};
use serde_json::{Value, json};
use std::fs;

/// Kinds that Kubernetes does not serve by itself; what a ServiceMonitor refers to is checked with the links.
pub(crate) const ELSEWHERE: [&str; 1] = ["ServiceMonitor"];

/// Makes the namespace of the release.
pub(crate) async fn prepare(client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// A server with the namespace of the release.
async fn server() -> Result<Client> {
    let client = Client::new(Server::builder().seed(1).build().service(), "default");
    prepare(&client).await?;
    Ok(client)
}

/// Applies an object, server-side.
pub(crate) async fn apply(client: &Client, object: &Value, params: PatchParams) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = text(&object["metadata"]["name"]);
    let applied = api.patch(&name, &params, &Patch::Apply(object)).await;
    applied.map(drop).with_context(|| format!("{kind} {name}"))
}

/// As `helm install --dry-run=server` would send it, and stricter.
fn dry() -> PatchParams {
    PatchParams::apply("helm").dry_run().validation_strict()
}

/// Applies the definitions of a chart, and counts them.
pub(crate) async fn define(client: &Client, chart: &Chart) -> Result<usize> {
    let mut count = 0;
    for path in files(&chart.directory.join("crds"))? {
        for definition in documents(&fs::read_to_string(&path)?)? {
            let params = PatchParams::apply("kubectl").validation_strict();
            let applied = apply(client, &definition, params).await;
            applied.with_context(|| path.display().to_string())?;
            count += 1;
        }
    }
    Ok(count)
}

#[tokio::test(start_paused = true)]
async fn every_object_is_accepted_with_strict_validation_of_fields() -> Result<()> {
    let client = server().await?;
    for Case { name, objects } in cases()? {
        ensure!(!objects.is_empty(), "{name}: nothing was rendered");
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            if !ELSEWHERE.contains(&kind) {
                apply(&client, &object, dry())
                    .await
                    .with_context(|| name.clone())?;
            }
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_not_asked_of_the_server_are_those_that_it_does_not_serve() -> Result<()> {
    let client = server().await?;
    let mut seen = Vec::new();
    for Case { name, objects } in cases()? {
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            if ELSEWHERE.contains(&kind) {
                let answer = apply(&client, &object, dry()).await;
                ensure!(
                    answer.is_err(),
                    "{name}: {kind} is served now: take it off the list"
                );
                seen.push(kind.to_owned());
            }
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ELSEWHERE);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_misspelt_field_is_not_accepted() -> Result<()> {
    let client = server().await?;
    for Case { name, objects } in cases()? {
        let deployment = of_kind(&objects, "Deployment").next().context("no Deployment")?;
        let mut misspelt = deployment.clone();
        misspelt["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = json!("Always");
        let answer = apply(&client, &misspelt, dry()).await;
        ensure!(answer.is_err(), "{name}: imagePullPolice was accepted");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_definitions_are_accepted_and_not_by_a_dry_run_only() -> Result<()> {
    let client = server().await?;
    let mut count = 0;
    for (chart, _) in charts()? {
        count += define(&client, &chart).await?;
    }
    assert_eq!(count, roundhouse_api::crds::all().len());
    Ok(())
}
