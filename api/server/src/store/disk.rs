//! The few things the durable store asks of a file system, so that tests can put a failing one in its place.

mod faulty;

pub use faulty::{DiskFailures, FaultyDisk};

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{JournalError, journal::is_part};

/// One directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Names and lengths (bytes) of the files.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// Creates a file, or empties the one of that name.
    ///
    /// # Errors
    /// If it cannot be created.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// If it is not there or cannot be opened.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name; one that had it is replaced.
    ///
    /// # Errors
    /// If the file system refuses.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// If the file system refuses.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals survive a crash.
    ///
    /// # Errors
    /// If the disk fails.
    fn sync(&self) -> io::Result<()>;
    /// Where this is, for messages.
    fn place(&self) -> String;
}

/// One open file.
pub trait DiskFile: Send {
    /// Reads at an offset until the buffer is full.
    ///
    /// # Errors
    /// If the file is shorter, or the disk fails.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
    /// Writes at an offset.
    ///
    /// # Errors
    /// If the disk is full or fails; any part may have been written then.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything written survive a crash.
    ///
    /// # Errors
    /// If the disk fails. What was written since the last success is in an unknown state then, and another attempt that
    /// succeeds says nothing about it.
    fn sync(&self) -> io::Result<()>;
    /// Length in bytes.
    ///
    /// # Errors
    /// If the file system refuses.
    fn size(&self) -> io::Result<u64>;
}

/// Makes a directory that is absent, and those it is in, for their owner only; they are there after a crash, too.
///
/// # Errors
/// If it cannot be made.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let absent = path
        .ancestors()
        .take_while(|part| !part.as_os_str().is_empty() && !part.exists())
        .filter_map(Path::parent);
    let above: Vec<_> = absent.collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // A directory is there after a crash when the one it is in says so.
    for directory in above {
        let here = directory.as_os_str().is_empty();
        File::open(if here { Path::new(".") } else { directory })?.sync_all()?;
    }
    Ok(())
}

/// A directory of the machine.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Locked as long as this is there: no second process writes here.
    lock: Option<File>,
}

const LOCK: &str = "lock";

impl Folder {
    /// The directory, made if absent, for this process alone.
    ///
    /// # Errors
    /// If it cannot be made, or another process has it.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::lock(path).map_err(|source| {
            let place = path.display().to_string();
            match source.kind() {
                io::ErrorKind::WouldBlock => JournalError::InUse { place },
                _ => JournalError::Io {
                    what: "use",
                    place,
                    file: String::new(),
                    source,
                },
            }
        })
    }

    fn lock(path: &Path) -> io::Result<Self> {
        make_directory(path)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join(LOCK))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self {
            path: path.to_owned(),
            lock: Some(lock),
        })
    }

    /// Whether there is anything of a store in a directory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn holds_store(path: &Path) -> io::Result<bool> {
        match Self::look(path).list() {
            Ok(files) => Ok(files.iter().any(|(name, _)| is_part(name))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The directory for reading, whoever has it.
    pub fn look(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            lock: None,
        }
    }
}

impl Disk for Folder {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = vec![];
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK
            {
                files.push((name, entry.metadata()?.len()));
            }
        }
        Ok(files)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let write = self.lock.is_some();
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

impl DiskFile for File {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(self, into, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
