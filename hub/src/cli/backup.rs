//! `roundhouse backup`

use super::{Failure, apiserver::STORE, terminal};
use jiff::Timestamp;
use roundhouse_api::clock::{Clock as _, SystemClock};
use roundhouse_apiserver::{Backup, write_private};
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Back up the data directory of an embedded hub or API server, which may be running
///
/// Writes every object as of one revision, the keys, and the time into the directory B, readable by its owner only: what is in
/// it is as secret as the data directory. `roundhouse restore` makes a data directory from it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The data directory
    #[arg(long, value_name = "D")]
    data_dir: PathBuf,
    /// Directory to write; absent or empty
    #[arg(long, value_name = "B")]
    to: PathBuf,
}

/// The file of the objects in a backup.
pub(super) const OBJECTS: &str = "objects";
/// What else of a data directory is in a backup, where it is there.
pub(super) const KEYS: [&str; 3] = ["ca.crt", "ca.key", "sa.key"];
const ABOUT: &str = "backup.json";

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    pub(super) taken_at: Timestamp,
    /// The resourceVersion it is the state of.
    pub(super) revision: u64,
    pub(super) objects: usize,
    /// The store that it is a backup of.
    pub(super) store: String,
}

impl About {
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_str(&std::fs::read_to_string(
            folder.join(ABOUT),
        )?)?)
    }
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
        Failure::new(
            "E-BACKUP",
            format!("{} is not backed up", args.data_dir.display()),
        )
        .because(error)
    };
    if !is_free(&args.to) {
        let there = Failure::new("E-BACKUP", format!("{} is not empty", args.to.display()));
        return Err(there.advise("another directory with --to: a backup never replaces another one"));
    }
    let backup = Backup::of_store(&args.data_dir.join(STORE)).map_err(|error| {
        failed(error.into()).advise("--data-dir of `roundhouse serve --embedded` or `roundhouse apiserver`")
    })?;
    let about = About {
        taken_at: SystemClock.now(),
        revision: backup.revision(),
        objects: backup.objects(),
        store: backup.identity().to_string(),
    };
    let write = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        crate::endpoint::make_private_directory(&args.to)?;
        copy_keys(&args.data_dir, &args.to)?;
        backup.write(&args.to, OBJECTS)?;
        // Last: a directory without it is no backup.
        write_private(
            &args.to.join(ABOUT),
            &(serde_json::to_string_pretty(&about)? + "\n"),
        )?;
        Ok(())
    };
    write().map_err(|error| failed(error).advise("another directory with --to, on a disk with room"))?;
    terminal::print(&format!(
        "{}: {} objects as of resourceVersion {}\n",
        args.to.display(),
        about.objects,
        about.revision
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether nothing is in the way of a new directory.
pub(super) fn is_free(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

pub(super) fn copy_keys(from: &Path, to: &Path) -> io::Result<()> {
    for name in KEYS {
        match std::fs::read_to_string(from.join(name)) {
            Ok(text) => write_private(&to.join(name), &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
