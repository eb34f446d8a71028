//! `roundhouse diff`: what the next pass of a cluster's agent would do with an application, field by field.

mod dispatched;
mod line;
mod structured;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use super::{Failure, format::Format, hub, terminal};
use roundhouse_agent::preview::{Preview, PreviewError, Setting, preview};
use roundhouse_api::names::ClusterName;
use std::{path::PathBuf, process::ExitCode};

/// Exit status with `--detailed-exitcode` when there are differences.
const DIFFERENT: u8 = 2;

/// Compare last applied, live and desired of an application on a cluster, field by field
///
/// Nothing is written. CHANGE: the next pass of the agent sets or removes it. CONFLICT: we render it, somebody else has
/// changed it since, and the next pass overwrites that (or refuses the object). KEEP: somebody else's, never rendered by
/// us, stays. ONCE: we render it, it differs and stays, by apply-once, ignoreFields, CreateOnly, or drift Report or
/// Ignore. Values of Secrets are shown as digests with a salt of this run: equal values have equal digests in one output.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the application
    #[arg(value_name = "APP")]
    application: String,
    /// The cluster
    #[arg(long, value_name = "C", value_parser = |name: &str| ClusterName::new(name))]
    cluster: ClusterName,
    /// Kubeconfig of that cluster; reading suffices
    #[arg(long, value_name = "F")]
    member_kubeconfig: PathBuf,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the application
    #[arg(short, long, value_name = "NS", default_value = "default")]
    namespace: String,
    /// Output format; wide is a table with whole values, and when and how an owner wrote
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Exit with status 2 if there are differences, 0 if there are none
    #[arg(long)]
    detailed_exitcode: bool,
}

/// What is compared.
#[derive(Debug, Clone)]
struct Subject {
    namespace: String,
    application: String,
    cluster: ClusterName,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let subject = Subject {
        namespace: args.namespace,
        application: args.application,
        cluster: args.cluster,
    };
    let hub = hub::connect(args.kubeconfig.as_deref()).await?;
    let member = hub::connect_member(&args.member_kubeconfig).await?;
    let found = dispatched::find(&hub, &subject).await?;
    if found.apply_once.is_none() {
        terminal::tell(format_args!(
            "the agent of {} has not reported its apply-once mode; bundles that do not say are compared as with off",
            subject.cluster
        ));
    }
    let setting = Setting {
        hub_id: found.hub_id,
        apply_once: found.apply_once.unwrap_or_default(),
        salt: uuid::Uuid::new_v4().into_bytes(),
    };
    let previewed = preview(member, &setting, found.parts).await;
    let preview = previewed.map_err(|error| no_preview(error, &subject, &args.member_kubeconfig))?;
    let color = terminal::color_on_stdout();
    let text = match args.output.structured(|| structured::value(&preview, &subject))? {
        Some(text) => text,
        None => match args.output {
            Format::Tree => tree::draw(&preview, &subject, color),
            Format::Wide => table::draw(&preview, table::Width::Whole, color),
            _ => table::draw(&preview, table::Width::Fitting, color),
        },
    };
    terminal::print(&text)?;
    terminal::tell(format_args!("{}", summary(&preview, &subject)));
    Ok(exit_code(&preview, args.detailed_exitcode))
}

fn exit_code(preview: &Preview, detailed: bool) -> ExitCode {
    let quiet = preview.held.is_empty() && preview.objects.iter().all(|object| object.is_quiet());
    if quiet || !detailed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DIFFERENT)
    }
}

/// The one line on stderr.
fn summary(preview: &Preview, subject: &Subject) -> String {
    let Subject {
        namespace,
        application,
        cluster,
    } = subject;
    let all = preview.objects.len();
    let loud = preview.objects.iter().filter(|object| !object.is_quiet()).count();
    let fields: usize = preview
        .objects
        .iter()
        .map(|object| object.differences.len())
        .sum();
    let objects = if all == 1 { "object" } else { "objects" };
    if loud == 0 {
        format!("{namespace}/{application} on {cluster}: {all} {objects}, no difference")
    } else {
        let differences = if fields == 1 { "difference" } else { "differences" };
        format!(
            "{namespace}/{application} on {cluster}: {all} {objects}, {loud} to look at, {fields} {differences}"
        )
    }
}

fn no_preview(error: PreviewError, subject: &Subject, file: &std::path::Path) -> Failure {
    let (code, what) = match error {
        PreviewError::Member(_) => ("E-MEMBER", "the cluster cannot be read"),
        PreviewError::NoLedger { .. } | PreviewError::OtherBundle { .. } => {
            ("E-OTHER-CLUSTER", "the kubeconfig is of another cluster")
        }
    };
    let file = file.display();
    let advice = match code {
        "E-MEMBER" => format!("kubectl --kubeconfig {file} get appliedbundles"),
        _ => format!(
            "the kubeconfig of {}; kubectl --kubeconfig {file} get appliedbundles shows what this one has",
            subject.cluster
        ),
    };
    Failure::new(code, what).because(error).advise(advice)
}
