//! The real binaries, as processes of their own.

use anyhow::{Context, bail};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};
use tokio::process::{Child, Command as AsyncCommand};

/// Paths of the binaries.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `roundhouse`
    pub roundhouse: PathBuf,
    /// `roundhouse-agent`
    pub agent: PathBuf,
}

/// Builds the binaries, once per process.
///
/// It asks cargo for what `cargo test --workspace` has just built, with the same features: after that command nothing is
/// compiled again.
///
/// # Errors
/// They do not build.
pub fn binaries() -> anyhow::Result<Binaries> {
    static BUILT: OnceLock<Result<Binaries, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

fn build() -> anyhow::Result<Binaries> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "test",
        "--workspace",
        "--no-run",
        "--locked",
        "--message-format=json",
    ]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!(
            "the binaries do not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let artifacts: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let find = |name: &str| {
        let is_it = |artifact: &&Value| {
            artifact["target"]["name"] == name
                && artifact["target"]["kind"][0] == "bin"
                && artifact["profile"]["test"] == false
        };
        let executable = artifacts
            .iter()
            .filter(is_it)
            .find_map(|artifact| artifact["executable"].as_str());
        executable
            .map(PathBuf::from)
            .with_context(|| format!("cargo built no binary {name}"))
    };
    Ok(Binaries {
        roundhouse: find("roundhouse")?,
        agent: find("roundhouse-agent")?,
    })
}

/// A running process, whose output goes to files. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `binary` in `directory`; its output goes to `<name>.out` and `<name>.err` there.
    ///
    /// # Errors
    /// It does not start.
    pub fn start<S: AsRef<OsStr>>(
        binary: &Path,
        arguments: impl IntoIterator<Item = S>,
        directory: &Path,
        name: &str,
    ) -> anyhow::Result<Process> {
        let (stdout, stderr) = (
            directory.join(format!("{name}.out")),
            directory.join(format!("{name}.err")),
        );
        let child = AsyncCommand::new(binary)
            .args(arguments)
            .current_dir(directory)
            .env_remove("RUST_LOG")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start", binary.display()))?;
        Ok(Process {
            child,
            stdout,
            stderr,
        })
    }

    /// What it has written to stdout so far.
    pub fn stdout(&self) -> String {
        std::fs::read_to_string(&self.stdout).unwrap_or_default()
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The system does not say.
    pub fn ended(&mut self) -> anyhow::Result<Option<std::process::ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub async fn terminate(mut self) -> anyhow::Result<std::process::ExitStatus> {
        if let Some(id) = self.child.id() {
            AsyncCommand::new("kill")
                .args(["-TERM", &id.to_string()])
                .status()
                .await?;
        }
        Ok(self.child.wait().await?)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// The system does not say.
    pub async fn wait(&mut self) -> anyhow::Result<std::process::ExitStatus> {
        Ok(self.child.wait().await?)
    }
}

/// A client for a kubeconfig.
///
/// # Errors
/// The file cannot be read, or is no kubeconfig.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    use kube::config::{KubeConfigOptions, Kubeconfig};
    // A second installation could only be this one again.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| kubeconfig.display().to_string())?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
