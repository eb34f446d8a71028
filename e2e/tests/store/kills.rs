//! The server is killed again and again while many write: no acknowledged write is missing, no resourceVersion comes twice,
//! and watchers resume without loss or repetition.

use crate::{
    ledger::{Content, Ledger},
    start,
};
use anyhow::{Context, Result, bail};
use futures::{TryStreamExt, future::join_all, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
};
use roundhouse_e2e::process::Signal;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const WRITERS: u64 = 8;
/// Objects of each writer.
const OBJECTS: u64 = 4;
const WATCHERS: usize = 2;

/// How often the server is killed: a few times, or 200 times with `ROUNDHOUSE_LONG=1`.
fn kills() -> u64 {
    if std::env::var_os("ROUNDHOUSE_LONG").is_some() {
        200
    } else {
        12
    }
}

fn revision(map: &ConfigMap) -> u64 {
    map.resource_version().and_then(|v| v.parse().ok()).unwrap_or(0)
}

fn content(map: &ConfigMap) -> String {
    map.data
        .as_ref()
        .and_then(|data| data.get("content"))
        .cloned()
        .unwrap_or_default()
}

fn map(name: &str, content: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: Some([("content".to_owned(), content.to_owned())].into()),
        ..Default::default()
    }
}

/// Writes its own objects until the server does not answer.
async fn write(
    api: Api<ConfigMap>,
    writer: u64,
    count: Arc<AtomicU64>,
    ledger: Arc<Ledger>,
    done: watch::Sender<u64>,
) -> Result<()> {
    // What is there after the start is what was acknowledged.
    let mut there: BTreeMap<String, bool> = BTreeMap::new();
    for object in 0..OBJECTS {
        let name = format!("w{writer}-{object}");
        let Ok(found) = api.get_opt(&name).await else {
            return Ok(());
        };
        ledger.found(&name, found.as_ref().map(revision), found.as_ref().map(content));
        there.insert(name, found.is_some());
    }
    loop {
        let n = count.fetch_add(1, Ordering::Relaxed);
        let name = format!("w{writer}-{}", n % OBJECTS);
        let exists = there[&name];
        let removes = exists && n.is_multiple_of(7);
        let text = format!("{n}-{}", "x".repeat(usize::try_from(n % 900).unwrap_or(0)));
        let wanted: Content = (!removes).then(|| text.clone());
        let wrote = if removes {
            api.delete(&name, &DeleteParams::default()).await.map(|_| None)
        } else if exists {
            api.replace(&name, &PostParams::default(), &map(&name, &text))
                .await
                .map(Some)
        } else {
            api.create(&PostParams::default(), &map(&name, &text))
                .await
                .map(Some)
        };
        match wrote {
            Ok(written) => ledger.acknowledged(&name, written.as_ref().map(revision), wanted.clone()),
            Err(kube::Error::Api(status)) => bail!("{name}: {status:?}"),
            Err(_) => {
                ledger.unknown(&name, wanted);
                return Ok(());
            }
        }
        there.insert(name, wanted.is_some());
        done.send_modify(|done| *done += 1);
    }
}

/// What a watcher was told, and where it goes on.
#[derive(Debug, Default)]
struct Watcher {
    revision: u64,
    objects: BTreeMap<String, String>,
    told: BTreeMap<u64, String>,
}

impl Watcher {
    /// Watches until the server is gone or, once it is `over`, until a revision is reached.
    async fn watch(&mut self, api: &Api<ConfigMap>, ledger: &Ledger, over: Option<u64>) -> Result<()> {
        let parameters = WatchParams::default();
        let Ok(events) = api.watch(&parameters, &self.revision.to_string()).await else {
            return Ok(());
        };
        pin_mut!(events);
        while over.is_none_or(|over| self.revision < over) {
            // The server was killed.
            let Ok(Some(event)) = events.try_next().await else {
                return Ok(());
            };
            let (changed, gone) = match event {
                WatchEvent::Added(map) | WatchEvent::Modified(map) => (map, false),
                WatchEvent::Deleted(map) => (map, true),
                WatchEvent::Bookmark(mark) => {
                    let at: u64 = mark.metadata.resource_version.parse()?;
                    assert!(
                        at >= self.revision,
                        "a bookmark goes back from {} to {at}",
                        self.revision
                    );
                    self.revision = at;
                    continue;
                }
                WatchEvent::Error(error) => bail!("a watcher that resumes was told: {error:?}"),
            };
            let (at, name) = (revision(&changed), changed.name_any());
            assert!(
                at > self.revision,
                "{name}: revision {at} after {}",
                self.revision
            );
            self.revision = at;
            self.told.insert(at, name.clone());
            if gone {
                assert!(self.objects.remove(&name).is_some(), "{name} went twice");
            } else {
                ledger.seen(at, &name, &content(&changed));
                self.objects.insert(name, content(&changed));
            }
        }
        Ok(())
    }
}

async fn list(api: &Api<ConfigMap>) -> Result<(u64, BTreeMap<String, String>)> {
    let list = api.list(&ListParams::default()).await?;
    let at = list.metadata.resource_version.clone().context("no revision")?;
    let objects = list
        .items
        .iter()
        .map(|map| (map.name_any(), content(map)))
        .collect();
    Ok((at.parse()?, objects))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_it_has_what_it_answered() -> Result<()> {
    let home = tempfile::tempdir()?;
    let api = |client: &Client| Api::<ConfigMap>::namespaced(client.clone(), "default");
    let ledger = Arc::new(Ledger::default());
    let count = Arc::new(AtomicU64::new(0));
    let mut watchers: Vec<Watcher> = vec![];
    let (mut process, mut client) = start(home.path()).await?;
    for _ in 0..WATCHERS {
        let (revision, objects) = list(&api(&client)).await?;
        watchers.push(Watcher {
            revision,
            objects,
            ..Watcher::default()
        });
    }
    // Spread over a burst of writes; the same in every run, while what happens between them is not.
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..kills() {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let enough = 5 + (dice >> 33) % 250;
        let done = watch::Sender::new(0);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                tokio::spawn(write(
                    api(&client),
                    writer,
                    count.clone(),
                    ledger.clone(),
                    done.clone(),
                ))
            })
            .collect();
        let over = CancellationToken::new();
        let watching: Vec<_> = watchers
            .drain(..)
            .map(|mut watcher| {
                let (api, ledger, over) = (api(&client), ledger.clone(), over.clone());
                tokio::spawn(async move {
                    let ended = over.run_until_cancelled(watcher.watch(&api, &ledger, None)).await;
                    ended.transpose().map(|_| watcher)
                })
            })
            .collect();
        done.subscribe().wait_for(|done| *done >= enough).await?;
        process.end(Signal::Kill).await?;
        for writer in join_all(writers).await {
            writer??;
        }
        over.cancel();
        for watcher in join_all(watching).await {
            watchers.push(watcher??);
        }
        (process, client) = start(home.path()).await?;
    }
    let api = api(&client);
    // A write that comes after all others: the last of them may be a delete, whose revision no object has.
    let end = api.create(&PostParams::default(), &map("end", "")).await?;
    let (_, objects) = list(&api).await?;
    let acknowledged = ledger.acknowledgements();
    for watcher in &mut watchers {
        watcher.watch(&api, &ledger, Some(revision(&end))).await?;
        assert_eq!(watcher.objects, objects);
        for (at, name) in &acknowledged {
            assert_eq!(watcher.told.get(at), Some(name), "a watcher missed revision {at}");
        }
    }
    assert!(
        acknowledged.len() as u64 > kills() * 5,
        "{} writes",
        acknowledged.len()
    );
    println!("{} kills, {} acknowledged writes", kills(), acknowledged.len());
    Ok(())
}
