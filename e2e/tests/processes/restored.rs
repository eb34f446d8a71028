//! A hub that is killed goes on from its data directory; one that is restored from a backup waits to be confirmed.

use crate::yard::{MEMBERS, Yard};
use anyhow::{Context, Result};
use kube::{Api, ResourceExt};
use roundhouse_api::{bundle::Bundle, condition, names::ClusterName};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Process, Signal, client, config, soon},
    skipped::{Need, skipped},
};
use std::path::Path;

/// The address that a data directory's server had, for one that takes its place.
async fn address(data_dir: &Path) -> Result<String> {
    let config = config(&data_dir.join("admin.kubeconfig")).await?;
    let authority = config.cluster_url.authority().context("an address")?;
    Ok(authority.to_string())
}

impl Yard {
    /// Starts a hub on a data directory, at an address that agents know.
    async fn hub_on(&mut self, name: &str, address: &str) -> Result<()> {
        let words = ["serve", "--embedded", "--data-dir", name, "--listen", address];
        self.hub = Process::start(&binaries()?.roundhouse, words, self.home.path())?;
        let printed = self.hub.stdout_line(|line| line.contains("kubeconfig")).await?;
        self.client = client(&self.home.path().join(printed)).await?;
        Ok(())
    }

    async fn bundle(&self, cluster: &str) -> Result<Bundle> {
        let namespace = ClusterName::new(cluster)?.namespace();
        let bundles: Api<Bundle> = Api::namespaced(self.client.clone(), &namespace);
        Ok(bundles.get("default.web").await?)
    }

    async fn verb(&self, code: i32, words: &[&str]) -> Result<String> {
        let ended = Process::start(&binaries()?.roundhouse, words, self.home.path())?
            .wait()
            .await?;
        assert_eq!(
            ended.status.code(),
            Some(code),
            "{words:?}\n{}{}",
            ended.stdout,
            ended.stderr
        );
        Ok(ended.stdout + &ended.stderr)
    }
}

#[tokio::test]
async fn a_hub_killed_while_it_delivers_goes_on_and_each_cluster_is_written_once() -> Result<()> {
    if skipped(
        "a_hub_killed_while_it_delivers_goes_on_and_each_cluster_is_written_once",
        Need::Embedded,
    )? {
        return Ok(());
    }
    let mut yard = Yard::start().await?;
    yard.deliver_seed().await?;
    let address = address(&yard.home.path().join("hub")).await?;
    let mut before = vec![];
    for (name, _) in MEMBERS {
        let web = yard.deployments(name).await?.get("web").await?;
        before.push((name, web.metadata.generation.context("generation")?));
    }
    yard.set_image("nginx:killed").await?;
    let hub = std::mem::replace(&mut yard.hub, idle(yard.home.path())?);
    hub.end(Signal::Kill).await?;
    yard.hub_on("hub", &address).await?;
    yard.delivered("web-v2").await?;
    for (name, generation) in before {
        let (_, _, image) = yard.web(name).await?;
        assert_eq!(image, "nginx:killed", "{name}");
        let web = yard.deployments(name).await?.get("web").await?;
        assert_eq!(
            web.metadata.generation,
            Some(generation + 1),
            "{name} is written once"
        );
    }
    Ok(())
}

/// A process that does nothing, where one has to be.
fn idle(home: &Path) -> Result<Process> {
    Process::start(Path::new("true"), [] as [&str; 0], home)
}

#[tokio::test]
async fn a_restored_hub_writes_nothing_until_it_is_confirmed() -> Result<()> {
    if skipped(
        "a_restored_hub_writes_nothing_until_it_is_confirmed",
        Need::Embedded,
    )? {
        return Ok(());
    }
    let mut yard = Yard::start().await?;
    yard.deliver_seed().await?;
    let address = address(&yard.home.path().join("hub")).await?;
    let (_, _, old) = yard.web("east-1").await?;
    let said = yard
        .verb(0, &["backup", "--data-dir", "hub", "--to", "b"])
        .await?;
    assert!(
        said.starts_with("b: ") && said.contains(" objects as of resourceVersion "),
        "{said}"
    );
    yard.set_image("nginx:later").await?;
    yard.delivered("web-v2").await?;
    let hub = std::mem::replace(&mut yard.hub, idle(yard.home.path())?);
    hub.end(Signal::Kill).await?;

    let said = yard
        .verb(0, &["restore", "--from", "b", "--data-dir", "hub2/"])
        .await?;
    assert!(
        said.contains("writes nothing until you have looked and confirmed it"),
        "{said}"
    );
    yard.hub_on("hub2", &address).await?;
    yard.hub
        .stderr_line(|line| line.contains("restored from a backup"))
        .await?;
    for (name, _) in MEMBERS {
        soon("an agent to say that it is ahead", async || {
            let bundle = yard.bundle(name).await?;
            let conditions = bundle.status.unwrap_or_default().conditions;
            let ahead = conditions
                .iter()
                .any(|c| matches!(c.reason.as_str(), "OldEpoch" | "OldGeneration"));
            Ok(if ahead { Ok(()) } else { Err(conditions) })
        })
        .await?;
        assert_eq!(yard.web(name).await?.2, "nginx:later", "{name} is not taken back");
    }
    // What somebody asks for meanwhile is stored, and waits.
    let before = yard.bundle("east-1").await?;
    yard.set_image("nginx:asked").await?;
    let kubeconfig = yard
        .home
        .path()
        .join("hub2/admin.kubeconfig")
        .display()
        .to_string();
    let confirm = ["restore", "--confirm", "--kubeconfig", kubeconfig.as_str()];
    // They renew their Leases a little after they have looked at their Bundles.
    let said = soon("both agents to be counted", async || {
        let said = yard.verb(1, &confirm).await?;
        Ok(match said.contains("2 of 2 agents have reported") {
            true => Ok(said),
            false => Err(said),
        })
    })
    .await?;
    for part in [
        "east-1",
        "west-1",
        "default.web",
        "the hub went back in time",
        "--yes",
    ] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
    let after = yard.bundle("east-1").await?;
    assert_eq!(
        after.metadata.generation, before.metadata.generation,
        "the hub has written nothing"
    );
    assert_eq!(after.uid(), before.uid());

    let said = yard.verb(0, &[&confirm[..], &["--yes"]].concat()).await?;
    assert!(said.contains("confirmed: the hub goes on above epoch "), "{said}");
    soon("the asked content on both clusters", async || {
        let mut images = vec![];
        for (name, _) in MEMBERS {
            images.push(yard.web(name).await?.2);
        }
        let there = images.iter().all(|image| image == "nginx:asked");
        Ok(if there { Ok(()) } else { Err(images) })
    })
    .await?;
    let bundle = yard.bundle("east-1").await?;
    assert!(bundle.spec.epoch > Some(1_000), "{:?}", bundle.spec.epoch);
    assert!(!condition::is_true(
        &bundle.status.unwrap_or_default().conditions,
        "Degraded"
    ));
    assert_ne!(old, "nginx:asked");
    let said = yard.verb(0, &confirm).await?;
    assert!(said.contains("confirmed already"), "{said}");
    Ok(())
}

#[tokio::test]
async fn backups_and_restores_say_what_is_wrong() -> Result<()> {
    let home = tempfile::tempdir()?;
    std::fs::create_dir(home.path().join("full"))?;
    std::fs::write(home.path().join("full/file"), "x")?;
    for (words, parts) in [
        (
            &["backup", "--data-dir", "absent", "--to", "b"][..],
            &["[E-BACKUP]", "absent/store", "try:   --data-dir"][..],
        ),
        (
            &["backup", "--data-dir", "absent", "--to", "full"],
            &["full is not empty", "never replaces another one"],
        ),
        (
            &["restore", "--from", "absent", "--data-dir", "d"],
            &["[E-RESTORE]", "absent is not restored", "roundhouse backup"],
        ),
        (
            &["restore", "--from", "absent", "--data-dir", "full"],
            &["full is not empty", "nothing is replaced"],
        ),
        (&["restore"], &["[E-USAGE]"]),
        (
            &["restore", "--confirm", "--from", "b", "--data-dir", "d"],
            &["[E-USAGE]"],
        ),
    ] {
        let ended = Process::start(&binaries()?.roundhouse, words, home.path())?
            .wait()
            .await?;
        assert_eq!(ended.status.code(), Some(1), "{words:?}: {}", ended.stderr);
        for part in parts {
            assert!(
                ended.stderr.contains(part),
                "{words:?}: {part:?} is missing in\n{}",
                ended.stderr
            );
        }
    }
    Ok(())
}
