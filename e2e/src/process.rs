//! A process under test: its output line by line, signals, and an end that is waited for.

use crate::patience::until;
use anyhow::{Context, Result, anyhow, bail};
use std::{
    ffi::OsStr,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    sync::watch,
    time::{Instant, timeout},
};

/// Longest wait for anything that a process does: generous, as machines that run tests are busy.
pub const DEADLINE: Duration = Duration::from_secs(90);
/// How often [`soon`] looks.
const LOOK: Duration = Duration::from_millis(50);

/// A running process. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    started: Instant,
    child: Child,
    stdout: watch::Receiver<Output>,
    stderr: watch::Receiver<Output>,
}

/// How a process ended, and all it wrote.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub stdout: String,
    /// Everything it wrote to standard error.
    pub stderr: String,
    /// Time from its start until its end.
    pub after: Duration,
}

/// A signal.
#[derive(Debug, Clone, Copy)]
pub enum Signal {
    /// Ctrl-C
    Interrupt,
    /// What service managers send
    Terminate,
    /// `kill -9`
    Kill,
    /// Stops it where it is
    Stop,
    /// Lets it go on
    Continue,
}

#[derive(Debug, Default)]
struct Output {
    lines: Vec<String>,
    closed: bool,
}

/// Reads until the pipe is closed, so that the process never blocks on a full one.
fn collect(pipe: impl AsyncRead + Unpin + Send + 'static) -> watch::Receiver<Output> {
    let (sender, receiver) = watch::channel(Output::default());
    tokio::spawn(async move {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            sender.send_modify(|output| output.lines.push(text));
            line.clear();
        }
        sender.send_modify(|output| output.closed = true);
    });
    receiver
}

/// Waits for a line; `None` if the pipe is closed or the deadline passes without it.
async fn line_of(output: &mut watch::Receiver<Output>, is_it: impl Fn(&str) -> bool) -> Option<String> {
    let find = |output: &Output| {
        let mut lines = output.lines.iter().map(|line| line.trim_end());
        lines.find(|line| is_it(line)).map(str::to_owned)
    };
    let found = output.wait_for(|output| output.closed || find(output).is_some());
    let output = timeout(DEADLINE, found).await.ok()?.ok()?;
    find(&output)
}

/// A command with nothing of the caller's surroundings that changes what the binaries do. `directory` is where it runs,
/// and its directory for temporary files.
pub fn command(binary: &Path, directory: &Path) -> Command {
    let mut command = Command::new(binary);
    command.current_dir(directory).env("TMPDIR", directory);
    for name in ["RUST_LOG", "KUBECONFIG", "NO_COLOR", "TERM", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

impl Process {
    /// Starts `binary` in `directory`, as [`command`] says.
    ///
    /// # Errors
    /// It does not start.
    pub fn start<S: AsRef<OsStr>>(
        binary: &Path,
        arguments: impl IntoIterator<Item = S>,
        directory: &Path,
    ) -> Result<Process> {
        let mut command = command(binary, directory);
        command.args(arguments);
        Process::spawn(command)
    }

    /// Starts a command with nothing to read and both outputs collected.
    ///
    /// # Errors
    /// It does not start.
    pub fn spawn(mut command: Command) -> Result<Process> {
        let std = command.as_std();
        let name = format!("{:?} {:?}", std.get_program(), std.get_args().collect::<Vec<_>>());
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        let stdout = collect(child.stdout.take().context("no stdout")?);
        let stderr = collect(child.stderr.take().context("no stderr")?);
        Ok(Process {
            name,
            started,
            child,
            stdout,
            stderr,
        })
    }

    /// Waits for a line on standard output.
    ///
    /// # Errors
    /// It ended, or the deadline passed, without such a line.
    pub async fn stdout_line(&mut self, is_it: impl Fn(&str) -> bool) -> Result<String> {
        let line = line_of(&mut self.stdout, is_it).await;
        line.with_context(|| self.missing("stdout"))
    }

    /// Waits for a line on standard error.
    ///
    /// # Errors
    /// It ended, or the deadline passed, without such a line.
    pub async fn stderr_line(&mut self, is_it: impl Fn(&str) -> bool) -> Result<String> {
        let line = line_of(&mut self.stderr, is_it).await;
        line.with_context(|| self.missing("stderr"))
    }

    fn missing(&self, stream: &str) -> String {
        let (stdout, stderr) = (self.stdout(), self.stderr());
        format!(
            "{}: the line on {stream} did not come\nstdout:\n{stdout}\nstderr:\n{stderr}",
            self.name
        )
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.borrow().lines.concat()
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.borrow().lines.concat()
    }

    /// Its process id; `None` once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// When it was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It has ended already.
    pub async fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id();
        let id = id.with_context(|| format!("{} has ended", self.name))?;
        send(id, signal).await.with_context(|| self.name.clone())
    }

    /// Waits until it ends.
    ///
    /// # Errors
    /// The deadline passed: the error has its output.
    pub async fn wait(mut self) -> Result<Ended> {
        let Ok(status) = timeout(DEADLINE, self.child.wait()).await else {
            bail!("{} did not end; stderr:\n{}", self.name, self.stderr());
        };
        let (status, after) = (status?, self.started.elapsed());
        for output in [&mut self.stdout, &mut self.stderr] {
            let closed = timeout(DEADLINE, output.wait_for(|output| output.closed)).await;
            let _ = closed.context("a child of its own holds its output open")??;
        }
        Ok(Ended {
            status,
            stdout: self.stdout(),
            stderr: self.stderr(),
            after,
        })
    }

    /// Sends a signal and waits until it ends.
    ///
    /// # Errors
    /// As [`Process::signal`] and [`Process::wait`].
    pub async fn end(self, signal: Signal) -> Result<Ended> {
        self.signal(signal).await?;
        self.wait().await
    }
}

/// Sends a process a signal.
///
/// # Errors
/// There is none with this id, or it takes no signal.
pub async fn send(id: u32, signal: Signal) -> Result<()> {
    let name = match signal {
        Signal::Interrupt => "INT",
        Signal::Terminate => "TERM",
        Signal::Kill => "KILL",
        Signal::Stop => "STOP",
        Signal::Continue => "CONT",
    };
    // The shell's own `kill`: there on every system, and no unsafe code here.
    let mut kill = Command::new("sh");
    kill.args(["-c", r#"kill -s "$0" "$1""#, name, &id.to_string()]);
    if !kill.status().await?.success() {
        bail!("process {id} takes no signal {name}");
    }
    Ok(())
}

/// Looks until `look` answers with a value, or [`DEADLINE`] passes: then the error says what was waited for and what was
/// seen last.
///
/// # Errors
/// The deadline passed.
pub async fn soon<T, S: std::fmt::Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<std::result::Result<T, S>>,
) -> Result<T> {
    let look = async || look().await?.map_err(|seen| anyhow!("{seen:?}"));
    until(DEADLINE, LOOK, what, look).await
}

/// A client's configuration from a kubeconfig.
///
/// # Errors
/// The file cannot be read, or is no kubeconfig.
pub async fn config(kubeconfig: &Path) -> Result<kube::Config> {
    use kube::config::{KubeConfigOptions, Kubeconfig};
    // A second installation could only be this one again.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| kubeconfig.display().to_string())?;
    Ok(kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

/// A client for a kubeconfig.
///
/// # Errors
/// The file cannot be read, or is no kubeconfig.
pub async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    Ok(kube::Client::try_from(config(kubeconfig).await?)?)
}
