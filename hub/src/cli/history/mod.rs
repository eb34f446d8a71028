//! `roundhouse history` and `rollback`: the revisions of an application, and the way back to one.

mod changes;
mod rollback;
mod rows;

pub(super) use rollback::{RollbackArgs, rollback};

use super::{
    Failure,
    format::Output,
    hub::{Reader, own_labels},
    subject::{Subject, status_of},
    terminal,
};
use kube::{Client, ResourceExt};
use roundhouse_api::{
    bundle::Bundle,
    clock::{Clock, SystemClock},
    revision::ApplicationRevision,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

/// List the revisions of an application that the hub keeps
///
/// One row a revision, the oldest first: which one is current, which were delivered, how many clusters hold it, and what it
/// changed against the one before. The hub keeps those in use and the newest others (serve --application-revision-limit). A
/// revision has the spec as it was written, so whoever may read ApplicationRevisions reads it, values of Secrets in it
/// included; here they are never shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    roundhouse history web\n  \
    roundhouse history web -o wide\n  \
    roundhouse rollback web --to 3")]
pub(super) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Output format; wide names every change
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let subject = &args.subject;
    let client = subject.connect().await?;
    let application = subject.read(&client).await?;
    let revisions = revisions(subject, &client, &application.uid().unwrap_or_default()).await?;
    let clusters = holders(subject, &client).await?;
    let rows = rows::rows(&revisions, &status_of(&application), &clusters);
    let text = match args.output.format().structured(|| rows::structured(&rows))? {
        Some(text) => text,
        None => rows::draw(&rows, args.output == Output::Wide, SystemClock.now()),
    };
    terminal::print(&text)?;
    if rows.is_empty() {
        terminal::tell(format_args!(
            "application {} has no revisions yet",
            subject.title()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The revisions of this life of the application.
async fn revisions(
    subject: &Subject,
    client: &Client,
    uid: &str,
) -> Result<Vec<ApplicationRevision>, Failure> {
    let (mut all, labels) = (Vec::new(), own_labels(&subject.namespace, &subject.application));
    Reader(client)
        .revisions(Some(&subject.namespace), Some(&labels), |revision| {
            all.push(revision)
        })
        .await?;
    all.retain(|revision: &ApplicationRevision| {
        let mut owners = revision.owner_references().iter();
        owners.any(|owner| owner.uid == uid)
    });
    Ok(all)
}

/// Revision → clusters that hold a Bundle of it.
async fn holders(subject: &Subject, client: &Client) -> Result<BTreeMap<String, usize>, Failure> {
    let mut holders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let take = |bundle: Bundle| {
        let cluster = bundle.namespace().unwrap_or_default();
        if let Some(revision) = bundle.spec.revision {
            holders.entry(revision).or_default().insert(cluster);
        }
    };
    Reader(client)
        .bundles(Some(&own_labels(&subject.namespace, &subject.application)), take)
        .await?;
    let counted = holders
        .into_iter()
        .map(|(revision, clusters)| (revision, clusters.len()));
    Ok(counted.collect())
}
