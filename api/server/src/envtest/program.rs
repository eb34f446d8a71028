//! A program of a real API server: how it was started, and what it said when it does not run.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{EnvtestError, io};

/// How much of a log an error shows, in lines.
const TAIL: usize = 20;

/// A running program.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    flags: Vec<String>,
    log: PathBuf,
    child: Child,
}

impl Program {
    /// Starts `assets/name`; both its outputs are in `directory/name.log`.
    pub(super) fn spawn(
        assets: &Path,
        name: &str,
        flags: Vec<String>,
        directory: &Path,
    ) -> Result<Self, EnvtestError> {
        let (path, log) = (assets.join(name), directory.join(format!("{name}.log")));
        let file = || File::create(&log).map_err(io(format!("creating {}", log.display())));
        let output = file()?;
        let errors = output
            .try_clone()
            .map_err(io(format!("opening {}", log.display())))?;
        let child = Command::new(&path)
            .args(&flags)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(io(format!("starting {}", path.display())))?;
        Ok(Self {
            path,
            flags,
            log,
            child,
        })
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error if it has ended.
    pub(super) fn check(&mut self) -> Result<(), EnvtestError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failed(format!("ended with {status}"))),
            Err(error) => Err(self.failed(format!("cannot be looked at: {error}"))),
        }
    }

    /// The error that this program did not do what it should, with its flags and the end of its log.
    pub(super) fn failed(&self, what: String) -> EnvtestError {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        EnvtestError::Program {
            path: self.path.clone(),
            what,
            flags: self.flags.join(" "),
            log: lines[lines.len().saturating_sub(TAIL)..].join("\n"),
        }
    }

    pub(super) fn kill(&mut self) {
        // Who has ended already needs no killing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
