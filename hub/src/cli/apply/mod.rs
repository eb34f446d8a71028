//! `roundhouse apply`: sends Applications, Placements and ComponentDefinitions to a hub, as written or as a saved plan has them.

mod send;
#[cfg(test)]
mod tests;

use super::{
    Failure, documents, hub,
    plan::saved,
    proposals::{self, Proposed},
    restore, snapshot, tenancy, terminal,
};
use kube::Client;
use roundhouse_api::clock::{Clock, SystemClock};
use send::{Applied, Guard, Sender};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Exit status when a saved plan does not hold any more.
const STALE: u8 = 4;

/// Apply Applications, Placements and ComponentDefinitions to a hub, or a saved plan if nothing it depends on has moved
///
/// Everything is validated first with the controller's own functions; nothing is sent if one object is refused. An object
/// that is there gets the spec of the file, whole, and its labels and annotations beside those that it has, under the
/// field manager `roundhouse`. Nothing is waited for.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("input").required(true).args(["plan", "files"]))]
pub(super) struct Args {
    /// A plan that `roundhouse plan --out P` saved. It is applied only while every object of the hub that it depends on is
    /// as it was, and no taint that it tolerates for a time has run out: otherwise the exit status is 4
    #[arg(value_name = "P")]
    plan: Option<PathBuf>,
    /// Applications, Placements and ComponentDefinitions: a file of YAML or JSON documents, a directory of such files, or - for stdin; may be
    /// repeated
    #[arg(short, long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NS", conflicts_with = "plan")]
    namespace: Option<String>,
    /// The hub checks everything and stores nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let (proposed, plan) = match &args.plan {
        Some(file) => {
            refuse_objects(file)?;
            let mut plan = saved::read(file)?;
            let documents = std::mem::take(&mut plan.applications);
            (proposals::of_documents(documents, None)?, Some((file, plan)))
        }
        None => (proposals::read(&args.files, args.namespace.as_deref())?, None),
    };
    let client = hub::connect(args.kubeconfig.as_deref()).await?;
    match &plan {
        Some((file, plan)) => check(&client, file, plan, &proposed).await?,
        None => admitted(&client, &proposed).await?,
    }
    let sender = Sender {
        client: &client,
        dry_run: args.dry_run,
    };
    let guard = |one: &Proposed| {
        let (file, plan) = plan.as_ref()?;
        Some(Guard {
            before: plan.input(&one.title()),
            file: file.as_path(),
        })
    };
    let guarded: Vec<_> = proposed.iter().map(|one| (one, guard(one))).collect();
    sender.send_all(&guarded).await?;
    restore::note(&client).await;
    if let Some((_, plan)) = &plan {
        let summary = plan.summary;
        terminal::tell(format_args!(
            "the plan was: {} to add, {} to change, {} to destroy",
            summary.add, summary.change, summary.destroy
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what the tenancy of the hub does not admit, before anything is sent. A saved plan was judged, and the hub's
/// tenancy is among what it depends on.
async fn admitted(client: &Client, proposed: &[Proposed]) -> Result<(), Failure> {
    let namespaces = proposed.iter().map(|one| &one.namespace).collect();
    match tenancy::of_hub(client, None, namespaces).await? {
        Some(rules) => tenancy::check(&rules, proposed),
        None => Ok(()),
    }
}

/// A file of Applications where a saved plan is expected: says what to write instead.
fn refuse_objects(file: &Path) -> Result<(), Failure> {
    let text = documents::text(file)?;
    let is_plan = text.trim_start().starts_with('{');
    match is_plan
        || proposals::of_documents(documents::split(&file.display().to_string(), &text)?, None).is_err()
    {
        true => Ok(()),
        false => Err(
            Failure::new("E-PLAN", format!("{} is no saved plan", file.display()))
                .because("it holds Applications or Placements")
                .advise(format!("roundhouse apply -f {}", file.display())),
        ),
    }
}

/// Refuses a plan if something has moved.
async fn check(
    client: &Client,
    file: &Path,
    plan: &saved::Saved,
    proposed: &[Proposed],
) -> Result<(), Failure> {
    let seen = snapshot::read(client, proposed, None).await?;
    let mut moved = plan.moved(&seen.inputs);
    moved.extend(plan.expired(SystemClock.now()));
    if moved.is_empty() {
        return Ok(());
    }
    let failure = stale(file, Applied::none(proposed.len()));
    Err(moved.into_iter().fold(failure, Failure::because))
}

/// The plan does not hold any more, after so many of its objects.
fn stale(file: &Path, applied: Applied) -> Failure {
    let file = file.display();
    Failure::new(
        "E-STALE",
        format!("the plan {file} does not hold any more; {applied}"),
    )
    .advise(format!(
        "roundhouse plan again, with --out {file}, and look at what is different"
    ))
    .ends_with(STALE)
}
