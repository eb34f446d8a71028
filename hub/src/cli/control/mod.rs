//! `roundhouse suspend`, `resume`, `terminate`, `restart` and `approve`: what a person says to a run.

mod again;
mod decide;
#[cfg(test)]
pub(super) mod tests;

use super::{
    Failure, hub,
    status::{Stands, Written, confirmed},
    subject::{Subject, status_of},
    terminal,
};
use again::{Seen, decide_again};
use decide::{Answer, Command, decide};
use kube::{
    Client, Error,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::process::ExitCode;

/// The exit status of a command that makes no sense where the application stands.
pub(super) const REFUSED: u8 = 3;
/// Times that a write is made again because somebody else wrote in between.
const TRIES: usize = 10;

/// Pause a run where it stands
///
/// No step goes further and nothing more is dispatched until it is resumed; what was dispatched stays as it is. That holds
/// for a step of type suspend too: its time does not end it, and steps beside it stop. Exit status 3 if there is no run to
/// pause.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse suspend web\n  \
    roundhouse suspend web -n shop && roundhouse status web -n shop")]
pub(super) struct SuspendArgs {
    #[command(flatten)]
    subject: Subject,
}

/// Let a suspended run go on: a step of type suspend has its approval, a paused run continues
///
/// Where a run was paused while such a step suspended it, the first resume ends the pause and the next one is the approval.
/// What is resumed is what is seen when the command starts: where somebody else is quicker and the run waits at another step
/// then, that one is not approved; where the run is another one then, nothing is written, and the exit status is 1. Exit status 3
/// if the run is not suspended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse resume web\n  \
    roundhouse resume web && roundhouse watch web --until ready --timeout 10m")]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    subject: Subject,
}

/// End a run: no step runs any more
///
/// What was dispatched stays where it is, and nothing is removed. Exit status 3 if the run has ended already in another way.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse terminate web\n  \
    roundhouse terminate web && roundhouse rollback web")]
pub(super) struct TerminateArgs {
    #[command(flatten)]
    subject: Subject,
}

/// Run the workflow again, from its first step or from --step
///
/// Steps pass on what the clusters show: what is delivered already is not delivered twice. Exit status 3 if there is no such
/// step or it has not started.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse restart web\n  \
    roundhouse restart web --step west")]
pub(super) struct RestartArgs {
    #[command(flatten)]
    subject: Subject,
    /// Run this step and what comes behind it again; steps before it keep their outcome
    #[arg(long, value_name = "S")]
    step: Option<String>,
}

/// Confirm removals that the delete budget holds
///
/// The hash stands for exactly the clusters that `roundhouse status` names: if others are to lose the application meanwhile,
/// it is refused with exit status 3. A suspended step is not approved here but with `roundhouse resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse status web\n  \
    roundhouse approve web --hash 1f6e0c2b9a8d7e54")]
pub(super) struct ApproveArgs {
    #[command(flatten)]
    subject: Subject,
    /// What is approved, as `roundhouse status` shows it
    #[arg(long, value_name = "H")]
    hash: String,
}

pub(super) async fn suspend(args: SuspendArgs) -> Result<ExitCode, Failure> {
    order(&args.subject, &Command::Suspend).await
}

pub(super) async fn resume(args: ResumeArgs) -> Result<ExitCode, Failure> {
    order(&args.subject, &Command::Resume).await
}

pub(super) async fn terminate(args: TerminateArgs) -> Result<ExitCode, Failure> {
    order(&args.subject, &Command::Terminate).await
}

pub(super) async fn restart(args: RestartArgs) -> Result<ExitCode, Failure> {
    order(&args.subject, &Command::Restart { step: args.step }).await
}

pub(super) async fn approve(args: ApproveArgs) -> Result<ExitCode, Failure> {
    order(&args.subject, &Command::Approve { hash: args.hash }).await
}

async fn order(subject: &Subject, command: &Command) -> Result<ExitCode, Failure> {
    let client = subject.connect().await?;
    let done = give(subject, &client, command).await?;
    terminal::print(&format!("application {} {done}\n", subject.title()))?;
    Ok(ExitCode::SUCCESS)
}

/// Gives a command: on what was read, with its resourceVersion, and again where somebody else wrote in between and it still is
/// what was meant when it was read first. What became of the application, as a verb with its object.
///
/// # Errors
/// The command makes no sense where the application stands, or not any more; the hub refuses the write.
async fn give(subject: &Subject, client: &Client, command: &Command) -> Result<String, Failure> {
    let title = subject.title();
    let mut seen: Option<Seen> = None;
    for _ in 0..TRIES {
        let application = subject.read(client).await?;
        let status = status_of(&application);
        let written = Written::of(&application);
        let stands = Stands {
            namespace: &subject.namespace,
            name: &subject.application,
            generation: application.metadata.generation,
            deleting: application.metadata.deletion_timestamp.is_some(),
            status: &status,
            timers: &written.timers,
            confirmed: confirmed(&application),
        };
        let answer = match &seen {
            None => decide(command, &stands),
            Some(seen) => decide_again(command, seen, &stands),
        };
        let what = || format!("application {title} is not {}", command.passive());
        let written = match answer {
            Answer::Already(what) => return Ok(format!("is {what}")),
            Answer::Refused { why, advice } => {
                let failure = Failure::new("E-REFUSED", what()).because(why).ends_with(REFUSED);
                return Err(match advice {
                    Some(advice) => failure.advise(advice),
                    None => failure,
                });
            }
            Answer::Changed { why, advice } => return Err(overtaken(what(), &why).advise(advice)),
            Answer::Status(patch) => write(subject, client, &application, &patch, true).await,
            Answer::Metadata(patch) => write(subject, client, &application, &patch, false).await,
        };
        match written {
            Ok(()) => return Ok(command.done(status.workflow.as_ref())),
            Err(Error::Api(answer)) if answer.code == 409 => {
                seen.get_or_insert_with(|| Seen::of(&stands));
            }
            Err(error) => {
                let failure = Failure::new("E-HUB", format!("application {title} was not written"));
                return Err(hub::refused(failure, error)
                    .advise("kubectl auth can-i patch applications/status with the same kubeconfig"));
            }
        }
    }
    Err(crowded(subject))
}

/// Somebody else wrote the application in between, so that the command would do what nobody has asked for.
pub(super) fn overtaken(what: String, why: &str) -> Failure {
    Failure::new("E-CONFLICT", what).because(format!("it has changed since it was looked at: {why}"))
}

/// Others write the application faster than we do.
pub(super) fn crowded(subject: &Subject) -> Failure {
    Failure::new(
        "E-CONFLICT",
        format!("application {} was not written", subject.title()),
    )
    .because(format!(
        "somebody else wrote it in between, {TRIES} times in a row"
    ))
    .advise("the same command again")
}

/// Tries of a write, for verbs that write in another way.
pub(super) fn tries() -> std::ops::Range<usize> {
    0..TRIES
}

async fn write(
    subject: &Subject,
    client: &Client,
    application: &DynamicObject,
    patch: &Value,
    of_status: bool,
) -> Result<(), Error> {
    let version = &application.metadata.resource_version;
    let api = subject.api(client);
    let params = PatchParams {
        field_manager: Some(hub::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let name = &subject.application;
    if of_status {
        let patch = json!({"metadata": {"resourceVersion": version}, "status": patch});
        api.patch_status(name, &params, &Patch::Merge(patch)).await?;
    } else {
        let mut patch = json!({"metadata": patch});
        patch["metadata"]["resourceVersion"] = json!(version);
        api.patch(name, &params, &Patch::Merge(patch)).await?;
    }
    Ok(())
}
