//! `roundhouse label`: which placements select a cluster.

use super::{
    Failure,
    reshape::{self, Options, grammar},
};
use std::process::ExitCode;

/// Label a cluster, or remove labels
///
/// Placements select clusters by label, so a label moves replicas. What would move is printed first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    options: Options,
    /// key=value to set a label, key- to remove it
    #[arg(value_name = "LABEL", required = true)]
    labels: Vec<String>,
    /// Let a label that is there have another value
    #[arg(long)]
    overwrite: bool,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let edits = grammar::labels(&args.labels).map_err(|error| {
        Failure::new("E-LABEL", "a label is not understood")
            .because(error)
            .advise("roundhouse label CLUSTER tier=gold, or tier- to remove it")
    })?;
    let overwrite = args.overwrite;
    reshape::change(&args.options, |cluster, _| {
        grammar::label(cluster, &edits, overwrite)
    })
    .await
}
