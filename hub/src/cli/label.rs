//! `roundhouse label`: which placements select a cluster.

use super::{
    Failure,
    reshape::{self, Edited, Options, grammar},
};
use jiff::Timestamp;
use roundhouse_api::cluster::Cluster;
use std::process::ExitCode;

/// Label a cluster, or remove labels
///
/// Placements select clusters by label, so a label moves replicas. What would move is printed first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: Options,
    /// key=value to set a label, key- to remove it
    #[arg(value_name = "LABEL", required = true)]
    labels: Vec<String>,
    /// Let a label that is there have another value
    #[arg(long)]
    overwrite: bool,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let edit = edit(&args)?;
    reshape::change(&args.options, edit).await
}

/// What the arguments do to a cluster.
pub(super) fn edit(args: &Args) -> Result<impl FnOnce(&mut Cluster, Timestamp) -> Edited, Failure> {
    let edits = grammar::labels(&args.labels).map_err(|error| {
        Failure::new("E-LABEL", "a label is not understood")
            .because(error)
            .advise("roundhouse label CLUSTER tier=gold, or tier- to remove it")
    })?;
    let overwrite = args.overwrite;
    Ok(move |cluster: &mut Cluster, _| grammar::label(cluster, &edits, overwrite))
}
