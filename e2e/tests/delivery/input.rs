//! Bad input gets a clear error and nothing is lost.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use roundhouse_api::{application::ACCEPTED, bundle::ApplyOnce, condition};
use roundhouse_e2e::world::{SEED, World, eventually, object};
use serde_json::{Value, json};

const RULES: &str = "/spec/workflow/steps/0/properties/placement";

async fn one() -> Result<World> {
    World::start(&[("east-1", "east")], ApplyOnce::Never).await
}

fn add(path: &str, value: &Value) -> Value {
    json!([{"op": "add", "path": path, "value": value}])
}

#[tokio::test(start_paused = true)]
async fn a_bad_edit_is_refused_by_name_and_what_runs_stays() -> Result<()> {
    let members = [("east-1", "east"), ("west-1", "west")];
    let world = World::start(&members, ApplyOnce::Never).await?;
    world.create(SEED).await?;
    world.delivered("web", "web-v1").await?;
    let good = object(SEED)?["spec"].clone();
    let before = (
        world.replicas("web").await?,
        world.bundle("east-1", "web").await?.metadata.generation,
    );
    let cases = [
        (add(&format!("{RULES}/0/replicas"), &json!("90%")), vec!["110%"]),
        (
            add(&format!("{RULES}/0/replicas"), &json!("170%")),
            vec!["placement[0].replicas", "100%"],
        ),
        (
            add(&format!("{RULES}/0/replicas"), &json!("seventy")),
            vec!["placement[0].replicas", "not a percentage"],
        ),
        (
            add("/spec/components/0/type", &json!("webservce")),
            vec!["spec.components[0].type", "webservce", "webservice"],
        ),
        (
            add("/spec/components/0/properties/objcts", &json!([])),
            vec!["spec.components[0].properties.objcts", "unknown"],
        ),
        (add("/spec/workflw", &json!({})), vec!["spec.workflw", "unknown"]),
        (
            add(&format!("{RULES}/0/clusterSelecter"), &json!({})),
            vec!["clusterSelecter", "clusterSelector"],
        ),
    ];
    for (edit, words) in cases {
        world.edit("web", edit.clone()).await?;
        let message = eventually(&format!("{edit} to be refused"), async || {
            let status = world.status("web").await?;
            let generation = status.observed_generation;
            let accepted = condition::get(&status.conditions, ACCEPTED).cloned();
            Ok(match accepted {
                Some(c) if c.status == "False" && c.observed_generation == generation => Ok(c.message),
                other => Err(other),
            })
        })
        .await?;
        for word in words {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
        let now = (
            world.replicas("web").await?,
            world.bundle("east-1", "web").await?.metadata.generation,
        );
        assert_eq!(now, before, "after {edit}");
        world
            .edit("web", json!([{"op": "replace", "path": "/spec", "value": good}]))
            .await?;
        eventually("the good spec to be accepted again", async || {
            let status = world.status("web").await?;
            Ok(if condition::is_true(&status.conditions, ACCEPTED) {
                Ok(())
            } else {
                Err(status)
            })
        })
        .await?;
    }
    world.delivered("web", "web-v1").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_matches_nothing_waits_and_says_so() -> Result<()> {
    let world = one().await?;
    world.create(SEED).await?;
    let status = world.says("web", "west").await?;
    let run = status.workflow.context("workflow")?;
    assert!(!run.finished);
    let said = serde_json::to_string(&(&run, &status.conditions))?;
    assert!(
        said.contains("matches no cluster") || said.contains("NoClusterMatches"),
        "{said}"
    );
    // The rule that does match is delivered meanwhile.
    eventually("the east to have its share", async || {
        let replicas = world.replicas("web").await?;
        Ok(if replicas.get("east-1") == Some(&7) {
            Ok(())
        } else {
            Err(replicas)
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_does_not_decode_fails_alone() -> Result<()> {
    let world = one().await?;
    let mut application = object(SEED)?;
    let good =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beside"}, "data": {"k": "v"}});
    let bad = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    application["spec"]["components"][0]["properties"]["objects"] = json!([bad, good]);
    let rules = &mut application["spec"]["workflow"]["steps"][0]["properties"]["placement"];
    *rules = json!([{"clusterSelector": {"region": "east"}}]);
    world.create_value(&application).await?;
    let status = world.says("web", "east-1").await?;
    assert!(!status.workflow.context("workflow")?.finished);
    let maps: Api<ConfigMap> = Api::namespaced(world.fleet.member_client("east-1")?, "default");
    eventually("the good manifest to be applied", async || {
        Ok(maps.get_opt("beside").await?.map(|_| ()).ok_or("absent"))
    })
    .await?;
    let failure = eventually("the report to name the bad one", async || {
        let status = world.bundle("east-1", "web").await?.status.unwrap_or_default();
        let failures = status.resource_status.unwrap_or_default().manifests;
        Ok(failures.first().cloned().ok_or(failures))
    })
    .await?;
    assert_eq!(failure.resource_meta.ordinal, 0);
    let message = &failure.conditions[0].message;
    assert!(message.contains("metadata.name"), "{message}");
    Ok(())
}
