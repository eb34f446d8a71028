//! Facts about the member, for its ClusterReport; written only when they changed.

mod labels;
mod quantity;
mod rights;

pub use labels::{LabelError, Labels};

use crate::config::Config;
use crate::delay::{backoff, spread};
use crate::error::{CallError, Fault};
use crate::member::{found, within};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, PostParams};
use kube::core::Request;
use kube::{Api, Client, Resource};
use roundhouse_api::cluster::{ClusterReport, ClusterReportSpec};
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use roundhouse_api::quantity::thousandths;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::watch::Receiver;

/// Nodes of one page of a list.
const PAGE: u32 = 100;
/// The part of the interval by which looks are jittered.
const JITTER: f64 = 0.1;
/// Bundles that are named whose objects are held.
const MAX_HELD: usize = 50;
/// Bundles that vanish together are reported together.
const TOGETHER: Duration = Duration::from_secs(5);

/// Gathers and reports for ever, at the interval of the resync and when other bundles have `vanished`.
pub(crate) async fn report(
    hub: Client,
    member: Client,
    config: &Config,
    mut vanished: Receiver<BTreeSet<String>>,
) {
    let api: Api<ClusterReport> = Api::namespaced(hub, &config.cluster.namespace());
    let mut failures = 0;
    loop {
        let held = vanished.borrow_and_update().clone();
        let delay = match once(&api, &member, config, held).await {
            Ok(()) => {
                failures = 0;
                config.resync
            }
            Err(error) => {
                let cluster = config.cluster.as_str();
                tracing::warn!(
                    cluster,
                    error = error.message(),
                    "the ClusterReport was not written"
                );
                let delay = backoff(failures, config.retry_min, config.retry_max);
                failures = failures.saturating_add(1);
                delay
            }
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(spread(delay, JITTER, config.jitter.unit())) => {}
            Ok(()) = vanished.changed() => tokio::time::sleep(TOGETHER).await,
        }
    }
}

/// Says once what is missing, when it changed.
fn warn(config: &Config, spec: &ClusterReportSpec, before: Option<&ClusterReportSpec>) {
    let cluster = config.cluster.as_str();
    if before.is_some_and(|before| before.missing_rights == spec.missing_rights) {
        return;
    }
    if !spec.missing_rights.is_empty() {
        let missing = spec.missing_rights.join(", ");
        tracing::warn!(
            cluster,
            missing,
            "this agent lacks rights in its cluster; its chart gives them"
        );
    }
}

async fn once(
    api: &Api<ClusterReport>,
    member: &Client,
    config: &Config,
    held: BTreeSet<String>,
) -> Result<(), CallError> {
    let mut spec = gather(member, config).await?;
    spec.held_count = u32::try_from(held.len()).unwrap_or(u32::MAX);
    spec.held = held.into_iter().take(MAX_HELD).collect();
    let timeout = config.call_timeout;
    let params = PostParams {
        field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let name = config.cluster.as_str();
    let stored = found(within(timeout, api.get(name)).await)?;
    warn(config, &spec, stored.as_ref().map(|report| &report.spec));
    match stored {
        Some(report) if report.spec == spec => Ok(()),
        Some(mut report) => {
            report.spec = spec;
            within(timeout, api.replace(name, &params, &report))
                .await
                .map(|_| ())
        }
        None => within(timeout, api.create(&params, &ClusterReport::new(name, spec)))
            .await
            .map(|_| ()),
    }
}

async fn gather(member: &Client, config: &Config) -> Result<ClusterReportSpec, CallError> {
    let version = within(config.call_timeout, member.apiserver_version()).await?;
    let nodes = match nodes(member, config).await {
        Ok(nodes) => Some(nodes),
        // An agent without the right to list nodes works all the same.
        Err(error) if matches!(error.fault(), Fault::Lasting(_)) || error.fault().is_404() => None,
        Err(error) => return Err(error),
    };
    let known = rights::ask(member, config).await?;
    let (count, capacity, allocatable) = nodes.map_or_else(Default::default, |nodes| {
        (
            Some(nodes.count),
            quantity::texts(&nodes.capacity),
            quantity::texts(&nodes.allocatable),
        )
    });
    Ok(ClusterReportSpec {
        kubernetes_version: Some(version.git_version),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        apply_once: Some(config.apply_once),
        nodes: count,
        capacity,
        allocatable,
        labels: config.labels.get().clone(),
        missing_rights: known.missing,
        rights_unknown: known.unknown,
        held: Vec::new(),
        held_count: 0,
    })
}

/// Sums over nodes, in thousandths.
#[derive(Debug, Default)]
struct Nodes {
    count: u32,
    capacity: BTreeMap<String, u64>,
    allocatable: BTreeMap<String, u64>,
}

/// A page of nodes: of each what counts. The rest, names of images above all, is not kept.
#[derive(Debug, Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<SizedNode>,
}

#[derive(Debug, Deserialize)]
struct SizedNode {
    #[serde(default)]
    status: Size,
}

#[derive(Debug, Default, Deserialize)]
struct Size {
    capacity: Option<BTreeMap<String, Quantity>>,
    allocatable: Option<BTreeMap<String, Quantity>>,
}

async fn nodes(member: &Client, config: &Config) -> Result<Nodes, CallError> {
    let mut params = ListParams::default().limit(PAGE);
    let mut sum = Nodes::default();
    loop {
        let request = Request::new(Node::url_path(&(), None)).list(&params);
        let request = request.map_err(|error| CallError::Kube(kube::Error::BuildRequest(error)))?;
        let page: Page = within(config.call_timeout, member.request(request)).await?;
        for node in page.items {
            sum.count = sum.count.saturating_add(1);
            add(&mut sum.capacity, node.status.capacity);
            add(&mut sum.allocatable, node.status.allocatable);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(sum),
        }
    }
}

fn add(sum: &mut BTreeMap<String, u64>, quantities: Option<BTreeMap<String, Quantity>>) {
    for (resource, quantity) in quantities.into_iter().flatten() {
        if let Some(milli) = thousandths(&quantity.0) {
            let total = sum.entry(resource).or_default();
            *total = total.saturating_add(milli);
        }
    }
}
