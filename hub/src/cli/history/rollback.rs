//! `roundhouse rollback`: writes an old spec back.

#[cfg(test)]
mod tests;

use super::revisions;
use crate::{
    application::history::{delivered_at, rollback_target},
    cli::{
        Failure,
        control::{REFUSED, crowded, overtaken, tries},
        hub,
        subject::{Subject, status_of},
        terminal,
    },
};
use kube::{Client, Error, ResourceExt, api::PostParams};
use roundhouse_api::{application::validate, hash, revision::ApplicationRevision};
use serde_json::Value;
use std::process::ExitCode;

/// Go back to an earlier revision: its spec is written back and delivered like any other change
///
/// Without --to: the revision that was delivered last, the current one apart. The workflow runs from its first step, with
/// its waits and approvals. The hub knows a content that it has recorded already: the revision keeps its number and is
/// current again. Where somebody else changes the spec in between and there is no --to, nothing is written: it is done if they
/// went back to the same revision, and else the exit status is 1. Exit status 3 if the spec is that already, or if there is
/// nothing to go back to.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse rollback web\n  \
    roundhouse rollback web --to 3 && roundhouse watch web --until ready\n  \
    roundhouse rollback web --to web-v3")]
pub(in crate::cli) struct RollbackArgs {
    #[command(flatten)]
    subject: Subject,
    /// Number or name of the revision, as `roundhouse history` shows it
    #[arg(long, value_name = "REV")]
    to: Option<String>,
}

pub(in crate::cli) async fn rollback(args: RollbackArgs) -> Result<ExitCode, Failure> {
    let subject = &args.subject;
    let client = subject.connect().await?;
    let done = go_back(subject, &client, args.to.as_deref()).await?;
    terminal::print(&format!("application {} {done}\n", subject.title()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the spec back: over what was read, and again where somebody else wrote in between and it still goes back to the same.
/// What became of the application, as a verb with its object.
///
/// # Errors
/// There is nothing to go back to, or something else than when it was read first; the hub refuses the write.
async fn go_back(subject: &Subject, client: &Client, to: Option<&str>) -> Result<String, Failure> {
    let title = subject.title();
    let mut seen: Option<Seen> = None;
    for _ in tries() {
        let mut application = subject.read(client).await?;
        if application.metadata.deletion_timestamp.is_some() {
            return Err(refused(subject, No::new("it is being deleted")));
        }
        let all = revisions(subject, client, &application.uid().unwrap_or_default()).await?;
        let status = status_of(&application);
        let latest = status
            .latest_revision
            .map(|latest| latest.name)
            .unwrap_or_default();
        let now = application.data.get("spec").cloned().unwrap_or(Value::Null);
        let live = hash::of_value(&now);
        let target = target(&all, &present(&all, &latest, &live), to);
        // Who names a revision goes there from wherever it stands.
        if let (Some(seen), None) = (&seen, to) {
            let generation = application.metadata.generation;
            let target = target.as_ref().ok().map(|target| target.name_any());
            match seen.meanwhile(&live, generation, target.as_deref()) {
                Meanwhile::Same => {}
                Meanwhile::Done => return Ok(format!("has gone back to {} already", seen.target)),
                Meanwhile::Changed(why) => {
                    let history = subject.command("history");
                    return Err(overtaken(unmoved(subject), &why).advise(format!(
                        "{history}, and rollback --to with the revision that is meant"
                    )));
                }
            }
        }
        let target = target.map_err(|no| refused(subject, no))?;
        let (name, spec) = (target.name_any(), &target.spec.application);
        let wanted = hash::of_value(spec);
        if live == wanted {
            let no = No::new(format!("its spec is that of {name} already"));
            return Err(refused(subject, no.advise(subject.command("status"))));
        }
        if let Err(violations) = validate(spec) {
            let lines = violations.iter().map(ToString::to_string).collect::<Vec<_>>();
            let no = No::new(format!(
                "the spec of {name} is not accepted any more: {}",
                lines.join("; ")
            ));
            return Err(refused(subject, no.advise(subject.command("history"))));
        }
        application.data["spec"] = spec.clone();
        let post = PostParams {
            field_manager: Some("roundhouse".to_owned()),
            ..PostParams::default()
        };
        let api = subject.api(client);
        match api.replace(&subject.application, &post, &application).await {
            Ok(_) => return Ok(format!("goes back to {name}")),
            Err(Error::Api(answer)) if answer.code == 409 => {
                seen.get_or_insert(Seen {
                    target: name,
                    wanted,
                    generation: application.metadata.generation,
                });
            }
            Err(error) => {
                let failure = Failure::new("E-HUB", format!("application {title} was not written"));
                return Err(hub::refused(failure, error)
                    .advise("kubectl auth can-i update applications with the same kubeconfig"));
            }
        }
    }
    Err(crowded(subject))
}

/// What was to become of an application when it was read first.
#[derive(Debug)]
struct Seen {
    /// Name of the revision that it was to go back to.
    target: String,
    /// Hash of the spec of that.
    wanted: String,
    /// Generation of the application.
    generation: Option<i64>,
}

/// What became of it since then.
#[derive(Debug, PartialEq, Eq)]
enum Meanwhile {
    /// Nothing that matters to a rollback.
    Same,
    /// Somebody else has gone back.
    Done,
    /// A rollback would be another one.
    Changed(String),
}

impl Seen {
    /// Compares it with the hash of the spec that is there now, its generation, and where a rollback would go.
    fn meanwhile(&self, live: &str, generation: Option<i64>, target: Option<&str>) -> Meanwhile {
        if live == self.wanted {
            return Meanwhile::Done;
        }
        if generation != self.generation {
            return Meanwhile::Changed("its spec was changed".to_owned());
        }
        match target {
            Some(target) if target == self.target => Meanwhile::Same,
            Some(target) => Meanwhile::Changed(format!(
                "a rollback goes to {target} now, and went to {}",
                self.target
            )),
            None => Meanwhile::Changed(format!(
                "a rollback went to {}, and there is nothing to go back to now",
                self.target
            )),
        }
    }
}

/// Why not, and what to try.
#[derive(Debug, PartialEq, Eq)]
struct No {
    why: String,
    advice: Option<String>,
}

impl No {
    fn new(why: impl Into<String>) -> No {
        No {
            why: why.into(),
            advice: None,
        }
    }

    fn advise(mut self, advice: impl Into<String>) -> No {
        self.advice = Some(advice.into());
        self
    }
}

fn unmoved(subject: &Subject) -> String {
    format!("application {} is not rolled back", subject.title())
}

fn refused(subject: &Subject, no: No) -> Failure {
    let failure = Failure::new("E-REFUSED", unmoved(subject))
        .because(no.why)
        .ends_with(REFUSED);
    failure.advise(no.advice.unwrap_or_else(|| subject.command("history")))
}

/// What nobody goes back to, by the revision that the hub recorded last and the hash of the spec: the revision that the hub takes
/// the spec for, or will when it looks at it. None if the spec is newer than everything that was recorded.
fn present(all: &[ApplicationRevision], latest: &str, live: &str) -> String {
    let live = all
        .iter()
        .filter(|revision| hash::of_value(&revision.spec.application) == live);
    let present = live.max_by_key(|revision| (revision.name_any() == latest, revision.spec.revision));
    present.map(ResourceExt::name_any).unwrap_or_default()
}

/// The revision that is meant.
fn target<'a>(
    all: &'a [ApplicationRevision],
    present: &str,
    to: Option<&str>,
) -> Result<&'a ApplicationRevision, No> {
    let names = || {
        let mut all: Vec<_> = all
            .iter()
            .map(|revision| (revision.spec.revision, revision.name_any()))
            .collect();
        all.sort();
        all.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    match to {
        Some(to) => {
            let number: Option<u64> = to.parse().ok();
            let named = |revision: &&ApplicationRevision| {
                revision.name_any() == to || Some(revision.spec.revision) == number
            };
            all.iter().find(named).ok_or_else(|| {
                No::new(format!(
                    "the hub has no revision {to} of it; it has {}",
                    hub::listed(&names())
                ))
            })
        }
        None => rollback_target(all, present).ok_or_else(|| {
            let delivered = all.iter().any(|revision| delivered_at(revision).is_some());
            No::new(match delivered {
                true => "no other revision of it was ever delivered",
                false => "no revision of it was ever delivered",
            })
            .advise("--to with a revision that roundhouse history shows")
        }),
    }
}
