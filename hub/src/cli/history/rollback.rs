//! `roundhouse rollback`: writes an old spec back.

use super::revisions;
use crate::{
    application::history::{delivered_at, rollback_target},
    cli::{
        Failure,
        control::{REFUSED, crowded, tries},
        hub,
        subject::{Subject, status_of},
        terminal,
    },
};
use kube::{Error, ResourceExt, api::PostParams};
use roundhouse_api::{application::validate, hash, revision::ApplicationRevision};
use serde_json::Value;
use std::process::ExitCode;

/// Go back to an earlier revision: its spec is written back and delivered like any other change
///
/// Without --to: the revision that was delivered last, the current one apart. The workflow runs from its first step, with
/// its waits and approvals. The hub knows a content that it has recorded already: the revision keeps its number and is
/// current again. Exit status 3 if the spec is that already, or if there is nothing to go back to.
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
    let (client, title) = (subject.connect().await?, subject.title());
    for _ in tries() {
        let mut application = subject.read(&client).await?;
        let all = revisions(subject, &client, &application.uid().unwrap_or_default()).await?;
        let status = status_of(&application);
        let present = status
            .latest_revision
            .map(|latest| latest.name)
            .unwrap_or_default();
        let target = target(&all, &present, args.to.as_deref()).map_err(|no| refused(subject, no))?;
        let (name, spec) = (target.name_any(), &target.spec.application);
        if application.metadata.deletion_timestamp.is_some() {
            return Err(refused(subject, No::new("it is being deleted")));
        }
        let now = application.data.get("spec").cloned().unwrap_or(Value::Null);
        if hash::of_value(&now) == hash::of_value(spec) {
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
        let api = subject.api(&client);
        match api.replace(&subject.application, &post, &application).await {
            Ok(_) => {
                terminal::print(&format!("application {title} goes back to {name}\n"))?;
                return Ok(ExitCode::SUCCESS);
            }
            Err(Error::Api(answer)) if answer.code == 409 => {}
            Err(error) => {
                let failure = Failure::new("E-HUB", format!("application {title} was not written"));
                return Err(hub::refused(failure, error)
                    .advise("kubectl auth can-i update applications with the same kubeconfig"));
            }
        }
    }
    Err(crowded(subject))
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

fn refused(subject: &Subject, no: No) -> Failure {
    let what = format!("application {} is not rolled back", subject.title());
    let failure = Failure::new("E-REFUSED", what).because(no.why).ends_with(REFUSED);
    failure.advise(no.advice.unwrap_or_else(|| subject.command("history")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::{names::annotation, revision::ApplicationRevisionSpec};

    #[test]
    fn a_revision_is_meant_by_number_by_name_or_not_at_all() {
        let revision = |number: u64, delivered: bool| {
            let spec = ApplicationRevisionSpec {
                revision: number,
                ..ApplicationRevisionSpec::default()
            };
            let mut revision = ApplicationRevision::new(&format!("web-v{number}"), spec);
            if delivered {
                let time = format!("2026-01-01T00:00:{number:02}Z");
                revision
                    .annotations_mut()
                    .insert(annotation::DELIVERED.to_owned(), time);
            }
            revision
        };
        let all = [revision(10, false), revision(2, true), revision(9, true)];
        let meant = |present: &str, to: Option<&str>| {
            target(&all, present, to)
                .map(|revision| revision.spec.revision)
                .map_err(|no| no.why)
        };
        assert_eq!(meant("web-v10", None), Ok(9));
        assert_eq!(meant("web-v9", None), Ok(2));
        assert_eq!(meant("web-v10", Some("2")), Ok(2));
        assert_eq!(meant("web-v10", Some("web-v10")), Ok(10));
        assert_eq!(
            meant("web-v10", Some("3")),
            Err("the hub has no revision 3 of it; it has web-v2, web-v9, web-v10".to_owned())
        );
        let never = target(&all[..1], "web-v10", None).unwrap_err();
        assert_eq!(never.why, "no revision of it was ever delivered");
        let other = target(&all[1..2], "web-v2", None).unwrap_err();
        assert_eq!(other.why, "no other revision of it was ever delivered");
    }
}
