//! `roundhouse plan`: what an apply would decide and change, cluster by cluster, before anything moves.

mod changes;
mod placement;
pub(super) mod saved;
mod screen;
mod steps;
mod structured;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use super::{
    Failure, documents,
    format::Format,
    hub, inventory,
    proposals::{self, Kind, Proposed},
    snapshot::{self, Seen},
    tenancy, terminal,
};
use crate::{
    application::{Proposal, Unforeseen},
    fleet::{self, Later},
    placement::{Inventory, error_line},
    plan::{self, ApplicationPlan, Counts, Stopped},
    tenancy::Tenancy,
    words,
};
use jiff::Timestamp;
use roundhouse_api::{
    clock::{Clock, SystemClock},
    cluster::Cluster,
};
use screen::Screen;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};
pub(super) use structured::of_workload;

/// Exit status with `--detailed-exitcode` when a cluster would change.
const CHANGES: u8 = 2;

/// Show what an apply would decide and change on every cluster, before anything moves
///
/// Nothing is written. The decisions and Bundles are those of the controller's own functions. Against a hub they are
/// compared with the Bundles that were dispatched last (not with what runs on the clusters: `roundhouse diff` does that),
/// and a Placement is planned for the Applications on the hub that refer to it;
/// with --inventory no hub is asked, and the same files give the same bytes. Values of Secrets are shown as digests.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Applications, Placements and ComponentDefinitions: a file of YAML or JSON documents, a directory of such files, or - for stdin; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Plan for the clusters of this file, a list of Cluster objects, without a hub
    #[arg(long, value_name = "F", conflicts_with_all = ["kubeconfig", "out"])]
    inventory: Option<PathBuf>,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of Applications that name none
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Save the plan, for `roundhouse apply P`; one that is stopped anywhere is not saved. The file holds the Applications as they were written, their Secrets too:
    /// only its owner can read it
    #[arg(long, value_name = "P")]
    out: Option<PathBuf>,
    /// Judge by this tenancy: what Applications may contain (see `roundhouse serve --help`) [default: what the hub says of
    /// itself; with --inventory everything]
    ///
    /// With --inventory, Namespaces among the files say what they allow.
    #[arg(long, value_enum, value_name = "T", conflicts_with = "out")]
    tenancy: Option<Tenancy>,
    /// The moment for which taints that are tolerated for a time are judged, in RFC 3339; now, or with --inventory when
    /// the last taint was added. A plan that is saved is made for now
    #[arg(long, value_name = "TIME", conflicts_with = "out", value_parser = moment)]
    at: Option<Timestamp>,
    /// Exit with status 2 if a cluster would change, be it by the restart of a run that has ended without success, 0 if none
    /// would; it is 1 in any case if a step or a cluster is stopped
    #[arg(long)]
    detailed_exitcode: bool,
    /// Output format; wide is a table that leaves nothing out
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// A moment as it is written.
fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse()
        .map_err(|_| "it is no time in RFC 3339: write it like 2026-03-01T12:00:00Z".to_owned())
}

/// Everything that is drawn.
#[derive(Debug)]
struct Drawn {
    applications: Vec<ApplicationPlan>,
    /// Clusters of the fleet.
    clusters: usize,
    /// What it is compared with.
    against: Against,
    /// What changes afterwards by the clock alone.
    later: Vec<Later>,
}

/// What a plan is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    /// Nothing: the fleet of a file, on which nothing runs.
    Nothing,
    /// The Bundles that a hub dispatched last.
    Bundles,
}

impl Drawn {
    fn counts(&self) -> Counts {
        let counts = self.applications.iter().map(ApplicationPlan::counts);
        counts.fold(Counts::default(), Counts::plus)
    }
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    documents::stdin_once(args.files.iter().chain(&args.inventory))?;
    let mut documents = documents::read(&args.files)?;
    let rules = (args.tenancy.filter(|_| args.inventory.is_some()))
        .map(|tenancy| tenancy::of_documents(tenancy, &mut documents));
    let proposed = proposals::of_documents(documents, args.namespace.as_deref())?;
    let (seen, against, now) = match &args.inventory {
        Some(file) => {
            let clusters = inventory::read(file)?;
            let now = args.at.unwrap_or_else(|| last_taint(&clusters));
            let mut seen = offline(&clusters);
            seen.snapshot.govern(rules.unwrap_or_default());
            (seen, Against::Nothing, now)
        }
        None => {
            let seen = of_hub(&args, &proposed).await;
            let seen = seen.map_err(|failure| failure.or_try("--inventory F to plan without a hub"))?;
            (
                seen,
                Against::Bundles,
                args.at.unwrap_or_else(|| SystemClock.now()),
            )
        }
    };
    let applications = plan_all(&seen, &proposed, now)?;
    if applications.is_empty() {
        return Err(nothing_to_plan(against));
    }
    let until = until(&seen, &applications, now);
    let drawn = Drawn {
        clusters: seen.snapshot.fleet().len(),
        applications,
        against,
        later: fleet::ahead(&seen.snapshot, planned(&seen, &proposed).map(proposal), now),
    };
    let screen = Screen::of_stdout();
    match args.output {
        Format::Table => terminal::print(&table::draw(&drawn, &screen))?,
        Format::Wide => terminal::print(&table::draw(&drawn, &screen.whole()))?,
        Format::Tree => terminal::print(&tree::draw(&drawn, &screen))?,
        Format::Json => structured::json(&drawn)?,
        Format::Yaml => structured::yaml(&drawn)?,
    }
    let faults = faults(&drawn);
    for fault in &faults {
        terminal::tell(format_args!("{fault}"));
    }
    if let Some(file) = &args.out {
        if !faults.is_empty() {
            return Err(not_saved(file, faults.len()));
        }
        let moment = saved::Moment { at: now, until };
        let sha256 = saved::write(file, &proposed, &seen.inputs, drawn.counts(), moment)?;
        let file = file.display();
        terminal::tell(format_args!(
            "saved: {file} (sha256 {sha256}); apply it with: roundhouse apply {file}"
        ));
        for (title, restart) in drawn
            .applications
            .iter()
            .filter_map(|plan| Some((plan.title(), plan.awaits()?)))
        {
            terminal::tell(format_args!("then, for {title}: {restart}"));
        }
    }
    Ok(match args.detailed_exitcode && !drawn.counts().is_empty() {
        _ if !faults.is_empty() => ExitCode::FAILURE,
        true => ExitCode::from(CHANGES),
        false => ExitCode::SUCCESS,
    })
}

async fn of_hub(args: &Args, proposed: &[Proposed]) -> Result<Seen, Failure> {
    let client = hub::connect(args.kubeconfig.as_deref()).await?;
    snapshot::read(&client, proposed, args.tenancy).await
}

/// What is not carried out, and why.
fn faults(drawn: &Drawn) -> Vec<Failure> {
    let mut faults = Vec::new();
    for plan in &drawn.applications {
        for spec in plan.stopped() {
            let what = format!("{}: step {} is stopped by its overrides", plan.title(), spec.step);
            faults.extend(spec.override_errors.iter().map(|error| {
                Failure::new("E-OVERRIDE", what.clone())
                    .because(error_line(error))
                    .advise("mending the override: until then nothing of the step is carried out")
            }));
        }
        faults.extend(plan.refused.iter().map(|stop| {
            let keeps = match &stop.of {
                Stopped::Step(_) => "until then nothing of the step is carried out",
                Stopped::Cluster(_) => "until then the cluster keeps what it has",
            };
            Failure::new("E-STOPPED", format!("{}: {} is stopped", plan.title(), stop.of))
                .because(stop.why.clone())
                .advise(format!("what the cause names: {keeps}"))
        }));
    }
    faults
}

/// A plan that would not be carried out in full is no plan to apply.
fn not_saved(file: &Path, stops: usize) -> Failure {
    let earlier = match file.exists() {
        true => "; what was there before is as it was",
        false => "",
    };
    let file = file.display();
    Failure::new("E-STOPPED", format!("the plan was not saved to {file}{earlier}"))
        .because(format!(
            "it would not be carried out in full: {} above",
            words::counted(stops, "error")
        ))
        .advise("mending what is named there; roundhouse plan without --out, to look at the rest")
}

/// A fleet on which nothing runs.
pub(super) fn offline(clusters: &[Cluster]) -> Seen {
    let mut seen = Seen::default();
    clusters.iter().for_each(|cluster| seen.put_cluster(cluster));
    seen
}

/// When the last taint was added: a moment that depends on the file alone.
pub(super) fn last_taint(clusters: &[Cluster]) -> Timestamp {
    let taints = clusters.iter().flat_map(|cluster| {
        let of_status = cluster.status.iter().flat_map(|status| &status.taints);
        cluster.spec.taints.iter().chain(of_status)
    });
    let added = taints.filter_map(|taint| taint.time_added.as_ref().map(|time| time.0));
    added.max().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Plans every application: those that are proposed, and those on the hub that refer to a proposed Placement.
pub(super) fn plan_all(
    seen: &Seen,
    proposed: &[Proposed],
    now: Timestamp,
) -> Result<Vec<ApplicationPlan>, Failure> {
    for one in proposed {
        let unread = |error| Failure::new("E-INPUT", format!("{} does not read", one.place)).because(error);
        let object = one.object.clone();
        match one.kind {
            Kind::Application => {}
            Kind::Placement => {
                let placement = serde_json::from_value(object).map_err(unread)?;
                seen.snapshot.put_placement(placement);
            }
            Kind::ComponentDefinition => {
                let definition = serde_json::from_value(object).map_err(unread)?;
                seen.snapshot.put_definition(&definition);
            }
        }
    }
    let plan = |proposed: &Proposed| {
        let planned = plan::plan(&seen.snapshot, &seen.dispatched, &proposal(proposed), now);
        planned.map_err(|why| unforeseen(proposed, why))
    };
    planned(seen, proposed).map(plan).collect()
}

/// The Applications that are planned, by name.
fn planned<'a>(seen: &'a Seen, proposed: &'a [Proposed]) -> impl Iterator<Item = &'a Proposed> {
    let own = proposed.iter().filter(|one| one.kind == Kind::Application);
    let mut all: Vec<&Proposed> = own.chain(&seen.referring).collect();
    all.sort_by_key(|one| (&one.namespace, &one.name));
    all.into_iter()
}

fn proposal(proposed: &Proposed) -> Proposal<'_> {
    Proposal {
        namespace: &proposed.namespace,
        name: &proposed.name,
        spec: proposed.spec(),
    }
}

/// Until when the clock does not matter to these plans; `None` if it never does.
fn until(seen: &Seen, plans: &[ApplicationPlan], now: Timestamp) -> Option<Timestamp> {
    let inventory: Inventory = seen.snapshot.fleet().into_iter().collect();
    let next = plans
        .iter()
        .filter_map(|plan| fleet::next_change(&inventory, &plan.valid, now));
    next.min()
}

fn unforeseen(proposed: &Proposed, why: Unforeseen) -> Failure {
    match why {
        Unforeseen::Refused(violations) => {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            proposals::not_accepted(proposed, &lines)
        }
        Unforeseen::Unresolved(why) => {
            let what = format!("{}: {} cannot be placed", proposed.place, proposed.title());
            Failure::new("E-PLACEMENT", what)
                .because(why)
                .advise("-f with the file of the Placement too")
        }
    }
}

fn nothing_to_plan(against: Against) -> Failure {
    let failure = Failure::new("E-NOTHING", "there is no Application to plan");
    match against {
        Against::Nothing => failure.because("the files hold no Application"),
        Against::Bundles => failure.because("the files hold none, and none on the hub refers to them"),
    }
    .advise("-f with the file of an Application too")
}
