//! `roundhouse version`

use super::{Failure, terminal};
use clap::ValueEnum;
use serde_json::json;
use std::process::ExitCode;

/// Print the version
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    terminal::print(&match args.output {
        Format::Text => format!("roundhouse {version}\n"),
        Format::Json => format!("{}\n", json!({"version": version})),
    })?;
    Ok(ExitCode::SUCCESS)
}
