//! `roundhouse restore`

use super::{
    Failure,
    apiserver::STORE,
    backup::{About, OBJECTS, copy_keys, is_free},
    columns, hub, terminal,
};
use crate::{endpoint::make_private_directory, restored};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::PostParams};
use roundhouse_api::clock::{Clock as _, SystemClock};
use roundhouse_apiserver::{Backup, DurableOptions, DurableStore, Server, Store as _};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

/// Make a data directory from a backup, or confirm a hub that was restored
///
/// A restored hub serves its objects and takes reports, but writes nothing: agents may have obeyed what it does not know of any
/// more. With --confirm it says which Bundles those are and lets the hub go on, above every epoch that was obeyed: agents
/// then obey what the restored hub says.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["from", "confirm"]))]
#[command(override_usage = "roundhouse restore --from B --data-dir D\n       \
    roundhouse restore --confirm [--yes] [--kubeconfig F]")]
pub(super) struct Args {
    /// The directory that `roundhouse backup` wrote
    #[arg(long, value_name = "B", requires = "data_dir")]
    from: Option<PathBuf>,
    /// Directory to make, with --from; absent or empty
    #[arg(long, value_name = "D", requires = "from")]
    data_dir: Option<PathBuf>,
    /// Let a restored hub go on
    #[arg(long)]
    confirm: bool,
    /// Kubeconfig of the hub to confirm [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "F", requires = "confirm")]
    kubeconfig: Option<PathBuf>,
    /// Confirm without being asked to run it again
    #[arg(long, requires = "confirm")]
    yes: bool,
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    match (&args.from, &args.data_dir) {
        (Some(from), Some(to)) => restore(from, to).await,
        _ => confirm(args.kubeconfig.as_deref(), args.yes).await,
    }
}

async fn restore(from: &Path, to: &Path) -> Result<ExitCode, Failure> {
    let failed = |error: AnyError| {
        Failure::new("E-RESTORE", format!("{} is not restored", from.display())).because(error)
    };
    if !is_free(to) {
        let there = Failure::new("E-RESTORE", format!("{} is not empty", to.display()));
        return Err(there.advise("another --data-dir: nothing is replaced"));
    }
    let advice = "the directory that `roundhouse backup` wrote, whole";
    let about = About::read(from).map_err(|error| failed(error.into()).advise(advice))?;
    let backup = Backup::read(from, OBJECTS).map_err(|error| failed(error.into()).advise(advice))?;
    // Under another name until it is whole; without the slash that may stand at its end.
    let to = &to.components().collect::<PathBuf>();
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".restoring");
    let unfinished = PathBuf::from(unfinished);
    let make = async {
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished)?;
        }
        make_private_directory(&unfinished)?;
        copy_keys(from, &unfinished)?;
        backup.restore(&unfinished.join(STORE), SystemClock.now().as_second())?;
        put_mark(&unfinished, &about).await?;
        if to.exists() {
            std::fs::remove_dir(to)?;
        }
        std::fs::rename(&unfinished, to)?;
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        std::fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok::<_, AnyError>(())
    };
    make.await
        .map_err(|error| failed(error).advise("another --data-dir, on a disk with room"))?;
    terminal::print(&format!(
        "{}: {} objects of {}\n",
        to.display(),
        backup.objects(),
        about.taken_at
    ))?;
    terminal::tell(format_args!(
        "a hub on it writes nothing until you have looked and confirmed it: roundhouse restore --confirm --kubeconfig {}",
        to.join("admin.kubeconfig").display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Marks the store as restored, so that a hub on it waits.
async fn put_mark(directory: &Path, about: &About) -> Result<(), AnyError> {
    let store = Arc::new(DurableStore::open(
        &directory.join(STORE),
        DurableOptions::default(),
    )?);
    let server = Server::builder().store(store.clone()).build();
    let marks: Api<ConfigMap> = Api::namespaced(
        Client::new(server.service(), restored::NAMESPACE),
        restored::NAMESPACE,
    );
    let mark = restored::mark(&about.taken_at.to_string(), &SystemClock.now().to_string());
    // A hub that was restored before has the mark of that time.
    if marks.get_opt(restored::NAME).await?.is_some() {
        marks.delete(restored::NAME, &Default::default()).await?;
    }
    marks.create(&PostParams::default(), &mark).await?;
    store.settle_here(store.revision())?;
    Ok(())
}

/// Says that a hub was restored and waits, as long as it does: all else looks as if it worked. Whoever may not read the mark is not
/// told.
pub(super) async fn note(client: &Client) {
    let marks: Api<ConfigMap> = Api::namespaced(client.clone(), restored::NAMESPACE);
    let mark = marks.get_opt(restored::NAME).await.ok().flatten();
    if let Some(note) = mark.as_ref().and_then(note_of) {
        terminal::tell(format_args!("{note}"));
    }
}

fn note_of(mark: &ConfigMap) -> Option<String> {
    if restored::confirmed(mark).is_some() {
        return None;
    }
    let taken = mark.data.as_ref().and_then(|data| data.get(restored::TAKEN_AT));
    let taken = taken.map_or_else(|| "an unknown time".to_owned(), |taken| columns::plain(taken));
    Some(format!(
        "note: this hub was restored from a backup of {taken}, and writes nothing before somebody has confirmed it: roundhouse restore --confirm"
    ))
}

async fn confirm(file: Option<&Path>, yes: bool) -> Result<ExitCode, Failure> {
    let unreadable = |error: kube::Error| {
        Failure::new("E-HUB", "the hub cannot be read")
            .because(error)
            .advise("--kubeconfig of the restored hub's administrator")
    };
    let client = hub::connect(file).await?;
    let marks: Api<ConfigMap> = Api::namespaced(client.clone(), restored::NAMESPACE);
    let Some(mark) = marks.get_opt(restored::NAME).await.map_err(unreadable)? else {
        return Err(Failure::new(
            "E-RESTORE",
            "this hub was not restored from a backup",
        ));
    };
    if let Some(epoch) = restored::confirmed(&mark) {
        terminal::print(&format!(
            "confirmed already: the hub goes on above epoch {epoch}\n"
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let of = |key: &str| {
        mark.data
            .as_ref()
            .and_then(|data| data.get(key))
            .cloned()
            .unwrap_or_else(|| "an unknown time".to_owned())
    };
    let now = SystemClock.now();
    let seen = restored::look(&client, &mark, now).await.map_err(unreadable)?;
    let mut text = format!(
        "backup of {}, restored at {}; {} of {} agents have reported since\n",
        of(restored::TAKEN_AT),
        of(restored::RESTORED_AT),
        seen.reported,
        seen.agents
    );
    if !seen.silent.is_empty() {
        text += &format!("not yet: {}\n", hub::listed(&seen.silent));
    }
    if seen.ahead.is_empty() {
        text += "no agent has said that it obeyed something later\n";
    } else {
        text += "agents that obeyed something later, and will go back to what this hub says, all at once:\n";
        let rows = seen.ahead.iter();
        let rows = rows.map(|one| vec![one.cluster.clone(), one.bundle.clone(), columns::plain(&one.why)]);
        text += &columns::draw(&["CLUSTER", "BUNDLE", "WHY"], &rows.collect::<Vec<_>>(), &[]);
    }
    terminal::print(&text)?;
    if !yes {
        return Err(Failure::new("E-CONFIRM", "nothing was confirmed")
            .advise("the same with --yes, once every agent has reported and what they go back to is right"));
    }
    let epoch = restored::confirm(&client, &mark, &seen, now)
        .await
        .map_err(|error| {
            Failure::new("E-RESTORE", "the hub is not confirmed")
                .because(error)
                .advise("the same again")
        })?;
    terminal::print(&format!("confirmed: the hub goes on above epoch {epoch}\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_hub_is_told_of_until_it_is_confirmed() {
        let mut mark = restored::mark("2026-03-01T12:00:00Z", "2026-03-02T12:00:00Z");
        assert_eq!(
            note_of(&mark).unwrap(),
            "note: this hub was restored from a backup of 2026-03-01T12:00:00Z, and writes nothing before somebody has confirmed it: roundhouse restore --confirm"
        );
        let confirmed = (restored::EPOCH.to_owned(), "7".to_owned());
        mark.data.get_or_insert_default().extend([confirmed]);
        assert_eq!(note_of(&mark), None);
    }
}
