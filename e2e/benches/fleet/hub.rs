//! The hub as a process of its own: `roundhouse serve --embedded` on a data directory.

use crate::child::{Process, Role};
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Discovery, ResourceExt,
    api::{DynamicObject, ListParams},
    discovery::{ApiGroup, verbs},
};
use roundhouse_e2e::{
    figure::Figure,
    load,
    patience::{PATIENCE, until},
    process,
};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::Instant;

/// How often it is asked whether it leads: so exact is what is said of it.
const LOOK: Duration = Duration::from_millis(20);
/// Objects of one page of a list of metadata.
const PAGE: u32 = 1_000;

/// A running hub. It is killed when dropped.
pub(crate) struct Hub {
    process: Process,
    /// Where it is served, the same after a restart.
    address: String,
    metrics: String,
    directory: PathBuf,
    /// Its administrator.
    pub(crate) client: Client,
}

fn free() -> Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

impl Hub {
    pub(crate) async fn start(directory: &Path) -> Result<Hub> {
        Hub::start_at(directory, free()?, free()?).await
    }

    async fn start_at(directory: &Path, address: String, metrics: String) -> Result<Hub> {
        let data = directory.display().to_string();
        let verb = ["serve", "--embedded", "--data-dir", &data];
        let ports = ["--listen", &address, "--metrics-listen", &metrics];
        let words: Vec<String> = [&verb[..], &ports]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let mut process = Process::start(Role::Hub, &words)?;
        // It says where its kubeconfig is as soon as it serves.
        let kubeconfig = process.line().await?;
        let client = process::client(Path::new(&kubeconfig)).await?;
        Ok(Hub {
            process,
            address,
            metrics,
            directory: directory.to_owned(),
            client,
        })
    }

    /// Kills it, and starts it again on the same directory at the same address. Returns it with the moment at which it was
    /// started.
    pub(crate) async fn restart(self) -> Result<(Hub, Instant)> {
        self.process.kill().await?;
        let started = Instant::now();
        Ok((
            Hub::start_at(&self.directory, self.address, self.metrics).await?,
            started,
        ))
    }

    pub(crate) fn id(&self) -> Result<u32> {
        self.process.id()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// What the metrics port answers at a path, with the time that it took.
    pub(crate) async fn metrics(&self, path: &str) -> Result<(String, Duration)> {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let started = Instant::now();
        let mut stream = tokio::net::TcpStream::connect(&self.metrics).await?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: hub\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (_, body) = answer
            .split_once("\r\n\r\n")
            .context("the metrics port does not speak HTTP")?;
        Ok((body.to_owned(), started.elapsed()))
    }

    /// Waits until it has seen everything and leads.
    pub(crate) async fn leads(&self) -> Result<()> {
        until(PATIENCE, LOOK, "the hub to lead", async || {
            let (text, _) = self.metrics("/readyz").await?;
            ensure!(text.starts_with("leading"), "/readyz says {:?}", text.trim());
            Ok(())
        })
        .await
    }

    /// Write requests since it started that its API server has taken, by table, but for Leases and reviews.
    pub(crate) async fn writes(&self) -> Result<BTreeMap<String, u64>> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await?;
        load::writes(&text)
    }

    /// The revision of its store.
    pub(crate) async fn revision(&self) -> Result<u64> {
        let first = ListParams::default().limit(1);
        let all = Api::<Namespace>::all(self.client.clone()).list(&first).await?;
        Ok(all.metadata.resource_version.unwrap_or_default().parse()?)
    }

    /// How many objects were written after a revision that are there, whoever wrote them, by kind. Leases are left out, as above.
    pub(crate) async fn written_after(&self, revision: u64) -> Result<BTreeMap<String, u64>> {
        let mut written = BTreeMap::new();
        let discovery = Discovery::new(self.client.clone()).run().await?;
        let kinds = discovery.groups().flat_map(ApiGroup::recommended_resources);
        let listed =
            kinds.filter(|(kind, can)| can.supports_operation(verbs::LIST) && kind.plural != "leases");
        for (kind, _) in listed {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
            let mut page = ListParams::default().limit(PAGE);
            loop {
                let list = api.list_metadata(&page).await?;
                for object in &list.items {
                    let version: u64 = object.resource_version().unwrap_or_default().parse()?;
                    if version > revision {
                        *written.entry(kind.plural.clone()).or_default() += 1;
                    }
                }
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => break,
                }
            }
        }
        Ok(written)
    }
}

/// Objects that something was written of where nothing should be: what a server does by itself is no request.
pub(crate) fn written(scenario: &'static str, objects: &BTreeMap<String, u64>) -> Figure {
    let count = objects.values().sum::<u64>() as f64;
    Figure::new(
        scenario,
        "objects but Leases that were written meanwhile",
        count,
        "",
    )
    .exactly(0.0)
    .note(named(objects))
}

/// What was written, where something was.
pub(crate) fn named(written: &BTreeMap<String, u64>) -> String {
    match written.is_empty() {
        true => String::new(),
        false => format!("{written:?}"),
    }
}

/// What was written between two looks.
pub(crate) fn since(before: &BTreeMap<String, u64>, now: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = now.iter().map(|(table, count)| {
        let before = before.get(table).copied().unwrap_or(0);
        (table.clone(), count - before)
    });
    more.filter(|(_, count)| *count > 0).collect()
}
