//! `roundhouse status`: where an application stands, on one screen.

mod draw;
mod paint;
#[cfg(test)]
mod tests;
mod verdict;
mod view;

pub(super) use draw::{draw, footer, headline};
pub(super) use paint::Style;
pub(super) use verdict::{Stands, State, steps, verdict};
pub(super) use view::{StatusView, Written, confirmed};

use super::{Failure, format::Format, restore, subject::Subject, terminal};
use roundhouse_api::clock::{Clock, SystemClock};
use std::process::ExitCode;

/// Show where an application stands, what it waits for and what to do about it
///
/// One screen: the steps of its workflow, bars for each region, the clusters that are not ready with their reasons. Exit
/// status: 0 delivered and ready, 2 in progress, 3 failed or refused, 5 awaiting a person (an approval, held removals),
/// 1 error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse status web\n  \
    roundhouse status web -n shop -o wide\n  \
    roundhouse status web -o json | jq -r .state")]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Output format; wide leaves nothing out, tree draws the steps as a tree
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let client = args.subject.connect().await?;
    let view = StatusView::of(&args.subject.read(&client).await?);
    let style = Style {
        color: terminal::color_on_stdout(),
    };
    let text = match args.output.structured(|| view.structured())? {
        Some(text) => text,
        None => draw(&view, args.output, style, SystemClock.now()),
    };
    terminal::print(&text)?;
    restore::note(&client).await;
    Ok(ExitCode::from(view.verdict.state.code()))
}
