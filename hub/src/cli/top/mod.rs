//! `roundhouse top`: what the hub is busy with, and how clusters and their agents fare.

mod agents;
mod clusters;
mod hub;
mod port;
mod scrape;
#[cfg(test)]
mod tests;

use super::{
    Failure,
    format::{Format, Output},
    signal, terminal,
};
use clap::ValueEnum;
use port::Port;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// How often `--watch` looks.
const EVERY: Duration = Duration::from_secs(2);
/// Rows of a table that is not `wide`.
const ROWS: usize = 20;

/// Show what the hub is busy with, and how clusters and agents fare
///
/// `hub` shows its queue, its passes, the time from dispatch to ready, its memory and, with -o wide, its writes since it started.
/// p50 and p99 are as exact as the buckets of its histograms, and more than the last bound is told as that; times and passes are
/// those since it started, with --watch those since the look before. `clusters` shows what became of their bundles, those with
/// trouble first. Both ask the metrics port (`roundhouse serve --metrics-listen A`) of the hub that leads, as no other one counts the fleet. It tells names to its own
/// machine only: elsewhere, kubectl port-forward to it.
/// `agents` shows when each was last heard, those silent for longest first, and asks the API. That is the time in its Lease, by
/// the agent's own clock, beside this machine's: where the two differ, so does what is shown; AVAILABLE is the hub's word, which
/// goes by when a renewal arrived. Agents do not tell the hub what memory they take.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse top hub --watch\n  \
    roundhouse top clusters -o wide\n  \
    roundhouse top agents -o json | jq '.heartbeat.p99Seconds'")]
pub(super) struct Args {
    /// What to look at
    #[arg(value_enum)]
    subject: Subject,
    /// Address of the hub's metrics port, for hub and clusters: HOST:PORT, or the URL that `roundhouse serve` prints;
    /// 127.0.0.1:9464 if absent
    #[arg(long, value_name = "A", value_parser = port::address)]
    metrics: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Look again every two seconds, until Ctrl-C; on a terminal in the same place. A look that fails is told, and is no end
    #[arg(short, long)]
    watch: bool,
    /// Kubeconfig of the hub, for agents; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// The hub's own process
    Hub,
    /// What became of the bundles of each cluster
    Clusters,
    /// When each agent was last heard
    Agents,
}

/// Where the metrics port is by default.
const METRICS: &str = "127.0.0.1:9464";

/// Refuses an option that would do nothing for the subject.
fn check(args: &Args) -> Result<(), Failure> {
    let (option, instead) = match args.subject {
        Subject::Agents if args.metrics.is_some() => {
            ("--metrics", "--kubeconfig: agents are read from the hub's API")
        }
        Subject::Hub | Subject::Clusters if args.kubeconfig.is_some() => (
            "--kubeconfig",
            "--metrics: this is read from the hub's metrics port",
        ),
        _ => return Ok(()),
    };
    Err(Failure::new("E-USAGE", format!("{option} does nothing for this subject")).advise(instead))
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    check(&args)?;
    let told = signal::termination();
    tokio::pin!(told);
    let screen = (args.watch && terminal::stdout_is_live()).then(console::Term::stdout);
    let (mut drawn, mut before) = (0, None);
    loop {
        let (text, is_trouble) = match look(&args, &mut before).await {
            Ok(text) => (text, false),
            Err(failure) if args.watch => (format!("{failure}\n"), true),
            Err(failure) => return Err(failure),
        };
        if let Some(screen) = &screen {
            // Where lines cannot be taken back, they are written below one another.
            let _ = screen.clear_last_lines(drawn);
            drawn = text.lines().count();
        }
        match is_trouble && screen.is_none() {
            true => terminal::say(&text),
            false => terminal::print(&text)?,
        }
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            biased;
            () = &mut told => return Ok(ExitCode::SUCCESS),
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

/// One look, as it is printed. `before` are the metrics of the look before, and then of this one.
async fn look(args: &Args, before: &mut Option<String>) -> Result<String, Failure> {
    let (format, port) = (
        args.output.format(),
        Port(args.metrics.as_deref().unwrap_or(METRICS)),
    );
    match args.subject {
        Subject::Hub => {
            let (text, standing) = (port.metrics().await?, port.standing().await?);
            let view = hub::HubView::of(&text, before.as_deref(), standing);
            *before = Some(text);
            Ok(match format.structured(|| view.structured())? {
                Some(text) => text,
                None => hub::draw(&view, format),
            })
        }
        Subject::Clusters => {
            let mut fleet = port.fleet().await?;
            leads(port, &port.standing().await?)?;
            clusters::by_trouble(&mut fleet.clusters);
            Ok(match format.structured(|| clusters::structured(&fleet))? {
                Some(text) => text,
                None => clusters::draw(&fleet, format),
            })
        }
        Subject::Agents => {
            let client = super::hub::connect(args.kubeconfig.as_deref()).await?;
            let view = agents::read(&client).await?;
            Ok(match format.structured(|| view.structured())? {
                Some(text) => text,
                None => agents::draw(&view, format),
            })
        }
    }
}

/// Refuses what a hub says of the fleet that does not lead: it counts nothing, which is not that there is nothing.
fn leads(port: Port<'_>, standing: &str) -> Result<(), Failure> {
    match hub::is_leading(standing) {
        true => Ok(()),
        false => Err(Failure::new(
            "E-FOLLOWS",
            format!("the hub at {} does not count the fleet", port.0),
        )
        .because(standing.to_owned())
        .advise("--metrics with the port of the hub that leads: the holder of the Lease roundhouse-hub, such as by kubectl port-forward pod/NAME 9464:8080")),
    }
}

/// The rows that a format shows, and what is said of the others.
fn cut<T>(rows: &[T], format: Format) -> (&[T], String) {
    match rows.split_at_checked(ROWS) {
        Some((first, rest)) if format != Format::Wide && !rest.is_empty() => {
            (first, format!("… and {} more (-o wide shows them)\n", rest.len()))
        }
        _ => (rows, String::new()),
    }
}
