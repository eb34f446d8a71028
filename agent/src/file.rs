//! Files of the agent's own: nobody else reads them, and each is there whole or not at all.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Whether a file has to outlive a crash of the machine once it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durable {
    Yes,
    No,
}

/// What a file holds; `None` if there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        answer => answer.map(Some),
    }
}

/// Takes a file away, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes beside the file, and then over it: a crash leaves the old content or the new one. A directory that has to be made
/// has mode 0700, and the file has 0600.
pub(crate) fn replace(directory: &Path, name: &str, bytes: &[u8], durable: Durable) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let beside = directory.join(format!(".{name}.new"));
    // One that a crash left may have another mode.
    remove(&beside)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(bytes)?;
    if durable == Durable::Yes {
        file.sync_all()?;
    }
    std::fs::rename(&beside, directory.join(name))?;
    if durable == Durable::Yes {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
