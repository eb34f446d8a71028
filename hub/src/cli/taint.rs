//! `roundhouse taint`: which placements keep away from a cluster.

use super::{
    Failure,
    reshape::{self, Edited, Options, grammar},
};
use jiff::Timestamp;
use roundhouse_api::cluster::Cluster;
use std::process::ExitCode;

/// Taint a cluster, or remove taints
///
/// NoSchedule: placements that do not tolerate the taint give the cluster nothing more. NoExecute: they take away what
/// is there. What would move is printed first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: Options,
    /// key=value:Effect or key:Effect to set a taint, key- or key:Effect- to remove it
    #[arg(value_name = "TAINT", required = true, allow_hyphen_values = false)]
    taints: Vec<String>,
    /// Let a taint that is there have another value
    #[arg(long)]
    overwrite: bool,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let edit = edit(&args)?;
    reshape::change(&args.options, edit).await
}

/// What the arguments do to a cluster.
pub(super) fn edit(args: &Args) -> Result<impl FnOnce(&mut Cluster, Timestamp) -> Edited, Failure> {
    let edits = grammar::taints(&args.taints).map_err(|error| {
        Failure::new("E-TAINT", "a taint is not understood")
            .because(error)
            .advise("roundhouse taint CLUSTER gpu=a100:NoSchedule, or gpu- to remove it")
    })?;
    let overwrite = args.overwrite;
    Ok(move |cluster: &mut Cluster, now| grammar::taint(cluster, &edits, overwrite, now))
}
