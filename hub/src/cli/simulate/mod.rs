//! `roundhouse simulate`: the fleet harness for users.

mod asked;
mod beside;
mod bound;
mod fleet;
mod never;
mod refusal;
mod script;
mod structured;
#[cfg(test)]
mod tests;
mod timeline;

use super::{Failure, documents, format::Output, terminal};
use crate::{
    simulate::run::{self, Outcome},
    words,
};
use asked::{Fail, Lose, Resume, SetLabel, Span, Then, Until};
use beside::Files;
use indicatif::{ProgressBar, ProgressStyle};
use script::Made;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Exit status when a promise was broken.
const BROKEN: u8 = 2;
/// Exit status when something that was asked for never came about.
const NEVER: u8 = 3;

/// Run hub, agents and any number of clusters in this process on virtual time, with faults, and see that nothing breaks
///
/// The controllers, the agents and the API servers are the real ones; workloads and the network are simulated. After every write
/// the promises of Roundhouse are checked, which are listed below by their numbers. The same files, options and seed give the
/// same run. Images whose names contain :broken are never pulled: their replicas do not become ready. Requests and messages of
/// steps leave nothing: they are answered with 200 and an empty object.
/// A simulated cluster runs at most 10,000 replicas of one workload, and a simulation 1,000,000 on all clusters together: an
/// application that the plan gives more of is refused.
/// Times are virtual, written like 30s, 5m or 1h, and count from the moment when the applications are applied; the timeline counts
/// from the start, in whose first half second the clusters join. It ends with 0 if no
/// promise was broken and everything that was asked for came about, with 2 if one was broken, with 1 if the run did not go as it was asked for (not delivered, say, by
/// --until delivered or --within; something panicked), and with 3 if it did, but for something that was asked for and never came about: a fault that
/// struck nobody since its step never began, a label that was to change after the end, a step to be resumed that nothing waited at.
#[derive(Debug, clap::Args)]
#[command(after_long_help = timeline::promises())]
pub(super) struct Args {
    /// Applications, Placements and ComponentDefinitions; ConfigMaps, Secrets and Namespaces that the hub has, for steps that look
    /// at them; CustomResourceDefinitions that every cluster has (nobody plays their controllers): a file of YAML or JSON documents, a directory of such files, or - for stdin; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Number of clusters: c1, c2 and so on, three fifths with the label region=east, the others with region=west; the first of
    /// a region has tier=canary, the others tier=production
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clusters: u32,
    /// The clusters of this file, a list of Cluster objects, in place of generated ones: their names, labels and taints, and the
    /// capacity and allocatable of their status, which their agents report; the agents are simulated ones. One that is not accepted, joined and available
    /// gets nothing in a plan: it is left out, and named on stderr
    #[arg(long, value_name = "F", conflicts_with = "clusters")]
    inventory: Option<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Cut clusters off from the hub: those that have these labels at the start (region=west, tier in (a, b)), or the one of this
    /// name; at once, before they have anything, or at TIME; may be repeated. They are connected again after DURATION (region=west@30s+10m), or else when nothing
    /// further happens
    #[arg(long, value_name = "SELECTOR[@TIME[+DURATION]]")]
    lose: Vec<Lose>,
    /// What is lost without a DURATION, or fails, stays so
    #[arg(long)]
    forever: bool,
    /// Set a label of a cluster, or take it away (c1:tier-): when nothing further happens, or at TIME; may be repeated
    #[arg(long, value_name = "CLUSTER:KEY=VALUE[@TIME]")]
    set_label: Vec<SetLabel>,
    /// Apply a file, or a directory of files, as users do that change what they have applied: when nothing further happens (the
    /// versions before are delivered by then, or wait), or at TIME; may be repeated, one after the other. What is left out of it stays
    #[arg(long, value_name = "FILE[@TIME]")]
    then: Vec<Then>,
    /// Of the clusters that a step places on, so many refuse what the agent writes of applications, as an admission webhook does,
    /// from when a step of this name first begins until nothing further happens; a step of a version of --then, or one that waits until something
    /// lost is back, meets it all the same. The seed chooses which; may be repeated, for other steps
    #[arg(long, value_name = "STEP:N%")]
    fail: Vec<Fail>,
    /// Let runs go on whenever this step makes them wait for a person: one of type suspend, or one with auto: false; not before
    /// TIME; may be repeated. Other steps that suspend the same run at that moment go on with it
    #[arg(long, value_name = "STEP[@TIME]")]
    resume: Vec<Resume>,
    /// Chooses every delay, fault and tie
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// When it ends: done (everything is delivered, or nothing further can happen: then what waits is printed), delivered
    /// (it is a failure if it is not), or at a time, whatever is left then: what was to happen later is told. Delivered is what stays so for a minute, with no fault on, and no removal that waits for a
    /// person (condition DeletesHeld)
    #[arg(long, default_value = "done", value_name = "done|delivered|TIME")]
    until: Until,
    /// Nothing further happens when nothing but Leases has been written for so long, and no time of a step, of a toleration or of
    /// held removals ends later, within --within; a minute at least. After a fault has ended it is at least 160 s: so long agents may
    /// wait before they try again
    #[arg(long, default_value = "15m", value_name = "TIME", value_parser = asked::patience)]
    patience: Span,
    /// The longest that anything that is waited for may take; a second at least, and more than --patience where something is
    /// lost, or fails, until nothing further happens
    #[arg(long, default_value = "6h", value_name = "TIME", value_parser = asked::within)]
    within: Span,
    /// Output format; wide shows every line of the timeline, with the names of all clusters that share it, and everything that waits
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let then = args.then.iter().map(|then| &then.file);
    documents::stdin_once(args.files.iter().chain(&args.inventory).chain(then))?;
    let read = |files: &[PathBuf]| Files::of(documents::read(files)?, args.namespace.as_deref());
    let files = read(&args.files)?;
    let changes = args
        .then
        .iter()
        .map(|then| read(std::slice::from_ref(&then.file)));
    let changes: Vec<Files> = changes.collect::<Result<_, _>>()?;
    let fleet = fleet::of(args)?;
    for note in &fleet.notes {
        terminal::tell(format_args!("note: {note}"));
    }
    let made = script::of(args, &fleet.clusters, &files, &changes)?;
    let spinner = spinner(&format!(
        "simulating {} on virtual time",
        words::counted(made.script.members.len(), "cluster")
    ));
    let outcome = run::run(&made.script, args.seed);
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    if outcome.not_begun.is_none() {
        print(args, &made, &outcome)?;
    }
    ended(&made, &outcome)
}

fn print(args: &Args, made: &Made, outcome: &Outcome) -> Result<(), Failure> {
    let structured = args
        .output
        .format()
        .structured(|| structured::of(made, outcome))?;
    let text = match structured {
        Some(text) => text,
        None => timeline::draw(made, outcome, args.output == Output::Wide),
    };
    terminal::print(&text)
}

/// How it went, for scripts.
fn ended(made: &Made, outcome: &Outcome) -> Result<ExitCode, Failure> {
    if let Some(why) = &outcome.not_begun {
        return Err(Failure::new("E-SIMULATION", "the run could not begin")
            .because(why.clone())
            .advise("--inventory with what an API server takes, or --clusters N"));
    }
    if let Some(broken) = outcome.broken.first() {
        let what = words::counted(outcome.broken.len(), "broken promise");
        return Err(Failure::new("E-BROKEN", format!("the run found {what}"))
            .because(broken.to_string())
            .advise(format!(
                "a report of it with these files and --seed {}: it is a defect of Roundhouse",
                outcome.seed
            ))
            .ends_with(BROKEN));
    }
    let before = "the timeline above, to see what happened before";
    if let Some(failure) = outcome.failures.first() {
        let told = Failure::new("E-SIMULATION", "the run did not go as it was asked for")
            .because(failure.what.clone())
            .advise(before);
        // By --until done it is no failure that something waits; but that nothing further happens has to be seen first.
        let is_cut = matches!(made.script.until, run::Until::Done { within, idle, .. } if idle >= within);
        return Err(match is_cut {
            true => told.or_try("a --patience that is shorter than --within: then it is told what waits"),
            false => told,
        });
    }
    let never = never::of(made, outcome);
    if never.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let failure = Failure::new("E-NEVER", "not everything that was asked for came about");
    let failure = never
        .iter()
        .fold(failure, |failure, what| failure.because(what.clone()));
    let advice = never::advice(made, outcome);
    let failure = advice
        .into_iter()
        .fold(failure.advise(before), |failure, tries| failure.or_try(tries));
    Err(failure.ends_with(NEVER))
}

fn spinner(what: &str) -> Option<ProgressBar> {
    if !terminal::stderr_is_live() {
        return None;
    }
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    // A template without a key that does not exist cannot be refused.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    Some(bar)
}
