//! What a restart finds, and what it does not start on.

use crate::start;
use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Process, Signal, soon},
};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;

fn map(name: &str, owner: Option<&ConfigMap>) -> Result<ConfigMap> {
    let owners = owner.map(|owner| {
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid}])
    });
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name, "ownerReferences": owners}}),
    )?)
}

#[tokio::test]
async fn one_process_at_a_time_has_a_directory() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (first, client) = start(home.path()).await?;
    let words = ["apiserver", "--data-dir", "d", "--listen", "127.0.0.1:0"];
    let second = Process::start(&binaries()?.roundhouse, words, home.path())?
        .wait()
        .await?;
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(second.stdout, "");
    let expected = "error: the objects in the data directory cannot be used [E-STORE]\n\
        cause: d/store is in use by another process; stop that one, or use another directory\n\
        try:   stop the other process, or another directory with --data-dir\n";
    assert_eq!(second.stderr, expected);
    client.apiserver_version().await?;
    first.end(Signal::Terminate).await?;
    start(home.path()).await?;
    Ok(())
}

#[tokio::test]
async fn a_damaged_journal_is_named_and_left_alone() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (process, client) = start(home.path()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    for n in 0..5 {
        maps.create(&PostParams::default(), &map(&format!("m-{n}"), None)?)
            .await?;
    }
    process.end(Signal::Kill).await?;
    let segment = home.path().join("d/store/segment-0000000000000001");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&segment)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, 200)?;
    file.write_all_at(&[byte[0] ^ 1], 200)?;
    let before = std::fs::read(&segment)?;
    let words = ["apiserver", "--data-dir", "d", "--listen", "127.0.0.1:0"];
    let ended = Process::start(&binaries()?.roundhouse, words, home.path())?
        .wait()
        .await?;
    assert_eq!(ended.status.code(), Some(1));
    for part in [
        "[E-STORE]",
        "d/store/segment-0000000000000001 is damaged at offset 64: frame 0 is unreadable",
        "try:   roundhouse restore",
    ] {
        assert!(
            ended.stderr.contains(part),
            "{part:?} is missing in\n{}",
            ended.stderr
        );
    }
    assert!(std::fs::read(&segment)? == before, "nothing was changed");
    Ok(())
}

#[tokio::test]
async fn what_was_to_follow_from_a_write_follows_after_a_restart() -> Result<()> {
    let home = tempfile::tempdir()?;
    let (process, client) = start(home.path()).await?;
    let (create, delete) = (PostParams::default(), DeleteParams::default());
    let spaces: Api<Namespace> = Api::all(client.clone());
    spaces
        .create(
            &create,
            &serde_json::from_value(json!({"metadata": {"name": "team"}}))?,
        )
        .await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "team");
    let owner = maps.create(&create, &map("owner", None)?).await?;
    maps.create(&create, &map("owned", Some(&owner))?).await?;
    let mut held = map("held", None)?;
    held.metadata.finalizers = Some(vec!["example.org/wait".to_owned()]);
    maps.create(&create, &held).await?;
    spaces.delete("team", &delete).await?;
    process.end(Signal::Kill).await?;

    let (process, client) = start(home.path()).await?;
    let spaces: Api<Namespace> = Api::all(client.clone());
    let maps: Api<ConfigMap> = Api::namespaced(client, "team");
    let left: Vec<_> = maps.list(&ListParams::default()).await?.items;
    assert_eq!(left.len(), 1, "only what is held is left");
    let phase = spaces.get("team").await?.status.and_then(|status| status.phase);
    assert_eq!(phase.as_deref(), Some("Terminating"));
    let free: Value = json!({"metadata": {"finalizers": null}});
    maps.patch("held", &PatchParams::default(), &Patch::Merge(free))
        .await?;
    soon("the namespace to go", async || {
        Ok(match spaces.get_opt("team").await? {
            None => Ok(()),
            Some(space) => Err(space.status),
        })
    })
    .await?;
    process.end(Signal::Terminate).await?;
    Ok(())
}
