//! `roundhouse demo`

mod access;
mod clusters;
mod hub;
mod outcome;
mod samples;
mod screen;
mod story;
#[cfg(test)]
mod tests;
mod tree;
mod view;

use super::{Failure, terminal};
use crate::simulate::{Fleet, FleetOptions};
use access::Access;
use clap::ValueEnum;
use hub::Hub;
use kube::ResourceExt;
use roundhouse_api::clock::SystemClock;
use screen::Screen;
use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};
use tokio::time::Instant;
use view::View;

/// With `--exit`, everything is delivered within this time of the start, or the demo has failed.
const EXIT_WITHIN: Duration = Duration::from_secs(20);
/// How often the screen is drawn at most.
const FRAME: Duration = Duration::from_millis(80);

/// Show the whole thing: a hub and simulated clusters in this process, and an application delivered to them
///
/// The first sample is ten replicas, 70 % for region east and 20 % for region west. Without --exit, two more samples
/// follow, and hub and clusters stay up to be looked at with kubectl until Ctrl-C. A simulated cluster runs at most 10,000
/// replicas of one workload; one that asks for more says so in its conditions.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of simulated clusters: three fifths in region east, the others in region west
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=500))]
    clusters: u16,
    /// End as soon as the first sample is delivered and ready; fail if it is not within 20 seconds
    #[arg(long)]
    exit: bool,
    /// What is printed on stdout once the first sample is delivered; progress goes to stderr. The kubeconfigs that JSON
    /// names are gone when the demo has ended, unless --data-dir keeps them
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Where the kubeconfigs are written; a temporary directory, removed at the end, if absent
    #[arg(long, value_name = "D")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Runs the demo.
pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let told = super::signal::termination();
    let started = Instant::now();
    let mut screen = Screen::new(started);
    let ended = tokio::select! {
        biased;
        () = told => {
            screen.clear();
            // Only an unfinished --exit was asked for more than to be ended.
            return match args.exit {
                true => Err(Failure::new("E-INTERRUPTED", "the demo was interrupted before everything was delivered")),
                false => Ok(ExitCode::SUCCESS),
            };
        }
        ended = play(&args, &mut screen, started) => ended,
    };
    screen.clear();
    ended
}

async fn play(args: &Args, screen: &mut Screen, started: Instant) -> Result<ExitCode, Failure> {
    let seed = samples::read(samples::SEED)?;
    let unusable = |error| Failure::new("E-CLUSTERS", "the clusters cannot be named").because(error);
    let members = clusters::specs(args.clusters).map_err(unusable)?;
    let number = members.len();
    let mut options = FleetOptions::new(members, Arc::new(SystemClock));
    // People look around with what they have.
    options.strict = false;
    let fleet = Fleet::start(options)
        .await
        .map_err(|error| Failure::new("E-START", "hub and clusters did not start").because(error))?;
    let access = Access::open(&fleet, args.data_dir.as_deref())
        .await
        .map_err(|error| {
            Failure::new("E-ACCESS", "hub and clusters cannot be reached from outside")
                .because(error)
                .advise("another --data-dir, or fewer --clusters")
        })?;
    screen.say(&format!(
        "a hub and {number} simulated clusters run in this process"
    ));

    let client = fleet.hub_client();
    let mut stage = Stage {
        hub: Hub::watch(&client),
        screen,
        deadline: args.exit.then(|| started + EXIT_WITHIN),
    };
    stage.until(|hub, _| hub.available() == number).await?;
    stage.screen.say(&format!(
        "their {number} agents have joined; applying {}",
        seed.name_any()
    ));
    samples::create(&client, &seed).await?;
    let is_seed = |view: &&View| Some(&view.name) == seed.metadata.name.as_ref();
    stage
        .until(|_, views| views.iter().filter(is_seed).any(View::is_done))
        .await?;

    let views = stage.hub.views();
    if let Some(view) = views.iter().find(is_seed) {
        let text = match args.output {
            Format::Json => format!("{}\n", outcome::as_json(view, &access)),
            Format::Text => {
                let style = tree::Style {
                    color: terminal::color_on_stdout(),
                };
                let seconds = started.elapsed().as_secs_f64();
                format!("\n{}", outcome::as_text(view, seconds, style))
            }
        };
        stage.screen.print(&text)?;
    }
    if args.exit {
        stage.screen.clear();
        fleet.stop().await;
        return Ok(ExitCode::SUCCESS);
    }
    for yaml in samples::OTHERS {
        samples::create(&client, &samples::read(yaml)?).await?;
    }
    let program = std::env::current_exe().ok();
    let path = std::env::var_os("PATH");
    let program = program.and_then(|program| outcome::on_path(&program, path.as_deref()));
    let look = outcome::where_to_look(&access, program);
    match args.output {
        Format::Text => stage.screen.print(&look)?,
        Format::Json => stage.screen.say(look.trim()),
    }
    stage.until(|_, _| false).await?;
    Ok(ExitCode::SUCCESS)
}

/// The hub, the screen that shows it, and how long that may take.
struct Stage<'a> {
    hub: Hub,
    screen: &'a mut Screen,
    deadline: Option<Instant>,
}

impl Stage<'_> {
    /// Shows what happens until `done`.
    async fn until(&mut self, done: impl Fn(&Hub, &[View]) -> bool) -> Result<(), Failure> {
        let mut draw_at = Some(Instant::now());
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.deadline) => return Err(self.too_late()),
                () = sleep_until(draw_at) => {
                    draw_at = None;
                    let views = self.hub.views();
                    self.screen.show(&views);
                    if let Some(refused) = views.iter().find(|view| view.refused) {
                        let why = refused.message.clone().unwrap_or_default();
                        self.screen.say(&format!("{} was refused: {why}", refused.name));
                    }
                    if done(&self.hub, &views) {
                        return Ok(());
                    }
                }
                () = self.hub.changed() => {
                    draw_at.get_or_insert_with(|| Instant::now() + FRAME);
                }
            }
        }
    }

    fn too_late(&self) -> Failure {
        let mut failure = Failure::new(
            "E-NOT-DELIVERED",
            format!(
                "not everything was delivered and ready within {} s",
                EXIT_WITHIN.as_secs()
            ),
        );
        let views = self.hub.views();
        for view in &views {
            let clusters = view.clusters();
            let late = clusters.iter().filter(|(_, (replicas, ready))| ready < replicas);
            for (name, (replicas, ready)) in late {
                failure = failure.because(format!(
                    "{}: cluster {name} has {ready} of {replicas} ready",
                    view.name
                ));
            }
            if let Some(message) = &view.message {
                failure = failure.because(format!("{}: {message}", view.name));
            }
        }
        if views.is_empty() {
            failure = failure.because(format!("{} clusters have joined", self.hub.available()));
        }
        failure.advise("roundhouse demo --exit --log info, and look at the first warning")
    }
}

/// Never, if there is no such time.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
