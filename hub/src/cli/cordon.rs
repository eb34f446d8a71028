//! `roundhouse cordon` and `uncordon`: whether a cluster gets more than it has.

use super::{
    Failure,
    reshape::{self, Options, grammar},
};
use std::process::ExitCode;

/// Let a cluster keep what it has and get nothing more
///
/// Puts the taint roundhouse.dev/cordoned:NoSchedule into its spec. What would move is printed first.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) options: Options,
}

/// Let a cordoned cluster get replicas again
///
/// Takes the taint roundhouse.dev/cordoned:NoSchedule out of its spec. What would move is printed first.
#[derive(Debug, clap::Args)]
pub(super) struct UncordonArgs {
    #[command(flatten)]
    pub(super) options: Options,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    reshape::change(&args.options, |cluster, now| {
        Ok(grammar::cordon(cluster, true, now))
    })
    .await
}

pub(super) async fn uncordon(args: UncordonArgs) -> Result<ExitCode, Failure> {
    reshape::change(&args.options, |cluster, now| {
        Ok(grammar::cordon(cluster, false, now))
    })
    .await
}
