//! The figures of whole fleets: `cargo bench -p roundhouse-e2e --bench fleet -- [scenario…] [--quick] [--json FILE] [--applications N]`.
//!
//! Without a scenario all of them run, at full size; `--quick` is a small one of each, and `--applications` says how many the
//! larger fleet of `memory` and `restart` has, in place of 100. A target of time or memory judges a run of the size that it
//! is for, and no other. The load of `change` and `flood` is open-loop: every change has a moment at which it is due, and its
//! latency counts from there, however late it left (no coordinated omission). What a hub costs is measured of a process that holds the hub, its API
//! server and its durable store, and nothing else: `roundhouse serve --embedded`, which is this very executable under another
//! name. Its agents, with their simulated members, are another process, and reach it over TLS. Everything durable is below
//! the directory for temporary files (`TMPDIR`): a tmpfs there would measure nothing.
//!
//! `cargo test` runs it too, at its smallest size: then what is counted has to be right, and how long it takes is not judged.

#![expect(
    clippy::panic,
    reason = "what is said with a panic here are constants that were measured with"
)]

mod agents;
mod change;
mod child;
mod content;
mod delivery;
mod flood;
mod hub;
mod idle;
mod list;
mod load;
mod machine;
mod memory;
mod peers;
mod report;
mod restart;
mod summary;
mod world;

use anyhow::{Context, Result, bail};
use report::Report;
use roundhouse_e2e::figure::Figure;
use std::{path::PathBuf, process::ExitCode};
use world::Worlds;

/// How large it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// As the targets say.
    Full,
    /// Large enough to see a trend, in a minute or two.
    Quick,
    /// In some seconds, without an optimiser.
    Test,
}

impl Size {
    /// One of three.
    pub(crate) fn pick<T>(self, full: T, quick: T, test: T) -> T {
        match self {
            Size::Full => full,
            Size::Quick => quick,
            Size::Test => test,
        }
    }
}

/// All scenarios, in the order in which they run: those that share a fleet stand together, the smaller one first, so that `idle` and
/// `list` have the fleet that their targets are for before `memory` makes it larger.
const SCENARIOS: [&str; 9] = [
    "delivery", "change", "flood", "idle", "list", "memory", "restart", "summary", "peers",
];

struct Arguments {
    scenarios: Vec<String>,
    /// Whether none was named.
    all: bool,
    size: Size,
    json: Option<PathBuf>,
    /// Of the larger fleet.
    applications: Option<usize>,
}

impl Arguments {
    /// `cargo bench` says `--bench`; `cargo test` says nothing, or the filters of somebody who means other tests.
    fn of(words: impl Iterator<Item = String>) -> Result<Arguments> {
        let (mut scenarios, mut json, mut quick, mut bench) = (Vec::new(), None, false, false);
        let (mut words, mut applications) = (words, None);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--bench" => bench = true,
                "--quick" => quick = true,
                "--json" => json = Some(words.next().context("--json takes a file")?.into()),
                "--applications" => {
                    let many = words.next().context("--applications takes a number")?;
                    let many: usize = many.parse().with_context(|| format!("--applications {many}"))?;
                    applications = Some(many.max(1));
                }
                _ => scenarios.push(word),
            }
        }
        let all = scenarios.is_empty();
        let size = match (bench, quick) {
            (false, _) => Size::Test,
            (true, true) => Size::Quick,
            (true, false) => Size::Full,
        };
        if size == Size::Test {
            let asked = !scenarios.iter().any(|word| !word.starts_with('-'));
            scenarios.retain(|word| SCENARIOS.contains(&word.as_str()));
            if scenarios.is_empty() && asked {
                scenarios = SCENARIOS.map(str::to_owned).to_vec();
            }
        } else if let Some(unknown) = scenarios.iter().find(|word| !SCENARIOS.contains(&word.as_str())) {
            bail!("{unknown:?} is no scenario; there are {}", SCENARIOS.join(", "));
        } else if scenarios.is_empty() {
            scenarios = SCENARIOS.map(str::to_owned).to_vec();
        }
        Ok(Arguments {
            scenarios,
            all,
            size,
            json,
            applications,
        })
    }
}

fn main() -> Result<ExitCode> {
    // One crypto provider; a second installation could only be this one again.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match child::role() {
        Some(child::Role::Hub) => return Ok(roundhouse_hub::cli::main()),
        Some(child::Role::Agents) => return agents::main().map(|()| ExitCode::SUCCESS),
        None => {}
    }
    let arguments = Arguments::of(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(Box::pin(run(&arguments)));
    report.print();
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
    }
    // How long something takes on a machine that does other things as well says nothing; what is counted does.
    let wrong: Vec<&Figure> = report.figures.iter().filter(|figure| figure.is_wrong()).collect();
    if !wrong.is_empty() {
        bail!("what does not depend on time is not as it has to be: {wrong:?}");
    }
    if let [first, rest @ ..] = &report.failed[..] {
        bail!("{first}; {} more scenarios failed", rest.len());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the scenarios. One that fails leaves the figures of the others.
async fn run(arguments: &Arguments) -> Report {
    let size = arguments.size;
    let mut report = Report::new(size);
    let mut worlds = Worlds::new(size, arguments.applications);
    for scenario in &arguments.scenarios {
        eprintln!("{scenario}");
        let figures = match scenario.as_str() {
            "delivery" => delivery::measure(size).await,
            "change" => change::measure(size).await,
            "flood" => flood::measure(size).await,
            "memory" => memory::measure(&mut worlds).await,
            "idle" => idle::measure(&mut worlds).await,
            "list" => list::measure(&mut worlds).await,
            "restart" => restart::measure(&mut worlds).await,
            "summary" => summary::measure(size),
            // Where every scenario is asked for, an etcd need not be there.
            _ if size == Size::Test || arguments.all && !peers::are_there() => {
                report.skipped(scenario, peers::NONE);
                continue;
            }
            _ => peers::measure(),
        };
        match figures {
            Ok(figures) => report.figures.extend(figures),
            Err(error) => report.failed(scenario, &error),
        }
    }
    if let Err(error) = worlds.end().await {
        report.failed("end", &error);
    }
    report
}
