//! `roundhouse clusters`: the fleet, and one cluster in detail.

mod draw;
#[cfg(test)]
mod tests;
mod view;

use super::{Failure, format::Format, hub, restore, terminal};
use crate::fleet::load;
use jiff::Timestamp;
use kube::{Client, Error};
use roundhouse_api::clock::{Clock, SystemClock};
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};
use view::ClusterView;

/// List the clusters, or show one in detail
///
/// Sorted by name, every cluster: a list is never cut. APPS and REPLICAS are what the stored Decisions place there. When an agent
/// was seen last, by its Lease, is told by `-o wide`, json and yaml, and of one cluster in detail.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Show this cluster in detail
    #[arg(value_name = "CLUSTER", conflicts_with = "selector")]
    cluster: Option<String>,
    /// Only clusters that this label selector matches, as in `region=east` or `tier notin (lab)`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Output format; tree groups by region
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let client = hub::connect(args.kubeconfig.as_deref()).await?;
    restore::note(&client).await;
    let selected = match &args.selector {
        Some(selector) => Some(hub::selected(&client, selector).await?),
        None => None,
    };
    let known = hub::read_decided(&client).await?;
    let mut loads = load(&known.snapshot, &known.applications);
    let is_told = args.cluster.is_some() || !matches!(args.output, Format::Table | Format::Tree);
    let heard = match is_told {
        true => heard(&client).await?,
        false => BTreeMap::new(),
    };
    let views = known
        .clusters
        .iter()
        .map(|cluster| ClusterView::of(cluster, &mut loads, &heard));
    let mut views: Vec<ClusterView> = views.collect();
    let now = SystemClock.now();
    if let Some(name) = &args.cluster {
        let names: Vec<String> = views.iter().map(|view| view.name.clone()).collect();
        let found = views.iter().find(|view| view.name == *name);
        let view = found.ok_or_else(|| hub::no_cluster(name, &names, "one of them"))?;
        let text = args.output.structured(|| view.structured())?;
        terminal::print(&text.unwrap_or_else(|| draw::detail(view, now)))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(selected) = selected {
        views.retain(|view| selected.contains(&view.name));
    }
    let all = || views.iter().map(ClusterView::structured).collect();
    let text = match args.output.structured(all)? {
        Some(text) => text,
        None => draw::list(&views, args.output, now),
    };
    terminal::print(&text)?;
    if views.is_empty() {
        terminal::tell(format_args!("no clusters"));
    }
    Ok(ExitCode::SUCCESS)
}

/// When each agent was heard last; of none where this user may not know, who sees the rest all the same.
async fn heard(client: &Client) -> Result<BTreeMap<String, Timestamp>, Failure> {
    match hub::heard(client).await {
        Err(Error::Api(answer)) if answer.code == 403 => {
            terminal::tell(format_args!(
                "note: when the agents of available clusters were seen last is not shown: {}",
                answer.message
            ));
            Ok(BTreeMap::new())
        }
        heard => heard.map_err(|error| hub::unreadable("the Leases of agents", error)),
    }
}
