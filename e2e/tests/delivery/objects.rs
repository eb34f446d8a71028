//! Objects that steps wait for on the hub, read in clusters and apply in clusters, with agents that do it.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{application::Application, bundle::ApplyOnce, names::annotation};
use roundhouse_e2e::world::{World, eventually};
use serde_json::json;
use std::collections::BTreeMap;

const FLAGS: &str = include_str!("../../samples/workflows/flags.yaml");

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn map(name: &str, key: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    map
}

async fn gone(maps: &Api<ConfigMap>, name: &str) -> Result<()> {
    eventually(&format!("{name} to be gone"), async || {
        Ok(match maps.get_opt(name).await? {
            None => Ok(()),
            Some(there) => Err(there),
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_gate_on_the_hub_opens_and_flags_go_to_clusters_before_the_application() -> Result<()> {
    let members = [("east-1", "east"), ("east-2", "east"), ("west-1", "west")];
    let world = World::start(&members, ApplyOnce::Never).await?;
    let [one, two, west] = [("east-1"), ("east-2"), ("west-1")].map(|name| world.fleet.member_client(name));
    let (one, two, west) = (maps(one?), maps(two?), maps(west?));
    one.create(&PostParams::default(), &map("site", "zone", "a"))
        .await?;
    world.create(FLAGS).await?;
    world
        .says("shop", "ConfigMap release-gate does not exist")
        .await?;
    let gate = maps(world.fleet.hub_client());
    gate.create(&PostParams::default(), &map("release-gate", "open", "false"))
        .await?;
    world.says("shop", "ConfigMap release-gate is not so far").await?;
    let open = Patch::Merge(json!({"data": {"open": "true"}}));
    gate.patch("release-gate", &PatchParams::default(), &open).await?;

    // One cluster has no site, then another one.
    world.says("shop", "waiting for 1 of 2 clusters: east-2").await?;
    two.create(&PostParams::default(), &map("site", "zone", "b"))
        .await?;
    world
        .says("shop", "clusters east-1 and east-2 report different values")
        .await?;
    let same = Patch::Merge(json!({"data": {"zone": "a"}}));
    two.patch("site", &PatchParams::default(), &same).await?;
    world.delivered("shop", "shop-v1").await?;
    for maps in [&one, &two] {
        let flags = maps.get("flags").await?;
        let data = flags.data.clone().context("data")?;
        assert_eq!((data["theme"].as_str(), data["zone"].as_str()), ("dark", "a"));
        let owner = flags.annotations()[annotation::OWNED_BY].clone();
        assert!(owner.ends_with("/default.shop.step.flags"), "{owner}");
        // What was read is nobody's still.
        let site = maps.get("site").await?;
        assert!(
            site.annotations().is_empty() && site.labels().is_empty(),
            "{site:?}"
        );
    }
    assert!(west.get_opt("flags").await?.is_none());
    let replicas = world
        .deployment("east-1", "shop")
        .await?
        .spec
        .context("spec")?
        .replicas;
    assert_eq!(replicas, Some(1));

    // Somebody's hands are corrected as in the application.
    let other = Patch::Merge(json!({"data": {"theme": "light"}}));
    one.patch("flags", &PatchParams::default(), &other).await?;
    eventually("the flags as they were", async || {
        let data = one.get("flags").await?.data.unwrap_or_default();
        Ok(if data["theme"] == "dark" {
            Ok(())
        } else {
            Err(data)
        })
    })
    .await?;

    let applications: Api<Application> = Api::namespaced(world.fleet.hub_client(), "default");
    applications.delete("shop", &DeleteParams::default()).await?;
    for maps in [&one, &two] {
        gone(maps, "flags").await?;
        assert!(maps.get_opt("site").await?.is_some(), "it was only read");
    }
    eventually("the application to be gone", async || {
        Ok(match applications.get_opt("shop").await? {
            None => Ok(()),
            Some(there) => Err(there.status),
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn flags_that_are_somebody_elses_are_refused_and_those_of_a_removed_step_go() -> Result<()> {
    let world = World::start(&[("east-1", "east")], ApplyOnce::Never).await?;
    let member = maps(world.fleet.member_client("east-1")?);
    member
        .create(&PostParams::default(), &map("site", "zone", "a"))
        .await?;
    member
        .create(&PostParams::default(), &map("flags", "theme", "light"))
        .await?;
    maps(world.fleet.hub_client())
        .create(&PostParams::default(), &map("release-gate", "open", "true"))
        .await?;
    world.create(FLAGS).await?;
    world.says("shop", "AdoptionDiffers").await?;
    assert_eq!(
        member.get("flags").await?.data.unwrap_or_default()["theme"],
        "light"
    );
    member.delete("flags", &DeleteParams::default()).await?;
    world.delivered("shop", "shop-v1").await?;
    let steps = json!([{"op": "remove", "path": "/spec/workflow/steps/2"}]);
    world.edit("shop", steps).await?;
    world.delivered("shop", "shop-v2").await?;
    gone(&member, "flags").await?;
    world.deployment("east-1", "shop").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn flags_are_taken_away_by_their_agents_and_stay_away() -> Result<()> {
    let world = World::start(&[("east-1", "east"), ("east-2", "east")], ApplyOnce::Never).await?;
    let (one, two) = (
        maps(world.fleet.member_client("east-1")?),
        maps(world.fleet.member_client("east-2")?),
    );
    for maps in [&one, &two] {
        maps.create(&PostParams::default(), &map("site", "zone", "a"))
            .await?;
    }
    maps(world.fleet.hub_client())
        .create(&PostParams::default(), &map("release-gate", "open", "true"))
        .await?;
    world.create(FLAGS).await?;
    world.delivered("shop", "shop-v1").await?;
    for maps in [&one, &two] {
        maps.get("flags").await?;
    }
    let away = json!({"name": "away", "type": "delete-object",
        "properties": {"clusters": ["east-1"], "apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}});
    let last = json!([{"op": "add", "path": "/spec/workflow/steps/-", "value": away}]);
    world.edit("shop", last).await?;
    world.delivered("shop", "shop-v2").await?;
    assert!(
        one.get_opt("flags").await?.is_none(),
        "the step waits until it is gone"
    );
    two.get("flags").await?;
    world.long_while().await;
    assert!(one.get_opt("flags").await?.is_none(), "nothing brings it back");
    assert!(one.get_opt("site").await?.is_some());
    world.deployment("east-1", "shop").await?;

    // Who is asked once more says once more that it is gone, and nothing is applied for that.
    let bystander = map("flags", "theme", "somebody else's");
    one.create(&PostParams::default(), &bystander).await?;
    let applications: Api<Application> = Api::namespaced(world.fleet.hub_client(), "default");
    let first = world.status("shop").await?.workflow.unwrap_or_default().run;
    let again = Patch::Merge(json!({"status": {"workflow": {"restartFrom": "away"}}}));
    applications
        .patch_status("shop", &PatchParams::default(), &again)
        .await?;
    eventually("the step to be over again", async || {
        let status = world.status("shop").await?;
        let run = status.workflow.clone().unwrap_or_default();
        let over = run.finished && run.restart_from.is_none();
        let again = run.run > first;
        Ok(if over && again { Ok(()) } else { Err(status) })
    })
    .await?;
    let kept = one.get("flags").await?.data.unwrap_or_default();
    assert_eq!(kept["theme"], "somebody else's");
    // It was not named.
    two.get("flags").await?;
    Ok(())
}
